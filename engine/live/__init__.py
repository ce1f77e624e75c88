"""The live path: which files there are, what changed, what was read. It knows no view."""
