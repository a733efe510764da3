"""Pictures of plans: valid, complete, and nothing on top of anything else."""

import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from augury import DefinitionError, PlanError
from augury.drawing import Drawing
from augury.plan.hints import OwnHint, PreLoadHint, PreWarmHint, TaskDupHint
from augury.plan.model import PlatformModel, Timing
from augury.plan.plan import Plan
from augury.plan.show.gantt import Bar, joined, lanes, ticks
from augury.plan.show.svg import PALETTE, shortened, text_width, tint
from tests.plan.showing import LARGE, SMALL, fan, from_text, named_graph, planned

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def parsed(drawing: Drawing) -> ElementTree.Element:
    root = ElementTree.fromstring(drawing.svg)
    assert root.tag == f"{SVG}svg"
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (drawing.width, drawing.height)
    return root


def texts(drawing: Drawing) -> list[str]:
    return [element.text or "" for element in parsed(drawing).iter(f"{SVG}text")]


def titles(drawing: Drawing) -> list[str]:
    return [element.text or "" for element in parsed(drawing).iter(f"{SVG}title")]


def moved(element: ElementTree.Element) -> tuple[float, float]:
    found = re.fullmatch(r"translate\(([-\d.]+) ([-\d.]+)\)", element.attrib.get("transform", "translate(0 0)"))
    assert found
    return float(found[1]), float(found[2])


def text_boxes(drawing: Drawing) -> list[tuple[str, Box]]:
    """Every text and the room that it takes."""
    found: list[tuple[str, Box]] = []

    def visit(element: ElementTree.Element, x: float, y: float) -> None:
        dx, dy = moved(element)
        x, y = x + dx, y + dy
        if element.tag == f"{SVG}text" and element.text:
            size = float(element.attrib["font-size"])
            width = text_width(element.text, size)
            left = {"middle": width / 2, "end": width}.get(element.attrib.get("text-anchor", ""), 0.0)
            at_x, at_y = x + float(element.attrib["x"]) - left, y + float(element.attrib["y"])
            found.append((element.text, (at_x, at_y - 0.75 * size, at_x + width, at_y + 0.2 * size)))
        for child in element:
            visit(child, x, y)

    visit(parsed(drawing), 0.0, 0.0)
    return found


def check_texts(drawing: Drawing) -> None:
    """Texts stand inside the picture, and none on another."""
    boxes = text_boxes(drawing)
    for words, (left, top, right, bottom) in boxes:
        assert left >= 0, words
        assert top >= 0, words
        assert right <= drawing.width, words
        assert bottom <= drawing.height, words
    for (words, first), (others, second) in combinations(boxes, 2):
        apart = first[2] <= second[0] or second[2] <= first[0] or first[3] <= second[1] or second[3] <= first[1]
        assert apart, f"{words!r} and {others!r}"


#  load[0] ─▶ resize[0] ─┐
#                        ├▶ total[0]
#  load[1] ─▶ resize[1] ─┘
PAIR = named_graph(("load", ()), ("load", ()), ("resize", [0]), ("resize", [1]), ("total", [2, 3]))


def pair(**options: Any) -> Plan:
    times = {"load[0]": 1.0, "load[1]": 2.0, "resize": 1.0, "total": 0.5}
    return planned(PAIR, [0, 1, 0, 1, 0], times, 1e6, **options)


HINTED = pair(
    hints={0: (PreWarmHint(SMALL), TaskDupHint(0.0, 1.0)), 4: (PreLoadHint(), OwnHint("compress"))},
    policies={"compress": b""},
)
FLEXIBLE = planned(PAIR, [None] * 5)
WIDE = fan(30)
MANY = fan(500, per_worker=4)
TWO_AT_ONCE = planned(named_graph(*[("load", ())] * 6), [0] * 6, resources={0: LARGE})
PLANS = [pair(), HINTED, FLEXIBLE, WIDE, MANY, TWO_AT_ONCE, planned(named_graph(("load", ())), [0])]


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_texts_of_a_picture_do_not_overlap(plan: Plan) -> None:
    check_texts(plan.picture())


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_texts_of_a_timeline_do_not_overlap(plan: Plan) -> None:
    check_texts(plan.timeline())


# ── the picture ────────────────────────────────────────────────────────────────────────────────────────────────


