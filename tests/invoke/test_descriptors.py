"""Who gets how many of the files that the supervisor may have open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.invoke.embedded.descriptors import Share, share_out


def test_where_many_files_may_be_open_nothing_is_taken_away() -> None:
    assert share_out(65_536, 32, 32) == Share(slots=32, max_idle=32, connections=10_000)


def test_connections_get_what_workers_leave() -> None:
    assert share_out(256, 8, 8) == Share(slots=8, max_idle=8, connections=160)


@pytest.mark.parametrize(("files", "slots"), [(264, 40), (263, 39), (72, 1), (10, 1)])
def test_fewer_workers_run_than_wished_where_files_do_not_suffice(files: int, slots: int) -> None:
    shared = share_out(files, 60, 60)
    assert (shared.slots, shared.max_idle) == (slots, slots)


@given(files=st.integers(0, 100_000), slots=st.integers(1, 20_000), idle=st.integers(0, 20_000))
def test_there_are_files_for_all_workers_and_each_that_runs_can_connect(files: int, slots: int, idle: int) -> None:
    shared = share_out(files, slots, idle)
    assert 1 <= shared.slots <= slots
    assert shared.max_idle <= idle
    assert shared.connections >= min(10_000, shared.slots)
    assert shared.slots == 1 or 2 * (shared.slots + shared.max_idle) + shared.connections + 64 <= files
