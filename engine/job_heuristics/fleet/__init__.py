"""Fleet results: computing job heuristics on Spark, and reading what such a run wrote."""
