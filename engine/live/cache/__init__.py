"""Parsed files on disk, so that a second start costs little more than a scan."""
