"""Adaptive placement against Pyroscope's numbers: allocator, strategy, ruler, stored bytes."""

from __future__ import annotations

from typing import Any

import pytest

from engine.ring_placement.pyroscope.adaptive_placement import (
    KEYS,
    Allocator,
    DatasetStats,
    DistributionStats,
    Limits,
    Rule,
    Ruler,
    Rules,
    decide,
    integer_mean,
    integer_std_dev,
    parse_value,
)
from engine.ring_placement.reading.bucket_files import placement_rules, placement_stats
from sample_data.ring_placement.encode import stored_order, write_rules, write_stats
from tests.engine.ring_placement.cases import load, raw
from tests.engine.ring_placement.plain_adaptive import StatsTracker

SECOND = 10**9


def test_allocator() -> None:
    for case in load("allocator.json"):
        limits = Limits(
            unit_size=case["unit_size_bytes"],
            min_dataset_shards=case["min_dataset_shards"],
            max_dataset_shards=case["max_dataset_shards"],
            burst_ns=round(case["burst_window_s"] * SECOND),
            decay_ns=round(case["decay_window_s"] * SECOND),
        )
        allocator = Allocator()
        for one in case["observations"]:
            target = allocator.observe(one["usage"], one["t_ns"], limits)
            found = (target, allocator.multiplier, allocator.current_min, allocator.previous_min)
            assert found == (one["target"], one["multiplier"], one["current_min"], one["previous_min"]), case["name"]


def test_load_balancing() -> None:
    words = {1: "fingerprint", 2: "round-robin"}
    for case in load("load_balancing.json"):
        usage = case["usage"]
        assert (integer_mean(usage), integer_std_dev(usage)) == (case["mean"], case["std_dev"])
        assert words[decide(usage, case["std_dev"], case["unit_size_bytes"], case["target"])] == case["strategy"]


def _limits(entries: dict[str, Any]) -> Limits:
    return Limits(**{KEYS[key]: parse_value(KEYS[key], value) for key, value in entries.items()})


@pytest.mark.parametrize("name", ["build_15s_skewed", "build_1s_skewed", "default_15s", "restart"])
def test_ruler(name: str) -> None:
    case = load("ruler.json.gz")[name]
    per_tenant = {t: _limits(v) for t, v in case["limits"].items()}
    default = _limits(case["limits_default"])

    def fresh() -> tuple[StatsTracker, Ruler]:
        return StatsTracker(case["stats_aggregation_window_s"]), Ruler(lambda tenant: per_tenant.get(tenant, default))

    tracker, ruler = fresh()
    start = case["t0_ns"]
    rules = Rules((), (), start)
    ruler.load(rules)
    every = round(case["build_every_s"] * 1000)
    builds = {b["t_ms"]: b for b in case["builds"]}
    samples: dict[int, list[Any]] = {}
    for sample in case["samples"]:
        samples.setdefault(sample[0], []).append(sample)
    end = max(max(samples), max(builds))
    stamps = sorted({*samples, *range(every, end + 1, every), case["restart_at_ms"]})
    compared = 0
    for stamp in stamps:
        now = start + stamp * 1_000_000
        for _, tenant, dataset, shard, owner, size in samples.get(stamp, ()):
            tracker.record(
                case["tenants"][tenant], case["dataset_names"][dataset], shard, case["owners"][owner], size, now
            )
        if stamp and stamp == case["restart_at_ms"]:
            tracker, ruler = fresh()
            ruler.load(rules)
        if stamp == 0 or stamp % every:
            continue
        ruler.expire(now - case["rules_retention_s"] * SECOND)
        tracker.expire(now - case["stats_retention_s"] * SECOND)
        stats = tracker.build(now)
        rules = ruler.build(stats)
        if stamp in builds:
            assert _stats_json(stats) == builds[stamp]["stats"]
            assert _rules_json(rules) == builds[stamp]["rules"]
            compared += 1
    assert compared == len(builds) > 0
    assert write_rules(rules).hex() == case["last_rules_binpb_hex"]
    stored = bytes.fromhex(case["final_stats_binpb_hex"])
    assert write_stats(placement_stats(stored)) == stored


def _stats_json(stats: DistributionStats) -> dict[str, Any]:
    tenants, shards = stored_order(stats)
    return {
        "tenants": tenants,
        "shards": [list(s) for s in shards],
        "created_at": stats.created_at,
        "datasets": [
            {
                "tenant": tenants.index(d.tenant),
                "name": d.name,
                "shards": [shards.index(s) for s in d.shards],
                "usage": list(d.usage),
                "std_dev": d.std_dev,
            }
            for d in stats.datasets
        ],
    }


