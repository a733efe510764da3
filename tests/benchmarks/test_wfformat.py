"""Instances in WfFormat become graphs; what is not one is refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from instances import CONFIGURATIONS, Law, TracedTask, instance_of, law_of
from wfformat import parse_instance, read_instance

from augury.config import Resources
from augury.errors import DefinitionError

#  split ─┬─▶ work_1 ─┬─▶ join
#         └─▶ work_2 ─┘

IN_ONE: dict[str, Any] = {
    "schemaVersion": "1.4",
    "workflow": {
        "tasks": [
            {
                "name": "join_ID04",
                "id": "ID04",
                "runtimeInSeconds": 3,
                "parents": ["work_ID02", "work_ID03"],
                "files": [
                    {"link": "input", "name": "b", "sizeInBytes": 20},
                    {"link": "output", "name": "d", "sizeInBytes": 7},
                ],
            },
            {
                "name": "split_ID01",
                "id": "ID01",
                "runtimeInSeconds": 1.5,
                "parents": [],
                "files": [
                    {"link": "input", "name": "x", "sizeInBytes": 1000},
                    {"link": "output", "name": "a", "sizeInBytes": 10},
                    {"link": "output", "name": "a2", "sizeInBytes": 5},
                ],
            },
            {
                "name": "work_ID02",
                "id": "ID02",
                "runtimeInSeconds": 2,
                "parents": ["split_ID01"],
                "files": [{"link": "output", "name": "b", "sizeInBytes": 20}],
            },
            {"name": "work_ID03", "id": "ID03", "runtimeInSeconds": 4, "parents": ["split_ID01"]},
        ]
    },
}

APART: dict[str, Any] = {
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"name": "join", "id": "ID04", "parents": ["ID02", "ID03"], "outputFiles": ["d"]},
                {"name": "split", "id": "ID01", "parents": [], "inputFiles": ["x"], "outputFiles": ["a", "a2"]},
                {"name": "work", "id": "ID02", "parents": ["ID01"], "outputFiles": ["b"]},
                {"name": "work", "id": "ID03", "parents": ["ID01"]},
            ],
            "files": [
                {"id": "x", "sizeInBytes": 1000},
                {"id": "a", "sizeInBytes": 10},
                {"id": "a2", "sizeInBytes": 5},
                {"id": "b", "sizeInBytes": 20},
                {"id": "d", "sizeInBytes": 7},
            ],
        },
        "execution": {
            "tasks": [
                {"id": "ID01", "runtimeInSeconds": 1.5},
                {"id": "ID02", "runtimeInSeconds": 2, "command": {"program": "work"}},
                {"id": "ID03", "runtimeInSeconds": 4, "command": {"program": "work"}},
                {"id": "ID04", "runtimeInSeconds": 3},
            ]
        },
    },
}


@pytest.mark.parametrize("document", [IN_ONE, APART], ids=["1.4", "1.5"])
def test_both_layouts_are_read(document: dict[str, Any]) -> None:
    instance = parse_instance("diamond", document)
    assert instance.graph.deps == ((), (0,), (0,), (1, 2))
    assert instance.graph.sinks == (3,)
    assert [instance.graph.label(task) for task in range(4)] == ["split[0]", "work[0]", "work[1]", "join[0]"]
    assert instance.seconds == (1.5, 2.0, 4.0, 3.0)
    assert instance.output_bytes == (15.0, 20.0, 0.0, 7.0)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps(APART))
    assert read_instance(path).name == "diamond"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read"),
        ("no JSON", "cannot be read"),
        ("[]", "not an instance in WfFormat"),
        ("{}", "KeyError.*workflow"),
        ('{"workflow": {"tasks": []}}', "has no tasks"),
        ('{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": "soon"}]}}', "soon"),
        ('{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": -1}]}}', "-1 is not a finite number"),
        ('{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": 1, "parents": ["b"]}]}}', "KeyError.*b"),
        ('{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": 1, "parents": ["a"]}]}}', "is no DAG: 1 of its"),
    ],
)
def test_what_is_no_instance_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "some.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DefinitionError, match=reason):
        read_instance(path)


def test_more_processors_help_the_parallel_part_only() -> None:
    assert Law(waiting=0.0, parallel=0.5).slowdown(1.0) == 1
    assert Law(waiting=0.0, parallel=0.5).slowdown(2.0) == 0.75
    assert Law(waiting=0.0, parallel=0.0).slowdown(4.0) == 1


def test_less_than_one_processor_slows_all_but_the_waiting_down() -> None:
    assert Law(waiting=0.0, parallel=0.0).slowdown(0.5) == Law(waiting=0.0, parallel=1.0).slowdown(0.5) == 2
    assert Law(waiting=0.25, parallel=0.5).slowdown(0.5) == 0.25 + 0.75 * 2


def test_predictions_follow_the_law_of_the_program() -> None:
    instance = instance_of("one", [TracedTask(program="mAdd", seconds=10.0, output_bytes=3.0, parents=())])
    predictions = instance.predictions()
    for resources in CONFIGURATIONS:
        expected_s = 10 * law_of("mAdd").slowdown(resources.cpus)
        assert predictions.execution_s(instance.graph, resources) == [expected_s]
    assert predictions.output_bytes(instance.graph) == [3.0]
    assert instance.scaled(0.1).predictions().execution_s(instance.graph, Resources(cpus=1)) == [1.0]


def test_stronger_configurations_are_faster_and_have_one_slot() -> None:
    law = law_of("mAdd")
    slowdowns = [law.slowdown(resources.cpus) for resources in CONFIGURATIONS]
    assert slowdowns == sorted(slowdowns, reverse=True)
    assert {resources.task_slots for resources in CONFIGURATIONS} == {1}
