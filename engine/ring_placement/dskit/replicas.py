"""Which instances hold a key: replica sets and how many of them may fail; partitions and a tenant's shard of them.

Source: ``grafana/dskit/ring`` (``Ring.Get``, the default replication strategy, ``partition_ring.go``).
See ``docs/models/dskit-rings.md``, "Replicas of a key" and "Partition rings".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from engine.ring_placement.dskit.token_ring import NO_TOKENS, Operation, Owners, TokenRing, draws, seed_of

STEPS = 64  # most steps of a walk that are taken one by one; beyond, the remaining instances are looked up in order
_FEW_ZONES = 16  # most zones for which the next token of each is looked up
_CELLS = 4_000_000  # cells of the largest array made for walks


class ReplicaSets(msgspec.Struct, frozen=True, eq=False):
    """Sets of many keys or intervals: ``members`` (int32, shape (sets, width), in walk order, -1 where a set ends)."""

    members: np.ndarray
    replication: int

    @property
    def needed(self) -> np.ndarray:
        """Answers that each set's request needs: a majority of the set, or of the replication factor."""
        return np.maximum((self.members >= 0).sum(axis=1), self.replication) // 2 + 1


def replica_sets(ring: TokenRing, operation: Operation, starts: np.ndarray | None = None) -> ReplicaSets:
    """Walk the ring from each position of ``starts`` (default: all tokens, so that set i holds the keys below token i).

    The sets depend on the topology and on states that extend them, not on health.
    """
    starts = np.arange(len(ring.tokens)) if starts is None else starts
    if not len(ring.tokens) or not len(starts):
        return ReplicaSets(np.empty((len(starts), 0), dtype=np.int32), ring.replication)
    extending = np.array([i.state in operation.extend for i in ring.instances], dtype=bool)
    zoned = np.array([zone != "" for zone in ring.zones])
    if ring.zone_aware and zoned.all() and not extending.any() and len(ring.zones) <= _FEW_ZONES:
        return ReplicaSets(_one_per_zone(ring, starts), ring.replication)
    limits_zones = ring.zone_aware and bool(zoned.any())
    width = min(len(ring.instances), ring.replication + int(extending.sum()))
    members = _walk(ring, starts, extending, zoned if limits_zones else np.zeros_like(zoned), width)
    filled = np.flatnonzero((members >= 0).any(axis=0))
    return ReplicaSets(members[:, : filled[-1] + 1 if len(filled) else 0], ring.replication)


def _one_per_zone(ring: TokenRing, starts: np.ndarray) -> np.ndarray:
    """Take the next instance of each zone in walk order, up to the replication factor."""
    total = len(ring.tokens)
    zone = ring.zone_of[ring.owner]
    ahead = []
    for number in range(len(ring.zones)):
        own = zone == number
        if not own.any():
            continue
        ahead.append(_following(own)[starts])
    at = np.sort(np.stack(ahead, axis=1), axis=1)[:, : min(ring.replication, len(ahead), len(ring.instances))]
    at -= np.where(at >= total, np.int32(total), np.int32(0))
    return ring.owner[at]


def _following(own: np.ndarray) -> np.ndarray:
    """Return for each position the next one at or after it that is ``own`` (bool), around once: then beyond the end (int32)."""
    here = np.where(own, np.arange(len(own), dtype=np.int32), np.int32(2 * len(own)))
    return np.minimum(np.minimum.accumulate(here[::-1])[::-1], np.int32(np.argmax(own) + len(own)))


