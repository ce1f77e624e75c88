"""Estimate the shift between two samples with its distribution-free interval (Hodges and Lehmann 1963)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats, critical_rank

Ints = NDArray[np.int64]

_ALL_PAIRS = 4_000
"""Pairs up to which all differences are formed; above, ranks are selected without forming them."""

_BLOCK = 2_000_000
"""Differences formed at a time."""

_COARSE = 32
"""Quantiles of each sample from which the coarse grid of differences is made."""

_MARGIN = 4
"""Places in the coarse grid by which a bracket reaches beyond its ranks at first."""

_SLOPE = 24
"""Places to both sides in the coarse grid between which the differences are taken as evenly spread."""

_REACH = 96
"""Ranks by which a predicted bracket reaches beyond its target, beside a share of the step to it."""

_SOME = 5
"""Every fifth left value is counted to estimate the rank of a guess."""

_NEIGHBOURS = 16
"""Most right values beside one left value inside a predicted bracket; rows with more (ties) are selected one by one."""

_FEW_DISTINCT = 2_000
"""Pairs of different values up to which they are counted; a metric in whole steps has few, however many values."""

_SOME_DISTINCT = 10_000
"""The same for rows that would otherwise be selected one by one."""

_ROWS = 32
"""Rows handled at a time, so that they fit the second-level cache."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Right minus left per row: median of all pairwise differences, and bounds (infinite where samples are too small).

    ``low``/``high`` hold the shift with confidence 1 - 2 alpha.
    """

    estimate: Floats
    low: Floats
    high: Floats


def hodges_lehmann(
    left: Floats, right: Floats, alpha: float, check: Callable[[], None] = lambda: None, *, ordered: bool = False
) -> Shift:
    """Estimate the shift of ``right`` [k, n2] against ``left`` [k, n1] (finite values), interval by Mann-Whitney critical ranks.

    O(k n log n): no matrix of all differences is formed for large samples. ``check`` is called between pieces. ``ordered``: rows
    are sorted already.
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
    samples = (left, right) if ordered else (np.sort(left, axis=1), np.sort(right, axis=1))
    differences = _select_all(left, right, wanted) if pairs <= _ALL_PAIRS else _select_large(*samples, wanted, check)
    estimate = (differences[:, 0] + differences[:, 1]) / 2.0
    if not c:
        return Shift(estimate, np.full(k, -np.inf), np.full(k, np.inf))
    return Shift(estimate, differences[:, 2], differences[:, 3])


def _select_all(left: Floats, right: Floats, ranks: tuple[int, ...]) -> Floats:
    k, n1 = left.shape
    n2 = right.shape[1]
    selected = np.empty((k, len(ranks)))
    step = max(1, _BLOCK // (n1 * n2))
    kth = sorted(set(ranks))
    for start in range(0, k, step):
        rows = slice(start, start + step)
        differences = (right[rows, None, :] - left[rows, :, None]).reshape(-1, n1 * n2)
        differences.partition(kth, axis=1)
        selected[rows] = differences[:, list(ranks)]
    return selected


def _select_large(x: Floats, y: Floats, ranks: tuple[int, ...], check: Callable[[], None]) -> Floats:
    """Return the differences of the given ranks of sorted samples.

    A coarse grid of quantiles guesses each; counting tells by
    how many ranks the guess is off; the grid's spacing predicts a narrow bracket; counting proves it, and only the
    pairs inside are formed. What a prediction misses is selected by widening brackets, row by row.
    """
    selected = np.empty((len(x), len(ranks)))
    groups = [(0, 1), *((i, i) for i in range(2, len(ranks)))]
    distinct = _distinct(x) * _distinct(y)
    for row in np.flatnonzero(distinct <= _FEW_DISTINCT).tolist():
        selected[row] = _select_counted(x[row], y[row], ranks)
    rest = np.flatnonzero(distinct > _FEW_DISTINCT)
    for start in range(0, rest.size, _ROWS):
        check()
        rows = rest[start : start + _ROWS]
        selected[rows] = _select_rows(x[rows], y[rows], ranks, groups, distinct[rows])
    return selected


def _distinct(rows: Floats) -> Ints:
    """Return how many different values each sorted row holds."""
    return np.asarray(1 + np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1), dtype=np.int64)


def _select_counted(x: Floats, y: Floats, ranks: tuple[int, ...]) -> Floats:
    """Return differences of the given ranks from each pair of different values and how often it occurs."""
    values, counts = [], []
    for sample in (x, y):
        starts = np.flatnonzero(np.concatenate([[True], sample[1:] != sample[:-1]]))
        values.append(sample[starts])
        counts.append(np.diff(np.concatenate([starts, [sample.size]])))
    differences = np.subtract.outer(values[1], values[0]).ravel()
    order = np.argsort(differences)
    upto = np.cumsum(np.multiply.outer(counts[1], counts[0]).ravel()[order])
    return differences[order[np.searchsorted(upto, np.array(ranks), side="right")]]


