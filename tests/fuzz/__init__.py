"""``python -m tests.fuzz``: damaged files for every reader of every view, and what a reader must hold for any bytes."""
