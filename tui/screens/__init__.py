"""Overlays: help, columns, filter, export, problems, log."""
