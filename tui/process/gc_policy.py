"""The policy of garbage collection: in moments when the operator does not wait.

A dashboard holds some hundred thousand objects, of Textual alone a dozen for each line on screen. A full collection stops the
program for 100-300 ms, and Python starts it in the midst of drawing; one of young objects takes up to 10 ms, which nobody
notices. So the objects of start-up are frozen (``gc.freeze``), and old ones are collected when the operator has not touched
anything for a while. Whoever never lets go of the keys gets
collections of what is not frozen, a third as long: closed boxes and replaced results would pile up, some MB a minute.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

YOUNG = (50_000, 10)
"""Thresholds of the first two generations: young objects that Python collects by itself, and how many times."""
OLD = 3000  # threshold of the oldest generation: collections of the second one; Python's own is 10
QUIET_S = 3.0  # seconds without a key or the mouse before a full collection
INTERVAL_S = 60.0
"""Smallest number of seconds between two full collections, and between two of old objects that are not frozen."""
MIN_COLLECTIONS = 30  # collections of the second generation since the last full one that make another one worth it


class Collector:
    """Collects in quiet moments. Not for tests, which share their process: it changes the process's collector."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._touched = self._collected = clock()
        self._begun = False

    def begin(self) -> None:
        """Start collecting: start-up, which runs without a collector (``tui.__main__.run``), is over. Freeze its objects."""
        gc.freeze()
        gc.set_threshold(*YOUNG, OLD)
        gc.enable()
        self._collected = self._clock()
        self._begun = True

    def touched(self) -> None:
        """Note that the operator did something."""
        self._touched = self._clock()

    def tick(self, busy: bool) -> None:
        """Collect if this is a good moment; called once a second. ``busy``: the operator may wait for a computation."""
        if not self._begun or busy:
            return
        now = self._clock()
        if gc.get_count()[2] >= MIN_COLLECTIONS and now - self._collected >= INTERVAL_S:
            self._collected = now
            if now - self._touched >= QUIET_S:
                gc.unfreeze()  # some of the frozen objects may be garbage by now
                gc.collect()
                gc.freeze()
            else:
                gc.collect()
