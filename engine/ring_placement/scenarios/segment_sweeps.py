"""Sweeps on a ring of segment writers: the totals of all single failures, all pairs or given sets at once, exact.

Regime A (all members still in the ring) follows from joint histograms of each group's first candidates; regime B (they have
left) of a regular ring places the keys only once; everything else is computed scenario by scenario. Regime C (they are
back) follows from regime B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from engine.ring_placement.pyroscope.placement import Placement, sum_cells, weigh
from engine.ring_placement.scenarios.failover import (
    fail_members,
    place_without,
    remove_members,
    shard_sets_changed,
)
from engine.ring_placement.scenarios.strategy import TOTALS, Step, Sweep, imbalance


class _Histograms:
    """Load by first, second and third candidate; "no candidate" is the index ``n`` behind all members."""

    def __init__(self, placement: Placement) -> None:
        self.n = len(placement.ring.members)
        candidates = placement.candidates
        received = np.flatnonzero(candidates[:, 0] >= 0)
        self._weight = placement.groups.weight[received]
        listed = np.pad(candidates[received], ((0, 0), (0, 3)), constant_values=-1)[:, :3].astype(np.int64)
        self._first, self._second, self._third = np.ascontiguousarray(np.where(listed < 0, self.n, listed).T)
        self.joint = self._histogram(self._first, self._second, slice(None), self.n)
        """Load of the groups with first candidate i and second j, shape (n, n + 1)."""

    def _histogram(self, rows: np.ndarray, columns: np.ndarray, groups: slice | np.ndarray, height: int) -> np.ndarray:
        width = self.n + 1
        return weigh(rows[groups] * width + columns[groups], self._weight[groups], height * width).reshape(
            height, width
        )

    def third_behind(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Sum the load of groups whose first candidate is ``i``, by second and third candidate, and of those whose second is
        ``i``, by first and third. Both have the shape (n, n + 1)."""
        by_second = self._histogram(self._second, self._third, self._first == i, self.n + 1)[: self.n]
        return by_second, self._histogram(self._first, self._third, self._second == i, self.n)


def every_node_transient(placement: Placement, capacity: np.ndarray | None) -> Sweep:
    """Let every single member fail in turn. The histogram of first and second candidates answers all at once.

    ``capacity``: bytes per second per ring member, or None.
    """
    histograms = _Histograms(placement)
    n, joint = histograms.n, histograms.joint
    sweep = Sweep(placement.ring.ids)
    loads, receives = placement.loads, receiving_members(placement)
    for i, gain in enumerate(joint):
        stays = np.arange(n) != i
        sweep.add((i,), np.where(stays, loads + gain[:n], 0), receives & stays, capacity, moved_bytes=loads[i].item(),
                  rejected_bytes=placement.rejected + gain[n].item(), rerouted_bytes=gain[:n].sum().item())  # fmt: skip
    return _with_touched(sweep, placement)


