"""Runs, which of them are compared, and the samples they give."""
