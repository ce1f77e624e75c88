"""Pyroscope's adaptive placement: limits of tenants and the policy lookup of the distributor, the distribution stats of each
dataset, and the placement rules that follow from them.

Source: ``validation.Limits``, the package ``distributor/placement``, and ``distribution_stats.go``, ``ewma/ewma.go``,
``shard_allocator.go``, ``load_balancing.go`` and ``ruler.go`` of Pyroscope's package ``adaptiveplacement``;
``docs/models/ring-placement.md``, from "EWMA rate" to "Ruler".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from engine.core.units import duration_ns

STRATEGIES = ("dynamic", "fingerprint", "round-robin")  # values of the override ``adaptive_placement_load_balancing``
BY_FINGERPRINT, ROUND_ROBIN = 1, 2
"""Load-balancing numbers of stored rules (``LoadBalancing`` of ``adaptive_placementpb``); 0 is none."""

_MAX = 2**63 - 1  # largest int64, as Go reads numbers


class Limits(msgspec.Struct, frozen=True):
    """Effective limits of a tenant: ``tenant_shards`` 0 = no limit, ``unit_size`` bytes/s per shard, windows in ns.

    The defaults are Pyroscope's own. See ``docs/models/ring-placement.md``, "Limits and rules".
    """

    tenant_shards: int = 0
    default_dataset_shards: int = 1
    load_balancing: str = "dynamic"
    min_dataset_shards: int = 1
    max_dataset_shards: int = 1024
    unit_size: int = 131072
    burst_ns: int = 17 * 60 * 10**9
    decay_ns: int = 19 * 60 * 10**9
    ingestion_shards: int = 0

    @property
    def tenant_limit(self) -> int:
        """T: the larger of the tenant's shards and its ingestion shard size, if that is set."""
        return max(self.tenant_shards, self.ingestion_shards) if self.ingestion_shards > 0 else self.tenant_shards


DEFAULTS = Limits()

KEYS = {
    "adaptive_placement_tenant_shards": "tenant_shards",
    "adaptive_placement_default_dataset_shards": "default_dataset_shards",
    "adaptive_placement_load_balancing": "load_balancing",
    "adaptive_placement_min_dataset_shards": "min_dataset_shards",
    "adaptive_placement_max_dataset_shards": "max_dataset_shards",
    "adaptive_placement_unit_size_bytes": "unit_size",
    "adaptive_placement_burst_window": "burst_ns",
    "adaptive_placement_decay_window": "decay_ns",
    "ingestion_tenant_shard_size": "ingestion_shards",
}
"""Override keys that concern placement, and the field of ``Limits`` each sets."""


def parse_value(field: str, value: Any) -> Any:
    """Convert the YAML ``value`` of the ``Limits`` field ``field``. Raises ValueError with a clause that says why."""
    if field in {"burst_ns", "decay_ns"}:
        return duration_ns(value)
    if field == "load_balancing":
        if value not in STRATEGIES:
            raise ValueError(f"{value!r} is not one of {', '.join(STRATEGIES)}")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    if not 0 <= value <= _MAX:
        raise ValueError(f"{value!r} is out of range")
    return value


class Policy(msgspec.Struct, frozen=True):
    """Limits that the distributor uses for a dataset, whether each request picks a shard at random, and their source (``rule``,
    ``override`` or ``default``)."""

    tenant_limit: int
    dataset_limit: int
    round_robin: bool
    source: str

    def with_limits(self, tenant_limit: int | None, dataset_limit: int | None) -> Policy:
        """Return the policy with other limits (None: unchanged), marked ``what-if`` if one is given."""
        if tenant_limit is None and dataset_limit is None:
            return self
        tenant = self.tenant_limit if tenant_limit is None else tenant_limit
        return Policy(
            tenant, self.dataset_limit if dataset_limit is None else dataset_limit, self.round_robin, "what-if"
        )


class Rule(msgspec.Struct, frozen=True):
    """A stored placement rule of one dataset."""

    tenant: str
    name: str
    tenant_limit: int
    dataset_limit: int
    load_balancing: int


def policy_of(
    tenant: str, name: str, rules: Mapping[tuple[str, str], Rule], overrides: Mapping[str, Limits], default: Limits
) -> Policy:
    """Look up the policy of (tenant, dataset): its rule if there is one, else the tenant's limits, else ``default``.

    Without a rule the tenant's own strategy counts as well: only ``round-robin`` picks a shard at random.
    """
    rule = rules.get((tenant, name))
    if rule is not None:
        return Policy(rule.tenant_limit, rule.dataset_limit, rule.load_balancing == ROUND_ROBIN, "rule")
    own = overrides.get(tenant)
    limits = default if own is None else own
    at_random = limits.load_balancing == "round-robin"
    return Policy(
        limits.tenant_limit, limits.default_dataset_shards, at_random, "default" if own is None else "override"
    )


MAX_MULTIPLIER = 16  # largest factor by which growth within one burst window is amplified
RULES_RETENTION_NS = 15 * 60 * 10**9
"""How long the rule of a dataset without stats is kept: Pyroscope's default, which no input file can change."""

Shard = tuple[int, str]  # a shard ID and its owner. A moved shard is two of these.


class DatasetStats(msgspec.Struct, frozen=True):
    """One dataset: bytes per second per shard entry, in the order of shard ID and owner; ``std_dev`` as stored."""

    tenant: str
    name: str
    shards: tuple[Shard, ...]
    usage: tuple[int, ...]
    std_dev: int


class DistributionStats(msgspec.Struct, frozen=True):
    """All datasets at ``created_at`` (ns), sorted by tenant and name as Pyroscope builds them."""

    datasets: tuple[DatasetStats, ...]
    created_at: int


_UINT64 = 2**64 - 1  # sums of usages wrap around as unsigned 64-bit numbers


def integer_mean(usage: Sequence[int]) -> int:
    """Compute the mean by integer division of the sum modulo 2^64; 0 for nothing."""
    return (sum(usage) & _UINT64) // len(usage) if usage else 0


def integer_std_dev(usage: Sequence[int]) -> int:
    """Compute the population standard deviation in Pyroscope's integers: squares modulo 2^64, truncated square root."""
    if not usage:
        return 0
    mean = integer_mean(usage)
    return int(math.sqrt(float((sum((value - mean) ** 2 for value in usage) & _UINT64) // len(usage))))


class Allocator(msgspec.Struct):
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

    An integer mean of 0 counts as skewed: the division gives an infinity, or NaN, and neither is below a half.
    ``usage``, ``std_dev`` and ``unit_size`` in bytes per second; ``target``: the number of shards allocated.
    """
    if len(usage) < 2 or target <= 0 or not 0.5 <= len(usage) / target <= 2:
        return BY_FINGERPRINT
    mean = integer_mean(usage)
    return BY_FINGERPRINT if max(usage) < 2 * unit_size or (mean > 0 and std_dev / mean < 0.5) else ROUND_ROBIN


class Rules(msgspec.Struct, frozen=True):
    """Placement rules as stored; ``tenants`` in the order of the stored index list."""

    tenants: tuple[str, ...]
    datasets: tuple[Rule, ...]
    created_at: int


class _Placed(msgspec.Struct):
    allocator: Allocator
    rule: Rule
    seen_ns: int


class Ruler(msgspec.Struct):
    """Builds rules, with state between builds. ``limits`` returns the limits of a tenant."""

    limits: Callable[[str], Limits]
    _datasets: dict[tuple[str, str], _Placed] = msgspec.field(default_factory=dict)

    def load(self, rules: Rules) -> None:
        """Load stored rules after a change of leader: their limits are lower bounds for one decay window."""
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
