"""Ring pages and memberlist keys: as operators have them, and damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.parameters import parse
from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.view import VIEW
from sample_data.ring_placement.protobuf import write_bytes, write_packed, write_varint
from tests.engine.ring_placement.cases import (
    DAY_MS,
    THREE,
    digest,
    inputs,
    kinds,
    load,
    page,
    raw,
    result_of,
    table,
)

RINGS = ("ring3", "ring12_odd")


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("ending", ["page.json", "viewkey.json", "kv.bin"])
def test_ring_files(ring: str, ending: str) -> None:
    expected = load(f"native/{ring}.expected.json")
    now = load(f"native/{ring}.page.json")["now"]
    given = inputs({f"{ring}.{ending}": raw(f"native/{ring}.{ending}")})
    # A page has its own time; the two dumps are looked at as of the page's.
    p = RingParameters() if ending == "page.json" else RingParameters(now=now)
    result = VIEW.compute(given, p, Context(now_ms=0))
    shards = result.tables["shards"]
    assert result.summary["total_shards"] == expected["total_shards"]
    assert dict(zip(map(str, shards["shard"]), shards["instance"], strict=True)) == expected["shard_id_to_instance"]
    index = [expected["healthy_ids_sorted"].index(i) for i in shards["instance"]]
    assert digest(index) == expected["shard_map_xxh64"]
    nodes = result.tables["nodes"].sort("instance")
    healthy = nodes.filter(nodes["state"].is_in(["ACTIVE", "LEAVING", "PENDING", "JOINING"]))
    assert healthy["instance"].to_list() == expected["healthy_ids_sorted"]
    if "active_ids" in expected:
        assert nodes.filter(nodes["state"] == "ACTIVE")["instance"].to_list() == expected["active_ids"]
    page = load(f"native/{ring}.page.json")
    assert dict(zip(nodes["instance"], nodes["state"], strict=True)) == {m["id"]: m["state"] for m in page["shards"]}
    assert dict(zip(nodes["instance"], nodes["tokens"], strict=True)) == {
        m["id"]: len(m["tokens"] or ()) for m in page["shards"]
    }


def test_a_binary_ring_with_a_non_ascii_first_id_is_recognised() -> None:
    names = ["инжестор-0", "w-1"]
    desc = b"".join(
        write_bytes(1, write_bytes(1, name.encode()) + write_bytes(2, write_packed(6, [7 + at])))
        for at, name in enumerate(names)
    )
    packed = write_varint(len(desc)) + bytes([60 << 2, len(desc) - 1]) + desc  # one literal
    result = VIEW.compute(inputs({"1-segment-writer-ring": packed}), RingParameters(now="0"), Context(now_ms=0))
    assert sorted(result.tables["nodes"]["instance"]) == sorted(names) and not result.problems


def test_stale_without_a_time() -> None:
    given = inputs({"ring3.kv.bin": raw("native/ring3.kv.bin")}, mtime_ms=DAY_MS + 3_600_000)
    result = VIEW.compute(given, RingParameters(), Context(now_ms=0))
    assert set(result.tables["nodes"]["state"]) == {"UNHEALTHY"}
    assert result.summary["total_shards"] == 0
    assert any(f.level == "critical" for f in result.findings)
    hint = next(note for note in result.notes if "-o now=" in note)
    then = parse(RingParameters, [("now", hint.split("-o now=")[1].split()[0])])
    assert VIEW.compute(given, then, Context(now_ms=0)).summary["active"] == 3
    assert VIEW.compute(given, RingParameters(heartbeat_timeout=0), Context(now_ms=0)).summary["active"] == 3


def test_a_page_is_preferred_to_dumps_of_the_same_heartbeats() -> None:
    files = {n: raw(f"native/{n}") for n in ("ring3.kv.bin", "ring3.viewkey.json", "ring3.page.json")}
    result = VIEW.compute(inputs(files, mtime_ms=DAY_MS + 10**9), RingParameters(), Context(now_ms=0))
    assert result.summary["active"] == 3
    chosen = VIEW.compute(inputs(files), RingParameters(ring="viewkey"), Context(now_ms=0))
    assert any("viewkey" in note for note in chosen.notes)


def edited(change: Any) -> bytes:
    body = json.loads(page(THREE))
    change(body)
    return json.dumps(body, indent=1).encode()


@pytest.mark.parametrize(
    ("kind", "change", "healthy"),
    [
        ("unknown-state", lambda b: b["shards"][1].update(state="DANCING"), 2),
        ("duplicate-id", lambda b: b["shards"].append(dict(b["shards"][0])), 3),
        ("bad-member", lambda b: b["shards"][1].update(id=""), 2),
        ("bad-member", lambda b: b["shards"][1].pop("id"), 2),
        ("bad-member", lambda b: b["shards"].append("text"), 3),
        ("bad-tokens", lambda b: b["shards"][1].update(tokens="many"), 3),
        ("no-tokens", lambda b: b["shards"][1].update(tokens=[]), 3),
        ("left-member", lambda b: b["shards"][1].update(state="LEFT"), 2),
        ("bad-time", lambda b: b["shards"][1].update(timestamp="noon"), 3),
        ("bad-time", lambda b: b.update(now="soon"), 3),
    ],
)
def test_single_errors_in_a_page(kind: str, change: Any, healthy: int) -> None:
    result = result_of({"ring.json": edited(change)}, now="2026-11-20T23:32:00Z")
    assert kind in kinds(result)
    assert result.summary["healthy"] == healthy
    assert all(p.line for p in result.problems if p.kind != "bad-time")


def test_more_than_4096_shards_are_placed() -> None:
    many = [Member(f"w-{i}", tokens=2000) for i in range(3)]
    result = result_of({"ring.json": page(many), "l.csv": table([("t", "d", 60)])})
    assert result.summary["total_shards"] == 6000
    assert "many-shards" in kinds(result)
    assert result.tables["nodes"]["load_before"].sum() == 60


def test_empty_rings() -> None:
    for body in (b'{"shards":[],"now":"2026-11-20T23:32:00Z"}', b'{"shards":null,"now":"2026-11-20T23:32:00Z"}'):
        result = result_of({"ring.json": body, "l.csv": table([("t", "d", 60)])})
        assert "empty-ring" in kinds(result)
        assert result.summary["rejected_bytes"] == 60
        assert any("empty ring" in f.text for f in result.findings)


def test_memberlist_oddities() -> None:
    body = {
        "ingesters": {
            "a": {"state": 9, "tokens": [1], "timestamp": 1795217514},
            "b": {"tokens": {"x": 1}, "timestamp": 1795217514},
            "c": {"tokens": [1, 2], "timestamp": "late"},
            "d": [],
            "": {"tokens": [1]},
            "e": {"tokens": [1, 2, 3], "timestamp": 1795217514},
        }
    }
    result = result_of({"m.json": json.dumps(body, indent=1).encode()}, now="2026-11-20T23:32:00Z")
    assert {"unknown-state", "bad-tokens", "bad-time", "bad-member"} <= kinds(result)
    states = dict(zip(result.tables["nodes"]["instance"], result.tables["nodes"]["state"], strict=True))
    assert states == {"a": "9", "b": "ACTIVE", "c": "ACTIVE", "e": "ACTIVE"}
    assert result.summary["total_shards"] == 5
    twice = b'{"ingesters":{"a":{"tokens":[1]},"a":{"tokens":[1,2]}}}'
    assert "duplicate-id" in kinds(result_of({"m.json": twice}, heartbeat_timeout=0))