def nodes(drawing: Drawing) -> list[ElementTree.Element]:
    return [element for element in parsed(drawing).iter(f"{SVG}g") if element.attrib.get("class") == "node"]


def node_of(drawing: Drawing, label: str) -> ElementTree.Element:
    return next(node for node in nodes(drawing) if next(text.text for text in node.iter(f"{SVG}text")) == label)


def colour_of(node: ElementTree.Element) -> str:
    return list(node.iter(f"{SVG}rect"))[1].attrib["fill"]


def test_each_task_is_a_node_in_the_colour_of_its_worker() -> None:
    drawing = pair().picture()
    assert len(nodes(drawing)) == 5
    here, there = (colour_of(node_of(drawing, f"load[{number}]")) for number in range(2))
    assert here != there
    assert colour_of(node_of(drawing, "total[0]")) == here
    assert {here, there} <= set(PALETTE)


def test_a_node_says_where_and_how_long() -> None:
    words = [text.text for text in node_of(pair().picture(), "load[1]").iter(f"{SVG}text")]
    assert words == ["load[1]", "w1 · 2.00 s"]


def test_labels_fit_their_nodes() -> None:
    for node in nodes(HINTED.picture()):
        frame = next(iter(node.iter(f"{SVG}rect")))
        left, width = float(frame.attrib["x"]), float(frame.attrib["width"])
        marks = [float(circle.attrib["cx"]) - 7 for circle in node.iter(f"{SVG}circle")]
        end = min([left + width, *marks])
        for text in list(node.iter(f"{SVG}text"))[:2]:
            assert float(text.attrib["x"]) + text_width(text.text or "", float(text.attrib["font-size"])) <= end


def test_the_legend_names_workers_with_their_memory() -> None:
    found = texts(pair().picture())
    assert "w0 (512 MB, 1 CPU): 3 tasks" in found
    assert "w1 (512 MB, 1 CPU): 2 tasks" in found


def test_the_critical_path_is_framed_and_its_edges_are_thick() -> None:
    drawing = pair().picture()
    frames = {
        (next(iter(node.iter(f"{SVG}text"))).text or ""): next(iter(node.iter(f"{SVG}rect"))).attrib["stroke-width"]
        for node in nodes(drawing)
    }
    assert frames == {"load[0]": "1", "load[1]": "2.4", "resize[0]": "1", "resize[1]": "2.4", "total[0]": "2.4"}
    widths = [path.attrib["stroke-width"] for path in parsed(drawing).iter(f"{SVG}path") if len(path)]
    assert widths.count("2.6") == 2


def test_an_edge_says_whether_its_output_goes_through_storage() -> None:
    found = titles(pair().picture())
    assert found.count("1 output on the same worker") == 3
    assert found.count("1 output through storage") == 1


def test_a_task_that_waits_for_a_place_hangs_on_a_dashed_line() -> None:
    drawing = planned(named_graph(*[("load", ())] * 2), [0, 0]).picture()
    dashed = [path for path in parsed(drawing).iter(f"{SVG}path") if "stroke-dasharray" in path.attrib]
    assert len(dashed) == 1


def test_hints_are_marked_by_letters_that_the_legend_explains() -> None:
    drawing = HINTED.picture()
    letters = {
        label: sorted((text.text or "") for text in node_of(drawing, label).iter(f"{SVG}text"))[:2]
        for label in ("load[0]", "total[0]")
    }
    assert letters == {"load[0]": ["D", "W"], "total[0]": ["L", "O"]}
    assert {"hint: pre-warm", "hint: pre-load", "hint: task-dup", "hint: compress"} <= set(texts(drawing))


def test_very_many_tasks_share_nodes() -> None:
    drawing = MANY.picture()
    assert [next(iter(node.iter(f"{SVG}text"))).text for node in nodes(drawing)] == ["load × 500", "total[0]"]
    assert "125 workers · each 1.00 s" in texts(drawing)
    assert "124 more workers (512 MB, 1 CPU)" in texts(drawing)


@pytest.mark.parametrize("width", [100, 1000, 5000])
def test_a_picture_stays_small_however_many_tasks_there_are(width: int) -> None:
    plan = fan(width, per_worker=10)
    assert len(plan.picture().svg) < 150_000
    assert plan.picture().height < 8_000
    assert len(plan.timeline().svg) < 1_500_000
    assert plan.timeline().height < 8_000


