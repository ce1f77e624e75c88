"""All single failures, or all pairs, on a ring with replicas, at once, from the number of members that each set can spare.

A set that can spare one member is lost to every pair in it; a set that can spare none, to each of its members. The same counts
by shard give the tenants that lose writes or queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.strategy import Step, Sweep


class PairSums:
    """Sums of a weight per replica set over failing members: ``base`` is lost already, ``single`` (n) is lost when a member
    fails, ``pair(i, j)`` when both do. ``spare``: how many more members of each set may fail; ``alive``: bool per member."""

    def __init__(self, members: np.ndarray, spare: np.ndarray, weight: np.ndarray, alive: np.ndarray) -> None:
        n, flags = len(alive), np.append(alive, False)
        self.base = float(weight[spare < 0].sum())
        self.single = np.zeros(n)
        both = np.zeros(n * n)
        for critical, sign in ((0, -1.0), (1, 1.0)):
            at = np.flatnonzero(spare == critical)
            own = members[at]
            for k, column in enumerate(own.T):
                here = flags[column]
                if critical == 0:
                    self.single += np.bincount(column[here], weight[at][here], n)
                for other in own.T[k + 1 :]:
                    two = here & flags[other]
                    cell = column[two].astype(np.int64) * n + other[two]
                    both += sign * np.bincount(cell, weight[at][two], n * n)
        matrix = both.reshape(n, n)
        self.both = matrix + matrix.T

    @classmethod
    def of(cls, placement: ReplicatedPlacement, weight: np.ndarray, rows: slice | np.ndarray = slice(None)) -> PairSums:
        """Sum up ``weight`` over the ``rows`` of a placement. On a partition ring writes do not depend on members."""
        spare = placement.spare if placement.partitions is None else np.where(placement.lost, -1, 2)
        return cls(placement.rows.members[rows], spare[rows], weight[rows], placement.alive)

    @classmethod
    def of_keys(cls, placement: ReplicatedPlacement) -> PairSums:
        """Sum up the share of all keys."""
        return cls.of(placement, placement.rows.length / SPACE, placement.rows.shard == 0)

    def pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the loss when members ``i`` and ``j`` fail together."""
        return self.base + self.single[i] + self.single[j] + self.both[i, j]

    def matrix(self) -> np.ndarray:
        """Return the loss for each pair of failing members (n, n); on the diagonal for one member alone."""
        lost: np.ndarray = self.base + self.single[:, None] + self.single[None, :] + self.both
        np.fill_diagonal(lost, self.base + self.single)
        return lost


