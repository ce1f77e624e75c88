"""The benchmark tool of kubernetes/perf-tests, number for number, and its published description."""
