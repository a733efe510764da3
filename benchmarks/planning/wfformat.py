"""Read workflow instances in WfFormat, such as those of github.com/wfcommons/WfInstances.

Two layouts are in use. Up to version 1.4 a task holds everything about itself:

    {"workflow": {"tasks": [{"name", "id", "runtimeInSeconds", "parents": [...],
                             "files": [{"link": "output", "name", "sizeInBytes"}]}]}}

From 1.5 on, what was to be done and what was measured are apart:

    {"workflow": {"specification": {"tasks": [{"name", "id", "parents", "outputFiles": [...]}],
                                    "files": [{"id", "sizeInBytes"}]},
                  "execution": {"tasks": [{"id", "runtimeInSeconds", "command": {"program"}}]}}}

Which one a file has shows in its structure, whatever version it states. Files that no task wrote, the inputs of the
workflow, are left out: arguments are not part of the planner's model.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from instances import Instance, TracedTask, instance_of

from augury.errors import DefinitionError

Json = Mapping[str, Any]


def read_instance(path: Path) -> Instance:
    """The workflow in a file.

    Raises:
        DefinitionError: There is no such file, or it is not in WfFormat; says what is missing.
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path} cannot be read: {error}") from error
    return parse_instance(path.stem, document)


def parse_instance(name: str, document: Any) -> Instance:
    """The workflow in a document.

    Raises:
        DefinitionError: It is not in WfFormat; says what is missing.
    """
    try:
        workflow = document["workflow"]
        return instance_of(name, _apart(workflow) if "specification" in workflow else _in_one(workflow))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DefinitionError(f"{name} is not an instance in WfFormat 1.4 or 1.5: {error!r}") from error


def _apart(workflow: Json) -> list[TracedTask]:
    specified: Sequence[Json] = workflow["specification"]["tasks"]
    sizes = {file["id"]: _number(file["sizeInBytes"]) for file in workflow["specification"].get("files", ())}
    measured = {task["id"]: task for task in workflow["execution"]["tasks"]}
    indices = _indices(specified)
    return [
        TracedTask(
            program=_program(task, measured[task["id"]]),
            seconds=_number(measured[task["id"]]["runtimeInSeconds"]),
            output_bytes=sum(sizes.get(file, 0.0) for file in task.get("outputFiles", ())),
            parents=tuple(indices[parent] for parent in task.get("parents", ())),
        )
        for task in specified
    ]


def _in_one(workflow: Json) -> list[TracedTask]:
    tasks: Sequence[Json] = workflow["tasks"]
    indices = _indices(tasks)
    return [
        TracedTask(
            program=_program(task, task),
            seconds=_number(_either(task, "runtimeInSeconds", "runtime")),
            output_bytes=sum(
                _number(_either(file, "sizeInBytes", "size"))
                for file in task.get("files", ())
                if file["link"] == "output"
            ),
            parents=tuple(indices[parent] for parent in task.get("parents", ())),
        )
        for task in tasks
    ]


def _indices(tasks: Sequence[Json]) -> dict[str, int]:
    """Where each task stands, by id and by name: older files refer to tasks by their names."""
    by_name = {task["name"]: index for index, task in enumerate(tasks)}
    return by_name | {task["id"]: index for index, task in enumerate(tasks) if "id" in task}


def _program(task: Json, measured: Json) -> str:
    """What a task runs; if nobody said, its name without the number."""
    program = measured.get("command", {}).get("program") or measured.get("program")
    return str(program or re.sub(r"_(ID)?\d+$", "", task["name"]))


def _either(given: Json, name: str, older: str) -> Any:
    return given[name] if name in given else given[older]


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{value!r} is not a finite number of at least 0")
    return number
