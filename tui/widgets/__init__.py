"""Widgets of lines that send only what changed."""
