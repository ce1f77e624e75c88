"""Small rings at the edges of dskit's rules: ties, zones without tokens, unknown times, requests that fail at once."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ring_placement.dskit.replicas import replica_sets
from engine.ring_placement.dskit.token_ring import OPERATIONS, Instance, ShardRing, TokenRing

NOW = 1000


def member(name: str, *tokens: int, state: str = "ACTIVE", zone: str = "", **more: int | bool) -> Instance:
    return Instance(name, zone, state, np.array(tokens, dtype=np.int64), **more)  # type: ignore[arg-type]


def test_the_default_is_three_replicas_without_zones() -> None:
    ring = TokenRing.of([member("a", 1)])
    assert (ring.replication, ring.zone_aware) == (3, False)


@pytest.mark.parametrize("before", [(), (1,), (1, 3)])
def test_a_token_of_two_members_goes_to_the_one_not_leaving(before: tuple[int, ...]) -> None:
    ring = TokenRing.of([member("a", *before, 7, state="LEAVING"), member("b", 7)])
    assert (ring.tokens.tolist(), ring.owner.tolist()) == ([*before, 7], [0] * len(before) + [1])


def test_a_zone_without_tokens_gives_no_replica() -> None:
    members = [member("a", 10, zone="x"), member("b", 20, zone="y"), member("c", zone="z")]
    sets = replica_sets(TokenRing.of(members, 3, True), OPERATIONS["write_no_extend"])
    assert sets.members.tolist() == [[0, 1], [1, 0]]


def test_queries_ask_a_read_only_member_without_a_time() -> None:
    shards = ShardRing(TokenRing.of([member("a", 10), member("b", 20, read_only=True)], 1), NOW)
    assert shards.shard("t", 2).tolist() == [0]
    assert shards.shard("t", 2, 60).tolist() == [0, 1]


def test_lookback_of_one_second_and_of_zero() -> None:
    both_new = ShardRing(TokenRing.of([member("a", 10, registered_s=NOW), member("b", 20, registered_s=NOW)]), NOW)
    assert len(both_new.shard("t", 1)) == 1 and len(both_new.shard("t", 1, 1)) == 2
    assert both_new.flags(1) != both_new.flags(0)
    one_new = [member("a", *range(0, 2**32, 2**20), registered_s=NOW), member("b", 5, registered_s=NOW - 500)]
    shards = ShardRing(TokenRing.of(one_new), NOW)
    assert shards.shard("t", 1).tolist() == [0]
    assert shards.shard("t", 1, 1).tolist() == [0, 1]
