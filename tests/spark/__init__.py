"""Tests on a real local Spark, in a run of their own: pytest tests/spark."""
