"""Load tables: shapes, mistakes, and hostile texts."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest

from engine.core.reading import Source
from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Ring, xxh64
from engine.ring_placement.reading import load_table
from engine.ring_placement.scenarios.cluster import read_cluster
from engine.ring_placement.scenarios.segment_writers import build_keys
from engine.ring_placement.tables import LOADS
from engine.ring_placement.view import KINDS, VIEW
from tests.engine.ring_placement.cases import (
    THREE,
    inputs,
    kinds,
    page,
    result_of,
)


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


@pytest.mark.parametrize("beside", [b"", b"t,k,8,ff,extra\n"])
def test_a_bad_line_does_not_drop_a_line_with_a_carriage_return(beside: bytes) -> None:
    text = b"tenant,dataset,bytes_per_s,fingerprint\nt,a\rb,100,ff\n" + beside
    given_inputs = inputs({"l.csv": text, "ring.json": page(THREE)})
    assert given_inputs.table("loads").select("dataset", "bytes_per_s").rows() == [("a·b", 100.0)]


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
    assert LOADS.frame(growing.rows["loads"]).height == 1
    quote = inputs({"l.csv": b'tenant,dataset,bytes_per_s\nt,"d,5\nt,e,6\n'})
    assert quote.table("loads")["bytes_per_s"].sum() <= 6


def test_hostile_text_is_clean_and_still_hashed_as_written() -> None:
    name = "a\x1b[31mb\u202e"
    loads = ("tenant,dataset,bytes_per_s\n" + f"{name},svc,10\n").encode()
    result = result_of({"ring.json": page(THREE), "l.csv": loads})
    row = result.tables["placements"].row(0, named=True)
    assert "\x1b" not in row["tenant"] and "\u202e" not in row["tenant"]

    cluster = read_cluster(inputs({"ring.json": page(THREE), "l.csv": loads}), "", "auto", None)

    keys, _ = build_keys(cluster, Ring.of(THREE))
    assert int(keys.tenant_hash[0]) == xxh64(name)
    odd = json.loads(page(THREE))
    odd["shards"][0]["id"] = "w\x07[/b]"
    result = result_of({"ring.json": json.dumps(odd).encode()})
    assert "odd-id" in kinds(result)
    assert all("\x07" not in i for i in result.tables["nodes"]["instance"])


def test_keys_without_a_fingerprint_are_added_up_by_dataset_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Millions of keys take no more than their datasets; line numbers of a table read in blocks are those of the file."""
    kind = next(k for k in KINDS if k.id == "load-table")
    lines = [f"t{n % 3},d{n % 7},{n},{format(n, 'x') if n % 50 == 0 else ''}\n" for n in range(1, 2001)]
    lines[300] = lines[1500] = "t,d,oops,\n"
    text = ("tenant,dataset,bytes_per_s,fingerprint\n" + "".join(lines)).encode()[:-1]
    source = Source("l", "l.csv", 1, len(text))
    whole = kind.read(source, text, None, True)
    rows = LOADS.frame(whole.rows["loads"])
    assert rows.height == 40 + 21
    assert rows["bytes_per_s"].sum() == sum(range(1, 2001)) - 301 - 1501
    sizes: list[int] = []
    texts = load_table._texts

    def counted(*arguments: Any) -> Any:
        sizes.append(len(arguments[1]))
        return texts(*arguments)

    monkeypatch.setattr(load_table, "BLOCK", 3_000)
    monkeypatch.setattr(load_table, "_texts", counted)
    for final in (True, False):
        parts = kind.read(source, text, None, final)
        assert max(sizes) < 3_100 and len(sizes) > 5
        assert {(p.kind, p.line, p.count) for p in parts.problems} == {
            ("bad-rate", 302, 2), *([("cut-file", 2001, 1)] if final else ())
        }  # fmt: skip
        order = ["tenant", "dataset", "fingerprint"]
        one, other = (LOADS.frame(each.rows["loads"]).sort(order) for each in (whole, parts))
        assert one.equals(other) is final