def test_a_tooltip_tells_more() -> None:
    assert (
        "total[0]\non w0 (512 MB, 1 CPU)\nexecutes from 5.50 s\nuntil 6.00 s\nhints: compress, pre-load\n"
        "on the critical path"
    ) in titles(HINTED.picture())


@pytest.mark.parametrize("name", ["<lambda>", 'a"b', "a&b", "ünï", "名前" * 20, "x" * 300, "a\x00\x1b[2J\ud800b"])
def test_any_name_can_be_drawn(name: str) -> None:
    plan = planned(named_graph((name, ()), ("total", [0])), [0, 1])
    check_texts(plan.picture())
    check_texts(plan.timeline())


def test_a_plan_without_prediction_can_be_drawn() -> None:
    plan = msgspec.structs.replace(pair(), predicted=None, outlook=None)
    assert [text.text for text in node_of(plan.picture(), "load[1]").iter(f"{SVG}text")] == ["load[1]", "w1"]


def test_a_plan_from_text_has_no_picture() -> None:
    with pytest.raises(PlanError, match="does not know its workflow: draw the plan that"):
        from_text(pair()).picture()


# ── the timeline ───────────────────────────────────────────────────────────────────────────────────────────────


def bars(drawing: Drawing, words: str) -> list[ElementTree.Element]:
    """The bars whose tooltip begins with these words."""
    return [
        rect
        for rect in parsed(drawing).iter(f"{SVG}rect")
        if any((title.text or "").startswith(words) for title in rect.iter(f"{SVG}title"))
    ]


def test_each_phase_is_a_bar_with_its_times() -> None:
    drawing = pair().timeline()
    found = titles(drawing)
    assert "w0 starts cold\n0.00–0.50 s (500 ms)" in found
    assert "total[0] downloads\n4.50–5.50 s (1.00 s)" in found
    assert "total[0] executes\n5.50–6.00 s (500 ms)" in found
    assert "total[0] uploads\n6.00–7.00 s (1.00 s)" in found


def test_a_bar_is_as_long_as_it_takes() -> None:
    drawing = pair().timeline()
    (load,), (resize,) = bars(drawing, "load[1] executes"), bars(drawing, "resize[1] executes")
    assert float(load.attrib["width"]) == pytest.approx(2 * float(resize.attrib["width"]), abs=0.1)
    assert float(resize.attrib["x"]) == pytest.approx(float(load.attrib["x"]) + float(load.attrib["width"]), abs=0.1)


def test_tasks_on_the_critical_path_are_framed() -> None:
    drawing = pair().timeline()
    widths = {
        label: bars(drawing, f"{label} executes")[0].attrib["stroke-width"]
        for label in ("load[0]", "load[1]", "total[0]")
    }
    assert widths == {"load[0]": "0.5", "load[1]": "1.6", "total[0]": "1.6"}
    assert "total[0] waits for resize[1]" in titles(drawing)


def test_each_worker_is_a_row_with_what_it_has() -> None:
    assert {"w0 512 MB, 1 CPU", "w1 512 MB, 1 CPU"} <= set(texts(pair().timeline()))


def test_a_worker_that_waits_for_a_slot_is_drawn_waiting() -> None:
    cramped = PlatformModel(timing=Timing(cold_start_s=0.5, latency_s=0.0), concurrency=1)
    drawing = planned(named_graph(*[("load", ())] * 2), [0, 1], platform=cramped).timeline()
    assert len(bars(drawing, "w1 waits for a slot")) == 1


def test_tasks_that_run_at_once_have_lanes() -> None:
    drawing = TWO_AT_ONCE.timeline()
    tops = {bars(drawing, f"load[{task}] executes")[0].attrib["y"] for task in range(6)}
    assert len(tops) == 2


@pytest.mark.parametrize("plan", [pair(), MANY, TWO_AT_ONCE, FLEXIBLE], ids=repr)
def test_executions_of_one_lane_do_not_overlap(plan: Plan) -> None:
    by_lane: dict[str, list[tuple[float, float]]] = {}
    for rect in parsed(plan.timeline()).iter(f"{SVG}rect"):
        if any(" executes" in (title.text or "") for title in rect.iter(f"{SVG}title")):
            x = float(rect.attrib["x"])
            by_lane.setdefault(rect.attrib["y"], []).append((x, x + float(rect.attrib["width"])))
    assert by_lane
    for spans in by_lane.values():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= begin + 0.5  # a bar is at least 0.4 wide, to be seen


