"""Run comparison: tables, readers, model and view."""