def every_pair_transient(placement: Placement, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let all pairs of members fail, from the histograms of first, second and third candidates.

    ``capacity``: bytes per second per ring member, or None.
    """
    histograms = _Histograms(placement)
    n, joint = histograms.n, histograms.joint
    sweep = Sweep(placement.ring.ids)
    loads, rejected, receives = placement.loads, placement.rejected, receiving_members(placement)
    for i in range(n - 1):
        step(i / n)
        others = np.arange(i + 1, n)
        # What i received goes to its second choice, unless that is j: then to the third; and the same for j.
        from_i = np.broadcast_to(joint[i], (len(others), n + 1)).copy()
        from_i[np.arange(len(others)), others] = 0
        from_j = joint[others].copy()
        from_j[:, i] = 0
        by_second, by_first = histograms.third_behind(i)
        for j, more in zip(others.tolist(), from_i + from_j + by_second[others] + by_first[others], strict=True):
            stays = (np.arange(n) != i) & (np.arange(n) != j)
            sweep.add((i, j), np.where(stays, loads + more[:n], 0), receives & stays, capacity,
                      rejected_bytes=rejected + more[n].item(), rerouted_bytes=more[:n].sum().item(),
                      moved_bytes=(loads[i] + loads[j]).item())  # fmt: skip
    return _with_touched(sweep, placement)


def _with_touched(sweep: Sweep, placement: Placement) -> Sweep:
    """Add the counts of touched datasets and tenants; while the layout stays, no shard changes."""
    if sweep.down:
        sweep.columns |= touch_counts(placement, np.array(sweep.down))
    return sweep


_BLOCK_CELLS = 8_000_000  # cells of a dense matrix that are multiplied at a time: bounds memory


def touch_counts(placement: Placement, down: np.ndarray) -> dict[str, list[Any]]:
    """Count touched datasets and tenants for each set in ``down`` (member indices, shape (sets, 1 or 2)). Returns the totals by
    name: datasets touched, datasets wholly on the set, and tenants touched."""
    members, size = len(placement.ring.members), placement.keys.size
    datasets, receivers, tenants, tenant_receivers = _presence(placement)
    parts = np.bincount(datasets, minlength=size)
    received = receivers >= 0
    alone = received & (parts[datasets] == 1)
    counts = [np.bincount(at, minlength=members) for at in (receivers[received], receivers[alone], tenant_receivers)]
    of_sets = [count[down].sum(axis=1) for count in counts]
    if down.shape[1] == 2:
        i, j = down.T
        of_sets[0] -= _together(datasets[received], receivers[received], size, members)[i, j]
        of_sets[2] -= _together(tenants, tenant_receivers, len(placement.keys.tenants), members)[i, j]
        # A dataset on exactly two instances appears as two neighbours in the sorted pairs; one may be -1.
        on_two = received & (parts[datasets] == 2)
        first = np.flatnonzero(np.diff(datasets[on_two]) == 0)
        on_pair = np.zeros((members, members), dtype=np.int64)
        np.add.at(on_pair, (receivers[on_two][first], receivers[on_two][first + 1]), 1)
        of_sets[1] += on_pair[i, j] + on_pair[j, i]
    names = ("datasets_touched", "datasets_fully_on_down", "tenants_touched")
    return {name: values.tolist() for name, values in zip(names, of_sets, strict=True)}


def _presence(placement: Placement) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct (dataset, receiver) and (tenant, receiver) pairs as four index arrays.

    Receiver -1 (a part that is rejected) stays among the pairs of datasets and is left out for tenants.
    """
    width = len(placement.ring.members) + 1
    cell = _distinct(placement.groups.datasets.astype(np.int64) * width + placement.receivers + 1)
    datasets, receivers = cell // width, cell % width - 1
    tenant = _distinct(placement.keys.tenant_of[datasets].astype(np.int64) * width + receivers + 1)
    tenants, at = tenant // width, tenant % width - 1
    keep = at >= 0
    return datasets, receivers, tenants[keep], at[keep]


def _distinct(values: np.ndarray) -> np.ndarray:
    if not len(values):
        return values
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def _together(rows: np.ndarray, nodes: np.ndarray, count: int, n: int) -> np.ndarray:
    """Count for each pair of nodes how many of ``count`` rows have both (shape (n, n), exact)."""
    out = np.zeros((n, n), dtype=np.float64)
    order = np.argsort(rows, kind="stable")
    rows, nodes = rows[order], nodes[order]
    block = max(1, _BLOCK_CELLS // max(n, 1))
    for start in range(0, count, block):
        low, high = np.searchsorted(rows, (start, start + block))
        if low == high:
            continue
        dense = np.zeros((min(block, count - start), n), dtype=np.float32)
        dense[rows[low:high] - start, nodes[low:high]] = 1
        # Products of 0 and 1 stay exact in single precision up to 2^24 rows, and a block is smaller than that.
        out += dense.T @ dense
    return out.astype(np.int64)


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
        return sum(sums[edges[:, s + 1]] - sums[edges[:, s]] for s, sums in enumerate(prefix_sums))

    on_gone = loads[down].sum(axis=1)
    moved = placement.groups.total - placement.rejected - by_shift(stays)
    peak = int(np.argmax(by_rank))
    ratio, variation = imbalance(by_rank)
    over = []
    for number, failed in enumerate(downs):
        if number % 2048 == 0:
            step(number / len(downs))
        over.append(-1 if capacity is None else int((by_rank > np.delete(capacity, failed)).sum()))
    same = {
        "rejected_bytes": later.rejected, "worst_load": by_rank[peak].item(), "max_over_mean": ratio,
        "coefficient_of_variation": variation,
        "datasets_with_changed_shard_set": int(shard_sets_changed(placement, later).sum()),
    }  # fmt: skip
    figures = {
        "rerouted_bytes": on_gone - max(0, later.rejected - placement.rejected), "moved_bytes": moved,
        "needless_moved_bytes": moved - on_gone, "shards_with_changed_owner": shared - by_shift(owners_stay),
        "worst": peak + (peak >= first_ranks).sum(axis=1), "nodes_over_capacity": np.array(over),
    }  # fmt: skip
    columns = {name: [value] * len(downs) for name, value in same.items()}
    columns |= {name: values.tolist() for name, values in figures.items()}
    return Sweep(ring.ids, list(downs), columns | touch_counts(placement, down))


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
    """Sum the load by cell dataset * ``n`` + receiver. Returns the sorted cells and their weights, without rejected load."""
    received = placement.receivers >= 0
    cell = placement.groups.datasets[received].astype(np.int64) * n + placement.receivers[received]
    return sum_cells(cell, placement.groups.weight[received])


def back_again(left: Sweep, placement: Placement, capacity: np.ndarray | None) -> Sweep:
    """Turn a sweep of departures from ``placement`` (regime B) into one of their return (regime C).

    The layout is the old one, so every scenario has the same loads; what others took over or rejected moves back.
    ``capacity``: bytes per second per ring member, or None.
    """
    sweep = Sweep(left.ids)
    receives = receiving_members(placement)
    for down, moved, rejected in zip(left.down, left["moved_bytes"], left["rejected_bytes"], strict=True):
        back = moved - (rejected - placement.rejected)
        needless = max(0, back - placement.loads[list(down)].sum().item())
        sweep.add(down, placement.loads, receives, capacity, rejected_bytes=placement.rejected, rerouted_bytes=0,
                  moved_bytes=back, needless_moved_bytes=needless)  # fmt: skip
    sweep.columns |= {
        name: left[name] for name in TOTALS[4:]
    }  # shards, datasets and tenants differ by the same ones both ways
    return sweep


def one_by_one(
    placement: Placement, downs: Sequence[tuple[int, ...]], regime: str, capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Compute any list of scenarios one by one.

    ``downs``: member indices that fail in each; ``regime``: ``transient`` or ``left``; ``capacity``: bytes per second per
    ring member, or None.
    """
    ring = placement.ring
    sweep = Sweep(ring.ids)
    receives = receiving_members(placement)
    index = {name: i for i, name in enumerate(ring.ids)}
    for number, down in enumerate(downs):
        step(number / max(1, len(downs)))
        failed = np.zeros(len(ring.members), dtype=bool)
        failed[list(down)] = True
        if regime == "transient":
            outcome = fail_members(placement, failed)[0]
            after = outcome.after
        else:
            outcome, later = remove_members(placement, [ring.ids[i] for i in down])
            after = np.zeros(len(ring.members), dtype=outcome.after.dtype)
            after[[index[name] for name in later.ring.ids]] = later.loads
        sweep.add(down, after, receives & ~failed, capacity, **{name: getattr(outcome, name) for name in TOTALS})
    return sweep


def every_node(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let every single member of the ring fail in turn. Arguments as ``one_by_one``."""
    downs = [(i,) for i in range(len(placement.ring.members))]
    if regime == "transient" and _has_load(placement):
        return every_node_transient(placement, capacity)
    return _departures(placement, downs, regime, capacity, step)


def every_pair(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let every pair of members fail. Arguments as ``one_by_one``."""
    if regime == "transient" and _has_load(placement):
        return every_pair_transient(placement, capacity, step)
    return _departures(placement, list(combinations(range(len(placement.ring.members)), 2)), regime, capacity, step)


def _has_load(placement: Placement) -> bool:
    return placement.ring.total > 0 and len(placement.groups.datasets) > 0


def _departures(
    placement: Placement, downs: Sequence[tuple[int, ...]], regime: str, capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Compute departures at once where the ring allows it and some member stays, else one by one."""
    members = placement.ring.members
    some_stay = len(downs) > 0 and len(members) > len(downs[0])
    # With as many tokens each and all ACTIVE, any k departures leave the same layout up to names.
    is_regular = bool(placement.ring.active.all()) and len({m.tokens for m in members}) == 1
    if some_stay and regime == "left" and _has_load(placement) and is_regular:
        return departures(placement, downs, capacity, step)
    return one_by_one(placement, downs, regime, capacity, step)


def random_sets(n: int, k: int, draws: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Draw ``draws`` random sets of ``k`` of ``n`` members (without repeats within a set), from a fixed ``seed``."""
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(draws):
        yield tuple(sorted(generator.choice(n, size=min(k, n), replace=False).tolist()))


def receiving_members(placement: Placement) -> np.ndarray:
    """Return for each ring member whether it is ACTIVE and has a shard (bool)."""
    return placement.ring.active & np.array([m.tokens > 0 for m in placement.ring.members], dtype=bool)


def worst_case(sweep: Sweep, receives: np.ndarray) -> float | None:
    """Compute the capacity per node that survives every scenario of ``sweep`` (regime A): the hottest survivor's load in
    the worst one.

    ``receives`` as ``receiving_members`` returns it. Returns None where no scenario both hits a node that takes data and
    leaves one.
    """
    loads = [
        load
        for down, load, worst in zip(sweep.down, sweep["worst_load"], sweep["worst"], strict=True)
        if worst >= 0 and receives[list(down)].any()
    ]
    return max(loads, default=None)
