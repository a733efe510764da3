"""Runs on real processes, with a real Redis, while something kills, stops and restarts them.

python -m tests.chaos --runs 200      as many runs, and a table of what they survived
"""
