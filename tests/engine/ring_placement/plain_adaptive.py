"""Adaptive placement written plainly from docs/models/ring-placement.md: every number is computed from all that happened."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

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
