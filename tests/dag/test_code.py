"""Functions and classes reach workers by name where both find the module, and by value elsewhere."""

import importlib
import importlib.util
import json
import os
import site
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import _pytest
import pytest

import augury
from augury import serde
from augury.dag import modules
from augury.dag.code import FunctionByName, encode_function, is_importable, load_function
from augury.dag.graph import build_workflow
from augury.dag.modules import is_own, may_change, own_modules
from augury.dag.program import LoadedProgram, encode
from augury.dag.task import Function, TaskNode, TaskOptions
from augury.errors import SerializationError

SOURCE = """
import dataclasses

class Handle:
    def __init__(self, fn):
        self.fn = fn

@dataclasses.dataclass
class Thing:
    size: int
    made = 0

def plain(x):
    return helper(x)

def helper(x):
    return x + 1

@Handle
def decorated(x):
    return x + 2

def grow(thing):
    return Thing(thing.size + 1)

def outer():
    def inner(x):
        return x + 3
    return inner

class Space:
    @staticmethod
    def static(x):
        return x + 4

plain.fn = "an attribute that happens to have this name"
"""


class Adder:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, x: int) -> int:
        return x + self.amount


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's, in a folder on the search path."""
    (tmp_path / "own_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_module")
    del sys.modules["own_module"]


@pytest.fixture
def unfindable(tmp_path: Path) -> Iterator[Any]:
    """A module that was loaded from a path nobody would search."""
    file = tmp_path / "hidden" / "loaded.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("loaded_by_path", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["loaded_by_path"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["loaded_by_path"]


def encoded(fn: Callable[..., Any], *, shared_files: bool = True, handle: object = None) -> Any:
    return serde.loads(encode_function(Function(fn, TaskOptions(), handle), shared_files=shared_files).join())


# ── by name or by value ────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_of_a_module_travels_by_name(own: Any) -> None:
    assert encoded(own.plain) == FunctionByName("own_module", "plain", decorated=False)


def test_a_decorated_function_travels_by_name(own: Any) -> None:
    name = FunctionByName("own_module", "decorated", decorated=True)
    assert encoded(own.decorated.fn, handle=own.decorated) == name
    assert name.load() is own.decorated.fn


def test_a_function_with_other_options_than_its_name_was_given_travels_by_name(own: Any) -> None:
    assert encoded(own.decorated.fn, handle=object()) == FunctionByName("own_module", "decorated", decorated=True)


def test_a_plain_function_with_an_attribute_of_that_name_is_loaded_itself(own: Any) -> None:
    assert load_function(encode_function(Function(own.plain, TaskOptions()), shared_files=True).join()) is own.plain


def test_a_static_method_travels_by_name(own: Any) -> None:
    assert encoded(own.Space.static) == FunctionByName("own_module", "Space.static", decorated=False)


def test_nested_functions_and_lambdas_travel_by_value(own: Any) -> None:
    assert encoded(own.outer())(1) == 4
    assert encoded(lambda x: x + 5)(1) == 6


def test_a_function_whose_name_was_bound_to_something_else_travels_by_value(own: Any) -> None:
    old = own.helper
    own.helper = None
    assert encoded(old)(1) == 2


def test_functions_of_main_travel_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(x):\n    return x + 1", namespace)
    monkeypatch.setattr(sys.modules["__main__"], "f", namespace["f"], raising=False)
    assert encoded(namespace["f"])(1) == 2


def test_functions_of_a_module_that_nobody_would_find_travel_by_value(unfindable: Any) -> None:
    assert not is_importable(unfindable)
    assert not isinstance(encoded(unfindable.plain), FunctionByName)


def test_a_file_that_shadows_the_loaded_one_is_not_taken_for_it(own: Any, tmp_path: Path) -> None:
    assert is_importable(own)
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "own_module.py").write_text("")
    sys.path.insert(0, str(shadow))
    try:
        assert not is_importable(own)
    finally:
        sys.path.remove(str(shadow))


