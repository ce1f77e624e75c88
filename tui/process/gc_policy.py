"""When the garbage collector runs: in moments when nobody would notice.

Everything that a dashboard holds is some hundred thousand objects, of Textual alone a dozen for each line on screen. Going
through all of them stops the program for 100-300 ms, and Python does so in the midst of drawing; what is young takes up to
10 ms, always right after a computation, which goes without a collector. So what start-up made is taken out of its sight,
young objects are collected between two computations, and old ones when the operator has not touched anything for a while.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

YOUNG = (50_000, 10)
"""Young objects after which they are collected in any case, and how often that is until the middle-aged follow."""
FEW = 2000
"""Fewer young objects wait; Python's own number is 700."""
OLD = 3000
"""Collections of young objects after which an old one comes in any case; Python's own number is 10."""
QUIET_S = 3.0
EVERY_S = 60.0
WORTH = 200
"""With fewer collections of young objects since the last time there is too little to be worth it."""


class Collector:
    """Collects when nobody waits. Not for tests, which share their process: it changes the process's collector."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._touched = self._collected = clock()
        self._begun = False

    def begin(self) -> None:
        """Start-up, which goes without a collector (``run``), is over: what is there stays."""
        gc.freeze()
        gc.set_threshold(*YOUNG, OLD)
        gc.enable()
        self._collected = self._clock()
        self._begun = True

    def touched(self) -> None:
        """The operator did something."""
        self._touched = self._clock()

    def tick(self, busy: bool) -> None:
        """Asked about once a second: collect if it is time. ``busy``: something is being computed that somebody may wait
        for."""
        if not self._begun or busy:
            return
        now = self._clock()
        young, _, since = gc.get_count()
        if since >= WORTH and now - self._touched >= QUIET_S and now - self._collected >= EVERY_S:
            self._collected = now
            gc.unfreeze()  # some of what stayed may have gone since
            gc.collect()
            gc.freeze()
        elif young >= FEW:
            gc.collect(1)
