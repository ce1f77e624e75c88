"""Broker load: the workload model of LinkedIn Cruise Control over files, corrected beside it, and what failures do."""

ROOMS = ("reading", "model", "cruise_control", "insight", "result", "plan")
"""The rooms of this view, lowest first: a module imports from its own room and from those before it."""
