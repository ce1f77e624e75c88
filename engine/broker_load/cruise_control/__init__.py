"""Cruise Control's workload model, number for number."""
