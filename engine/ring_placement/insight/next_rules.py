"""The rules that Pyroscope's ruler writes next, by the stored deviation and by the true one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import (
    RULES_RETENTION_NS,
    DatasetStats,
    DistributionStats,
    Ruler,
    Rules,
    integer_mean,
    integer_std_dev,
)
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, DEFAULTS, ROUND_ROBIN, Rule
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.scenario_state import SegmentState

STRATEGY_NAMES = {BY_FINGERPRINT: "fingerprint", ROUND_ROBIN: "round-robin"}
NO_RULES = "no rules"
"""Strategy if the ruler fails: a unit of 0 bytes per shard is a division by zero in Pyroscope."""
EXPIRED = "expired"
"""Strategy of a dataset without stats whose rule is too old to be written again."""


def strategy_table(state: SegmentState) -> pl.DataFrame:
    """Build table ``strategy``: the rule in force of each dataset, and the one that Pyroscope's ruler writes next from the
    stored stats, by the stored deviation and by the true one.

    The ruler is one that has loaded the stored rules, as after a change of leader. See ``docs/models/ring-placement.md``,
    "Distribution stats" to "Ruler".
    """
    cluster = state.cluster
    stored = _stored_stats(cluster.stats)
    true = replace(
        stored, datasets=tuple(replace(each, std_dev=integer_std_dev(each.usage)) for each in stored.datasets)
    )
    usage = {(each.tenant, each.name): each for each in stored.datasets}
    now, corrected = (_next_rules(cluster, stats) for stats in (stored, true))
    rows = []
    for key in {**usage, **cluster.rules}:
        known, rule = usage.get(key), cluster.rules.get(key)
        following = now.get(key)
        rows.append((
            *key, len(known.usage) if known else 0, integer_mean(known.usage) if known else None,
            known.std_dev if known else None, integer_std_dev(known.usage) if known else None,
            rule.dataset_limit if rule else None, following.dataset_limit if following else None,
            *(_strategy_name(by, key) for by in (now, corrected)),
        ))  # fmt: skip
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(columns_of(tables.STRATEGY, rows)))


def _strategy_name(rules: dict[tuple[str, str], Rule], key: tuple[str, str]) -> str:
    """Name the strategy of dataset ``key`` in the next ``rules``, or why it has none."""
    if key not in rules:
        return EXPIRED if rules else NO_RULES
    return STRATEGY_NAMES.get(rules[key].load_balancing, "fingerprint")


def _stored_stats(rows: pl.DataFrame) -> DistributionStats:
    key = ["tenant", "dataset"]
    datasets = rows.group_by(key, maintain_order=True).agg("shard", "instance", "usage", pl.col("std_dev").first())
    return DistributionStats(
        tuple(
            DatasetStats(tenant, name, tuple(zip(shards, owners, strict=True)), tuple(usage), std_dev)
            for tenant, name, shards, owners, usage, std_dev in datasets.iter_rows()
        ),
        rows["created_at"][0],
    )


def _next_rules(cluster: Cluster, stats: DistributionStats) -> dict[tuple[str, str], Rule]:
    """Return the rules that a ruler writes for ``stats`` after loading the stored ones; none if it fails."""
    ruler = Ruler(lambda tenant: cluster.limits.get(tenant, DEFAULTS))
    loaded_at = cluster.rule_rows["created_at"].max() if cluster.rule_rows.height else None
    created = loaded_at if isinstance(loaded_at, int) else stats.created_at
    ruler.load(Rules((), tuple(cluster.rules.values()), created))
    stats = replace(stats, created_at=max(stats.created_at, created + 1))  # the next tick: it is after the rules
    ruler.expire(stats.created_at - RULES_RETENTION_NS)
    try:
        return {(rule.tenant, rule.name): rule for rule in ruler.build(stats).datasets}
    except ZeroDivisionError:
        return {}
