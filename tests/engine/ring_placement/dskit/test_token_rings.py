"""Replica sets, quorum, ownership, shuffle shards and failures against dskit's own results, all exact."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from engine.ring_placement.dskit.replicas import ReplicaSets, replica_sets
from engine.ring_placement.dskit.token_ring import SPACE, ShardRing, TokenRing, draws, first_above, seed_of
from tests.engine.ring_placement.dskit.golden import OPERATION, agrees, live_of, load, ring_of, spare_of, texts

NAMES = ("write_no_extend", "write", "read", "reporting", "read_no_extend_ap")


def cases() -> list[dict[str, Any]]:
    return load("rings.json.gz")["rings"]


def sets_at(ring: TokenRing, name: str, keys: list[int]) -> list[str]:
    if not len(ring.tokens):
        return ["!empty"] * len(keys)
    at = first_above(ring.tokens, np.array(keys, dtype=np.int64))
    return texts(replica_sets(ring, OPERATION[name], at), ring.healthy(OPERATION[name]))


def test_replica_sets_quorum_and_ownership() -> None:
    for case in cases():
        ring = ring_of(case)
        assert list(ring.ids) == case["sorted_ids"], case["name"]
        for name in NAMES:
            assert sets_at(ring, name, case["keys"]) == case["get"][name], (case["name"], name)
        for name, expected in case["set_for_operation"].items():
            assert agrees(spare_of(ring, OPERATION[name]), expected), (case["name"], name)
        for name, expected in case["all_healthy"].items():
            found = np.flatnonzero(ring.healthy(OPERATION[name])).tolist() if len(ring.tokens) else "!empty"
            assert found == expected, (case["name"], name)
        assert ring.ownership.tolist() == case["count_tokens"], case["name"]


def test_token_ranges() -> None:
    for case in cases():
        if "token_ranges" not in case:
            continue
        found = [
            "!" if ranges is None else f"{len(ranges)}/{int((ranges[:, 1] - ranges[:, 0] + 1).sum())}"
            for ranges in ring_of(case).token_ranges
        ]
        assert found == case["token_ranges"], case["name"]


def test_exact_shares_of_the_key_space() -> None:
    for case in cases():
        ring = ring_of(case)
        for name in ("write", "write_no_extend"):
            if f"lost_keys_{name}" not in case:
                continue
            sets = replica_sets(ring, OPERATION[name])
            healthy = ring.healthy(OPERATION[name])
            good = live_of(sets, healthy) >= sets.needed
            assert int(ring.lengths[~good].sum()) == case[f"lost_keys_{name}"]
            held = np.zeros(len(ring.instances), dtype=np.int64)
            for column in sets.members[good].T:
                inside = (column >= 0) & healthy[column]
                np.add.at(held, column[inside], ring.lengths[good][inside])
            assert held.tolist() == case[f"replica_keys_{name}"], case["name"]


def test_shuffle_shards() -> None:
    for case in cases():
        ring = ring_of(case)
        shards = ShardRing(ring, case["now"])
        for expected in case["shards"]:
            chosen = shards.shard(expected["tenant"], expected["size"], expected["lookback"])
            assert chosen.tolist() == expected["i"], (case["name"], expected)
            subring = ring.subring(chosen)
            assert subring.ownership.tolist() == expected["own"], (case["name"], expected["tenant"])
            numbered = [
                text if text.startswith("!") else _renumbered(text, chosen)
                for text in sets_at(subring, "write_no_extend", expected["keys"])
            ]
            assert numbered == expected["get"], (case["name"], expected["tenant"])
            spare = spare_of(subring, OPERATION["read_no_extend_ap"])
            assert agrees(spare, expected["read"]), (case["name"], expected["tenant"])


def _renumbered(text: str, chosen: np.ndarray) -> str:
    members, _, rest = text.partition("/")
    return ".".join(str(chosen[int(m)]) for m in members.split(".")) + "/" + rest


def _with_old_heartbeats(ring: TokenRing, case: dict[str, Any], failure: dict[str, Any]) -> TokenRing:
    if failure["kind"] == "heartbeat":
        return ring_of(case, frozenset(failure["down"]))
    if failure["kind"] == "gone":
        return ring.without([ring.ids[i] for i in failure["down"]])
    return ring


def _shards(ring: TokenRing, case: dict[str, Any]) -> list[tuple[np.ndarray, TokenRing]]:
    """The members of each shard, and its ring."""
    found = ShardRing(ring, case["now"])
    chosen = [found.shard(each["tenant"], each["size"], each["lookback"]) for each in case["shards"]]
    return [(members, ring.subring(members)) for members in chosen]


def test_failures() -> None:
    for case in cases():
        ring = ring_of(case)
        shards = _shards(ring, case)
        for failure in case["failures"]:
            later = _with_old_heartbeats(ring, case, failure)
            number = {name: n for n, name in enumerate(ring.ids)}
            down = np.zeros(len(ring.instances), dtype=bool)
            down[failure["down"]] = failure["kind"] == "errors"
            failing = np.array([down[number[name]] for name in later.ids], dtype=bool)
            where = (case["name"], failure["kind"], failure["down"])
            for name, expected in failure["write_ok"].items():
                assert _written(later, name, case["keys"], failing) == expected, (where, name)
                if f"lost_{name}" in failure:
                    assert _lost(later, name, failing) == failure[f"lost_{name}"], (where, name)
            for name, expected in failure["read"].items():
                assert _read(later, name, failing) == (expected == "ok"), (where, name)
            if "get_write_no_extend" in failure:
                old = np.array([number[i] for i in later.ids])
                found = [t if t.startswith("!") else _renumbered(t, old)
                         for t in sets_at(later, "write_no_extend", case["keys"])]  # fmt: skip
                assert found == failure["get_write_no_extend"], where
            after = shards if later is ring else _shards(later, case)
            for shard, expected, (chosen, subring) in zip(case["shards"], failure["shards"], after, strict=True):
                if "i" in expected:
                    assert [number[later.ids[i]] for i in chosen] == expected["i"], (where, shard)
                succeeds = _read(subring, "read_no_extend_ap", failing[chosen])
                assert succeeds == (expected["read"] == "ok"), (where, shard)
                if "lost" in expected:
                    assert _lost(subring, "write_no_extend", failing[chosen]) == expected["lost"], (where, shard)


@lru_cache(64)
def _sets(ring: TokenRing, name: str, keys: tuple[int, ...]) -> ReplicaSets:
    """Of these keys, or of the whole ring without any; the same whatever fails."""
    at = first_above(ring.tokens, np.array(keys, dtype=np.int64)) if keys else None
    return replica_sets(ring, OPERATION[name], at)


def _good(ring: TokenRing, name: str, failing: np.ndarray, keys: tuple[int, ...] = ()) -> np.ndarray:
    sets = _sets(ring, name, keys)
    good: np.ndarray = live_of(sets, ring.healthy(OPERATION[name]) & ~failing) >= sets.needed
    return good


def _written(ring: TokenRing, name: str, keys: list[int], failing: np.ndarray) -> str:
    if not len(ring.tokens):
        return "0" * len(keys)
    return "".join("01"[int(ok)] for ok in _good(ring, name, failing, tuple(keys)))


def _lost(ring: TokenRing, name: str, failing: np.ndarray) -> int:
    return int(ring.lengths[~_good(ring, name, failing)].sum()) if len(ring.tokens) else SPACE


def _read(ring: TokenRing, name: str, failing: np.ndarray) -> bool:
    return spare_of(ring, OPERATION[name], failing) >= 0


def test_seeds_and_draws() -> None:
    for entry in load("tokens_and_seeds.json")["seeds"]:
        assert seed_of(entry["tenant"], entry["zone"]) == int(entry["seed"])
        for cheap in (3, 8):
            drawn = draws(int(entry["seed"]), cheap)
            assert [next(drawn) for _ in entry["uint32"]] == entry["uint32"]


@pytest.mark.parametrize("count", [1, 272, 273, 400])
def test_cheap_draws_continue_like_the_generator(count: int) -> None:
    cheap, plain = draws(-3098774884456951927, count), draws(-3098774884456951927, 1)
    assert [next(cheap) for _ in range(700)] == [next(plain) for _ in range(700)]
