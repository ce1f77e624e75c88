"""Random rings against the plain walk, key by key and member by member, as the documentation tells it."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.ring_placement.dskit import replicas
from engine.ring_placement.dskit.replicas import replica_sets
from engine.ring_placement.dskit.token_ring import (
    OPERATIONS,
    SPACE,
    Instance,
    Operation,
    Owners,
    ShardRing,
    TokenRing,
    first_above,
)
from tests.chance import tries

STATES = ("ACTIVE", "ACTIVE", "ACTIVE", "LEAVING", "PENDING", "JOINING")


@st.composite
def rings(draw: st.DrawFn, zones: tuple[str, ...] = ("", "a", "b", "c", "d")) -> TokenRing:
    count = draw(st.integers(1, 9))
    chosen = draw(st.lists(st.sampled_from(zones), min_size=1, max_size=4))
    values = draw(st.lists(st.integers(0, SPACE - 1), max_size=40, unique=True))
    hold = [draw(st.integers(0, count - 1)) for _ in values]
    members = []
    for i in range(count):
        tokens = sorted(v for v, owner in zip(values, hold, strict=True) if owner == i)
        members.append(
            Instance(
                f"m-{i}", draw(st.sampled_from(chosen)), draw(st.sampled_from(STATES)), np.array(tokens, dtype=np.int64),
                draw(st.integers(0, 5)) > 0, draw(st.sampled_from((0, 500, 990))), draw(st.integers(0, 5)) == 0,
                draw(st.sampled_from((0, 500, 995))),
            )
        )  # fmt: skip
    return TokenRing.of(members, draw(st.integers(1, 5)), draw(st.booleans()))


def walk(ring: TokenRing, key: int, operation: Operation) -> list[int]:
    """The rules as they are written down, for one key."""
    tokens, owner = ring.tokens.tolist(), ring.owner.tolist()
    start = next((i for i, t in enumerate(tokens) if t > key), 0)
    taken: list[int] = []
    want = ring.replication
    found: set[str] = set()
    examined = dict.fromkeys(ring.zones, 0)
    members = {z: sum(i.zone == z for i in ring.instances) for z in ring.zones}
    for step in range(len(tokens)):
        if len(taken) >= min(len(ring.instances), want):
            break
        if ring.zone_aware and all(z in found or examined[z] >= members[z] for z in ring.zones):
            break
        node = owner[(start + step) % len(tokens)]
        zone = ring.instances[node].zone
        if node in taken:
            continue
        if ring.zone_aware and zone:
            if zone in found:
                continue
            examined[zone] += 1
        taken.append(node)
        if ring.instances[node].state in operation.extend:
            want += 1
        elif ring.zone_aware and zone:
            found.add(zone)
    return taken


@given(rings(), st.sampled_from(sorted(OPERATIONS)), st.sampled_from((0, 3, 512)))
@tries(30)
def test_replica_sets_are_those_of_the_walk(ring: TokenRing, name: str, steps: int) -> None:
    operation = OPERATIONS[name]
    saved, replicas.STEPS = replicas.STEPS, steps
    try:
        sets = replica_sets(ring, operation)
    finally:
        replicas.STEPS = saved
    assert (sets.members >= 0).any(axis=0).all()
    keys = [(t - 1) % SPACE for t in ring.tokens.tolist()]
    if len(ring.tokens) == len(set(keys)):
        assert [[m for m in row if m >= 0] for row in sets.members.tolist()] == [walk(ring, k, operation) for k in keys]
    assert first_above(ring.tokens, np.array(keys, dtype=np.int64)).tolist() == list(range(len(keys)))
    assert not len(keys) or int(ring.lengths.sum()) == SPACE


@given(rings(), st.sampled_from(["write_no_extend", "write"]), st.integers(1, 3), st.integers(0, 2**32 - 1))
@tries(10)
def test_walks_past_members_with_nearly_all_tokens_find_the_others(
    ring: TokenRing, name: str, giants: int, seed: int
) -> None:
    taken = set(ring.tokens.tolist())
    drawn = np.random.default_rng(seed).integers(0, SPACE, 800)
    members = [
        Instance(f"z-{k}", "" if k else "a", tokens=np.array(sorted({*drawn[k::giants].tolist()} - taken), np.int64))
        for k in range(giants)
    ]
    wide = TokenRing.of([*ring.instances, *members], ring.replication, ring.zone_aware)
    assume(len(np.unique(drawn)) == len(drawn) and wide.tokens[0] > 0)
    sets = replica_sets(wide, OPERATIONS[name])
    for at in range(0, len(wide.tokens), 61):
        expected = walk(wide, int(wide.tokens[at]) - 1, OPERATIONS[name])
        assert [m for m in sets.members[at].tolist() if m >= 0] == expected


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(0, 59), st.sets(st.integers(0, 6)))
def test_a_walk_passes_over_owners(owners: list[int], start: int, passed: set[int]) -> None:
    start %= len(owners)
    expected = [o for o in owners[start:] + owners[:start] if o not in passed]
    for patience in (0, 1, 100):
        walked = Owners(np.array(owners, dtype=np.int64), patience)
        assert list(walked.walk(start, passed.__contains__)) == expected


@given(rings(), st.text(max_size=5), st.integers(-1, 12), st.sampled_from((0, 100, 10_000)))
@tries(12)
def test_a_shard_is_stable(ring: TokenRing, tenant: str, size: int, lookback: int) -> None:
    """A shard holds no member twice, not more than the lookback allows, and does not depend on health or state."""
    shard = ShardRing(ring, 1000).shard(tenant, size, lookback)
    assert len(set(shard.tolist())) == len(shard)
    healed = TokenRing.of(
        [Instance(i.id, i.zone, "ACTIVE", i.tokens, True, i.registered_s, i.read_only, i.read_only_s)
         for i in ring.instances],
        ring.replication, ring.zone_aware,
    )  # fmt: skip
    assert ShardRing(healed, 1000).shard(tenant, size, lookback).tolist() == shard.tolist()
    now, later = ShardRing(ring, 1000), ShardRing(ring, 1300)
    assert now.flags(lookback)[0] == (lookback > 0)
    if now.flags(lookback) == later.flags(lookback):
        assert later.shard(tenant, size, lookback).tolist() == shard.tolist()
    if lookback == 0:
        assert not any(ring.instances[i].read_only for i in shard) or size <= 0
        wider = set(ShardRing(ring, 1000).shard(tenant, size, 10_000).tolist())
        assert size <= 0 or set(shard.tolist()) <= wider


@given(rings())
@tries(12)
def test_ownership_adds_up_in_each_zone(ring: TokenRing) -> None:
    for zone in ring.zones:
        own = [o for i, o in zip(ring.instances, ring.ownership.tolist(), strict=True) if i.zone == zone]
        tokens = any(len(i.tokens) for i in ring.instances if i.zone == zone)
        assert sum(own) == (SPACE if tokens else 0)


@given(rings(("a", "b", "c")), st.booleans())
@tries(20)
def test_token_ranges_are_the_keys_whose_next_token_of_the_zone_is_the_members(ring: TokenRing, low: bool) -> None:
    if low:  # tokens close to both ends of the key space
        moved = {v: (n * 2 if n % 2 else SPACE - 1 - n) for n, v in enumerate(ring.tokens.tolist())}
        held = [
            replace(i, tokens=np.sort([moved[t] for t in i.tokens.tolist()]).astype(np.int64)) for i in ring.instances
        ]
        ring = TokenRing.of(held)
    assume(0 not in ring.tokens)
    ring = replace(ring, zone_aware=True, replication=len(ring.zones))
    for k, (member, ranges) in enumerate(zip(ring.instances, ring.token_ranges, strict=True)):
        peers = [(t, i.id) for i in ring.instances if i.zone == member.zone for t in i.tokens.tolist()]
        if not peers:
            assert ranges is None
            continue
        assert ranges is not None
        flat = ranges.ravel().tolist()
        assert flat == sorted(flat) and all(b - a > 1 for a, b in zip(flat[1::2], flat[2::2], strict=False))
        keys = {min(max(t + d, 0), SPACE - 1) for t, _ in peers for d in (-2, -1, 0, 1)} | {0, SPACE - 1}
        for key in keys:
            owner = min(((t <= key, t), name) for t, name in peers)[1]
            assert any(a <= key <= b for a, b in ranges.tolist()) == (owner == member.id), (key, peers)
        assert int((ranges[:, 1] - ranges[:, 0] + 1).sum()) == ring.ownership[k]


def test_a_range_of_key_zero_alone_behind_token_zero_is_left_out() -> None:
    tokens = {"a": [0, 9], "b": [1]}
    ring = TokenRing.of([Instance(n, "z", tokens=np.array(t)) for n, t in tokens.items()], 1, True)
    assert [r.tolist() for r in ring.token_ranges if r is not None] == [[[1, SPACE - 1]], []]


def test_a_token_of_two_members_goes_to_the_smaller_id_that_stays() -> None:
    same = np.array([7, 9], dtype=np.int64)
    ring = TokenRing.of([Instance("b", tokens=same), Instance("a", tokens=same), Instance("0", "", "LEAVING", same)])
    assert [ring.ids[i] for i in ring.owner] == ["a", "a"] and ring.tokens.tolist() == [7, 9]
