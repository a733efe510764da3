"""Workflows as data: tasks, the references between them, and the immutable graph behind a run."""
