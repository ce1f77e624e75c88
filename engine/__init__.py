"""loadlens' analysis: files to typed tables to immutable results. Imports neither ``tui`` nor Textual nor Rich."""

__version__ = "0.1.0"
