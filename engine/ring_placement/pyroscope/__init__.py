"""Pyroscope's segment-writer placement, bit for bit."""
