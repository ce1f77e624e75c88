"""MapReduce jobs: from history files to verdicts, advice and the tables of one job."""
