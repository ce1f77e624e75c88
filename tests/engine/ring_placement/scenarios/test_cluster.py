"""Several files, one cluster: what is used, and what it gives."""

from __future__ import annotations

import pytest

from engine.core.parameters import parse
from engine.core.view import Context, NoInput
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.view import VIEW
from sample_data.ring_placement import encode
from tests.engine.ring_placement.cases import (
    THREE,
    inputs,
    kinds,
    load,
    page,
    raw,
    result_of,
)
from tests.reference import reference


def test_no_ring_at_all() -> None:
    with pytest.raises(NoInput):
        result_of({})
    with pytest.raises(NoInput):
        result_of({"overrides.yaml": b"overrides:\n  a:\n    adaptive_placement_tenant_shards: 3\n"})
    result = result_of({"placement_stats.binpb": raw("native/placement_stats.binpb")})
    assert result.tables["observed"].height > 0
    assert result.summary["drift_pairs"] == 0
    assert result.summary["rejected_bytes"] is None and result.summary["load_total"] > 0, "unknown is not rejected"


def test_metrics_and_placement_files() -> None:
    files = {n: raw(f"native/{n}") for n in ("metrics.prom", "placement_rules.binpb", "placement_stats.binpb")}
    files["ring3.page.json"] = raw("native/ring3.page.json")
    given = inputs(files)
    assert sorted(i.kind for i in given.files.values()) == [
        "placement-metrics", "placement-rules", "placement-stats", "ring-page",
    ]  # fmt: skip
    stats = load("native/placement_stats.expected.json")
    total = sum(sum(d["usage"]) for d in stats["datasets"])
    result = VIEW.compute(given, RingParameters(), Context(now_ms=0))
    assert result.summary["load_source"] == "stats"
    assert result.tables["nodes"]["load_before"].sum() == total == result.tables["placements"]["bytes_per_s"].sum()
    usage = VIEW.compute(given, parse(RingParameters, [("load", "usage")]), Context(now_ms=0))
    # The breakdown names one shard of the dataset's four: the dataset's own gauge is the load.
    assert usage.tables["nodes"]["load_before"].sum() == 412345
    sent = VIEW.compute(given, parse(RingParameters, [("load", "sent")]), Context(now_ms=0))
    assert sent.tables["nodes"]["load_before"].sum() == 9437184
    # Such a load has no datasets: the tab says that another ring can only be laid out roughly.
    known = "load known by tenant and shard only"
    assert [n.endswith("such pairs") for n in sent.notes if n.startswith(known)] == [True]
    gone = [("load", "sent"), ("fail", "pyroscope-segment-writer-0"), ("regime", "left")]
    away = VIEW.compute(given, parse(RingParameters, gone), Context(now_ms=0))
    assert [n.endswith("approximate") for n in away.notes if n.startswith(known)] == [True]
    assert not any(n.startswith(known) for n in (*result.notes, *usage.notes))
    # Shard 3 belongs to writer 0, whose address the client's metric names.
    seen = sent.tables["observed"]
    row = seen.filter(seen["source"] == "sent").row(0, named=True)
    assert (row["instance"], row["computed"], row["drift"]) == ("pyroscope-segment-writer-0",) * 2 + ("",)
    units = {r.summary["load_unit"] for r in (result, usage, sent)}
    assert len(units) == 2


def test_limits_and_usage_of_the_metrics_alone() -> None:
    given = inputs({n: raw(f"native/{n}") for n in ("metrics.prom", "ring3.page.json", "overrides.yaml")})
    result = VIEW.compute(given, RingParameters(), Context(now_ms=0))
    placed = result.tables["placements"]
    assert set(placed.select("dataset", "tenant_shards", "dataset_shards", "limits_from").iter_rows()) == {
        ("checkout", 8, 4, "rule")
    }
    assert placed.height == 4
    assert placed["bytes_per_s"].sum() == 412345
    split = b"pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second"
    whole = b"pyroscope_adaptive_placement_dataset_shard_usage_bytes_per_second"
    rows = b"".join(
        split + b'{dataset="d",shard_id="%d",shard_owner="pyroscope-segment-writer-0",tenant="t"} 10\n' % i
        for i in (1, 2)
    )
    full = inputs(
        {
            "m.prom": rows + whole + b'{dataset="d",tenant="t"} 21\n' + whole + b'{dataset="e",tenant="t"} 7\n',
            "ring": raw("native/ring3.page.json"),
        }
    )
    seen = VIEW.compute(full, RingParameters(), Context(now_ms=0))
    assert seen.summary["load_total"] == 27
    found = seen.tables["observed"].select("dataset", "shard", "bytes").sort("dataset", "shard").rows()
    assert found == [("d", 1, 10), ("d", 2, 10), ("e", None, 7)]


def test_recognised_by_content() -> None:
    ring, limits = raw("native/ring3.page.json"), raw("native/overrides.yaml")
    config = b"kind: ConfigMap\ndata:\n  overrides.yaml: |\n" + b"".join(b"    " + x for x in limits.splitlines(True))
    for name, data in (("limits", limits), ("a.txt", config), ("b.yml", config)):
        given = inputs({"r": ring, name: data})
        assert set(given.table("overrides")["tenant"]) == {"anonymous", "1218", "team-b"}
        assert not given.problems
    # Texts that begin with blanks or line ends are no placement files.
    for text in (b"            PARTITION    LEADER\n   clicks.raw-7   1\n", b"\n\n  x\n", b" \x01 ok\n"):
        assert not inputs({"load.txt": text}).problems
    block = next((reference("ring-placement") / "real/blocks").glob("*/block.bin")).read_bytes()
    assert inputs({"renamed": block}).table("blocks").height > 0


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


def test_impossible_rates_in_protobuf() -> None:
    from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats

    stats = DistributionStats(
        (
            DatasetStats("t", "a", ((1, "w-0"), (2, "w-1")), (2**63, 7), 1),
            DatasetStats("t", "b", ((2**40, "w-1"),), (5,), 1),
        ),
        1,
    )
    result = result_of({"ring.json": page(THREE), "placement_stats.binpb": encode.write_stats(stats)})
    assert "bad-rate" in kinds(result)
    assert result.tables["nodes"]["load_before"].sum() == 7
