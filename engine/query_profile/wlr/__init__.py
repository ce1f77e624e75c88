"""VividCortex' weighted linear regression, number for number."""
