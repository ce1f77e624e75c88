"""Ring pages, overrides, rules, loads and metrics: bytes to input tables, and one cluster out of several files."""
