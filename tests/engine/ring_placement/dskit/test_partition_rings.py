"""Partition rings against dskit's own results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.ring_placement.dskit.replicas import Partition, PartitionRing
from engine.ring_placement.dskit.token_ring import TokenRing, first_above
from engine.ring_placement.dskit.tokens import spread_minimizing_tokens
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.scenarios.replica_rows import Registered, ReplicatedPlacement, Tenants
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

        def active(keys: list[int], chosen: np.ndarray | slice = slice(None), ring: PartitionRing = ring) -> list[int]:
            found = ring.active_partitions(chosen)[first_above(ring.tokens, np.array(keys))]
            return [int(ring.ids[i]) if i >= 0 else -1 for i in found]

        assert active(case["keys"]) == case["active"]
        for shard in case["shards"]:
            chosen = ring.shard(shard["tenant"], shard["size"], shard["lookback"], case["now"])
            assert ring.ids[chosen].tolist() == shard["partitions"], (case["name"], shard)
            assert len(ring.shard(shard["tenant"], shard["size"])) == shard["size_of"], (case["name"], shard)
            assert active(shard["keys"], chosen) == shard["active"], (case["name"], shard)
        _check_readers(case, ring)


def _check_readers(case: dict[str, Any], ring: PartitionRing) -> None:
    chosen = [
        ring.shard(shard["tenant"], shard["size"], shard["lookback"], case["now"]) for shard in case["shards"]
    ]  # fmt: skip
    rows: Any = SimpleNamespace(reads=chosen)
    for entry in case["sets"]:
        members = instances(case, frozenset(entry["down"]))
        tokens = TokenRing.of(members)
        nobody = np.zeros(len(members), dtype=bool)
        listed = tuple(Member(i.id) for i in tokens.instances)
        number = {name: n for n, name in enumerate(case["sorted_ids"])}
        for name in ("read", "read_no_extend_ap"):
            registered = Registered(listed, tokens, nobody, tokens.healthy(OPERATION[name]))
            placed = ReplicatedPlacement(registered, rows, Tenants((), (), nobody, nobody), ring, nobody)
            for partition, owners in zip(ring.partitions, placed.answering_owners, strict=True):
                expected = entry[name][str(partition.id)]
                assert (sorted(number[o] for o in owners) if owners else "!too many unhealthy") == (
                    expected["i"] if isinstance(expected, dict) else expected
                )
            assert placed.reads_ok.tolist() == [answer == "ok" for answer in entry[f"{name}_tenants"]]
