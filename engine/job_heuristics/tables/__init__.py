"""The tables of job heuristics: ``input`` (what readers deliver), ``model`` (assembled from it), ``result`` and ``insight``."""
