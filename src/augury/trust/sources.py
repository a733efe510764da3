"""Where the keys of a deployment come from, and what a token must be.

    AUGURY_KEY        the key itself, or several, newest first, with spaces or commas between them
    AUGURY_KEY_FILE   a file with a key on each line, newest first; `#` begins a comment
    neither           a file in the state folder, made when it is first needed: enough for one user of one machine

They are taken out of the environment of processes that Augury starts: those get them over private sockets.
"""

import logging
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from augury.errors import DefinitionError
from augury.trust.folders import make_private, state_folder
from augury.trust.seal import Keyring, process_keyring

_log = logging.getLogger(__name__)

KEY_VARIABLE: Final = "AUGURY_KEY"
KEY_FILE_VARIABLE: Final = "AUGURY_KEY_FILE"
TOKEN_VARIABLE: Final = "AUGURY_TOKEN"  # noqa: S105 - the variable's name, not a token

_FILE_NAME: Final = "key"
_MOST_BYTES: Final = 64 * 1024
_OTHERS: Final = stat.S_IWGRP | stat.S_IRWXO


def configured_keyring(environment: Mapping[str, str] = os.environ) -> Keyring | None:
    """The keys that the environment names; None if it names none.

    Raises:
        DefinitionError: They cannot be read, others could read them, or they are too short; never shows them.
    """
    if text := environment.get(KEY_VARIABLE, "").strip():
        return _keyring(text.replace(",", " ").split(), KEY_VARIABLE)
    if name := environment.get(KEY_FILE_VARIABLE, "").strip():
        return _from_file(_in_home(name), KEY_FILE_VARIABLE)
    return None


def client_keyring(environment: Mapping[str, str] = os.environ) -> Keyring:
    """The keys that a client signs with: those of the environment, else this user's own."""
    return configured_keyring(environment) or _own_keyring()


def checked_token(text: str, source: str) -> str:
    """A token as it is shown to a gateway: without the white space that files and variables end with.

    Args:
        text: As it was given.
        source: What gave it, for messages.

    Raises:
        DefinitionError: It cannot be in a header of HTTP; does not show it.
    """
    token = text.strip()
    if not (token.isascii() and token.isprintable()):
        raise DefinitionError(
            f"{source} must be a token in printable ASCII, without line breaks; this one is not shown"
        )
    return token


def _own_keyring() -> Keyring:
    """The key in the state folder. Where none can be kept, one that ends with this process."""
    try:
        folder = state_folder()
        make_private(folder)
        path = folder / _FILE_NAME
        if not path.exists():
            _make(path)
    except (OSError, ValueError) as error:
        _log.info("no key can be kept (%s); this process uses one of its own", error)
        return process_keyring()
    return _from_file(path, "the key in the state folder")


def _make(path: Path) -> None:
    """Write a new key, whole or not at all; if another process was faster, its key stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w") as writer:
            writer.write(f"{secrets.token_hex(32)}\n")
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _in_home(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise DefinitionError(f"{KEY_FILE_VARIABLE}: {name}: there is no such home; write the whole path") from None


def _from_file(path: Path, source: str) -> Keyring:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as reader:
            _check_file(path, os.fstat(file), source)
            text = reader.read(_MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DefinitionError(f"{source}: the file {path} cannot be read: {reason}") from None
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return _keyring([line for line in lines if line], f"{source} ({path})")


def _check_file(path: Path, status: os.stat_result, source: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise DefinitionError(f"{source}: {path} is not a file")
    if status.st_uid not in (os.geteuid(), 0):
        raise DefinitionError(f"{source}: the file {path} belongs to another user, who knows what is in it")
    if status.st_mode & _OTHERS:
        raise DefinitionError(f"{source}: others can get at the file {path}: `chmod 600` it, and make a new key")


def _keyring(keys: list[str], source: str) -> Keyring:
    try:
        return Keyring(keys)
    except DefinitionError as error:
        raise DefinitionError(f"{source}: {error}") from None
