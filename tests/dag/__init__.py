"""Tests of workflows as data."""
