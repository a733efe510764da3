"""Which tasks share a node of a picture, and where nodes go."""

from itertools import combinations
from random import Random

import pytest

from augury.dag.graph import Graph
from augury.plan.show.grouping import MOST_COLUMNS, MOST_NODES, MOST_SINGLE, Grouping, group
from augury.plan.show.layout import Box, Layout, arrange
from tests.plan.showing import named_graph


def grouped(graph: Graph, places: list[int] | None = None) -> Grouping:
    return group(graph, places or [0] * len(graph), lambda task: None)


def names(graph: Graph, grouping: Grouping) -> list[tuple[str, int]]:
    """Each node as the name of its function, and how many tasks it stands for."""
    return [(graph.info(tasks[0]).name, len(tasks)) for tasks in grouping.tasks]


def pipeline(width: int) -> Graph:
    """load[i] ─▶ resize[i] ─▶ total, so many times."""
    loads, resizes = [("load", ())] * width, [("resize", [task]) for task in range(width)]
    return named_graph(*loads, *resizes, ("total", range(width, 2 * width)))


def chain(length: int) -> Graph:
    """step ─▶ step ─▶ …, so many."""
    return named_graph(*[("step", [task - 1] if task else []) for task in range(length)])


def random_graph(tasks: int, seed: int) -> Graph:
    draw = Random(seed)
    return named_graph(
        *[
            (
                draw.choice("abcde"),
                sorted({draw.randrange(max(0, task - 15), task) for _ in range(draw.choice([0, 1, 2]))}),
            )
            if task
            else ("a", ())
            for task in range(tasks)
        ]
    )


def check(graph: Graph, grouping: Grouping) -> None:
    """Each task is in one node, edges are those of the tasks, and they all lead to greater depths."""
    assert sorted(task for tasks in grouping.tasks for task in tasks) == list(range(len(graph)))
    assert all(task in grouping.tasks[node] for task, node in enumerate(grouping.node_of))
    needed = {(grouping.node_of[dep], grouping.node_of[task]) for task, deps in enumerate(graph.deps) for dep in deps}
    assert set(grouping.edges) == {(source, target) for source, target in needed if source != target}
    assert all(grouping.depth[source] < grouping.depth[target] for source, target in grouping.edges)


def test_few_tasks_have_a_node_each() -> None:
    grouping = grouped(pipeline(50))
    assert len(grouping) == 101
    assert grouping.depth == (0,) * 50 + (1,) * 50 + (2,)


def test_many_siblings_that_are_alike_share_a_node() -> None:
    graph = pipeline(500)
    grouping = grouped(graph)
    assert names(graph, grouping) == [("load", 500), ("resize", 500), ("total", 1)]
    assert grouping.edges == ((0, 1), (1, 2))


