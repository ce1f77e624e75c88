"""Files that are wrong: a problem with its place each, and whatever is good is still shown."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import protobuf, snappy
from engine.formats.timestamps import epoch_ns
from engine.reading import Source
from engine.ring_placement.insight.explain import BadKey, parse_key
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.hashing import xxh64
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading import placement_files
from engine.ring_placement.reading.kinds import KINDS
from engine.ring_placement.view import VIEW
from engine.view import Context, NoInput
from tests.engine.ring_placement.cases import inputs, page, raw, table

THREE = [Member(f"w-{i}", "ACTIVE", f"z{i}") for i in range(3)]


def result_of(files: dict[str, bytes], **parameters: Any) -> Any:
    return VIEW.compute(inputs(files), RingParameters(**parameters), Context(now_ms=0))


def kinds(result: Any) -> set[str]:
    return {p.kind for p in result.problems}


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
        ("many-shards", lambda b: b["shards"][1].update(tokens=list(range(5000))), 3),
    ],
)
def test_one_thing_wrong_in_a_page(kind: str, change: Any, healthy: int) -> None:
    result = result_of({"ring.json": edited(change)}, now="2026-11-20T23:32:00Z")
    assert kind in kinds(result)
    assert result.summary["healthy"] == healthy
    assert all(p.line for p in result.problems if p.kind not in ("bad-time", "many-shards"))


def test_more_than_4096_shards_are_placed() -> None:
    many = [Member(f"w-{i}", tokens=2000) for i in range(3)]
    result = result_of({"ring.json": page(many), "l.csv": table([("t", "d", 60)])})
    assert result.summary["total_shards"] == 6000
    assert result.tables["nodes"]["load_before"].sum() == 60


def test_empty_rings() -> None:
    for body in (b'{"shards":[],"now":"2026-11-20T23:32:00Z"}', b'{"shards":null,"now":"2026-11-20T23:32:00Z"}'):
        result = result_of({"ring.json": body, "l.csv": table([("t", "d", 60)])})
        assert "empty-ring" in kinds(result)
        assert result.summary["rejected_bytes"] == 60
        assert any("empty ring" in f.text for f in result.findings)


def test_no_ring_at_all() -> None:
    with pytest.raises(NoInput):
        result_of({})
    with pytest.raises(NoInput):
        result_of({"overrides.yaml": b"overrides:\n  a:\n    adaptive_placement_tenant_shards: 3\n"})
    result = result_of({"placement_stats.binpb": raw("native/placement_stats.binpb")})
    assert result.tables["observed"].height > 0
    assert result.summary["drift_pairs"] == 0
    assert result.summary["rejected_bytes"] == 0 < result.summary["load_total"], "unknown is not rejected"


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


FILES = {
    "native/ring3.page.json": "ring.json",
    "native/ring12_odd.viewkey.json": "view.json",
    "native/ring12_odd.kv.bin": "6-ring.kv.bin",
    "native/placement_rules.binpb": "placement_rules.binpb",
    "native/placement_stats.binpb": "placement_stats.binpb",
    "native/overrides.yaml": "overrides.yaml",
    "native/metrics.prom": "metrics.prom",
    "real/pyroscope-rendered-overrides-configmap.yaml": "cm.yaml",
    "real/blocks/01JKT426996H1XWCX1M1ZQFRJ6/block.bin": "block.bin",
}


def read_all(name: str, data: bytes) -> list[Any]:
    """Every reader on these bytes, whether it recognises them or not; none may raise, and rows must fit."""
    found = []
    for kind in KINDS:
        kind.recognise(name, data[:8192])
        reading = kind.read(Source(name, name, 1, len(data)), data, None, True)
        tables = {t.name: t for t in kind.tables}
        for key, rows in reading.rows.items():
            tables[key].frame(rows)
        found.append(reading)
    return found


@pytest.mark.parametrize("file", FILES)
def test_cut_and_flipped_anywhere(file: str) -> None:
    data = raw(file)
    rng = random.Random(7)
    small = len(data) < 4000
    cuts = range(0, len(data), 1 if len(data) < 700 else 37) if small else [0, 1, 7, 8, len(data) - 1, len(data) - 9]
    own = next(k for k in KINDS if k.recognise(FILES[file], data[:8192]))
    for cut in cuts:
        reading = own.read(Source("x", FILES[file], 1, cut), data[:cut], None, True)
        for key, rows in reading.rows.items():
            next(t for t in own.tables if t.name == key).frame(rows)
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(data) - 2000 if not small else 0, len(data))] = rng.randrange(256)
        read_all(FILES[file], bytes(broken))


@pytest.mark.parametrize("name", ["ring3.kv.bin", "placement_rules.binpb", "placement_stats.binpb"])
def test_cut_binaries_say_where(name: str) -> None:
    data = raw(f"native/{name}")[:-3]
    kind = next(k for k in KINDS if k.recognise(name, data))
    reading = kind.read(Source("f", name, 1, len(data)), data, None, True)
    assert not reading.complete
    assert reading.problems[0].kind == "bad-protobuf"
    assert reading.problems[0].byte is not None


def test_block_footers() -> None:
    data = raw("real/blocks/01JKT426996H1XWCX1M1ZQFRJ6/block.bin")
    for broken, kind in (
        (data[:-1], "no-footer"),
        (b"", "no-footer"),
        (b"PAR1" + b"\0" * 20, "no-footer"),
        (data[:-20] + b"X" + data[-19:], "bad-footer"),
    ):
        result = inputs({"ring.json": page(THREE), "s/block.bin": broken})
        assert {p.kind for p in result.problems} == {kind}
        assert VIEW.compute(result, RingParameters(), Context(now_ms=0)).summary["healthy"] == 3


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    for head in (b"", b"\x0a", b"{", b"overrides:\n", b"tenant,dataset,bytes_per_s\n", b"PAR1", b"# TYPE a gauge\n"):
        read_all("placement_stats.binpb", head + data)


def test_override_mistakes() -> None:
    text = b"""overrides:
  a:
    adaptive_placement_tenant_shards: -3
    adaptive_placement_tenant_shard: 3
    adaptive_placement_burst_window: soon
    ingestion_rate_mb: 12
  b: 7
  c:
    adaptive_placement_tenant_shards: 8
    adaptive_placement_load_balancing: maybe
  c:
    adaptive_placement_tenant_shards: 9
  d:
"""
    given_inputs = inputs({"overrides.yaml": text})
    found = {(p.kind, p.line) for p in given_inputs.problems}
    assert found == {
        ("bad-limit", 3), ("unknown-key", 4), ("bad-limit", 5), ("bad-yaml", 7), ("bad-limit", 10), ("duplicate-tenant", 11),
    }  # fmt: skip
    rows = given_inputs.table("overrides")
    assert dict(zip(rows["tenant"], rows["tenant_shards"], strict=True)) == {"a": None, "c": 8}


@pytest.mark.parametrize(
    "text",
    [
        b"- a\n- b\n",
        b"overrides: [1, 2]\n",
        b"overrides: text\n",
        b"overrides:\n  a: &x {k: 1}\n  b: *x\n",
        b"overrides:\n\ta: 1\n",
        b"overrides: {a: {b: " + b"[" * 500 + b"]" * 500 + b"}}\n",
        b"overrides: !!python/object/apply:os.system ['true']\n",
        b"overrides:\n  a: {adaptive_placement_tenant_shards: 2026-01-01}\n",
        b"overrides:\n  ? [complex, key]\n  : {adaptive_placement_tenant_shards: 1}\n",
        b"\xff\xfeoverrides: 1\n",
    ],
)
def test_yaml_that_is_no_mapping(text: bytes) -> None:
    result = inputs({"overrides.yaml": text, "ring.json": page(THREE)})
    assert result.problems
    assert all(p.path == "overrides.yaml" for p in result.problems)


def test_configmap_lines() -> None:
    text = b"""apiVersion: v1
kind: ConfigMap
data:
  other: x
  overrides.yaml: |
    overrides:
      a:
        adaptive_placement_tenant_shards: oops
      b:
        adaptive_placement_tenant_shards: 5
