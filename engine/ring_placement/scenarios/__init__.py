"""Scenarios on placements: what the parameters change, what fails, and what that does, one by one and in sweeps."""
