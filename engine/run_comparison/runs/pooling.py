"""Samples kept between computations: what each run gives is looked up once, and a run that arrives, or leaves, is put
into the sides that are there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Codes, Floats
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Added, Samples, Side, pool

Numbers = NDArray[np.int64]
Key = TypeVar("Key", bound=tuple[str, ...])
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
        self._numbers: Numbers = np.zeros(0, dtype=np.int64)
        self._rank: Numbers = np.zeros(0, dtype=np.int64)
        self._named: tuple[Numbers, tuple[Any, ...]] | None = None
        self._linked: tuple[frozenset[int], ...] | None = None
        self._seen: dict[int, frozenset[tuple[int, int]]] = {}

    def begin(self, wish: Hashable) -> None:
        """Forget all parts if they were made for another ``wish``."""
        if wish != self.wish:
            self.wish = wish
            self._parts.clear()
            self._sides = [None, None]
            self._numbers = np.zeros(0, dtype=np.int64)
            self._linked, self._seen = None, {}

    def part(
        self,
        run: Run,
        make: Callable[[Run], tuple[Numbers, Numbers, Codes, Floats]],
        reduce: Callable[[Numbers, Floats], tuple[Numbers, Floats]] | None = None,
    ) -> Part:
        """The part of ``run``, made by ``make`` (metric number of each value or -1 where it is left out, number for the
        links, series code, value) if the run is new or another. ``reduce`` makes fewer values of those of a run."""
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
        if reduce is not None:
            metrics, values = reduce(metrics, values)
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
        """Numbers of the metrics with values, in the order of their ``keys``, and their samples. Runs that are newer
        than all others of their side cost their own values; the numbers then stay the same array."""
        now = tuple(left), tuple(right)
        fresh = [_in_front(kept, parts) for kept, parts in zip(self._sides, now, strict=True)]
        if fresh[0] is None or fresh[1] is None or not all(self._ranked(part) for part in (*fresh[0], *fresh[1])):
            self._number(now, keys)
        for number, parts in enumerate(now):
            kept = self._sides[number]
            if kept is None:
                side = pool(
                    [(i, self._rank[p.metrics], p.values) for i, p in enumerate(parts)], self._count, len(parts)
                )
            elif (more := _in_front(kept, parts)) is not None:
                side = kept.side
                for part in reversed(more):
                    side = side.grown(self._added(part))
            else:
                moved = _moved(kept, parts, self._rank) if len(kept.parts) > 3 else None
                side = moved or pool(
                    [(i, self._rank[p.metrics], p.values) for i, p in enumerate(parts)], self._count, len(parts)
                )
            self._sides[number] = _Kept(parts, side)
        first, second = (kept.side for kept in self._sides if kept is not None)
        return self._numbers, Samples(first, second)

    def named(self, keys: Sequence[Key]) -> tuple[Key, ...]:
        """The keys of the metrics that ``sides`` last gave; the same tuple while they stay the same."""
        if self._named is None or self._named[0] is not self._numbers:
            self._named = self._numbers, tuple(keys[i] for i in self._numbers.tolist())
        found: tuple[Key, ...] = self._named[1]
        return found

    def linked(self, left: Sequence[Part], right: Sequence[Part]) -> tuple[frozenset[int], ...]:
        """The series codes behind each metric that ``sides`` last gave; the same tuple while they stay the same."""
        fresh: dict[int, frozenset[tuple[int, int]]] = {}
        for part in (*left, *right):
            if id(part.links) not in self._seen:
                fresh[id(part.links)] = part.links
        if self._linked is None or fresh:
            codes: list[set[int]] = [set(known) for known in self._linked or ((),) * self._count]
            for links in fresh.values():
                for number, code in links:
                    row = self._rank[number] if number < self._rank.size else -1
                    if row >= 0:
                        codes[row].add(code)
            self._seen.update(fresh)
            found = tuple(frozenset(one) for one in codes)
            if found != self._linked:
                self._linked = found
        return self._linked or ()

    @property
    def _count(self) -> int:
        return int(self._numbers.size)

    def _number(self, sides: tuple[tuple[Part, ...], tuple[Part, ...]], keys: Sequence[tuple[str, ...]]) -> None:
        """Find out which metrics have values; all that rests on their places is forgotten if that is new."""
        used = np.zeros(len(keys), dtype=bool)
        for metrics in {id(part.metrics): part.metrics for parts in sides for part in parts}.values():
            used[metrics] = True
        found = np.flatnonzero(used)
        self._linked, self._seen = None, {}  # a run that went may have taken a series with it
        if found.size == self._count and bool((np.sort(self._numbers) == found).all()):
            return
        self._numbers = np.array(sorted(found.tolist(), key=keys.__getitem__), dtype=np.int64)
        self._rank = np.full(len(keys), -1, dtype=np.int64)
        self._rank[self._numbers] = np.arange(self._count)
        self._sides = [None, None]

    def _ranked(self, part: Part) -> bool:
        """Whether all metrics of a part have a place."""
        metrics = part.metrics
        return not metrics.size or (int(metrics.max()) < self._rank.size and bool((self._rank[metrics] >= 0).all()))

    def _added(self, part: Part) -> Added:
        metrics = self._rank[part.metrics]
        order = np.argsort(metrics, kind="stable")
        return Added(metrics[order], part.values[order])


def _in_front(kept: _Kept | None, parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """The parts that were put before the kept ones; None if anything else happened."""
    if kept is None or not kept.parts:
        return None
    more = len(parts) - len(kept.parts)
    return parts[:more] if more >= 0 and parts[more:] == kept.parts else None


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
    sizes = side.sizes.copy()
    values, runs = side.values, side.runs
    place_now = np.array([now.get(id(part), -1) for part in kept.parts], dtype=np.int32)
    if gone or fresh:
        runs = place_now[runs]
    if gone:
        stays = runs >= 0
        values, runs = values[stays], runs[stays]
        for part in gone:
            sizes -= np.bincount(rank[part.metrics], minlength=sizes.size)
    if fresh:
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        at, which, more_values, more_runs = [], [], [], []
        for place, part in fresh:
            metrics = rank[part.metrics]
            which.append(metrics)
            at.append(_before(runs, offsets, metrics, place))
            more_values.append(part.values)
            more_runs.append(np.full(metrics.size, place, dtype=np.int32))
            sizes += np.bincount(metrics, minlength=sizes.size)
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
