"""What a worker that stands for a lost one has to do."""

from augury.storage.protocols import Remains
from augury.worker.messages import Began, Discard, Fetch, Fetched, Finished, Leave, Run, Send
from augury.worker.recovery import Duties, duties
from augury.worker.view import RunView
from tests.worker.shapes import INLINE_BYTES, SMALL, Core, graph_of, plan_of


def view_of(deps: list[list[int]], planned: dict[int, int] | None = None) -> RunView:
    graph = graph_of(deps)
    return RunView(graph, plan_of(graph, planned), concurrency=4, inline_bytes=INLINE_BYTES)


def found(
    view: RunView,
    name: str,
    *,
    done: set[int] | None = None,
    stored: set[int] | None = None,
    grants: dict[int, str] | None = None,
    claims: dict[str, tuple[int, ...]] | None = None,
) -> Duties:
    remains = Remains(frozenset(stored or ()), grants or {}, claims or {})
    return duties(view, name, frozenset(done or ()), remains, lambda _: False)


class TestFlexible:
    def test_all_that_follows_from_its_claim_without_a_word_is_done_again(self) -> None:
        """0 → 1 → 2."""
        assert found(view_of([[], [0], [1]]), "t0", claims={"t0": (0,)}).tasks == {0, 1, 2}

    def test_what_is_in_storage_and_all_before_it_is_not(self) -> None:
        """0 → 1 → 2."""
        view = view_of([[], [0], [1]])
        assert found(view, "t0", done={1}, stored={1}, claims={"t0": (0,)}).tasks == {2}

    def test_a_counted_task_whose_output_was_only_in_memory_is_done_again(self) -> None:
        """0, 1 → 2, which both were counted for, and which t0 got; the outputs were with it."""
        view = view_of([[], [], [0, 1]])
        lost = found(view, "t0", done={0, 1}, stored={1}, grants={2: "t0"}, claims={"t0": (0,), "t1": (1,)})
        assert lost.tasks == {0, 2}

    def test_what_others_were_given_is_theirs(self) -> None:
        """0 → 1, 2, 3; t1 was claimed for 1 and 2."""
        view = view_of([[], [0], [0], [0], [1, 2, 3]])
        lost = found(view, "t0", stored={0}, done={0}, claims={"t0": (0,), "t1": (1, 2)})
        assert lost.tasks == {3}
        assert lost.others == {1, 2}

    def test_what_storage_gave_to_another_one_is_not_its_own(self) -> None:
        """0, 1 → 2; t1 was the last to report, and got 2."""
        view = view_of([[], [], [0, 1]])
        lost = found(view, "t0", done={0, 1}, stored={0, 1}, grants={2: "t1"}, claims={"t0": (0,), "t1": (1,)})
        assert lost.tasks == frozenset()

    def test_what_it_was_granted_and_handed_on_is_no_longer_its_own(self) -> None:
        """0, 1, 2; t0 had all, and handed 1 on, and t1.1 handed it on to t1.2."""
        view = view_of([[], [], [], [0, 1, 2]])
        claims = {"t0": (0, 1, 2), "t1.1": (1,), "t1.2": (1,)}
        assert found(view, "t0", claims=claims).tasks == {0, 2}
        assert found(view, "t1.1", claims=claims).tasks == frozenset()
        assert found(view, "t1.2", claims=claims).tasks == {1}

    def test_a_fan_in_that_it_gathered_is_done_again(self) -> None:
        """0, 1 → 2; both ran here, and nobody was told."""
        assert found(view_of([[], [], [0, 1]]), "t0", claims={"t0": (0, 1)}).tasks == {0, 1, 2}

    def test_a_fan_in_with_an_input_of_another_worker_is_not_its_own(self) -> None:
        """0, 1 → 2; 1 is still under way elsewhere."""
        view = view_of([[], [], [0, 1]])
        assert found(view, "t0", claims={"t0": (0,), "t1": (1,)}).tasks == {0}


