"""All single departures, or all pairs, in regime B on a regular ring: the keys are placed only once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ring_placement.pyroscope.keys import sum_cells, weigh
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.failover import place_without, shard_sets_changed
from engine.ring_placement.scenarios.sweep_totals import Step, Sweep, imbalance
from engine.ring_placement.scenarios.transient_sweeps import TouchCounts


def is_regular(placement: Placement) -> bool:
    """Whether any k departures leave the same layout up to names: all members ACTIVE, with as many tokens each."""
    members = placement.ring.members
    return bool(placement.ring.active.all()) and len({m.tokens for m in members}) == 1 and members[0].tokens > 0


def departures(
    placement: Placement, downs: Sequence[tuple[int, ...]], capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Remove each of many sets of one size k (1 or 2, less than all) from a regular ring, in turn.

    The keys are placed once on the smaller ring, whose owners are the survivors by rank; survivor number q is node q +
    (how many of the failed come before it). Load that stays is the sum over (dataset, q) of the smaller of before and
    after, and depends on the failed ones only through that shift: k + 1 prefix sums over q give every set's movement.
    ``downs``: member indices, ascending; ``capacity``: bytes per second per ring member, or None.
    """
    ring, n, k = placement.ring, len(placement.ring.members), len(downs[0])
    ranks = n - k
    later = place_without(placement, ring.ids[ranks:])
    stays = _load_that_stays(placement, later, k)
    shared = min(ring.total, later.ring.total)
    owners_stay = _owners_that_stay(placement, later, k)
    loads, by_rank = placement.loads, later.loads
    down = np.array(downs)
    # Survivors with ranks below down[0] are not shifted, those between down[s-1] - (s-1) and down[s] - s by s.
    first_ranks = down - np.arange(k)
    edges = np.column_stack((np.zeros(len(down), dtype=np.int64), first_ranks, np.full(len(down), ranks)))

    def by_shift(prefix_sums: list[np.ndarray]) -> np.ndarray:
        """Sum up each set's ranks, with the prefix sums of the shift that applies."""
        total: np.ndarray = sum(sums[edges[:, s + 1]] - sums[edges[:, s]] for s, sums in enumerate(prefix_sums))
        return total

    on_gone = loads[down].sum(axis=1)
    moved = placement.groups.total - placement.rejected - by_shift(stays)
    peak = int(np.argmax(by_rank))
    ratio, variation = imbalance(by_rank)
    count = len(downs)
    sweep = Sweep(ring.ids, list(downs))
    sweep.rejected_bytes = [later.rejected] * count
    sweep.rerouted_bytes = (on_gone - max(0, later.rejected - placement.rejected)).tolist()
    sweep.moved_bytes, sweep.needless_moved_bytes = moved.tolist(), (moved - on_gone).tolist()
    sweep.shards_with_changed_owner = (shared - by_shift(owners_stay)).tolist()
    sweep.datasets_with_changed_shard_set = [int(shard_sets_changed(placement, later).sum())] * count
    sweep.datasets_touched, sweep.datasets_fully_on_down, sweep.tenants_touched = TouchCounts(
        placement, pairs=k == 2
    ).of(down)
    sweep.worst = (peak + (peak >= first_ranks).sum(axis=1)).tolist()
    sweep.worst_load = [by_rank[peak].item()] * count
    sweep.max_over_mean, sweep.coefficient_of_variation = [ratio] * count, [variation] * count
    for number, failed in enumerate(downs):
        if number % 2048 == 0:
            step(number / count)
        sweep.nodes_over_capacity.append(-1 if capacity is None else int((by_rank > np.delete(capacity, failed)).sum()))
    return sweep


def _load_that_stays(placement: Placement, later: Placement, k: int) -> list[np.ndarray]:
    """Return, for shifts 0 to ``k``, prefix sums over ranks of the load that stays where rank q is node q + shift."""
    n, ranks = len(placement.ring.members), len(later.ring.members)
    before_cells, before_weight = _cells(placement, n)
    after_cells, after_weight = _cells(later, n)
    rank = after_cells % n
    stays = []
    for shift in range(k + 1):
        wanted = after_cells + shift
        at = np.searchsorted(before_cells, wanted)
        at_safe = np.minimum(at, max(0, len(before_cells) - 1))
        match = (at < len(before_cells)) & (before_cells[at_safe] == wanted) & (rank + shift < n)
        smaller = np.where(match, np.minimum(after_weight, before_weight[at_safe]), 0)
        stays.append(np.concatenate(([0], np.cumsum(weigh(rank, smaller, ranks)))))
    return stays


def _owners_that_stay(placement: Placement, later: Placement, k: int) -> list[np.ndarray]:
    """Return, for shifts 0 to ``k``, prefix sums over ranks of the shards whose owner stays with that shift."""
    shared = min(placement.ring.total, later.ring.total)
    later_owner = later.ring.owner[:shared]
    shift_needed = placement.ring.owner[:shared].astype(np.int64) - later_owner
    ranks = len(later.ring.members)
    return [
        np.concatenate(([0], np.cumsum(np.bincount(later_owner[shift_needed == shift], minlength=ranks))))
        for shift in range(k + 1)
    ]


def _cells(placement: Placement, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum the load by cell dataset * ``n`` + receiver. Returns the sorted cells and their weights, without what is
    rejected."""
    received = placement.receivers >= 0
    cell = placement.groups.datasets[received].astype(np.int64) * n + placement.receivers[received]
    return sum_cells(cell, placement.groups.weight[received])
