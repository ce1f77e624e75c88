"""Sweeps, cascades, scale steps and limits: against plain recomputation, and as properties."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.parameters import BadOption, parse
from engine.ring_placement.insight.alternatives import bounded, compare_algorithms, maglev_table, mix, rendezvous
from engine.ring_placement.parameters import RingParameters, parse_capacity
from engine.ring_placement.pyroscope.hashing import xxh64_each
from engine.ring_placement.pyroscope.keys import Keys, weigh
from engine.ring_placement.pyroscope.placement import Placement, place
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.scenarios.cascade import cascade
from engine.ring_placement.scenarios.failover import (
    TOTALS,
    fail_members,
    member_mask,
    place_without,
    remove_members,
    takeover_flows,
    transient_outcome,
)
from engine.ring_placement.scenarios.members import best_next_id, pad_ids, scale_members
from engine.ring_placement.scenarios.sweep import every_node, every_pair, one_by_one, random_sets
from engine.ring_placement.scenarios.sweep_totals import receiving_members, worst_case
from engine.ring_placement.view import VIEW
from engine.units import parse_size
from engine.view import Cancelled, Context
from tests.engine.ring_placement.cases import inputs, members, page, table

STATES = st.sampled_from(["ACTIVE", "ACTIVE", "ACTIVE", "LEAVING", "PENDING"])


@st.composite
def clusters(draw: st.DrawFn, regular: bool = False) -> Placement:
    """A small ring with keys of all kinds on it."""
    count = draw(st.integers(2, 7))
    tokens = draw(st.integers(1, 4))
    ring = Ring.of(
        Member(
            f"node-{i}",
            "ACTIVE" if regular else draw(STATES),
            f"z{i % 3}",
            tokens if regular else draw(st.integers(0, 4)),
        )
        for i in range(count)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    datasets, rows = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    tenants = 3
    keys = Keys(
        tuple(f"t{i}" for i in range(tenants)),
        rng.integers(0, tenants, datasets).astype(np.int32),
        xxh64_each(f"t{i}" for i in range(tenants)),
        xxh64_each(f"d{rng.integers(99)}" for _ in range(datasets)),
        rng.choice([0, 0, 1, 2, 3, 5, 9], datasets).astype(np.int64),
        rng.choice([0, 1, 1, 2, 3, 8, 40], datasets).astype(np.int64),
        rng.random(datasets) < 0.2,
        rng.integers(0, datasets, rows).astype(np.int32),
        rng.integers(0, 3, rows).astype(np.uint8),
        rng.integers(0, 2**63, rows).astype(np.uint64),
        rng.integers(0, 10**6, rows).astype(np.int64),
    )
    return place(ring, keys, 6)


COLUMNS = (
    *TOTALS, "worst_load", "nodes_over_capacity",
)  # fmt: skip


def same(quick: Any, plain: Any) -> None:
    assert quick.down == plain.down
    for name in COLUMNS:
        assert list(getattr(quick, name)) == list(getattr(plain, name)), name
    assert quick.max_over_mean == pytest.approx(plain.max_over_mean)
    assert quick.coefficient_of_variation == pytest.approx(plain.coefficient_of_variation)


def quiet(fraction: float) -> None:
    assert 0 <= fraction <= 1


@pytest.mark.parametrize("regime", ["transient", "left"])
@pytest.mark.parametrize("regular", [True, False])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_sweeps_equal_one_scenario_at_a_time(regime: str, regular: bool, data: st.DataObject) -> None:
    placement = data.draw(clusters(regular))
    n = len(placement.ring.members)
    capacity = np.full(n, 300_000.0)
    same(
        every_node(placement, regime, capacity, quiet),
        one_by_one(placement, [(i,) for i in range(n)], regime, capacity, quiet),
    )
    pairs = list(combinations(range(n), 2))
    same(every_pair(placement, regime, capacity, quiet), one_by_one(placement, pairs, regime, capacity, quiet))


def plain_moves(before: Placement, after: Placement) -> int:
    """The sheet's definition, dataset by dataset and node by node."""
    held: dict[tuple[int, str], int] = {}
    for placement, sign in ((before, 1), (after, -1)):
        for row, node, weight in zip(
            placement.groups.datasets, placement.receivers, placement.groups.weight, strict=True
        ):
            if node >= 0:
                key = (int(row), placement.ring.ids[node])
                held[key] = held.get(key, 0) + sign * int(weight)
    return sum(v for v in held.values() if v > 0)


