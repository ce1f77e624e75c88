"""The program's log: a rotating file in the state folder, and the last lines for the log screen.

Nothing is created before there is a line to write, and a folder that cannot be written only means that there is no file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from engine.own_files.private_files import make_folder, open_file

LINES = 500  # number of log lines kept for the screen
MAX_BYTES = 1 << 20  # size in bytes at which the log file is rotated
PAUSE_S = 5.0  # seconds to wait after a line could not be written (full or read-only disk)
BACKUPS = 2  # number of older log files
LOGGERS = ("loadlens", "engine", "tui", "sample_data")  # top names of all loggers of this program


class Ring(logging.Handler):
    """The last lines of the log, for the screen: time (epoch s), level, text."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[tuple[float, str, str]] = deque(maxlen=LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Append one line, with the last line of a traceback."""
        try:
            text = record.getMessage()
        except Exception:  # a message whose arguments do not fit: a mistake that must not end the program
            text = str(record.msg)
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.lines.append((record.created, record.levelname, text))


class File(RotatingFileHandler):
    """The log file, readable by its owner alone. It never fails: a line that cannot be written is lost, and so are those of the
    next ``PAUSE_S``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", delay=True, errors="replace")
        self.setLevel(logging.INFO)
        self.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
        self._again_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; the first one creates the file."""
        if time.monotonic() >= self._again_at:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Close the file, whatever state it is in; a line later opens it again."""
        self._again_at = time.monotonic() + PAUSE_S
        self.close()

    def _open(self) -> TextIOWrapper:
        make_folder(Path(self.baseFilename).parent)
        descriptor = open_file(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def close(self) -> None:
        """Close the file; lines that cannot be flushed are lost."""
        with contextlib.suppress(OSError, ValueError):
            super().close()


@contextlib.contextmanager
def to_file(path: Path) -> Iterator[None]:
    """Write the log of the program to ``path`` and nowhere else (not to the terminal) while the context lasts."""
    handler = File(path)
    attach(handler)
    for name in LOGGERS:
        logging.getLogger(name).propagate = False
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).propagate = True
        detach(handler)
        handler.close()


def attach(handler: logging.Handler) -> None:
    """Send the log of the program to ``handler``, from INFO on."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


def detach(handler: logging.Handler) -> None:
    """Stop sending the log to ``handler``."""
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)
