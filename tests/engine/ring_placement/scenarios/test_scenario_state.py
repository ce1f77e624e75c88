"""What the parameters make of the live state, through the view."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.core.units import parse_size
from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters, parse_capacity
from engine.ring_placement.view import VIEW
from tests.engine.ring_placement.cases import (
    computed,
    even,
    inputs,
    load,
    members,
    page,
    table,
)


def test_scale_out_in_the_view() -> None:
    cluster, loads = even(10)
    ten = computed(cluster, loads, ("scale", "11"))
    assert ten.summary["total_shards"] == 44
    assert ten.tables["nodes"]["load_after"].sum() == ten.summary["load_total"]
    new = ten.tables["nodes"].filter(pl.col("instance") == "segment-writer-10").row(0, named=True)
    assert new["load_before"] == 0 < new["load_after"]
    neat = computed(cluster, loads, ("scale", "11"), ("scale-ids", "padded"))
    assert neat.summary["shards_with_changed_owner"] < ten.summary["shards_with_changed_owner"]
    smaller = computed(cluster, loads, ("scale", "8"))
    assert smaller.tables["nodes"]["load_after"].sum() == smaller.summary["load_total"]
    assert smaller.summary["total_shards"] == 32


def test_leaving_members_keep_shards_but_get_nothing() -> None:
    cluster, loads = even()
    rolling = computed(cluster, loads, ("leaving", "segment-writer-4"))
    assert rolling.summary["shards_with_changed_owner"] == 0
    nodes = rolling.tables["nodes"]
    row = nodes.filter(pl.col("instance") == "segment-writer-4").row(0, named=True)
    assert (row["state"], row["load_after"]) == ("LEAVING", 0)
    crash = computed(cluster, loads, ("fail", "segment-writer-4"))
    assert nodes["load_after"].to_list() == crash.tables["nodes"]["load_after"].to_list()
    assert rolling.summary["mean_tries"] == 1.0 < crash.summary["mean_tries"]
    assert rolling.summary["rerouted_bytes"] == crash.summary["rerouted_bytes"] == row["load_before"]


def test_limits_and_tokens() -> None:
    cluster, loads = even()
    limited = computed(cluster, loads, ("tenant-shards", "8"), ("dataset-shards", "2"))
    rows = limited.tables["placements"]
    assert set(rows["tenant_shards"]) == {8} and set(rows["dataset_shards"]) == {2}
    assert set(rows["limits_from"]) == {"what-if"}
    assert rows.height == 120
    tokens = computed(cluster, loads, ("tokens", "1"))
    assert tokens.summary["total_shards"] == 12
    nothing = computed(cluster, loads, ("tokens", "0"))
    assert nothing.summary["rejected_bytes"] == nothing.summary["load_total"] > 0
    assert nothing.tables["shards"].height == 0


def test_home_zone() -> None:
    cluster, loads = even()
    home = computed(cluster, loads, ("home-zone", "zone-b"))
    used = home.tables["nodes"].filter(pl.col("load_after") > 0)
    assert set(used["zone"]) == {"zone-b"}
    assert home.summary["total_shards"] == 16
    nowhere = computed(cluster, loads, ("home-zone", "zone-x"))
    assert any("zone-x" in p.reason for p in nowhere.problems)


def test_headroom_units_are_not_mixed() -> None:
    cluster, _ = even(3)
    given_inputs = inputs({"ring.json": page(cluster), "loads.csv": table([("t", "d", 5)])})
    one = VIEW.compute(given_inputs, RingParameters(cores=2), Context(now_ms=0))
    assert set(one.tables["nodes"]["capacity"]) == {16_000_000}
    assert one.tables["nodes"]["headroom"].null_count() == 0
    metrics = b'pyroscope_segment_writer_client_sent_bytes_sum{addr="x",shard="1",tenant="t"} 5\n'
    other = inputs({"ring.json": page(cluster), "m.prom": metrics})
    two = VIEW.compute(other, RingParameters(cores=2), Context(now_ms=0))
    assert two.tables["nodes"]["headroom"].null_count() == 3
    assert any("uncompressed" in n for n in two.notes)


def test_per_node_capacity() -> None:
    cluster, loads = even(3)
    result = computed(cluster, loads, ("capacity", "50MB,segment-writer-1=1MB"))
    assert dict(zip(result.tables["nodes"]["instance"], result.tables["nodes"]["capacity"], strict=True)) == {
        "segment-writer-0": 50_000_000, "segment-writer-1": 1_000_000, "segment-writer-2": 50_000_000,
    }  # fmt: skip
    assert result.summary["nodes_over_capacity"] == 1
    assert parse_capacity(("a=1k",)) == (None, {"a": 1000})
    assert [parse_size(t) for t in ("8MB", "8MiB/s", "8e6", "1.5k")] == [8_000_000, 8 << 20, 8_000_000, 1500]


def test_every_member_is_listed_in_a_home_zone() -> None:
    cluster, loads = even()
    nodes = computed(cluster, loads, ("home-zone", "zone-b")).tables["nodes"]
    assert nodes.height == 12
    assert not nodes["down"].any()


def test_memory_changes_nothing() -> None:
    cluster, loads = even()
    given_inputs = inputs({"ring.json": page(cluster), "loads.csv": loads})
    shared = Context(now_ms=0)
    one, two = ("segment-writer-1",), ("segment-writer-2",)
    steps: list[dict[str, Any]] = [
        {},
        {"fail": one},
        {"fail": ("segment-writer-1", "zone:zone-b")},
        {"regime": "left", "fail": one},
        {"tenant_shards": 8, "fail": one},
        {"scale": 14},
        {"leaving": two},
        {"regime": "returned", "fail": two},
        {"scale": 9, "fail": two, "regime": "left"},
        {"sweep": "nodes"},
        {"sweep": "pairs", "regime": "left"},
        {},
    ]
    for step in steps:
        p = RingParameters(**step)
        assert VIEW.compute(given_inputs, p, shared).same_as(VIEW.compute(given_inputs, p, Context(now_ms=5)))


def test_the_reference_loads_through_the_view() -> None:
    """The report itself gives the reference totals, with limits that come from stored rules."""
    from engine.ring_placement.pyroscope.adaptive_placement import Rule, Rules
    from sample_data.ring_placement.encode import write_rules

    for case in load("failure_loads.json").values():
        rules = tuple(
            Rule(d["tenant"], d["dataset"], d["tenant_shards"], d["dataset_shards"], 1) for d in case["datasets"]
        )
        stored = write_rules(Rules(tuple(dict.fromkeys(r.tenant for r in rules)), rules, 1))
        loads = table([(d["tenant"], d["dataset"], d["bytes_per_s"]) for d in case["datasets"]])
        given_inputs = inputs({"ring.json": page(members(case)), "l.csv": loads, "placement_rules.binpb": stored})
        context = Context(now_ms=0)
        for one in case["scenarios"]:
            p = RingParameters(fail=tuple(one["down"]), regime=one["mode"])
            result = VIEW.compute(given_inputs, p, context)
            nodes = result.tables["nodes"]
            after = dict(zip(nodes["instance"], nodes["load_after"], strict=True))
            assert {n: after[n] for n in one["loads"]} == one["loads"]
            assert {n: v for n, v in after.items() if v} == {n: v for n, v in one["loads"].items() if v}
            before = dict(zip(nodes["instance"], nodes["load_before"], strict=True))
            assert before == {**dict.fromkeys(before, 0), **case["before"]}
            for name, value in one.items():
                if name in result.summary and name != "down":
                    assert result.summary[name] == value, name
