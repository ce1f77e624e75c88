"""A ring so large that the pairs of its members, any of which may fail together, do not fit in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.view import Context, Result
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.view import VIEW
from tests.engine.ring_placement.cases import inputs, table

COUNT = 200


def ring(name: str, count: int) -> bytes:
    members = [
        {"id": f"{name}-{n}", "state": "ACTIVE", "address": "10.0.0.1:9095", "zone": "a", "tokens": [n * 1000],
         "timestamp": "2026-11-20T23:31:55Z", "registered_timestamp": "2026-01-01T00:00:00Z"} for n in range(count)
    ]  # fmt: skip
    return json.dumps({"shards": members, "now": "2026-11-20T23:32:00Z"}).encode()


def result(name: str, memory: int, **parameters: Any) -> Result:
    files = {f"{name}.json": ring(name, COUNT), "loads.csv": table([("a", "x", 5)])}
    return VIEW.compute(inputs(files), RingParameters(**parameters), Context(0, memory=memory))


@pytest.mark.parametrize(("name", "strategy"), [("segment-writer", "segment-writer"), ("ingester", "token-ring")])
def test_a_ring_beyond_the_memory_shows_its_members_with_a_note(name: str, strategy: str) -> None:
    enough = result(name, 8 << 20, strategy=strategy)
    assert enough.summary["healthy"] == COUNT
    assert not any("memory-mb" in note for note in enough.notes)
    found = result(name, 1 << 20, strategy=strategy)
    assert found.tables["nodes"].height == COUNT
    assert any("200 members" in note and "memory-mb" in note for note in found.notes)
    assert [(finding.level, finding.subject) for finding in found.findings] == [("severe", "ring")]
