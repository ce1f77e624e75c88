"""Token rings: members and sorted tokens, states that are healthy for an operation, and the shuffle shards of tenants.

Source: ``grafana/dskit/ring`` (``ring.go``, ``model.go``, ``replication_strategy.go``, ``Ring.ShuffleShard``,
``ShuffleShardWithLookback``, ``util/shard``). See ``docs/models/dskit-rings.md``, "Members", "Operations" and "Shuffle shards".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import md5

import msgspec
import numpy as np

from engine.ring_placement.pyroscope.prng import GoRand, cooked, seed_words

SPACE = 1 << 32  # number of keys: the key space is the 32-bit numbers

NO_TOKENS = np.empty(0, dtype=np.int64)


class Instance(msgspec.Struct, frozen=True, eq=False):
    """One member. ``state``: ACTIVE, LEAVING, PENDING or JOINING; ``tokens``: 32-bit values, sorted (int64); ``beating``:
    whether its heartbeat is recent enough; ``registered_s`` and ``read_only_s`` (last change of the flag): epoch seconds,
    0 where unknown."""

    id: str
    zone: str = ""
    state: str = "ACTIVE"
    tokens: np.ndarray = msgspec.field(default_factory=lambda: NO_TOKENS)
    beating: bool = True
    registered_s: int = 0
    read_only: bool = False
    read_only_s: int = 0


class Operation(msgspec.Struct, frozen=True):
    """A kind of request: the states that are ``healthy`` for it, and those that extend a replica set by one."""

    healthy: frozenset[str]
    extend: frozenset[str] = frozenset()


OPERATIONS = {
    "write_no_extend": Operation(frozenset({"ACTIVE"})),
    "write": Operation(frozenset({"ACTIVE"}), frozenset({"LEAVING", "PENDING", "JOINING"})),
    "read": Operation(frozenset({"ACTIVE", "PENDING", "LEAVING"}), frozenset({"PENDING", "JOINING"})),
    "mimir": Operation(frozenset({"ACTIVE", "PENDING"})),
    "active": Operation(frozenset({"ACTIVE"})),
    "reporting": Operation(frozenset({"ACTIVE", "LEAVING", "PENDING", "JOINING"})),
}
"""Operations by name. Mimir, Loki and Pyroscope's first version write with ``write_no_extend``; ``mimir`` is the operation
of Mimir's queries, ``read`` that of Loki's, ``active`` that of Pyroscope's."""


