"""All single failures, or all pairs, on a ring with replicas, at once, from the number of members that each set can spare.

A set that can spare one member is lost to every pair in it; a set that can spare none, to each of its members. The same counts
by shard give the tenants that lose writes or queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.strategy import LOSSES, Step, Sweep


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
                    both += sign * np.bincount(column[two].astype(np.int64) * n + other[two], weight[at][two], n * n)
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

    def matrix(self) -> np.ndarray:
        """Return the loss for each pair of failing members (n, n); on the diagonal for one member alone."""
        lost: np.ndarray = self.base + self.single[:, None] + self.single[None, :] + self.both
        np.fill_diagonal(lost, self.base + self.single)
        return lost


def tenant_counts(placement: ReplicatedPlacement, reads_fail: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the tenants that lose some writes, and all queries, when two members fail; on the diagonal: one alone (n, n).

    "No shard", the keys and queries of the whole ring, counts as one more; whether its queries fail is the third matrix (bool).
    ``reads_fail``: False if members that are down still answer queries.
    """
    rows, n = placement.rows, len(placement.ring.members)
    writes, reads = (np.zeros((n, n), dtype=np.int64) for _ in range(2))
    if placement.partitions is None:
        for tenants, fails in zip(np.bincount([0, *rows.shard_of]), _failing_writes(placement), strict=True):
            writes += tenants * fails
    if not reads_fail:
        _, _, lost, reads_ok = placement.losses
        return writes, reads + lost, np.full((n, n), not reads_ok)
    whole: np.ndarray | None = None
    failing = _failing_reads(placement) if placement.partitions is None else _failing_partition_reads(placement)
    for tenants, fails in zip(np.bincount([0, *rows.read_of]), failing, strict=True):
        whole = fails if whole is None else whole
        reads += tenants * fails
    return writes, reads, np.zeros((n, n), dtype=bool) if whole is None else whole


def _failing_writes(placement: ReplicatedPlacement) -> Iterator[np.ndarray]:
    """Yield for each shard which pairs of members (n, n; on the diagonal: one alone) take some of its writes with them."""
    rows, n = placement.rows, len(placement.ring.members)
    alive = np.append(placement.alive, False)
    critical = np.flatnonzero(placement.spare <= 1)
    parts = np.split(critical, np.searchsorted(rows.shard[critical], np.arange(1, len(rows.shards))))
    for lost, own in zip(placement.lost_share > 0, parts, strict=True):
        fails = np.full((n, n), lost)
        members, spare = rows.members[own], placement.spare[own]
        for k, column in enumerate(members.T if not lost else ()):
            here = alive[column]
            fails[column[here & (spare == 0)]] = True
            for other in members.T[k + 1 :]:
                both = here & alive[other]
                fails[column[both], other[both]] = True
        yield fails | fails.T


def _failing_reads(placement: ReplicatedPlacement) -> Iterator[np.ndarray]:
    """Yield the same for the queries of each shard that is read on a token ring."""
    queries, n = placement.queries, len(placement.ring.members)
    alive = placement.ring.reading & ~placement.failed
    zone_of, failing = placement.ring.tokens.zone_of, queries.failing_groups(alive)
    for shard, (spare, members) in enumerate(zip(queries.spare(alive), placement.rows.reads, strict=True)):
        fails = np.full((n, n), spare < 0)
        if 0 <= spare <= 1:
            members, zoned = members[alive[members]], queries.zones[shard] > 0
            if zoned:  # a zone that fails already has nothing to lose
                members = members[~np.isin(shard * queries.zone_count + zone_of[members], failing)]
            zones = zone_of[members] if zoned else members
            fails[np.ix_(members, members)] = zones[:, None] != zones[None, :]
            fails[members if spare == 0 else []] = True
        yield fails | fails.T


