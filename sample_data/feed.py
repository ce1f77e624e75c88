"""Plays the sample data of every view below one folder, as running systems would write them."""

from __future__ import annotations

import heapq
import importlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

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
        """Stop writing; wait for the current step."""
        self._stop_asked.set()
        if self._lock.acquire(timeout=5):
            self._lock.release()
