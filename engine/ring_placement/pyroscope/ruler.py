"""The ruler: turns distribution stats into placement rules; the rules of absent datasets stay for a while.

Source: ``ruler.go`` of Pyroscope's ``adaptiveplacement`` package; ``docs/models/ring-placement.md``, "Ruler".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.ring_placement.pyroscope.allocator import Allocator
from engine.ring_placement.pyroscope.balancing import decide
from engine.ring_placement.pyroscope.distribution import DistributionStats
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, ROUND_ROBIN, Limits, Rule


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
        """Build the rules for ``stats``: one per dataset in it, and the last ones of datasets that are absent."""
        now = stats.created_at
        fresh: dict[tuple[str, str], Rule] = {}
        for dataset in stats.datasets:
            key = (dataset.tenant, dataset.name)
            limits = self.limits(dataset.tenant)
            placed = self._datasets.get(key)
            if placed is None:
                placed = _Placed(Allocator(), Rule(*key, 0, 0, 0), now)
                self._datasets[key] = placed
            target = placed.allocator.observe(sum(dataset.usage), now, limits)
            strategy = self._strategy(limits, placed.rule.load_balancing, dataset.usage, dataset.std_dev, target)
            placed.rule = Rule(*key, limits.tenant_limit, target, strategy)
            placed.seen_ns = now
            fresh[key] = placed.rule
        absent = sorted((k for k in self._datasets if k not in fresh), key=lambda k: (k[0].encode(), k[1].encode()))
        rules = [*fresh.values(), *(self._datasets[k].rule for k in absent)]
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
