"""The terminal: widgets draw, the engine computes."""
