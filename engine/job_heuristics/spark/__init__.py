"""Spark applications: from event logs to verdicts, advice and the tables of one application."""

ROOMS = ("reading", "model", "rules", "insight", "result")  # lowest first, above ``tables``
