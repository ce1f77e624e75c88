"""The exponentially weighted rate that Pyroscope counts bytes with.

Source: ``ewma/ewma.go`` of Pyroscope's ``adaptiveplacement`` package; ``docs/models/ring-placement.md``, "EWMA rate".
"""

from __future__ import annotations

import math

SECOND = 1_000_000_000
"""Nanoseconds of a second."""


class Rate:
    """Rate per second with a half-life of ``window_s`` seconds (at least one); a new one was last updated in 1970."""

    __slots__ = ("_lifetime", "average", "cumulated", "last_ns")

    def __init__(self, window_s: float) -> None:
        self._lifetime = max(1.0, window_s) / math.log(2)
        self.average = 0.0
        self.cumulated = 0
        self.last_ns = 0

    def _decayed(self, elapsed: float) -> float:
        alpha = 1 - math.exp(-elapsed / self._lifetime)
        return alpha * (self.cumulated / elapsed) + (1 - alpha) * self.average

    def update(self, amount: int, now_ns: int) -> None:
        """Count ``amount`` at ``now_ns``; a time before the last one is ignored."""
        elapsed = (now_ns - self.last_ns) / SECOND
        if elapsed < 0:
            return
        if elapsed >= 1:
            self.average = self._decayed(elapsed)
            self.cumulated = 0
            self.last_ns = now_ns
        self.cumulated += amount

    def value(self, now_ns: int) -> float:
        """Return the rate at ``now_ns`` without storing it."""
        elapsed = (now_ns - self.last_ns) / SECOND
        if elapsed < 0:
            return 0.0
        return self._decayed(elapsed) if elapsed >= 1 else self.average
