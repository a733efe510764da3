"""What is read from files that a crash, a full disk or somebody else may have spoiled, and what gateways answer."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given

from augury.errors import DefinitionError, GatewayError, RunLost
from augury.invoke.blackbox import BlackBox, Found, read_black_box
from augury.invoke.gateway import Limits
from augury.invoke.http_gateway import _decode
from augury.metrics.history.lines import parse_lines
from augury.run import places
from augury.trust.sources import configured_keyring
from tests.fuzz.mutations import damaged, fuzzed, misfilled

PLACE = places.Place(
    run_id="6c1f0a9e5b7d4e21",
    redis="unix:///tmp/redis.sock",
    owns_storage=True,
    gateway="http://127.0.0.1:1",
    token="secret",
    platform="embedded",
    folder="/tmp/augury-x",
    made_s=1e9,
)


def black_box(folder: Path) -> bytes:
    box = BlackBox(str(folder / "box"), 2)
    box.line(0).begin(3, 1.0, 5.0)
    box.say("last words")
    return (folder / "box").read_bytes()


def file_with(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    path.chmod(0o600)
    return path


@fuzzed
@given(damaged([bytes(64) + b"\x05\0\0\0hello" + bytes(1019), b"\0\0\0\0\0\0\xf0?" * 8 + bytes(1028)]))
def test_black_boxes(tmp_path: Path, data: bytes) -> None:
    found = read_black_box(str(file_with(tmp_path, data)))
    assert isinstance(found, Found)
    assert all(one.task >= 0 for one in found.tasks)
    found.overdue(1e9, 1.0)


def test_a_black_box_is_read_if_nobody_spoiled_it(tmp_path: Path) -> None:
    found = read_black_box(str(file_with(tmp_path, black_box(tmp_path))))
    assert [one.task for one in found.tasks] == [3]
    assert found.words == "last words"


@fuzzed
@given(damaged([msgspec.json.encode(PLACE)]))
def test_places_of_runs(tmp_path: Path, data: bytes) -> None:
    place = places._read(file_with(tmp_path, data))
    assert place is None or isinstance(place.is_over, bool)


@fuzzed
@given(misfilled([msgspec.json.decode(msgspec.json.encode(PLACE))]))
def test_places_of_runs_that_are_filled_in_wrongly(tmp_path: Path, value: Any) -> None:
    place = places._read(file_with(tmp_path, msgspec.json.encode(value, enc_hook=str)))
    with suppress(RunLost):
        assert place is None or isinstance(place.is_over, bool)


@fuzzed
@given(damaged([b"a key of ours, long enough\n# and an older one\nthe older one, long enough\n"]))
def test_files_of_keys(tmp_path: Path, data: bytes) -> None:
    with suppress(DefinitionError):
        ring = configured_keyring({"AUGURY_KEY_FILE": str(file_with(tmp_path, data))})
        assert ring is not None
        assert all(len(key) >= 16 for key in ring.keys)


LINES = (
    b'{"record":"workflow","workflow":"w","schema":1,"label":"daily","runs":1,"updated_s":1.0}\n'
    b'{"record":"upload","platform":"p","ended_s":1.0,"size_bytes":10,"duration_s":0.5}\n'
)


@fuzzed
@given(damaged([LINES]))
def test_lines_of_histories(data: bytes) -> None:
    with suppress(DefinitionError):
        parse_lines(data.split(b"\n"), "a file")


@fuzzed
@given(damaged([b'{"status": "running"}']))
def test_answers_about_runs(data: bytes) -> None:
    with suppress(GatewayError):
        assert isinstance(_decode(data, dict[str, str], "http://here"), dict)


@fuzzed
@given(damaged([msgspec.json.encode(Limits(concurrency=8, shares_files=True, memory_mb=4096))]))
def test_answers_of_gateways(data: bytes) -> None:
    with suppress(GatewayError):
        limits = _decode(data, Limits, "http://here")
        assert isinstance(limits.concurrency, int)
        assert not math.isnan(limits.start_s)
