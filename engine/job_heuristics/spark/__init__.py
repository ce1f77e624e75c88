"""Spark applications: from event logs to verdicts, advice and the tables of one application."""

ROOMS = ("reading", "model", "rules", "insight", "result")
"""Lowest first, above ``tables``."""
