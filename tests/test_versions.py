"""Client and workers with different versions: refused at the start, with the difference listed."""

import sys
from pathlib import Path

import cloudpickle
import msgspec
import numpy as np
import pytest

from augury import Client, Embedded, VersionMismatch, __version__, task
from augury.dag.graph import build_workflow
from augury.dag.program import encode
from augury.run.upload import client_versions
from augury.versions import check_versions, essential_versions, packages_named, versions_of

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@task
def count(values: object) -> int:
    return int(np.size(np.asarray(values)))


@task
def add(a: int, b: int) -> int:
    return a + b


def test_what_every_run_depends_on() -> None:
    assert essential_versions() == {
        "Python": PYTHON,
        "augury": __version__,
        "cloudpickle": cloudpickle.__version__,
        "msgspec": msgspec.__version__,
    }


def test_equal_versions_pass() -> None:
    check_versions(essential_versions() | versions_of(["numpy", "redis"]))


def test_a_correction_of_a_package_does_not_matter() -> None:
    major, minor, *_ = np.__version__.split(".")
    check_versions({"numpy": f"{major}.{minor}.99"})


def test_each_difference_is_listed() -> None:
    with pytest.raises(VersionMismatch) as caught:
        check_versions(
            {"Python": "3.99", "augury": "9.9", "numpy": "1.2.3", "nowhere": "1.0", "msgspec": msgspec.__version__}
        )
    told = str(caught.value)
    assert f"Python 3.99 on the client and {PYTHON} on the worker" in told
    assert f"augury 9.9 on the client and {__version__} on the worker" in told
    assert f"numpy 1.2.3 on the client and {np.__version__} on the worker" in told
    assert "nowhere 1.0 on the client and none on the worker" in told
    assert "msgspec" not in told


def test_a_long_list_is_cut() -> None:
    with pytest.raises(VersionMismatch, match="; 8 more") as caught:
        check_versions({f"package{number}": "1.0" for number in range(20)})
    assert len(str(caught.value)) < 2000


def test_packages_are_found_by_the_names_that_they_are_imported_under() -> None:
    assert versions_of(["hypothesis", "_pytest", "nowhere"]).keys() == {"hypothesis", "_pytest"}


def pickled(value: object) -> memoryview:
    return memoryview(cloudpickle.dumps(value))


def test_pickles_name_the_packages_that_they_need() -> None:
    loaded = {"numpy", "redis", "nump"}
    assert packages_named([pickled(np.zeros(3))], loaded) == {"numpy"}
    assert packages_named([pickled({"a": 1})], loaded) == set()
    assert packages_named([pickled(np.zeros(3))], set()) == set()


def test_a_run_names_what_its_functions_and_arguments_use() -> None:
    def sent(outputs: object, *, shared_files: bool = False) -> set[str]:
        program, constants = encode(build_workflow(outputs), shared_files=shared_files)
        return set(client_versions(program, constants, shared_files=shared_files)) - set(essential_versions())

    assert sent(count([1, 2])) == {"numpy"}
    assert sent(add(1, 2)) == set()
    assert sent(add(np.float64(1), 2)) == {"numpy"}
    assert sent(add(np.zeros(100_000), 2)) == {"numpy"}
    assert sent(count([1, 2]), shared_files=True) == set()


@pytest.mark.parametrize(
    ("faked", "told"),
    [
        ("import cloudpickle as p\np.__version__ = '1.2.3'", f"{cloudpickle.__version__} on the client and 1.2.3 on"),
        ("import augury.versions as v\nv.VERSION = '0.0.7'", f"augury {__version__} on the client and 0.0.7 on"),
    ],
)
def test_a_worker_of_another_version_refuses_the_run_at_its_start(tmp_path: Path, faked: str, told: str) -> None:
    (tmp_path / "faked_version.py").write_text(faked)
    platform = Embedded(slots=1, preload=("faked_version",), sys_path=(str(tmp_path),))
    with Client(platform=platform, observers=[], history=False) as client, pytest.raises(VersionMismatch, match=told):
        client.compute(add(1, 2))
