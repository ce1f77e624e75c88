"""Compute what a faster or dropped class saves: CPU, utilisation, and the latency of the other classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.query_profile.insight.profile import Profile


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


def saving_of_class(row: Mapping[str, Any], profile: Profile, faster: float, drop: bool) -> Saving | None:
    """Make the class of a ``row`` of the ``classes`` table faster or drop it; None where nothing is attributed to it."""
    if row["y_total"] is None:
        return None
    total, low, high = (math.nan if row[name] is None else row[name] for name in ("y_total", "y_low", "y_high"))
    used, seconds, cores = profile.measured, profile.seconds, profile.work.cores
    return saving(total, low, high, faster=faster, drop=drop, used_us=used, seconds=seconds, cores=cores)


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
