"""Settings of the ring of ingesters from a configuration as Mimir, Loki and Tempo show it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.view import Context
from engine.ring_placement.dskit.tokens import fnv1, series_bytes, text_bytes
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.view import VIEW
from tests.engine.ring_placement.cases import inputs, kinds

MIMIR = b"""target: all
multitenancy_enabled: true
server:
  http_listen_port: 8080
distributor:
  sharding:
    exclude_classic_histogram_bucket_label: true
ingester:
  ring:
    kvstore:
      store: memberlist
    heartbeat_timeout: 4m0s
    replication_factor: 2
    zone_awareness_enabled: false
    token_generation_strategy: spread-minimizing
    spread_minimizing_zones: zone-a,zone-b
limits:
  ingestion_tenant_shard_size: 2
"""
LOKI = b"""target: all
common:
  replication_factor: 1
ingester:
  lifecycler:
    ring:
      heartbeat_timeout: 30s
      replication_factor: 5
limits_config:
  ingestion_partitions_tenant_shard_size: 4
"""
NOW = 1_795_217_520


def ring(ages: tuple[int, ...] = (0, 0, 0)) -> bytes:
    members = {
        f"ingester-{i}": {"tokens": [2**30 * i + 1, 2**29 + 2**30 * i], "timestamp": NOW - age, "zone": f"z{i}"}
        for i, age in enumerate(ages)
    }
    return json.dumps({"ingesters": members}).encode()


def compute(files: dict[str, bytes], **more: Any) -> Any:
    return VIEW.compute(inputs(files), RingParameters(now=str(NOW), **more), Context(now_ms=0))


def test_settings_come_from_the_configuration() -> None:
    files = {"ring.json": ring((0, 200, 241)), "config.yaml": MIMIR, "keys.csv": b"tenant,token\na,5\n"}
    result = compute(files)
    assert result.summary["replication_factor"] == 2 and result.summary["zone_aware"] is False
    assert result.tables["nodes"].sort("instance")["state"].to_list() == ["ACTIVE", "ACTIVE", "UNHEALTHY"]
    assert result.tables["tenants"]["shard_size"].to_list() == [2]
    assert any("replication factor 2 (config.yaml), zone awareness off (config.yaml)" in note for note in result.notes)
    asked = compute(files, replication_factor=3, zone_awareness="on", heartbeat_timeout=60)
    assert asked.summary["replication_factor"] == 3 and asked.summary["zone_aware"] is True
    assert asked.tables["nodes"].sort("instance")["state"].to_list() == ["ACTIVE", "UNHEALTHY", "UNHEALTHY"]
    plain = compute({"ring.json": ring((0, 60, 61))})
    assert plain.tables["nodes"].sort("instance")["state"].to_list() == ["ACTIVE", "ACTIVE", "UNHEALTHY"]


def test_an_override_beats_the_default_size() -> None:
    overrides = b"overrides:\n  a:\n    ingestion_tenant_shard_size: 1\n  b:\n    max_global_series_per_user: 5\n"
    result = compute({"ring.json": ring(), "config.yaml": MIMIR, "o.yaml": overrides})
    sizes = dict(zip(result.tables["tenants"]["tenant"], result.tables["tenants"]["shard_size"], strict=True))
    assert sizes == {"a": 1, "b": 2}


def test_a_configuration_of_loki() -> None:
    result = compute({"loki/ring.json": ring((0, 30, 31)), "loki/config": LOKI})
    assert result.summary["replication_factor"] == 5 and result.summary["zone_aware"] is True
    assert result.tables["nodes"].sort("instance")["state"].to_list() == ["ACTIVE", "ACTIVE", "UNHEALTHY"]


@pytest.mark.parametrize(
    "bad", [b"[1, 2]", b"-1", b"yes", b"99999999999999999999999", b"1:30:20", b"{a: b}", b"\xff\xfe", b"&a [*a]"]
)
def test_an_invalid_setting_is_a_problem_and_counts_as_not_set(bad: bytes) -> None:
    for key in (b"replication_factor: 2", b"heartbeat_timeout: 4m0s", b"ingestion_tenant_shard_size: 2"):
        changed = MIMIR.replace(key, key.split(b":")[0] + b": " + bad)
        result = compute({"ring.json": ring(), "config.yaml": changed})
        assert kinds(result) & {"bad-setting", "bad-yaml"}, (key, bad)
        assert result.summary["members"] == 3


def test_series_without_le_and_metadata() -> None:
    labels = [("__name__", "h_bucket"), ("job", "x"), ("le", "0.5")]
    series = 'h_bucket{job="x",le="0.5"}'
    keys = 'tenant,series\na,"' + series.replace('"', '""') + '"\na,"le_up{job=""x""}"\n'
    files = {"ring.json": ring(), "keys.csv": keys.encode()}
    other = fnv1(series_bytes("a", [("__name__", "le_up"), ("job", "x")]))
    for files_, more, left_out in (
        (files, {}, frozenset()),
        (files, {"exclude_le": "on"}, frozenset({"le"})),
        ({**files, "config.yaml": MIMIR}, {}, frozenset({"le"})),
        ({**files, "config.yaml": MIMIR}, {"exclude_le": "off"}, frozenset()),
    ):
        token = fnv1(series_bytes("a", labels, left_out))
        result = compute(files_, explain=f"a/{series}", **more)
        assert set(result.tables["placements"]["token"]) == {token, other}
        steps = result.tables["explain"]
        assert str(token) in steps["value"].to_list()
    named = compute({"ring.json": ring(), "keys.csv": b"tenant,metric\na,up\n"})
    assert named.tables["placements"]["token"].to_list() == [fnv1(text_bytes("a", "up"))]
