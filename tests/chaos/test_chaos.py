"""A handful of runs under each kind of attack; `make chaos` makes many more."""

from collections.abc import Iterator

import pytest

from augury.storage.server import RedisServer
from tests.chaos.adversary import KINDS, SLOW_KINDS
from tests.chaos.runs import own_redis, run_under_attack


@pytest.fixture(name="server", scope="module")
def start_server() -> Iterator[RedisServer]:
    with own_redis() as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind in KINDS for seed in ((1,) if kind in SLOW_KINDS else (1, 2))]
)
def test_a_run_under_attack_gives_the_right_result_and_leaves_nothing(
    kind: str, seed: int, server: RedisServer
) -> None:
    outcome = run_under_attack(kind, seed, server)
    assert outcome.problem == "", outcome
