"""VividCortex's weighted linear regression, number for number."""
