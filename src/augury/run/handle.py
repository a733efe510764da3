"""What the user holds of a run."""

import importlib
from collections.abc import Generator
from typing import Any, Generic, NoReturn, TypeVar

from augury.errors import DefinitionError
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
        """`running`, `succeeded`, `failed`, `cancelled`, or `gone` if the storage no longer knows the run."""
        return str(self._watch.status())

    def done(self) -> bool:
        """Whether the run is over."""
        return self._watch.value.done()

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the value. Ctrl-C meanwhile cancels the run.

        Args:
            timeout: How many seconds to wait at most.

        Raises:
            TimeoutError: It took longer; the run goes on.
            Exception: What a task raised, as it raised it; its cause tells which task, and where.
            RunError: The run ended without a value in another way.
        """
        try:
            value: T_co = self._watch.value.result(timeout)
        except KeyboardInterrupt:
            self._watch.end()
            self._watch.join()  # who presses Ctrl-C often leaves at once: the workers must have been stopped by then
            raise
        except TimeoutError:
            if self._watch.value.done():
                raise
            raise TimeoutError(f"run {self.name} ({self.run_id}) is not over after {timeout} s; it goes on") from None
        return value

    def cancel(self) -> bool:
        """End the run; whether it was still running.

        Workers hear of it and stop what they do. Those that do not within a moment are killed; no more are started.
        """
        return self._watch.cancel()

    def report(self, timeout: float | None = None) -> RunReport:
        """Wait for the end and tell what the run took.

        Raises:
            TimeoutError: The run is not over yet.
        """
        return self._watch.settled.result(timeout)

    def __await__(self) -> Generator[Any, None, T_co]:
        awaiting = importlib.import_module("augury.awaiting")
        value: Generator[Any, None, T_co] = awaiting.wait_for_value(self._watch.value, self.cancel).__await__()
        return value
