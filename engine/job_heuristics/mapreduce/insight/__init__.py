"""What goes beyond Dr. Elephant: why, cost, advice, what-if, skew, certainty."""
