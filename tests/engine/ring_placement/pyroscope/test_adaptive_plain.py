"""Stats and rules of random histories against the plain version, and the rules that only odd numbers reach."""

from __future__ import annotations

import random

import pytest

from engine.ring_placement.pyroscope.adaptive_placement import (
    BY_FINGERPRINT,
    ROUND_ROBIN,
    DatasetStats,
    DistributionStats,
    Limits,
    Rule,
    Ruler,
    Rules,
    decide,
)
from tests.engine.ring_placement.plain_adaptive import Plain, StatsTracker

SECOND = 10**9
MINUTE = 60 * SECOND
TENANTS = ("", "a", "b")


def _random_limits(rng: random.Random) -> Limits:
    return Limits(
        tenant_shards=rng.choice((0, 4, 8)),
        load_balancing=rng.choice(("dynamic", "dynamic", "fingerprint", "round-robin")),
        min_dataset_shards=rng.choice((0, 1, 3)),
        max_dataset_shards=rng.choice((0, 2, 16, 1024)),
        unit_size=rng.choice((1, 3, 1000, 131072)),
        burst_ns=rng.choice((0, 30 * SECOND, 17 * MINUTE)),
        decay_ns=rng.choice((0, 45 * SECOND, 19 * MINUTE)),
        ingestion_shards=rng.choice((0, 6)),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_histories(seed: int) -> None:
    rng = random.Random(seed)
    limits = {tenant: _random_limits(rng) for tenant in TENANTS}
    plain_limits = {
        tenant: {
            "tenant": max(x.tenant_shards, x.ingestion_shards), "balance": x.load_balancing, "unit": x.unit_size,
            "min": x.min_dataset_shards, "max": x.max_dataset_shards, "burst": x.burst_ns, "decay": x.decay_ns,
        }
        for tenant, x in limits.items()
    }  # fmt: skip
    window = rng.choice((0.5, 60.0, 180.0))
    tracker, ruler, plain = StatsTracker(window), Ruler(limits.__getitem__), Plain(window, plain_limits)
    now = rng.choice((0, 5, 1_795_000_000 * SECOND))
    for _ in range(rng.randrange(4, 30)):
        for _ in range(rng.randrange(6)):
            now += rng.choice((0, 1000, SECOND // 3, SECOND, 15 * SECOND))
            shard = rng.choice((0, 0, 1, 1, 2, 3, 9))
            owner = rng.choice(("", "w-1", "w-2"))
            size = rng.choice((0, 1, 2, 5, 700, 10**6, 2**40))
            sample = (rng.choice(TENANTS), rng.choice(("", "x", "y")), shard, owner, size)
            early = rng.choice((0, 0, 0, 7 * SECOND))
            tracker.record(*sample, max(0, now - early))
            plain.record(*sample, max(0, now - early))
        now += rng.choice((1, SECOND // 2, SECOND, 15 * SECOND, 15 * SECOND, 5 * MINUTE, 16 * MINUTE))
        before = now - 15 * MINUTE
        tracker.expire(before)
        ruler.expire(before)
        plain.expire(before, before)
        stats, expected = tracker.build(now), plain.stats(now)
        assert [(d.tenant, d.name, list(d.shards), list(d.usage), d.std_dev) for d in stats.datasets] == expected
        rules, expected_rules = ruler.build(stats), plain.rules(expected, now)
        found = [(r.tenant, r.name, r.tenant_limit, r.dataset_limit, r.load_balancing) for r in rules.datasets]
        assert found == expected_rules
        if rng.random() < 0.1:  # another leader: it has the rules only
            tracker, ruler = StatsTracker(window), Ruler(limits.__getitem__)
            ruler.load(rules)
            plain = Plain(window, plain_limits)
            plain.load(expected_rules, now)


def test_a_rule_as_new_as_the_stats_is_not_repeated() -> None:
    ruler = Ruler(lambda tenant: Limits())
    ruler.load(Rules(("t",), (Rule("t", "gone", 0, 7, 1),), 100))
    assert ruler.build(DistributionStats((), 100)).datasets == ()
    assert ruler.build(DistributionStats((), 101)).datasets == (Rule("t", "gone", 0, 7, 1),)


def test_an_integer_mean_of_0_counts_as_skewed() -> None:
    assert decide((2, 0, 0), 0, 1, 3) == ROUND_ROBIN
    assert decide((2, 0, 0), 1, 1, 3) == ROUND_ROBIN
    assert decide((1, 0, 0), 1, 1, 3) == BY_FINGERPRINT  # no shard carries two units
    assert decide((2, 0, 0), 1, 1, 7) == BY_FINGERPRINT  # not half as many as the target
    ruler = Ruler(lambda tenant: Limits(unit_size=1))
    stats = DatasetStats("t", "d", ((1, "w"), (2, "w"), (3, "w")), (2, 0, 0), 0)
    assert ruler.build(DistributionStats((stats,), 5)).datasets[0].load_balancing == ROUND_ROBIN


def test_sums_and_means_are_of_64_bits() -> None:
    usage = (2**63, 2**63, 4)
    ruler = Ruler(lambda tenant: Limits(unit_size=1))
    stats = DatasetStats("t", "d", ((1, "w"), (2, "w"), (3, "w")), usage, 2)
    rule = ruler.build(DistributionStats((stats,), 5)).datasets[0]
    assert (rule.dataset_limit, rule.load_balancing) == (5, ROUND_ROBIN)
