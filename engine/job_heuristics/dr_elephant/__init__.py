"""Dr. Elephant, number for number: metrics, heuristics, severities; its published description beside its code."""