def test_siblings_on_different_workers_share_none_while_there_is_room() -> None:
    graph = pipeline(500)
    grouping = grouped(graph, [task % 500 // 100 for task in range(1000)] + [0])
    assert names(graph, grouping) == [("load", 100)] * 5 + [("resize", 100)] * 5 + [("total", 1)]


def test_a_task_with_other_neighbours_is_not_alike() -> None:
    #  500 × (load ─▶ resize) ─▶ total, but the first load is also taken by check
    graph = named_graph(
        *[("load", ())] * 500, *[("resize", [task]) for task in range(500)], ("total", range(500, 1000)), ("check", [0])
    )
    assert names(graph, grouped(graph)) == [
        *(("load", 1), ("load", 499), ("resize", 1), ("check", 1), ("resize", 499), ("total", 1)),
    ]


def test_a_long_chain_becomes_one_node() -> None:
    assert names(chain(1000), grouped(chain(1000))) == [("step", 1000)]


def test_a_chain_that_is_too_long_for_a_picture_is_cut_though_it_has_few_tasks() -> None:
    assert len(grouped(chain(MOST_COLUMNS))) == MOST_COLUMNS
    assert len(grouped(chain(MOST_COLUMNS + 1))) == 1


def test_what_is_nowhere_alike_is_cut_into_bands_of_depth() -> None:
    graph = random_graph(1000, seed=3)
    grouping = grouped(graph)
    check(graph, grouping)
    assert len(grouping) <= MOST_NODES


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tasks", [1, 30, MOST_SINGLE + 1, 2000])
def test_a_grouping_is_complete_ordered_and_bounded(tasks: int, seed: int) -> None:
    graph = random_graph(tasks, seed)
    grouping = grouped(graph, [task % 7 for task in range(tasks)])
    check(graph, grouping)
    assert len(grouping) <= (MOST_SINGLE if tasks <= MOST_SINGLE else MOST_NODES)
    assert max(grouping.depth) < MOST_COLUMNS


# ── layout ─────────────────────────────────────────────────────────────────────────────────────────────────────


def laid_out(grouping: Grouping, width: float = 100.0, height: float = 30.0) -> Layout:
    return arrange(grouping.depth, grouping.edges, [width] * len(grouping), height)


def overlap(first: Box, second: Box) -> bool:
    return (
        first.x < second.x + second.width
        and second.x < first.x + first.width
        and first.y < second.y + second.height
        and second.y < first.y + first.height
    )


def crossings(grouping: Grouping, layout: Layout) -> int:
    """Pairs of edges between the same two columns that cross."""
    found = 0
    for (a, b), (c, d) in combinations(grouping.edges, 2):
        if grouping.depth[a] == grouping.depth[c] and grouping.depth[b] == grouping.depth[d]:
            boxes = layout.boxes
            found += (boxes[a].y - boxes[c].y) * (boxes[b].y - boxes[d].y) < 0
    return found


@pytest.mark.parametrize("seed", range(8))
def test_nodes_do_not_overlap_and_stay_inside(seed: int) -> None:
    layout = laid_out(grouped(random_graph(80, seed)))
    assert not any(overlap(first, second) for first, second in combinations(layout.boxes, 2))
    assert all(box.x >= 0 and box.x + box.width <= layout.width for box in layout.boxes)
    assert all(box.y >= -1e-9 and box.y + box.height <= layout.height + 1e-9 for box in layout.boxes)


@pytest.mark.parametrize("seed", range(8))
def test_edges_run_through_no_node(seed: int) -> None:
    grouping = grouped(random_graph(80, seed))
    layout = laid_out(grouping)
    for (source, target), route in zip(grouping.edges, layout.routes, strict=True):
        assert route[0] == (layout.boxes[source].x + layout.boxes[source].width, layout.boxes[source].middle)
        assert route[-1] == (layout.boxes[target].x, layout.boxes[target].middle)
        assert all(0 <= y <= layout.height for _, y in route)
        for x, y in route[1:-1]:
            assert not any(box.x <= x <= box.x + box.width and box.y < y < box.y + box.height for box in layout.boxes)


def test_a_tree_is_drawn_without_crossings() -> None:
    #  8 leaves ─▶ 4 ─▶ 2 ─▶ 1, the leaves in an order that would cross
    leaves = [0, 4, 1, 5, 2, 6, 3, 7]
    graph = named_graph(
        *[("leaf", ())] * 8,
        *[("pair", sorted(leaves[2 * index : 2 * index + 2])) for index in range(4)],
        *[("four", [8 + 2 * index, 9 + 2 * index]) for index in range(2)],
        ("all", [12, 13]),
    )
    grouping = grouped(graph)
    assert crossings(grouping, laid_out(grouping)) == 0


def test_sorting_leaves_fewer_crossings_than_the_order_of_definition() -> None:
    draw = Random(5)
    graph = named_graph(*[("a", ())] * 20, *[("b", sorted(draw.sample(range(20), 2))) for _ in range(20)])
    grouping = grouped(graph)
    before = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(grouping.edges, 2))
    assert crossings(grouping, laid_out(grouping)) < 0.5 * before


def test_a_chain_is_straight() -> None:
    layout = laid_out(grouped(chain(10)))
    assert {box.y for box in layout.boxes} == {0.0}


def test_a_node_stands_in_the_middle_of_its_inputs() -> None:
    layout = laid_out(grouped(named_graph(*[("load", ())] * 3, ("total", range(3)))))
    assert layout.boxes[3].middle == pytest.approx(layout.boxes[1].middle)


def test_the_nodes_of_a_column_are_equally_wide() -> None:
    layout = arrange([0, 0, 1], [(0, 2), (1, 2)], [50.0, 80.0, 20.0], 30.0)
    assert [box.width for box in layout.boxes] == [80.0, 80.0, 20.0]


def test_very_many_edges_that_skip_columns_are_drawn_straight() -> None:
    #  a chain of 60 whose every step is also taken by each later one
    graph = named_graph(*[("step", range(task)) for task in range(60)])
    layout = laid_out(grouped(graph))
    assert {len(route) for route in layout.routes} == {2}
