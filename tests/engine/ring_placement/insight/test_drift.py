"""What ingesters report of tenants against what the ring gives them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.view import VIEW
from sample_data.ring_placement import mimir
from sample_data.ring_placement.make import START_S
from tests.engine.ring_placement.cases import inputs


def compute(metrics: str) -> Any:
    members = mimir.ingesters()
    files = {
        "mimir/ring.json": mimir.page(members, START_S),
        "mimir/overrides.yaml": mimir.OVERRIDES.encode(),
        "mimir/ingesters.prom": metrics.encode(),
    }
    return VIEW.compute(inputs(files), RingParameters(), Context(now_ms=0))


def exposition() -> str:
    return mimir.metrics(mimir.ingesters(), mimir.fresh_series(), random.Random(3)).decode()


def drift(result: Any) -> dict[tuple[str, str], str]:
    rows = result.tables["observed"].select("tenant", "instance", "drift").iter_rows()
    return {(tenant, instance): text for tenant, instance, text in rows if text}


def test_of_many_pairs_fifty_are_named_and_the_rest_counted() -> None:
    name = "cortex_ingester_memory_series_created_total"
    lines = exposition().splitlines()
    at = 1 + next(k for k, line in enumerate(lines) if line.startswith(f"# TYPE {name}"))
    lines[at:at] = [f'{name}{{instance="ghost-{k}",user="demo"}} {k + 90}' for k in range(60)]
    result = compute("\n".join(lines) + "\n")
    assert len(drift(result)) == 60
    found = [one for one in result.findings if one.subject.startswith("drift")]
    assert len(found) == 51 and (found[-1].text, found[-1].rest) == ("10 more pairs differ from the ring", 10)


def test_expected_series_are_no_drift() -> None:
    result = compute(exposition())
    observed = result.tables["observed"]
    assert not drift(result) and result.summary["drift_pairs"] == 0
    assert observed.height == sum(len(names) for names in result.tables["tenants"]["instances"])
    for row in observed.iter_rows(named=True):
        assert row["expected"] == pytest.approx(row["bytes"], rel=0.05) and row["in_range"]


def test_unexpected_and_missing_tenants_are_drift() -> None:
    result = compute(exposition())
    demo = result.tables["tenants"].filter(result.tables["tenants"]["tenant"] == "demo")["instances"].to_list()[0]
    away = next(i for i in result.tables["nodes"]["instance"] if i not in demo)
    lines = [line for line in exposition().splitlines() if f'instance="{demo[0]}",user="demo"' not in line]
    name = "cortex_ingester_memory_series_created_total"
    at = 1 + next(k for k, line in enumerate(lines) if line.startswith(f"# TYPE {name}"))
    lines[at:at] = [f'{name}{{instance="{away}",user="demo"}} 700', f'{name}{{instance="ghost",user="demo"}} 90']
    found = compute("\n".join(lines) + "\n")
    assert drift(found) == {
        ("demo", demo[0]): "missing", ("demo", away): "outside-shard", ("demo", "ghost"): "unknown-instance",
    }  # fmt: skip
    texts = [f.text for f in found.findings if f.subject == "drift demo"]
    assert len(texts) == 3 == found.summary["drift_pairs"] and any(f"{away} has 700 of it" in t for t in texts)


def test_addresses_are_matched_to_members_and_unrelated_names_are_no_drift() -> None:
    page = json.loads(mimir.page(mimir.ingesters(), START_S))
    text = exposition()
    strange = text
    for number, member in enumerate(page["shards"]):
        host = member["address"].rsplit(":", 1)[0]
        text = text.replace(f'instance="{member["id"]}"', f'instance="{host}"')
        strange = strange.replace(f'instance="{member["id"]}"', f'instance="pod-{number}"')
    assert not drift(compute(text)) and compute(text).tables["observed"].height
    result = compute(strange)
    assert not result.tables["observed"].height and any("drift is not checked" in note for note in result.notes)


def test_owners_of_several_partitions_carry_the_partition_in_their_ids() -> None:
    """In a ring where an instance may own several partitions, an owner's ID ends in a slash and the partition."""
    owners = {"a-0/0": 0, "b-0/0": 0, "a-0/1": 1, "b-1/1": 1, "a-0/12": 2}
    partitions = {str(k): {"id": k, "tokens": [k * 1000 + 5], "state": 2, "stateTimestamp": 1} for k in range(3)}
    ring = {"partitions": partitions, "owners": {o: {"ownedPartition": p, "state": 1} for o, p in owners.items()}}
    listed = {"partitions": [
        {"id": k, "state": 2, "state_timestamp": "2026-01-01T00:00:00Z", "tokens": [k * 1000 + 5],
         "owner_ids": [o for o, p in owners.items() if p == k]}
        for k in range(3)
    ]}  # fmt: skip
    member = {"state": "ACTIVE", "address": "x", "timestamp": "2025-12-31T23:59:59Z", "tokens": []}
    page = {"shards": [{"id": i, "zone": f"zone-{i[0]}", **member} for i in ("a-0", "b-0", "b-1")],
            "now": "2026-01-01T00:00:00Z"}  # fmt: skip
    for form in (ring, listed):
        files = {"mimir/ring.json": json.dumps(page).encode(), "mimir/partitions.json": json.dumps(form).encode()}
        result = VIEW.compute(inputs(files), RingParameters(fail=("a-0",)), Context(now_ms=0))
        rows = {r["partition"]: (r["owners"], r["readers"]) for r in result.tables["partitions"].iter_rows(named=True)}
        # An ID that carries another partition than it owns is a name like any other, of nobody in this ring.
        assert rows == {0: (["a-0", "b-0"], ["b-0"]), 1: (["a-0", "b-1"], ["b-1"]), 2: ([], [])}
        assert not result.summary["reads_ok"]


def test_loads_of_partition_rings_count_each_owner_once() -> None:
    """Two owners hold each series: what they report is twice what was written."""
    partitions = {str(k): {"id": k, "tokens": [k * 2**30], "state": 2, "stateTimestamp": 1} for k in range(4)}
    owners = {f"{z}-{k}": {"ownedPartition": k, "state": 1} for z in "ab" for k in range(4)}
    member = {"state": "ACTIVE", "address": "x", "timestamp": "2025-12-31T23:59:59Z", "tokens": []}
    page = {"shards": [{"id": i, "zone": i[0], **member} for i in sorted(owners)], "now": "2026-01-01T00:00:00Z"}
    name = "cortex_ingester_active_series"
    metrics = f"# TYPE {name} gauge\n" + "".join(f'{name}{{instance="{i}",user="t"}} 100\n' for i in sorted(owners))
    files = {
        "mimir/ring.json": json.dumps(page).encode(), "mimir/m.prom": metrics.encode(),
        "mimir/partitions.json": json.dumps({"partitions": partitions, "owners": owners}).encode(),
    }  # fmt: skip
    result = VIEW.compute(inputs(files), RingParameters(), Context(now_ms=0))
    assert result.summary["load_total"] == 400
    assert result.tables["nodes"]["load_before"].to_list() == [100] * 8
    assert result.tables["observed"]["expected"].to_list() == [100] * 8 and not drift(result)
