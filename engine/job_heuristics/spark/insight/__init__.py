"""What goes beyond Dr. Elephant for Spark applications: cost, time on other executors, skew, memory, SQL plans, advice."""
