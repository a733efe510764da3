"""Settings refuse what cannot be meant, and show no secrets."""

import io
import math
from typing import Any

import msgspec
import pytest
from rich.console import Console

from augury.config import LARGEST, Resources, StorageConfig, but_not, is_number, is_positive, is_whole, public_address
from augury.errors import DefinitionError


@pytest.mark.parametrize(("cpus", "slots"), [(0.25, 1), (1, 1), (1.9, 1), (2, 2), (3.5, 3)])
def test_a_worker_runs_as_many_tasks_as_it_has_whole_cpus_and_at_least_one(cpus: float, slots: int) -> None:
    assert Resources(cpus=cpus).task_slots == slots


@pytest.mark.parametrize("cpus", [0, -1, math.nan, math.inf, True, "2", None, [1]])
def test_cpus_must_be_a_positive_number(cpus: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Resources\.cpus must be a positive number"):
        Resources(cpus=cpus)


def test_no_worker_has_more_cpus_than_it_could_make_room_for() -> None:
    assert Resources(cpus=1024).task_slots == 1024
    with pytest.raises(DefinitionError, match=r"Resources\.cpus must be a positive number, not more than 1,024"):
        Resources(cpus=1e9)


@pytest.mark.parametrize("memory_mb", [0, -1, 1.5, 512.0, math.nan, True, "512", None])
def test_memory_must_be_a_whole_number_of_megabytes(memory_mb: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Resources\.memory_mb must be a whole number"):
        Resources(memory_mb=memory_mb)


@pytest.mark.parametrize(
    ("other", "covered"),
    [
        (Resources(cpus=2, memory_mb=1024), True),
        (Resources(cpus=1, memory_mb=512), True),
        (Resources(cpus=3, memory_mb=1), False),
        (Resources(cpus=1, memory_mb=1025), False),
    ],
)
def test_resources_cover_what_needs_no_more_of_either(other: Resources, covered: bool) -> None:
    assert Resources(cpus=2, memory_mb=1024).covers(other) is covered


def test_whole_and_fractional_cpus_of_the_same_value_are_the_same_resources() -> None:
    assert Resources(cpus=2) == Resources(cpus=2.0) == msgspec.json.decode(b'{"cpus": 2}', type=Resources)
    assert len({Resources(cpus=2), Resources(cpus=2.0)}) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host:6379/0", "redis://host:6379/0"),
        ("rediss://me:secret@host", "rediss://host"),
        ("redis://me:sec@ret@host", "redis://host"),
        ("redis://me:sec/ret@host/0", "redis://host/0"),
        ("redis://host/0?password=secret", "redis://host/0"),
        ("redis://host/0?password=sec@ret", "redis://…"),
        ("redis://:sec?ret@host", "redis://…"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix:///run/a@b.sock?password=secret", "unix:///run/a@b.sock"),
        ("unix://me@/run/redis.sock", "unix:///run/redis.sock"),
        ("me:secret@host:6379", "host:6379"),
        ("host:6379", "host:6379"),
    ],
)
def test_a_public_address_holds_no_secret(url: str, shown: str) -> None:
    assert public_address(url) == shown


def test_a_storage_config_shows_its_password_neither_in_repr_nor_in_rich() -> None:
    config = StorageConfig(redis="redis://:secret@host/0")
    console = Console(file=io.StringIO(), width=200)
    console.print(config)
    assert isinstance(console.file, io.StringIO)
    for text in (repr(config), str(config), f"{config}", console.file.getvalue()):
        assert "secret" not in text
        assert "redis://host/0" in text


@pytest.mark.parametrize(
    ("field", "value"),
    [("redis", ""), ("ttl_s", 0), ("ttl_s", 1.5), ("ttl_s", True)],
)
def test_a_storage_config_refuses_what_cannot_be_meant(field: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"StorageConfig.{field} must be"):
        StorageConfig(**{"redis": "redis://host", field: value})


def test_true_is_neither_a_number_nor_whole() -> None:
    assert not is_positive(True)
    assert not is_whole(True, least=0)


@pytest.mark.parametrize("number", [LARGEST + 1, 1e12, 10**400, math.inf])
def test_what_is_beyond_all_measure_is_no_setting(number: float) -> None:
    assert not is_number(number)
    assert not is_number(-number, least=-LARGEST)
    assert not is_positive(number)
    assert not is_whole(number, least=0)


def test_more_than_a_century_in_seconds_is_a_number() -> None:
    assert LARGEST > 100 * 366 * 24 * 3600
    assert is_positive(LARGEST)
    assert is_whole(LARGEST, least=0)


def test_a_number_that_is_only_reckoned_with_must_fit_into_a_float() -> None:
    assert is_number(1e300, most=math.inf)
    assert is_number(math.inf, most=math.inf)
    assert not is_number(10**400, most=math.inf)
    assert not is_number(math.nan, most=math.inf)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a", "not 'a'"),
        (math.inf, "not inf"),
        (-3, "not -3"),
        (10**5000, "not more than 4,294,967,296"),
        (-(10**5000), "not less than -4,294,967,296"),
    ],
    ids=["text", "infinity", "negative", "too large", "too small"],
)
def test_a_refusal_ends_with_what_was_given_or_with_the_most_there_can_be(value: object, told: str) -> None:
    assert but_not(value) == told
