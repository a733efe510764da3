"""Hashes of functions that use modules of the user's, imported at the top or when the function is called."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from augury import versions
from augury.dag import imports
from augury.dag.digest import value_digest
from augury.dag.imports import watch_imports
from augury.errors import SerializationError
from tests.dag.test_digest import defined

FILES = {
    "lib_a.py": "import lib_b\nfrom lib_c import LIMIT\ndef f(x): return x + 1 + lib_b.g(x)\n",
    "lib_b.py": "def g(x): return 1\ndef lazy():\n    import lib_c\n    return lib_c.LIMIT\n",
    "lib_c.py": "LIMIT = 1\n",
    "lib_d.py": "def __getattr__(name): return 1\n",
    "pkg/__init__.py": "",
    "pkg/sub.py": "def deep(x): return 1\n",
    "pkg/near.py": "def f():\n    from . import sub\n    return sub.deep(1)\n",
}
PRINT = """
import sys
from augury.dag.digest import value_digest
from augury.dag.imports import watch_imports
watch_imports()
{program}
before = set(sys.modules)
print(value_digest(f).hex(), *(name for name in set(sys.modules) - before if name.startswith(("lib_", "pkg"))))
"""


def digest_of(program: str, folder: Path, **edits: str) -> list[str]:
    """The hash of `f` in a fresh process, and the modules of ours that were loaded for it."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        old, _, new = edits.get(file.stem, "").partition(" -> ")
        assert old in text
        file.write_text(text.replace(old, new) if old else text)
    (folder / "main.py").write_text(PRINT.format(program=program))
    command = [sys.executable, "main.py"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("program", "edits"),
    [
        ("def f():\n  import lib_a\n  return lib_a.f(1)", {"lib_a": "x + 1 -> x + 2"}),
        ("def f():\n  from lib_a import f\n  return f(1)", {"lib_b": "return 1 -> return 2"}),
        ("def f():\n  from lib_b import lazy\n  return lazy()", {"lib_c": "1 -> 2"}),
        ("def f():\n  import pkg.sub\n  return pkg.sub.deep(1)", {"sub": "return 1 -> return 2"}),
        ("def f():\n  from pkg import sub\n  return sub.deep(1)", {"sub": "return 1 -> return 2"}),
        ("from pkg.near import f", {"sub": "return 1 -> return 2"}),
        ("class C:\n  def m(self): import lib_c\ndef f(): return C()", {"lib_c": "1 -> 2"}),
        ("import lib_c as c\ndef f():\n  import lib_c\n  return lib_c.LIMIT", {"lib_c": "1 -> 2"}),
        ("import importlib\ndef f(): return importlib.import_module('pkg.sub')", {"sub": "return 1 -> return 2"}),
        ("import lib_b\ndef f(): return lib_b.lazy()", {"lib_c": "1 -> 2"}),
        ("import lib_b\ndef f(name): return getattr(lib_b, name)(1)", {"lib_b": "return 1 -> return 2"}),
        ("import pkg.sub\ndef f(name): return getattr(pkg.sub, name)", {"sub": "return 1 -> return 2"}),
        ("import lib_b\nM = {'b': lib_b}\ndef f(): return M['b'].g(1)", {"lib_b": "return 1 -> return 2"}),
        ("import lib_b\ndef f(x): return x.g(1) + lib_b.g(1)", {"lib_b": "return 1 -> return 2"}),
        ("import lib_c\ndef f(): return lib_c.LIMIT", {"lib_c": "1 -> 2"}),
        ("import lib_d\ndef f(): return lib_d.anything", {"lib_d": "return 1 -> return 2"}),
    ],
)
def test_the_hash_changes_with_a_module_that_the_function_uses(
    program: str, edits: dict[str, str], tmp_path: Path
) -> None:
    one, same = digest_of(program, tmp_path / "one"), digest_of(program, tmp_path / "same")
    assert one == same
    assert len(one) == 1, "a module was loaded"
    assert digest_of(program, tmp_path / "other", **edits) != one


def test_the_hash_stays_when_other_modules_or_remarks_change(tmp_path: Path) -> None:
    program = "def f():\n  import lib_c\n  return lib_c.LIMIT"
    edits = {"lib_b": "return 1 -> return 2", "lib_c": "LIMIT -> # a remark\nLIMIT"}
    assert digest_of(program, tmp_path / "one") == digest_of(program, tmp_path / "other", **edits)


