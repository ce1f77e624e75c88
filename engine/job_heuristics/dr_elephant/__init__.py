"""Dr. Elephant, number for number: metrics, heuristics, severities."""
