"""Records in Redis, shared by everyone who uses it.

    augury:history:{records}:document:…   string  a token, then the records of one workflow; the name is a hash
    augury:history:{records}:entries      hash    document → its `Head`, for lists
    augury:history:{records}:recent       zset    document → when it was saved
    augury:history:{records}:subjects     hash    subject → workflow that learned of it last
    augury:history:{records}:learned      zset    subject → when that was

Nothing is locked. A change reads a document, and `save.lua` writes the new one if the old one is still there; otherwise
the change is made again, to what is there now. A token of 16 random bytes in front of each document tells one from
another without comparing them. All keys share a hash tag, so they are in one slot of a Redis Cluster, and all expire.
"""

import os
import time
from collections.abc import Iterable, Sequence
from importlib import resources

import msgspec

from augury.backoff import Backoff
from augury.config import public_address
from augury.errors import StorageError
from augury.metrics.history.store import (
    MOST_SUBJECTS,
    MOST_WORKFLOWS,
    Change,
    Entry,
    Head,
    Reader,
    document_key,
    encode_document,
    in_order,
)
from augury.metrics.records import Records
from augury.storage.redis_client import RedisClient

TTL_S = 400 * 24 * 3600
"""How long records are kept that nobody adds to."""

_PREFIX = "augury:history:{records}:"
_DOCUMENTS = f"{_PREFIX}document:"
_ENTRIES, _RECENT, _SUBJECTS, _LEARNED = (f"{_PREFIX}{name}" for name in ("entries", "recent", "subjects", "learned"))

_TOKEN_BYTES = 16
_ATTEMPTS = 200
_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05

_SAVE = (resources.files("augury.metrics.history") / "save.lua").read_text(encoding="utf-8")

_TIMEOUT_S = 2.0
_BACKOFF = Backoff(patience_s=0.1)
"""How long Redis may take to answer. Records are not worth waiting for."""


class RedisStore:
    """Keeps records in Redis. Connects when first used; thread-safe, and safe between processes and machines.

    Args:
        address: Such as `redis://host:6379/0`, `rediss://…` or `unix:///path`; may hold a password, which is not shown.
        most_workflows: How many workflows it keeps; those that were not updated for longest give way.
        ttl_s: How long it keeps records that nobody adds to.

    Raises:
        StorageError: The address is none.
    """

    def __init__(self, address: str, *, most_workflows: int = MOST_WORKFLOWS, ttl_s: int = TTL_S) -> None:
        self._client = RedisClient(address, timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S, backoff=_BACKOFF)
        self._most_workflows = most_workflows
        self._ttl_s = ttl_s
        self._reader = Reader(self.address)

    @property
    def address(self) -> str:
        """Where it is, without user and password."""
        return public_address(self._client.url)

    def load(self, workflows: Sequence[str]) -> dict[str, Records]:
        """The records of those of these workflows that have any."""
        if not workflows:
            return {}
        documents: list[bytes | None] = self._client.command("MGET", *map(_document, workflows))
        found = {
            workflow: self._read(workflow, data)
            for workflow, data in zip(workflows, documents, strict=True)
            if data is not None
        }
        return {workflow: records for workflow, records in found.items() if records is not None}

    def update(self, workflow: str, change: Change, subjects: Sequence[str] = ()) -> None:
        """Change the records of a workflow."""
        for attempt in range(_ATTEMPTS):
            data: bytes = self._client.command("GET", _document(workflow)) or b""
            after = change(self._read(workflow, data) if data else None)
            if after is None or self._save(data[:_TOKEN_BYTES], after, workflow, subjects):
                return
            # Whoever loses often waits longer, at a time of its own.
            longest_s = min(_LONGEST_PAUSE_S, _PAUSE_S * (attempt + 1))
            time.sleep(longest_s * os.urandom(1)[0] / 255)
        raise StorageError(f"too many others change the records of {workflow!r} in Redis at {self.address}")

    def recall(self, subjects: Sequence[str]) -> dict[str, str]:
        """The workflow that learned last of each of these subjects."""
        if not subjects:
            return {}
        known: list[bytes | None] = self._client.command("HMGET", _SUBJECTS, *subjects)
        return {
            subject: workflow.decode()
            for subject, workflow in zip(subjects, known, strict=True)
            if workflow is not None
        }

    def list(self) -> list[Entry]:
        """All workflows, the one updated last first."""
        heads: list[bytes] = self._client.command("HVALS", _ENTRIES)
        entries = [entry for entry in (self._reader.head("a workflow", head) for head in heads) if entry is not None]
        if not entries:
            return []
        lengths = self._client.pipeline([("STRLEN", _document(entry.workflow)) for entry in entries])
        return in_order(
            msgspec.structs.replace(entry, size_bytes=length - _TOKEN_BYTES)
            for entry, length in zip(entries, lengths, strict=True)
            if length  # Redis may have dropped the document on its own: it expired, or there was no room
        )

    def remove(self, workflows: Iterable[str]) -> int:
        """Forget workflows; how many of them there were."""
        keys = [document_key(workflow) for workflow in workflows]
        if not keys:
            return 0
        *_, (removed, _, _) = self._client.pipeline(
            [
                ("MULTI",),
                ("UNLINK", *(f"{_DOCUMENTS}{key}" for key in keys)),
                ("HDEL", _ENTRIES, *keys),
                ("ZREM", _RECENT, *keys),
                ("EXEC",),
            ]
        )
        return int(removed)

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _read(self, workflow: str, data: bytes) -> Records | None:
        return self._reader.read(workflow, memoryview(data)[_TOKEN_BYTES:])

    def _save(self, token: bytes, records: Records, workflow: str, subjects: Sequence[str]) -> bool:
        """Put records in the place of those with this token; whether they still were there."""
        document = os.urandom(_TOKEN_BYTES) + encode_document(records)
        head = msgspec.msgpack.encode(Head.of(records))
        keys = (_document(workflow), _ENTRIES, _RECENT, _SUBJECTS, _LEARNED)
        limits = (self._most_workflows, MOST_SUBJECTS)
        arguments = (token, document, self._ttl_s, document_key(workflow), head, _DOCUMENTS)
        saved = self._client.command("EVAL", _SAVE, len(keys), *keys, *arguments, *limits, workflow, *subjects)
        return bool(saved)


def _document(workflow: str) -> str:
    return f"{_DOCUMENTS}{document_key(workflow)}"
