"""Tests of what benchmarks compute."""