def _walk(ring: TokenRing, starts: np.ndarray, extending: np.ndarray, limited: np.ndarray, width: int) -> np.ndarray:
    """Walk as ``Ring.Get`` does, from all ``starts`` at once.

    ``extending``: bool per instance; ``limited``: bool per zone, whether it holds at most one instance that does not
    extend. Returns members (int32, shape (starts, ``width``)), -1 where a set ends.
    """
    # Neighbouring tokens of one instance are one step of every walk, wherever among them it begins.
    begins = np.append(True, ring.owner[1:] != ring.owner[:-1])
    owner, run_of = ring.owner[begins], np.cumsum(begins) - 1
    needed, row_of = np.unique(run_of[starts], return_inverse=True)
    out = np.empty((len(needed), width), dtype=np.int32)
    steps = min(len(owner), STEPS)
    at_once = max(_CELLS // max(len(ring.zones), width), 1)
    orders: np.ndarray | None = None
    for low in range(0, len(needed), at_once):
        here = needed[low : low + at_once]
        sets, left = _visit(ring, owner, here, steps, extending, limited, width)
        if len(left) and len(owner) > steps:
            # Few instances have nearly all tokens here, and the others are far away.
            orders = _orders(ring, owner, extending, limited) if orders is None else orders
            most = orders.shape[1]
            sets[left] = _visit(ring, orders.ravel(), here[left] * most, most, extending, limited, width)[0]
        out[low : low + at_once] = sets
    return out[row_of]


def _visit(
    ring: TokenRing,
    nodes: np.ndarray,
    starts: np.ndarray,
    steps: int,
    extending: np.ndarray,
    limited: np.ndarray,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Visit ``nodes``, which close to a circle, step by step from each of ``starts``.

    Returns members as ``_walk`` does, and the walks that had not ended after ``steps``.
    """
    count, most = len(starts), len(ring.instances)
    out = np.full((count, width), -1, dtype=np.int32)
    in_zone = np.bincount(ring.zone_of, minlength=len(ring.zones)).astype(np.int32)
    open_rows = np.arange(count)
    taken = np.zeros(count, dtype=np.int32)
    wanted = np.full(count, ring.replication, dtype=np.int32)
    # Zones that are done; zones without a limit never are, and sets of many zones are full before that.
    found = np.zeros((count, len(ring.zones)), dtype=bool)
    limits, runs_dry = bool(limited.any()), len(ring.zones) < width
    examined = np.zeros((count if runs_dry else 0, len(ring.zones)), dtype=np.int32)
    for step in range(steps):
        node = nodes[(starts[open_rows] + step) % len(nodes)]
        zone = ring.zone_of[node]
        fresh = (out[open_rows] != node[:, None]).all(axis=1)
        if limits:
            fresh &= ~(limited[zone] & found[open_rows, zone])
        rows, node, zone = open_rows[fresh], node[fresh], zone[fresh]
        out[rows, taken[rows]] = node
        taken[rows] += 1
        extends = extending[node]
        wanted[rows[extends]] += 1
        if limits:
            at_limit = limited[zone]
            settled = at_limit & ~extends
            found[rows[settled], zone[settled]] = True
        if limits and runs_dry:
            examined[rows[at_limit], zone[at_limit]] += 1
            open_rows = open_rows[~((found[open_rows] | (examined[open_rows] >= in_zone)) & limited).all(axis=1)]
        open_rows = open_rows[taken[open_rows] < np.minimum(wanted[open_rows], most)]
        if not len(open_rows):
            break
    return out, open_rows


def _orders(ring: TokenRing, owner: np.ndarray, extending: np.ndarray, limited: np.ndarray) -> np.ndarray:
    """Return for each position of ``owner`` the instances that a walk from there may take, in order (int32; the last one
    is repeated at the end).

    Going backwards, the instance of a position moves to the front of the order behind it. Instances that no walk can take any
    more are dropped: those of a full zone, and those beyond the replication factor.
    """
    nodes = owner.tolist()
    zone_of, full = ring.zone_of.tolist(), (limited[ring.zone_of] & ~extending).tolist()
    extends = extending.tolist()
    number: dict[tuple[int, ...], int] = {}
    order: tuple[int, ...] = ()
    at = np.zeros(len(nodes), dtype=np.int64)
    for around in range(2):  # the first round finds the order behind the end
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            if not order or order[0] != node:
                order = _in_front(node, order, ring.replication, full[node], zone_of, extends)
            if around:
                at[position] = number.setdefault(order, len(number))
    width = max(map(len, number))
    return np.array([(*found, *found[-1:] * (width - len(found))) for found in number], dtype=np.int32)[at]


def _in_front(
    node: int, order: tuple[int, ...], replication: int, fills: bool, zone_of: list[int], extends: list[bool]
) -> tuple[int, ...]:
    """Put ``node`` in front of ``order``; ``fills``: whether its zone takes no further member after it."""
    zone = zone_of[node]
    behind = [other for other in order if other != node and not (fills and zone_of[other] == zone)]
    left = replication - (not extends[node])
    for place, other in enumerate(behind):
        if left <= 0:
            return (node, *behind[:place])
        left -= not extends[other]
    return (node, *behind)


_, PENDING, ACTIVE, _, DELETED = range(5)
STATES = ("Unknown", "Pending", "Active", "Inactive", "Deleted")
"""Names of the states of a partition by number; a Deleted one is a tombstone."""


class Partition(msgspec.Struct, frozen=True, eq=False):
    """One partition. ``tokens`` (int64, sorted), ``changed_s``: last change of its state, epoch seconds; ``owners``: IDs of
    the instances that read it."""

    id: int
    state: int = ACTIVE
    tokens: np.ndarray = msgspec.field(default_factory=lambda: NO_TOKENS)
    changed_s: int = 0
    locked: bool = False
    owners: tuple[str, ...] = ()


class PartitionRing(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Partitions in order of their IDs, their sorted tokens (int64), and the index of the partition of each token."""

    partitions: tuple[Partition, ...]
    tokens: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, partitions: tuple[Partition, ...]) -> PartitionRing:
        """Lay out a ring; a token of two partitions goes to the smaller ID."""
        ordered = tuple(sorted((p for p in partitions if p.state != DELETED), key=lambda p: p.id))
        tokens = np.concatenate([np.empty(0, dtype=np.int64), *(p.tokens for p in ordered)]).astype(np.int64)
        owner = np.repeat(np.arange(len(ordered), dtype=np.int32), [len(p.tokens) for p in ordered])
        tokens, first = np.unique(tokens, return_index=True)
        return cls(ordered, tokens, owner[first])

    @cached_property
    def ids(self) -> np.ndarray:
        """IDs of the partitions (int64)."""
        return np.array([p.id for p in self.partitions], dtype=np.int64)

    def owners_among(self, ids: Sequence[str]) -> list[np.ndarray]:
        """Return for each partition the positions in ``ids`` (int64) of those of its owners that are listed there."""
        number = {name: n for n, name in enumerate(ids)}
        return [np.array([number[o] for o in p.owners if o in number], dtype=np.int64) for p in self.partitions]

    @cached_property
    def _owners(self) -> Owners:
        return Owners(self.owner)

    def active_partitions(self, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return for each token the index of the partition that takes the keys below it, or -1 if none is Active.

        ``chosen``: indices of the partitions of a shard.
        """
        usable, active = np.zeros((2, len(self.partitions)), dtype=bool)
        active[:] = [p.state == ACTIVE for p in self.partitions]
        usable[chosen] = active[chosen]
        own = usable[self.owner]
        return self.owner[_following(own) % len(own)] if own.any() else np.full(len(own), -1, dtype=np.int32)

    def shard(self, tenant: str, size: int, lookback_s: int = 0, now_s: int = 0) -> np.ndarray:
        """Choose the partitions (indices, ascending) of ``tenant``'s shard of ``size``; ``lookback_s`` 0 for writes."""
        total, since = len(self.tokens), now_s - lookback_s
        if size <= 0 or size >= len(self.partitions):
            size = len(self.partitions)
        within = [lookback_s > 0 and p.changed_s >= since for p in self.partitions]
        chosen: set[int] = set()
        excluded: set[int] = set()
        drawn = draws(seed_of(tenant), size)
        holders = len(self._owners.positions)
        # Once every partition with tokens is chosen or excluded, further rounds find nothing.
        while total and len(chosen) < size and len(chosen) + len(excluded) < holders:
            start = int(np.searchsorted(self.tokens, next(drawn), side="right"))
            for number in self._owners.walk(start, lambda n: n in chosen or n in excluded):
                partition = self.partitions[number]
                if partition.state == PENDING or not (partition.state == ACTIVE or within[number]):
                    excluded.add(number)
                elif within[number]:
                    chosen.add(number)
                    size += 1
                else:
                    chosen.add(number)
                    break
                if len(chosen) + len(excluded) == holders:
                    break
        return np.array(sorted(chosen), dtype=np.int64)
