"""Pyroscope's adaptive placement: the distribution stats of each dataset, and the placement rules that follow from them.

Source: ``distribution_stats.go``, ``ewma/ewma.go``, ``shard_allocator.go``, ``load_balancing.go`` and ``ruler.go`` of
Pyroscope's package ``adaptiveplacement``; ``docs/models/ring-placement.md``, from "EWMA rate" to "Ruler".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, ROUND_ROBIN, Limits, Rule

SECOND = 1_000_000_000
"""Nanoseconds of a second."""
MAX_MULTIPLIER = 16
"""Largest factor by which growth within one burst window is amplified."""
RULES_RETENTION_NS = 15 * 60 * SECOND
"""How long the rule of a dataset without stats is kept: Pyroscope's default; no file that is read says another."""

Shard = tuple[int, str]
"""A shard ID and its owner. A moved shard is two of these."""


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


_UINT64 = 2**64 - 1
"""Sums of usages are unsigned 64-bit numbers: beyond them they begin at 0 again."""


def integer_mean(usage: Sequence[int]) -> int:
    """Compute the mean by integer division of the sum modulo 2^64; 0 for nothing."""
    return (sum(usage) & _UINT64) // len(usage) if usage else 0


def integer_std_dev(usage: Sequence[int]) -> int:
    """Compute the population standard deviation in Pyroscope's integers: squares modulo 2^64, truncated square root."""
    if not usage:
        return 0
    mean = integer_mean(usage)
    total = sum((value - mean) ** 2 for value in usage) & _UINT64
    return int(math.sqrt(float(total // len(usage))))


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    whole = math.trunc(value)
    # Adding a half would round twice: 0.49999999999999994 + 0.5 is 1, and above 2^52 odd numbers would become even.
    return whole + (1 if value > 0 else -1) if abs(value - whole) >= 0.5 else whole


_WHOLE_DATASET: Shard = (0, "")
"""Shard under which the rate of a dataset's deviation is counted; shards have IDs from 1."""


class StatsTracker:
    """Counts samples of (tenant, dataset, shard, owner, bytes) and builds the stats. ``window_s``: half-life of the rates.

    The rates of the deviations live among those of the shards, as in Pyroscope: they expire by their own last update, which
    is a build, and outlive their dataset's shards until then.

    Pyroscope's stored stats are read, never made: nothing but tests runs this class. It stays because it is what the stored
    numbers mean (above all the deviation), and Pyroscope's own streams of samples prove it.
    """

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


@dataclass(slots=True)
class Allocator:
    """How many shards a dataset gets for its usage, quick to grow and slow to shrink. Times in ns, 0 = not set;
    ``target``: shards of the last observation."""

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


def decide(usage: Sequence[int], std_dev: int, unit_size: int, target: int) -> int:
    """Choose the strategy number for a dataset's shard entries: round-robin if there are at least two, about as many as
    the target (within a factor of two), one carries two units or more, and the relative deviation is a half or more.

    It is never less where the integer mean is 0: the division gives an infinity, or NaN, and neither is below a half.
    ``usage``, ``std_dev`` and ``unit_size`` in bytes per second; ``target``: the number of shards allocated.
    """
    if len(usage) < 2 or target <= 0 or not 0.5 <= len(usage) / target <= 2:
        return BY_FINGERPRINT
    mean = integer_mean(usage)
    if max(usage) < 2 * unit_size or (mean > 0 and std_dev / mean < 0.5):
        return BY_FINGERPRINT
    return ROUND_ROBIN


@dataclass(frozen=True, slots=True)
class Rules:
    """Placement rules as stored; ``tenants`` in the order of the stored index list."""

    tenants: tuple[str, ...]
    datasets: tuple[Rule, ...]
    created_at: int


@dataclass(slots=True)
class _Placed:
    allocator: Allocator
    rule: Rule
    seen_ns: int


@dataclass(slots=True)
class Ruler:
    """Builds rules, with state between builds. ``limits`` returns the limits of a tenant."""

    limits: Callable[[str], Limits]
    _datasets: dict[tuple[str, str], _Placed] = field(default_factory=dict)

    def load(self, rules: Rules) -> None:
        """Load stored rules after a leader change: the limit becomes the lower bound for one decay window."""
        for rule in rules.datasets:
            # The previous target is unknown, so the first observation counts as the start of a burst.
            allocator = Allocator(decay_start=rules.created_at, current_min=rule.dataset_limit)
            self._datasets[rule.tenant, rule.name] = _Placed(allocator, rule, rules.created_at)

    def build(self, stats: DistributionStats) -> Rules:
        """Build the rules for ``stats``: one per dataset in it, then the last ones of the datasets that are absent, by tenant and
        name. A rule as new as the stats (loaded after they were built) is not repeated."""
        now = stats.created_at
        fresh: dict[tuple[str, str], Rule] = {}
        for dataset in stats.datasets:
            key = (dataset.tenant, dataset.name)
            limits = self.limits(dataset.tenant)
            placed = self._datasets.setdefault(key, _Placed(Allocator(), Rule(*key, 0, 0, 0), now))
            target = placed.allocator.observe(sum(dataset.usage) & _UINT64, now, limits)
            strategy = self._strategy(limits, placed.rule.load_balancing, dataset.usage, dataset.std_dev, target)
            placed.rule = Rule(*key, limits.tenant_limit, target, strategy)
            placed.seen_ns = now
            fresh[key] = placed.rule
        absent = sorted(key for key, placed in self._datasets.items() if placed.seen_ns < now)
        rules = [*fresh.values(), *(self._datasets[key].rule for key in absent)]
        return Rules(tuple(dict.fromkeys(r.tenant for r in rules)), tuple(rules), now)

    @staticmethod
    def _strategy(limits: Limits, current: int, usage: tuple[int, ...], std_dev: int, target: int) -> int:
        if limits.load_balancing == "fingerprint":
            return BY_FINGERPRINT
        if limits.load_balancing == "round-robin":
            return ROUND_ROBIN
        # One-way: a dataset that has been switched stays so.
        return ROUND_ROBIN if current == ROUND_ROBIN else decide(usage, std_dev, limits.unit_size, target)

    def expire(self, before_ns: int) -> None:
        """Remove datasets without stats since ``before_ns``."""
        for key in [k for k, placed in self._datasets.items() if placed.seen_ns < before_ns]:
            del self._datasets[key]
