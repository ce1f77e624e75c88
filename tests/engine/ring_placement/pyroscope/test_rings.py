"""Rings, keys, candidates, failures and loads against Pyroscope's numbers, all exact."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from engine.ring_placement.pyroscope import ring as subrings
from engine.ring_placement.pyroscope.placement import SPREAD, place
from engine.ring_placement.pyroscope.ring import (
    Member,
    Ring,
    candidate_positions,
    first_distinct,
    hex16,
    series_fingerprint,
)
from engine.ring_placement.scenarios.failover import fail_members, member_mask, remove_members, reroute
from tests.engine.ring_placement.cases import (
    dataset_rows,
    digest,
    load,
    members,
    one_dataset_per_row,
    picked,
)

FILES = ("rings_small.json", "rings_medium.json")


def keys_of(ring: dict[str, Any]) -> Any:
    return one_dataset_per_row(
        [(k["tenant"], k["dataset"], k["tenant_shards"], k["dataset_shards"], *picked(k), 1) for k in ring["keys"]]
    )


@pytest.mark.parametrize("file", FILES)
def test_shard_maps(file: str) -> None:
    for case in load(file):
        ring = Ring.of(members(case))
        assert list(ring.ids) == case["sorted_ids"]
        assert ring.total == case["total_shards"]
        assert digest(ring.owner.tolist()) == case["shard_map_xxh64"]
        if "shard_to_sorted_index" in case:
            assert ring.owner.tolist() == case["shard_to_sorted_index"]


@pytest.mark.parametrize("file", FILES)
def test_keys_and_candidates(file: str) -> None:
    for case in load(file):
        ring = Ring.of(members(case))
        placed = place(ring, keys_of(case), 12)
        positions = placed.positions.tolist()
        assert placed.groups.offsets.tolist() == [k["offset"] for k in case["keys"]]
        for i, key in enumerate(case["keys"]):
            if "labels" in key:
                assert hex16(series_fingerprint(key["labels"])) == key["fingerprint"]
            r = placed.ranges
            a, ts, c, ds = (int(x[i]) for x in (r.a, r.tenant_size, r.c, r.dataset_size))
            assert (ts, ds) == (key["tenant_size"], key["dataset_size"])
            assert [a, a + ts, c, c + ds] == key["abcd"]
            assert positions[i] + 1 == key["shard"]
            assert ring.ids[ring.owner[positions[i]]] == key["owner"]
            walk = [int(ring.owner[p]) for p in candidate_positions(ring.total, a, a + ts, c, c + ds, key["offset"])]
            assert (len(walk), digest(walk)) == (key["candidates_len"], key["candidates_xxh64"])
            chain = [n for n in placed.candidates[i].tolist() if n >= 0]
            assert chain == key.get("active", [])[:12]


@pytest.mark.parametrize("file", FILES)
def test_failures(file: str) -> None:
    for case in load(file):
        ring = Ring.of(members(case))
        placed = place(ring, keys_of(case), 6)
        for failure in case["failures"]:
            hit, target, tries = reroute(placed, member_mask(ring, failure["down"]))
            node, made = placed.receivers.copy(), (placed.receivers >= 0).astype(int)
            node[hit], made[hit] = target, tries
            assert node.tolist() == failure["transient_node"]
            assert made.tolist() == failure["transient_attempts"]
            if failure.get("left_error"):
                assert not ring.without(failure["down"]).members
                continue
            _, after = remove_members(placed, failure["down"])
            assert list(after.ring.ids) == failure["left_sorted_ids"]
            if "left_shard_to_sorted_index" in failure:
                assert after.ring.owner.tolist() == failure["left_shard_to_sorted_index"]
            assert (after.positions + 1).tolist() == failure["left_shard"]
            assert after.ring.owner[after.positions].tolist() == failure["left_node"]


def test_failure_loads() -> None:
    names = {"total_shards": "shards"}
    for case in load("failure_loads.json").values():
        ring = Ring.of(members(case))
        placed = place(ring, dataset_rows(case["datasets"]), 6)
        assert ring.total == case["total_shards"]
        assert dict(zip(ring.ids, placed.loads.tolist(), strict=True)) == case["before"]
        assert placed.rejected == case["before_rejected"]
        for one in case["scenarios"]:
            found = (
                fail_members(placed, member_mask(ring, one["down"]))[0]
                if one["mode"] == "transient"
                else remove_members(placed, one["down"])[0]
            )
            loads = dict(zip(found.nodes, found.after.tolist(), strict=True))
            assert {n: loads.pop(n) for n in one["loads"]} == one["loads"]
            assert not any(loads.values())
            for name, value in one.items():
                if name not in ("down", "mode", "loads"):
                    assert getattr(found, names.get(name, name)) == value, (one["down"], one["mode"], name)


def test_pyroscopes_distribution() -> None:
    case = load("upstream_distribute.json")
    ring = Ring.of(members(case))
    assert ring.owner.tolist() == case["shard_to_sorted_index"]
    keys = one_dataset_per_row([("t", "d", case["tenant_shards"], case["dataset_shards"], SPREAD, 0, 4)])
    hashed = int(case["tenant_hash"], 16)
    keys.tenant_hash[:], keys.name_hash[:] = hashed, int(case["dataset_hash"], 16)
    placed = place(ring, keys, 6)
    a, ts, c, ds = (
        int(x[0]) for x in (placed.ranges.a, placed.ranges.tenant_size, placed.ranges.c, placed.ranges.dataset_size)
    )
    assert [a, a + ts, c, c + ds] == case["abcd"]
    for one in case["results"]:
        order = candidate_positions(ring.total, a, a + ts, c, c + ds, one["offset"])
        assert order[0] + 1 == one["shard"]
        assert [ring.ids[ring.owner[p]] for p in order] == one["candidates"]


def test_pyroscopes_iterator() -> None:
    case = load("upstream_iterator.json")
    nodes = case["shard_to_node"]
    for one in case["cases"]:
        order = candidate_positions(one["n"], *one["abcd"], one["offset"])
        assert [nodes[p] for p in order] == one["candidates"], one["case"]


@pytest.mark.parametrize("longest", [1, 3, subrings.LONGEST_WALK])
def test_vectorised_walk_equals_the_plain_one(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subrings, "LONGEST_WALK", longest)
    monkeypatch.setattr(subrings, "_CELLS", 9)
    rng = np.random.default_rng(5)
    states = ("ACTIVE", "ACTIVE", "LEAVING", "JOINING")
    for _ in range(60):
        count = int(rng.integers(1, 9))
        ring = Ring.of(
            Member(f"n{i}", states[int(rng.integers(0, 4))], tokens=int(rng.integers(0, 4))) for i in range(count)
        )
        rows = [
            (
                f"t{rng.integers(9)}",
                f"d{rng.integers(99)}",
                int(rng.integers(0, 20)),
                int(rng.integers(0, 9)),
                SPREAD,
                0,
                100,
            )
            for _ in range(15)
        ]
        keys = one_dataset_per_row(rows)
        ranges = keys.ranges(ring.total)
        groups = keys.fold(ranges)
        chain = first_distinct(ranges, groups.datasets, groups.offsets, ring.owner, ring.active, 6)
        for i, (row, offset) in enumerate(zip(groups.datasets, groups.offsets, strict=True)):
            a, ts, c, ds = (int(x[row]) for x in (ranges.a, ranges.tenant_size, ranges.c, ranges.dataset_size))
            walk = [int(ring.owner[p]) for p in candidate_positions(ring.total, a, a + ts, c, c + ds, int(offset))]
            expected = [n for n in dict.fromkeys(walk) if ring.active[n]][:6]
            assert [n for n in chain[i].tolist() if n >= 0] == expected


def test_a_walk_past_a_member_with_nearly_all_shards_is_short() -> None:
    ring = Ring.of(
        [Member("a", "ACTIVE", tokens=1), Member("b", "ACTIVE", tokens=400_000), Member("c", "ACTIVE", tokens=1)]
    )
    keys = one_dataset_per_row([("t", f"d{i}", 0, 1, SPREAD, 0, 100) for i in range(20)])
    ranges = keys.ranges(ring.total)
    groups = keys.fold(ranges)
    began = time.process_time()
    chain = first_distinct(ranges, groups.datasets, groups.offsets, ring.owner, ring.active, 6)
    assert time.process_time() - began < 2  # one by one: half a minute
    tiny = {node: int(np.flatnonzero(ring.owner == node)[0]) for node in (0, 2)}
    for found, dataset in zip(chain.tolist(), groups.datasets, strict=True):
        start = int(ranges.c[dataset]) % ring.total
        assert found == [1, *sorted(tiny, key=lambda node: (tiny[node] - start) % ring.total), -1, -1, -1]
