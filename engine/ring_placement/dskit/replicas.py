"""Replica sets: which instances hold a key, how many of them may fail, and the set that a whole-ring request needs.

Source: ``grafana/dskit/ring`` (``Ring.Get``, ``Ring.GetReplicationSetForOperation``, the default replication strategy).
See ``docs/models/dskit-rings.md``, "Replicas of a key" and "Requests to the whole ring".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.ring_placement.dskit.token_ring import Operation, TokenRing

STEPS = 64
"""Most tokens that a walk visits one by one; what is left then goes from instance to instance."""
_CELLS = 4_000_000
"""Cells of the largest array made for walks from instance to instance."""

TOO_MANY = "too many unhealthy instances in the ring"
"""Upstream's error where a whole-ring request finds too few healthy instances."""


@dataclass(frozen=True, eq=False)
class ReplicaSets:
    """Sets of many keys or intervals: ``members`` (int32, shape (sets, width), in walk order, -1 where a set ends)."""

    members: np.ndarray
    replication: int

    def live(self, healthy: np.ndarray) -> np.ndarray:
        """Count the members of each set that are ``healthy`` (bool per instance)."""
        flags = np.append(healthy, False)
        live = np.zeros(len(self.members), dtype=np.int32)
        for column in range(self.members.shape[1]):
            live += flags[self.members[:, column]]
        return live

    @property
    def needed(self) -> np.ndarray:
        """Fewest answers that make each set's request succeed: a majority of the set, or of the replication factor."""
        taken = (self.members >= 0).sum(axis=1)
        out: np.ndarray = np.maximum(taken, self.replication) // 2 + 1
        return out


def replica_sets(ring: TokenRing, operation: Operation, starts: np.ndarray | None = None) -> ReplicaSets:
    """Walk the ring from each position of ``starts`` (default: all tokens, so that set i holds the keys below token i).

    The sets depend on the topology and on states that extend them, not on health.
    """
    starts = np.arange(len(ring.tokens)) if starts is None else starts
    if not len(ring.tokens) or not len(starts):
        return ReplicaSets(np.empty((len(starts), 0), dtype=np.int32), ring.replication)
    extending = np.array([i.state in operation.extend for i in ring.instances], dtype=bool)
    zoned = np.array([zone != "" for zone in ring.zones])
    if ring.zone_aware and zoned.all() and not extending.any():
        return ReplicaSets(_one_per_zone(ring, starts), ring.replication)
    limits_zones = ring.zone_aware and bool(zoned.any())
    width = min(len(ring.instances), ring.replication + int(extending.sum()))
    members = _walk(ring, starts, extending, zoned if limits_zones else np.zeros_like(zoned), width)
    filled = np.flatnonzero((members >= 0).any(axis=0))
    return ReplicaSets(members[:, : filled[-1] + 1 if len(filled) else 0], ring.replication)


def _one_per_zone(ring: TokenRing, starts: np.ndarray) -> np.ndarray:
    """Take the next instance of each zone, in the order in which they come, at most as many as replicas are wanted."""
    total = len(ring.tokens)
    zone = ring.zone_of[ring.owner]
    ahead = []
    for number in range(len(ring.zones)):
        own = zone == number
        if not own.any():
            continue
        # The next position of the zone at or after each position, running backwards and around once.
        here = np.where(own, np.arange(total, dtype=np.int32), np.int32(2 * total))
        following = np.minimum.accumulate(here[::-1])[::-1]
        wrapped = np.int32(np.argmax(own) + total)
        ahead.append(np.minimum(following, wrapped)[starts])
    width = min(ring.replication, len(ahead), len(ring.instances))
    if len(ahead) > 1:
        _sort_columns(ahead)
    at = np.stack(ahead[:width], axis=1)
    at -= np.where(at >= total, np.int32(total), np.int32(0))
    members: np.ndarray = ring.owner[at]
    return members


def _sort_columns(columns: list[np.ndarray]) -> None:
    """Sort the rows of few columns in place, by exchanging neighbours: faster than sorting each row."""
    for last in range(len(columns) - 1, 0, -1):
        for k in range(last):
            low, high = np.minimum(columns[k], columns[k + 1]), np.maximum(columns[k], columns[k + 1])
            columns[k], columns[k + 1] = low, high


