"""The tab of the run comparison."""
