"""What goes beyond the systems: drift, explanations, findings, next rules."""
