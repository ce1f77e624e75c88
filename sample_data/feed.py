"""Plays the sample data of every view below one folder, as running systems would write them."""

from __future__ import annotations

import contextlib
import heapq
import importlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.views import VIEWS

log = logging.getLogger(__name__)

NAMES = tuple(entry.name for entry in VIEWS)


def player(name: str, target: Path) -> Iterator[float] | None:
    """Return the ``steps`` of view ``name``, which write below its own folder of ``target``; None if it has no sample data."""
    package = f"sample_data.{name.replace('-', '_')}"
    try:
        module = importlib.import_module(f"{package}.live")
    except ModuleNotFoundError as error:
        if error.name not in (package, f"{package}.live"):
            raise
        return None
    folder = target / name
    folder.mkdir(parents=True, exist_ok=True)
    steps: Iterator[float] = module.steps(folder)
    return steps


class Feeder(threading.Thread):
    """Steps every player at its own pace, ``speed`` times as fast as it asks, until told to stop.

    ``prepare`` writes the starting files: of one view, then of all others, so that the first screen does not wait for what
    it does not show. Changes begin once all are there.
    """

    def __init__(self, target: Path, speed: float = 1.0) -> None:
        super().__init__(name="feeder", daemon=True)
        self.target = target
        self.speed = max(speed, 1e-3)
        self._stop_asked = threading.Event()
        self._lock = threading.Lock()
        self._removing = threading.RLock()
        self._players: dict[str, Iterator[float]] = {}
        self._due: list[tuple[float, int, str]] = []

    def prepare(self, view: str = "") -> None:
        """Write the starting files of ``view`` (empty: of all, then begin to play). A player that fails is left out."""
        names = (view,) if view else NAMES
        for name in names:
            with self._lock:
                if not self._stop_asked.is_set() and name in NAMES and name not in self._players:
                    self._begin(name)
        with self._lock:
            if not view and not self._stop_asked.is_set() and self.ident is None:
                self.start()

    def _begin(self, name: str) -> None:
        try:
            steps = player(name, self.target)
            if steps is None:
                return
            pause = next(steps)
        except (StopIteration, OSError) as error:
            log.warning("there are no sample data of %s: %s", name, error)
            return
        self._players[name] = steps
        heapq.heappush(self._due, (time.monotonic() + pause / self.speed, NAMES.index(name), name))

    def run(self) -> None:
        """Make changes as they fall due. A player that fails is left out; the others go on."""
        while self._due:
            due, order, name = heapq.heappop(self._due)
            if self._stop_asked.wait(max(0.0, due - time.monotonic())):
                return
            try:
                with self._lock:
                    if self._stop_asked.is_set():
                        return
                    pause = next(self._players[name])
            except StopIteration:
                continue
            except OSError as error:  # the disk is full, or someone removed the folder
                log.warning("sample data of %s stopped: %s", name, error)
                continue
            heapq.heappush(self._due, (time.monotonic() + max(pause / self.speed, 0.02), order, name))

    def stop(self) -> None:
        """Nothing is written from now on; waits for a step under way."""
        self._stop_asked.set()
        if self._lock.acquire(timeout=5):
            self._lock.release()

    def remove(self) -> None:
        """Stop and remove the folder. Called once more meanwhile (the terminal is lost while a signal is answered), it comes
        back when the folder is gone: whoever comes back first ends the process."""
        self.stop()
        with self._removing:
            # Each of hundreds of calls to the system gives the interpreter away; threads that compute keep it for 5 ms each.
            before = sys.getswitchinterval()
            sys.setswitchinterval(1e-5)
            try:
                shutil.rmtree(self.target, ignore_errors=True)
            finally:
                sys.setswitchinterval(before)


@contextlib.contextmanager
def playing(speed: float = 1.0) -> Iterator[Feeder]:
    """A feeder on a temporary folder (below ``TMPDIR``), to be prepared by the caller. However it ends, also by SIGTERM,
    SIGHUP or Ctrl+C, the folder is removed."""
    before = _handle_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # they wait until it is known what to remove
    try:
        feeder = Feeder(Path(tempfile.mkdtemp(prefix="loadlens-demo-")), speed)
        _playing.append(feeder)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    try:
        yield feeder
    finally:
        _set_handlers(dict.fromkeys(before, signal.SIG_IGN))
        feeder.remove()
        _playing.remove(feeder)
        _set_handlers(before)


_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_playing: list[Feeder] = []
"""Whose folders go when a signal ends the process."""


def _leave(number: int, _frame: Any) -> None:
    """End the process here and now. An exception would come up in whatever runs: an import turns it into another one or
    swallows it, and native code that is half loaded has crashed of it."""
    _set_handlers(dict.fromkeys(_SIGNALS, signal.SIG_IGN))
    for feeder in _playing:
        feeder.remove()
    os._exit(128 + number)


def _handle_signals() -> dict[signal.Signals, Any]:
    """Let signals remove the folders while no event loop looks after them; gives the handlers there were.
    A signal that is ignored stays so (nohup)."""
    before = {each: signal.getsignal(each) for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN}
    _set_handlers(dict.fromkeys(before, _leave))
    return before


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    with contextlib.suppress(ValueError):  # not the main thread: whoever runs it looks after signals
        for number, handler in handlers.items():
            signal.signal(number, handler)
