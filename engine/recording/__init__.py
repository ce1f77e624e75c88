"""Recordings: what the files below some roots held and how it changed, in one compressed file, and its replay elsewhere."""
