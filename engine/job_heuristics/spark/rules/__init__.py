"""Dr. Elephant's Spark side: its five heuristics and its metrics, on what the history server answers."""
