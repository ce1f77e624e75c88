"""Ring placement: which shard and node a key lands on, and what a failure does to the others."""

ROOMS = ("pyroscope", "dskit", "reading", "scenarios", "insight", "result")
"""The rooms of this view, lowest first: a module imports from its own room and from those before it."""