class TestPlanned:
    def test_only_what_is_needed_is_done_again(self) -> None:
        """0 → 1 → 2 → 3 on w0; 2 is in storage, since another worker needs it."""
        view = view_of([[], [0], [1], [2], [2]], {0: 0, 1: 0, 2: 0, 3: 0, 4: 1})
        assert found(view, "w0", done={2}, stored={2}).tasks == {3}

    def test_an_input_that_only_the_lost_one_had_is_made_again(self) -> None:
        """0 → 1, 2 on w0; 1 was told of, 0 was not."""
        view = view_of([[], [0], [0]], {0: 0, 1: 0, 2: 0})
        assert found(view, "w0", done={1}, stored={1}).tasks == {0, 2}

    def test_what_a_worker_that_may_not_have_begun_waits_to_be_told_is_done_again(self) -> None:
        """0 on w0 → 1 on w1 → 2 on w0, 3 on w1; w0 ran 1 too, and told of it before it had told of 0."""
        view = view_of([[], [0], [1], [1]], {0: 0, 1: 1, 2: 0, 3: 1})
        assert found(view, "w0", done={1}, stored={1}).tasks == {0, 2}
        assert found(view, "w0", done={0, 1}, stored={1}).tasks == {2}

    def test_when_all_sinks_are_in_storage_nothing_is_left_to_do(self) -> None:
        view = view_of([[], [0]], {0: 0, 1: 0})
        assert found(view, "w0", done={1}, stored={1}).tasks == frozenset()


class TestCore:
    def test_storage_is_told_of_what_was_gathered_before_the_loss(self) -> None:
        """0 on w1 → 1 on w0 → 3 on w2; 0, 1 → 2, which to w1 would look like its own once 1 is counted."""
        core = Core([[], [0], [0, 1], [1]], "w0", planned={0: 1, 1: 0, 3: 2})
        stored = frozenset({0})
        core.tell(Began((), stored, 1, Remains(stored)))
        core.tell(Fetched((0,)))
        core.finish(1)
        told = Send((Finished(1, SMALL, (3,)), Finished(2, SMALL)), taken=(2,), ran=2)
        assert [command for command in core.finish(2) if isinstance(command, Send)] == [told]

    def test_lost_tasks_run_again_in_their_order_and_each_once(self) -> None:
        """0, 1 → 2 → 3; 2 was granted, its inputs were in memory."""
        core = Core([[], [], [0, 1], [2]])
        remains = Remains(frozenset(), {2: "t0"}, {"t0": (0, 1)})
        assert core.tell(Began((0, 1), frozenset({0, 1}), 1, remains)) == [Run(0)]
        assert core.finish(0) == [Run(1)]
        assert core.finish(1) == [Run(2)]
        assert core.finish(2) == [Discard((0,)), Discard((1,)), Run(3)]
        assert core.finish(3) == [Discard((2,)), Send((Finished(3, SMALL),), ran=4)]

    def test_what_is_in_storage_is_fetched(self) -> None:
        """0 → 1 on w0."""
        core = Core([[], [0]], "w0", planned={0: 0, 1: 0})
        assert core.tell(Began((), frozenset({0}), 1, Remains(frozenset({0})))) == [Fetch((0,))]
        assert core.tell(Fetched((0,))) == [Run(1)]

    def test_who_has_nothing_to_do_leaves(self) -> None:
        core = Core([[], [0]], "w0", planned={0: 0, 1: 0})
        assert core.tell(Began((), frozenset({1}), 1, Remains(frozenset({1})))) == [Leave()]

    def test_consumers_that_others_have_are_left_to_them(self) -> None:
        """0 → 1, 2; 0 was not told of, and t2 was claimed for 2 with its output published."""
        core = Core([[], [0], [0]])
        remains = Remains(frozenset(), {}, {"t0": (0,), "t2": (2,)})
        core.tell(Began((0,), frozenset(), 1, remains))
        assert core.finish(0) == [Run(1)]
