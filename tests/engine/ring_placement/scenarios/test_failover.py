"""The regimes of a failure as properties."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.scenarios.failover import (
    fail_members,
    member_mask,
    remove_members,
    takeover_flows,
)
from tests.chance import tries
from tests.engine.ring_placement.cases import (
    clusters,
    computed,
    even,
    page,
    plain_moves,
    result_of,
    table,
)


@tries(12)
@given(clusters(), st.data())
def test_load_is_neither_made_nor_lost(placement: Placement, data: st.DataObject) -> None:
    ids = placement.ring.ids
    down = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    total = int(placement.keys.row_weight.sum())
    assert placement.loads.sum() + placement.rejected == total
    now = fail_members(placement, member_mask(placement.ring, down))[0]
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


@tries(12)
@given(clusters(), st.data())
def test_tries_are_those_of_a_client(placement: Placement, data: st.DataObject) -> None:
    down = data.draw(st.sets(st.sampled_from(placement.ring.ids)))
    failed = member_mask(placement.ring, down)
    made = 0
    for row, weight in zip(placement.candidates.tolist(), placement.groups.weight.tolist(), strict=True):
        listed = [member for member in row if member >= 0]
        taken = next((i for i, member in enumerate(listed) if not failed[member]), len(listed) - 1)
        made += weight * (taken + 1)
    total = placement.groups.total
    if total:
        assert math.isclose(fail_members(placement, failed)[0].mean_tries, made / total, rel_tol=1e-12, abs_tol=1e-12)
    gone, after = remove_members(placement, down)
    if after.groups.total:
        served = after.groups.weight[after.receivers >= 0].sum() / after.groups.total
        assert math.isclose(gone.mean_tries, served, rel_tol=1e-12, abs_tol=1e-12)


def test_no_tries_without_a_receiver() -> None:
    no_tokens = [Member(f"w-{i}", "ACTIVE", tokens=0) for i in range(2)]
    leaving = [Member(f"w-{i}", "LEAVING", tokens=4) for i in range(2)]
    for members in (no_tokens, leaving, [Member("w-0", "LEFT", tokens=4)]):
        files = {"ring.json": page(members), "loads.csv": table([("t", "d", 40)])}
        result = result_of(files, strategy="segment-writer")
        assert (result.summary["rejected_bytes"], result.summary["mean_tries"]) == (40, 0.0)


@tries(12)
@given(clusters())
def test_nothing_fails_nothing_changes(placement: Placement) -> None:
    none = fail_members(placement, member_mask(placement.ring, ()))[0]
    assert none.after.tolist() == placement.loads.tolist()
    assert (none.moved_bytes, none.rerouted_bytes, none.datasets_touched) == (0, 0, 0)
    same_again, _ = remove_members(placement, ())
    assert none.mean_tries == same_again.mean_tries
    assert (same_again.moved_bytes, same_again.shards_with_changed_owner) == (0, 0)
    assert same_again.datasets_with_changed_shard_set == 0


@tries(12)
@given(clusters(), st.data())
def test_takeover_flows_add_up(placement: Placement, data: st.DataObject) -> None:
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


def test_regime_c_is_the_way_back() -> None:
    cluster, loads = even()
    b = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "left")).summary
    c = computed(cluster, loads, ("fail", "segment-writer-0"), ("regime", "returned"))
    assert c.tables["nodes"]["load_after"].to_list() == c.tables["nodes"]["load_before"].to_list()
    assert c.summary["moved_bytes"] == b["moved_bytes"]
    assert c.summary["shards_with_changed_owner"] == b["shards_with_changed_owner"]
