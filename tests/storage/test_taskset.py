"""A set of tasks as Redis keeps it."""

from collections.abc import Set as AbstractSet

from hypothesis import given
from hypothesis import strategies as st

from augury.storage.taskset import TaskSet

TASKS = st.frozensets(st.integers(0, 300))


def bitmap_of(tasks: frozenset[int]) -> bytes:
    """As SETBIT makes it: counted from the highest bit of the first byte, and no longer than it has to be."""
    bits = bytearray(max(tasks, default=-1) // 8 + 1)
    for task in tasks:
        bits[task // 8] |= 128 >> task % 8
    return bytes(bits)


@given(TASKS, TASKS)
def test_it_is_the_set_of_its_ones(tasks: frozenset[int], others: frozenset[int]) -> None:
    found: AbstractSet[int] = TaskSet(bitmap_of(tasks))
    assert [task for task in range(320) if task in found] == sorted(tasks)
    assert (list(found), len(found), bool(found)) == (sorted(tasks), len(tasks), bool(tasks))
    assert (found == others) == (tasks == others)
    assert (found | others, found & others) == (tasks | others, tasks & others)
    assert found - others == tasks - others
    assert others - found == others - tasks


def test_nothing_else_is_in_it() -> None:
    found = TaskSet(b"\xff")
    assert [one in found for one in (-1, 8, "0", None)] == [False] * 4
