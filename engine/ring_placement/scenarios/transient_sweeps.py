"""All single failures, or all pairs, in regime A, from joint histograms of each group's first candidates."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.pyroscope.keys import weigh
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.sweep_totals import Step, Sweep, receiving_members


class _Histograms:
    """Load by first, second and third candidate; "no candidate" is the index ``n`` behind all members."""

    def __init__(self, placement: Placement) -> None:
        self.n = len(placement.ring.members)
        candidates = placement.candidates
        received = np.flatnonzero(candidates[:, 0] >= 0)
        self._weight = placement.groups.weight[received]
        self._first, self._second, self._third = (
            self._column(candidates[received], column) for column in range(3)
        )  # fmt: skip
        self.joint = self._histogram(self._first, self._second, slice(None), self.n)
        """Load of the groups with first candidate i and second j, shape (n, n + 1)."""

    def _column(self, candidates: np.ndarray, column: int) -> np.ndarray:
        if column >= candidates.shape[1]:
            return np.full(len(candidates), self.n)
        return np.where(candidates[:, column] < 0, self.n, candidates[:, column]).astype(np.int64)

    def _histogram(self, rows: np.ndarray, columns: np.ndarray, groups: slice | np.ndarray, height: int) -> np.ndarray:
        width = self.n + 1
        cell = rows[groups] * width + columns[groups]
        return weigh(cell, self._weight[groups], height * width).reshape(height, width)

    def sort_for_pairs(self) -> None:
        """Sort the groups by their first and by their second candidate, for ``third_by_second`` and ``third_by_first``."""
        self._by_first = np.argsort(self._first, kind="stable")
        self._first_at = np.searchsorted(self._first[self._by_first], np.arange(self.n + 1))
        self._by_second = np.argsort(self._second, kind="stable")
        self._second_at = np.searchsorted(self._second[self._by_second], np.arange(self.n + 2))

    def third_by_second(self, i: int) -> np.ndarray:
        """Load of the groups with first candidate ``i``, by second and third candidate (shape (n, n + 1))."""
        groups = self._by_first[self._first_at[i] : self._first_at[i + 1]]
        return self._histogram(self._second, self._third, groups, self.n + 1)[: self.n]

    def third_by_first(self, i: int) -> np.ndarray:
        """Load of the groups with second candidate ``i``, by first and third candidate (shape (n, n + 1))."""
        groups = self._by_second[self._second_at[i] : self._second_at[i + 1]]
        return self._histogram(self._first, self._third, groups, self.n)


def every_node_transient(placement: Placement, capacity: np.ndarray | None) -> Sweep:
    """Let every single member fail in turn. The histogram of first and second candidates answers all at once.

    ``capacity``: bytes per second per ring member, or None.
    """
    histograms = _Histograms(placement)
    n, joint = histograms.n, histograms.joint
    sweep = Sweep(placement.ring.ids)
    loads, receives = placement.loads, receiving_members(placement)
    for i in range(n):
        after = loads + joint[i, :n]
        after[i] = 0
        survivors = receives.copy()
        survivors[i] = False
        sweep.add_loads((i,), after, survivors, capacity)
    sweep.rejected_bytes = (placement.rejected + joint[:, n]).tolist()
    sweep.rerouted_bytes = joint[:, :n].sum(axis=1).tolist()
    sweep.moved_bytes = loads.tolist()
    _finish(sweep, TouchCounts(placement, pairs=False))
    return sweep


def every_pair_transient(placement: Placement, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let all pairs of members fail, from the histograms of first, second and third candidates.

    ``capacity``: bytes per second per ring member, or None.
    """
    histograms = _Histograms(placement)
    histograms.sort_for_pairs()
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
        gain = from_i + from_j + histograms.third_by_second(i)[others] + histograms.third_by_first(i)[others]
        after = loads[None, :] + gain[:, :n]
        for row, j in zip(after, others.tolist(), strict=True):
            row[i] = row[j] = 0
            survivors = receives.copy()
            survivors[i] = survivors[j] = False
            sweep.add_loads((i, j), row, survivors, capacity)
        sweep.rejected_bytes += (rejected + gain[:, n]).tolist()
        sweep.rerouted_bytes += gain[:, :n].sum(axis=1).tolist()
        sweep.moved_bytes += (loads[i] + loads[others]).tolist()
    _finish(sweep, TouchCounts(placement, pairs=True))
    return sweep


def _finish(sweep: Sweep, counts: TouchCounts) -> None:
    """Fill in what is touched, and that nothing changes its shard while the layout stays."""
    count = len(sweep.down)
    sweep.needless_moved_bytes = [0] * count
    sweep.shards_with_changed_owner = sweep.datasets_with_changed_shard_set = [0] * count
    if count:
        sweep.datasets_touched, sweep.datasets_fully_on_down, sweep.tenants_touched = counts.of(np.array(sweep.down))


_BLOCK_CELLS = 8_000_000
"""Cells of a dense matrix that are multiplied at a time: bounds memory."""


class TouchCounts:
    """Counts of touched datasets and tenants by failing member, and by failing pair if ``pairs``."""

    def __init__(self, placement: Placement, pairs: bool) -> None:
        members, size = len(placement.ring.members), placement.keys.size
        datasets, receivers, tenants, tenant_receivers = _presence(placement)
        parts = np.bincount(datasets, minlength=size)
        received = receivers >= 0
        self._touched = np.bincount(receivers[received], minlength=members)
        self._fully = np.bincount(receivers[received & (parts[datasets] == 1)], minlength=members)
        self._tenants = np.bincount(tenant_receivers, minlength=members)
        if not pairs:
            return
        self._touched_by_both = _together(datasets[received], receivers[received], size, members)
        self._tenants_by_both = _together(tenants, tenant_receivers, len(placement.keys.tenants), members)
        self._on_pair = np.zeros((members, members), dtype=np.int64)
        on_two = received & (parts[datasets] == 2)
        # A dataset on exactly two instances appears as two neighbours in the sorted pairs; one may be -1.
        candidates, candidate_receivers = datasets[on_two], receivers[on_two]
        if len(candidates):
            first = np.flatnonzero(candidates[1:] == candidates[:-1])
            np.add.at(self._on_pair, (candidate_receivers[first], candidate_receivers[first + 1]), 1)

    def of(self, down: np.ndarray) -> tuple[list[int], list[int], list[int]]:
        """Count for each set in ``down`` (member indices, shape (sets, 1 or 2)).

        Returns datasets touched, datasets wholly on the set, and tenants touched.
        """
        i = down[:, 0]
        if down.shape[1] == 1:
            return self._touched[i].tolist(), self._fully[i].tolist(), self._tenants[i].tolist()
        j = down[:, 1]
        touched = self._touched[i] + self._touched[j] - self._touched_by_both[i, j]
        fully = self._fully[i] + self._fully[j] + self._on_pair[i, j] + self._on_pair[j, i]
        tenants = self._tenants[i] + self._tenants[j] - self._tenants_by_both[i, j]
        return touched.tolist(), fully.tolist(), tenants.tolist()


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
    """Return the distinct values, sorted; sorting beats hashing here."""
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