"""
    given_inputs = inputs({"cm.yaml": text})
    assert [(p.kind, p.line) for p in given_inputs.problems] == [("bad-limit", 8)]
    assert given_inputs.table("overrides")["tenant_shards"].to_list() == [None, 5]


def test_load_table_mistakes() -> None:
    text = (
        b"tenant,dataset,bytes_per_s,fingerprint\n"
        b"t,a,100,0x00000000000000ff\n"
        b"t,b,-5,\n"
        b"t,c,NaN,\n"
        b"t,d,inf,\n"
        b"t,e,many,\n"
        b"t,f,1e300,\n"
        b"t,g,50,nothex\n"
        b"\n"
        b"t,h\n"
        b't,"i, j",7,\n'
        b"t,k,8,ff,extra\n"
    )
    given_inputs = inputs({"l.csv": text, "ring.json": page(THREE)})
    found = {(p.kind, p.line, p.count) for p in given_inputs.problems}
    assert ("negative-rate", 3, 1) in found
    assert ("bad-fingerprint", 8, 1) in found
    assert ("bad-rate", 4, 4) in found
    assert ("bad-line", 12, 1) in found
    rows = given_inputs.table("loads")
    assert rows["dataset"].to_list() == ["a", "g", "i, j"]
    assert rows["fingerprint"].to_list() == [255, None, None]
    result = VIEW.compute(given_inputs, RingParameters(), Context(now_ms=0))
    assert result.tables["nodes"]["load_before"].sum() == 157
    prints = result.tables["placements"]["fingerprint"].to_list()
    assert prints == ["00000000000000ff", None, None]


def test_load_table_shapes() -> None:
    frame = pl.DataFrame(
        {"dataset": ["d"], "tenant": ["t"], "bytes_per_s": [12], "fingerprint": pl.Series([2**64 - 1], dtype=pl.UInt64)}
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    given_inputs = inputs({"l.parquet": buffer.getvalue()})
    assert given_inputs.table("loads").row(0)[:6] == ("t", None, "d", None, 12.0, 2**64 - 1)
    other = io.BytesIO()
    pl.DataFrame({"x": [1]}).write_parquet(other)
    assert not inputs({"l.parquet": other.getvalue()}).table("loads").height
    cut = inputs({"l.parquet": buffer.getvalue()[:-5]})
    assert [p.kind for p in cut.problems] == ["bad-parquet"]
    crlf = inputs({"l.csv": b"\xef\xbb\xbfTenant, Dataset ,bytes_per_s\r\nt,d,5\r\n"})
    assert crlf.table("loads")["bytes_per_s"].to_list() == [5.0]
    no_end = inputs({"l.csv": b"tenant,dataset,bytes_per_s\nt,d,5\nt,e,6"})
    assert no_end.table("loads").height == 2
    assert [p.kind for p in no_end.problems] == ["cut-file"]
    kind = next(k for k in KINDS if k.id == "load-table")
    growing = kind.read(Source("l", "l.csv", 1, 9), b"tenant,dataset,bytes_per_s\nt,d,5\nt,e,6", None, False)
    assert pl.DataFrame(growing.rows["loads"]).height == 1
    quote = inputs({"l.csv": b'tenant,dataset,bytes_per_s\nt,"d,5\nt,e,6\n'})
    assert quote.table("loads")["bytes_per_s"].sum() <= 6


def test_hostile_text_is_clean_and_still_hashed_as_written() -> None:
    name = "a\x1b[31mb\u202e"
    loads = ("tenant,dataset,bytes_per_s\n" + f"{name},svc,10\n").encode()
    result = result_of({"ring.json": page(THREE), "l.csv": loads})
    row = result.tables["placements"].row(0, named=True)
    assert "\x1b" not in row["tenant"] and "\u202e" not in row["tenant"]
    from engine.ring_placement.reading.cluster import read_cluster
    from engine.ring_placement.reading.cluster_keys import build_keys

    cluster = read_cluster(inputs({"ring.json": page(THREE), "l.csv": loads}), "", "auto", None)
    from engine.ring_placement.pyroscope.ring import Ring

    keys, _ = build_keys(cluster, Ring.of(THREE))
    assert int(keys.tenant_hash[0]) == xxh64(name)
    odd = json.loads(page(THREE))
    odd["shards"][0]["id"] = "w\x07[/b]"
    result = result_of({"ring.json": json.dumps(odd).encode()})
    assert "odd-id" in kinds(result)
    assert all("\x07" not in i for i in result.tables["nodes"]["instance"])


def test_impossible_rates_in_protobuf() -> None:
    from engine.ring_placement.pyroscope.distribution import DatasetStats, DistributionStats

    stats = DistributionStats(
        (
            DatasetStats("t", "a", ((1, "w-0"), (2, "w-1")), (2**63, 7), 1),
            DatasetStats("t", "b", ((2**40, "w-1"),), (5,), 1),
        ),
        1,
    )
    result = result_of({"ring.json": page(THREE), "placement_stats.binpb": placement_files.write_stats(stats)})
    assert "bad-rate" in kinds(result)
    assert result.tables["nodes"]["load_before"].sum() == 7


def test_metrics_with_wrong_values() -> None:
    name = b"pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second"
    lines = [
        b'%s{dataset="d",shard_id="1",shard_owner="w-0",tenant="t"} 5',
        b'%s{dataset="d",shard_id="2",shard_owner="w-0",tenant="t"} NaN',
        b'%s{dataset="d",shard_id="3",shard_owner="w-0",tenant="t"} -4',
        b'%s{dataset="d",shard_id="x",shard_owner="w-0",tenant="t"} 4',
        b'%s{dataset="d",shard_id="99",shard_owner="w-0",tenant="t"} 4',
        b'%s{dataset="d",shard_id="4",shard_owner="ghost",tenant="t"} 4',
    ]
    text = b"\n".join(line % name for line in lines) + b"\n"
    result = result_of({"ring.json": page(THREE), "m.prom": text})
    assert {"bad-rate", "bad-shard"} <= kinds(result)
    drift = dict(zip(result.tables["observed"]["shard"], result.tables["observed"]["drift"], strict=True))
    assert drift[99] == "no-such-shard" and drift[4] == "unknown-instance"
    assert result.tables["nodes"]["load_before"].sum() == 13


def test_formats_refuse_nonsense() -> None:
    for data in (b"", b"\xff" * 6, b"\xff\xff\xff\xff\x0f", b"\x05\x00a", b"\x05\x01\x00", b"\x02\x08abc"):
        with pytest.raises(snappy.SnappyError):
            snappy.unpack(data)
    for data in (b"\xff" * 11, b"\x00", b"\x0b", b"\x0a\x05a", b"\x09a", b"\x80"):
        with pytest.raises(protobuf.WireError):
            list(protobuf.fields(data))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_snappy_round_trip(data: bytes) -> None:
    assert snappy.unpack(snappy.pack(data)) == data


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)))
def test_varint_round_trip(values: list[int]) -> None:
    data = protobuf.write_packed(1, values)
    if values:
        ((_, _, start, end),) = protobuf.fields(data)
        assert protobuf.packed(data, start, end) == values
    assert protobuf.signed(2**64 - 1) == -1


def test_keys_to_explain() -> None:
    assert parse_key("t/d").dataset == "d"
    assert parse_key("t/a/b@00000000000000ff").fingerprint == 255
    assert parse_key("t/a@x").dataset == "a@x"
    labelled = parse_key('t{namespace="n", a="x"}')
    assert labelled.dataset == "unknown_service"
    assert [n for n, _ in labelled.labels] == ["a", "namespace", "service_name"]
    with pytest.raises(BadKey):
        parse_key("t{a=1}")
    result = result_of({"ring.json": page(THREE)}, explain="t{oops}")
    assert "bad-option" in kinds(result)


def test_times() -> None:
    assert epoch_ns("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert epoch_ns("0001-01-01T00:00:00Z") < 0
    assert epoch_ns("2026-11-20 23:31:54 +0000 UTC") == epoch_ns("2026-11-20T23:31:54Z")
    assert epoch_ns("2026-11-20T23:31:54+02:00") == epoch_ns("2026-11-20T21:31:54Z")
    for bad in ("", "now", "2026-13-01T00:00:00Z", "2026-11-20"):
        with pytest.raises(ValueError):
            epoch_ns(bad)
