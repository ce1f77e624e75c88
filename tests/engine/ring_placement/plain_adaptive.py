"""Adaptive placement written plainly from docs/models/ring-placement.md: every number is computed from all that happened."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats, Shard, integer_std_dev

SECOND = 10**9

Sample = tuple[int, float]
"""Time (ns) and bytes."""


def replay(samples: list[Sample], now: int, half_life_s: float) -> tuple[float, int]:
    """The rate at ``now`` of samples in the order in which they came, and the time of its last update."""
    lifetime = max(1.0, half_life_s) / math.log(2)

    def folded(rate: float, count: float, seconds: float) -> float:
        share = 1 - math.exp(-seconds / lifetime)
        return share * (count / seconds) + (1 - share) * rate

    rate, count, last = 0.0, 0.0, 0
    for time, amount in samples:
        seconds = (time - last) / 1e9
        if seconds >= 1:
            rate, count, last = folded(rate, count, seconds), 0.0, time
        if seconds >= 0:
            count += amount
    seconds = (now - last) / 1e9
    if seconds < 0:
        return 0.0, last
    return folded(rate, count, seconds) if seconds >= 1 else rate, last


def nearest(value: float) -> int:
    low = math.floor(value)
    return low + (value - low >= 0.5)


def deviation(usage: list[int]) -> int:
    mean = sum(usage) % 2**64 // len(usage)
    squares = sum((value - mean) * (value - mean) for value in usage) % 2**64
    return int(math.sqrt(squares // len(usage)))


@dataclass
class Plain:
    """One process: samples by (tenant, dataset, shard, owner), and a dict per dataset with a rule."""

    half_life_s: float
    limits: dict[str, dict[str, Any]]
    samples: dict[tuple[str, str, int, str], list[Sample]] = field(default_factory=dict)
    datasets: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def record(self, tenant: str, dataset: str, shard: int, owner: str, size: int, now: int) -> None:
        self.samples.setdefault((tenant, dataset, shard, owner), []).append((now, float(size)))

    def expire(self, stats_before: int, rules_before: int) -> None:
        self.samples = {k: v for k, v in self.samples.items() if replay(v, 0, self.half_life_s)[1] >= stats_before}
        self.datasets = {k: v for k, v in self.datasets.items() if v["seen"] >= rules_before}

    def stats(self, now: int) -> list[tuple[str, str, list[tuple[int, str]], list[int], int]]:
        out = []
        for tenant, dataset in sorted({key[:2] for key in self.samples if key[2]}):
            shards = sorted(key[2:] for key in self.samples if key[:2] == (tenant, dataset) and key[2])
            usage = [
                nearest(replay(self.samples[tenant, dataset, *shard], now, self.half_life_s)[0]) for shard in shards
            ]
            spread = self.samples.setdefault((tenant, dataset, 0, ""), [])
            spread.append((now, float(deviation(usage))))
            out.append((tenant, dataset, shards, usage, nearest(replay(spread, now, self.half_life_s)[0])))
        return out

    def load(self, rules: list[tuple[str, str, int, int, int]], created: int) -> None:
        for tenant, dataset, tenant_limit, limit, strategy in rules:
            self.datasets[tenant, dataset] = {
                "seen": created, "rule": (tenant_limit, limit, strategy), "target": 0, "factor": 1, "burst": 0,
                "decay": created, "low": limit, "low_before": 0,
            }  # fmt: skip

    def rules(self, stats: list[Any], now: int) -> list[tuple[str, str, int, int, int]]:
        written = []
        for tenant, dataset, shards, usage, spread in stats:
            fresh = {"seen": now, "rule": (0, 0, 0), "target": 0, "factor": 1, "burst": 0, "decay": 0}
            state = self.datasets.setdefault((tenant, dataset), fresh | {"low": 0, "low_before": 0})
            limits = self.limits[tenant]
            target = self.allocate(state, sum(usage), now, limits)
            strategy = self.strategy(state["rule"][2], limits, len(shards), usage, spread, target)
            state["seen"], state["rule"] = now, (limits["tenant"], target, strategy)
            written.append((tenant, dataset, *state["rule"]))
        absent = sorted(key for key, state in self.datasets.items() if state["seen"] < now)
        return written + [(*key, *self.datasets[key]["rule"]) for key in absent]

    @staticmethod
    def allocate(state: dict[str, Any], usage: int, now: int, limits: dict[str, Any]) -> int:
        wanted = usage // limits["unit"] + 1
        growth = wanted - state["target"]
        if growth > 0:
            if not state["burst"] or now - state["burst"] >= limits["burst"]:
                state["factor"] = 1
            else:
                state["factor"] = min(16, 2 * state["factor"])
                wanted = min(2 * wanted, wanted + growth * state["factor"])
            state["burst"] = now
        if not state["decay"] or now - state["decay"] >= limits["decay"]:
            state["low_before"], state["low"], state["decay"] = state["low"], wanted, now
        state["low"] = max(state["low"], wanted)
        state["target"] = min(limits["max"], max(limits["min"], state["low_before"], state["low"]))
        return int(state["target"])

    @staticmethod
    def strategy(current: int, limits: dict[str, Any], n: int, usage: list[int], spread: int, target: int) -> int:
        if limits["balance"] != "dynamic":
            return {"fingerprint": 1, "round-robin": 2}[limits["balance"]]
        skewed = (
            n >= 2
            and target <= 2 * n
            and n <= 2 * target
            and any(value >= 2 * limits["unit"] for value in usage)
            and (sum(usage) // n == 0 or 2 * spread >= sum(usage) // n)
        )
        return 2 if current == 2 or skewed else 1


class Rate:
    """Rate per second with a half-life of ``window_s`` seconds (at least one); a new one was last updated in 1970."""

    __slots__ = ("_lifetime", "average", "cumulated", "last_ns")

    def __init__(self, window_s: float) -> None:
        self._lifetime = max(1.0, window_s) / math.log(2)
        self.average = 0.0
        self.cumulated = 0.0
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
            self.cumulated = 0.0
            self.last_ns = now_ns
        self.cumulated += amount

    def value(self, now_ns: int) -> float:
        """Return the rate at ``now_ns`` without storing it."""
        elapsed = (now_ns - self.last_ns) / SECOND
        if elapsed < 0:
            return 0.0
        return self._decayed(elapsed) if elapsed >= 1 else self.average


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    whole = math.trunc(value)
    # Adding a half would round twice: 0.49999999999999994 + 0.5 is 1, and above 2^52 odd numbers would become even.
    return whole + (1 if value > 0 else -1) if abs(value - whole) >= 0.5 else whole


_WHOLE_DATASET: Shard = (0, "")
"""Shard under which the rate of a dataset's deviation is counted; shards have IDs from 1."""