def test_functions_written_in_c_travel_by_name() -> None:
    assert encoded(len) is len
    assert encoded(os.getpid) is os.getpid


def test_a_function_of_an_installed_package_travels_by_name_to_anywhere() -> None:
    assert encoded(json.dumps, shared_files=False) == FunctionByName("json", "dumps", decorated=False)


def test_a_callable_object_travels_by_value() -> None:
    assert encoded(Adder(3))(4) == 7


def test_a_function_that_refers_to_what_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def guarded() -> None:
        with lock:
            pass

    with pytest.raises(SerializationError, match=r"the function guarded cannot be pickled .*lock.*make that inside"):
        encode_function(Function(guarded, TaskOptions()), shared_files=True)


def test_a_function_that_refers_to_a_task_is_named() -> None:
    task = TaskNode[Any](Function(len, TaskOptions()), (), {})

    def confused() -> Any:
        return task

    with pytest.raises(SerializationError, match="the function confused: a task of len is hidden"):
        encode_function(Function(confused, TaskOptions()), shared_files=True)


# ── to workers that do not share files ─────────────────────────────────────────────────────────────────────────

WORKER = """
import sys
from augury import serde
from augury.dag.graph import Graph
from augury.dag.program import LoadedProgram, Program

graph, program = serde.loads(open(sys.argv[1], "rb").read())
assert "own_module" not in sys.modules
loaded = LoadedProgram(Graph.decode(graph), Program.decode(program))
outputs = []
for task in range(len(Graph.decode(graph))):
    args, kwargs = loaded.arguments(task, outputs.__getitem__, None)
    outputs.append(loaded.function(task, None)(*args, **kwargs))
type(outputs[0]).made = 99
assert "own_module" not in sys.modules
open(sys.argv[1], "wb").write(serde.dumps(outputs).join())
"""


