"""The tab Ring placement."""
