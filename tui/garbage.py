"""When the garbage collector runs: in moments when nobody would notice.

Everything that a dashboard holds is some hundred thousand objects, of Textual alone a dozen for each line on screen. Going
through all of them stops the program for 100-300 ms, and Python does so in the midst of drawing. So what start-up made is
taken out of its sight, and what came since is collected when the operator has not touched anything for a while.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

YOUNG = (700, 10)
"""Python's own thresholds of the young generations: quick, and left as they are."""
OLD = 3000
"""Collections of young objects after which an old one comes in any case; Python's own number is 10."""
QUIET_S = 3.0
EVERY_S = 60.0
WORTH = 40
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

    def tick(self) -> bool:
        """Asked about once a second: collect if it is time; whether it was."""
        now = self._clock()
        if not self._begun or now - self._touched < QUIET_S or now - self._collected < EVERY_S:
            return False
        self._collected = now
        if gc.get_count()[2] < WORTH:
            return False
        gc.unfreeze()  # some of what stayed may have gone since
        gc.collect()
        gc.freeze()
        return True
