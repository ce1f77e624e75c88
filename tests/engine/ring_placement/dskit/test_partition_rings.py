"""Partition rings against dskit's own results."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.ring_placement.dskit.partition_ring import Partition, PartitionRing, Readers, readers_of
from engine.ring_placement.dskit.tokens import spread_minimizing_tokens
from tests.engine.ring_placement.dskit.golden import OPERATION, instances, load


def test_partition_rings() -> None:
    for case in load("partition_rings.json.gz")["rings"]:
        owners: dict[int, list[str]] = {}
        for owner in case["owners"]:
            if owner["state"] == 1:
                owners.setdefault(owner["part"], []).append(owner["id"])
        ring = PartitionRing.of(
            tuple(
                Partition(p["id"], p["state"], spread_minimizing_tokens(0, p["id"]), p["ts"], p["locked"],
                          tuple(owners.get(p["id"], ())))
                for p in case["parts"]
            )
        )  # fmt: skip
        assert {str(p.id): n for p, n in zip(ring.partitions, ring.ownership.tolist(), strict=True)} == (
            case["count_tokens"]
        )

        def active(keys: list[int], chosen: np.ndarray | None = None, ring: PartitionRing = ring) -> list[int]:
            found = ring.active_partitions(chosen)[ring.search(np.array(keys))]
            return [int(ring.ids[i]) if i >= 0 else -1 for i in found]

        assert active(case["keys"]) == case["active"]
        for shard in case["shards"]:
            chosen = ring.shard(shard["tenant"], shard["size"], shard["lookback"], case["now"])
            assert ring.ids[chosen].tolist() == shard["partitions"], (case["name"], shard)
            assert len(ring.shard(shard["tenant"], shard["size"])) == shard["size_of"], (case["name"], shard)
            assert active(shard["keys"], chosen) == shard["active"], (case["name"], shard)
        _check_readers(case, ring)


def _check_readers(case: dict[str, Any], ring: PartitionRing) -> None:
    number = {name: n for n, name in enumerate(case["sorted_ids"])}
    for entry in case["sets"]:
        members = instances(case, frozenset(entry["down"]))
        for name in ("read", "read_no_extend_ap"):
            zones = {i.id: i.zone for i in members if i.beating and i.state in OPERATION[name].healthy}
            found = {p.id: readers_of(p, zones) for p in ring.partitions}
            for partition, readers in found.items():
                expected = entry[name][str(partition)]
                if readers.error:
                    assert expected == "!too many unhealthy"
                else:
                    assert sorted(number[i] for i in readers.ids) == expected["i"]
                    assert readers.max_unavailable_zones == expected["max_unavailable_zones"]
            accepted = []
            for shard in case["shards"]:
                chosen = ring.shard(shard["tenant"], shard["size"], shard["lookback"], case["now"])
                failed = any(found[i].error for i in ring.ids[chosen].tolist())
                accepted.append("!empty" if not len(chosen) else "!too many unhealthy" if failed else "ok")
            assert accepted == entry[f"{name}_tenants"]


def test_a_partition_without_a_healthy_owner_tolerates_nothing() -> None:
    expected = Readers((), 0, "partition 3: too many unhealthy instances")
    assert readers_of(Partition(3, owners=("gone",)), {"other": "a"}) == expected
