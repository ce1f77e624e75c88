"""Per-tenant placement limits (runtime overrides) and the policy lookup of the distributor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.problems import Problem

STRATEGIES = ("dynamic", "fingerprint", "round-robin")
UNSPECIFIED, BY_FINGERPRINT, ROUND_ROBIN = 0, 1, 2
"""Load-balancing numbers of stored rules."""

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
          "h": 3600 * 10**9, "d": 86400 * 10**9, "w": 7 * 86400 * 10**9, "y": 365 * 86400 * 10**9}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h|d|w|y)")
_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Effective limits of a tenant. ``tenant_shards`` 0 = no limit; ``unit_size`` bytes/s per shard; windows in ns."""

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

_FIELDS = {
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
KEYS = tuple(_FIELDS)
"""Override keys that concern placement."""


def parse_duration(value: Any) -> int:
    """A duration as Go or Prometheus write it (``17m``, ``1m30s``, ``2d``, a bare 0) in ns. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError("is not a duration")
    if isinstance(value, (int, float)):
        # The option is a nanosecond count where it is a bare number, as in Go's JSON form.
        if not 0 <= value < 2**63:
            raise ValueError("is out of range")
        return int(value)
    text = str(value).strip()
    if text == "0":
        return 0
    parts = list(_PART.finditer(text))
    if not parts or "".join(p.group(0) for p in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 17m or 1h30m")
    total = sum(round(float(p.group(1)) * _UNITS[p.group(2)]) for p in parts)
    if total > _MAX:
        raise ValueError("is out of range")
    return total


def parse_limits(
    entries: Mapping[Any, Any], base: Limits, path: str, lines: Mapping[Any, int], where: str
) -> tuple[Limits, list[Problem]]:
    """``entries`` of one tenant over ``base``. A key that is not understood, or a value out of range, is a problem and
    keeps the base value. ``lines``: 1-based line of each key; ``where`` names the tenant in the message."""
    found, problems = base, []
    for key, value in entries.items():
        field = _FIELDS.get(key) if isinstance(key, str) else None
        line = lines.get(key)
        if field is None:
            problems.append(
                Problem.at(path, "unknown-key", f"{where}: {key!r} is no placement limit and is not used", line=line)
            )
            continue
        try:
            taken: Any
            if field in {"burst_ns", "decay_ns"}:
                taken = parse_duration(value)
            elif field == "load_balancing":
                if value not in STRATEGIES:
                    raise ValueError(f"{value!r} is not one of {', '.join(STRATEGIES)}")
                taken = value
            else:
                if isinstance(value, bool) or not isinstance(value, int):
                    raise ValueError(f"{value!r} is not a whole number")
                if not 0 <= value <= _MAX:
                    raise ValueError(f"{value!r} is out of range")
                taken = value
        except ValueError as error:
            problems.append(Problem.at(path, "bad-limit", f"{where}: {key} {error}", line=line))
            continue
        found = replace(found, **{field: taken})
    return found, problems


@dataclass(frozen=True, slots=True)
class Policy:
    """What the distributor uses for one dataset: its limits, whether requests pick at random, and where it is from
    (``rule``, ``override`` or ``default``)."""

    tenant_limit: int
    dataset_limit: int
    spread: bool
    source: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A stored placement rule of one dataset."""

    tenant: str
    name: str
    tenant_limit: int
    dataset_limit: int
    load_balancing: int


def policy(
    tenant: str, name: str, rules: Mapping[tuple[str, str], Rule], overrides: Mapping[str, Limits], default: Limits
) -> Policy:
    """Policy of (tenant, dataset): its rule if there is one, else the tenant's limits, else the global ones."""
    rule = rules.get((tenant, name))
    if rule is not None:
        return Policy(rule.tenant_limit, rule.dataset_limit, rule.load_balancing == ROUND_ROBIN, "rule")
    own = overrides.get(tenant)
    limits = default if own is None else own
    return Policy(limits.tenant_limit, limits.default_dataset_shards, False, "default" if own is None else "override")
