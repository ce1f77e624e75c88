"""Job histories, configurations and REST answers: bytes to input tables."""
