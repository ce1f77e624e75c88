"""What the tables, headlines and findings say of one ring agrees, whatever fails."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

import pytest

from engine.core.view import Context, Inputs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.view import VIEW
from sample_data.ring_placement import mimir
from sample_data.ring_placement.make import START_S
from tests.engine.ring_placement.cases import computed, even, inputs


@cache
def ingesters() -> Inputs:
    members = mimir.ingesters()
    return inputs({
        "mimir/ring.json": mimir.page(members, START_S),
        "mimir/overrides.yaml": mimir.OVERRIDES.encode(),
        "mimir/load.csv": b"tenant,bytes_per_s\nplatform,900\ncheckout,420\nbatch,60\n",
    })  # fmt: skip


@cache
def replicated(**more: Any) -> Any:
    return VIEW.compute(ingesters(), RingParameters(**more), Context(now_ms=0))


@cache
def segments(*pairs: tuple[str, str]) -> Any:
    return computed(*even(), *pairs)


def headline(result: Any, label: str) -> Any:
    return next(h for h in result.headline if h.label == label)


def fates(result: Any) -> dict[str, str]:
    return {i: f for i, f in result.tables["nodes"].select("instance", "fate").iter_rows() if f}


def test_nodes_that_take_data_are_counted_in_the_scenario() -> None:
    names = sorted(segments().tables["nodes"]["instance"])
    count = len(names)
    for asked, text, level in (
        ((), f"{count} of {count} take data", "ok"),
        ((("scale", str(count + 1)),), f"{count + 1} of {count + 1} take data", "ok"),
        ((("scale", str(count - 1)),), f"{count - 1} of {count - 1} take data", "ok"),
        ((("fail", names[0]),), f"{count - 1} of {count} take data", "moderate"),
        ((("fail", ",".join(names)),), f"0 of {count} take data", "critical"),
    ):
        found = headline(segments(*asked), "nodes")
        assert (found.value, found.level) == (text, level)
    found = headline(replicated(fail=("zone:zone-a",)), "nodes")
    assert (found.value, found.level) == ("12 of 18 take data", "moderate")
    assert headline(replicated(scale=21), "nodes").value == "21 of 21 take data"


def test_a_dead_node_leaves_no_tolerance() -> None:
    found = headline(replicated(), "single failure")
    assert (found.value, found.level) == ("each survivable", "ok")
    members = mimir.ingesters()
    dead = [dataclasses.replace(members[0], beat_s=START_S - 900), *members[1:]]
    page = {"mimir/ring.json": mimir.page(dead, START_S), "mimir/overrides.yaml": mimir.OVERRIDES.encode()}
    result = VIEW.compute(inputs(page), RingParameters(), Context(now_ms=0))
    fatal = [finding.subject for finding in result.findings if finding.level == "severe"]
    assert headline(result, "single failure").value == "12 of 18 not survivable" and fatal == ["12 of 18 nodes"]


@pytest.mark.parametrize(
    ("regime", "fate"), [("transient", "down"), ("unhealthy", "down"), ("left", "gone"), ("returned", "back")]
)
def test_a_failed_node_says_so(regime: str, fate: str) -> None:
    name = "ingester-zone-b-2"
    assert fates(replicated(fail=(name,), regime=regime)) == {name: fate}
    name = segments().tables["nodes"]["instance"][0]
    expected = "gone" if regime == "unhealthy" else fate  # a segment writer without heartbeat is out at once
    assert fates(segments(("fail", name), ("regime", regime))) == {name: expected}


def test_nodes_keep_their_places_while_they_fail() -> None:
    calm = replicated().tables["nodes"]["instance"].to_list()
    loads = replicated().tables["nodes"]["load_before"].to_list()
    assert loads == sorted(loads, reverse=True) and loads[0] > loads[-1]
    assert replicated(fail=(calm[3], calm[0])).tables["nodes"]["instance"].to_list() == calm


def test_an_existing_overload_is_not_blamed_on_the_scenario() -> None:
    nodes = segments().tables["nodes"]
    worst, load = nodes.row(0, named=True)["instance"], nodes["load_before"][0]
    roomy = str(nodes["load_before"].sum())
    findings = segments(("capacity", f"{roomy},{worst}={load - 1}")).findings
    assert [(f.level, f.subject) for f in findings] == [("severe", worst)], "no other node is blamed for it"
    assert "before anything fails" in findings[0].text
    assert not segments(("capacity", f"{roomy},{worst}={load}")).findings or all(
        "more node" in f.text for f in segments(("capacity", f"{roomy},{worst}={load}")).findings
    ), "at its capacity it is not over it, yet others' failures may overload it"
    there = replicated()
    worst, load = there.tables["nodes"]["instance"][0], there.tables["nodes"]["load_before"][0]
    severe = [f for f in replicated(capacity=("1000000", f"{worst}={load - 1}")).findings if "capacity" in f.text]
    assert [(f.level, f.subject) for f in severe] == [("severe", worst)]


def test_tenants_of_segment_writers_say_who_stores_them_and_what_is_lost() -> None:
    calm = segments().tables
    keys = calm["placements"]
    for row in calm["tenants"].iter_rows(named=True):
        own = keys.filter(keys["tenant"] == row["tenant"])
        assert row["load"] == pytest.approx(own["bytes_per_s"].sum(), rel=0.01)
        assert set(row["instances"]) == set(own["stored_by"].drop_nulls()) and row["write_lost_share"] == 0
        assert row["instances_down"] == 0
    name = calm["tenants"]["instances"][0][0]
    failed = segments(("fail", name)).tables["tenants"]
    had = {r["tenant"]: name in r["instances"] for r in calm["tenants"].iter_rows(named=True)}
    assert {r["tenant"]: r["instances_down"] for r in failed.iter_rows(named=True)} == {
        t: int(h) for t, h in had.items()
    }
    assert failed.sort("tenant")["instances"].to_list() == calm["tenants"].sort("tenant")["instances"].to_list()
    gone = segments(("fail", name), ("regime", "left")).tables["tenants"]
    assert all(name not in r for r in gone["instances"]), "laid out again without it"
    everyone = ",".join(calm["nodes"]["instance"])
    for regime in ("transient", "left"):
        lost = segments(("fail", everyone), ("regime", regime)).tables["tenants"]
        assert lost["write_lost_share"].to_list() == [1.0] * len(had)
        assert lost["write_lost_load"].to_list() == lost["load"].to_list()


def test_largest_tenants_and_instances_down_agree_with_the_shards() -> None:
    result = replicated(fail=("zone:zone-a",))
    tenants = result.tables["tenants"]
    for row in tenants.iter_rows(named=True):
        assert row["instances_down"] == sum("zone-a" in name for name in row["instances"])
    by_load = tenants.sort("load", "tenant", descending=[True, False], nulls_last=True)
    for row in result.tables["nodes"].iter_rows(named=True):
        on_it = [t for t, held in by_load.select("tenant", "instances").iter_rows() if row["instance"] in held]
        assert row["tenants"] == len(on_it) and row["largest_tenants"] == on_it[:8]


def test_empty_rings_say_so() -> None:
    def page(*members: dict[str, Any], factor: int = 3) -> Any:
        data = json.dumps({"shards": list(members), "now": "2026-01-01T00:00:00Z"}).encode()
        parameters = RingParameters(replication_factor=factor)
        return VIEW.compute(inputs({"mimir/ring.json": data}), parameters, Context(now_ms=0))

    member = {"state": "ACTIVE", "address": "a", "timestamp": "2025-12-31T23:59:59Z", "zone": "", "tokens": []}
    tombstone = {**member, "id": "x", "state": "LEFT", "tokens": [1]}
    for result, text, count in (
        (page(), "no registered member", "0 of 0"),
        (page(tombstone), "no registered member", "0 of 0"),
        (page({**member, "id": "a"}, {**member, "id": "b"}), "no member has tokens", "0 of 2"),
    ):
        assert any(text in note for note in result.notes)
        assert headline(result, "nodes").value == f"{count} take data" and headline(result, "nodes").level == "critical"
        assert result.problems, "the file is at fault, and the list of problems says so"
        assert [f.level for f in result.findings] == ["critical"]
    some = page({**member, "id": "a", "tokens": [5]}, {**member, "id": "b"}, factor=1)
    assert headline(some, "nodes").value == "1 of 2 take data"


def test_rings_of_components_that_take_no_writes_are_not_placed() -> None:
    data = mimir.page(mimir.ingesters(), START_S)
    for name in ("store-gateway", "compactor", "ruler", "distributor"):
        other = data.replace(b"ingester-zone", name.encode())
        for files in ({"mimir/ring.json": other}, {f"mimir/{name}-ring.json": data}):
            result = VIEW.compute(inputs(files), RingParameters(), Context(now_ms=0))
            assert result.summary["strategy"] == "" and name in result.headline[0].basis + " ".join(result.notes)
        both = {"mimir/other.json": other, "mimir/ring.json": data}
        result = VIEW.compute(inputs(both), RingParameters(), Context(now_ms=0))
        assert result.summary["ring"] == "mimir/ring.json" and "1 other ring not used" in " ".join(result.notes)


def test_two_rings_of_unknown_kind_are_both_named() -> None:
    data = mimir.page(mimir.ingesters(), START_S).replace(b"ingester", b"node")
    result = VIEW.compute(inputs({"a.json": data, "b.json": data}), RingParameters(), Context(now_ms=0))
    assert result.summary["strategy"] == "" and "1 other ring not used" in " ".join(result.notes)


def test_owners_count_as_healthy_only_without_a_ring_of_ingesters() -> None:
    partitions = {"partitions": {"0": {"tokens": [7], "state": 2}}, "owners": {"ingester-0": {"state": 1}}}
    alone = {"partitions.json": json.dumps(partitions).encode()}
    for files, readers, reads_ok in (
        (alone, ["ingester-0"], True),
        (alone | {"ring.json": b'{"ingesters": {}}'}, [], False),
        (alone | {"ring.json": b'{"shards": [], "now": "2026-11-20T23:32:00Z"}'}, [], False),
    ):
        result = VIEW.compute(inputs(files), RingParameters(), Context(now_ms=0))
        assert result.tables["partitions"]["readers"].to_list() == [readers]
        assert result.summary["reads_ok"] == reads_ok and result.summary["write_lost_share"] == 0
        assert ("every query fails" in " ".join(result.notes)) != reads_ok