def test_the_version_of_a_package_counts_wherever_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ["import numpy\ndef f(): return numpy", "def f():\n  import numpy.linalg\n  return numpy"]
    before = [value_digest(defined(source)) for source in sources]
    monkeypatch.setattr(versions, "_installed", lambda package: "0.0.1" if package == "numpy" else "")
    after = [value_digest(defined(source)) for source in sources]
    assert len({*before, *after}) == 4


class Library:
    """A module in a folder of its own, which a function imports when it is called; another version is at hand."""

    def __init__(self, folder: Path) -> None:
        self.name = f"lib_{folder.name}"
        self.place, self.other = folder / "lib", folder / "other"
        self.user = defined(f"def f():\n  import {self.name}\n  return {self.name}.K")
        for place, text in ((self.place, "K = 1\n"), (self.other, "K = 2\n")):
            place.mkdir()
            (place / f"{self.name}.py").write_text(text)

    @property
    def file(self) -> Path:
        return self.place / f"{self.name}.py"

    def load(self) -> None:
        importlib.import_module(self.name)

    def digest(self) -> bytes:
        return value_digest(self.user)

    def has_changed(self) -> bool:
        try:
            self.digest()
        except SerializationError as error:
            return f"the module {self.name} may have changed since it was loaded" in str(error)
        return False


@pytest.fixture
def unwatched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """A library in a process that does not watch imports yet."""
    library = Library(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if finder is not imports._watch])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(imports, "_CLOCK_STEP_NS", 0)  # the files are younger than they would be
    monkeypatch.syspath_prepend(str(library.place))
    yield library
    sys.modules.pop(library.name, None)


@pytest.fixture
def library(unwatched: Library) -> Library:
    watch_imports()
    return unwatched


def test_a_module_counts_as_the_same_before_and_after_it_was_loaded(library: Library) -> None:
    before = library.digest()
    library.load()
    assert library.digest() == before


def test_a_module_that_was_loaded_before_anyone_asked_counts_as_what_it_is(library: Library) -> None:
    library.load()
    loaded = library.digest()
    del sys.modules[library.name]
    assert library.digest() == loaded


def test_a_module_whose_file_changed_since_it_was_loaded_has_no_hash(library: Library) -> None:
    library.load()
    library.file.write_text("K = 2\n")
    os.utime(library.file, (0, 0))  # as if it were old
    assert library.has_changed()


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_module_whose_folder_was_replaced_by_an_older_one_has_no_hash(
    library: Library, tmp_path: Path, is_asked_before: bool
) -> None:
    if is_asked_before:
        library.digest()
    library.load()
    library.place.rename(tmp_path / "old")
    library.other.rename(library.place)
    assert library.has_changed()


def test_a_module_behind_a_link_that_leads_elsewhere_now_has_no_hash(library: Library, tmp_path: Path) -> None:
    library.place.rename(tmp_path / "old")
    library.place.symlink_to("old")
    library.load()
    assert not library.has_changed()
    library.place.unlink()
    library.place.symlink_to("other")
    assert library.has_changed()


def test_a_module_that_is_loaded_again_as_it_is_now_has_a_hash_again(library: Library) -> None:
    library.load()
    library.file.write_text("K = 2\n")
    del sys.modules[library.name]
    library.load()
    assert not library.has_changed()


def test_a_module_that_was_loaded_before_imports_are_watched_has_no_hash(unwatched: Library) -> None:
    unwatched.load()
    watch_imports()
    assert unwatched.has_changed()


def test_a_module_that_changed_just_before_it_was_loaded_has_no_hash(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_CLOCK_STEP_NS", 10**15)  # it could change again and show the same time
    library.load()
    assert library.has_changed()


def test_imports_are_watched_once_however_often_that_is_asked_for(library: Library) -> None:
    before = sys.meta_path[:]
    watch_imports()
    assert sys.meta_path == before


def test_a_library_of_the_users_counts_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    suffix = EXTENSION_SUFFIXES[0]
    fn = defined("def f():\n  import lib_fast\n  return lib_fast.f()")
    (tmp_path / f"lib_fast{suffix}").write_bytes(b"one")
    before = value_digest(fn)
    (tmp_path / f"lib_fast{suffix}").write_bytes(b"another")
    assert value_digest(fn) != before


def test_a_module_that_is_not_there_counts_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    fn = defined("def f():\n  try: import lib_optional\n  except ImportError: return 1")
    before = value_digest(fn)
    assert value_digest(fn) == before
    (tmp_path / "lib_optional.py").write_text("K = 1\n")
    importlib.invalidate_caches()
    assert value_digest(fn) != before
