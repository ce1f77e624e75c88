"""What operators see of the rules of adaptive placement, and Pyroscope's own answers to odd cases."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats, Rule, Rules
from engine.ring_placement.pyroscope.ring import Member
from sample_data.ring_placement.encode import write_rules, write_stats
from tests.engine.ring_placement.cases import THREE, load, page, result_of, table

SECOND = 10**9


def test_the_tenants_own_strategy_counts_where_there_is_no_rule() -> None:
    case = load("odd/round_robin_by_limits.json.gz")["round_robin_by_limits"]
    members = [Member(name, state, zone, tokens, address) for name, address, state, tokens, _, zone in case["members"]]
    moment = dt.datetime.fromtimestamp(case["now"], dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tenants = "".join(
        f"  {tenant}:\n" + "".join(f"    {key}: {value}\n" for key, value in entries)
        for tenant, entries in case["overrides"].items()
    )
    rules = tuple(Rule(*rule) for rule in case["rules"])
    rows = [(tenant, dataset, rate, fingerprint) for tenant, dataset, fingerprint, rate in case["keys"]]
    files = {
        "ring.json": page(members, moment, moment),
        "overrides.yaml": f"overrides:\n{tenants}".encode(),
        "placement_rules.binpb": write_rules(Rules(tuple({r.tenant for r in rules}), rules, case["now"] * SECOND)),
        "loads.csv": table(rows, "tenant,dataset,bytes_per_s,fingerprint"),
    }
    result = result_of(files)
    placements = result.tables["placements"]
    for (tenant, dataset, _, rate), hit in zip(case["keys"], case["shards_hit"], strict=True):
        own = placements.filter((pl.col("tenant") == tenant) & (pl.col("dataset") == dataset))
        assert set(own["shard"]) == {int(shard) for shard in hit}, (tenant, dataset)
        assert own["bytes_per_s"].to_list() == [rate // len(hit)] * len(hit)
    assert not result.problems


def _strategy(overrides: str, rules: Rules) -> list[tuple[object, ...]]:
    datasets = (
        DatasetStats("t", "even", ((1, "w-0"), (2, "w-1")), (400_000, 400_000), 0),
        DatasetStats("t", "skewed", ((1, "w-0"), (2, "w-1")), (800_000, 0), 400_000 // 15),
    )
    files = {
        "ring.json": page(THREE),
        "overrides.yaml": overrides.encode(),
        "placement_stats.binpb": write_stats(DistributionStats(datasets, 1_795_217_515 * SECOND)),
        "placement_rules.binpb": write_rules(rules),
    }
    columns = ("dataset", "shards", "limit", "target", "upstream_chooses", "corrected_chooses")
    return result_of(files).tables["strategy"].select(columns).rows()


RULES = Rules(
    ("t",), (Rule("t", "absent", 0, 5, 2), Rule("t", "even", 0, 2, 1), Rule("t", "skewed", 0, 9, 1)), 1_795_217_500 * SECOND
)  # fmt: skip


def test_next_rules_beside_those_in_force() -> None:
    overrides = "overrides:\n  t:\n    adaptive_placement_unit_size_bytes: 200000\n"
    assert _strategy(overrides, RULES) == [
        ("absent", 0, 5, 5, "round-robin", "round-robin"),
        ("even", 2, 2, 5, "fingerprint", "fingerprint"),
        ("skewed", 2, 9, 9, "fingerprint", "fingerprint"),  # two shards are too few for nine
    ]
    overrides += "    adaptive_placement_max_dataset_shards: 3\n"
    assert _strategy(overrides, RULES)[1:] == [
        ("even", 2, 2, 3, "fingerprint", "fingerprint"),
        ("skewed", 2, 9, 3, "fingerprint", "round-robin"),
    ]


def test_rules_older_than_the_retention_have_expired() -> None:
    at = 1_795_217_515 - 15 * 60
    switched = (Rule("t", "absent", 0, 5, 2), Rule("t", "even", 0, 40, 2))
    old, just_in_time = (Rules(("t",), switched, created * SECOND) for created in (at - 1, at))
    assert _strategy("overrides: {}\n", just_in_time)[:2] == [
        ("absent", 0, 5, 5, "round-robin", "round-robin"),
        ("even", 2, 40, 40, "round-robin", "round-robin"),
    ]
    # Neither the limit nor the switch to round-robin outlives the rule.
    assert _strategy("overrides: {}\n", old)[:2] == [
        ("absent", 0, 5, None, "expired", "expired"),
        ("even", 2, 40, 7, "fingerprint", "fingerprint"),
    ]


def test_without_stored_rules_the_first_ones_are_shown() -> None:
    assert _strategy("overrides: {}\n", Rules((), (), 0)) == [
        ("even", 2, None, 7, "fingerprint", "fingerprint"),
        ("skewed", 2, None, 7, "fingerprint", "fingerprint"),
    ]


def test_a_unit_of_0_stops_the_ruler() -> None:
    overrides = "overrides:\n  t:\n    adaptive_placement_unit_size_bytes: 0\n"
    assert {row[3:] for row in _strategy(overrides, RULES)} == {(None, "no rules", "no rules")}


@pytest.mark.parametrize("stale", [1, 2])
def test_the_newest_rules_count(stale: int) -> None:
    rules = [Rules(("t",), (Rule("t", "d", 0, limit, 1),), limit * SECOND) for limit in (3, 4)]
    order = rules if stale == 1 else rules[::-1]
    files = {f"{i}/placement_rules.binpb": write_rules(each) for i, each in enumerate(order)}
    result = result_of({"ring.json": page(THREE), "loads.csv": table([("t", "d", 40)]), **files})
    assert result.tables["placements"]["dataset_shards"].to_list() == [4] * 4


def test_newer_files_that_list_nothing_replace_older_ones() -> None:
    stats = (DatasetStats("t", "d", ((1, "w-0"),), (7,), 0),)
    files = {
        "ring.json": page(THREE),
        "loads.csv": table([("t", "d", 40)]),
        "1/placement_rules.binpb": write_rules(Rules(("t",), (Rule("t", "d", 0, 4, 1),), 3 * SECOND)),
        "1/placement_stats.binpb": write_stats(DistributionStats(stats, 3 * SECOND)),
        "2/placement_rules.binpb": write_rules(Rules((), (), 4 * SECOND)),
        "2/placement_stats.binpb": write_stats(DistributionStats((), 4 * SECOND)),
    }
    result = result_of(files)
    assert result.tables["placements"].select("dataset_shards", "bytes_per_s").rows() == [(1, 40.0)]
    assert "strategy" not in result.tables and not result.problems
    del files["2/placement_rules.binpb"], files["2/placement_stats.binpb"]
    assert result_of(files).tables["placements"].select("dataset_shards", "bytes_per_s").rows() == [
        (4, 2),
        (4, 2),
        (4, 2),
        (4, 1),
    ]


@pytest.mark.parametrize("strategy", ["token-ring", "partition-ring", "segment-writer"])
def test_a_ring_that_all_members_have_left_is_shown_with_its_load(strategy: str) -> None:
    load = table([("t", 5, 40)], "tenant,token,bytes_per_s")
    files = {"ring.json": page([Member("w-0", "LEFT", tokens=2)]), "keys.csv": load}
    result = result_of(files, strategy=strategy)
    assert result.tables["nodes"]["state"].to_list() == ["LEFT"] and result.headline
