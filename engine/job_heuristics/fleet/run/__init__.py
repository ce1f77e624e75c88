"""Job heuristics of more histories than one machine should read: the same engine, run on batches of jobs by Apache Spark."""
