"""Graphs for planner tests, from what a drawing shows."""

from augury.dag.graph import FunctionInfo, Graph


def graph_of(*deps: tuple[int, ...], memory_mb: dict[int, int] | None = None) -> Graph:
    """A graph with these dependencies; the memory that tasks were declared to need, by task."""
    memory_mb = memory_mb or {}
    infos = [FunctionInfo("f", "version")]
    infos += [FunctionInfo(f"g{task}", f"version {task}", memory_mb=least) for task, least in memory_mb.items()]
    special = {task: index for index, task in enumerate(memory_mb, start=1)}
    taken = {dep for needed in deps for dep in needed}
    return Graph(
        functions=tuple(infos),
        function_of=tuple(special.get(task, 0) for task in range(len(deps))),
        deps=deps,
        sinks=tuple(task for task in range(len(deps)) if task not in taken),
    )
