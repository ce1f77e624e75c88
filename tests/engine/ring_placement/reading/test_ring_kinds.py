"""Every form of a ring gives the same ring; the kind of ring is told by content, never guessed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from engine.core.reading import Source
from engine.core.view import Context
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.ring_exports import RingHtml, StoreExport
from engine.ring_placement.view import VIEW
from tests.engine.ring_placement.cases import inputs, kinds, page
from tests.engine.ring_placement.dskit.golden import load
from tests.reference import reference


def native(name: str) -> bytes:
    return (reference("dskit-rings") / "native" / name).read_bytes()


def compute(files: dict[str, bytes], **more: Any) -> Any:
    return VIEW.compute(inputs(files), RingParameters(**more), Context(now_ms=0))


RING_FORMS = ("page.json", "page-tokens.html", "viewkey.json", "kv.bin", "consul.json")


@pytest.mark.parametrize("name", ["d_native_odd", "d_native_n3"])
def test_all_forms_give_the_same_ring(name: str) -> None:
    case = next(c for c in load("rings.json.gz")["rings"] if c["name"] == name)
    owned = {i: own / SPACE for i, own in zip(case["sorted_ids"], case["count_tokens"], strict=True)}
    for form in RING_FORMS:
        result = compute({f"{name}.{form}": native(f"{name}.{form}")}, now=str(case["now"]))
        nodes = result.tables["nodes"]
        assert dict(zip(nodes["instance"], nodes["ownership"], strict=True)) == owned, form
        assert result.summary["strategy"] == "token-ring"
        assert not kinds(result), (form, result.problems)
        heartbeats = dict(zip(nodes["instance"], nodes["heartbeat_ms"], strict=True))
        assert heartbeats == {i["id"]: i["ts"] * 1000 for i in case["instances"]}, form
        if name == "d_native_odd":
            assert result.summary["write_lost_share"] == pytest.approx(
                case["lost_keys_write_no_extend"] / SPACE, rel=1e-9
            )
    plain = compute({f"{name}.page.html": native(f"{name}.page.html")})
    assert plain.summary["strategy"] == "" and "tokens=true" in plain.notes[1]
    assert plain.tables["nodes"]["tokens"].sum() == sum(len(i["tokens"]) if isinstance(i["tokens"], list) else
                                                        i["tokens"]["md5"] for i in case["instances"])  # fmt: skip
    printed = dict(zip(plain.tables["nodes"]["instance"], plain.tables["nodes"]["ownership"], strict=True))
    for member, own in owned.items():  # the page prints three digits
        assert printed[member] == pytest.approx(own, rel=0.005), member
    assert plain.headline[-1].label == "owns most" and plain.tables["nodes"]["load_after"].null_count() == len(owned)
    assert "nothing is placed" in plain.findings[0].text


def test_all_forms_of_partitions() -> None:
    case = next(c for c in load("partition_rings.json.gz")["rings"] if c["name"] == "d_native_p5")
    owners = {
        p["id"]: sorted(o["id"] for o in case["owners"] if o["part"] == p["id"] and o["state"] == 1)
        for p in case["parts"]
    }
    for form in ("page.json", "page.html", "viewkey.json", "kv.bin"):
        result = compute({f"p.{form}": native(f"d_native_p5.partition.{form}")}, now=str(case["now"]))
        assert result.summary["strategy"] == "partition-ring", form
        rows = result.tables["partitions"]
        assert dict(zip(rows["partition"], rows["owners"].to_list(), strict=True)) == owners, form
        assert dict(zip(rows["partition"], rows["changed_ms"], strict=True)) == {
            p["id"]: p["ts"] * 1000 for p in case["parts"]
        }


TWO = [Member(f"node-{i}", "ACTIVE", f"z{i}", 8) for i in range(3)]


def test_an_unknown_kind_asks_for_the_option() -> None:
    result = compute({"ring.json": page(TWO)})
    assert result.summary["strategy"] == ""
    assert result.headline[0].value == "of unknown kind" and "-o strategy=" in result.headline[0].basis
    assert set(result.tables) == {"nodes"} and result.tables["nodes"]["load_after"].null_count() == 3
    assert [f.level for f in result.findings] == ["severe"]
    for strategy in ("segment-writer", "token-ring"):
        told = compute({"ring.json": page(TWO)}, strategy=strategy)
        assert (told.summary["members"] == 3 and "shards" in told.tables) or "tenants" in told.tables


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"ring.json": page(TWO), "loads.csv": b"tenant,dataset,bytes_per_s\na,b,1\n"}, "shards"),
        ({"ring.json": page(TWO), "keys.csv": b"tenant,token\na,5\n"}, "tenants"),
        ({"ring.json": page(TWO), "m.prom": b'loki_distributor_bytes_received_total{tenant="a"} 5\n'}, "tenants"),
        ({"loki/ring.json": page(TWO)}, "tenants"),
        ({"segment-writer-ring.json": page(TWO)}, "shards"),
        ({"ring.json": page([Member(f"ingester-{i}", "ACTIVE", "z", 8) for i in range(3)])}, "tenants"),
    ],
)
def test_kind_of_a_ring_from_its_surroundings(files: dict[str, bytes], kind: str) -> None:
    result = compute(files)
    assert kind in result.tables
    assert any(line.label == "ring" and line.basis for line in result.headline)


def test_two_products_in_one_folder() -> None:
    mixed = {
        "ring.json": page(TWO),
        "loads.csv": b"tenant,dataset,bytes_per_s\na,b,1\n",
        "keys.csv": b"tenant,token\na,5\n",
    }
    result = compute(mixed)
    assert result.summary["strategy"] == "" and "both Pyroscope and Mimir" in result.findings[0].text
    apart = {
        "pyroscope/ring.json": page([Member(f"segment-writer-{i}", "ACTIVE", "", 4) for i in range(3)]),
        "pyroscope/loads.csv": b"tenant,dataset,bytes_per_s\na,b,7\n",
        "mimir/ring.json": page(TWO),
        "mimir/keys.csv": b"tenant,token\nm,5\n",
    }
    result = compute(apart)
    assert result.summary["load_total"] == 7 and result.summary["rings"] == ["mimir/ring.json", "pyroscope/ring.json"]
    other = compute(apart, ring="mimir/ring.json")
    assert other.tables["tenants"]["tenant"].to_list() == ["m"]


def test_damaged_rings() -> None:
    conflict = {"ingesters": {"a": {"tokens": [1, 5], "timestamp": 9}, "b": {"tokens": [5, 7], "timestamp": 9},
                              "gone": {"state": 4, "tokens": [3]}, "none": {"timestamp": 9}}}  # fmt: skip
    result = compute({"ring.json": json.dumps(conflict).encode()}, strategy="token-ring", heartbeat_timeout=0)
    assert {"token-conflict", "left-member", "no-tokens"} <= kinds(result)
    assert result.summary["tokens"] == 3
    empty = compute({"ring.json": b'{"ingesters":{}}'}, strategy="token-ring")
    assert any("empty ring" in f.text for f in empty.findings) and "empty-ring" in kinds(empty)
    bad = {"ingesters": {"a": {"tokens": [1, -5], "timestamp": 9}, "b": {"tokens": [2, 2**40]}, "c": {"tokens": [9]}}}
    result = compute({"ring.json": json.dumps(bad).encode()}, strategy="token-ring", heartbeat_timeout=0)
    assert "bad-tokens" in kinds(result) and result.summary["tokens"] == 1
    half = native("d_native_odd.page-tokens.html")
    reading = RingHtml().read(Source("x", "x", 1, 1), half[: half.index(b"</table>") - 5], None, True)
    assert not reading.complete and [p.kind for p in reading.problems] == ["cut-file"]


@pytest.mark.parametrize(
    ("cell", "share"),
    [("37.4%", 0.374), ("100%", 1.0), ("250%", 1.0), ("", None), ("NaN%", None), ("1e999%", None), ("-5%", None)],
)
def test_ownership_that_a_page_prints(cell: str, share: float | None) -> None:
    html = native("d_native_n3.page.html").replace(b"<td>37.4%</td>", f"<td>{cell}</td>".encode())
    rows = RingHtml().read(Source("x", "x", 1, 1), html, None, True).rows["members"]
    assert isinstance(rows, dict) and rows["owned"][0] == share


def test_exports_that_hold_more_than_rings() -> None:
    ring = json.loads(native("d_native_n3.consul.json"))
    other = {"Key": "collectors/compactor", "Value": base64.b64encode(b"not snappy").decode()}
    text = json.dumps([other, {"Key": "x", "Value": None}, *ring, "odd"]).encode()
    result = compute({"consul.json": text}, now="1795217515")
    assert result.summary["members"] == 3 and result.summary["strategy"] == "token-ring"
    etcd = {"kvs": [{"key": base64.b64encode(b"collectors/ring").decode(), "value": ring[0]["Value"]}]}
    assert compute({"etcd.json": json.dumps(etcd).encode()}, now="1795217515").summary["members"] == 3


def test_keys_of_all_systems() -> None:
    for entry in load("token_functions.json")["tokens"][:60]:
        column, text = {
            "mimir_series": ("series", "{" + ",".join(f'{k}="{v}"' for k, v in entry.get("labels", [])) + "}"),
            "loki_stream": ("stream", entry.get("stream", "")),
            "tempo_trace": ("trace_id", entry.get("trace_id", "")),
            "mimir_metadata": ("", ""),
        }[entry["kind"]]
        if not column:
            continue
        quoted = text.replace('"', '""')
        body = f'tenant,{column},bytes_per_s\n{entry["tenant"]},"{quoted}",2.5\n'.encode()
        table = inputs({"keys.csv": body}).table("keys")
        assert table.select("tenant", "token", "weight").rows() == [(entry["tenant"], entry["token"], 2.5)], entry


def test_bad_keys_are_left_out() -> None:
    body = b"tenant,token,bytes_per_s\na,5,1\nb,x,1\nc,4294967296,1\nd,7,-1\n"
    given = inputs({"keys.csv": body})
    assert given.table("keys")["tenant"].to_list() == ["a"]
    assert [p.line for p in given.problems] == [3, 5] or {p.line for p in given.problems} == {3, 5}


def test_loads_of_tenants_are_divided_by_the_replication_factor() -> None:
    lines = "".join(
        f'cortex_ingester_memory_series_created_total{{instance="ingester-{i}",user="t"}} 30\n'
        f'cortex_ingester_memory_series_removed_total{{instance="ingester-{i}",user="t"}} 20\n'
        for i in range(3)
    )
    members = {f"ingester-{i}": {"tokens": [i + 1, i + 100], "timestamp": 1795217514} for i in range(3)}
    ring = json.dumps({"ingesters": members}).encode()
    result = compute({"ring.json": ring, "m.prom": lines.encode()}, now="1795217515")
    assert result.summary["load_total"] == 10 and result.summary["load_source"] == "series"
    assert (
        result.tables["nodes"]["load_after"].to_list()
        == [10, 10, 10]
        == result.tables["nodes"]["load_observed"].to_list()
    )


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ('[{"LockIndex": 0, "Key": "collectors/ring", "Value": "AA=="}]', True),
        ('[\n\t{\n\t\t"key": "collectors/ring",\n\t\t"flags": 0,\n\t\t"value": "AA=="\n\t}\n]', True),
        ('{"header": {"revision": 3}, "kvs": [{"key": "YQ==", "value": "AA=="}], "count": 1}', True),
        ('{"spec": {"headers": [{"key": "Accept", "value": "*/*"}]}, "result": {}}', False),
        ('[{"name": "run", "labels": [{"key": "tool", "value": "x"}]}]', False),
    ],
)
def test_other_documents_with_keys_and_values_are_not_stores(text: str, taken: bool) -> None:
    assert StoreExport().recognise("x.json", text.encode()) == taken
