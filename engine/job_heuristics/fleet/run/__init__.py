"""Job heuristics for more histories than one machine should read: the same engine on batches of jobs, run by Apache
Spark."""
