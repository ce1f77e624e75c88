"""The rings of the reference data, as our own types."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import md5
from typing import Any

import numpy as np

from engine.ring_placement.dskit.replicas import ReplicaSets
from engine.ring_placement.dskit.token_ring import OPERATIONS, Instance, Operation, TokenRing
from engine.ring_placement.dskit.tokens import spread_minimizing_tokens
from engine.ring_placement.scenarios.replica_rows import Queries
from tests.reference import reference

OPERATION = {
    **{name: OPERATIONS[name] for name in ("write", "write_no_extend", "read", "reporting")},
    "read_no_extend_ap": OPERATIONS["mimir"],
    "read_active": Operation(frozenset({"ACTIVE"})),
}


@cache
def load(name: str) -> Any:
    data = (reference("dskit-rings") / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def digest(numbers: Sequence[int]) -> str:
    return md5(",".join(map(str, numbers)).encode()).hexdigest()


_values: dict[str, dict[str, np.ndarray]] = {}


def token_values(case: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Tokens of each member by the rules of the data's README."""
    if case["name"] in _values:
        return _values[case["name"]]
    out = _values[case["name"]] = {}
    taken: set[int] = set()
    for entry in sorted(case["instances"], key=lambda i: i["id"].encode()):
        rule = entry["tokens"]
        if isinstance(rule, list):
            tokens = rule
        elif "spread" in rule:
            tokens = spread_minimizing_tokens(*rule["spread"]).tolist()
        else:
            tokens, j = [], 0
            while len(tokens) < rule["md5"]:
                value = int.from_bytes(md5(f"{case['name']}/{entry['id']}/{j}".encode()).digest()[:4], "big")
                j += 1
                if value not in taken:
                    taken.add(value)
                    tokens.append(value)
        out[entry["id"]] = np.array(sorted(tokens), dtype=np.int64)
    return out


def instances(case: Mapping[str, Any], old: frozenset[int] = frozenset()) -> list[Instance]:
    """Members at the ring's own time; those at the positions ``old`` (of the sorted IDs) have an old heartbeat."""
    values = token_values(case) if any(i["tokens"] for i in case["instances"]) else {}
    number = {name: n for n, name in enumerate(case["sorted_ids"])}
    return [
        Instance(
            i["id"], i["zone"], i["state"], values.get(i["id"], np.empty(0, dtype=np.int64)),
            case["now"] - i["ts"] <= case["timeout"] and number.get(i["id"]) not in old,
            i["reg"], i["ro"], i["rots"],
        )
        for i in case["instances"] if i["state"] != "LEFT"
    ]  # fmt: skip


def ring_of(case: Mapping[str, Any], old: frozenset[int] = frozenset()) -> TokenRing:
    return TokenRing.of(instances(case, old), case["rf"], case["za"])


def texts(sets: ReplicaSets, healthy: np.ndarray) -> list[str]:
    """Each set as the data write it."""
    live, needed = live_of(sets, healthy).tolist(), sets.needed.tolist()
    out = []
    for row, alive, need in zip(sets.members.tolist(), live, needed, strict=True):
        kept = [m for m in row if m >= 0 and healthy[m]]
        out.append(f"!{need}/{alive}" if alive < need else f"{'.'.join(map(str, kept))}/{alive - need}")
    return out


def spare_of(ring: TokenRing, operation: Operation, failing: np.ndarray | None = None) -> int:
    """How many more zones, or members, may fail before queries of the whole ring do; negative where they fail."""
    alive = ring.healthy(operation)
    reads = [np.arange(len(ring.instances))]
    return int(Queries.of(ring, reads).spare(alive if failing is None else alive & ~failing)[0])


def agrees(spare: int, written: Any) -> bool:
    """Whether ``spare`` is what the data say of a query of a whole ring."""
    if not isinstance(written, dict):
        return spare < 0
    return bool(spare == written["max_unavailable_zones" if written["zone_aware"] else "max_errors"])


def live_of(sets: ReplicaSets, healthy: np.ndarray) -> np.ndarray:
    """Count the members of each set that are ``healthy`` (bool per instance)."""
    return np.append(healthy, False)[sets.members].sum(axis=1)
