"""Distribution stats: how many bytes per second each dataset writes to each shard and owner (``placement_stats``).

Source: ``distribution_stats.go`` of Pyroscope's ``adaptiveplacement`` package; ``docs/models/ring-placement.md``,
"Distribution stats".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.ring_placement.pyroscope.ewma import Rate

Shard = tuple[int, str]
"""A shard ID and its owner. A moved shard is two of these."""


@dataclass(frozen=True, slots=True)
class DatasetStats:
    """One dataset: bytes per second per shard entry, in the order of shard ID and owner; ``std_dev`` as stored."""

    tenant: str
    name: str
    shards: tuple[Shard, ...]
    usage: tuple[int, ...]
    std_dev: int


@dataclass(frozen=True, slots=True)
class DistributionStats:
    """All datasets at ``created_at`` (ns), sorted by tenant and name as Pyroscope builds them."""

    datasets: tuple[DatasetStats, ...]
    created_at: int

    def indexed(self) -> tuple[list[str], list[Shard]]:
        """List the tenants and shards of the stored form, in order of first use."""
        tenants = dict.fromkeys(d.tenant for d in self.datasets)
        shards = dict.fromkeys(s for d in self.datasets for s in d.shards)
        return list(tenants), list(shards)


def integer_mean(usage: tuple[int, ...] | list[int]) -> int:
    """Compute the mean by integer division; 0 for nothing."""
    return sum(usage) // len(usage) if usage else 0


def integer_std_dev(usage: tuple[int, ...] | list[int]) -> int:
    """Compute the population standard deviation in Pyroscope's integers: squares modulo 2^64, truncated square root."""
    if not usage:
        return 0
    mean = integer_mean(usage)
    total = 0
    for value in usage:
        total = (total + (value - mean) * (value - mean)) & (2**64 - 1)
    return int(math.sqrt(float(total // len(usage))))


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


class StatsTracker:
    """Counts samples of (tenant, dataset, shard, owner, bytes) and builds the stats. ``window_s``: half-life of the rates."""

    def __init__(self, window_s: float = 180.0) -> None:
        self._window = window_s
        self._counters: dict[tuple[str, str, int, str], Rate] = {}
        self._deviations: dict[tuple[str, str], Rate] = {}

    def record(self, tenant: str, name: str, shard: int, owner: str, size: int, now_ns: int) -> None:
        """Count ``size`` bytes."""
        key = (tenant, name, shard, owner)
        rate = self._counters.get(key)
        if rate is None:
            rate = self._counters[key] = Rate(self._window)
        rate.update(size, now_ns)

    def build(self, now_ns: int) -> DistributionStats:
        """Build the stats at ``now_ns``.

        The standard deviation is fed into a rate as an amount per build, so that the stored value is smaller by the seconds
        between builds. Pyroscope does so; ``integer_std_dev`` is the true one.
        """
        datasets = []
        grouped: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
        for key in sorted(self._counters, key=_by_bytes):
            tenant, name, shard, owner = key
            value = round_half_away(self._counters[key].value(now_ns))
            grouped.setdefault((tenant, name), []).append((shard, owner, value))
        for (tenant, name), entries in grouped.items():
            usage = tuple(e[2] for e in entries)
            rate = self._deviations.get((tenant, name))
            if rate is None:
                rate = self._deviations[tenant, name] = Rate(self._window)
            rate.update(integer_std_dev(usage), now_ns)
            stored = round_half_away(rate.value(now_ns))
            datasets.append(DatasetStats(tenant, name, tuple((e[0], e[1]) for e in entries), usage, stored))
        return DistributionStats(tuple(datasets), now_ns)

    def expire(self, before_ns: int) -> None:
        """Remove counters without a sample since ``before_ns``."""
        for key in [k for k, r in self._counters.items() if r.last_ns < before_ns]:
            del self._counters[key]
        alive = {k[:2] for k in self._counters}
        for name in [k for k in self._deviations if k not in alive]:
            del self._deviations[name]


def _by_bytes(key: tuple[str, str, int, str]) -> tuple[bytes, bytes, int, bytes]:
    return key[0].encode(), key[1].encode(), key[2], key[3].encode()
