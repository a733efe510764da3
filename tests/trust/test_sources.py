"""Where keys come from: the environment, a file, the state folder."""

import os
import threading
import traceback
from pathlib import Path

import pytest

from augury import DefinitionError, StorageError
from augury.trust import process_keyring
from augury.trust.folders import check_private
from augury.trust.sources import checked_token, client_keyring, configured_keyring

FIRST, SECOND = "the first of the keys", "the second of the keys"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("between", [",", " ", ", ", "\n"])
def test_keys_in_the_environment(between: str) -> None:
    first, second = FIRST.replace(" ", "-"), SECOND.replace(" ", "-")
    ring = configured_keyring({"AUGURY_KEY": f" {first}{between}{second} "})
    assert ring is not None
    assert ring.keys == (first, second)


def test_keys_in_a_file(tmp_path: Path) -> None:
    path = key_file(tmp_path, f"# ours\n{FIRST}  # since May\n\n{SECOND}\n")
    ring = configured_keyring({"AUGURY_KEY_FILE": str(path)})
    assert ring is not None
    assert ring.keys == (FIRST, SECOND)


def test_no_keys_are_configured() -> None:
    assert configured_keyring({}) is None
    assert configured_keyring({"AUGURY_KEY": " ", "AUGURY_KEY_FILE": ""}) is None


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666, 0o601])
def test_a_file_that_others_can_get_at_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, FIRST, mode)
    with pytest.raises(DefinitionError, match=r"AUGURY_KEY_FILE: others can get at the file.*chmod 600"):
        configured_keyring({"AUGURY_KEY_FILE": str(path)})


@pytest.mark.parametrize("text", ["short-key\n", "", "# nothing\n"])
def test_a_bad_file_is_told_and_its_contents_are_not(tmp_path: Path, text: str) -> None:
    path = key_file(tmp_path, text)
    with pytest.raises(DefinitionError, match=r"AUGURY_KEY_FILE .*openssl") as caught:
        configured_keyring({"AUGURY_KEY_FILE": str(path)})
    assert "short-key" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        configured_keyring({"AUGURY_KEY_FILE": str(tmp_path / "none")})


def test_a_file_in_a_home_that_is_not_there_is_told() -> None:
    with pytest.raises(DefinitionError, match=r"AUGURY_KEY_FILE: ~no-such-user/key: .*write the whole path"):
        configured_keyring({"AUGURY_KEY_FILE": "~no-such-user/key"})


def test_a_key_that_is_no_text_is_told_and_not_shown() -> None:
    environment = {"AUGURY_KEY": os.fsdecode(b"a-secret-\xff-of-some-length")}
    with pytest.raises(DefinitionError, match="AUGURY_KEY: a key is not text in UTF-8") as caught:
        configured_keyring(environment)
    assert "a-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("given", ["t0ken", "t0ken\n", " t0ken\r\n"])
def test_white_space_around_a_token_does_not_count(given: str) -> None:
    assert checked_token(given, "AUGURY_TOKEN") == "t0ken"


@pytest.mark.parametrize("given", ["t0ken\nX: y", "t0ken\u20ac", "t0k\xe9n", "t0ken\x00x", "t0ken\udcff"])
def test_what_no_header_can_hold_is_no_token_and_not_shown(given: str) -> None:
    with pytest.raises(DefinitionError, match="AUGURY_TOKEN must be a token in printable ASCII") as caught:
        checked_token(given, "AUGURY_TOKEN")
    assert "t0k" not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_file_is_told_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(DefinitionError, match="is not a file"):
        configured_keyring({"AUGURY_KEY_FILE": str(tmp_path / "pipe")})


def test_without_a_key_one_is_made_and_kept_private(state: Path) -> None:
    ring = client_keyring({})
    assert client_keyring({}).keys == ring.keys
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "key").stat().st_mode & 0o777 == 0o600
    assert os.listdir(state) == ["key"]
    assert len(ring.keys[0]) == 64


def test_processes_that_start_together_agree_on_a_key(state: Path) -> None:
    found: list[tuple[str, ...]] = []
    start = threading.Barrier(8)

    def look() -> None:
        start.wait()
        found.append(client_keyring({}).keys)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_where_no_key_can_be_kept_the_process_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUGURY_STATE_DIR", str(tmp_path / "file" / "below"))
    assert client_keyring({}) is process_keyring()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_state_folder_that_others_may_write_to_is_refused(state: Path, mode: int) -> None:
    state.mkdir()
    state.chmod(mode)
    with pytest.raises(StorageError, match=r"others may write to the folder.*chmod 700"):
        client_keyring({})


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    mine = tmp_path.stat()
    theirs = os.stat_result([*mine[:4], mine.st_uid + 1, *mine[5:]])
    with pytest.raises(StorageError, match="belongs to another user"):
        check_private(tmp_path, theirs)
