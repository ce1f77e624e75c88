"""Outputs of test runs: bytes to measured values."""
