"""Workflows of any size for measuring speed; the same ones every time.

    fan-out    n - 1 tasks and a sum of them all
    tree       pairs of pairs, down to one task
    layers     tasks in a hundred layers, each takes two outputs of the layer before; drawn
    montage    the recipe of WfCommons, if that is installed

Run times are drawn between 0.05 and 2 s, outputs between 1 kB and 10 MB, most of them small.
"""

import importlib
from collections.abc import Callable
from random import Random

from instances import Instance, TracedTask, instance_of

LAYERS = 100


def fan_out(size: int) -> Instance:
    rng = Random("fan-out")
    tasks = [drawn(rng, "part") for _ in range(size - 1)]
    return instance_of("fan-out", [*tasks, drawn(rng, "total", *range(size - 1))])


def tree(size: int) -> Instance:
    rng = Random("tree")
    leaves = (size + 1) // 2
    tasks = [drawn(rng, "leaf") for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        pairs = [level[index : index + 2] for index in range(0, len(level) - 1, 2)]
        odd = level[len(pairs) * 2 :]
        level = [*range(len(tasks), len(tasks) + len(pairs)), *odd]
        tasks += [drawn(rng, "add", *pair) for pair in pairs]
    return instance_of("tree", tasks)


def layers(size: int) -> Instance:
    rng = Random("layers")
    width = max(1, size // LAYERS)
    tasks: list[TracedTask] = []
    for task in range(size):
        first = (task // width - 1) * width
        parents = {first + rng.randrange(width) for _ in range(2)} if first >= 0 else set()
        tasks.append(drawn(rng, f"step {task // width % 10}", *sorted(parents)))
    return instance_of("layers", tasks)


def montage(size: int) -> Instance:
    """With a hundredth of the traced run times."""
    made: Instance = importlib.import_module("wfcommons_graphs").wfcommons_instance("montage", size)
    return made.scaled(0.01)


SHAPES: dict[str, Callable[[int], Instance]] = {
    "fan-out": fan_out,
    "tree": tree,
    "layers": layers,
    "montage": montage,
}


def drawn(rng: Random, program: str, *parents: int) -> TracedTask:
    """A task of any length with any output."""
    return TracedTask(
        program=program,
        seconds=rng.uniform(0.05, 2.0),
        output_bytes=round(10 ** rng.uniform(3, 7) if rng.random() < 0.2 else rng.uniform(1e3, 1e4)),
        parents=parents,
    )
