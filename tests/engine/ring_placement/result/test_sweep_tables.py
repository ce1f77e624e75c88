"""Tables of sweeps and of other algorithms."""

from __future__ import annotations

import polars as pl

from engine.ring_placement.scenarios.segment_sweeps import random_sets
from tests.engine.ring_placement.cases import computed, even


def test_sweep_tables() -> None:
    cluster, loads = even()
    nodes = computed(cluster, loads, ("sweep", "nodes")).tables["sweep"]
    assert nodes.height == 12 and nodes["rank"].to_list() == list(range(1, 13))
    assert nodes["worst_load"].to_list() == sorted(nodes["worst_load"].to_list(), reverse=True)
    first = nodes.row(0, named=True)
    alone = computed(cluster, loads, ("fail", ",".join(first["down"])))
    for name in ("rejected_bytes", "rerouted_bytes", "moved_bytes", "datasets_touched", "tenants_touched"):
        assert alone.summary[name] == first[name]
    assert alone.tables["nodes"]["load_after"].max() == first["worst_load"]
    zones = computed(cluster, loads, ("sweep", "zones"), ("regime", "left")).tables["sweep"]
    assert sorted(zones["zone"]) == ["zone-a", "zone-b", "zone-c"]
    assert all(len(d) == 4 for d in zones["down"])
    assert computed(cluster, loads, ("sweep", "pairs")).tables["sweep"].height == 66
    random = computed(cluster, loads, ("sweep", "random"), ("random-size", "4"), ("draws", "30"))
    again = computed(cluster, loads, ("sweep", "random"), ("random-size", "4"), ("draws", "30"))
    assert random.same_as(again)
    assert random.summary["sweep_scenarios"] == 30
    assert random.summary["sweep_worst_load_p50"] <= random.summary["sweep_worst_load_max"]
    assert {len(s) for s in random_sets(5, 9, 3, 1)} == {5}


def test_comparison_in_the_view() -> None:
    cluster, loads = even()
    result = computed(cluster, loads, ("fail", "segment-writer-0"), ("compare", "true"))
    rows = result.tables["comparison"]
    assert rows.height == 6
    pyroscope = rows.filter(pl.col("algorithm") == "Pyroscope (as configured)").row(0, named=True)
    b = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "left")).summary
    assert pyroscope["moved_bytes"] == b["moved_bytes"]
