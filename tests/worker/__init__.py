"""Tests of the worker: its core alone, and whole runs of it in virtual time."""
