"""Predictions from history: pure statistics, and the interface that planners ask."""
