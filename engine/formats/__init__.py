"""Shared, view-free parsers."""
