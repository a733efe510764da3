"""Augury as users meet it: scripts of their own, run in fresh interpreters."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.embedded.conftest import Script


def test_a_script_without_a_main_guard(script: Script) -> None:
    done = script(
        """
        from augury import task

        class Point:
            def __init__(self, x):
                self.x = x

        offset = 1

        @task
        def shift(x):
            return Point(x + offset)

        @task
        def total(points):
            return sum(point.x for point in points)

        print(total([shift(i) for i in range(5)]).compute())
        """
    )
    assert (done.stdout, done.returncode) == ("15\n", 0), done.stderr


def test_retries_for_an_exception_of_the_script(script: Script) -> None:
    done = script(
        """
        from pathlib import Path
        from augury import task

        class Busy(Exception):
            pass

        @task(retries=3, backoff_s=0.01, retry_on=Busy)
        def fetch(log):
            with open(log, "a") as file:
                file.write("x")
            if len(Path(log).read_text()) < 3:
                raise Busy("not yet")
            return len(Path(log).read_text())

        print(fetch("log").compute())
        """
    )
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_objects_with_slots_come_back_to_the_script(script: Script) -> None:
    done = script(
        """
        import dataclasses
        from augury import task

        @dataclasses.dataclass(slots=True)
        class Point:
            x: object

        class Pair:
            __slots__ = ("left", "right")

            def __init__(self, left, right):
                self.left, self.right = left, right

        @task
        def both(point):
            return point, Pair(point, Point(point.x + 1))

        point, pair = both(task(lambda point: point)(Point(1))).compute()
        print(point == Point(1), type(pair) is Pair, pair.left is point, pair.right)
        """
    )
    assert (done.stdout, done.returncode) == ("True True True Point(x=2)\n", 0), done.stderr


def test_functions_in_a_module_beside_the_script(script: Script, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        textwrap.dedent(
            """
            import threading
            from augury import task

            lock = threading.Lock()  # cannot be pickled: the function must be imported, not copied

            def helper(x):
                with lock:
                    return x * 10

            @task
            def step(x):
                return helper(x)
            """
        )
    )
    done = script("from steps import step\nprint(step(step(1)).compute())\n")
    assert (done.stdout, done.returncode) == ("100\n", 0), done.stderr


def test_what_a_task_prints_reaches_the_terminal_with_its_label(script: Script) -> None:
    done = script(
        """
        import sys
        from augury import task

        @task
        def talk(i):
            print("hello", i)
            print("careful", i, file=sys.stderr)
            return i

        @task
        def both(*parts):
            return sum(parts)

        print(both(talk(1), talk(2)).compute())
        """
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {"[talk[0]] hello 1", "[talk[1]] hello 2", "3"}
    told = [line for line in done.stderr.splitlines() if not line.startswith("the embedded platform cannot limit")]
    assert set(told) == {"[talk[0]] careful 1", "[talk[1]] careful 2"}


def test_the_report_is_on_standard_error(script: Script) -> None:
    done = script(
        """
        from augury import task

        @task
        def one():
            return 1

        print(one().compute())
        """,
        AUGURY_PROGRESS="auto",
    )
    assert done.stdout == "1\n"
    assert "1 task on 1 worker" in done.stderr


def test_a_failing_script_shows_the_remote_traceback(script: Script) -> None:
    done = script(
        """
        from augury import task

        @task
        def divide(a, b):
            return a / b

        @task
        def show(x):
            return x

        show(divide(1, 0)).compute()
        """
    )
    assert done.returncode == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "divide[0] failed" in done.stderr
    assert "needed by show[0]" in done.stderr


def test_two_scripts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(
            """
            import sys
            from augury import task

            @task
            def add(*xs):
                return sum(xs)

            base = int(sys.argv[1])
            print(add(*[add(base, i) for i in range(20)]).compute())
            """
        )
    )
    env = {**os.environ, "AUGURY_PROGRESS": "off"}
    running = [
        subprocess.Popen([sys.executable, str(path), base], stdout=subprocess.PIPE, text=True, env=env)
        for base in ("100", "1000")
    ]
    assert [process.communicate(timeout=60)[0] for process in running] == ["2190\n", "20190\n"]


def test_a_missing_module_on_the_worker_is_named(script: Script, tmp_path: Path) -> None:
    (tmp_path / "fleeting.py").write_text("from augury import task\n\n@task\ndef use(_):\n    return 1\n")
    done = script(
        """
        import os
        from augury import task
        from fleeting import use

        @task
        def uninstall():
            os.remove("fleeting.py")

        use(uninstall()).compute()
        """
    )
    assert done.returncode == 1
    assert "use[0]" in done.stderr
    assert "needs the module 'fleeting'" in done.stderr


def test_ctrl_c_cancels_the_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(
            f"""
            import os, threading
            from augury import task

            @task
            def endless():
                print(os.getpid(), flush=True)
                with open({str(marker)!r}, "w") as file:
                    file.write(str(os.getpid()))
                threading.Event().wait()

            endless().compute()
            """
        )
    )
    env = {**os.environ, "AUGURY_PROGRESS": "off"}
    with subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.readline()  # the task runs
        pid = int(printed.rpartition(" ")[2])
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in stderr
    assert not _exists(pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
