"""The ten workflow recipes of WfCommons, at any size and always the same ones.

A recipe grows a workflow that was once observed by repeating its patterns, and draws run times and file sizes from
distributions that were fitted to its traces. Both come from the global random numbers of `random` and `numpy`, which
are seeded here and put back. The recipe of RNA-seq knows of no dependencies: it makes a bag of tasks.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from instances import Instance, TracedTask, instance_of
from wfcommons.wfchef import recipes

from augury.errors import DefinitionError

RECIPES = {
    "montage": recipes.MontageRecipe,
    "epigenomics": recipes.EpigenomicsRecipe,
    "1000genome": recipes.GenomeRecipe,
    "seismology": recipes.SeismologyRecipe,
    "soykb": recipes.SoykbRecipe,
    "srasearch": recipes.SrasearchRecipe,
    "blast": recipes.BlastRecipe,
    "bwa": recipes.BwaRecipe,
    "cycles": recipes.CyclesRecipe,
    "rnaseq": recipes.RnaseqRecipe,
}


def wfcommons_instance(name: str, size: int, seed: int = 1) -> Instance:
    """A workflow of about `size` tasks; a little larger if the recipe has no smaller one.

    Raises:
        DefinitionError: The recipe has nothing of that size.
    """
    for asked in range(size, 2 * size + 10):
        try:
            with seeded(seed):
                workflow = RECIPES[name].from_num_tasks(asked).build_workflow()
        except ValueError:  # smaller than the smallest workflow that the recipe knows
            continue
        return instance_of(f"{name}-{size}", traced_tasks(workflow))
    raise DefinitionError(f"the recipe of {name} makes no workflow of {size} tasks; ask for more")


def traced_tasks(workflow: Any) -> list[TracedTask]:
    """The tasks of a WfCommons workflow."""
    indices = {node: index for index, node in enumerate(workflow.nodes)}
    found = []
    for node in workflow.nodes:
        task = workflow.nodes[node]["task"]
        found.append(
            TracedTask(
                program=task.program,
                seconds=float(task.runtime),
                output_bytes=float(sum(file.size for file in task.output_files)),
                parents=tuple(indices[parent] for parent in workflow.predecessors(node)),
            )
        )
    return found


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make the global random numbers begin at a seed, and put them back in the end."""
    before, before_numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)
