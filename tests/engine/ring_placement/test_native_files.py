"""Files as operators have them, read through the readers, against what upstream makes of them."""

from __future__ import annotations

import pytest

from engine.parameters import parse
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.limits import DEFAULTS
from engine.ring_placement.reading.block_files import block_footer, write_block
from engine.ring_placement.reading.cluster import read_cluster
from engine.ring_placement.view import VIEW
from engine.view import Context
from tests.engine.ring_placement.cases import DAY_MS, digest, inputs, load, raw
from tests.reference import reference

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
    nodes = result.tables["nodes"]
    healthy = nodes.filter(nodes["state"].is_in(["ACTIVE", "LEAVING", "PENDING", "JOINING"]))
    assert healthy["instance"].to_list() == expected["healthy_ids_sorted"]
    if "active_ids" in expected:
        assert nodes.filter(nodes["state"] == "ACTIVE")["instance"].to_list() == expected["active_ids"]
    page = load(f"native/{ring}.page.json")
    assert dict(zip(nodes["instance"], nodes["state"], strict=True)) == {m["id"]: m["state"] for m in page["shards"]}
    assert dict(zip(nodes["instance"], nodes["tokens"], strict=True)) == {
        m["id"]: len(m["tokens"] or ()) for m in page["shards"]
    }


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


def test_overrides() -> None:
    expected = load("native/overrides.expected.json")
    given = inputs({"overrides.yaml": raw("native/overrides.yaml")})
    limits = read_cluster(given, "", "auto", None).limits
    for tenant, want in {**expected["tenants"], "": expected["defaults"]}.items():
        one = limits[tenant] if tenant else DEFAULTS
        assert {
            "tenant_shards": one.tenant_limit,
            "default_dataset_shards": one.default_dataset_shards,
            "load_balancing": one.load_balancing,
            "min_dataset_shards": one.min_dataset_shards,
            "max_dataset_shards": one.max_dataset_shards,
            "unit_size_bytes": one.unit_size,
            "burst_window_s": one.burst_ns // 10**9,
            "decay_window_s": one.decay_ns // 10**9,
        } == want
    assert not given.problems


def test_real_runtime_files() -> None:
    configmap = inputs({"cm.yaml": raw("real/pyroscope-rendered-overrides-configmap.yaml")})
    assert [i.kind for i in configmap.files.values()] == ["overrides"]
    assert not configmap.problems
    for name in ("mimir-monolithic-runtime", "mimir-ingest-storage-runtime", "mimir-tsdb-blocks-runtime"):
        given = inputs({f"{name}.yaml": raw(f"real/{name}.yaml")})
        assert given.table("overrides").height >= 1
        assert {p.kind for p in given.problems} == {"unknown-key"}
        assert all(p.line for p in given.problems)


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


def test_block_footers() -> None:
    expected = load("real/blocks.expected.json")
    folder = reference("ring-placement") / "real/blocks"
    for path in sorted(folder.glob("*/block.bin")):
        block = block_footer(path.read_bytes())
        assert block.datasets
        assert block_footer(write_block(block, b"content")) == block
        if path.parent.name not in expected:
            continue
        want = expected[path.parent.name]
        assert (block.id, block.shard, block.level, block.min_ms, block.max_ms) == (
            want["id"], want["shard"], want["compaction_level"], want["min_time"], want["max_time"],
        )  # fmt: skip
        assert block.created_by == want["resolved"]["created_by"]
        assert [
            {"tenant": d.tenant, "name": d.name, "size": d.size, "format": int(d.index)} for d in block.datasets
        ] == want["resolved"]["datasets"]
    name = "01JKT426996H1XWCX1M1ZQFRJ6"
    given = inputs({f"{name}/block.bin": raw(f"real/blocks/{name}/block.bin")})
    result = VIEW.compute(given, RingParameters(), Context(now_ms=0))
    rows = result.tables["observed"].to_dicts()
    assert {r["source"] for r in rows} == {"blocks"} and {r["instance"] for r in rows} == {None}
    assert result.summary["drift_pairs"] == 0