class TokenRing(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A ring: ``instances`` in byte order of their IDs, the sorted ``tokens`` (int64) and the index of the instance that
    owns each (``owner``, int32). ``replication``: the replication factor; ``zone_aware``: at most one replica a zone."""

    instances: tuple[Instance, ...]
    replication: int
    zone_aware: bool
    tokens: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, instances: Iterable[Instance], replication: int = 3, zone_aware: bool = False) -> TokenRing:
        """Lay out a ring. A token of several instances goes to one that is not LEAVING, then to the smallest ID, as memberlist
        resolves it."""
        ordered = tuple(sorted(instances, key=lambda i: i.id))
        sizes = [len(i.tokens) for i in ordered]
        if not sum(sizes):
            return cls(ordered, replication, zone_aware, NO_TOKENS, np.empty(0, dtype=np.int32))
        tokens = np.concatenate([i.tokens for i in ordered]).astype(np.int64)
        owner = np.repeat(np.arange(len(ordered), dtype=np.int32), sizes)
        order = np.argsort(tokens, kind="stable")
        tokens, owner = tokens[order], owner[order]
        if len(tokens) > 1 and (tokens[1:] == tokens[:-1]).any():
            order = np.lexsort((owner, np.array([i.state == "LEAVING" for i in ordered])[owner], tokens))
            tokens, owner = tokens[order], owner[order]
            first = np.concatenate(([True], tokens[1:] != tokens[:-1]))
            tokens, owner = tokens[first], owner[first]
        return cls(ordered, replication, zone_aware, tokens, owner)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """IDs in ring order."""
        return tuple(i.id for i in self.instances)

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """Zones of all members, sorted, "" (no zone) included."""
        return tuple(sorted({i.zone for i in self.instances}))

    @cached_property
    def zone_of(self) -> np.ndarray:
        """Index into ``zones`` of each instance (int64)."""
        number = {zone: n for n, zone in enumerate(self.zones)}
        return np.array([number[i.zone] for i in self.instances], dtype=np.int64)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of keys that each token owns (int64): the distance from the token before it."""
        return gaps(self.tokens)

    @cached_property
    def positions(self) -> tuple[np.ndarray, ...]:
        """Positions in ``tokens`` of each instance's tokens, ascending."""
        order = np.argsort(self.owner, kind="stable")
        ends = np.cumsum(np.bincount(self.owner, minlength=len(self.instances)))
        return tuple(np.split(order, ends[:-1])) if len(self.instances) else ()

    def healthy(self, operation: Operation) -> np.ndarray:
        """Return for each instance whether it is healthy for ``operation`` (bool)."""
        return np.array([i.beating and i.state in operation.healthy for i in self.instances], dtype=bool)

    def subring(self, chosen: np.ndarray) -> TokenRing:
        """Return the ring of the instances ``chosen`` (indices, ascending) alone, with its own zones."""
        if len(chosen) == len(self.instances):
            return self
        number = np.full(len(self.instances), -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        positions = [self.positions[i] for i in chosen.tolist()]
        if sum(map(len, positions)) > len(self.tokens) // 8:
            at = np.flatnonzero(number[self.owner] >= 0)
        else:
            at = np.sort(np.concatenate(positions)) if positions else np.empty(0, dtype=np.int64)
        return msgspec.structs.replace(
            self,
            instances=tuple(self.instances[i] for i in chosen.tolist()),
            tokens=self.tokens[at],
            owner=number[self.owner[at]],
        )

    def without(self, gone: frozenset[str]) -> TokenRing:
        """Return the ring without the members ``gone`` (IDs)."""
        return self.subring(np.array([i for i, name in enumerate(self.ids) if name not in gone], dtype=np.int64))

    @cached_property
    def ownership(self) -> np.ndarray:
        """Number of keys that the ring page calls an instance's own (int64): the distances of its tokens from the token
        before them *in the same zone*, whether the ring is zone-aware or not (``CountTokens``)."""
        owned = np.zeros(len(self.instances), dtype=np.int64)
        zone = self.zone_of[self.owner]
        for number in range(len(self.zones)):
            at = np.flatnonzero(zone == number)
            np.add.at(owned, self.owner[at], gaps(self.tokens[at]))
        return owned

    @cached_property
    def token_ranges(self) -> tuple[np.ndarray | None, ...]:
        """Ranges of keys that each instance owns in its zone, ascending (int64 of shape (ranges, 2): first and last key), by
        which Mimir counts owned series; None where dskit computes none (``GetTokenRangesForInstance``): without zone
        awareness, with other than as many zones as replicas, without a zone, or in a zone without tokens.

        As in dskit, a range of key 0 alone is left out where 0 is a token.
        """
        out: list[np.ndarray | None] = [None] * len(self.instances)
        if not self.zone_aware or len(self.zones) != self.replication:
            return tuple(out)
        zone = self.zone_of[self.owner]
        for number, name in enumerate(self.zones):
            at = np.flatnonzero(zone == number)
            if not name or not len(at):
                continue
            ranges, owner = _runs(self.tokens[at], self.owner[at])
            order = np.argsort(owner, kind="stable")
            ends = np.cumsum(np.bincount(owner, minlength=len(out)))
            for member in np.flatnonzero(self.zone_of == number).tolist():
                out[member] = ranges[order[ends[member - 1] if member else 0 : ends[member]]]
        return tuple(out)


def _runs(tokens: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the ranges of neighbouring tokens of one owner, from key 0 on. Returns the ranges (first and last key) and their
    owners; a range across the end of the ring is two."""
    first = np.concatenate(([0], tokens))
    last = np.concatenate((tokens, [SPACE])) - 1
    owner = np.concatenate((owner, owner[:1]))
    if tokens[0] == 0:  # nothing lies below it
        first, last, owner = first[1:], last[1:], owner[1:]
    begins = np.concatenate(([True], owner[1:] != owner[:-1]))
    ranges = np.stack((first[begins], last[np.append(begins[1:], True)]), axis=1)
    is_kept = (ranges[:, 1] > 0) | (tokens[0] > 0)
    return ranges[is_kept], owner[begins][is_kept]


def first_above(tokens: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return for each key the position of the first of the sorted ``tokens`` above it; behind the last one the first."""
    found = np.searchsorted(tokens, keys, side="right")
    return np.where(found == len(tokens), 0, found)


def gaps(tokens: np.ndarray) -> np.ndarray:
    """Return the distance of each sorted token from the one before it, around the ring (int64); a lone token owns all keys."""
    if len(tokens) < 2:
        return np.full(len(tokens), SPACE, dtype=np.int64)
    return np.diff(tokens, prepend=tokens[-1] - SPACE)


_DIRECT = 273  # draws of Go's generator that depend on its seeded register alone
_BLOCK = 64  # draws made at a time beyond the first ones


def seed_of(tenant: str, zone: str = "") -> int:
    """Compute the signed 64-bit seed of ``tenant`` in ``zone``."""
    text = tenant.encode("utf-8", "surrogateescape")
    if zone:
        text += b"\x00" + zone.encode("utf-8", "surrogateescape")
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[:8], "big", signed=True)


def first_draws(seeds: Sequence[int], count: int) -> np.ndarray:
    """Draw the first ``count`` (at most 273) values of Uint32 for each seed. Returns int64 of shape (seeds, count).

    The first draws of Go's generator are sums of two cells of its register, so only those cells are seeded.
    """
    cells = np.concatenate((333 - np.arange(count), 606 - np.arange(count)))
    words = seed_words(seeds, cells, 40, 20) ^ cooked()[cells]
    return (((words[:, :count] + words[:, count:]) & np.uint64(2**63 - 1)) >> np.uint64(31)).astype(np.int64)


def draws(seed: int, count: int = _BLOCK) -> Iterator[int]:
    """Draw values of Uint32 endlessly, the first ``count`` of them cheaply."""
    count = min(count, _DIRECT)
    yield from first_draws([seed], count)[0].tolist()
    generator = GoRand(seed)
    generator.uint64s(count)
    while True:
        yield from ((generator.uint64s(_BLOCK) & np.uint64(2**63 - 1)) >> np.uint64(31)).astype(np.int64).tolist()


class Owners:
    """Owners of the sorted tokens of a ring (``owner``: indices), for walks that pass over most of them. ``patience``: steps
    taken one by one before the next owner is looked up."""

    def __init__(self, owner: np.ndarray, patience: int = 64) -> None:
        self._patience = patience
        self.by_token: list[int] = owner.tolist()
        order = np.argsort(owner, kind="stable")
        holders, begins = np.unique(owner[order], return_index=True)
        self.positions = dict(zip(holders.tolist(), np.split(order, begins[1:]), strict=True)) if len(owner) else {}

    def walk(self, start: int, passes: Callable[[int], bool]) -> Iterator[int]:
        """Walk once around from token ``start``. Yields each owner for which ``passes`` is false; that may change on the way."""
        total, step, idle = len(self.by_token), 0, 0
        while step < total:
            owner = self.by_token[(start + step) % total]
            if not passes(owner):
                yield owner
                idle = 0
            elif idle < self._patience:
                idle += 1
            else:  # few owners have nearly all tokens here
                ahead = (self._steps_to(start, step, holder) for holder in self.positions if not passes(holder))
                step = min(ahead, default=total)
                idle = 0
                continue
            step += 1

    def _steps_to(self, start: int, step: int, holder: int) -> int:
        """Count the steps from ``start`` to the first token of ``holder`` that is at least ``step`` away."""
        total, own = len(self.by_token), self.positions[holder]
        now = (start + step) % total
        found = int(np.searchsorted(own, now))
        return step + int(own[found] - now if found < len(own) else own[0] + total - now)


class ShardRing:
    """A token ring prepared for the shuffle shards of many tenants, as seen at ``now_s`` (epoch seconds)."""

    def __init__(self, ring: TokenRing, now_s: int) -> None:
        self.ring, self.now_s = ring, now_s
        zone = ring.zone_of[ring.owner] if len(ring.tokens) else np.empty(0, dtype=np.int64)
        groups = range(len(ring.zones)) if ring.zone_aware else (None,)
        self._groups: list[tuple[str, np.ndarray, np.ndarray, Owners]] = []
        """Per zone, or once for all: its name, members, tokens and their owners."""
        for group in groups:
            at = np.arange(len(ring.tokens)) if group is None else np.flatnonzero(zone == group)
            members = np.arange(len(ring.instances)) if group is None else np.flatnonzero(ring.zone_of == group)
            self._groups.append(
                ("" if group is None else ring.zones[group], members, ring.tokens[at], Owners(ring.owner[at]))
            )
        self.everyone = np.arange(len(ring.instances))
        self._oldest_s = min((i.registered_s for i in ring.instances), default=0)
        self._flags: dict[int, tuple[list[bool], list[bool]]] = {}
        self._possible: dict[int, list[int]] = {}
        """By lookback: how many members of each group with tokens a shard may hold."""

    def _flags_of(self, lookback_s: int) -> tuple[list[bool], list[bool]]:
        """Return for each instance whether a shard may hold it, and whether it is added to the shard's size."""
        if lookback_s not in self._flags:
            since = self.now_s - lookback_s
            looks_back, instances = lookback_s > 0, self.ring.instances
            # A read-only member is in a shard only if it became so within the lookback.
            is_in = [not i.read_only or (looks_back and not 0 < i.read_only_s < since) for i in instances]
            on_top = [
                looks_back and (i.registered_s >= since or i.read_only or i.read_only_s >= since) for i in instances
            ]
            self._flags[lookback_s] = is_in, on_top
            self._possible[lookback_s] = [sum(is_in[m] for m in group[3].positions) for group in self._groups]
        return self._flags[lookback_s]

    def flags(self, lookback_s: int) -> tuple[object, ...]:
        """Return what shards with this lookback depend on besides topology: equal flags give equal shards at any time."""
        since, instances = self.now_s - lookback_s, self.ring.instances
        is_in, on_top = self._flags_of(lookback_s)
        looks_back = lookback_s > 0
        flagged = [i.read_only_s for i in instances if i.read_only]
        return (looks_back, tuple(is_in), tuple(on_top), bool(flagged), looks_back and min(flagged, default=0) >= since,
                looks_back and self._oldest_s > 0 and self._oldest_s >= since)  # fmt: skip

    def shard(self, tenant: str, size: int, lookback_s: int = 0) -> np.ndarray:
        """Choose the instances (indices, ascending) of ``tenant``'s shard of ``size``; ``lookback_s`` 0 for writes."""
        ring, since = self.ring, self.now_s - lookback_s
        is_in, on_top = self._flags_of(lookback_s)
        if size <= 0:
            flagged = [i.read_only_s for i in ring.instances if i.read_only]
            if not flagged or (lookback_s > 0 and min(flagged) >= since):
                return self.everyone
            return np.flatnonzero(is_in)
        if lookback_s > 0 and self._oldest_s > 0 and self._oldest_s >= since:
            return self.everyone
        share = -(-size // max(len(ring.zones), 1)) if ring.zone_aware else size
        chosen: list[int] = []
        for (zone, members, tokens, owners), possible in zip(self._groups, self._possible[lookback_s], strict=True):
            if ring.zone_aware and share >= len(members):
                chosen += [m for m in members.tolist() if is_in[m]]
            elif len(tokens):
                chosen += _draw_shard(seed_of(tenant, zone), (share, possible), tokens, owners, is_in, on_top)
        return np.array(sorted(chosen), dtype=np.int64)


def _draw_shard(
    seed: int, size: tuple[int, int], tokens: np.ndarray, owners: Owners, is_in: list[bool], on_top: list[bool]
) -> list[int]:
    """Draw members, each the next eligible one from a random place on. ``size``: how many, and how many are eligible."""
    chosen: set[int] = set()
    rounds, possible = size
    drawn = draws(seed, min(rounds, possible))
    for _ in range(rounds):
        if len(chosen) == possible:
            break
        start = int(np.searchsorted(tokens, next(drawn), side="right"))
        for member in owners.walk(start, lambda m: m in chosen or not is_in[m]):
            # A member that came or changed within the lookback does not count for the size.
            chosen.add(member)
            if not on_top[member] or len(chosen) == possible:
                break
    return list(chosen)
