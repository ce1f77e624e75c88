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

_COARSE = 24
"""Quantiles of each sample from which the coarse grid of differences is made."""

_SLOPE = 24
"""Places to both sides in the coarse grid between which the differences are taken as evenly spread."""

_REACH, _REACH_SHARE = 48.0, 0.3
"""Ranks by which a predicted bracket reaches beyond its target, plus a share of the root of all pairs."""

_SOME = 5
"""Every fifth left value is counted to estimate the rank of a guess."""

_MARGIN = 16
"""Places in the coarse grid by which the bracket of a failed prediction reaches beyond its ranks at first."""

_FEW_DISTINCT = 2_000
"""Pairs of different values up to which they are counted; a metric in whole steps has few, however many values."""

_ROWS = 48
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

    O(k n log n): of large samples only the differences near those ranks are formed. ``check`` is called between pieces.
    ``ordered``: rows are sorted already.
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
    """Return the differences of the given ranks of sorted samples: pairs of different values counted, or selected by rank."""
    selected = np.empty((len(x), len(ranks)))
    few = _distinct(x) * _distinct(y) <= _FEW_DISTINCT
    for row in np.flatnonzero(few).tolist():
        selected[row] = _select_counted(x[row], y[row], ranks)
    rest = np.flatnonzero(~few)
    for start in range(0, rest.size, _ROWS):
        check()
        rows = rest[start : start + _ROWS]
        selected[rows] = _select_rows(x[rows], y[rows], np.array(ranks))
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


def _select_rows(x: Floats, y: Floats, ranks: Ints) -> Floats:
    """Return the differences of the given ``ranks`` of sorted samples; the first two ranks are neighbours.

    A coarse grid of quantiles guesses each; a fraction of the left sample tells by how many ranks the guess is off; the
    grid's spacing predicts a narrow bracket. What a prediction misses is selected from widening brackets of the grid.
    """
    grid = _grid(x, y)
    size, pairs = grid.shape[1], x.shape[1] * y.shape[1]
    first, last = np.delete(ranks, 1), np.delete(ranks, 0)
    place = np.minimum(((first + 0.5) / pairs * size).astype(np.int64), size - 1)
    below, above = np.maximum(place - _SLOPE, 0), np.minimum(place + _SLOPE, size - 1)
    guess = grid[:, place]
    per_rank = (grid[:, above] - grid[:, below]) / ((above - below) * (pairs / size))
    few = max(x.shape[1] // _SOME, 1)
    some = x[:, ((np.arange(few) + 0.5) / few * x.shape[1]).astype(np.int64)]
    needles = some[:, None, :] + guess[:, :, None]
    smaller = np.array([right.searchsorted(row).sum(axis=1) for right, row in zip(y, needles, strict=True)])
    off = first - smaller * (x.shape[1] / few)
    reach = _REACH + _REACH_SHARE * pairs**0.5 + np.abs(off) / 8.0
    low, high = guess + (off - reach) * per_rank, guess + (off + (last - first) + reach) * per_rank
    selected, proven = _select_between(x, y, low, high, first, last)
    rest, margin = np.flatnonzero(~proven), _MARGIN
    edges = np.concatenate([np.full((len(x), 1), -np.inf), grid, np.full((len(x), 1), np.inf)], axis=1)
    while rest.size:
        low = edges[rest][:, np.maximum(place + 1 - margin, 0)]
        high = edges[rest][:, np.minimum(place + 1 + margin, size + 1)]
        selected[rest], proven = _select_between(x[rest], y[rest], low, high, first, last)
        rest, margin = rest[~proven], 4 * margin
    return selected


def _grid(x: Floats, y: Floats) -> Floats:
    """Return differences of coarse quantiles of sorted samples, sorted."""
    at = (np.arange(_COARSE) + 0.5) / _COARSE
    few_x = x[:, (at * x.shape[1]).astype(np.int64)]
    few_y = y[:, (at * y.shape[1]).astype(np.int64)]
    grid = (few_y[:, None, :] - few_x[:, :, None]).reshape(len(x), -1)
    grid.sort(axis=1)
    return grid


def _select_between(
    x: Floats, y: Floats, low: Floats, high: Floats, first: Ints, last: Ints
) -> tuple[Floats, NDArray[np.bool_]]:
    """Select from the differences within brackets ``low`` to ``high`` [rows, brackets].

    Returns per row the difference of rank ``first`` of each bracket, that of rank ``last`` of the first behind its
    ``first``, and whether all are proven right: what lies outside a bracket is then at most or at least as large.
    """
    shape = (*low.shape, x.shape[1])
    # Rounding of x + low must not leave out a difference above low, nor x + high one below high.
    extent = np.maximum(np.abs(x[:, 0]), np.abs(x[:, -1]))[:, None]
    limits = np.stack([low, high], axis=1)
    slack = np.spacing(extent[:, :, None] + np.where(np.isfinite(limits), np.abs(limits), 0.0))
    slack[:, 0] *= -1.0
    needles = x[:, None, None, :] + (limits + slack)[:, :, :, None]
    positions = np.array([right.searchsorted(row) for right, row in zip(y, needles, strict=True)])
    start, counts = positions[:, 0], positions[:, 1] - positions[:, 0]
    skipped = start.sum(axis=2)
    ends = np.cumsum(counts).reshape(shape)
    offset = start + (np.arange(len(x)) * y.shape[1])[:, None, None] - (ends - counts)
    place = np.repeat(offset, counts.ravel())
    place += np.arange(place.size)
    inside = y.ravel()[place]
    inside -= np.repeat(np.broadcast_to(x[:, None, :], shape), counts.ravel())
    stop = ends[:, :, -1]
    begin = np.concatenate([[0], stop.ravel()[:-1]]).reshape(stop.shape)
    for a, b in zip(begin.ravel().tolist(), stop.ravel().tolist(), strict=True):
        inside[a:b].sort()
    at, until = begin + first - skipped, begin + last - skipped
    found = (at >= begin) & (until < stop)
    inside = np.append(inside, np.nan)
    least, greatest = inside[np.where(found, at, -1)], inside[np.where(found, until, -1)]
    proven = np.all((least >= low) & (greatest <= high), axis=1)
    return np.concatenate([least[:, :1], greatest[:, :1], least[:, 1:]], axis=1), np.asarray(proven)
