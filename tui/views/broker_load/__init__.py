"""The broker load tab."""
