"""All single failures, or all pairs, in regime A, from joint histograms of each group's first candidates."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.pyroscope.keys import weigh
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.sweep_totals import Step, Sweep, receiving_members
from engine.ring_placement.scenarios.touch_counts import TouchCounts


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
