"""Query profile: tables, readers, model and view."""
