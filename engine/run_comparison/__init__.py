"""Run comparison: whether two groups of test runs are similar, and where they differ."""

ROOMS = ("reading", "runs", "perf_tests", "insight", "result")
"""The rooms of this view, lowest first: a module imports from its own room and from those before it."""
