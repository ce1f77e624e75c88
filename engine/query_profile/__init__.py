"""Query profile: a server's CPU or IO shared out over its query classes."""

ROOMS = ("reading", "wlr", "workloads", "estimators", "insight", "result")
"""The rooms of this view, lowest first: a module imports from its own room and from those before it."""
