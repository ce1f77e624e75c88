"""Odd values and files made to take time: a problem each, and the good records of the same file stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.reading import Problems, Reading, Source
from engine.formats.protobuf import MOST_FIELDS
from engine.formats.yaml_tree import MOST_NODES
from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats, Rule, Rules
from engine.ring_placement.reading.bucket_files import Block as StoredBlock
from engine.ring_placement.reading.bucket_files import BlockDataset, block_footer
from engine.ring_placement.reading.document import MOST_MEMBERS
from engine.ring_placement.reading.ring_exports import RingHtml
from engine.ring_placement.view import KINDS
from sample_data.ring_placement.encode import write_block, write_rules, write_stats
from sample_data.ring_placement.protobuf import write_bytes, write_int, write_packed
from tests.engine.ring_placement.cases import kinds, page, result_of

READERS = {kind.id: kind for kind in KINDS}


def read(kind: str, data: bytes, name: str = "x") -> Reading:
    """The reading of ``data``; its rows fit their tables."""
    reader = READERS[kind]
    reading: Reading = reader.read(Source(f"/d/{name}", name, 1, len(data)), data, None, True)
    for table in reader.tables:
        if table.name in reading.rows:
            table.frame(reading.rows[table.name])
    return reading


def snappy(data: bytes) -> bytes:
    """A block of literals."""
    size, out = len(data), bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    for at in range(0, len(data), 60):
        piece = data[at : at + 60]
        out += bytes([(len(piece) - 1) << 2]) + piece
    return bytes(out)


DEEP = json.loads("[" * 150 + "]" * 150)
ODD: list[Any] = [None, True, 0, -1.5, 10**300, "", "\x1b[2J", [], {}, [[1]], {"a": {}}, DEEP]


@pytest.mark.parametrize(
    "field", ["id", "state", "address", "zone", "tokens", "timestamp", "registered_timestamp", "read_only"]
)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_an_odd_member_does_not_hide_the_others(field: str, odd: int) -> None:
    good = {"id": "good", "state": "ACTIVE", "tokens": [1], "timestamp": "2026-11-20T23:31:55Z"}
    shards = [{**good, "id": "odd", field: ODD[odd]}, good]
    reading = read("ring-page", json.dumps({"shards": shards, "now": "2026-11-20T23:32:00Z"}).encode())
    assert "good" in reading.rows["members"]["id"]
    entries = {"odd": {"addr": "a", "tokens": [1], field: ODD[odd]}, "good": {"tokens": [1]}, "": ODD[odd]}
    assert "good" in read("memberlist-json", json.dumps({"ingesters": entries}).encode()).rows["members"]["id"]
    everything = json.dumps({"shards": ODD[odd], "now": ODD[odd]}).encode()
    assert read("ring-page", everything).problems


def test_a_value_too_deep_or_too_long_for_the_decoder_is_skipped_alone() -> None:
    for odd in ("[" * 100_000 + "]" * 100_000, "9" * 10_000):
        data = f'{{"shards":[{{"id":"a","state":"ACTIVE","tokens":[1],"x":{odd}}},{{"id":"b","state":"ACTIVE","tokens":[2]}}]}}'
        assert read("ring-page", data.encode()).rows["members"]["id"] == ["a", "b"]
        data = f'{{"ingesters":{{"a":{{"tokens":{odd}}},"b":{{"tokens":[1]}}}}}}'
        assert read("memberlist-json", data.encode()).rows["members"]["id"] == ["a", "b"]


def test_a_damaged_member_of_a_downloaded_key_does_not_hide_the_others() -> None:
    good = write_bytes(1, write_bytes(1, b"good") + write_bytes(2, write_packed(6, [1, 2])))
    bad = [
        write_bytes(1, write_bytes(1, b"\xff\xfe") + write_bytes(2, b"")),
        write_bytes(1, write_bytes(1, b"cut") + write_bytes(2, b"\x32\x09a")),
        write_bytes(1, write_bytes(1, b"number") + write_bytes(2, write_packed(6, [1])[:-1] + b"\x80")),
        write_int(1, 5),
    ]
    reading = read("memberlist-binary", snappy(b"".join([good, *bad])))
    assert reading.rows["members"]["id"] == ["good"]
    assert [p.kind for p in reading.problems] == ["bad-member"] * 4
    assert all(p.byte is not None for p in reading.problems)


def test_a_damaged_dataset_does_not_hide_the_others() -> None:
    rules = write_rules(Rules(("t",), (Rule("t", "a", 0, 1, 1), Rule("t", "b", 0, 2, 1)), 5))
    bad = write_bytes(2, write_int(1, 9) + write_bytes(2, b"x")) + write_bytes(2, b"\x12\x7fx")
    reading = read("placement-rules", bad + rules)
    assert reading.rows["rules"]["dataset"] == ["a", "b"]
    assert [p.kind for p in reading.problems] == ["bad-record"] * 2
    stats = write_stats(DistributionStats((DatasetStats("t", "a", ((1, "w"),), (5,), 0),), 5))
    bad += write_bytes(2, write_packed(3, [0, 0]) + write_packed(4, [1])) + write_bytes(
        2, write_packed(3, [7]) + write_packed(4, [1])
    )
    reading = read("placement-stats", stats + bad)
    assert reading.rows["stats"]["dataset"] == ["a"]
    assert len(reading.problems) == 4


def test_a_damaged_dataset_of_a_block_does_not_hide_the_others() -> None:
    block = StoredBlock("01JKT426996H1XWCX1M1ZQFRJ6", 3, 0, 1, 2, "w", (BlockDataset("t", "a", 5, False),))
    data = write_block(block, b"content")
    assert block_footer(data) == block
    import struct

    from engine.ring_placement.reading.bucket_files import crc32c

    length = struct.unpack(">I", data[-8:-4])[0]
    meta = data[-8 - length : -8] + write_bytes(10, write_int(1, 99))
    body = meta + struct.pack(">I", len(meta))
    reading = read("block", body + struct.pack(">I", crc32c(body)), "block.bin")
    assert reading.rows["blocks"]["dataset"] == ["a"]
    assert [p.kind for p in reading.problems] == ["bad-record"]


@pytest.mark.parametrize(
    "odd",
    [
        "*nothing", "&x [*x]", "[" * 200 + "]" * 200, "12", "[1]", "!!python/object/apply:os.system [a]", "'\\e[2J'",
        "{adaptive_placement_tenant_shards: " + "9" * 5000 + "}", "{adaptive_placement_tenant_shards: 0x" + "f" * 5000 + "}",
        "{adaptive_placement_burst_window: " + "1:" * 50_000 + "1}", "{adaptive_placement_decay_window: " + "1h" * 50_000 + "1}",
        "{adaptive_placement_tenant_shards: 1e400}", "{adaptive_placement_tenant_shards: [1]}", "{[a]: 1}", "{? {a: b} : c}",
    ],
)  # fmt: skip
def test_an_odd_tenant_does_not_hide_the_others(odd: str) -> None:
    good, last = "{adaptive_placement_tenant_shards: 5}", "{ingestion_tenant_shard_size: 3}"
    data = f"overrides:\n  good: {good}\n  odd: {odd}\n  last: {last}\n"
    reading = read("overrides", data.encode(), "overrides.yaml")
    rows = dict(zip(reading.rows["overrides"]["tenant"], reading.rows["overrides"]["tenant_shards"], strict=True))
    assert rows["good"] == 5
    assert "last" in rows
    assert reading.problems
    assert {p.line for p in reading.problems} == {3}


def test_tenants_may_share_limits_by_aliases_and_merges() -> None:
    text = b"""
