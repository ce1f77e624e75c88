"""The tab of the query profile."""
