"""Hodges and Lehmann's estimate of the shift between two samples with its distribution-free interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.stats.ranks import Floats, critical_rank

_ALL_PAIRS = 4_000
"""Up to this many pairs all differences are formed; above, ranks are selected without forming them."""

_BLOCK = 2_000_000
_COARSE = 32
_MARGIN = 4
"""Places in the coarse grid by which a bracket reaches beyond its ranks at first."""

_GRID_ROWS = 32
"""Rows whose grids are made together: they fit the second-level cache."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Right minus left per row: median of all pairwise differences, and bounds (infinite where samples are too small).

    ``low``/``high`` hold the shift with confidence 1 - 2 alpha.
    """

    estimate: Floats
    low: Floats
    high: Floats


def hodges_lehmann(left: Floats, right: Floats, alpha: float, check: Callable[[], None] = lambda: None) -> Shift:
    """Shift of ``right`` [k, n2] against ``left`` [k, n1] (finite values), interval by Mann-Whitney critical ranks.

    O(k n log n): no matrix of all differences is formed for large samples. ``check`` is called between pieces.
    """
    k, n1 = left.shape
    n2 = right.shape[1]
    pairs = n1 * n2
    if not pairs:
        nothing = np.full(k, np.nan)
        return Shift(nothing, nothing.copy(), nothing.copy())
    c = critical_rank(n1, n2, alpha)
    middle = ((pairs - 1) // 2, pairs // 2)
    wanted = (*middle, *((c - 1, pairs - c) if c else ()))
    found = _select_all(left, right, wanted) if pairs <= _ALL_PAIRS else _select_large(left, right, wanted, check)
    estimate = (found[:, 0] + found[:, 1]) / 2.0
    if not c:
        return Shift(estimate, np.full(k, -np.inf), np.full(k, np.inf))
    return Shift(estimate, found[:, 2], found[:, 3])


def _select_all(left: Floats, right: Floats, ranks: tuple[int, ...]) -> Floats:
    k, n1 = left.shape
    n2 = right.shape[1]
    found = np.empty((k, len(ranks)))
    step = max(1, _BLOCK // (n1 * n2))
    kth = sorted(set(ranks))
    for start in range(0, k, step):
        rows = slice(start, start + step)
        differences = (right[rows, None, :] - left[rows, :, None]).reshape(-1, n1 * n2)
        differences.partition(kth, axis=1)
        found[rows] = differences[:, list(ranks)]
    return found


def _select_large(left: Floats, right: Floats, ranks: tuple[int, ...], check: Callable[[], None]) -> Floats:
    """The differences of the given ranks: a coarse grid of quantiles brackets each rank, counting proves the bracket,
    and only the pairs inside it are formed."""
    k = len(left)
    low_first, high_first = np.sort(left, axis=1), np.sort(right, axis=1)
    found = np.empty((k, len(ranks)))
    groups = [(0, 1), *((i, i) for i in range(2, len(ranks)))]
    for start in range(0, k, _GRID_ROWS):
        check()
        rows = slice(start, start + _GRID_ROWS)
        for row, grid in enumerate(_select_grid(low_first[rows], high_first[rows], ranks), start):
            for first, last in groups:
                picked = _select_between(low_first[row], high_first[row], grid, ranks[first], ranks[last])
                found[row, first], found[row, last] = picked
    return found


def _select_grid(left: Floats, right: Floats, ranks: tuple[int, ...]) -> Floats:
    """Differences of coarse quantiles, in order at the places where the brackets of ``ranks`` begin and end."""
    n1, n2 = left.shape[1], right.shape[1]
    at = (np.arange(_COARSE) + 0.5) / _COARSE
    x = left[:, (at * n1).astype(np.int64)]
    y = right[:, (at * n2).astype(np.int64)]
    grid = (y[:, None, :] - x[:, :, None]).reshape(len(left), -1)
    size = grid.shape[1]
    ends = {end for rank in ranks for end in _bracket(rank, rank, n1 * n2, size, _MARGIN)}
    grid.partition(sorted(end for end in ends if 0 <= end < size), axis=1)
    return grid


def _bracket(first: int, last: int, pairs: int, size: int, margin: int) -> tuple[int, int]:
    """Places in a grid of ``size`` differences between which the ranks ``first`` to ``last`` of ``pairs`` are looked for."""
    return int(first / pairs * size) - margin, int(last / pairs * size) + margin


def _select_between(x: Floats, y: Floats, grid: Floats, first: int, last: int) -> tuple[float, float]:
    pairs = x.size * y.size
    margin = _MARGIN
    size = grid.size
    while True:
        a, b = _bracket(first, last, pairs, size, margin)
        below = np.zeros(x.size, dtype=np.int64) if a < 0 else np.searchsorted(y, x + grid[a], side="left")
        upto = np.full(x.size, y.size) if b >= size else np.searchsorted(y, x + grid[b], side="right")
        skipped = int(below.sum())
        if skipped <= first and int(upto.sum()) > last:
            break
        margin *= 4
        grid = np.sort(grid)
    counts = np.maximum(upto - below, 0)
    total = int(counts.sum())
    ends = np.cumsum(counts)
    index = np.arange(total) + np.repeat(below - (ends - counts), counts)
    inside = y[index] - np.repeat(x, counts)
    inside.partition(sorted({first - skipped, last - skipped}))
    return float(inside[first - skipped]), float(inside[last - skipped])
