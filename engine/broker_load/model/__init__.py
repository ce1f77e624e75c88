"""From input tables to samples and windows of a cluster."""
