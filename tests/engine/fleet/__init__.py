"""Tests of engine/fleet that need no Spark; those that do are in tests/spark."""
