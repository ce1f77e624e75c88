"""Where the program starts: Ctrl+C ends it at once, as it does any program, before anything else is imported.

An exception in its place would be raised in the middle of an import or of a callback of the interpreter, and shown as a
traceback. Files are written under another name and renamed, so that an end at any moment does no harm. Screens and runs on
Spark, which have something to restore, handle Ctrl+C themselves.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)

from tui.__main__ import run  # noqa: E402

__all__ = ["run"]
