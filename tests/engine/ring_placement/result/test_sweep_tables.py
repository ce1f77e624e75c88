"""Tables of sweeps and of other algorithms."""

from __future__ import annotations

import pytest

from engine.ring_placement.scenarios.segment_sweeps import random_sets
from engine.ring_placement.scenarios.strategy import TOTALS
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


@pytest.mark.parametrize("regime", ["transient", "left", "returned"])
@pytest.mark.parametrize("kind", ["nodes", "pairs"])
def test_a_sweep_row_equals_its_failure_in_the_same_regime(regime: str, kind: str) -> None:
    cluster, loads = even(5)
    result = computed(cluster, loads, ("sweep", kind), ("regime", regime), ("capacity", "9000000"))
    for row in result.tables["sweep"].sample(4, seed=1).to_dicts():
        failure = ("fail", ",".join(row["down"]))
        alone = computed(cluster, loads, failure, ("regime", regime), ("capacity", "9000000")).summary
        for name in (*TOTALS, "nodes_over_capacity"):
            assert row[name] == alone[name], name
        for name in ("max_over_mean", "coefficient_of_variation"):
            assert row[name] == pytest.approx(alone[name]), name


def test_a_sweep_of_another_regime_says_so() -> None:
    cluster, loads = even(5)
    leaving = computed(cluster, loads, ("sweep", "leaving"), ("regime", "left"))
    assert leaving.notes[0] == "sweep: nodes that are LEAVING, not those of the regime left"
    assert not any("sweep" in note for note in computed(cluster, loads, ("sweep", "leaving")).notes)
    replicas = [("strategy", "token-ring"), ("sweep", "nodes")]
    gone = computed(cluster, loads, *replicas, ("regime", "returned"))
    assert gone.notes[0].startswith("sweep: members that fail and stay registered")
    assert not any("sweep" in note for note in computed(cluster, loads, *replicas).notes)
