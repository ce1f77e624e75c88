"""Ring placement: sample inputs and their feeder."""