@settings(max_examples=60, deadline=None)
@given(clusters(), st.data())
def test_load_is_neither_made_nor_lost(placement: Placement, data: st.DataObject) -> None:
    ids = placement.ring.ids
    down = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    total = int(placement.keys.row_weight.sum())
    assert placement.loads.sum() + placement.rejected == total
    now = transient_outcome(placement, member_mask(placement.ring, down))
    assert now.after.sum() + now.rejected_bytes == total
    assert now.rerouted_bytes + now.rejected_bytes - now.rejected_before == sum(
        load for name, load in zip(ids, placement.loads.tolist(), strict=True) if name in down
    )
    gone, after = remove_members(placement, down)
    assert gone.after.sum() + gone.rejected_bytes == total
    if after.ring.total:
        assert gone.moved_bytes == plain_moves(placement, after)
    sets = [
        {int(p) for p in pl_.ranges.positions(np.full(int(s), row), np.arange(int(s)))}
        for pl_ in (placement, after)
        for row, s in enumerate(pl_.ranges.dataset_size)
    ]
    half = placement.keys.size
    if placement.ring.total and after.ring.total:
        assert gone.datasets_with_changed_shard_set == sum(sets[i] != sets[half + i] for i in range(half))


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_nothing_fails_nothing_changes(placement: Placement) -> None:
    none = transient_outcome(placement, member_mask(placement.ring, ()))
    assert none.after.tolist() == placement.loads.tolist()
    assert (none.moved_bytes, none.rerouted_bytes, none.datasets_touched, none.mean_tries) == (0, 0, 0, 1.0)
    same_again, _ = remove_members(placement, ())
    assert (same_again.moved_bytes, same_again.shards_with_changed_owner) == (0, 0)
    assert same_again.datasets_with_changed_shard_set == 0


def test_exact_beyond_doubles() -> None:
    huge = np.array([2**53 + 1, 2**53 + 3, 1], dtype=np.int64)
    assert weigh(np.array([0, 0, 1]), huge, 2).tolist() == [2**54 + 4, 1]


def even(count: int = 12, tokens: int = 4, datasets: int = 60) -> tuple[list[Member], bytes]:
    cluster = [Member(f"segment-writer-{i}", "ACTIVE", f"zone-{'abc'[i % 3]}", tokens) for i in range(count)]
    return cluster, table([(f"t{i % 7}", f"svc-{i}", 720720) for i in range(datasets)])


def computed(cluster: list[Member], loads: bytes, *pairs: tuple[str, str], more: dict[str, bytes] | None = None) -> Any:
    given_inputs = inputs({"ring.json": page(cluster), "loads.csv": loads, **(more or {})})
    return VIEW.compute(given_inputs, parse(RingParameters, pairs), Context(now_ms=0))


def test_cascade_ends_and_grows() -> None:
    cluster, loads = even()
    plain = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "4500000"))
    falls = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "4500000"), ("cascade", "true"))
    assert set(plain.summary["down"]) < set(falls.summary["down"])
    after = falls.tables["nodes"].filter(~pl.col("down"))
    assert (after["load_after"] <= 4_500_000).all() or after.height == 0
    assert falls.summary["cascade_rounds"] == len(falls.summary["cascade_nodes"])
    everything = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "1"), ("cascade", "true"))
    assert everything.summary["rejected_bytes"] == everything.summary["load_total"]


def test_cascade_directly() -> None:
    cluster, _ = even(4)
    placement = place(Ring.of(cluster), _keys(40), 6)
    down, outcome, rounds = cascade(placement, member_mask(placement.ring, ()), np.full(4, np.inf), 1.0)
    assert not down.any() and not rounds and outcome.rejected_bytes == 0


def _keys(count: int) -> Keys:
    from tests.engine.ring_placement.cases import one_dataset_per_row

    return one_dataset_per_row([(f"t{i % 5}", f"d{i}", 0, 1, 0, 0, 1000) for i in range(count)])


def test_regime_c_is_the_way_back() -> None:
    cluster, loads = even()
    b = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "left")).summary
    c = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "returned"))
    assert c.tables["nodes"]["load_after"].to_list() == c.tables["nodes"]["load_before"].to_list()
    assert c.summary["moved_bytes"] == b["moved_bytes"]
    assert c.summary["shards_with_changed_owner"] == b["shards_with_changed_owner"]


def test_scale_steps_of_the_sheet() -> None:
    def share(count: int, width: int) -> float:
        before = [Member(f"w-{i:0{width}d}" if width else f"w-{i}") for i in range(count)]
        after = scale_members(before, count + 1, width)
        old, new = Ring.of(before), Ring.of(after)
        names_old = [old.ids[i] for i in old.owner]
        names_new = [new.ids[i] for i in new.owner]
        return sum(a != b for a, b in zip(names_old, names_new, strict=False)) / old.total

    assert share(9, 0) == pytest.approx(0.11, abs=0.01)
    assert share(10, 0) == pytest.approx(0.78, abs=0.01)
    assert share(16, 0) == pytest.approx(0.48, abs=0.01)
    assert share(100, 0) == pytest.approx(0.97, abs=0.01)
    assert [round(share(n, 4), 2) for n in (10, 16, 100)] == [0.10, 0.03, 0.01] or share(10, 4) < 0.12