small: &small {adaptive_placement_tenant_shards: 2, adaptive_placement_unit_size_bytes: 7}
large: &large
  <<: *small
  adaptive_placement_tenant_shards: 9
overrides:
  a: *small
  b: *large
  c: {<<: [*large, *small], adaptive_placement_load_balancing: round-robin}
  d: {adaptive_placement_tenant_shards: -1, ingestion_tenant_shard_size: 4}
  <<: {e: {adaptive_placement_tenant_shards: 3}, a: {}}
"""
    reading = read("overrides", text, "overrides.yaml")
    rows = reading.rows["overrides"]
    columns = ("tenant", "tenant_shards", "unit_size", "load_balancing", "ingestion_shards")
    assert list(zip(*(rows[name] for name in columns), strict=True)) == [
        ("a", 2, 7, None, None), ("b", 9, 7, None, None), ("c", 9, 7, "round-robin", None), ("d", None, None, None, 4),
        ("e", 3, None, None, None),
    ]  # fmt: skip
    assert [(p.kind, p.line) for p in reading.problems] == [("bad-limit", 10)]


def test_nested_aliases_take_linear_time() -> None:
    laughs = "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 100))
    merges = "m0: &m0 {k: 1}\n" + "".join(f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}\n" for i in range(1, 5000))
    text = f"{laughs}{merges}overrides:\n  a: *a99\n  b: {{<<: *m4999}}\n  c: {{adaptive_placement_tenant_shards: 1}}\n"
    assert read("overrides", text.encode(), "o.yaml").rows["overrides"]["tenant_shards"] == [None, 1]


def html_page(before: bytes = b"", beat: bytes = b"5s ago (09:00:10)") -> bytes:
    """A ring page with one member, and ``before`` its row."""
    head = b"".join(b"<th>%b</th>" % name for name in (b"Instance ID", b"State", b"Last Heartbeat"))
    row = b"<td>node-1</td><td>ACTIVE</td><td>%b</td>" % beat
    return b"<html><p>Current time: 2026-01-02 09:00:15 &#43;0000 UTC</p><table><tr>%b</tr>%b<tr>%b</tr></table></html>" % (
        head, before, row)  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [b"<tr", b"<tr/", b"<td class='", b"</", b"<!--", b"<", b"<t ", b"&#", b"&#x", b"<a b=c>", b"&#1;" + b"1" * 9],
)
def test_markup_without_end_hides_no_row_of_a_page(odd: bytes) -> None:
    rows = read("ring-html", html_page(odd * (LONG // len(odd)))).rows["members"]
    assert (rows["id"][-1], rows["heartbeat_s"][-1]) == ("node-1", 1767344410)


def test_a_heartbeat_that_is_no_time_is_unknown() -> None:
    beats = [b"1" * LONG, b"1" * LONG + b"s ago (09:00:10)", b"&#" + b"1" * 9_999 + b";", b"5s ago (29:61:61)", b""]
    assert [read("ring-html", html_page(b"", beat)).rows["members"]["heartbeat_s"] for beat in beats] == [[None]] * 5


LONG = 120_000
"""Bytes of the files below: in quadratic time each would take minutes at least."""
SLOW = {
    "ids with escapes": ("ring-page", b'{"shards":[' + b",".join(b'{"id":"\\u0061%d"}' % i for i in range(LONG // 16)) + b"]}"),
    "empty members": ("ring-page", b'{"shards":[' + b"{}," * (LONG // 3) + b"{}]}"),
    "repeated members": ("memberlist-json", b'{"ingesters":{' + b",".join([b'"a":{}'] * (LONG // 7)) + b"}}"),
    "short lines": ("load-table", b"tenant,dataset,bytes_per_s" + b",c" * 1800 + b"\n" + b"a\n" * (LONG // 2)),
    "short lines and a quote": ("load-table", b"tenant,dataset,bytes_per_s" + b",c" * 1800 + b"\n" + b"a\n" * (LONG // 2) + b'"'),
    "brackets": ("overrides", b"overrides: " + b"[" * LONG),
    "brackets again and again": ("overrides", b"x: [" + (b"[" * 200 + b"]" * 200 + b",") * (LONG // 400) + b"]\noverrides: {}\n"),
    "blank lines": ("overrides", b"data:\n  o.yaml: |\n" + b"\n" * LONG),
    "one text under many names": (
        "overrides",
        b"data:\n  t: &t |\n" + b"    k: v\n" * (LONG // 20) + b"".join(b"  a%d.yaml: *t\n" % i for i in range(LONG // 40)),
    ),
    "a merged mapping": (
        "overrides",
        b"a: &a {" + b",".join(b"k%d: 1" % i for i in range(LONG // 20)) + b"}\noverrides:\n"
        + b"".join(b"  t%d: {<<: *a}\n" % i for i in range(LONG // 40)),
    ),
    "digits": ("overrides", b"overrides: {a: {adaptive_placement_burst_window: '" + b"1" * LONG + b"'}}\n"),
    "blanks in a type": ("placement-metrics", b"pyroscope_ring_members 1\n# TYPE a" + b" " * LONG + b"!\n"),
    "label pairs": ("placement-metrics", b"pyroscope_ring_members{" + b'a="b" ' * (LONG // 6) + b"} 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_linear_time(name: str) -> None:
    kind, data = SLOW[name]
    reader = READERS[kind]
    reader.recognise("overrides.yaml" if kind == "overrides" else "x", data[:8192])
    assert len(read(kind, data).problems) <= 2 * Problems.MOST + 5


def test_one_long_name_many_times_takes_little_memory() -> None:
    rules = (
        write_bytes(1, write_bytes(1, b"t" * 100_000)) + write_bytes(2, write_bytes(2, b"d") + write_int(3, 1)) * 20_000
    )
    rows = read("placement-rules", rules).rows["rules"]
    assert sum(map(len, rows["tenant"])) < 20_000 * 600


def test_problems_of_a_file_are_bounded_and_counted() -> None:
    members = b",".join(b'{"id":"a%d","state":"x%d"}' % (i, i) for i in range(5000))
    reading = read("ring-page", b'{"shards":[' + members + b"]}")
    assert len(reading.problems) <= 2 * Problems.MOST
    assert sum(p.count for p in reading.problems) == 5000


def test_names_are_shown_whole_and_harmless() -> None:
    name = "writer-" + "x" * 2000 + "\x1b]0;title\x07\u202e\x9b2J-1"
    result = result_of(
        {"ring.json": page([]).replace(b"[]", json.dumps([{"id": name, "state": "ACTIVE", "tokens": [1]}]).encode())}
    )
    (shown,) = result.tables["nodes"]["instance"]
    assert shown == "writer-" + "x" * 2000 + "·]0;title··\u00b72J-1"
    assert "odd-id" in kinds(result)


def test_a_page_that_is_cut_off_is_never_a_ring() -> None:
    """Wherever a page of members with tokens ends too early, in any of its forms, nothing is placed by what is left."""
    members = "".join(f"<tr><td>ingester-{k}</td><td></td><td>ACTIVE</td><td>a</td><td>1</td></tr>" for k in range(3))
    tokens = "".join(f"<h2>Instance: ingester-{k}</h2><p>{k + 5}</p>" for k in range(3))
    head = "".join(f"<th>{name}</th>" for name in ("Instance ID", "Availability Zone", "State", "Address", "Tokens"))
    page = f"<html><body><table><tr>{head}</tr>{members}</table>{tokens}</body></html>\n".encode()
    source = Source("/ingester-ring.html", "ingester-ring.html", 0, len(page))
    assert len(RingHtml().read(source, page, None, True).rows["members"]["id"]) == 3
    for end in range(0, len(page) - 8, 7):
        reading = RingHtml().read(source, page[:end], None, True)
        assert not reading.rows and [p.kind for p in reading.problems] == ["cut-file"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("memberlist-binary", snappy(write_bytes(1, write_bytes(1, b"i") + write_bytes(2, b"")) * (MOST_MEMBERS + 1))),
        (
            "memberlist-binary",
            snappy(write_bytes(1, write_bytes(1, b"i") + write_bytes(2, b"\x10\x01" * (MOST_FIELDS + 1)))),
        ),
        ("memberlist-json", b'{"ingesters":{' + b",".join(b'"%d":{}' % n for n in range(MOST_MEMBERS + 20)) + b"}}"),
        ("overrides", b"ingester:\n  ring:\n" + b"  - b\n" * (MOST_NODES + 1)),
    ],
    ids=["members", "fields", "objects", "values"],
)
def test_more_than_is_read_is_a_problem(kind: str, data: bytes) -> None:
    assert "more than" in read(kind, data).problems[0].reason
