"""Ring placement: tables, readers, model and view."""
