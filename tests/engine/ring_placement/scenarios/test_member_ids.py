"""Named members, scale steps, padded IDs, and the best next ID."""

from __future__ import annotations

import json

import polars as pl
import pytest

from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.scenarios.failover import best_next_id, pad_ids, scale_members
from tests.engine.ring_placement.cases import computed, even, result_of, table


def test_shards_that_scale_steps_move() -> None:
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


def test_shards_that_one_departure_moves() -> None:
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


def test_new_nodes_get_unused_ids() -> None:
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


@pytest.mark.parametrize("seconds_ago", [5, 600])
def test_the_id_of_a_tombstone_is_free_whatever_its_age(seconds_ago: int) -> None:
    now = 1_795_217_515
    entries = {f"w-{i}": {"timestamp": now, "tokens": [i + 1]} for i in range(3)}
    entries["w-3"] = {"timestamp": now - seconds_ago, "state": 4, "tokens": [9]}
    files = {"ring.json": json.dumps({"ingesters": entries}).encode()}
    result = result_of(files, now=str(now), scale=4)
    rows = sorted(result.tables["nodes"].select("instance", "state").rows())
    assert rows == [(f"w-{i}", "ACTIVE") for i in range(4)]
    assert result_of(files, now=str(now)).summary["next_id"] == "w-3"


def test_padding_keeps_the_scenario() -> None:
    cluster, loads = even(11)
    result = computed(cluster, loads, ("fail", "segment-writer-3"), ("scale-ids", "padded"))
    assert result.summary["down"] == ["segment-writer-003"]
    assert not [p for p in result.problems if p.kind == "bad-option"]
    assert result.tables["nodes"].height == 11
    back = computed(cluster, loads, ("fail", "segment-writer-003"))
    assert back.summary["down"] == ["segment-writer-3"]


def test_unknown_nodes_are_problems() -> None:
    cluster, loads = even(3)
    result = computed(cluster, loads, ("fail", "segment-writer-9,zone:nowhere,segment-writer-1"))
    assert result.summary["down"] == ["segment-writer-1"]
    assert len([p for p in result.problems if p.kind == "bad-option"]) == 2
