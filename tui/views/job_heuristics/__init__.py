"""The tab of job heuristics: job list with severity strips, roll-up, recommendations, and one job in full."""
