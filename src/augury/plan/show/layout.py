"""Where the nodes of a layered picture go: columns by depth, few crossings, neighbours at equal heights.

    depth     0          1          2
           ┌──────┐
           │ load ├──▶ resize ──┐
           └──────┘             ├▶ total
           ┌──────┐             │
           │ load ├──▶ resize ──┘
           └──────┘

1. Edges that skip columns get a bend in each column between, which takes part as a very thin node, so that no edge runs
   through a node. (Sugiyama, Tagawa and Toda, 1981.)
2. Columns are sorted by the mean place of their neighbours in the column before, then after, in a few sweeps; the order
   with the fewest crossings is kept.
3. Heights are chosen in sweeps too: each node would like the mean height of its neighbours. The heights of a column
   that are as close to that as possible, and keep order and distances, are found by pooling those that push each other.

Each sweep is linear in edges, but for sorting.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_MOST_BENDS = 6_000
_SWEEPS = 8
_MOST_EDGES = 20_000
_COLUMN_GAP = 56.0
_ROW_GAP = 14.0
_BEND_HEIGHT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle; `x` and `y` are its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything goes.

    Attributes:
        boxes: For each node its place.
        routes: For each edge the points that it goes through, the ends included.
        width: Of everything; `height`: likewise.
    """

    boxes: tuple[Box, ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def arrange(depth: Sequence[int], edges: Sequence[tuple[int, int]], widths: Sequence[float], height: float) -> Layout:
    """Lay out nodes.

    Args:
        depth: For each node its column; grows along edges.
        edges: Pairs of nodes.
        widths: For each node how wide it must be; those of a column become equally wide.
        height: How high they all are.
    """
    columns = _Columns(depth, edges)
    columns.sort()
    heights = [height if node < len(depth) else _BEND_HEIGHT for node in range(len(columns.column_of))]
    middles = _heights(columns, heights)
    column_widths = _column_widths(depth, widths)
    left = _lefts(column_widths)
    boxes = tuple(
        Box(x=left[depth[node]], y=middles[node] - height / 2, width=column_widths[depth[node]], height=height)
        for node in range(len(depth))
    )
    right = [start + width for start, width in zip(left, column_widths, strict=True)]
    routes = tuple(
        _route(
            boxes[source],
            boxes[target],
            [(left[columns.column_of[b]], right[columns.column_of[b]], middles[b]) for b in bends],
        )
        for (source, target), bends in zip(edges, columns.bends, strict=True)
    )
    return Layout(
        boxes=boxes,
        routes=routes,
        width=max(right, default=0.0),
        height=max((middle + tall / 2 for middle, tall in zip(middles, heights, strict=True)), default=0.0),
    )


def _route(source: Box, target: Box, bends: Sequence[tuple[float, float, float]]) -> tuple[tuple[float, float], ...]:
    """From the right side of one box to the left side of another, straight through the columns between."""
    points = [(source.x + source.width, source.middle)]
    for left, right, middle in bends:
        points += [(left, middle), (right, middle)]
    points.append((target.x, target.middle))
    return tuple(points)


def _column_widths(depth: Sequence[int], widths: Sequence[float]) -> list[float]:
    found = [0.0] * (max(depth, default=-1) + 1)
    for node, column in enumerate(depth):
        found[column] = max(found[column], widths[node])
    return found


def _lefts(column_widths: Sequence[float]) -> list[float]:
    found = [0.0]
    for width in column_widths:
        found.append(found[-1] + width + _COLUMN_GAP)
    return found[:-1]


class _Columns:
    """Nodes and bends by column; bends are numbered after the nodes.

    Attributes:
        column_of: For each node and bend, its column.
        order: For each column, what stands in it, from above.
        bends: For each edge, its bends.
        before: For each node and bend, its neighbours in the column before; `after`: in the one after.
    """

    def __init__(self, depth: Sequence[int], edges: Sequence[tuple[int, int]]) -> None:
        self.column_of = list(depth)
        self.bends: list[list[int]] = []
        skipped = sum(depth[target] - depth[source] - 1 for source, target in edges)
        bends_all = skipped <= _MOST_BENDS
        links: list[tuple[int, int]] = []
        for source, target in edges:
            between = range(depth[source] + 1, depth[target]) if bends_all else ()
            bends = list(range(len(self.column_of), len(self.column_of) + len(between)))
            self.column_of += between
            self.bends.append(bends)
            chain = [source, *bends, target]
            links += pairwise(chain)
        self.before: list[list[int]] = [[] for _ in self.column_of]
        self.after: list[list[int]] = [[] for _ in self.column_of]
        for source, target in links:
            self.after[source].append(target)
            self.before[target].append(source)
        self.order: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for node, column in enumerate(self.column_of):
            self.order[column].append(node)
        self._sweeps = _SWEEPS if len(links) <= _MOST_EDGES else 1

    def sort(self) -> None:
        """Reduce crossings."""
        best, fewest = [list(column) for column in self.order], self.crossings()
        for sweep in range(self._sweeps):
            if not fewest:
                break
            down = sweep % 2 == 0
            columns = self.order[1:] if down else self.order[-2::-1]
            for column in columns:
                self._sort_column(column, self.before if down else self.after)
            found = self.crossings()
            if found < fewest:
                best, fewest = [list(column) for column in self.order], found
        self.order = best

    def _sort_column(self, column: list[int], neighbours: Sequence[Sequence[int]]) -> None:
        place = self._places()
        wish = {
            node: sum(place[other] for other in neighbours[node]) / len(neighbours[node])
            if neighbours[node]
            else float(place[node])
            for node in column
        }
        column.sort(key=wish.__getitem__)

    def _places(self) -> list[int]:
        place = [0] * len(self.column_of)
        for column in self.order:
            for index, node in enumerate(column):
                place[node] = index
        return place

    def crossings(self) -> int:
        """How often edges between neighbouring columns cross."""
        place = self._places()
        total = 0
        for column in self.order[:-1]:
            ends: list[int] = []  # where the edges that begin above end, sorted
            for node in column:
                targets = sorted(place[other] for other in self.after[node])
                total += sum(len(ends) - bisect_left(ends, target + 1) for target in targets)
                for target in targets:
                    insort(ends, target)
        return total


def _heights(columns: _Columns, heights: Sequence[float]) -> list[float]:
    """The middle of every node and bend."""
    middles = [0.0] * len(heights)
    for column in columns.order:
        edge = 0.0
        for node in column:
            middles[node] = edge + heights[node] / 2
            edge += heights[node] + _ROW_GAP
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = columns.before if down else columns.after
        for column in columns.order if down else columns.order[::-1]:
            wishes = [_mean([middles[other] for other in neighbours[node]], middles[node]) for node in column]
            for node, middle in zip(column, _spaced(wishes, [heights[node] for node in column]), strict=True):
                middles[node] = middle
    top = min((middles[node] - heights[node] / 2 for node in range(len(heights))), default=0.0)
    return [middle - top for middle in middles]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spaced(wishes: Sequence[float], heights: Sequence[float]) -> list[float]:
    """The heights closest to the wishes that keep the order, and a gap between neighbours.

    Without the room that each needs above itself, the heights only have to ascend; the ascending numbers that are
    closest to some others are found by pooling those that stand in each other's way into their mean.
    """
    offsets = [0.0]
    for upper, lower in pairwise(heights):
        offsets.append(offsets[-1] + (upper + lower) / 2 + _ROW_GAP)
    pools: list[tuple[float, int]] = []  # sum of wishes, and how many
    for wish, offset in zip(wishes, offsets, strict=False):
        total, number = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / number:
            above, more = pools.pop()
            total, number = total + above, number + more
        pools.append((total, number))
    level = [total / number for total, number in pools for _ in range(number)]
    return [height + offset for height, offset in zip(level, offsets, strict=False)]
