"""The model of Spark applications: from events to jobs, stages, executors and tasks."""
