"""Run comparison: sample inputs and their feeder."""
