"""Tests of engine/job_heuristics/fleet/run that need no Spark; those that do are in tests/spark."""
