"""Tables and detail of one Spark application."""
