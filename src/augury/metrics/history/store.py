"""What keeps the records of workflows: a protocol, and what all that follow it share.

A store holds *documents*, the `Records` of one workflow each, and an *index* of subjects. A subject is something that
more than one workflow may know of: a function by the version of its code, or a platform. The index says which workflow
learned of it last, so that a workflow that is new, or has changed, finds what others know without reading them all.

    documents                     index
    etl      f1, f2, embedded     f:f1       → report
    report   f1, f3, embedded     f:f2       → etl
                                  f:f3       → report
                                  p:embedded → report

The index is a guess. It may name a workflow that has been removed, or that no longer knows the subject; whoever follows
it has to look. That way nothing needs to be put in order when documents go.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from augury.errors import DefinitionError, StorageError
from augury.metrics.records import SCHEMA, Records, Series

MOST_WORKFLOWS = 1000
"""How many workflows a store keeps; those that were not updated for longest give way."""

MOST_SUBJECTS = 32_768
"""How many subjects an index knows."""

Change: TypeAlias = Callable[[Records | None], Records | None]
"""From the records of a workflow, or None if there are none, to those that take their place, or None to leave them.

May be called several times, each time with what is there then, and may read from the store."""

logger = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow in a list of all.

    Attributes:
        workflow: Its name, or else its fingerprint.
        label: How to call it.
        runs: How many runs were recorded in all.
        updated_s: When the last one was, in seconds since the epoch.
        size_bytes: How much room its records take.
    """

    workflow: str
    label: str = ""
    runs: int = 0
    updated_s: float = 0.0
    size_bytes: int = 0

    @classmethod
    def of(cls, head: "Records | Head", size_bytes: int) -> "Entry":
        """The entry of a document that takes so much room."""
        return cls(
            workflow=head.workflow,
            label=head.label,
            runs=head.runs,
            updated_s=head.updated_s,
            size_bytes=size_bytes,
        )


class HistoryStore(Protocol):
    """Keeps the records of workflows. Threads and processes may use it at the same time.

    Every method may raise `StorageError`. Records that cannot be read, because they are damaged or of another version,
    count as absent: a warning is logged once, and the next update takes their place.
    """

    @property
    def address(self) -> str:
        """Where it is, as people may see it: without passwords."""

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        """The records of those of these workflows that have any; one round trip."""

    def update(self, workflow: str, change: Change, subjects: Sequence[str] = ()) -> None:
        """Change the records of a workflow as if nobody else did at the same time.

        Args:
            workflow: Whose records.
            change: What to do with them.
            subjects: What the workflow knows best from now on; left out of account if nothing is changed.
        """

    def recall(self, subjects: Sequence[str]) -> dict[str, str]:
        """The workflow that learned last of each of these subjects, as far as known. It may be gone since."""

    def list(self) -> list[Entry]:
        """All workflows, the one updated last first."""

    def remove(self, workflows: Iterable[str]) -> int:
        """Forget workflows; how many of them there were."""

    def close(self) -> None:
        """Let go of connections. The store may be used again, and then opens new ones."""


def function_subject(version: str) -> str:
    """What the index calls a function."""
    return f"f:{version}"


def platform_subject(platform: str) -> str:
    """What the index calls a platform."""
    return f"p:{platform}"


def subjects_of(series: Iterable[Series]) -> list[str]:
    """What measurements are about: functions, and for start-ups and transfers the platform."""
    found: dict[str, None] = {}
    for one in series:
        if one.of.kind.is_of_functions:
            found[function_subject(one.of.function)] = None
        elif one.of.platform:
            found[platform_subject(one.of.platform)] = None
    return list(found)


def document_key(workflow: str) -> str:
    """A short name for a document that every file system takes, whatever the workflow is called."""
    return hashlib.blake2b(workflow.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def encode_document(records: Records) -> bytes:
    """Records as bytes.

    Raises:
        StorageError: A name in them is no text that can be written.
    """
    try:
        return records.encode()
    except UnicodeEncodeError as error:
        raise StorageError(f"cannot keep the records of {records.workflow!r}: a name in them is not text") from error


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries in the order of lists: the one updated last first."""
    return sorted(entries, key=lambda entry: (-entry.updated_s, entry.workflow))


class Reader:
    """Reads documents, and says once of each that cannot be read that it is ignored.

    Args:
        address: Where they are, for the warning.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._told: set[str] = set()

    def read(self, workflow: str, data: bytes | memoryview) -> Records | None:
        """The records of a workflow; None if these bytes are not that."""
        try:
            records = Records.decode(data)
        except DefinitionError as error:
            self.tell(repr(workflow), str(error))
            return None
        if records.workflow != workflow:
            self.tell(repr(workflow), f"they are those of {records.workflow!r}")
            return None
        return records

    def head(self, document: str, data: bytes) -> Entry | None:
        """What a list shows of a document, without reading its measurements."""
        try:
            head = _decode_head(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.tell(document, str(error))
            return None
        if head.schema != SCHEMA:
            self.tell(document, f"they are of version {head.schema}, not {SCHEMA}")
            return None
        return Entry.of(head, size_bytes=len(data))

    def tell(self, document: str, why: str) -> None:
        """Warn that a document is ignored, once."""
        if document not in self._told:
            self._told.add(document)
            logger.warning("ignoring the records of %s in %s: %s", document, self._address, why)


class Head(msgspec.Struct, frozen=True):
    """What is read of a document for a list; everything else, the measurements above all, is skipped."""

    workflow: str
    schema: int
    label: str = ""
    runs: int = 0
    updated_s: float = 0.0

    @classmethod
    def of(cls, records: Records) -> "Head":
        """The head of a document."""
        return cls(records.workflow, records.schema, records.label, records.runs, records.updated_s)


_decode_head = msgspec.msgpack.Decoder(Head).decode


class Index(msgspec.Struct, frozen=True):
    """Which workflow learned last of each subject; what was learned longest ago stands first.

    Attributes:
        subjects: Subject → workflow.
        schema: The version of all this.
    """

    subjects: dict[str, str] = {}
    schema: int = SCHEMA

    def with_known(self, subjects: Sequence[str], workflow: str, most: int = MOST_SUBJECTS) -> "Index":
        """This index with a workflow that knows these subjects best; the same object if it says so already.

        What stays as it is does not move to the end: an index that is full may lose it, and then learns it again from
        the workflow's next run.
        """
        if all(self.subjects.get(subject) == workflow for subject in subjects):
            return self
        changed = dict(self.subjects)
        for subject in subjects:
            changed.pop(subject, None)
            changed[subject] = workflow
        for subject in list(changed)[: max(0, len(changed) - most)]:
            del changed[subject]
        return Index(changed)

    def recall(self, subjects: Iterable[str]) -> dict[str, str]:
        """Those of these subjects that it knows."""
        return {subject: self.subjects[subject] for subject in subjects if subject in self.subjects}

    def encode(self) -> bytes:
        """The index as bytes; `decode` reads it back."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Index":
        """Read an index; what cannot be read is an empty one, which fills again with the runs to come."""
        try:
            index = msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            logger.warning("starting a new index of functions and platforms, the old one is damaged: %s", error)
            return cls()
        return index if index.schema == SCHEMA else cls()
