"""Which outputs a worker has in memory, and who there takes them."""

from collections.abc import Callable, Collection, Iterable

from augury.worker import messages as m


class Memory:
    """Outputs here, and on their way here.

    Always true: a value is dropped as soon as no task here will take it, nobody outside has still to be given it, and
    it is not being fetched too (then it would come back).

    Args:
        is_held: Whether an output still has to be told, stored or published.
        dropped: Called with an output that was dropped.
        emit: Takes commands.

    Attributes:
        values: What is in memory.
        uses: Output → tasks here that will take it, and reasons to expect more.
        fetching: What is on its way here.
    """

    def __init__(
        self, is_held: Callable[[int], bool], dropped: Callable[[int], None], emit: Callable[[m.Command], None]
    ) -> None:
        self.values: set[int] = set()
        self.uses: dict[int, int] = {}
        self.fetching: set[int] = set()
        self._is_held = is_held
        self._dropped = dropped
        self._emit = emit

    def lacks(self, task: int) -> bool:
        """Whether something here will take an output, and it is not here."""
        return task in self.uses and task not in self.values

    def missing(self, tasks: Iterable[int]) -> set[int]:
        """Those of some outputs that are not here."""
        return {task for task in tasks if task not in self.values}

    def fetch(self, tasks: Iterable[int], *, early: bool = False) -> None:
        """Have outputs fetched, but those that are on their way."""
        missing = tuple(task for task in dict.fromkeys(tasks) if task not in self.fetching)
        if missing:
            self.fetching.update(missing)
            self._emit(m.Fetch(missing, early))

    def fetched(self, tasks: Collection[int]) -> None:
        """Outputs have come; those that nothing needs any more are dropped again."""
        self.fetching.difference_update(tasks)
        self.values.update(tasks)
        for task in tasks:
            if task not in self.uses:
                self.drop_if_unused(task)

    def fetch_failed(self, tasks: Iterable[int]) -> None:
        """Outputs do not come; some may have come in another way, or in part."""
        self.fetching.difference_update(tasks)
        lost = tuple(task for task in tasks if task not in self.values)
        if lost:
            self._emit(m.Discard(lost))

    def use(self, tasks: Iterable[int]) -> None:
        """Something here will take outputs."""
        uses = self.uses
        for task in tasks:
            uses[task] = uses.get(task, 0) + 1

    def release(self, tasks: Iterable[int]) -> None:
        """It has taken them, or will not."""
        uses = self.uses
        for task in tasks:
            uses[task] -= 1
            if not uses[task]:
                del uses[task]
                self.drop_if_unused(task)

    def drop_if_unused(self, task: int) -> None:
        """Forget a value that nothing here will take and that nobody else can miss."""
        if task in self.uses or task not in self.values or task in self.fetching or self._is_held(task):
            return
        self.values.discard(task)
        self._dropped(task)
        self._emit(m.Discard((task,)))
