"""Shard allocator: how many shards a dataset gets for its usage, quick to grow and slow to shrink.

Source: ``shard_allocator.go`` of Pyroscope's ``adaptiveplacement`` package; ``docs/models/ring-placement.md``, "Allocator".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.ring_placement.pyroscope.limits import Limits

MAX_MULTIPLIER = 16
"""Largest factor by which growth within one burst window is amplified."""


@dataclass(slots=True)
class Allocator:
    """State of one dataset's allocation. Times in ns, 0 = not set; ``target``: shards of the last observation."""

    target: int = 0
    multiplier: int = 1
    burst_start: int = 0
    decay_start: int = 0
    current_min: int = 0
    previous_min: int = 0

    def observe(self, usage: int, now_ns: int, limits: Limits) -> int:
        """Update the state with ``usage`` bytes per second. Returns the number of shards.

        Raises ZeroDivisionError for a unit of 0, where Pyroscope panics.
        """
        target = usage // limits.unit_size + 1
        delta = target - self.target
        if delta > 0:
            if self.burst_start == 0 or now_ns - self.burst_start >= limits.burst_ns:
                self.multiplier = 1
            else:
                if self.multiplier < MAX_MULTIPLIER:
                    self.multiplier *= 2
                target = min(2 * target, target + math.ceil(delta * self.multiplier))
            self.burst_start = now_ns
        if self.decay_start == 0 or now_ns - self.decay_start >= limits.decay_ns:
            self.previous_min, self.current_min = self.current_min, target
            self.decay_start = now_ns
        self.current_min = max(self.current_min, target)
        floor = max(limits.min_dataset_shards, self.previous_min, self.current_min)
        self.target = min(limits.max_dataset_shards, floor)
        return self.target
