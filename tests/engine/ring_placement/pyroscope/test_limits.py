"""Members, limits, ranges and sums of the segment-writer ring where a rule is exactly on its limit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.ring_placement.pyroscope import prng
from engine.ring_placement.pyroscope.adaptive_placement import (
    Allocator,
    Limits,
    Policy,
    Rule,
    decide,
    integer_mean,
    integer_std_dev,
    parse_value,
    policy_of,
)
from engine.ring_placement.pyroscope.placement import FINGERPRINT, FIXED, SPREAD, Keys, place, weigh
from engine.ring_placement.pyroscope.ring import Member, Ring, candidate_positions, levels
from tests.engine.ring_placement.cases import one_dataset_per_row

S = 1_000_000_000


def test_a_heartbeat_is_too_old_above_the_timeout() -> None:
    member = Member("a", heartbeat_s=100)
    assert member.at(160 * S, 60).state == "ACTIVE"
    assert (late := member.at(160 * S + 1, 60)).state == "UNHEALTHY" and late.written == "ACTIVE"
    assert member.at(10**6 * S, 0).state == member.at(10**6 * S, 0.5).written == "ACTIVE"
    assert Member("a").at(160 * S, 60).state == "ACTIVE"
    assert dataclasses.replace(member, state="odd").at(160 * S + 1, 60).state == "odd"
    assert not late.placed and member.placed


def test_the_layout_and_its_changes() -> None:
    ring = Ring.of(
        [Member("b", tokens=2), Member("a", "LEAVING", tokens=1), Member("c", "LEFT"), Member("é", tokens=0)]
    )
    assert (ring.ids, ring.total, ring.active.tolist()) == (("a", "b", "é"), 3, [False, True, True])
    assert np.bincount(ring.owner, minlength=3).tolist() == [1, 2, 0]
    assert ring.names(np.array([1, -1, 0, 2])).to_list() == ["b", None, "a", "é"]
    assert ring.without(["b"]).ids == ("a", "é")
    assert Member("x") == Member("x", "ACTIVE", "", 4, "", None, None, False, 0, "", None, None)


def test_policies() -> None:
    rules = {("t", "d"): Rule("t", "d", 3, 2, 2), ("t", "e"): Rule("t", "e", 3, 2, 1)}
    own = {"t": Limits(tenant_shards=5, ingestion_shards=7, default_dataset_shards=4, load_balancing="round-robin")}
    default = Limits(tenant_shards=9, load_balancing="fingerprint")
    found = [policy_of(*key, rules, own, default) for key in (("t", "d"), ("t", "e"), ("t", "f"), ("u", "d"))]
    assert found == [
        Policy(3, 2, True, "rule"), Policy(3, 2, False, "rule"), Policy(7, 4, True, "override"), Policy(9, 1, False, "default"),
    ]  # fmt: skip
    assert Limits(tenant_shards=5, ingestion_shards=1).tenant_limit == 5
    assert Limits(tenant_shards=-1, ingestion_shards=0).tenant_limit == -1
    assert found[0].with_limits(None, None) is found[0]
    assert found[0].with_limits(8, None) == Policy(8, 2, True, "what-if")
    assert found[3].with_limits(None, 0) == Policy(9, 0, False, "what-if")


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("unit_size", 0, 0),
        ("unit_size", 2**63 - 1, 2**63 - 1),
        ("unit_size", -1, "out of range"),
        ("unit_size", 2**63, "out of range"),
        ("unit_size", True, "whole number"),
        ("unit_size", 1.5, "whole number"),
        ("burst_ns", "17m", 1020 * S),
        ("decay_ns", "1s", S),
        ("load_balancing", "dynamic", "dynamic"),
        ("load_balancing", "odd", "not one of"),
    ],
)
def test_values_of_limits(field: str, value: Any, wanted: Any) -> None:
    if isinstance(wanted, str) and wanted != value:
        with pytest.raises(ValueError, match=wanted):
            parse_value(field, value)
    else:
        assert parse_value(field, value) == wanted


def test_defaults_are_pyroscopes() -> None:
    assert Limits() == Limits(0, 1, "dynamic", 1, 1024, 131072, 17 * 60 * S, 19 * 60 * S, 0)


def test_the_strategy_at_its_limits() -> None:
    assert [decide([200, 0], 50, 100, target) for target in (0, 1, 2, 4, 5)] == [1, 2, 2, 2, 1]
    assert [decide(usage, 50, 100, 1) for usage in ([200], [199, 1], [200, 0, 0])] == [1, 1, 1]
    assert (decide([200, 0], 49, 100, 2), decide([0, 0], 0, 0, 2)) == (1, 2)
    assert (integer_mean([]), integer_std_dev([]), integer_mean([2**63, 2**63, 3])) == (0, 0, 1)


def test_the_allocator_grows_within_a_burst_and_decays_after_it() -> None:
    limits = Limits(unit_size=10, min_dataset_shards=2, max_dataset_shards=50, burst_ns=100, decay_ns=1000)
    allocator = Allocator()
    assert allocator.observe(0, 1, limits) == 2
    assert (allocator.observe(39, 50, limits), allocator.multiplier) == (8, 2)  # 4 and twice the growth of 2
    assert (allocator.observe(89, 150, limits), allocator.multiplier) == (9, 1)  # the burst is over
    assert [allocator.observe(999, now, limits) for now in (160, 170)] == [50, 50]
    assert allocator.multiplier == 4
    assert [allocator.observe(0, now, limits) for now in (1000, 1001, 2000, 2001)] == [50, 50, 50, 2]


def test_levels_of_one_position_are_skipped() -> None:
    sizes = np.array([3, 3, 3, 4]), np.array([1, 2, 3, 2])
    assert [level.tolist() for level in levels(5, *sizes)] == [[2, 0, 0, 2], [2, 2, 2, 0]]
    assert candidate_positions(5, 3, 6, 4, 5, 0) == [4, 0, 3, 1, 2]
    assert candidate_positions(5, 3, 7, 4, 7, 1) == [0, 1, 4]
    assert candidate_positions(0, 0, 1, 0, 1, 0) == candidate_positions(5, 1, 1, 1, 2, 0) == []
    assert candidate_positions(5, 1, 3, 2, 2, 0) == []


def _keys(*rows: tuple[str, str, int, int, int, int, int]) -> Keys:
    return one_dataset_per_row(rows)


WHOLE = ("w", "all", 0, 11, SPREAD, 0, 11)
ROWS = (("t", "d", 5, 3, SPREAD, 0, 10), ("t", "e", 5, 1, FINGERPRINT, 7, 4), ("u", "f", 0, 2, FIXED, 1, 5))
RING = Ring.of([Member("a", tokens=4), Member("b", "LEAVING", tokens=4), Member("c", tokens=3)])


def test_positions_are_inverted() -> None:
    ranges = _keys(*ROWS, WHOLE).ranges(RING.total)
    for row in range(4):
        size = int(ranges.dataset_size[row])
        rows = np.full(size, row)
        shards = ranges.positions(rows, np.arange(size)) + 1
        offsets, inside = ranges.offsets_of(rows, shards)
        assert offsets.tolist() == list(range(size)) and inside.all()
        every = np.arange(-1, RING.total + 3)
        found = every[ranges.offsets_of(np.full(every.size, row), every)[1]]
        assert sorted(found.tolist()) == sorted(shards.tolist())


def test_sums_of_a_placement() -> None:
    placed = place(RING, _keys(*ROWS), 3)
    assert placed.groups.total == 19 and placed.loads.sum() == placed.shard_loads.sum() == 19
    assert (placed.loads.tolist()[1], placed.rejected, placed.parts.tolist()) == (0, 0, [3, 1, 1])
    assert placed.groups.weight.tolist() == [4, 3, 3, 4, 5]
    none = place(Ring.of([]), _keys(*ROWS), 3)
    assert (none.rejected, none.groups.total, len(none.receivers)) == (19, 0, 0)
    leaving = Ring.of(dataclasses.replace(m, state="LEAVING") for m in RING.members)
    assert place(leaving, _keys(*ROWS), 3).rejected == 19
    assert place(Ring.of([]), _keys(), 3).rejected == 0


def test_sums_of_weights_of_either_sort() -> None:
    found = weigh(np.array([2, -1, 0, 2]), np.array([0.5, 9.0, 1.0, 0.25]), 4)
    assert found.tolist() == [1.0, 0.0, 0.75, 0.0]
    assert weigh(np.array([1, -1]), np.array([5, 9]), 2).tolist() == [0, 5]
    assert not prng.permutation(7).flags.writeable


def test_unchanged_groups_are_reused() -> None:
    keys = _keys(*ROWS)
    one = place(RING, keys, 3)
    smaller = RING.without(["c"])
    assert place(smaller, keys, 3, one).groups is one.groups
    for other in (
        keys.with_limits(None, 2),
        replace(keys, round_robin=keys.round_robin | True),
        replace(keys, row_weight=keys.row_weight * 2),
    ):
        again = place(smaller, other, 3, one)
        assert again.groups is not one.groups
        assert again.loads.tolist() == place(smaller, other, 3).loads.tolist()
    assert place(Ring.of([]), keys, 3, one).groups.total == 0
    assert place(RING, keys, 3, place(Ring.of([]), keys, 3)).groups.total == 19


def test_limits_of_all_keys() -> None:
    keys = _keys(*ROWS)
    assert keys.with_limits(2, None).ranges(11).tenant_size.tolist() == [2, 2, 2]
    assert keys.with_limits(0, 4).ranges(11).dataset_size.tolist() == [4, 4, 4]
    assert keys.ranges(11).tenant_size.tolist() == [5, 5, 11] and keys.ranges(5).tenant_size.tolist() == [5, 5, 5]
    assert keys.ranges(4).tenant_size.tolist() == [4, 4, 4]
    assert keys.with_limits(None, 0).ranges(11).dataset_size.tolist() == [1, 1, 1]


def test_a_pinned_dataset_stays_in_its_shard() -> None:
    total = RING.total
    for shard in range(total):
        keys = replace(
            _keys(("t", "d", 4, 1, FIXED, 0, 9), *ROWS[1:]), pinned=np.array([shard, -1, -1]), pinned_total=total
        )
        placed = place(RING, keys, 3)
        assert placed.positions[0] == shard
        assert placed.positions[1:].tolist() == place(RING, _keys(*ROWS), 3).positions[3:].tolist()
        assert placed.ranges.tenant_size[0] in (4, total)
        smaller = place(RING.without(["c"]), keys, 3)
        assert smaller.ranges.dataset_size[0] == 1


def test_a_round_robin_dataset_spreads_fingerprints_only() -> None:
    rows = (("t", "d", 0, 3, FINGERPRINT, 7, 10), ("t", "e", 0, 3, FIXED, 1, 6), ("t", "f", 0, 3, FINGERPRINT, 7, 5))
    keys = replace(_keys(*rows), round_robin=np.array([True, True, False]))
    groups = keys.fold(keys.ranges(11))
    assert list(zip(groups.datasets.tolist(), groups.offsets.tolist(), groups.weight.tolist(), strict=True)) == [
        (0, 0, 4), (0, 1, 3), (0, 2, 3), (1, 1, 6), (2, 1, 5),
    ]  # fmt: skip
