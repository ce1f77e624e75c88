"""The load-balancing decision: when a dataset changes from shards by fingerprint to random shards.

Source: ``load_balancing.go`` of Pyroscope's ``adaptiveplacement`` package; ``docs/models/ring-placement.md``, "Balancing".
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.ring_placement.pyroscope.distribution import integer_mean
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, ROUND_ROBIN


def decide(usage: Sequence[int], std_dev: int, unit_size: int, target: int) -> int:
    """Choose the strategy number for a dataset's shard entries: round-robin if there are at least two, about as many as
    the target (within a factor of two), one carries two units or more, and the relative deviation is a half or more.

    ``usage``, ``std_dev`` and ``unit_size`` in bytes per second; ``target``: the number of shards allocated.
    """
    if len(usage) < 2 or target <= 0:
        return BY_FINGERPRINT
    share = len(usage) / target
    if share < 0.5 or share > 2:
        return BY_FINGERPRINT
    if max(usage) < 2 * unit_size:
        return BY_FINGERPRINT
    mean = integer_mean(list(usage))
    if mean <= 0 or std_dev / mean < 0.5:
        return BY_FINGERPRINT
    return ROUND_ROBIN
