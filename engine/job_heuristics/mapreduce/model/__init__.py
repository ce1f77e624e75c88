"""The assembled model of all jobs: one row per job, task and attempt."""
