"""The embedded platform as its users see it: real processes, which do what the test tells them."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from augury.config import Resources
from augury.errors import DefinitionError, GatewayError, PlatformError
from augury.invoke.embedded.emulation import Constant, Emulation
from augury.invoke.embedded.platform import Embedded, EmbeddedPlatform
from augury.invoke.http_gateway import HttpGateway
from augury.storage.protocols import RunEnded, Status, WorkerLeft
from tests.invoke.stage import (
    Puppet,
    Stage,
    begin_run,
    embedded,
    events_of,
    family,
    invocation,
    leftovers,
    lives,
    make_stage,
    settle,
    wait_until,
)

__all__ = ["make_stage"]


@pytest.fixture(name="platform")
def start_platform(stage: Stage) -> Iterator[EmbeddedPlatform]:
    with embedded(slots=3, enforce_limits=False).start() as platform:
        yield platform


def run_one(platform: EmbeddedPlatform, stage: Stage, name: str, stamp: str = "s", memory_mb: int = 256) -> Puppet:
    """Let one invocation begin and end; its worker is idle afterwards."""
    done = platform.gateway().status()["invocations"]
    platform.gateway().invoke([invocation(name, stamp=stamp, memory_mb=memory_mb)])
    puppet = stage.next()
    puppet.finish()
    settle(platform, running=0, invocations=done + 1)
    return puppet


def test_an_invocation_reaches_a_handler_with_its_context(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation("w1", run_id="run-1")])
    facts = stage.next().facts
    assert (facts["run"], facts["worker"], facts["cold"]) == ("run-1", "w1", True)
    assert facts["gateway_url"] == platform.url
    assert facts["received_s"] <= facts["began_s"]


def test_the_token_does_not_show_in_the_context(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation()])
    assert platform.token not in stage.next().facts["context"]


def test_a_worker_is_reused_for_the_same_resources_and_code(platform: EmbeddedPlatform, stage: Stage) -> None:
    first = run_one(platform, stage, "first")
    second = run_one(platform, stage, "second")
    assert (first.cold, second.cold) == (True, False)
    assert first.pid == second.pid


@pytest.mark.parametrize("other", [{"stamp": "changed"}, {"memory_mb": 512}])
def test_a_worker_is_not_reused_for_other_code_or_other_resources(
    platform: EmbeddedPlatform, stage: Stage, other: dict[str, object]
) -> None:
    first = run_one(platform, stage, "first")
    second = run_one(platform, stage, "second", **other)  # type: ignore[arg-type]
    assert second.cold
    assert first.pid != second.pid


def test_with_no_keep_alive_every_start_is_cold_and_no_worker_stays(stage: Stage) -> None:
    with embedded(keep_alive_s=0, enforce_limits=False).start() as platform:
        pids = [run_one(platform, stage, name) for name in "abc"]
        assert all(puppet.cold for puppet in pids)
        wait_until(lambda: not any(lives(puppet.pid) for puppet in pids), "the workers are gone")


def test_an_idle_worker_ends_when_its_time_is_over(stage: Stage) -> None:
    with embedded(keep_alive_s=0.05, enforce_limits=False).start() as platform:
        puppet = run_one(platform, stage, "w")
        wait_until(lambda: not lives(puppet.pid), "the worker is gone")
        settle(platform, idle=0)


def test_idle_workers_beyond_the_bound_end(stage: Stage) -> None:
    with embedded(slots=3, max_idle=1, enforce_limits=False).start() as platform:
        platform.gateway().invoke([invocation(name) for name in "abc"])
        puppets = [stage.next() for _ in range(3)]
        for puppet in puppets:
            puppet.finish()
        settle(platform, running=0, idle=1)
        wait_until(lambda: sum(lives(puppet.pid) for puppet in puppets) == 1, "one worker is left")


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_no_more_invocations_run_at_once_than_there_are_slots(stage: Stage, slots: int) -> None:
    with embedded(slots=slots, enforce_limits=False).start() as platform:
        platform.gateway().invoke([invocation(f"w{number}") for number in range(slots + 3)])
        puppets = [stage.next() for _ in range(slots)]
        assert platform.limits.concurrency == slots
        status = platform.gateway().status()
        assert (status["running"], status["queued"]) == (slots, 3)
        assert stage.is_empty()
        puppets[0].finish()
        stage.next()
        assert platform.gateway().status()["queued"] == 2


def test_queued_invocations_start_in_the_order_they_came(stage: Stage) -> None:
    with embedded(slots=1, enforce_limits=False).start() as platform:
        names = [f"w{number}" for number in range(6)]
        platform.gateway().invoke([invocation(name) for name in names])
        began = []
        for _ in names:
            puppet = stage.next()
            began.append(puppet.worker)
            puppet.finish()
        assert began == names


def test_an_invocation_that_is_sent_twice_runs_once(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation("w", attempt=1)])
    platform.gateway().invoke([invocation("w", attempt=1), invocation("w", attempt=2)])
    assert platform.gateway().status()["invocations"] == 2
    stage.next().finish()
    stage.next().finish()
    settle(platform, running=0, queued=0)
    assert stage.is_empty()


def test_two_hundred_workers_live_at_once(stage: Stage) -> None:
    with embedded(slots=200).start() as platform:
        platform.gateway().invoke([invocation(f"w{number}") for number in range(200)])
        pids = {stage.next().pid for _ in range(200)}
        assert len(pids) == 200
        assert pids < family(platform.pid)


def test_prewarmed_workers_wait_and_the_next_invocation_is_warm(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().prewarm(Resources(64, 256), 2)
    assert settle(platform, idle=2)["prewarmed"] == 2
    assert not run_one(platform, stage, "w", stamp="any").cold


def test_workers_have_random_numbers_of_their_own(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation("a"), invocation("b")])
    first, second = (stage.next().order("random") for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_a_worker_holds_no_descriptors_but_its_own(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation("a"), invocation("b")])
    first, second = stage.next().order("descriptors"), stage.next().order("descriptors")
    assert first[0] == "/dev/null"
    assert sum(name.endswith("platform.log") for name in first) == 2
    sockets = [{name for name in names if name.startswith("socket:")} for names in (first, second)]
    assert [len(names) for names in sockets] == [2, 2]  # to the supervisor, and to the test
    assert not sockets[0] & sockets[1]


def test_an_interrupt_does_not_reach_a_worker(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation()])
    puppet = stage.next()
    puppet.order("interrupt")
    assert puppet.order("echo", "still-here") == "still-here"


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (("signal", int(signal.SIGKILL)), "was killed by SIGKILL after"),
        (("signal", int(signal.SIGSEGV)), "was killed by SIGSEGV after"),
        (("exit", 3), "exited with status 3 after"),
        (("exit", 0), "exited with status 0 after"),
        (("raise", "as-ordered"), "RuntimeError: as-ordered"),
        (("leave", 4), "SystemExit: 4"),
    ],
)
def test_a_worker_that_dies_with_an_invocation_fails_its_run(
    platform: EmbeddedPlatform, stage: Stage, order: tuple[object, ...], told: str
) -> None:
    doomed = invocation("w7", attempt=2)
    run = begin_run(platform, joined=[doomed])
    platform.gateway().invoke([doomed])
    puppet = stage.next()
    puppet.send(*order)
    left, ended = events_of(run, 2)
    assert isinstance(left, WorkerLeft)
    summary = left.summary
    assert (summary.worker, summary.attempt, summary.cold, summary.memory_mb) == ("w7", 2, True, 256)
    assert summary.duration_s > 0
    assert isinstance(ended, RunEnded)
    assert ended.status is Status.FAILED
    assert ended.failure.decode().startswith("w7: ")
    assert told in ended.failure.decode()
    settle(platform, running=0, lost=1)
    assert run_one(platform, stage, "next").pid != puppet.pid


def test_what_workers_refuse_to_unpickle_is_counted(platform: EmbeddedPlatform, stage: Stage) -> None:
    for count in (2, 3):
        platform.gateway().invoke([invocation(f"w{count}")])
        puppet = stage.next()
        puppet.order("refuse", count)
        puppet.finish()
    settle(platform, running=0, refused=5)


@pytest.mark.parametrize("size", [3, 4, 5000])
def test_a_worker_that_talks_nonsense_is_given_up(platform: EmbeddedPlatform, stage: Stage, size: int) -> None:
    run = begin_run(platform)
    platform.gateway().invoke([invocation("w7")])
    puppet = stage.next()
    assert puppet.order("babble", size) == size
    puppet.finish()
    assert isinstance(events_of(run, 1)[0], WorkerLeft)
    settle(platform, lost=1)


def test_an_idle_worker_that_is_killed_costs_no_invocation(platform: EmbeddedPlatform, stage: Stage) -> None:
    killed = run_one(platform, stage, "first")
    os.kill(killed.pid, signal.SIGKILL)
    platform.gateway().invoke([invocation("second")])
    second = stage.next()
    assert second.pid != killed.pid
    second.finish()
    assert settle(platform, running=0)["lost"] == 0


def test_what_a_dead_worker_had_started_dies_too(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation()])
    puppet = stage.next()
    child = puppet.order("spawn", "shared")
    puppet.send("exit", 1)
    wait_until(lambda: not lives(child), "the subprocess is gone")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")
def test_orphans_do_not_become_children_of_their_worker_and_are_reaped(
    platform: EmbeddedPlatform, stage: Stage
) -> None:
    platform.gateway().invoke([invocation()])
    puppet = stage.next()
    orphan = puppet.order("spawn_orphan")
    assert puppet.order("children") == []
    os.kill(orphan, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{orphan}").exists(), "not even a zombie is left")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")
def test_daemons_of_modules_outlive_workers_and_end_with_the_platform(stage: Stage) -> None:
    with embedded(enforce_limits=False, preload=("tests.invoke.companion",)).start() as platform:
        platform.gateway().invoke([invocation("a")])
        puppet = stage.next()
        daemon = puppet.order("start_daemon")
        puppet.send("exit", 0)
        settle(platform, running=0)
        run_one(platform, stage, "next")  # the pre-loaded parent has seen to all that died
        assert lives(daemon)
    assert not lives(daemon)


def test_a_worker_that_left_its_process_group_can_be_killed(platform: EmbeddedPlatform, stage: Stage) -> None:
    platform.gateway().invoke([invocation()])
    puppet = stage.next()
    assert puppet.order("join_group") == platform.pid
    platform.gateway().stop("run")
    puppet.wait_for_the_end()


def test_a_stopped_run_loses_its_queue_and_its_workers_without_a_failure(stage: Stage) -> None:
    with embedded(slots=1, enforce_limits=False).start() as platform:
        run = begin_run(platform, "doomed/run")
        gateway = platform.gateway()
        gateway.invoke([invocation("a", "doomed/run"), invocation("b", "doomed/run"), invocation("c", "other")])
        doomed = stage.next()
        gateway.stop("doomed/run")
        other = stage.next()
        assert other.worker == "c"
        doomed.wait_for_the_end()
        (left,) = events_of(run, 1)
        assert isinstance(left, WorkerLeft)
        assert run.status() is Status.RUNNING
        gateway.invoke([invocation("late", "doomed/run")])
        assert settle(platform, running=1, queued=0)["lost"] == 0


def test_a_wrong_token_is_refused(platform: EmbeddedPlatform) -> None:
    gateway = HttpGateway(platform.url, "guess")
    with pytest.raises(GatewayError, match="refuses the token"):
        gateway.invoke([invocation()])
    gateway.close()
    assert platform.gateway().status()["invocations"] == 0


def test_emulated_cold_starts_delay_cold_invocations_only(stage: Stage) -> None:
    emulation = Emulation(cold_start=Constant(0.3))
    with embedded(emulation=emulation, enforce_limits=False).start() as platform:
        cold, warm = (run_one(platform, stage, name).facts for name in "ab")
        assert cold["began_s"] - cold["received_s"] >= 0.3
        assert warm["began_s"] - warm["received_s"] < 0.3


def test_workers_get_the_emulation_and_the_storage(stage: Stage) -> None:
    emulation = Emulation(storage_latency_s=0.001)
    with embedded(emulation=emulation, enforce_limits=False).start() as platform:
        platform.gateway().invoke([invocation()])
        context = stage.next().facts["context"]
        assert "storage_latency_s=0.001" in context
        assert platform.storage_config.redis in context


def test_a_handler_that_cannot_be_imported_is_told_at_the_start() -> None:
    with pytest.raises(PlatformError, match="No module named 'not_there'") as caught:
        Embedded(handler="not_there:handle", on_loss="os:getcwd").start()
    assert "Its log ends with" in str(caught.value)


def test_a_redis_that_cannot_start_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(PlatformError, match=r"redis\.sock is too long for a socket"):
        embedded().start()
    assert list(long.iterdir()) == []


def test_modules_beside_the_users_script_do_not_get_in_the_way(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asyncio.py").write_text("raise RuntimeError('not meant for us')")
    monkeypatch.chdir(tmp_path)
    with embedded().start() as platform:
        assert platform.alive


def test_a_platform_knows_when_its_supervisor_is_gone(stage: Stage) -> None:
    with embedded().start() as platform:
        os.kill(platform.pid, signal.SIGTERM)
        wait_until(lambda: not platform.alive, "the supervisor is gone")
    assert leftovers(platform) == []


def test_a_start_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(PlatformError, match="did not start within 0 s"):
        embedded(start_timeout_s=0).start()


def test_a_platform_uses_the_redis_that_it_is_given(platform: EmbeddedPlatform) -> None:
    with embedded(enforce_limits=False).start(redis=platform.storage_config.redis) as other:
        assert other.storage_config.redis == platform.storage_config.redis
        assert other.storage_config.object_dir != platform.storage_config.object_dir
    begin_run(platform)  # the first platform's server still runs


def test_closing_twice_does_nothing_the_second_time(stage: Stage) -> None:
    platform = embedded().start()
    platform.close()
    platform.close()
    assert leftovers(platform) == []


def test_a_closed_platform_is_told_by_its_gateway(stage: Stage) -> None:
    platform = embedded().start()
    gateway = platform.gateway()
    gateway.limits()
    platform.close()
    with pytest.raises(GatewayError, match=r"cannot be reached \(connection refused\).*: check the address"):
        gateway.invoke([invocation()])


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"keep_alive_s": -1}, {"max_idle": -1}, {"handler": "no_function"}])
def test_senseless_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match=rf"Embedded\.{next(iter(wrong))} must be"):
        Embedded(**wrong)  # type: ignore[arg-type]
