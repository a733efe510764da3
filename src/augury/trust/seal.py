"""Signing what will be unpickled, and checking it first: a keyed MAC over the bytes and what they are.

    key of the deployment ──▶ key of the run ──▶ MAC(bytes; what they are, such as `o17`) ──▶ 16 bytes behind them

The key of a run is derived from that of the deployment and the run's id, and what the bytes are goes into the MAC: so
bytes of another run, or of another task, are as foreign as those of somebody without a key. The MAC is BLAKE2b over
key, name and bytes, cut to 128 bits: unlike older hashes it needs no second pass (HMAC) for that, and takes half a
microsecond for a small output. Of long bytes it takes their SHA-256, which processors compute twice as fast.

Several keys may be valid at a time. The first signs; all of them verify. That is how keys are changed without a
moment in which clients and workers do not understand each other (SECURITY.md says how).
"""

import logging
import secrets
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Final, NoReturn

from augury.errors import DefinitionError, UntrustedData
from augury.serde import Blob, Buffer, stream_length

_log = logging.getLogger(__name__)

TAG_BYTES: Final = 16
"""How long the MAC is."""

_KEY_BYTES: Final = 32
_LEAST_SECRET: Final = 16
_LONG_BYTES: Final = 2048
"""From here on it pays to take the SHA-256 of the bytes first."""

_DIGEST_OF: Final = b"#"
"""Goes before what bytes are if their digest was signed: so no bytes are taken for others whose digest they are."""


class Keyring:
    """The keys of a deployment, newest first.

    Args:
        keys: Long random texts that nobody can guess, the one to sign with first.

    Raises:
        DefinitionError: There is none, or one is too short to be a secret, or no text.

    Example:
        >>> Keyring(["3f0c…" * 8, "an older one, which is still accepted"])
        <Keyring of 2 keys>
    """

    __slots__ = ("_derived", "keys")

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise DefinitionError("a keyring needs a key: make one with `openssl rand -hex 32`")
        if any(len(key) < _LEAST_SECRET for key in keys):
            raise DefinitionError(
                f"a key is shorter than {_LEAST_SECRET} characters, and could be guessed: make one with "
                "`openssl rand -hex 32`"
            )
        if any("\ud800" <= letter <= "\udfff" for key in keys for letter in key):  # the encoder's error would show it
            raise DefinitionError("a key is not text in UTF-8: make one with `openssl rand -hex 32`")
        self.keys = tuple(keys)
        self._derived = tuple(_derive(key.encode(), b"deployment", b"") for key in keys)

    def __repr__(self) -> str:
        return f"<Keyring of {len(self.keys)} key{'s' if len(self.keys) > 1 else ''}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError("keys are not given to tasks")

    def seal(self, scope: str, *, skips_buffers: bool = False) -> "Seal":
        """What signs and checks within a scope, such as a run.

        Args:
            scope: The run's id, or what else bytes must not be carried out of.
            skips_buffers: Whether the raw buffers of objects are left out; see `Seal.sign_object`.
        """
        keys = [_derive(key, b"scope", scope.encode()) for key in self._derived]
        return Seal(scope, keys, skips_buffers=skips_buffers)


