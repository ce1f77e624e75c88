"""Print: data to standard output, messages to standard error; and the exit codes."""

from __future__ import annotations

import contextlib
import os
import sys

from engine.core.reading import harmless

FINE, FINDING, USAGE, NO_INPUT, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: success, a finding at or above the level of ``check``, wrong usage, no usable input, Ctrl+C."""


class UsageError(Exception):
    """Ends the program with a message: wrong usage, output that cannot be written, or (``code`` FINE) requested help."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code


def write(text: str | bytes) -> None:
    """Write all of ``text`` to standard output. Raises BrokenPipeError, and UsageError where it cannot be written."""
    if sys.stdout is None:
        raise UsageError("standard output is closed")
    try:
        sys.stdout.flush()
        data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
        else:  # a replacement of standard output, as in tests
            sys.stdout.write(data.decode())
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would make Python complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise UsageError(f"standard output cannot be written: {error.strerror or error}") from error


def terminal_width() -> int:
    """Return the columns of the terminal that standard output is; 0 if it is none (a file, a pipe)."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError, AttributeError):
        return 0


def write_file(path: str, text: str | bytes) -> None:
    """Write all of ``text`` to the file ``path``, or leave it as it is: readers never see a part. Raises UsageError."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113  (/dev/stdout, a named pipe)
            with open(path, "wb") as device:  # noqa: PTH123
                device.write(data)
            return
        # With the usual permissions of a new file: the collector's user must be able to read it.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)  # noqa: PTH105
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # noqa: PTH108
        raise UsageError(f"--output {path}: {error.strerror or error}") from error


def message(text: str) -> None:
    """Write a message to standard error; without a standard error that can be written it is lost."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(harmless(text.rstrip("\n")) + "\n")
            sys.stderr.flush()
