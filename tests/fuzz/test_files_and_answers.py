"""What is read from files that a crash, a full disk or somebody else may have spoiled, and what gateways answer."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from augury.errors import DefinitionError, GatewayError
from augury.invoke.blackbox import BlackBox, Found, read_black_box
from augury.invoke.gateway import Limits
from augury.invoke.http_gateway import _decode
from augury.metrics.history.lines import lines_of, parse_lines
from augury.metrics.records import Records, series_of
from augury.run import places
from augury.trust.sources import configured_keyring
from tests.fuzz.mutations import JSON, damaged, try_all, try_parts
from tests.metrics.building import tasks, transfer

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


def boxes() -> Iterator[bytes]:
    """Black boxes of two lines with strange numbers, and damaged ones."""
    numbers = (-1.0, 0.0, 0.5, 1.0, 4.0, 2.0**53, 1e308, math.inf, -math.inf, math.nan)
    for place in range(8):
        for number in numbers:
            line = [3.0, 1.0, 5.0, math.nan] * 2
            line[place] = number
            yield struct.pack("=8d", *line) + b"\x05\0\0\0hello" + bytes(1019)
    yield from damaged(bytes(64) + b"\x05\0\0\0hello" + bytes(1019), b"\0\0\0\0\0\0\xf0?" * 8 + bytes(1028))


def test_black_boxes(tmp_path: Path) -> None:
    def reads(data: bytes) -> bool:
        found = read_black_box(str(file_with(tmp_path, data)))
        assert isinstance(found, Found)
        assert all(one.task >= 0 for one in found.tasks)
        found.overdue(1e9, 1.0)
        return bool(found.tasks)

    try_all(reads, boxes(), least=0.3)


def test_a_black_box_is_read_if_nobody_spoiled_it(tmp_path: Path) -> None:
    found = read_black_box(str(file_with(tmp_path, black_box(tmp_path))))
    assert [one.task for one in found.tasks] == [3]
    assert found.words == "last words"


def test_places_of_runs(tmp_path: Path) -> None:
    def reads(data: bytes) -> bool:
        place = places._read(file_with(tmp_path, data))
        assert place is None or isinstance(place.is_over, bool)
        return place is not None

    try_all(reads, damaged(msgspec.json.encode(PLACE)), least=0.06)
    try_parts(reads, JSON, PLACE, least=0.06)


def test_files_of_keys(tmp_path: Path) -> None:
    def reads(data: bytes) -> bool:
        try:
            ring = configured_keyring({"AUGURY_KEY_FILE": str(file_with(tmp_path, data))})
        except DefinitionError:
            return False
        assert ring is not None
        assert all(len(key) >= 16 for key in ring.keys)
        return True

    keys = b"a key of ours, long enough\n# and an older one\nthe older one, long enough\n"
    try_all(reads, damaged(keys), least=0.3)


RECORDS = Records(
    workflow="w", label="daily", runs=3, updated_s=17.0, series=tuple(tasks(2) + series_of([transfer(1.0)]))
)
HEAD, *LINES = [line.encode() for line in lines_of(RECORDS)]


def test_lines_of_histories() -> None:
    def reads(data: bytes) -> bool:
        try:
            return bool(parse_lines(data.split(b"\n"), "a file"))
        except DefinitionError:
            return False

    try_all(reads, damaged(b"".join((HEAD, *LINES))), least=0.06)
    try_parts(reads, JSON, msgspec.json.decode(HEAD), least=0.06)
    try_parts(lambda line: reads(HEAD + line), JSON, *map(msgspec.json.decode, LINES), least=0.15)


def test_answers_about_runs() -> None:
    def reads(data: bytes) -> bool:
        try:
            assert isinstance(_decode(data, dict[str, str], "http://here"), dict)
        except GatewayError:
            return False
        return True

    try_all(reads, damaged(b'{"status": "running"}'), least=0.1)
    try_parts(reads, JSON, {"status": "running"}, least=0.06)


def test_answers_of_gateways() -> None:
    def reads(data: bytes) -> bool:
        try:
            limits = _decode(data, Limits, "http://here")
        except GatewayError:
            return False
        assert isinstance(limits.concurrency, int)
        assert not math.isnan(limits.start_s)
        return True

    limits = Limits(concurrency=8, shares_files=True, memory_mb=4096)
    try_all(reads, damaged(msgspec.json.encode(limits)), least=0.15)
    try_parts(reads, JSON, limits, least=0.06)
