"""A temporary folder that the dashboard watches while something plays into it; it is removed however that ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol


class Plays(Protocol):
    """What writes files below a folder: ``prepare`` those of the start (of one view, then of all), then changes."""

    def prepare(self, view: str = "") -> None:
        """Write the starting files of ``view`` (empty: of all, then begin to play)."""

    def stop(self) -> None:
        """Stop writing; waits for a change under way."""


class PlayedFolder:
    """The folder ``path`` and the ``player`` that writes into it, None before it is known."""

    def __init__(self, path: Path, player: Plays | None = None) -> None:
        self.path = path
        self.player = player
        self._removing = threading.RLock()

    def remove(self) -> None:
        """Stop the player and remove the folder.

        A second call (the terminal is lost while a signal is handled) also waits until the folder is gone, since the process ends
        when either call returns.
        """
        if self.player is not None:
            self.player.stop()
        with self._removing:
            # Each of hundreds of calls to the system gives the interpreter away; threads that compute keep it for 5 ms each.
            before = sys.getswitchinterval()
            sys.setswitchinterval(1e-5)
            try:
                shutil.rmtree(self.path, ignore_errors=True)
            finally:
                sys.setswitchinterval(before)


@contextlib.contextmanager
def playing(name: str, make: Callable[[Path], Plays]) -> Iterator[PlayedFolder]:
    """A new temporary folder (below ``TMPDIR``) called after ``name``, and what ``make`` makes to play into it. However it ends,
    also by SIGTERM, SIGHUP or Ctrl+C, the folder is removed."""
    # Signals remove the folder while no event loop handles them. One that is ignored stays so (nohup).
    before = {each: signal.getsignal(each) for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN}
    _set_handlers(dict.fromkeys(before, _leave))
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # they wait until it is known what to remove
    try:
        folder = PlayedFolder(Path(tempfile.mkdtemp(prefix=f"loadlens-{name}-")))
        _playing.append(folder)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    try:
        folder.player = make(folder.path)
        yield folder
    finally:
        _set_handlers(dict.fromkeys(before, signal.SIG_IGN))
        folder.remove()
        _playing.remove(folder)
        _set_handlers(before)


_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_playing: list[PlayedFolder] = []  # whose folders go when a signal ends the process


def _leave(number: int, _frame: Any) -> None:
    """End the process at once. An exception would be raised in whatever runs: an import turns it into another one or
    swallows it, and native code that is half loaded has crashed of it."""
    _set_handlers(dict.fromkeys(_SIGNALS, signal.SIG_IGN))
    for folder in _playing:
        folder.remove()
    os._exit(128 + number)


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    with contextlib.suppress(ValueError):  # not the main thread: whoever runs it looks after signals
        for number, handler in handlers.items():
            signal.signal(number, handler)
