"""What is known from earlier runs, and how to add to it."""

import importlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import IO, Self

import msgspec

from augury.config import but_not, is_number, is_positive, is_whole, public_address
from augury.errors import DefinitionError, StorageError
from augury.metrics.history.folder import FolderStore, default_folder
from augury.metrics.history.lines import added, lines_of, merged, parse_lines
from augury.metrics.history.store import Entry, HistoryStore, function_subject, platform_subject, subjects_of
from augury.metrics.history.table import Summary, overview, summary_table
from augury.metrics.records import Records, Series, part_of_run

MOST_SOURCES = 4
"""How many other workflows are asked for what one does not know itself."""

_MOST_LISTED = 10
_REDIS_SCHEMES = ("redis", "rediss", "unix")


class History:
    """The records of earlier runs, by workflow.

    Workflows learn from each other: what one does not know of a function, or of the start-ups and transfers of a
    platform, it gets from the one that measured it last. So a workflow that is new, or whose structure changes with
    each run, knows its functions all the same.

    Args:
        store: Where the records are; `open_history` opens one.

    Raises:
        StorageError: From every method: the store cannot be read or written; says what to do.

    Example:
        >>> import tempfile
        >>> from augury.config import Resources
        >>> from augury.metrics.records import TaskRun, series_of
        >>> folder = tempfile.TemporaryDirectory()
        >>> history = open_history(folder.name)
        >>> measured = TaskRun(function="5c1e", name="resize", resources=Resources(), execution_s=2.5)
        >>> history.add("thumbnails", "run-1", series_of([measured]))
        >>> history.load("thumbnails").runs
        1
        >>> history.load("posters", functions=["5c1e"]).functions
        {'5c1e': 'resize'}
        >>> [entry.workflow for entry in history.workflows()]
        ['thumbnails']
        >>> folder.cleanup()
    """

    def __init__(self, store: HistoryStore) -> None:
        if isinstance(store, type) or not callable(getattr(store, "load", None)):
            raise DefinitionError(f"History takes a store of records, not {store!r}: augury.history(…) opens one")
        self._store = store

    @property
    def address(self) -> str:
        """Where the records are: a folder, or an address without user and password."""
        return self._store.address

    def load(self, workflow: str, functions: Iterable[str] = (), platform: str = "") -> Records:
        """What is known of a workflow that is about to run.

        Args:
            workflow: Its name, or else its fingerprint.
            functions: The versions of its functions; those that it knows nothing of are looked up in other workflows.
            platform: Where it will run; start-ups and transfers there are looked up likewise.
        """
        _check_name(workflow)
        own = self._store.load([workflow]).get(workflow)
        return self._completed(Records(workflow=workflow) if own is None else own, functions, [platform])

    def add(
        self,
        workflow: str,
        run_id: str,
        series: Iterable[Series],
        *,
        label: str = "",
        part: int = 0,
        inherit: bool = True,
        now_s: float | None = None,
    ) -> None:
        """Add what was measured in one run; adding the same run, or the same part of it, again changes nothing.

        Args:
            workflow: Its name, or else its fingerprint.
            run_id: The run.
            series: What was measured.
            label: How to call the workflow; by default as before.
            part: Which part of the run it is, if it is added bit by bit.
            inherit: Whether a function that is new here brings along what other workflows know of it. That is for
                workflows without a name of their own, whose fingerprint changes with their structure.
            now_s: When, in seconds since the epoch; by default now.

        Raises:
            DefinitionError: The measurements are damaged.
        """
        _check_name(workflow)
        measured = list(series)
        for one in measured:
            if len(one.rows) % one.row_bytes:
                raise DefinitionError(f"run {run_id} measured half a row of {one.of.kind}")
        subjects = subjects_of(measured)
        functions, platforms = _split(subjects)
        ended_s = time.time() if now_s is None else now_s

        def change(records: Records | None) -> Records | None:
            before = Records(workflow=workflow, label=workflow) if records is None else records
            if part_of_run(run_id, part) in before.recent:
                return None
            known = self._completed(before, functions, platforms) if inherit else before
            after = known.with_run(run_id, measured, ended_s, part)
            return msgspec.structs.replace(after, label=label) if label else after

        self._store.update(workflow, change, subjects)

    def workflows(self) -> list[Entry]:
        """All workflows with records, the one that ran last first."""
        return self._store.list()

    def forget(self, workflow: str) -> bool:
        """Remove the records of a workflow; whether there were any. What others learned from it stays theirs.

        Args:
            workflow: Its name or fingerprint, or the label that lists show if only one has it.

        Raises:
            DefinitionError: Several workflows have that label.
        """
        _check_name(workflow)
        return self._store.remove([self._called(workflow) or workflow]) > 0

    def prune(self, *, older_than_s: float | None = None, keep: int | None = None, now_s: float | None = None) -> int:
        """Remove the records of workflows that have not run for long; returns of how many.

        Args:
            older_than_s: Remove those that have not run for so long.
            keep: Remove all but so many, those that ran last.
            now_s: What to count from, in seconds since the epoch; by default now.

        Raises:
            DefinitionError: Neither is given, or one is no such number.
        """
        if older_than_s is None and keep is None:
            raise DefinitionError("prune what? Give older_than_s=…, keep=…, or both")
        if older_than_s is not None and not is_number(older_than_s):
            raise DefinitionError(f"prune(older_than_s=…) must be a number of seconds, {but_not(older_than_s)}")
        if now_s is not None and not is_positive(now_s):
            raise DefinitionError(f"prune(now_s=…) must be in seconds since the epoch, {but_not(now_s)}")
        if keep is not None and not is_whole(keep, least=0):
            raise DefinitionError(f"prune(keep=…) must be a whole number of at least 0, {but_not(keep)}")
        now_s = time.time() if now_s is None else now_s
        doomed = [
            entry.workflow
            for rank, entry in enumerate(self.workflows())
            if (keep is not None and rank >= keep)
            or (older_than_s is not None and entry.updated_s < now_s - older_than_s)
        ]
        return self._store.remove(doomed)

    def export(self, target: str | Path | IO[str], workflow: str | None = None) -> int:
        """Write records as lines of JSON: for each workflow a line of its own, then one for each record.

        Args:
            target: A path, or a file that is open for text.
            workflow: Of which workflow, by its name, fingerprint or label; by default of all.

        Returns:
            The number of records.

        Raises:
            DefinitionError: There is no such workflow, or several have that label.
        """
        chosen = self._chosen(workflow)
        count = 0
        with _target(target) as file:
            for records in self._each(chosen):
                file.writelines(lines_of(records))
                count += len(records)
        return count

    def import_lines(self, source: str | Path | IO[str] | IO[bytes]) -> int:
        """Add records that `export` wrote, here or elsewhere. Those that are here already are not added again.

        Nothing is added if a line is wrong.

        Args:
            source: A path, or an open file.

        Returns:
            The number of records that were new.

        Raises:
            DefinitionError: A line is wrong; names file and line, and says why.
        """
        with _source(source) as file:
            found = parse_lines(file, _name_of(source))
        return sum(map(self._merge, found))

    def table(self, workflow: str | None = None) -> str:
        """What is known of functions, as a table for each workflow.

        Args:
            workflow: Of which workflow, by its name, fingerprint or label; by default of all.

        Raises:
            DefinitionError: There is no such workflow, or several have that label.
        """
        tables = [summary_table(records, _summaries(records)) for records in self._each(self._chosen(workflow))]
        return "\n\n".join(tables) if tables else f"no records in {self.address}"

    def close(self) -> None:
        """Let go of connections."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"History({self.address!r})"

    def __str__(self) -> str:
        try:
            return overview(self.address, self.workflows())
        except StorageError as error:
            return str(error)

    def _completed(self, own: Records, functions: Iterable[str], platforms: Iterable[str]) -> Records:
        """Records, with what other workflows know of those of these functions and platforms that they do not."""
        known_functions, known_platforms = own.functions, own.platforms
        unknown = [
            *(platform_subject(platform) for platform in platforms if platform and platform not in known_platforms),
            *(function_subject(version) for version in functions if version not in known_functions),
        ]
        if not unknown:
            return own
        sources = {
            subject: workflow
            for subject, workflow in self._store.recall(list(dict.fromkeys(unknown))).items()
            if workflow != own.workflow
        }
        others = self._store.load(_chosen(sources)) if sources else {}
        for workflow, records in others.items():
            own = own.inheriting(records, *_split(subject for subject, source in sources.items() if source == workflow))
        return own

    def _merge(self, more: Records) -> int:
        count = 0

        def change(records: Records | None) -> Records | None:
            nonlocal count
            before = Records(workflow=more.workflow) if records is None else records
            after = merged(before, more)
            count = added(before, after)
            return None if after is before and records is not None else after

        # An import may be old: what somebody knows already stays as it is.
        subjects = subjects_of(more.series)
        known = self._store.recall(subjects)
        self._store.update(more.workflow, change, [subject for subject in subjects if subject not in known])
        return count

    def _each(self, workflows: Iterable[str]) -> Iterator[Records]:
        """The records of workflows, one after another: together they may not fit into memory."""
        for name in workflows:
            yield from self._store.load([name]).values()

    def _chosen(self, workflow: str | None) -> list[str]:
        """The workflow of that name or label, or all."""
        if workflow is None:
            return [entry.workflow for entry in self.workflows()]
        _check_name(workflow)
        found = self._called(workflow)
        if found is None:
            known = [entry.label or entry.workflow for entry in self.workflows()]
            listed = ", ".join(known[:_MOST_LISTED]) + (", …" if len(known) > _MOST_LISTED else "")
            raise DefinitionError(f"no workflow {workflow!r} in {self.address}; there is {listed or 'none at all'}")
        return [found]

    def _called(self, workflow: str) -> str | None:
        """The workflow of that name, or else the only one of that label; None if there is none."""
        if self._store.load([workflow]):
            return workflow
        found = [entry.workflow for entry in self.workflows() if entry.label == workflow]
        if len(found) > 1:
            raise DefinitionError(
                f"{len(found)} workflows are labelled {workflow!r}; give the fingerprint of one: {', '.join(found)}"
            )
        return found[0] if found else None


def open_history(where: str | PathLike[str] | None = None) -> History:
    """Open the records that are kept somewhere.

    Args:
        where: A folder, or an address of Redis such as `redis://host:6379/0`. By default `$AUGURY_STATE_DIR/history`,
            or a folder in this user's home.

    Raises:
        DefinitionError: It is neither.
        StorageError: There is no such default, or the address is wrong.

    Example:
        >>> open_history("redis://me:secret@host:6379/0")
        History('redis://host:6379/0')
    """
    if where is None:
        return History(FolderStore(default_folder()))
    given: object = where  # whatever its declared type
    path = fspath(given) if isinstance(given, str | PathLike) else None
    if not isinstance(path, str) or not path:
        raise DefinitionError(f"history must be a folder or an address of Redis, not {where!r}")
    scheme, separator, _ = path.partition("://")
    if not isinstance(where, str) or not (separator or path.partition(":")[0] in _REDIS_SCHEMES):
        return History(FolderStore(path))
    if not separator or scheme not in _REDIS_SCHEMES:
        raise DefinitionError(
            f"history must be a folder, or an address such as redis://host:6379/0, not {public_address(where)!r}"
        )
    store: HistoryStore = importlib.import_module("augury.metrics.history.shared").RedisStore(where)
    return History(store)


def _check_name(workflow: object) -> None:
    if not isinstance(workflow, str):
        raise DefinitionError(f"a workflow is named by a str, not by {workflow!r}")


def _summaries(records: Records) -> Sequence[Summary]:
    """What is known of each function. Imported here because it needs NumPy, which takes long to load."""
    found: Sequence[Summary] = importlib.import_module("augury.predict.summary").summarise(records)
    return found


def _chosen(sources: dict[str, str]) -> Sequence[str]:
    """The workflows that know most of what is looked for; before all, the one that knows the platform.

    Without knowing how long a worker takes to start nothing can be predicted, without one function nearly everything.
    """
    weights = Counter(sources.values())
    for subject, workflow in sources.items():
        if subject.startswith(platform_subject("")):
            weights[workflow] += len(sources)
    return [workflow for workflow, _ in weights.most_common(MOST_SOURCES)]


def _split(subjects: Iterable[str]) -> tuple[list[str], list[str]]:
    """The functions among subjects, and the platforms."""
    functions: list[str] = []
    platforms: list[str] = []
    for subject in subjects:
        (functions if subject.startswith(function_subject("")) else platforms).append(subject[2:])
    return functions, platforms


@contextmanager
def _source(file: str | Path | IO[str] | IO[bytes]) -> Iterator[Iterable[str | bytes]]:
    """The lines of a file of that name, or of the one that is open already."""
    with _explained(file):
        if isinstance(file, str | Path):
            with Path(file).open("rb") as opened:
                yield opened
        else:
            yield file


@contextmanager
def _target(file: str | Path | IO[str]) -> Iterator[IO[str]]:
    """A file of that name that appears when everything is written, or the one that is open already."""
    with _explained(file):
        if not isinstance(file, str | Path):
            yield file
            return
        path = Path(file)
        temporary = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with temporary.open("x", encoding="utf-8") as opened:
                yield opened
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _explained(file: object) -> Iterator[None]:
    if not isinstance(file, str | Path) and not hasattr(file, "read") and not hasattr(file, "write"):
        raise DefinitionError(f"records are written to, and read from, a path or an open file, not {file!r}")
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot use {_name_of(file)!r} for records: {error.strerror or error}") from error
    except ValueError as error:  # a name that no file can have
        raise StorageError(f"cannot use {_name_of(file)!r} for records: {error}") from error


def _name_of(file: object) -> str:
    return str(file) if isinstance(file, str | Path) else str(getattr(file, "name", "the given lines"))
