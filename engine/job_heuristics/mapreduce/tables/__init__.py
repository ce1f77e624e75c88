"""Tables of MapReduce jobs."""
