"""Broker load: sample inputs and their feeder."""
