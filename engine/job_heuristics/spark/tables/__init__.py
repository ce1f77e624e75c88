"""Tables of Spark applications."""
