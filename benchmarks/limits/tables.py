"""What was found, as aligned text."""

from collections.abc import Mapping, Sequence

from limits.bottlenecks import Resource, Target
from limits.counting import Counts
from limits.ends import Ends
from limits.server import Cost, ServerCosts


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns as wide as they must be; the first ones to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def counts_table(counts: Sequence[Counts]) -> str:
    """What runs asked of storage, for each task or worker, so that it shows what grows with what."""
    head = (
        *(
            "case",
            "tasks",
            "workers",
            "edges",
            "starts",
            "reports/task",
            "empty",
            "progress",
            "consumers/task",
            "reads/task",
        ),
        *("outputs/task", "looks+beats/worker/s", "bytes/task", "calls in busiest s"),
    )
    return table(head, [_counts_row(one) for one in counts])


def _counts_row(one: Counts) -> tuple[str, ...]:
    total, tasks = one.total, one.tasks
    lasting = (total.get("idle look", 0) + total.get("beat", 0)) / one.invocations / one.makespan_s
    return (
        *(one.case, f"{tasks:,}", f"{one.workers:,}", f"{one.edges:,}", f"{one.invocations:,}"),
        f"{total['report'] / tasks:.2f}",
        *(f"{total.get(f'{kind} reports', 0) / total['report']:.0%}" for kind in ("empty", "progress")),
        f"{total['consumers'] / tasks:.3f}",
        f"{total.get('read', 0) / tasks:.3f}",
        f"{total.get('outputs', 0) / tasks:.3f}",
        f"{lasting:.2f}",
        f"{(total['bytes to'] + total['bytes from']) / tasks:,.0f}",
        f"{one.peak:,}",
    )


def ends_table(ends: Sequence[Ends]) -> str:
    """What the client and each worker do for a run of some size."""
    head = (
        *(
            "shape",
            "tasks",
            "workers",
            "define s",
            "build s",
            "plan s",
            "encode s",
            "graph kB",
            "program kB",
            "plan kB",
        ),
        *("worker: decode s", "memory MB"),
    )
    rows = [
        (
            *(one.shape, f"{one.tasks:,}", f"{one.workers:,}"),
            *(f"{value:.3f}" for value in (one.define_s, one.build_s, one.plan_s, one.encode_s)),
            *(f"{value / 1e3:,.0f}" for value in (one.graph_bytes, one.program_bytes, one.plan_bytes)),
            *(f"{one.decode_s:.3f}", f"{one.decode_bytes / 1024**2:.0f}"),
        )
        for one in ends
    ]
    return table(head, rows)


def server_table(costs: ServerCosts) -> str:
    """What calls cost Redis."""
    head = ("call", "alone µs", "script µs", "under load µs", "at most /s", "wire bytes to", "from")
    rows: list[tuple[str, ...]] = []
    for kind, cost in sorted(costs.calls.items()):
        at_most = f"{1e6 / costs.loaded_us(cost):,.0f}"
        rows.append((kind, *_times_of(cost, costs), at_most, f"{cost.to_bytes:,.0f}", f"{cost.from_bytes:,.0f}"))
    rows += ((f"+ each of {part}", *_times_of(cost, costs), "", "", "") for part, cost in costs.parts.items())
    return table(head, rows)


def _times_of(cost: Cost, costs: ServerCosts) -> tuple[str, ...]:
    return tuple(f"{value:.2f}" for value in (cost.cpu_us, cost.script_us, costs.loaded_us(cost)))


def resources_table(found: Sequence[Resource]) -> str:
    """The scarcest first."""
    head = ("resource", "needed", "capacity", "utilisation", "grows as", "full at tasks", "basis")
    rows = [
        (
            one.name,
            one.needed,
            one.capacity,
            f"{one.utilisation:.1%}" if one.utilisation < 10 else f"{one.utilisation:,.0f} ×",
            f"n^{one.exponent:.2f}",
            _count(one.full_at),
            f"  {one.basis}",
        )
        for one in found
    ]
    width = max(len(row[-1]) for row in rows)
    return table(head, [(*row[:-1], row[-1].ljust(width)) for row in rows])


def firsts_table(found: Mapping[str, Sequence[Resource]]) -> str:
    """The first three bottlenecks of each case."""
    rows = [
        (case, *(f"{one.name} ({one.utilisation:.0%}, from {_count(one.full_at)})" for one in resources[:3]))
        for case, resources in found.items()
    ]
    return table(("case", "first", "second", "third"), rows, left=4)


def compared_table(rows: Sequence[tuple[str, float, float]]) -> str:
    """What was expected of the largest run, and what came of it."""
    shown = [
        (name, f"{expected:,.1f}", f"{found:,.1f}", f"{found / expected - 1:+.1%}" if expected else "")
        for name, expected, found in rows
    ]
    return table(("at the target", "extrapolated", "found", "off by"), shown)


def title(target: Target) -> str:
    """What the resources are for."""
    return (
        f"{target.tasks:,} tasks of {target.task_s:g} s on {target.workers:,} workers: "
        f"each has work for {target.work_s:g} s"
    )


def _count(tasks: float) -> str:
    if tasks >= 1e9:
        return "never" if tasks == float("inf") else "> 10^9"
    return f"{float(f'{tasks:.2g}'):,.0f}"