def _select_rows(x: Floats, y: Floats, ranks: tuple[int, ...], groups: list[tuple[int, int]], distinct: Ints) -> Floats:
    """Return the differences of one block of rows; both samples sorted.

    ``groups``: first and last of the neighbouring ranks found together; ``distinct``: pairs of different values.
    """
    grid = _grid(x, y)
    size, pairs = grid.shape[1], x.shape[1] * y.shape[1]
    first = np.array([ranks[a] for a, _ in groups])
    last = np.array([ranks[b] for _, b in groups])
    at = np.clip(((first + 0.5) / pairs * size).astype(np.int64), 0, size - 1)
    below, above = np.maximum(at - _SLOPE, 0), np.minimum(at + _SLOPE, size - 1)
    guess = grid[:, at]
    per_rank = (grid[:, above] - grid[:, below]) / ((above - below) * (pairs / size))
    # By how many ranks the guess is off, as a fraction of the left sample tells it.
    few = max(x.shape[1] // _SOME, 1)
    some = x[:, ((np.arange(few) + 0.5) / few * x.shape[1]).astype(np.int64)]
    off = first - _upto(some, y, guess).sum(axis=2) * (x.shape[1] / few)
    reach = _REACH + np.abs(off) / 8.0
    low = guess + (off - reach) * per_rank
    high = guess + (off + (last - first) + reach) * per_rank
    start = _upto(x, y, low)
    skipped = start.sum(axis=2)
    ordered, counts = _inside(x, y, start, high)
    proven = (skipped <= first) & (skipped + counts > last)
    selected = np.empty((len(x), len(ranks)))
    counted = ~proven.all(axis=1) & (distinct <= _SOME_DISTINCT)
    for row in np.flatnonzero(counted).tolist():
        selected[row] = _select_counted(x[row], y[row], ranks)
    proven |= counted[:, None]
    for group, (a, b) in enumerate(groups):
        good = np.flatnonzero(proven[:, group] & ~counted)
        for rank in (a, b):
            selected[good, rank] = ordered[good, group, ranks[rank] - skipped[good, group]]
        for row in np.flatnonzero(~proven[:, group]).tolist():
            selected[row, a], selected[row, b] = _select_between(x[row], y[row], grid[row], ranks[a], ranks[b])
    return selected


def _grid(x: Floats, y: Floats) -> Floats:
    """Return differences of coarse quantiles of sorted samples, sorted."""
    at = (np.arange(_COARSE) + 0.5) / _COARSE
    few_x = x[:, (at * x.shape[1]).astype(np.int64)]
    few_y = y[:, (at * y.shape[1]).astype(np.int64)]
    grid = (few_y[:, None, :] - few_x[:, :, None]).reshape(len(x), -1)
    grid.sort(axis=1)
    return grid


def _upto(x: Floats, y: Floats, limits: Floats) -> Ints:
    """Return for each row, limit [rows, limits] and x how many y lie below x + limit."""
    needles = x[:, None, :] + limits[:, :, None]
    counts = np.empty(needles.shape, dtype=np.int64)
    for row in range(len(x)):
        counts[row] = y[row].searchsorted(needles[row])
    return counts


def _inside(x: Floats, y: Floats, start: Ints, high: Floats) -> tuple[Floats, Ints]:
    """Return for each row and limit the differences from the y at ``start`` up to ``high``, and how many there are.

    Differences are sorted and infinite behind the last; their number is -1 where one x has too many neighbours.
    """
    rows, groups, n1 = start.shape
    n2 = y.shape[1]
    padded = np.concatenate([y, np.full((rows, 1), np.inf)], axis=1)
    place = (start + (np.arange(rows) * (n2 + 1))[:, None, None]).ravel()
    cell = np.arange(rows * groups * n1)
    left = np.broadcast_to(x[:, None, :], start.shape).ravel()
    limit = np.repeat(np.where(high < np.inf, high, -np.inf).ravel(), n1)  # the padding must lie beyond every limit
    flat = padded.ravel()
    values, owners = [], []
    for _ in range(_NEIGHBOURS):
        difference = flat[place] - left
        held = np.flatnonzero(difference <= limit)
        if not held.size:
            break
        values.append(difference[held])
        cell, left, limit, place = cell[held], left[held], limit[held], place[held] + 1
        owners.append(cell // n1)
    else:
        held = np.flatnonzero(flat[place] - left <= limit)
    value = np.concatenate([*values, np.zeros(0)])
    owner = np.concatenate([*owners, np.zeros(0, dtype=np.int64)])
    counts = np.bincount(owner, minlength=rows * groups)
    order = np.argsort(owner.astype(np.uint16), kind="stable")
    ordered = np.full((rows * groups, int(counts.max(initial=1))), np.inf)
    column = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    ordered[owner[order], column] = value[order]
    ordered.sort(axis=1)
    if held.size:
        counts[cell[held] // n1] = -1
    return ordered.reshape(rows, groups, -1), counts.reshape(rows, groups)


def _bracket(first: int, last: int, pairs: int, size: int, margin: int) -> tuple[int, int]:
    """Return the places in a grid of ``size`` differences between which ranks ``first`` to ``last`` of ``pairs`` lie."""
    return int(first / pairs * size) - margin, int(last / pairs * size) + margin


def _select_between(x: Floats, y: Floats, grid: Floats, first: int, last: int) -> tuple[float, float]:
    if x[0] == x[-1] and y[0] == y[-1]:
        return float(y[0] - x[0]), float(y[0] - x[0])
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
    counts = np.maximum(upto - below, 0)
    total = int(counts.sum())
    ends = np.cumsum(counts)
    index = np.arange(total) + np.repeat(below - (ends - counts), counts)
    inside = y[index] - np.repeat(x, counts)
    inside.partition(sorted({first - skipped, last - skipped}))
    return float(inside[first - skipped]), float(inside[last - skipped])
