"""Plays the sample data of every view below one folder, as running systems would write them."""

from __future__ import annotations

import contextlib
import heapq
import importlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

VIEWS = ("broker_load", "job_heuristics", "query_profile", "run_comparison", "ring_placement")


def players(target: Path) -> dict[str, Iterator[float]]:
    """One ``steps`` iterator per view that has a feeder, each writing below its own folder of ``target``."""
    found: dict[str, Iterator[float]] = {}
    for name in VIEWS:
        try:
            module = importlib.import_module(f"sample_data.{name}.live")
        except ModuleNotFoundError as error:
            if error.name != f"sample_data.{name}.live":
                raise
            continue
        folder = target / name.replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        found[name] = module.steps(folder)
    return found


class Feeder(threading.Thread):
    """Steps every player at its own pace, ``speed`` times as fast as it asks, until told to stop."""

    def __init__(self, target: Path, speed: float = 1.0) -> None:
        super().__init__(name="feeder", daemon=True)
        self.target = target
        self.speed = max(speed, 1e-3)
        self._stop_asked = threading.Event()
        self._players = players(target)
        # The starting files are written before the dashboard opens, so that its first look finds them.
        now = time.monotonic()
        self._due = [
            (now + next(player) / self.speed, order, name) for order, (name, player) in enumerate(self._players.items())
        ]
        heapq.heapify(self._due)

    def run(self) -> None:
        """Make changes as they fall due. A player that fails is left out; the others go on."""
        while self._due:
            due, order, name = heapq.heappop(self._due)
            if self._stop_asked.wait(max(0.0, due - time.monotonic())):
                return
            try:
                pause = next(self._players[name])
            except StopIteration:
                continue
            except OSError as error:  # the disk is full, or someone removed the folder
                log.warning("sample data of %s stopped: %s", name, error)
                continue
            heapq.heappush(self._due, (time.monotonic() + max(pause / self.speed, 0.02), order, name))

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        self._stop_asked.set()
        if self.is_alive():
            self.join(timeout=5)


@contextlib.contextmanager
def playing(speed: float = 1.0) -> Iterator[Path]:
    """A temporary folder (below ``TMPDIR``) in which sample data move; it is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="loadlens-demo-"))
    feeder: Feeder | None = None
    try:
        feeder = Feeder(folder, speed)
        feeder.start()
        yield folder
    finally:
        if feeder is not None:
            feeder.stop()
        shutil.rmtree(folder, ignore_errors=True)
