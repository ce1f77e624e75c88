"""Query profile: sample inputs and their feeder."""