class TenantCounts:
    """How many tenants lose some writes, or all queries, when one member or a pair fails: ``writes_one`` and ``reads_one`` (n),
    ``writes_two`` and ``reads_two`` (n, n). "No shard", the keys and queries of the whole ring, counts as one more; whether its
    queries fail is in ``whole_one`` and ``whole_two`` (bool)."""

    def __init__(self, placement: ReplicatedPlacement, reads_fail: bool = True) -> None:
        self._n = n = len(placement.ring.members)
        self._placement = placement
        rows = placement.rows
        self.writes_one = np.zeros(n, dtype=np.int64)
        self.writes_two = np.zeros((n, n), dtype=np.int64)
        self.reads_one = np.zeros(n, dtype=np.int64)
        self.reads_two = np.zeros((n, n), dtype=np.int64)
        self.whole_one, self.whole_two = np.zeros(n, dtype=bool), np.zeros((n, n), dtype=bool)
        writing, asking = (
            np.bincount(rows.shard_of, minlength=len(rows.shards)),
            np.bincount(rows.read_of, minlength=len(rows.reads)),
        )
        writing[0] += 1
        asking[0] += 1
        if placement.partitions is None:
            self._count_writes(writing)
        if reads_fail and placement.partitions is None:
            self._count_reads(asking)
        elif reads_fail:
            self._count_partition_reads(asking)

    def _count_writes(self, tenants: np.ndarray) -> None:
        placement, n = self._placement, self._n
        rows = placement.rows
        alive = np.append(placement.alive, False)
        lost = placement.lost_share > 0
        critical = np.flatnonzero(placement.spare <= 1)
        starts = np.searchsorted(rows.shard[critical], np.arange(len(rows.shards) + 1))
        for shard in np.flatnonzero(tenants).tolist():
            if lost[shard]:
                self.writes_one += tenants[shard]
                self.writes_two += tenants[shard]
                continue
            own = critical[starts[shard] : starts[shard + 1]]
            if not len(own):
                continue
            members, spare = rows.members[own], placement.spare[own]
            one = np.zeros(n, dtype=bool)
            two = np.zeros((n, n), dtype=bool)
            for k, column in enumerate(members.T):
                here = alive[column]
                one[column[here & (spare == 0)]] = True
                for other in members.T[k + 1 :]:
                    both = here & alive[other]
                    two[column[both], other[both]] = True
            self.writes_one += one * tenants[shard]
            self.writes_two += _either(one, two) * tenants[shard]

    def _count_reads(self, tenants: np.ndarray) -> None:
        placement, n = self._placement, self._n
        queries = placement.queries
        alive = placement.ring.reading & ~placement.failed
        spare = queries.spare(alive)
        zone_of = placement.ring.tokens.zone_of
        failing = set(queries.failing_groups(alive).tolist())
        for shard in np.flatnonzero(tenants).tolist():
            one = np.zeros(n, dtype=bool)
            two = np.zeros((n, n), dtype=bool)
            if spare[shard] < 0:
                one[:] = two[:] = True
            elif spare[shard] <= 1:
                members = placement.rows.reads[shard]
                members = members[alive[members]]
                if queries.zones[shard]:
                    here = [shard * queries.zone_count + int(zone_of[m]) not in failing for m in members.tolist()]
                    members = members[np.array(here, dtype=bool)]
                if spare[shard] == 0:
                    one[members] = True
                else:
                    zones = zone_of[members] if queries.zones[shard] else np.arange(len(members))
                    two[np.ix_(members, members)] = zones[:, None] != zones[None, :]
            self._add_reads(shard, one, two, tenants[shard])

    def _count_partition_reads(self, tenants: np.ndarray) -> None:
        placement, n = self._placement, self._n
        assert placement.partitions is not None
        answering = placement.ring.reading & ~placement.failed
        owners = [held[answering[held]] for held in placement.partitions.owners_among(placement.ring.ids)]
        for shard in np.flatnonzero(tenants).tolist():
            one = np.zeros(n, dtype=bool)
            two = np.zeros((n, n), dtype=bool)
            if not placement.reads_ok[shard]:
                one[:] = two[:] = True
            for partition in placement.rows.reads[shard].tolist():
                held = owners[partition]
                if len(held) == 1:
                    one[held[0]] = True
                elif len(held) == 2:
                    two[held[0], held[1]] = True
            self._add_reads(shard, one, two, tenants[shard])

    def _add_reads(self, shard: int, one: np.ndarray, two: np.ndarray, tenants: int) -> None:
        either = _either(one, two)
        if shard == 0:
            self.whole_one, self.whole_two = one, either
        self.reads_one += one * tenants
        self.reads_two += either * tenants


