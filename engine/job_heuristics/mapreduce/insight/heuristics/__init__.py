"""Heuristics that Dr. Elephant does not have, one module per topic: each names its declarations in ``HEURISTICS``.

They are declared like Dr. Elephant's (``dr_elephant/heuristic.py``) with ``own=True``: judged, explained and shown beside
them, and without effect on a job's severity and score.
"""
