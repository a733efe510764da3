"""CPU and memory limits: by control groups where the system allows, by the next best where it does not."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury.config import Resources
from augury.invoke.embedded.cgroups import ControlGroups, KillCounter, enter, oom_kills, open_limits, sweep_groups
from augury.invoke.embedded.platform import EmbeddedPlatform
from augury.invoke.embedded.room import Room
from augury.invoke.embedded.wire import GroupEntry
from augury.storage.protocols import RunEnded
from tests.invoke.stage import (
    NO_CONTROL_GROUPS,
    Stage,
    begin_run,
    can_use_groups,
    embedded,
    events_of,
    invocation,
    lives,
    make_stage,
    settle,
    wait_until,
)

__all__ = ["make_stage"]

enforced = pytest.mark.skipif(not can_use_groups(), reason=NO_CONTROL_GROUPS)


@pytest.fixture(name="platform")
def start_platform(stage: Stage) -> Iterator[EmbeddedPlatform]:
    with embedded(slots=2).start() as platform:
        yield platform


@enforced
def test_the_platform_says_that_limits_are_enforced(platform: EmbeddedPlatform) -> None:
    memory, cpu = platform.notes
    assert memory.startswith("memory limits: cgroup v")
    assert cpu.startswith("cpu limits: cgroup v")
    assert platform.gateway().status()["notes"] == [memory, cpu]


@enforced
def test_a_worker_may_use_the_memory_that_it_was_given(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation(memory_mb=256)])
    assert stage.next().order("allocate", 200) == 200 * 1024 * 1024


@enforced
def test_a_worker_that_runs_out_of_memory_fails_its_run_and_says_so(platform: EmbeddedPlatform, stage: Stage) -> None:
    greedy = invocation("greedy", memory_mb=128)
    run = begin_run(platform, joined=[greedy])
    platform.gateway().invoke([greedy])
    stage.next().send("allocate", 400)
    _, ended = events_of(run, 2)
    assert isinstance(ended, RunEnded)
    text = ended.failure.decode()
    assert text.startswith("greedy: ran out of memory after ")
    assert text.endswith(" s")


@enforced
def test_a_worker_gets_no_more_processor_time_than_it_was_given(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation(cpus=0.2)])
    # 0.2 s of work at a fifth of a processor take a second, less what the first period gives at once.
    assert stage.next().order("burn", 0.2) > 0.7


@enforced
def test_objects_in_shared_memory_do_not_count_as_memory_of_the_worker(
    platform: EmbeddedPlatform, stage: Stage, tmp_path: Path
) -> None:
    platform.gateway().invoke([invocation(memory_mb=64)])
    puppet = stage.next()
    group = Path(puppet.facts["memory_group"])
    path = Path(platform.storage_config.object_dir) / "large"
    Room(group, memory_mb=64).make(200 * 1024 * 1024)
    assert puppet.order("write", path, 200) == 200 * 1024 * 1024
    assert oom_kills(group) == 0


@enforced
def test_without_room_they_would(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation(memory_mb=64)])
    puppet = stage.next()
    puppet.send("write", Path(platform.storage_config.object_dir) / "large", 200)
    puppet.wait_for_the_end()


@enforced
def test_a_worker_takes_its_group_and_all_in_it_along(stage: Stage) -> None:
    with embedded(keep_alive_s=0).start() as platform:
        platform.gateway().invoke([invocation()])
        puppet = stage.next()
        group = Path(puppet.facts["memory_group"])
        assert group.exists()
        daemon = puppet.order("spawn", "own")
        puppet.finish()
        settle(platform, running=0)
        wait_until(lambda: not lives(daemon), "what it had started is gone")
        platform.gateway().invoke([invocation("next")])
        stage.next().finish()
        wait_until(lambda: not group.exists(), "its group is gone")


def test_limits_can_be_switched_off(stage: Stage) -> None:
    with embedded(enforce_limits=False).start() as platform:
        assert platform.notes == ("memory and cpu limits not enforced: switched off",)
        platform.gateway().invoke([invocation(memory_mb=32)])
        puppet = stage.next()
        assert puppet.facts["memory_group"] == ""
        assert puppet.order("allocate", 100) == 100 * 1024 * 1024


def test_without_groups_a_process_can_limit_its_own_data() -> None:
    code = (
        "from augury.invoke.embedded.processes import limit_data\n"
        "limit_data(100)\n"
        "held = bytearray(90 << 20)\n"
        "try:\n    more = bytearray(200 << 20)\n"
        "except MemoryError:\n    raise SystemExit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


# A made-up system, to see what would be written


class System:
    """The files through which a process sees control groups, in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.top = folder / "cgroup"
        self.top.mkdir()

    def describe(self, cgroup: str, mountinfo: str) -> None:
        (self.proc / "cgroup").write_text(cgroup)
        (self.proc / "mountinfo").write_text(mountinfo.replace("TOP", str(self.top)))

    def group(self, name: str, **files: str) -> Path:
        folder = self.top / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("cgroup.procs", "cgroup.subtree_control", "memory.swappiness", "memory.swap.max"):
            (folder / file).write_text(files.get(file.replace(".", "_"), ""))
        return folder


