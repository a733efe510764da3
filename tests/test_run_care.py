"""What a run does for its workers, as users choose it."""

import pytest

from augury import Client, DefinitionError, Embedded, Resources, task
from augury.run.care import care_for
from augury.storage.protocols import Care


@task
def double(x: int) -> int:
    return 2 * x


def test_whole_numbers_of_cpus_are_numbers_of_cpus() -> None:
    configurations = [Resources(cpus=1, memory_mb=256), Resources(cpus=2, memory_mb=512)]
    with Client(platform=Embedded(slots=1), observers=[], history=False, configurations=configurations) as client:
        assert client.compute(double(21)) == 42


def test_the_next_larger_configuration_comes_first() -> None:
    configurations = [Resources(2, 3000), Resources(1, 1000)]
    ladder = care_for(Care(), configurations, 10_000).larger
    assert [one.memory_mb for one in ladder] == [1000, 3000, 6000, 10_000]
    assert [one.cpus for one in ladder] == [1, 2, 2, 2]


def test_a_bound_below_all_configurations_leaves_something_to_give() -> None:
    assert [one.memory_mb for one in care_for(Care(), [Resources()], 600).larger] == [128, 256, 512, 600]


@pytest.mark.parametrize("lease_s", [0, -1, 0.001, "10", True, float("inf")])
def test_leases_that_nobody_could_keep_are_refused(lease_s: object) -> None:
    with pytest.raises(DefinitionError, match=r"Client\(lease_s=…\) must be a number of seconds, at least 0.2"):
        Client(lease_s=lease_s)  # type: ignore[arg-type]