def _walk(ring: TokenRing, starts: np.ndarray, extending: np.ndarray, limited: np.ndarray, width: int) -> np.ndarray:
    """Walk as ``Ring.Get`` does, from all ``starts`` at once.

    ``extending``: bool per instance; ``limited``: bool per zone, whether it holds at most one instance that does not
    extend. Returns members (int32, shape (starts, ``width``)), -1 where a set ends.
    """
    total, count = len(ring.tokens), len(ring.instances)
    steps = min(total, STEPS, 8 * count)
    out, left = _visit(
        ring,
        len(starts),
        lambda rows, step: ring.owner[(starts[rows] + step) % total],
        steps,
        extending,
        limited,
        width,
    )
    # Where few instances have most of the tokens, others are far away: those walks go from instance to instance.
    for low in range(0, len(left) if total > steps else 0, max(_CELLS // count, 1)):
        rows = left[low : low + max(_CELLS // count, 1)]
        order = _order(ring, starts[rows])
        out[rows] = _visit(ring, len(rows), partial(_column_of, order), order.shape[1], extending, limited, width)[0]
    return out


def _visit(
    ring: TokenRing,
    count: int,
    node_at: Callable[[np.ndarray, int], np.ndarray],
    steps: int,
    extending: np.ndarray,
    limited: np.ndarray,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Visit instances step by step in ``count`` walks; ``node_at``: the instance that walks (indices) come to at a step.

    Returns members as ``_walk`` does, and the walks that had not ended after ``steps``.
    """
    most = len(ring.instances)
    out = np.full((count, width), -1, dtype=np.int32)
    in_zone = np.bincount(ring.zone_of, minlength=len(ring.zones))
    open_rows = np.arange(count)
    taken = np.zeros(count, dtype=np.int32)
    wanted = np.full(count, ring.replication, dtype=np.int32)
    # Zones still to be visited; those without a limit are never done.
    found = np.zeros((count, len(ring.zones)), dtype=bool)
    examined = np.zeros((count, len(ring.zones)), dtype=np.int32)
    limits = bool(limited.any())
    for step in range(steps):
        node = node_at(open_rows, step)
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
            examined[rows[at_limit], zone[at_limit]] += 1
            settled = at_limit & ~extends
            found[rows[settled], zone[settled]] = True
            visited = (found[open_rows] | (examined[open_rows] >= in_zone)) & limited
            open_rows = open_rows[~visited.all(axis=1)]
        open_rows = open_rows[taken[open_rows] < np.minimum(wanted[open_rows], most)]
        if not len(open_rows):
            break
    return out, open_rows


def _column_of(order: np.ndarray, rows: np.ndarray, step: int) -> np.ndarray:
    column: np.ndarray = order[rows, step]
    return column


def _order(ring: TokenRing, starts: np.ndarray) -> np.ndarray:
    """Return for each start the instances with tokens in the order of their next ones (shape (starts, instances))."""
    holders = [member for member, positions in enumerate(ring.positions) if len(positions)]
    following = np.empty((len(starts), len(holders)), dtype=np.int64)
    for column, member in enumerate(holders):
        positions = ring.positions[member]
        around = np.append(positions, positions[0] + len(ring.tokens))
        following[:, column] = around[np.searchsorted(positions, starts)]
    order: np.ndarray = np.array(holders)[np.argsort(following, axis=1)]
    return order


@dataclass(frozen=True, eq=False)
class WholeRing:
    """What a request to all instances needs: the ``members`` to ask (indices), and how many of them, or how many whole
    zones, may fail. ``error``: why it fails at once, else ""."""

    members: np.ndarray
    max_errors: int = 0
    max_unavailable_zones: int = 0
    zone_aware: bool = False
    error: str = ""

    def succeeds(self, ring: TokenRing, failing: np.ndarray) -> bool:
        """Whether the request succeeds while the instances ``failing`` (bool) answer with errors."""
        if self.error:
            return False
        failed = self.members[failing[self.members]]
        if self.zone_aware:
            return len(np.unique(ring.zone_of[failed])) <= self.max_unavailable_zones
        return len(failed) <= self.max_errors


def whole_ring_set(ring: TokenRing, operation: Operation) -> WholeRing:
    """Find the instances that a request to the whole ring asks (``GetReplicationSetForOperation``).

    With zone awareness every zone with an unhealthy instance is left out as a whole.
    """
    if not len(ring.tokens):
        return WholeRing(np.empty(0, dtype=np.int64), error="empty ring")
    healthy = ring.healthy(operation)
    if ring.zone_aware:
        failing = np.zeros(len(ring.zones), dtype=bool)
        failing[ring.zone_of[~healthy]] = True
        spare = min(len(ring.zones), ring.replication) // 2 - int(failing.sum())
        if spare < 0:
            return WholeRing(np.empty(0, dtype=np.int64), error=TOO_MANY)
        return WholeRing(np.flatnonzero(~failing[ring.zone_of]), 0, spare, True)
    needed = max(len(ring.instances), ring.replication) - ring.replication // 2
    members = np.flatnonzero(healthy)
    if len(members) < needed:
        return WholeRing(members[:0], error=TOO_MANY)
    return WholeRing(members, len(members) - needed)
