"""Job heuristics: tables, readers, model and view."""
