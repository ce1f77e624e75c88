"""loadlens' analysis: files to typed tables to immutable results. Imports neither ``tui`` nor Textual nor Rich."""

__version__ = "0.1.0"

import os

# The matrices here are small: one BLAS thread is as fast as two on a free machine, and twenty times faster than two
# that wait for each other on a busy one. Must be said before NumPy is imported; an operator's own choice stands.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Frames here fit in memory, most have a few thousand rows, and many small queries make one computation: each one that
# the streaming engine runs costs some milliseconds more, a third of the time from an append to its number.
os.environ.setdefault("POLARS_ENGINE_AFFINITY", "in-memory")
