"""Samples kept between computations: what each run gives is looked up once, and a run that arrives, or leaves, is put
into the sides that are there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Codes, Floats
from engine.run_comparison.runs import Run
from engine.run_comparison.samples import Samples, Side, pool

Numbers = NDArray[np.int64]
_FEW = 0.25
"""Share of a side's runs up to which runs are put in and taken out one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one run gives to a side, in sample order: metric numbers and values; and ``links``, all pairs of metric
    number and series code that it holds (also of values left out: their number is -1 or the metric's)."""

    run: Run
    metrics: Numbers
    values: Floats
    links: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    parts: tuple[Part, ...]
    rank: Numbers
    side: Side


class Keeper:
    """Parts of runs, and two sides made of them. One per way of naming metrics; metric numbers only ever grow.

    Metrics of a side are in the order of their keys, so that a side is the same however it came about.
    """

    def __init__(self) -> None:
        """Nothing kept yet."""
        self.wish: Hashable = None
        self._parts: dict[tuple[tuple[str, ...], str], Part] = {}
        self._links: dict[tuple[bytes, bytes], tuple[Numbers, frozenset[tuple[int, int]]]] = {}
        self._sides: list[_Kept | None] = [None, None]
        self._rank = np.zeros(0, dtype=np.int64)

    def begin(self, wish: Hashable) -> None:
        """Forget all parts if they were made for another ``wish``."""
        if wish != self.wish:
            self.wish = wish
            self._parts.clear()
            self._sides = [None, None]

    def part(self, run: Run, make: Callable[[Run], tuple[Numbers, Numbers, Codes, Floats]]) -> Part:
        """The part of ``run``, made by ``make`` (metric number of each value or -1 where it is left out, number for the
        links, series code, value) if the run is new or another."""
        kept = self._parts.get(run.key)
        if kept is not None and kept.run is run:
            return kept
        metrics, linked, codes, values = make(run)
        # Most runs hold the same metrics in the same order: one array of numbers and one set of links serve them all.
        name = linked.tobytes(), codes.tobytes()
        shared = self._links.get(name)
        if shared is None:
            shared = self._links[name] = linked, frozenset(zip(linked.tolist(), codes.tolist(), strict=True))
        numbers, links = shared
        taken = metrics >= 0
        if taken.all():
            metrics = numbers
        else:
            metrics, values = metrics[taken], values[taken]
        part = self._parts[run.key] = Part(run, metrics, values, links)
        return part

    def forget(self, known: Mapping[tuple[tuple[str, ...], str], Run]) -> None:
        """Drop parts of runs that are no more."""
        if len(self._parts) > len(known):
            for key in self._parts.keys() - known.keys():
                del self._parts[key]

    def sides(
        self, left: Sequence[Part], right: Sequence[Part], keys: Sequence[tuple[str, ...]]
    ) -> tuple[Numbers, Samples]:
        """Numbers of the metrics with values, in the order of their ``keys``, and their samples."""
        if self._rank.size != len(keys):
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self._rank = np.empty(len(keys), dtype=np.int64)
            self._rank[order] = np.arange(len(keys))
        made = [self._side(number, tuple(parts)) for number, parts in enumerate((left, right))]
        used = (made[0].sizes > 0) | (made[1].sizes > 0)
        numbers = np.argsort(self._rank)[used]
        first, second = (_only(side, used) for side in made)
        return numbers, Samples(first, second)

    def _side(self, number: int, parts: tuple[Part, ...]) -> Side:
        kept = self._sides[number]
        if kept is None or len(kept.parts) < 4 or not (side := _moved(kept, parts, self._rank)):
            side = pool(
                [(i, self._rank[p.metrics], p.values) for i, p in enumerate(parts)], self._rank.size, len(parts)
            )
        self._sides[number] = _Kept(parts, self._rank, side)
        return side


def _only(side: Side, used: NDArray[np.bool_]) -> Side:
    """The side without metrics that are not ``used``, which must be empty."""
    if used.all():
        return side
    return Side(side.values, side.runs, np.concatenate([[0], side.offsets[1:][used]]), side.n_runs)


def _moved(kept: _Kept, parts: tuple[Part, ...], rank: Numbers) -> Side | None:
    """The kept side with some parts taken out and some put in; None if that would be more work than making it."""
    before = {id(part): place for place, part in enumerate(kept.parts)}
    now = {id(part): place for place, part in enumerate(parts)}
    gone = [part for part in kept.parts if id(part) not in now]
    fresh = [(place, part) for place, part in enumerate(parts) if id(part) not in before]
    if len(gone) + len(fresh) > _FEW * len(kept.parts):
        return None
    stayed = [before[id(part)] for part in parts if id(part) in before]
    if any(a > b for a, b in pairwise(stayed)):
        return None
    side = kept.side
    sizes = np.zeros(rank.size, dtype=np.int64)
    sizes[rank[: kept.rank.size]] = side.sizes[kept.rank]
    values, runs = side.values, side.runs
    place_now = np.array([now.get(id(part), -1) for part in kept.parts], dtype=np.int32)
    if gone or fresh:
        runs = place_now[runs]
    if gone:
        stays = runs >= 0
        values, runs = values[stays], runs[stays]
        for part in gone:
            sizes -= np.bincount(rank[part.metrics], minlength=rank.size)
    if fresh:
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        at, which, more_values, more_runs = [], [], [], []
        for place, part in fresh:
            metrics = rank[part.metrics]
            which.append(metrics)
            at.append(_before(runs, offsets, metrics, place))
            more_values.append(part.values)
            more_runs.append(np.full(metrics.size, place, dtype=np.int32))
            sizes += np.bincount(metrics, minlength=rank.size)
        position = np.concatenate(at)
        order = np.argsort(np.concatenate(which), kind="stable")  # positions rise with the metric, then with the place
        target = position[order] + np.arange(position.size)
        old = np.ones(values.size + position.size, dtype=bool)
        old[target] = False
        values = _merged(values, np.concatenate(more_values)[order], old, target)
        runs = _merged(runs, np.concatenate(more_runs)[order], old, target)
    return Side(values, runs, np.concatenate([[0], np.cumsum(sizes)]), len(parts))


def _before(runs: NDArray[np.int32], offsets: Numbers, metrics: Numbers, place: int) -> Numbers:
    """Where values of ``metrics`` belong that come from the run at ``place``."""
    earlier = runs < place
    if not earlier.any():
        return offsets[metrics]
    if earlier.all():
        return offsets[metrics + 1]
    upto = np.concatenate([[0], np.cumsum(earlier)])
    found: Numbers = offsets[metrics] + upto[offsets[metrics + 1]] - upto[offsets[metrics]]
    return found


def _merged(old: NDArray, new: NDArray, mask: NDArray[np.bool_], target: Numbers) -> NDArray:  # type: ignore[type-arg]
    found = np.empty(mask.size, dtype=old.dtype)
    found[mask] = old
    found[target] = new
    return found