def test_one_departure_of_the_sheet() -> None:
    for count, first, last in ((3, 0.63, 0.0), (16, 0.93, 0.0), (64, 0.98, 0.0)):
        ring = Ring.of(Member(f"w-{i:03d}") for i in range(count))
        for gone, expected in ((0, first), (count - 1, last)):
            after = ring.without([ring.ids[gone]])
            old = [ring.ids[i] for i in ring.owner][: after.total]
            new = [after.ids[i] for i in after.owner]
            alive = [(a, b) for a, b in zip(old, new, strict=True) if a != ring.ids[gone]]
            assert sum(a != b for a, b in alive) / after.total == pytest.approx(expected, abs=0.01)


def test_best_next_id() -> None:
    ten = [Member(f"w-{i}") for i in range(10)]
    best, best_changed, plain, plain_changed = best_next_id(ten)
    assert (best, plain) == ("w-90", "w-10")
    assert best_changed < plain_changed
    assert best_next_id([Member(f"w-{i:02d}") for i in range(10)])[0] == "w-10"
    assert best_next_id([Member("a"), Member("b")])[0] > "b"
    assert best_next_id([])[0]


def test_scaling_down_takes_the_highest_ordinals() -> None:
    ten = [Member(f"w-{i}") for i in range(12)]
    assert {m.id for m in scale_members(ten, 9)} == {f"w-{i}" for i in range(9)}
    grown = scale_members([Member("w-0", zone="a"), Member("w-1", zone="b"), Member("w-2", zone="a")], 5)
    assert [m.id for m in grown] == ["w-0", "w-1", "w-2", "w-3", "w-4"]
    assert [m.zone for m in grown[3:]] == ["b", "a"]
    assert [m.id for m in pad_ids(ten[:2], 3)] == ["w-000", "w-001"]


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


def test_new_nodes_take_no_id_that_is_in_use() -> None:
    cluster = [
        Member(f"w-{i}", "UNHEALTHY" if i == 5 else "LEFT" if i == 6 else "ACTIVE", "zab"[i % 3]) for i in range(7)
    ]
    loads = table([("t", f"d{i}", 7) for i in range(20)])
    grown = computed(cluster, loads, ("scale", "7"))
    ids = grown.tables["nodes"]["instance"].to_list()
    assert len(ids) == len(set(ids)) == 8
    assert grown.tables["nodes"].filter(pl.col("instance") == "w-6")["state"].to_list() == ["ACTIVE"], (
        "LEFT is free again"
    )
    assert "w-7" in ids and grown.summary["total_shards"] == 28
    home = computed(cluster, loads, ("home-zone", "z"))
    assert home.summary["next_id"] == "w-6"


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.data())
def test_what_is_taken_over_adds_up(placement: Placement, data: st.DataObject) -> None:
    ids = placement.ring.ids
    lost = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=len(ids), unique=True))
    _, after = fail_members(placement, member_mask(placement.ring, lost))
    flows = takeover_flows(placement, after, lost)
    for name, load in zip(ids, placement.loads, strict=True):
        assert sum(x for node, _, x in flows if node == name) == (load if name in lost else 0)
        if name not in lost:
            gained = after.loads[ids.index(name)] - load
            assert sum(x for _, node, x in flows if node == name) == gained
    assert sum(x for _, node, x in flows if not node) == after.rejected - placement.rejected
    assert [x for _, _, x in flows] == sorted((x for _, _, x in flows), reverse=True)


def test_home_zone() -> None:
    cluster, loads = even()
    home = computed(cluster, loads, ("home-zone", "zone-b"))
    used = home.tables["nodes"].filter(pl.col("load_after") > 0)
    assert set(used["zone"]) == {"zone-b"}
    assert home.summary["total_shards"] == 16
    nowhere = computed(cluster, loads, ("home-zone", "zone-x"))
    assert any("zone-x" in p.reason for p in nowhere.problems)


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


def test_a_sweep_can_be_stopped() -> None:
    cluster, loads = even(30)
    asked = iter([False] * 12 + [True] * 1000)
    context = Context(now_ms=0, stop=lambda: next(asked))
    with pytest.raises(Cancelled):
        VIEW.compute(inputs({"ring.json": page(cluster), "loads.csv": loads}), RingParameters(sweep="pairs"), context)


