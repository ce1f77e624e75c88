"""The exponentially weighted rate that upstream counts bytes with."""

from __future__ import annotations

import math

SECOND = 1_000_000_000


class Rate:
    """Rate per second with a half-life of ``window_s`` seconds (at least one); a new one last saw data in 1970."""

    __slots__ = ("_lifetime", "average", "cumulated", "last_ns")

    def __init__(self, window_s: float) -> None:
        self._lifetime = max(1.0, window_s) / math.log(2)
        self.average = 0.0
        self.cumulated = 0
        self.last_ns = 0

    def _folded(self, elapsed: float) -> float:
        alpha = 1 - math.exp(-elapsed / self._lifetime)
        return alpha * (self.cumulated / elapsed) + (1 - alpha) * self.average

    def update(self, amount: int, now_ns: int) -> None:
        """Count ``amount`` at ``now_ns``; a time before the last one is ignored."""
        elapsed = (now_ns - self.last_ns) / SECOND
        if elapsed < 0:
            return
        if elapsed >= 1:
            self.average = self._folded(elapsed)
            self.cumulated = 0
            self.last_ns = now_ns
        self.cumulated += amount

    def value(self, now_ns: int) -> float:
        """The rate at ``now_ns``, without storing it."""
        elapsed = (now_ns - self.last_ns) / SECOND
        if elapsed < 0:
            return 0.0
        return self._folded(elapsed) if elapsed >= 1 else self.average
