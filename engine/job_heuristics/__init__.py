"""Job heuristics: waste, wait and skew of Hadoop jobs, as Dr. Elephant judges them and beyond."""

ROOMS = ("dr_elephant", ("mapreduce", "spark", "tez"), "result", "fleet")
"""The rooms of this view, lowest first: a module imports from its own room and from those before it. Each kind of job has a
room of its own, and none of these imports another."""
