"""Watching runs: observers of the events that a client tells of."""

from augury.observe.progress import Progress, default_observers
from augury.observe.report import format_report

__all__ = ["Progress", "default_observers", "format_report"]