def test_minimum_capacity_is_the_edge() -> None:
    cluster, loads = even()
    summary = computed(cluster, loads).summary
    edge = summary["min_capacity_any_node"]

    def severe(capacity: int) -> bool:
        return any(f.level == "severe" for f in computed(cluster, loads, ("capacity", str(capacity))).findings)

    assert not severe(edge)
    assert severe(edge - 1)
    placement = place(Ring.of(cluster), _keys(50), 6)
    sweep = every_node(placement, "transient", None, quiet)
    assert worst_case(sweep, receiving_members(placement)) == max(sweep.worst_load)
    zone = summary["min_capacity_any_zone"]
    assert zone >= edge
    worst = computed(cluster, loads, ("sweep", "zones")).tables["sweep"]["worst_load"].max()
    assert worst == zone


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


@pytest.mark.parametrize(
    "pair", [("capacity", "lots"), ("capacity", "1e400"), ("now", "yesterday"), ("regime", "gone"), ("scale", "0")]
)
def test_bad_options_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(BadOption):
        parse(RingParameters, [pair])


def test_unknown_nodes_are_said() -> None:
    cluster, loads = even(3)
    result = computed(cluster, loads, ("fail", "segment-writer-9,zone:nowhere,segment-writer-1"))
    assert result.summary["down"] == ["segment-writer-1"]
    assert len([p for p in result.problems if p.kind == "bad-option"]) == 2


def test_alternatives() -> None:
    hashes = mix(np.arange(20_000, dtype=np.uint64))
    nodes = [f"n{i}" for i in range(10)]
    one, two = rendezvous(hashes, nodes), rendezvous(hashes, nodes[:-1])
    # Only what was on the node that left moves.
    assert (one[one != 9] == two[one != 9]).all()
    assert np.bincount(one).std() / 2000 < 0.05
    lookup = maglev_table(nodes)
    assert np.bincount(lookup, minlength=10).max() - np.bincount(lookup, minlength=10).min() <= 1
    weight = np.full(len(hashes), 10)
    loads = weigh(bounded(hashes, weight, nodes), weight, 10)
    assert loads.max() <= 1.25 * loads.mean() + 10
    keys = _keys(3000)
    ring = Ring.of(Member(n) for n in nodes)
    placement = place(ring, keys, 6)
    found = {c.algorithm: c for c in compare_algorithms(keys, placement.groups, nodes, nodes[1:])}
    assert len(found) == 4
    assert found["rendezvous (HRW)"].needless_moved_bytes == 0
    assert found["rendezvous (HRW)"].moved_bytes < found["jump over sorted nodes"].moved_bytes
    own = place_without(placement, ["n0"])
    assert plain_moves(placement, own) > 4 * found["rendezvous (HRW)"].moved_bytes


def test_comparison_in_the_view() -> None:
    cluster, loads = even()
    result = computed(cluster, loads, ("fail", "segment-writer-0"), ("compare", "true"))
    rows = result.tables["comparison"]
    assert rows.height == 6
    pyroscope = rows.filter(pl.col("algorithm") == "Pyroscope (as configured)").row(0, named=True)
    b = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "left")).summary
    assert pyroscope["moved_bytes"] == b["moved_bytes"]


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
    from engine.ring_placement.pyroscope.limits import Rule
    from engine.ring_placement.pyroscope.ruler import Rules
    from engine.ring_placement.reading.placement_files import write_rules
    from tests.engine.ring_placement.cases import load

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


def test_padding_keeps_the_scenario() -> None:
    cluster, loads = even(11)
    result = computed(cluster, loads, ("fail", "segment-writer-3"), ("scale-ids", "padded"))
    assert result.summary["down"] == ["segment-writer-003"]
    assert not [p for p in result.problems if p.kind == "bad-option"]
    assert result.tables["nodes"].height == 11
    back = computed(cluster, loads, ("fail", "segment-writer-003"))
    assert back.summary["down"] == ["segment-writer-3"]


def test_every_member_is_listed_in_a_home_zone() -> None:
    cluster, loads = even()
    nodes = computed(cluster, loads, ("home-zone", "zone-b")).tables["nodes"]
    assert nodes.height == 12
    assert not nodes["down"].any()


def test_shards_without_load_are_not_called_rejected() -> None:
    cluster, _ = even(12)
    result = computed(cluster, table([("t", "d", 10)]), ("fail", "zone:zone-a"))
    assert result.summary["rejected_bytes"] == 0
    assert -1 not in result.detail.stored_by
    assert -2 in result.detail.stored_by


def test_distinct_rows() -> None:
    from engine.ring_placement.reading.distinct_rows import distinct_rows

    frame = pl.DataFrame({"a": ["x", "y", "x", None, "x", None], "b": [1, 1, 1, 2, 2, 2]})
    distinct, rows = distinct_rows(frame)
    assert distinct.rows() == [("x", 1), ("x", 2), ("y", 1), (None, 2)]
    assert [distinct.row(i) for i in rows.tolist()] == frame.rows()
