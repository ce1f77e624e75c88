"""How many datasets and tenants the failure of one or two members touches, for all members or pairs at once."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.pyroscope.placement import Placement

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
