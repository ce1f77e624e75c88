"""Small rings of the field, with the values that the real program has for them."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from engine.core.parameters import parse
from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.scenario_state import live_state
from engine.ring_placement.view import VIEW
from tests.engine.ring_placement.cases import inputs
from tests.reference import reference


def test_every_ring_of_the_field() -> None:
    folder = reference("ring-placement") / "field"
    cases = json.loads((folder / "expected.json").read_text())["cases"]
    assert cases
    for name, case in cases.items():
        root = folder / name.partition("#")[0]
        files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        parameters = parse(RingParameters, list(case.get("options", {}).items()))
        result = VIEW.compute(inputs(files), parameters, Context(now_ms=0))
        told: dict[str, Any] = {
            "summary": {key: result.summary[key] for key in case.get("summary", ())},
            "states": dict(result.tables["nodes"].select("instance", "state").iter_rows()),
            "problems": len(result.problems),
            "check": int(any(finding.level in ("severe", "critical") for finding in result.findings)),
        }
        if "read_instances" in case:
            told["read_instances"] = dict(result.tables["tenants"].select("tenant", "read_instances").iter_rows())
        if "sweep_reads_ok" in case:
            sweep = result.tables["sweep"]
            told["sweep_reads_ok"] = {down[0]: ok for down, ok in sweep.select("down", "reads_ok").iter_rows()}
            assert ((sweep["tenants_read_lost"] > 0) == ~sweep["reads_ok"]).all(), name
        assert {key: told[key] for key in case if key != "options"} == {
            k: v for k, v in case.items() if k != "options"
        }, name


def ring(count: int, zones: int, dead: int) -> bytes:
    """A memberlist key of ``count`` members, of which the first ``dead`` have no recent heartbeat."""
    draws = np.random.default_rng(count).permutation(2**20)[: count * 4].reshape(count, 4) * 4096
    members = {
        f"ingester-{k}": {"tokens": sorted(draws[k].tolist()), "timestamp": 1 if k < dead else 1_795_000_000,
                          "zone": f"z{k % zones}" if zones else ""}
        for k in range(count)
    }  # fmt: skip
    return json.dumps({"ingesters": members}).encode()


@pytest.mark.parametrize(("zones", "dead", "replication"), [(0, 0, 3), (0, 1, 3), (3, 1, 3), (3, 0, 1), (2, 0, 5)])
def test_sweeps_count_the_whole_ring_as_one_tenant(zones: int, dead: int, replication: int) -> None:
    files = {
        "mimir/ring.json": ring(7, zones, dead),
        "mimir/o.yaml": b"overrides: {a: {ingestion_tenant_shard_size: 3}}",
    }
    parameters = RingParameters(now="1795000000", replication_factor=replication)
    placement = live_state(inputs(files), parameters, Context(now_ms=0)).placement
    names = placement.ring.ids
    for kind, size in (("nodes", 1), ("pairs", 2)):
        asked = parse(
            RingParameters, [("now", "1795000000"), ("replication_factor", str(replication)), ("sweep", kind)]
        )
        rows = VIEW.compute(inputs(files), asked, Context(now_ms=0)).tables["sweep"]
        found = {frozenset(row["down"]): row for row in rows.iter_rows(named=True)}
        for down in combinations(range(len(names)), size):
            failed = np.isin(np.arange(len(names)), down)
            share, writes, reads, reads_ok = placement.with_failed(failed).losses
            row = found[frozenset(names[k] for k in down)]
            assert (row["tenants_write_lost"], row["tenants_read_lost"], row["reads_ok"]) == (writes, reads, reads_ok)
            assert row["requests_lost_share"] == pytest.approx(1 - (1 - share) ** 2000, rel=1e-6)
