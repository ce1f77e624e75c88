"""Job heuristics: sample inputs and their feeder."""
