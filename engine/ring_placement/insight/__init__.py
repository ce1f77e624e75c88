"""What goes beyond Pyroscope: drift, other algorithms, explanations, findings."""
