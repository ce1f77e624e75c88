"""The statistical comparison: tests, intervals, resampling, change points, influence."""
