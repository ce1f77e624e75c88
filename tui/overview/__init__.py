"""The overview: all views at once, what changed, and the way to the row of each finding."""
