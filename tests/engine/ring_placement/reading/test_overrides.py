"""Override files: as operators have them, and with mistakes."""

from __future__ import annotations

import pytest

from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS
from engine.ring_placement.scenarios.cluster import read_cluster
from tests.engine.ring_placement.cases import THREE, inputs, load, page, raw


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
def test_yaml_that_is_not_a_mapping(text: bytes) -> None:
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