class StatsTracker:
    """Counts samples of (tenant, dataset, shard, owner, bytes) and builds the stats as Pyroscope does, so that tests of the
    ruler have the input of a real one. ``window_s``: half-life of the rates."""

    def __init__(self, window_s: float = 180.0) -> None:
        self._counters: defaultdict[tuple[str, str, Shard], Rate] = defaultdict(lambda: Rate(window_s))

    def record(self, tenant: str, name: str, shard: int, owner: str, size: int, now_ns: int) -> None:
        """Count ``size`` bytes. Shard 0 is no shard: it is counted and never listed."""
        self._counters[tenant, name, (shard, owner)].update(size, now_ns)

    def build(self, now_ns: int) -> DistributionStats:
        """Build the stats at ``now_ns``.

        The standard deviation is fed into a rate as an amount per build, so that the stored value is smaller by the seconds
        between builds. Pyroscope does so; ``integer_std_dev`` is the true one.
        """
        usage_by_shard: dict[tuple[str, str], dict[Shard, int]] = {}
        for tenant, name, shard in sorted(self._counters):
            if shard[0] != 0:
                usage = round_half_away(self._counters[tenant, name, shard].value(now_ns))
                usage_by_shard.setdefault((tenant, name), {})[shard] = usage
        datasets = []
        for (tenant, name), by_shard in usage_by_shard.items():
            usages = tuple(by_shard.values())
            deviation = self._counters[tenant, name, _WHOLE_DATASET]
            deviation.update(integer_std_dev(usages), now_ns)
            stored = round_half_away(deviation.value(now_ns))
            datasets.append(DatasetStats(tenant, name, tuple(by_shard), usages, stored))
        return DistributionStats(tuple(datasets), now_ns)

    def expire(self, before_ns: int) -> None:
        """Remove rates that were not updated since ``before_ns``: those of shards by a sample, those of deviations by a build."""
        for key in [k for k, rate in self._counters.items() if rate.last_ns < before_ns]:
            del self._counters[key]