def _failing_partition_reads(placement: ReplicatedPlacement) -> Iterator[np.ndarray]:
    """Yield the same for the queries of each shard that is read on a ring of partitions."""
    assert placement.partitions is not None
    n, answering = len(placement.ring.members), placement.ring.reading & ~placement.failed
    owners = [held[answering[held]].tolist() for held in placement.partitions.owners_among(placement.ring.ids)]
    for succeed, partitions in zip(placement.reads_ok, placement.rows.reads, strict=True):
        fails = np.full((n, n), not succeed)
        for held in (owners[partition] for partition in partitions.tolist() if 0 < len(owners[partition]) < 3):
            fails[held[0], held[1:] or slice(None)] = True
        yield fails | fails.T


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
    if kind not in ("nodes", "leaving", "pairs"):
        return _one_by_one(placement, downs, limits, step)
    sweep = Sweep(
        placement.ring.ids, list(combinations(range(len(placement.ring.members)), 2 if kind == "pairs" else 1))
    )
    if not sweep.down:
        return sweep
    sets = np.array(sweep.down, dtype=np.int64)
    i, j = sets[:, 0], sets[:, -1]
    step(0.1)
    load, keys = PairSums.of(placement, placement.weight).matrix(), PairSums.of_keys(placement).matrix()
    step(0.3)
    writes, reads, whole = tenant_counts(placement, reads_fail)
    step(0.6)
    sweep.columns = {"rejected_bytes": load[i, j].tolist()}
    for name, lost in zip(LOSSES, (keys, writes, reads, np.logical_not(whole)), strict=True):
        sweep.columns[name] = lost[i, j].tolist()
    sweep.columns |= _load_figures(placement, sets, limits)
    return sweep


def _load_figures(placement: ReplicatedPlacement, sets: np.ndarray, limits: np.ndarray | None) -> dict[str, list[Any]]:
    """Return the figures of the survivors' loads, and the tenants touched, for each set of one or two members."""
    loads, alive = placement.loads, placement.alive
    count, shares = len(sets), placement.rows.shares
    touched = np.zeros(count, dtype=np.int64)
    if shares is not None:
        have = (shares > 0)[placement.rows.shard_of].astype(np.float32)
        together, one, two = (have.T @ have).astype(np.int64), sets[:, 0], sets[:, -1]
        touched = together[one, one] + together[two, two] - together[one, two]
    worst = np.full(count, -1)
    for candidate in np.argsort(-np.where(alive, loads, -1.0), kind="stable")[:3][::-1]:
        if alive[candidate]:
            worst[(sets != candidate).all(axis=1)] = candidate
    taken = np.where(alive[sets], loads[sets], 0.0)
    left = alive.sum() - alive[sets].sum(axis=1)
    mean = np.where(left > 0, (loads.sum() - taken.sum(axis=1)) / np.maximum(left, 1), 0.0)
    square = np.where(left > 0, ((loads**2).sum() - (taken**2).sum(axis=1)) / np.maximum(left, 1), 0.0)
    top, safe = np.where(worst >= 0, loads[worst], 0.0), np.where(mean > 0, mean, 1)
    over = np.full(count, -1)
    if limits is not None:
        exceeds = np.flatnonzero(np.logical_and(loads > limits, alive))
        over = len(exceeds) - np.isin(sets, exceeds).sum(axis=1)
    figures = {
        "tenants_touched": touched, "worst": worst, "worst_load": top, "nodes_over_capacity": over,
        "max_over_mean": np.where(mean > 0, top / safe, 1.0),
        "coefficient_of_variation": np.where(mean > 0, np.sqrt(np.maximum(square - mean**2, 0)) / safe, 0.0),
    }  # fmt: skip
    return {name: values.tolist() for name, values in figures.items()}


def _one_by_one(
    placement: ReplicatedPlacement, downs: Sequence[tuple[int, ...]], limits: np.ndarray | None, step: Step
) -> Sweep:
    sweep, shares = Sweep(placement.ring.ids), placement.rows.shares
    for number, down in enumerate(downs):
        step(number / max(1, len(downs)))
        failed = placement.failed.copy()
        failed[list(down)] = True
        after = placement.with_failed(failed)
        hit = None if shares is None else shares[:, list(down)].sum(axis=1) > 0
        touched = 0 if hit is None else int(hit[placement.rows.shard_of].sum())
        sweep.add(down, after.loads, after.alive, limits, rejected_bytes=after.rejected, tenants_touched=touched,
                  **dict(zip(LOSSES, after.losses, strict=True)))  # fmt: skip
    return sweep
