"""Per-tenant placement limits (runtime overrides) and the policy lookup of the distributor.

Source: ``validation.Limits`` and the packages ``distributor/placement`` and ``adaptiveplacement`` of Pyroscope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.units import duration_ns

STRATEGIES = ("dynamic", "fingerprint", "round-robin")
"""Values of the override ``adaptive_placement_load_balancing``."""
BY_FINGERPRINT, ROUND_ROBIN = 1, 2
"""Load-balancing numbers of stored rules (``LoadBalancing`` of ``adaptive_placementpb``); 0 is none."""

_MAX = 2**63 - 1
"""Largest int64, as Go reads numbers."""


@dataclass(frozen=True, slots=True)
class Limits:
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


@dataclass(frozen=True, slots=True)
class Policy:
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
        dataset = self.dataset_limit if dataset_limit is None else dataset_limit
        return Policy(tenant, dataset, self.round_robin, "what-if")


@dataclass(frozen=True, slots=True)
class Rule:
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
