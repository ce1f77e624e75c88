"""Spark applications: from event logs to verdicts, advice and the tables of one application."""
