"""The supervisor, in front of a pre-loaded parent that a test plays."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from augury.config import StorageConfig
from augury.invoke.embedded import parents as parents_module
from augury.invoke.embedded import supervisor as supervisor_module
from augury.invoke.embedded.cgroups import open_limits
from augury.invoke.embedded.cloud import Constant, Emulation
from augury.invoke.embedded.supervisor import Supervisor
from augury.invoke.embedded.wire import FORK, KILL, REQUEST, Done, Exited, Forked, Refused, Settings, Started, frame
from augury.invoke.gateway import Invocation
from tests.invoke.stage import PATIENCE_S, PUPPETS, invocation


@pytest.fixture(name="parent")
def start_parent() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that lives, and does nothing."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def settings_in(folder: Path) -> Settings:
    return Settings(
        token="t",
        keys=(),
        redis="",
        patience_s=1.0,
        redis_timeout_s=None,
        linger_s=0.0,
        detached_s=0.0,
        folder=str(folder),
        folder_lock=-1,
        object_dir=str(folder),
        object_lock=-1,
        slots=1,
        max_idle=1,
        keep_alive_s=60.0,
        enforce_limits=False,
        emulation=None,
        handler=PUPPETS["handler"],
        on_loss=PUPPETS["on_loss"],
        rehearsal=PUPPETS["rehearsal"],
        preload=(),
        sys_path=(),
        body_bytes=1,
        start_timeout_s=0.0,
    )


def play(
    parent: "subprocess.Popen[bytes]",
    folder: Path,
    act: Callable[[Supervisor, socket.socket], None],
    settings: Settings | None = None,
) -> None:
    """Have a supervisor whose pre-loaded parent is that process, and says what is written into the socket."""

    async def main() -> None:
        ours, theirs = socket.socketpair()
        storage = StorageConfig(redis="unix:///nowhere", object_dir=str(folder))
        supervisor = Supervisor(settings or settings_in(folder), storage, open_limits("test", False), parent.pid, ours)
        with theirs:
            try:
                act(supervisor, theirs)
                await asyncio.sleep(0)  # what was said is heard
                await asyncio.sleep(0)
                supervisor._watch_zygote()
            finally:
                supervisor._zygote.close()  # what follows from its end is no matter of these tests

    asyncio.run(main())


def test_a_parent_that_leaves_a_fork_unanswered_for_too_long_is_killed(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parents_module, "_SILENT_S", 0.0)
    play(parent, tmp_path, lambda supervisor, _: supervisor.invoke([invocation("a")]))
    assert parent.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_parent_that_answers_or_has_nothing_to_answer_lives(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        control.sendall(frame(Forked(number, parent.pid)))

    monkeypatch.setattr(parents_module, "_SILENT_S", 0.0)
    play(parent, tmp_path, lambda _supervisor, _control: None)
    play(parent, tmp_path, answer)
    assert parent.poll() is None


def test_the_parent_is_watched_while_somebody_is_to_be_killed(
    parent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    def stop(supervisor: Supervisor, _: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_zygote(Forked(number, parent.pid))
        supervisor.stop("run")
        supervisor._inspect()
        assert supervisor._inspection is not None
        supervisor._on_zygote(Exited(number, signal.SIGKILL, 0))
        supervisor._inspect()
        assert supervisor._inspection is None

    play(parent, tmp_path, stop)


def requests(control: socket.socket) -> list[tuple[int, int]]:
    """What the pre-loaded parent is asked for."""
    asked = []
    with suppress(BlockingIOError):
        while True:
            asked.append(REQUEST.unpack(control.recv(REQUEST.size, socket.MSG_DONTWAIT)))
    return asked


def test_a_worker_that_takes_long_to_come_up_is_killed_when_it_is_asked_for_again(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_again(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_zygote(Forked(number, parent.pid))
        supervisor.invoke([invocation("a")])
        assert requests(control) == [(FORK, number), (KILL, number)]

    monkeypatch.setattr(supervisor_module, "_STUCK_S", -1.0)
    play(parent, tmp_path, ask_again)


def test_a_worker_that_is_up_is_left_alone_when_it_is_asked_for_again_unless_it_is_stopped(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_again(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_zygote(Forked(number, parent.pid))
        supervisor._on_worker(number, Started())
        supervisor.invoke([invocation("a")])
        assert requests(control) == [(FORK, number)]
        parent.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, parent.pid, os.WSTOPPED | os.WNOWAIT)
        supervisor.invoke([invocation("a")])
        assert requests(control) == [(KILL, number)]

    monkeypatch.setattr(supervisor_module, "_STUCK_S", -1.0)
    play(parent, tmp_path, ask_again)


def test_a_worker_whose_start_is_imitated_is_waited_for(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_again(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_zygote(Forked(number, parent.pid))
        supervisor.invoke([invocation("a")])
        assert requests(control) == [(FORK, number)]

    monkeypatch.setattr(supervisor_module, "_STUCK_S", -1.0)
    slow = Emulation(cold_start=Constant(1000.0))
    play(parent, tmp_path, ask_again, msgspec.structs.replace(settings_in(tmp_path), emulation=slow))


def test_a_worker_that_is_not_forked_yet_is_waited_for(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_again(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor.invoke([invocation("a")])
        assert requests(control) == [(FORK, number)]

    monkeypatch.setattr(supervisor_module, "_STUCK_S", -1.0)
    play(parent, tmp_path, ask_again)


def test_a_worker_that_is_spent_is_killed(parent: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    def finish(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_worker(number, Started())
        supervisor._on_worker(number, Done(spent=True))
        assert requests(control) == [(FORK, number), (KILL, number)]

    play(parent, tmp_path, finish)


def test_a_worker_that_is_done_and_not_spent_is_kept(parent: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    def finish(supervisor: Supervisor, control: socket.socket) -> None:
        supervisor.invoke([invocation("a")])
        (number,) = supervisor._workers
        supervisor._on_worker(number, Started())
        supervisor._on_worker(number, Done())
        assert requests(control) == [(FORK, number)]
        assert supervisor.counts().idle == 1

    play(parent, tmp_path, finish)


def test_a_refused_start_is_told_soon_however_late_its_attempt_and_however_many_were_refused(
    parent: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_s: list[float] = []

    def refuse(supervisor: Supervisor, refused: Invocation) -> None:
        supervisor.invoke([refused])
        supervisor._on_zygote(Refused(max(supervisor._workers), "none is left"))

    def refuse_often(supervisor: Supervisor, control: socket.socket) -> None:
        def keep(pause_s: float, call: Callable[..., None], *_: object) -> None:
            if call == supervisor._messenger.tell:
                pauses_s.append(pause_s)

        monkeypatch.setattr(supervisor._loop, "call_later", keep)
        for attempt in range(2000, 3100):
            refuse(supervisor, invocation("a", attempt=attempt))
        supervisor.invoke([invocation("b")])
        supervisor._on_zygote(Forked(max(supervisor._workers), parent.pid))
        supervisor.stop("run")
        refuse(supervisor, invocation("a", run_id="other", attempt=12))

    play(parent, tmp_path, refuse_often)
    first_s = 2 * supervisor_module._PAUSE_S
    assert pauses_s[:3] == [first_s, 2 * first_s, 4 * first_s]
    assert pauses_s[-2:] == [supervisor_module._LONGEST_PAUSE_S, first_s]
