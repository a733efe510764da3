"""Shared storage: coordination of workers, and objects."""
