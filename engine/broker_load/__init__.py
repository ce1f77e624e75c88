"""Broker load: tables, readers, model and view."""
