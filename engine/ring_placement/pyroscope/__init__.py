"""Pyroscope's segment-writer placement, bit for bit: layout of the ring, keys, candidates, and the adaptive rules."""
