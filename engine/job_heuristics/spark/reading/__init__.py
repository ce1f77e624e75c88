"""Event logs of Spark: bytes to rows."""
