"""The listings of the Serverless Dataflows paper, letter by letter."""

from pathlib import Path

import pytest

from augury import DefinitionError, dataflows
from tests.embedded.conftest import Script

FIGURE_1 = """
# 1) Task definition
@DAGTask
def task_a(a: int) -> int:
    # ... user code logic ...
    return a + 1

@DAGTask(forced_optimizations=[PreLoadOptimization()])
def task_b(*args: int) -> int:
    # ... user code logic ...
    return sum(args)

# 2) Task composition (DAG/Workflow)
a1 = task_a(10)
a2 = task_a(a1)
a3 = task_a(a1)
b1 = task_b(a2, a3)
a4 = task_a(b1)
"""

FIGURE_3 = """
result = a4.compute(
    dag_name="simplifiedag",
    config=Worker.Config(
        faas_gateway_address=...,
        intermediate_storage_config=(ip, port,
            password),
        metrics_storage_config=(ip, port, password),
        planner_config=UniformPlanner.Config(
            sla=sla,
            worker_resource_configuration=
                TaskWorkerResourceConfiguration(cpus=3,
                    memory_mb=512),
            optimizations=[PreLoadOptimization,
                TaskDupOptimization]
        )
    )
)
"""

HEAD = "from augury.dataflows import *\nsla = 'median'\n"


def test_the_listings_run_as_they_are_printed(script: Script) -> None:
    done = script(f"{HEAD}ip = port = password = ...\n{FIGURE_1}{FIGURE_3}print(result)\n")
    assert (done.stdout, done.returncode) == ("25\n", 0), done.stderr


def test_the_listings_run_with_a_redis_of_the_users(script: Script, redis_with_password: tuple[str, int, str]) -> None:
    ip, port, password = redis_with_password
    head = f"{HEAD}ip, port, password = {ip!r}, {port}, {password!r}\n"
    done = script(f"{head}{FIGURE_1}{FIGURE_3}print(result)\n")
    assert (done.stdout, done.returncode) == ("25\n", 0), done.stderr
    assert password not in done.stderr


def test_left_out_settings_mean_the_embedded_platform(script: Script) -> None:
    done = script(f"{HEAD}{FIGURE_1}print(a4.compute(), a4.compute(config=Worker.Config()))\n")
    assert (done.stdout, done.returncode) == ("25 25\n", 0), done.stderr


def test_a_storage_config_that_is_none_is_refused() -> None:
    @dataflows.DAGTask
    def one() -> int:
        return 1

    with pytest.raises(DefinitionError, match="tuple"):
        one().compute(config=dataflows.Worker.Config(intermediate_storage_config="redis://host"))


def test_the_names_are_those_of_the_paper() -> None:
    assert {"DAGTask", "Worker", "UniformPlanner", "TaskWorkerResourceConfiguration"} <= set(dataflows.__all__)
    assert Path(dataflows.__file__).name == "dataflows.py"