class Seal:
    """Signs and checks bytes within one scope.

    `what` names bytes within their scope, such as `c0`; it begins with a letter and holds no zero byte.
    """

    __slots__ = ("_first", "_keys", "_scope", "_skips_buffers")

    def __init__(self, scope: str, keys: Iterable[bytes], *, skips_buffers: bool) -> None:
        self._scope = scope
        self._keys = tuple(keys)
        self._first = self._keys[0]
        self._skips_buffers = skips_buffers

    def __repr__(self) -> str:
        return f"<Seal of {self._scope}>"

    def __reduce__(self) -> NoReturn:
        raise DefinitionError("keys are not given to tasks")

    def sign(self, what: str, data: bytes) -> bytes:
        """The bytes with their MAC behind them."""
        return data + _mac(self._first, *_condensed(what, [data]))

    def check(self, what: str, data: bytes) -> None:
        """Make sure that `sign` made these bytes, in this scope and of the same name.

        Raises:
            UntrustedData: It did not; they must not be unpickled.
        """
        self._check(what, [data[:-TAG_BYTES]], data[-TAG_BYTES:])

    def sign_output(self, task: int, data: bytes) -> bytes:
        """As `sign`, for the small output of a task, of which there are many: `o17` is that of task 17."""
        if len(data) >= _LONG_BYTES:
            return self.sign(f"o{task}", data)
        return data + blake2b(b"%bo%d\0%b" % (self._first, task, data)).digest()[:TAG_BYTES]

    def check_outputs(self, outputs: Iterable[tuple[int, bytes]]) -> int | None:
        """The first task whose small output `sign_output` did not make; None if it made all of them."""
        first = self._first
        for task, data in outputs:
            if len(data) < _LONG_BYTES + TAG_BYTES:
                own = blake2b(b"%bo%d\0%b" % (first, task, data[:-TAG_BYTES])).digest()[:TAG_BYTES]
                if compare_digest(own, data[-TAG_BYTES:]):
                    continue
            try:
                self.check(f"o{task}", data)  # it is long, signed with an older key, or foreign
            except UntrustedData:
                return task
        return None

    def sign_object(self, what: str, blob: Blob) -> Blob:
        """A large value with its MAC behind it.

        Within shared memory, raw buffers are left out: they are never executed, nobody else can enter the folder,
        and to read them all would cost more than it does to map them.
        """
        parts = list(_stream(blob.parts)) if self._skips_buffers else blob.parts
        return Blob([*blob.parts, _mac(self._first, *_condensed(what, parts))])

    def check_object(self, what: str, data: Buffer) -> None:
        """As `check`, for what `sign_object` made."""
        view = memoryview(data)
        end = max(0, len(view) - TAG_BYTES)
        covered = min(end, stream_length(view)) if self._skips_buffers else end
        self._check(what, [view[:covered]], bytes(view[end:]))

    def _check(self, what: str, parts: Sequence[Buffer], tag: bytes) -> None:
        name, content = _condensed(what, parts)
        for key in self._keys:
            if compare_digest(_mac(key, name, content), tag):
                return
        _refusals.note()
        _log.warning("%s of %s is refused: it is not authentic", what, self._scope)
        raise UntrustedData(
            f"{what} of {self._scope} is not authentic, and was not loaded. Somebody changed, cut or exchanged it in "
            "storage, or it was signed with a key that is not known here: give clients and workers the same AUGURY_KEY"
        )


class _Refusals:
    """How often bytes were refused in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def note(self) -> None:
        with self._lock:
            self.count += 1


_refusals = _Refusals()


def refused() -> int:
    """How many payloads this process has refused because they were not authentic."""
    return _refusals.count


def process_keyring() -> Keyring:
    """A keyring that only this process and its forks have: for storage that nobody else can reach."""
    return _process_keyring()


@cache
def _process_keyring() -> Keyring:
    return Keyring([secrets.token_hex(_KEY_BYTES)])


def _derive(key: bytes, use: bytes, data: bytes) -> bytes:
    """A key for one use; from a text of any length, or from another key."""
    own = key if len(key) <= _KEY_BYTES else sha256(key).digest()
    return blake2b(data, key=own, person=use, salt=b"derive", digest_size=_KEY_BYTES).digest()


def _mac(key: bytes, name: bytes, content: bytes) -> bytes:
    return blake2b(b"%b%b\0%b" % (key, name, content)).digest()[:TAG_BYTES]


def _condensed(what: str, parts: Sequence[Buffer]) -> tuple[bytes, bytes]:
    """The name that goes into the MAC, and what it is computed over: the bytes themselves, or their digest."""
    if sum(map(len, parts)) < _LONG_BYTES:
        return what.encode(), b"".join(parts)
    digest = sha256()
    for part in parts:
        digest.update(part)
    return _DIGEST_OF + what.encode(), digest.digest()


def _stream(parts: Sequence[Buffer]) -> Iterable[Buffer]:
    """The parts of a blob as far as its header and its pickle go."""
    left = stream_length(memoryview(parts[0]))
    for part in parts:
        if left <= 0:
            return
        yield memoryview(part)[:left]
        left -= len(part)
