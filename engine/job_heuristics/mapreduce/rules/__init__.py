"""Dr. Elephant's MapReduce heuristics, one module per topic: each names its declarations in ``HEURISTICS``.

See docs/models/job-heuristics.md, "The MapReduce heuristics".
"""
