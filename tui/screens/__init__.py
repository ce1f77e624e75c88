"""Boxes over the dashboard: help, palette, options, columns, export, problems, log."""