def _rules_json(rules: Rules) -> dict[str, Any]:
    return {
        "tenants": list(rules.tenants),
        "created_at": rules.created_at,
        "datasets": [
            [rules.tenants.index(r.tenant), r.name, r.tenant_limit, r.dataset_limit, r.load_balancing]
            for r in rules.datasets
        ],
    }


def test_stored_files() -> None:
    words = ["LOAD_BALANCING_UNSPECIFIED", "LOAD_BALANCING_FINGERPRINT", "LOAD_BALANCING_ROUND_ROBIN"]
    data = raw("native/placement_rules.binpb")
    rules, expected = placement_rules(data), load("native/placement_rules.expected.json")
    assert write_rules(rules) == data
    assert _rules_json(rules)["datasets"] == [
        [d["tenant"], d["name"], d["tenant_shard_limit"], d["dataset_shard_limit"], words.index(d["load_balancing"])]
        for d in expected["datasets"]
    ]
    data = raw("native/placement_stats.binpb")
    stats, expected = placement_stats(data), load("native/placement_stats.expected.json")
    assert write_stats(stats) == data
    assert _stats_json(stats)["datasets"] == expected["datasets"]
    assert [{"id": i, "owner": o} for i, o in stored_order(stats)[1]] == expected["shards"]


def test_pyroscopes_unit_tests() -> None:
    case = load("upstream_unit_tests.json")
    one = case["shard_allocator"]
    limits = Limits(
        unit_size=one["unit_size"], min_dataset_shards=one["min"], max_dataset_shards=one["max"],
        burst_ns=one["burst_window_ns"], decay_ns=one["decay_window_ns"],
    )  # fmt: skip
    allocator = Allocator()
    for usage, now, target in one["observations_usage_now_target"]:
        assert allocator.observe(usage, now, limits) == target
    words = {"fingerprint": 1, "round-robin": 2, "LOAD_BALANCING_FINGERPRINT": 1, "LOAD_BALANCING_ROUND_ROBIN": 2}
    for usage, target, strategy in case["load_balancing"]["cases_usage_target_strategy"]:
        found = decide(usage, integer_std_dev(usage), case["load_balancing"]["unit_size"], target)
        assert found == words.get(strategy, strategy)


def test_ruler_of_pyroscopes_unit_test() -> None:
    case = load("upstream_unit_tests.json")["ruler"]
    others = case["limits"]["others"]

    def limits(tenant: str) -> Limits:
        own = case["limits"].get(tenant, {})
        return Limits(
            tenant_shards=own.get("tenant_shards", 0),
            default_dataset_shards=own.get("default_dataset_shards", 1),
            load_balancing=own.get("lb", "dynamic"),
            min_dataset_shards=own.get("min_dataset_shards", others["min_dataset_shards"]),
            max_dataset_shards=own.get("max_dataset_shards", others["max_dataset_shards"]),
            unit_size=case["unit_size"],
            burst_ns=others["burst_window_s"] * SECOND,
            decay_ns=others["decay_window_s"] * SECOND,
        )

    numbers = {"fingerprint": 1, "round-robin": 2, "unspecified": 0}
    ruler = Ruler(limits)
    old = tuple(
        Rule(t, d, tl, dl, numbers.get(lb, lb) if isinstance(lb, str) else lb) for t, d, tl, dl, lb in case["old_rules"]
    )
    ruler.load(Rules(tuple(dict.fromkeys(r.tenant for r in old)), old, case["old_rules_created_at"]))
    datasets = []
    for tenant, name, usage in case["stats"]:
        values = usage if isinstance(usage, list) else [usage]
        datasets.append(
            DatasetStats(
                tenant, name, tuple((i + 1, "o") for i in range(len(values))), tuple(values), integer_std_dev(values)
            )
        )
    rules = ruler.build(DistributionStats(tuple(datasets), case["stats_created_at"]))
    expected = [
        (t, d, tl, dl, numbers.get(lb, lb) if isinstance(lb, str) else lb)
        for t, d, tl, dl, lb in case["expected_rules"]
    ]
    assert [(r.tenant, r.name, r.tenant_limit, r.dataset_limit, r.load_balancing) for r in rules.datasets] == expected
    # Only one dataset in the next stats: the others keep their rules, then all expire.
    only = DistributionStats((datasets[0],), 2)
    again = ruler.build(only)
    assert {(r.tenant, r.name, r.dataset_limit) for r in again.datasets} == {
        (t, d, dl) for t, d, _, dl, _ in case["expected_rules"]
    }
    ruler.expire(3)
    assert ruler.build(DistributionStats((), 4)) == Rules((), (), 4)
