"""Tasks whose outputs are kept: across runs, clients and programs, and computed again when something has changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import augury
from augury import Cache, Client, Embedded, task
from tests.embedded.conftest import Script


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def client(own_state: None) -> Iterator[Client]:
    with Client(platform=Embedded(slots=2), observers=[]) as client:
        yield client


class Log:
    """Counts calls by what they append to a file; equal to any other, so that it is the same argument."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Log, (self.path,)

    def note(self) -> None:
        with self.path.open("a") as file:
            file.write("x")

    @property
    def calls(self) -> int:
        return len(self.path.read_text()) if self.path.exists() else 0


@task(cache=True)
def square(x: Any, log: Log) -> Any:
    log.note()
    return x * x


@task
def total(*parts: Any) -> Any:
    return sum(parts)


def test_a_call_is_made_once_for_all_runs_and_clients(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert client.compute(total(*(square(x, log) for x in range(4)))) == 14
    run = client.submit(total(*(square(x, log) for x in range(5))))
    assert run.result() == 30
    assert log.calls == 5
    assert run.report().recalled == 4
    assert str(run.report()).startswith("6 tasks (4 from the cache) on ")
    with Client(platform=Embedded(slots=1), observers=[]) as other:
        assert other.compute(square(3, log)) == 9
    assert log.calls == 5


def test_equal_calls_of_one_run_may_share_an_output_too(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert client.compute(square(square(square(1, log), log), log)) == 1
    assert log.calls == 1


def test_large_arrays_and_coroutines(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")

    @task(cache=True)
    async def fill(size: int) -> Any:
        log.note()
        return np.arange(size)

    for _ in range(2):
        assert np.array_equal(client.compute(fill(200_000)), np.arange(200_000))
    array = client.compute(fill(200_000))
    array[:] = 0
    assert client.compute(square(fill(200_000), log))[-1] == 199_999**2
    assert log.calls == 2


def test_nothing_is_kept_of_a_call_that_raised(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")

    @task(cache=True, retries=1, backoff_s=0)
    def flaky() -> int:
        log.note()
        if log.calls < 2:
            raise OSError("not yet")
        return log.calls

    assert [client.compute(flaky()), client.compute(flaky())] == [2, 2]


def test_a_run_that_failed_goes_on_where_it_failed(client: Client, tmp_path: Path) -> None:
    calls, mended = tmp_path / "calls", tmp_path / "mended"

    @task(cache=True)
    def step(number: int) -> int:
        with calls.open("a") as file:
            file.write(".")
        if number == 90 and not mended.exists():
            raise ValueError("not yet")
        return number + 1

    last = step(0)
    for _ in range(99):
        last = step(last)
    with pytest.raises(ValueError, match="not yet"):
        client.compute(last)
    assert calls.stat().st_size == 91
    mended.touch()
    run = client.submit(last)
    assert run.result(timeout=60) == 100
    assert calls.stat().st_size == 91 + 10
    assert run.report().recalled == 90


def test_a_function_that_changed_is_called_again(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    factor = 2

    def define(source: str) -> Any:
        names: dict[str, Any] = {"__name__": "__main__", "log": log, "OFFSET": 1}
        exec(source, names)
        return task(cache=True)(names["f"])

    sources = [
        "def f(x):\n    log.note()\n    return x + OFFSET",
        "def f(x):\n    log.note()\n    return x - OFFSET",
    ]
    assert [client.compute(define(source)(1)) for source in sources * 2] == [2, 0, 2, 0]
    assert log.calls == 2
    changed = define(sources[0])
    changed.fn.__globals__["OFFSET"] = 5
    assert client.compute(changed(1)) == 6
    assert log.calls == 3

    @task(cache=True)
    def scale(x: int) -> int:
        log.note()
        return x * factor

    assert [client.compute(scale(3)), client.compute(scale(3))] == [6, 6]
    factor = 3
    assert client.compute(scale(3)) == 9
    assert log.calls == 5


def test_an_output_is_computed_again_when_its_time_is_over(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    short = task(cache=Cache(expires_s=1e-6))(square.fn)
    assert [client.compute(short(2, log)), client.compute(short(2, log))] == [4, 4]
    assert log.calls == 2


def test_what_was_kept_can_be_forgotten_or_left_alone(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    client.compute(square(2, log))
    with client:
        assert augury.clear_cache() == 1
        assert augury.clear_cache() == 0
    with Client(platform=Embedded(slots=1), observers=[], cache_bytes=0) as other:
        assert [other.compute(square(2, log)), other.compute(square(2, log))] == [4, 4]
    assert log.calls == 3


def test_a_folder_that_cannot_be_used_fails_no_task(client: Client, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "results").write_text("not a folder")
    assert [client.compute(square(2, log)), client.compute(square(2, log))] == [4, 4]
    assert log.calls == 2


def test_the_redis_of_the_user_keeps_it(redis_with_password: tuple[str, int, str], tmp_path: Path) -> None:
    host, port, password = redis_with_password
    address = f"redis://:{password.replace('/', '%2F').replace('@', '%40').replace(':', '%3A')}@{host}:{port}/0"
    log = Log(tmp_path / "log")
    for _ in range(2):
        with Client(redis=address, platform=Embedded(slots=1), observers=[]) as client:
            assert client.compute(square(2, log)) == 4
    assert log.calls == 1
    assert not (tmp_path / "state" / "results").exists()
    assert client.clear_cache() == 1


def test_a_program_finds_what_an_earlier_one_kept(script: Script, tmp_path: Path) -> None:
    source = """
        from dataclasses import dataclass
        from augury import task

        @dataclass
        class Point:
            x: int
            names: set

        SCALE = {"x": 3}

        @task(cache=True)
        def scaled(point):
            open("log", "a").write("x")
            return Point(point.x * SCALE["x"], point.names)

        print(scaled(Point(2, {"a", "b", "c"})).compute().x)
    """
    printed = [script(source).stdout for _ in range(2)]
    assert printed == ["6\n", "6\n"]
    assert (tmp_path / "log").read_text() == "x"
    assert script(source.replace('{"x": 3}', '{"x": 4}')).stdout == "8\n"
    assert script(source.replace("x: int", "x: float").replace("point.x *", "1 + point.x *")).stdout == "7\n"
    assert (tmp_path / "log").read_text() == "xxx"


def test_a_module_that_a_task_imports_when_it_is_called_counts(script: Script, tmp_path: Path) -> None:
    source = """
        from augury import Client, Embedded, task

        @task(cache=True)
        def price(x):
            from shop import tax
            open("log", "a").write("x")
            return x + tax()

        with Client(platform=Embedded(slots=1), observers=[]) as client:
            print(client.compute(price(1)), client.compute(price(1)))
    """
    for tax, printed, calls in ((10, "11 11\n", 1), (10, "11 11\n", 1), (20, "21 21\n", 2)):
        (tmp_path / "shop.py").write_text(f"def tax(): return {tax}\n")
        assert script(source, PYTHONDONTWRITEBYTECODE="1").stdout == printed
        assert len((tmp_path / "log").read_text()) == calls


HELPED = """
    import os
    from augury import Client, Embedded, task

    @task(cache=True)
    def version():
        import helper
        return helper.V

    @task
    def loaded():
        import helper
        return helper.V

    def show(*tasks, **settings):
        with Client(platform=Embedded(slots=1, **settings), observers=[]) as client:
            for each in tasks:
                run = client.submit(each())
                print(run.result(), run.report().recalled)
"""


def test_what_a_warm_worker_makes_with_a_module_that_was_replaced_is_not_kept(script: Script, tmp_path: Path) -> None:
    source = f"""{HELPED}
    import sys
    sys.path.insert(0, os.path.abspath("lib"))

    def replace():
        os.rename("lib", "old")
        os.rename("new", "lib")
        return version()

    show(loaded, replace)
    show(version, version)
    """
    for folder, number in (("lib", 1), ("new", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper.py").write_text(f"V = {number}\n")
    printed = script(source, PYTHONDONTWRITEBYTECODE="1").stdout
    assert printed.splitlines() == ["1 0", "1 0", "2 0", "2 1"]


def test_a_module_that_is_loaded_before_workers_start_counts(script: Script, tmp_path: Path) -> None:
    source = f"""{HELPED}
    preloaded = dict(preload=("helper", "other"), sys_path=(os.getcwd(),))
    show(version, version, **preloaded)
    open("other.py", "w").write("open('helper.py', 'w').write('V = 20')")
    show(version, **preloaded)
    show(version, version)
    """
    (tmp_path / "helper.py").write_text("V = 1\n")
    (tmp_path / "other.py").write_text("")
    printed = script(source, PYTHONDONTWRITEBYTECODE="1").stdout
    assert printed.splitlines() == ["1 0", "1 1", "1 0", "20 0", "20 1"]


def test_the_order_of_keywords_counts(client: Client) -> None:
    @task(cache=True)
    def names(**values: int) -> list[str]:
        return list(values)

    assert client.compute(names(a=1, b=2)) == ["a", "b"]
    assert client.compute(names(b=2, a=1)) == ["b", "a"]


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "1"])
def test_settings_that_cannot_be_meant_are_refused(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(augury.DefinitionError, match="cache_bytes"):
        Client(cache_bytes=wrong)
    monkeypatch.setenv("AUGURY_CACHE_BYTES", "much")
    with pytest.raises(augury.DefinitionError, match="AUGURY_CACHE_BYTES"):
        Client()
    with pytest.raises(augury.DefinitionError, match="expires_s"):
        Cache(expires_s=0)
