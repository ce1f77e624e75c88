"""Spark's event logs and history-server answers: bytes to rows."""