def _either(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return which pairs fail what ``one`` member of them, or the ``two`` together, do."""
    return two | two.T | one[:, None] | one[None, :]


def sweep_replicas(
    placement: ReplicatedPlacement,
    kind: str,
    downs: Sequence[tuple[int, ...]],
    limits: np.ndarray | None,
    step: Step,
    reads_fail: bool,
) -> Sweep:
    """Sweep every node, every pair, or the sets ``downs`` one by one. ``limits``: capacity per member, or None;
    ``reads_fail``: False if members that are down still answer queries, as LEAVING ones may."""
    n = len(placement.ring.members)
    if kind not in ("nodes", "leaving", "pairs"):
        return _one_by_one(placement, downs, limits, step)
    size = 2 if kind == "pairs" else 1
    sweep = Sweep(placement.ring.ids, list(combinations(range(n), size)))
    if not sweep.down:
        return sweep
    sets = np.array(sweep.down, dtype=np.int64)
    i, j = sets[:, 0], sets[:, -1]
    step(0.1)
    load = PairSums.of(placement, placement.weight)
    keys = PairSums.of_keys(placement)
    step(0.3)
    counts = TenantCounts(placement, reads_fail)
    step(0.6)
    if size == 1:
        sweep.rejected_bytes = (load.base + load.single).tolist()
        sweep.write_lost_share = (keys.base + keys.single).tolist()
        writes, reads, whole = counts.writes_one, counts.reads_one, counts.whole_one
    else:
        sweep.rejected_bytes = load.pairs(i, j).tolist()
        sweep.write_lost_share = keys.pairs(i, j).tolist()
        writes, reads, whole = counts.writes_two[i, j], counts.reads_two[i, j], counts.whole_two[i, j]
    _, _, base, reads_ok = placement.losses
    sweep.tenants_write_lost = writes.tolist()
    # Members that are LEAVING may still answer.
    sweep.tenants_read_lost = reads.tolist() if reads_fail else [base] * len(sets)
    sweep.reads_ok = (~whole).tolist() if reads_fail else [reads_ok] * len(sets)
    _fill_loads(sweep, placement, sets, limits)
    return sweep


def _fill_loads(sweep: Sweep, placement: ReplicatedPlacement, sets: np.ndarray, limits: np.ndarray | None) -> None:
    """Fill in the figures of the survivors' loads, and the totals that are always 0."""
    loads, alive = placement.loads, placement.alive
    count = len(sets)
    shards = placement.rows
    shares = shards.shares
    holds = None if shares is None else (shares > 0)[shards.shard_of]
    one, two = sets[:, 0], sets[:, -1]
    if holds is not None:
        have = holds.astype(np.float32)
        together = (have.T @ have).astype(np.int64)
        single = np.diag(together)
        touched = single[one] if sets.shape[1] == 1 else single[one] + single[two] - together[one, two]
        sweep.tenants_touched = touched.tolist()
    sweep.fill()
    order = np.argsort(-np.where(alive, loads, -1.0), kind="stable")[:3]
    worst = np.full(count, -1)
    for candidate in order[::-1]:
        if alive[candidate]:
            worst[(sets != candidate).all(axis=1)] = candidate
    taken = np.where(alive[sets], loads[sets], 0.0)
    left = alive.sum() - alive[sets].sum(axis=1)
    mean = np.where(left > 0, (loads.sum() - taken.sum(axis=1)) / np.maximum(left, 1), 0.0)
    square = np.where(left > 0, ((loads**2).sum() - (taken**2).sum(axis=1)) / np.maximum(left, 1), 0.0)
    top = np.where(worst >= 0, loads[worst], 0.0)
    sweep.worst, sweep.worst_load = worst.tolist(), top.tolist()
    sweep.max_over_mean = np.where(mean > 0, top / np.where(mean > 0, mean, 1), 1.0).tolist()
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    sweep.coefficient_of_variation = np.where(mean > 0, deviation / np.where(mean > 0, mean, 1), 0.0).tolist()
    over = np.full(count, -1)
    if limits is not None:
        exceeds = np.flatnonzero(np.logical_and(loads > limits, alive))
        over = len(exceeds) - np.isin(sets, exceeds).sum(axis=1)
    sweep.nodes_over_capacity = over.tolist()


def _one_by_one(
    placement: ReplicatedPlacement, downs: Sequence[tuple[int, ...]], limits: np.ndarray | None, step: Step
) -> Sweep:
    sweep = Sweep(placement.ring.ids)
    rows = placement.rows
    shares = rows.shares
    for number, down in enumerate(downs):
        step(number / max(1, len(downs)))
        failed = placement.failed.copy()
        failed[list(down)] = True
        after = placement.with_failed(failed)
        sweep.add_loads(down, after.loads, after.alive, limits)
        sweep.rejected_bytes.append(after.rejected)
        share, writes, reads, reads_ok = after.losses
        sweep.write_lost_share.append(share)
        sweep.tenants_write_lost.append(writes)
        sweep.tenants_read_lost.append(reads)
        sweep.reads_ok.append(reads_ok)
        hit = np.zeros(1, dtype=bool) if shares is None else np.any(shares[:, list(down)] > 0, axis=1)
        sweep.tenants_touched.append(0 if shares is None else int(np.asarray(hit)[rows.shard_of].sum()))
    sweep.fill()
    return sweep
