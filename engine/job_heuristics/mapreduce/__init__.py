"""MapReduce jobs: from history files to verdicts, advice and the tables of one job."""

ROOMS = ("reading", "model", "rules", "insight", "result")  # lowest first, above ``tables``
