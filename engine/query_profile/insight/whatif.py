"""Compute what a faster or dropped class saves: CPU, utilisation, and the latency of the other classes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Saving:
    """``saved`` CPU microseconds in the window with ``low`` and ``high``; utilisation (0-1) ``before`` and ``after``, NaN
    without cores or times; ``latency_factor``: time in queue and service of the others, relative to now (an M/M/c-like
    approximation)."""

    saved: float
    low: float
    high: float
    before: float
    after: float
    latency_factor: float


def saving(
    total: float, low: float, high: float, *, faster: float, drop: bool, used_us: float, seconds: float, cores: float
) -> Saving:
    """Make a class that takes ``total`` us of CPU (interval ``low``-``high``) ``faster`` times faster, or drop it.

    ``used_us``: CPU of everything in the window of ``seconds``; ``cores``: CPUs of the host (NaN: unknown).
    """
    share = 1.0 if drop or math.isinf(faster) else 1 - 1 / max(faster, 1.0)
    capacity = cores * seconds * 1e6
    before = used_us / capacity if capacity > 0 else math.nan
    after = max(before - total * share / capacity, 0.0) if capacity > 0 else math.nan
    factor = math.nan
    if capacity > 0 and before < 1:
        servers = max(cores, 1.0)
        factor = (1 - before**servers) / (1 - after**servers)
    return Saving(total * share, low * share, high * share, before, after, factor)
