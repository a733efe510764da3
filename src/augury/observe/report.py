"""What a run took, as text."""

from augury.observation import RunReport


def format_report(report: RunReport) -> str:
    """One line that says how a run ended and what it took.

    Example:
        >>> format_report(run.report())  # doctest: +SKIP
        'augury: daily succeeded: 9 tasks on 2 workers in 0.31 s, 1 cold start, 0.16 GB-s, 1.2 kB stored'
    """
    return f"augury: {report.name} {report.status}: {report}"
