"""Snapshots, logs, CSV tables and CPU series: bytes to input tables."""
