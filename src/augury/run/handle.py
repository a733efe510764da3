"""What the user holds of a run."""

import importlib
import os
import threading
from collections.abc import Generator
from concurrent.futures import Future, wait
from typing import Any, Generic, NoReturn, TypeVar

from augury.errors import DefinitionError, RunError, StorageError
from augury.observation import RunReport
from augury.plan.plan import Plan
from augury.run.watch import RunWatch

T_co = TypeVar("T_co", covariant=True)


class Run(Generic[T_co]):
    """One execution of a workflow.

    Made by `Client.submit`. `run.result()` waits for the value, and so does `await run`.

    Attributes:
        run_id: Its id, unique everywhere.
        name: The workflow's name.
    """

    def __init__(self, *, run_id: str, name: str, watch: RunWatch) -> None:
        self.run_id = run_id
        self.name = name
        self._watch = watch
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.name}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(
            f"run {self.name} ({self.run_id}) is the handle of one client's run and cannot be given to a task or to "
            "another client: pass run.result(), or the task itself"
        )

    @property
    def plan(self) -> Plan:
        """The plan that its workers carry out, with what is predicted for it."""
        return self._watch.plan()

    @property
    def status(self) -> str:
        """`running`, `succeeded`, `failed` or `cancelled`; `gone` if the storage no longer knows the run.

        `detached` if its client was closed while it went on: `augury.attach` follows it.
        """
        return "detached" if self._watch.was_let_go else str(self._watch.status())

    def done(self) -> bool:
        """Whether the run is over, or its client was closed, so that `result()` answers at once."""
        return self._watch.value.done()

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the value. Ctrl-C meanwhile cancels the run, unless another client started it.

        With it, this client has what it wants of the run, which is removed if no other one follows it.

        Args:
            timeout: How many seconds to wait at most.

        Raises:
            TimeoutError: It took longer; the run goes on.
            Exception: What a task raised, as it raised it; its cause tells which task, and where.
            RunError: The run ended without a value in another way.
        """
        value = self._watch.value
        self._check_owner(value)
        try:
            wait([value], _seconds("result", timeout))
        except KeyboardInterrupt:
            if self._watch.attached:
                raise
            self._watch.abort()  # who presses Ctrl-C often leaves at once: the workers must have been stopped by then
            raise
        if not value.done():
            raise TimeoutError(f"run {self.name} ({self.run_id}) is not over after {timeout} s; it goes on")
        if isinstance(value.exception(), StorageError):
            self._take_beside()  # storage may be away, and has had all the patience that the user has
        else:
            self._take()
        return value.result()  # type: ignore[no-any-return]

    def cancel(self) -> bool:
        """End the run; whether it was still running.

        Workers hear of it and stop what they do. Those that do not within a moment are killed; no more are started.
        """
        self._check_owner(self._watch.value)
        return self._watch.cancel()

    def report(self, timeout: float | None = None) -> RunReport:
        """Wait for the end and tell what the run took.

        Raises:
            TimeoutError: The run is not over yet.
        """
        self._check_owner(self._watch.settled)
        try:
            return self._watch.settled.result(_seconds("report", timeout))
        except TimeoutError:
            raise TimeoutError(f"run {self.name} ({self.run_id}) is not over after {timeout} s") from None

    def __await__(self) -> Generator[Any, None, T_co]:
        self._check_owner(self._watch.value)
        awaiting = importlib.import_module("augury.awaiting")
        cancel = None if self._watch.attached else self.cancel
        waiting = awaiting.wait_for_value(self._watch.value, cancel=cancel, take=self._take_beside)
        value: Generator[Any, None, T_co] = waiting.__await__()
        return value

    def _take(self) -> None:
        if self._owner == os.getpid():
            self._watch.parting.take()

    def _take_beside(self) -> None:
        if self._owner == os.getpid():
            self._watch.parting.take_beside()

    def _check_owner(self, wanted: "Future[Any]") -> None:
        """In a fork nobody watches the run, and what is waited for would never come."""
        if self._owner != os.getpid() and not wanted.done():
            raise RunError(
                f"run {self.name} ({self.run_id}) belongs to the process that this one was forked from: wait for it "
                f"there, or follow it here with augury.attach({self.run_id!r})"
            )


def _seconds(method: str, timeout: object) -> float | None:
    """A time to wait, no longer than can be waited."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not (isinstance(timeout, int | float) and timeout >= 0):
        raise DefinitionError(f"{method}(timeout=…) must be a number of seconds, at least 0, or None, not {timeout!r}")
    return min(timeout, threading.TIMEOUT_MAX)