def run_elsewhere(outputs: Any, folder: Path) -> Any:
    """In a process that does not find the user's modules."""
    workflow = build_workflow(outputs)
    program, _ = encode(workflow, shared_files=False)
    file = folder / "exchange"
    file.write_bytes(serde.dumps((workflow.graph.encode(), program.encode())).join())
    done = subprocess.run([sys.executable, "-I", "-c", WORKER, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return serde.loads(file.read_bytes())


def test_modules_of_the_user_travel_by_value_to_workers_without_the_files(own: Any, tmp_path: Path) -> None:
    grown = TaskNode[Any](Function(own.grow, TaskOptions()), (own.Thing(1),), {})
    plain = TaskNode[Any](Function(own.plain, TaskOptions()), (5,), {})
    decorated = TaskNode[Any](Function(own.decorated.fn, TaskOptions(), own.decorated), (plain,), {})
    again = TaskNode[Any](Function(own.grow, TaskOptions()), (grown,), {})
    thing, six, eight, thing_again = run_elsewhere([grown, plain, decorated, again], tmp_path)
    assert (six, eight) == (6, 8)
    assert isinstance(thing, own.Thing), "what comes back is of the class that was sent"
    assert (thing, thing_again) == (own.Thing(2), own.Thing(3))
    assert own.Thing.made == 0, "and the class is as it was"


def test_modules_that_nobody_would_find_travel_by_value_even_where_files_are_shared(unfindable: Any) -> None:
    task = TaskNode[Any](Function(unfindable.grow, TaskOptions()), (unfindable.Thing(1),), {})
    workflow = build_workflow(task)
    program, _ = encode(workflow, shared_files=True)
    module = sys.modules.pop("loaded_by_path")
    try:
        loaded = LoadedProgram(workflow.graph, program)
        args, _ = loaded.arguments(0, lambda _: None, lambda _: None)
        assert loaded.function(0, lambda _: b"")(*args) == unfindable.Thing(2)
    finally:
        sys.modules["loaded_by_path"] = module


def test_an_object_of_the_users_comes_back_as_an_instance_of_its_class(unfindable: Any) -> None:
    with serde.modules_by_value([unfindable]):
        data = serde.dumps(unfindable.Thing(3)).join()
    back = serde.loads(data)
    assert type(back) is unfindable.Thing
    assert unfindable.grow(back) == unfindable.Thing(4)


# ── whose modules ──────────────────────────────────────────────────────────────────────────────────────────────


def test_modules_of_the_user_are_own(own: Any, unfindable: Any) -> None:
    assert {own, unfindable} <= set(own_modules())


@pytest.mark.parametrize(
    "name", ["os", "json.decoder", "numpy", "msgspec", "augury", "augury.serde", "pytest", "__main__"]
)
def test_installed_modules_are_not_own(name: str) -> None:
    module = importlib.import_module(name)
    assert not is_own(module)
    assert module not in own_modules()


def test_modules_without_a_file_are_not_own() -> None:
    assert not is_own(sys)
    assert not is_own(ModuleType("made_up"))


def test_a_module_under_another_name_is_listed_once(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "other_name", own)
    assert own_modules().count(own) == 1


def test_strange_things_among_the_modules_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = ModuleType("nameless")
    nameless.__file__ = "/somewhere/x.py"
    del nameless.__name__
    monkeypatch.setitem(sys.modules, "nameless", nameless)
    monkeypatch.setitem(sys.modules, "strange", SimpleNamespace(__file__="/x.py", __name__="strange"))
    monkeypatch.setitem(sys.modules, "gone", None)
    assert not {"nameless", "strange", "gone"} & {module.__name__ for module in own_modules()}


@pytest.fixture
def installed_under(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site folder of our own; what is known of folders is forgotten before and after."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(folder)])
    forget_folders()
    yield folder
    forget_folders()


def forget_folders() -> None:
    modules._installed_folders.cache_clear()
    modules._version_folders.cache_clear()
    modules._is_in.cache_clear()
    modules._has_version.cache_clear()
    modules._distributions.cache_clear()


def module_at(path: Path) -> ModuleType:
    module = ModuleType("some_module")
    module.__file__ = str(path)
    return module


def test_a_folder_whose_name_begins_like_an_installed_one_is_not_installed(installed_under: Path) -> None:
    assert not is_own(module_at(installed_under / "m.py"))
    assert is_own(module_at(installed_under.with_name("site-of-mine") / "m.py"))


def test_a_package_that_was_installed_in_place_is_not_own(installed_under: Path, tmp_path: Path) -> None:
    project = tmp_path / "project" / "src"
    (installed_under / "_project.pth").write_text(f"# a remark\nimport something\n\n{project}\n")
    assert not is_own(module_at(project / "pkg" / "m.py"))
    assert is_own(module_at(project.parent / "scripts" / "m.py"))


def test_what_was_installed_in_place_may_change_though_its_version_does_not(
    installed_under: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (installed_under / "_project.pth").write_text(f"{project}\n")
    (installed_under / "Some.Module-1.0.dist-info").mkdir()
    assert may_change(module_at(project / "m.py"))
    assert not may_change(module_at(installed_under / "m.py"))
    assert not any(map(may_change, (sys, os, pytest, augury, _pytest)))


def test_what_was_only_put_where_packages_are_may_change_for_it_has_no_version(installed_under: Path) -> None:
    assert may_change(module_at(installed_under / "m.py"))
    assert not is_own(module_at(installed_under / "m.py"))


def test_a_package_that_a_finder_maps_in_place_is_not_own(
    installed_under: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = ModuleType("__editable___project_finder")
    vars(finder)["MAPPING"] = {"pkg": str(tmp_path / "project" / "pkg")}
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    assert not is_own(module_at(tmp_path / "project" / "pkg" / "m.py"))
    assert is_own(module_at(tmp_path / "project" / "other" / "m.py"))


def test_a_link_into_an_installed_folder_is_followed(installed_under: Path, tmp_path: Path) -> None:
    (installed_under / "m.py").write_text("")
    (tmp_path / "link.py").symlink_to(installed_under / "m.py")
    assert not is_own(module_at(tmp_path / "link.py"))