def test_more_workers_than_rows_are_counted() -> None:
    assert "… and 700 more workers" in texts(fan(1000).timeline())


def test_a_plan_from_text_has_a_timeline() -> None:
    assert "task 4 executes\n5.50–6.00 s (500 ms)" in titles(from_text(pair()).timeline())


def test_a_plan_without_prediction_has_no_timeline() -> None:
    with pytest.raises(PlanError, match="nothing was predicted for this plan"):
        msgspec.structs.replace(pair(), predicted=None, outlook=None).timeline()


def test_lanes_are_as_few_as_possible() -> None:
    assert TWO_AT_ONCE.predicted is not None
    assert lanes(range(6), TWO_AT_ONCE.predicted) == [[0, 2, 4], [1, 3, 5]]
    assert lanes([], TWO_AT_ONCE.predicted) == [[]]


def test_bars_too_short_to_be_seen_are_drawn_together() -> None:
    tiny = [Bar(from_s=number * 0.01, to_s=number * 0.01 + 0.005, task=number) for number in range(100)]
    assert joined(tiny, 0.1) == [Bar(from_s=0.0, to_s=0.995, task=0, tasks=100)]
    assert joined(tiny, 0.001) == tiny


def test_bars_of_the_critical_path_are_not_hidden_among_others() -> None:
    tiny = [Bar(from_s=0.0, to_s=0.01, task=0), Bar(from_s=0.01, to_s=0.02, task=1, critical=True)]
    assert joined(tiny, 0.1) == tiny


@pytest.mark.parametrize(
    ("span_s", "expected"),
    [
        (1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (7.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        (0.0, [0.0]),
        (math.inf, [0.0]),
    ],
)
def test_the_axis_has_round_numbers(span_s: float, expected: list[float]) -> None:
    assert ticks(span_s) == pytest.approx(expected)


@pytest.mark.parametrize("span_s", [1e-6, 0.037, 3.3, 99.0, 12345.0])
def test_the_axis_has_few_numbers(span_s: float) -> None:
    assert 3 <= len(ticks(span_s)) <= 11
    assert ticks(span_s)[-1] <= span_s * (1 + 1e-9)


def test_a_run_that_is_not_expected_to_end_can_be_shown() -> None:
    plan = pair()
    assert plan.predicted is not None
    timeline = plan.predicted.timeline
    never = [*list(timeline.end_s)[:-1], math.inf]
    endless = msgspec.structs.replace(
        plan,
        predicted=msgspec.structs.replace(
            plan.predicted,
            makespan_s=math.inf,
            timeline=msgspec.structs.replace(
                timeline,
                worker=[*list(timeline.worker)[:-1], -1],
                **dict.fromkeys(("ready_s", "start_s", "execute_s", "executed_s", "end_s"), never),
            ),
        ),
    )
    check_texts(endless.picture())
    check_texts(endless.timeline())
    assert "total[0] on any worker" in str(endless.explain("total[0]"))
    assert "  makespan       -" in str(endless).splitlines()


# ── drawings ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_drawing_is_shown_by_notebooks_and_saved_to_files(tmp_path: Path) -> None:
    drawing = pair().picture()
    assert drawing._repr_svg_() == drawing.svg
    assert drawing.save(tmp_path / "plan.svg").read_text(encoding="utf-8") == drawing.svg
    assert "svg" not in repr(drawing)


@pytest.mark.parametrize("path", ["no/such/folder/plan.svg", "", None, 3.5])
def test_a_drawing_that_cannot_be_saved_says_why(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match=r"the picture cannot be saved to path="):
        pair().picture().save(path)


def test_colours_are_told_apart_from_white_and_text_from_tints() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(light: str, dark: str) -> float:
        return (luminance(light) + 0.05) / (luminance(dark) + 0.05)

    assert all(contrast(tint(colour, 0.16), "#444444") > 7 for colour in PALETTE)
    assert len({tint(colour, 0.16) for colour in PALETTE}) == len(PALETTE)


def test_long_texts_lose_their_middle() -> None:
    assert shortened("a_rather_long_name[17]", 12) == "a_rat…me[17]"
    assert shortened("short", 12) == "short"
