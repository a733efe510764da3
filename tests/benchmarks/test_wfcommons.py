"""The recipes of WfCommons give the same workflows every time; only where it is installed."""

import random
from pathlib import Path
from typing import Any

import pytest
from wfformat import read_instance

pytestmark = pytest.mark.filterwarnings("ignore")  # of its dependencies


@pytest.fixture(scope="module")
def graphs() -> Any:
    return pytest.importorskip("wfcommons_graphs")


def test_a_recipe_gives_the_same_workflow_every_time(graphs: Any) -> None:
    one = graphs.wfcommons_instance("epigenomics", 100)
    random.random()  # what others draw does not matter
    assert graphs.wfcommons_instance("epigenomics", 100) == one
    assert graphs.wfcommons_instance("epigenomics", 100, seed=2) != one


def test_drawing_a_workflow_leaves_the_random_numbers_of_others_alone(graphs: Any) -> None:
    random.seed(3)
    expected = random.random()
    random.seed(3)
    graphs.wfcommons_instance("blast", 100)
    assert random.random() == expected


def test_every_recipe_has_about_as_many_tasks_as_were_asked_for(graphs: Any) -> None:
    for name in graphs.RECIPES:
        assert 60 <= len(graphs.wfcommons_instance(name, 100).graph) <= 110


def test_a_workflow_that_wfcommons_wrote_is_read_back(graphs: Any, tmp_path: Path) -> None:
    with graphs.seeded(1):
        workflow = graphs.RECIPES["1000genome"].from_num_tasks(100).build_workflow()
    path = tmp_path / "1000genome-100.json"
    workflow.write_json(path)
    assert read_instance(path) == graphs.wfcommons_instance("1000genome", 100)