@pytest.fixture(name="system")
def make_system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_in_version_1_a_worker_has_a_group_per_controller_below_our_own(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.describe(
        "4:memory:/outer/session\n1:cpu,cpuacct:/\n",
        "31 23 0:1 /outer TOP/memory rw - cgroup cgroup rw,memory\n"
        "32 23 0:2 / TOP/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 23 0:3 / TOP/pids rw - cgroup cgroup rw,pids\n",
    )
    own_memory, own_cpu = system.group("memory/session"), system.group("cpu")
    monkeypatch.setattr("augury.invoke.embedded.cgroups._check_access", lambda file: None)
    monkeypatch.setattr("augury.invoke.embedded.cgroups._write", lambda file, text: None)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    groups = open_limits("x", enforce=True, proc=system.proc)
    assert groups.notes == ("memory limits: cgroup v1", "cpu limits: cgroup v1")
    assert not groups.limits_data
    assert groups.entries(7, Resources(1.5, 300)) == (
        GroupEntry(str(own_memory / "augury-platform-x/w7"), (("memory.limit_in_bytes", str(300 * 1024 * 1024)),)),
        GroupEntry(str(own_cpu / "augury-platform-x/w7"), (("cpu.cfs_quota_us", "150000"),)),
    )
    assert groups.memory_group(7) == str(own_memory / "augury-platform-x/w7")
    groups.close()
    assert not (own_memory / "augury-platform-x").exists()


def test_in_version_2_the_platform_has_a_group_beside_our_own(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.describe("0::/app.slice/term.scope\n", "31 23 0:1 / TOP rw - cgroup2 cgroup2 rw\n")
    (system.top / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    system.group("app.slice", cgroup_subtree_control="cpu memory pids")
    system.group("app.slice/term.scope")
    written: list[tuple[str, str]] = []

    def write(file: str, text: str) -> None:
        written.append((str(Path(file).relative_to(system.top)), text))
        if file.endswith("term.scope/cgroup.subtree_control"):
            raise OSError(16, "Device or resource busy", file)

    monkeypatch.setattr("augury.invoke.embedded.cgroups._write", write)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    groups = open_limits("x", enforce=True, proc=system.proc)
    assert groups.notes == ("memory limits: cgroup v2", "cpu limits: cgroup v2")
    folder = system.top / "app.slice/augury-platform-x"
    assert groups.entries(1, Resources(0.5, 64)) == (
        GroupEntry(str(folder / "w1"), (("memory.max", str(64 * 1024 * 1024)), ("cpu.max", "50000 100000"))),
    )
    assert ("app.slice/augury-platform-x/cgroup.subtree_control", "+memory +cpu") in written
    assert ("app.slice/augury-platform-x/memory.swap.max", "0") in written
    groups.close()
    assert not folder.exists()


def test_more_processors_than_there_are_need_no_quota(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    system.describe("1:cpu:/\n", "32 23 0:2 / TOP/cpu rw - cgroup cgroup rw,cpu\n")
    system.group("cpu")
    monkeypatch.setattr("augury.invoke.embedded.cgroups._check_access", lambda file: None)
    groups = open_limits("x", enforce=True, proc=system.proc)
    assert [entry.limits for entry in groups.entries(1, Resources(2, 64))] == [()]


def test_a_tiny_limit_is_raised_to_what_an_interpreter_needs(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.describe("1:memory:/\n", "32 23 0:2 / TOP/memory rw - cgroup cgroup rw,memory\n")
    system.group("memory")
    monkeypatch.setattr("augury.invoke.embedded.cgroups._check_access", lambda file: None)
    monkeypatch.setattr("augury.invoke.embedded.cgroups._write", lambda file, text: None)
    groups = open_limits("x", enforce=True, proc=system.proc)
    assert groups.entries(1, Resources(1, 1))[0].limits == (("memory.limit_in_bytes", str(32 * 1024 * 1024)),)


def test_where_groups_are_refused_memory_falls_back_and_the_notes_say_why(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.describe("0::/\n", "31 23 0:1 / TOP rw - cgroup2 cgroup2 rw\n")
    (system.top / "cgroup.controllers").write_text("cpu memory\n")
    system.group(".")
    monkeypatch.setattr("os.access", lambda file, mode: False)
    groups = open_limits("x", enforce=True, proc=system.proc)
    memory, cpu = groups.notes
    assert memory.startswith("memory limits: RLIMIT_DATA (memory+cpu: no permission to move processes")
    assert cpu.startswith("cpu limits not enforced: memory+cpu: no permission to move processes")
    assert groups.unlimited == "CPU (no permission to move processes)"
    assert groups.limits_data
    assert groups.entries(1, Resources()) == ()


def test_where_there_are_no_groups_at_all_the_notes_say_so(tmp_path: Path) -> None:
    groups = open_limits("x", enforce=True, proc=tmp_path)
    _, cpu = groups.notes
    assert groups.unlimited == "CPU (no control groups)"
    assert cpu == "cpu limits not enforced: this system has no such control groups"


def test_entering_makes_the_group_sets_its_limits_and_moves_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "augury.invoke.embedded.cgroups._write", lambda file, text: written.append((Path(file).name, text))
    )
    enter([GroupEntry(str(tmp_path / "w1"), (("memory.max", "1"),))])
    assert (tmp_path / "w1").is_dir()
    assert written == [("memory.max", "1"), ("cgroup.procs", "0")]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n"),
    ],
)
def test_kills_for_memory_are_counted_in_both_versions(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    assert oom_kills(tmp_path) == 2
    killed = KillCounter(str(tmp_path))
    assert not killed.rose()
    (tmp_path / file).write_text(text.replace("oom_kill 2", "oom_kill 3"))
    assert killed.rose()


def test_a_group_without_counters_had_no_kills(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0
    assert not KillCounter(str(tmp_path)).rose()
    assert not KillCounter("").rose()


@enforced
def test_sweeping_removes_groups_that_nobody_holds_and_leaves_the_others() -> None:
    held = open_limits("test-held", enforce=True)
    left = open_limits("test-left", enforce=True)
    assert isinstance(held, ControlGroups)
    assert isinstance(left, ControlGroups)
    folders = [Path(groups.memory_group(1)).parent for groups in (held, left)]
    (folders[1] / "w1").mkdir()
    left.unlock()
    sweep_groups()
    assert [folder.exists() for folder in folders] == [True, False]
    held.close()
    assert not folders[0].exists()


def test_room_is_made_for_what_the_group_holds_in_shared_memory(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("")
    (tmp_path / "memory.stat").write_text("anon 5\nfile 7\nshmem 1000\n")
    room = Room(tmp_path, memory_mb=100)
    room.make(500)
    step = 16 * 1024 * 1024
    assert (tmp_path / "memory.max").read_text() == str(100 * 1024 * 1024 + 1000 + 500 + step)


def test_small_objects_share_the_room_that_one_step_made(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("")
    (tmp_path / "memory.stat").write_text("shmem 0\n")
    room = Room(tmp_path, memory_mb=100)
    room.make(1)
    (tmp_path / "memory.limit_in_bytes").write_text("untouched")
    for _ in range(16):
        room.make(1024 * 1024)
    assert (tmp_path / "memory.limit_in_bytes").read_text() == "untouched"
    room.make(1)
    assert (tmp_path / "memory.limit_in_bytes").read_text() != "untouched"
