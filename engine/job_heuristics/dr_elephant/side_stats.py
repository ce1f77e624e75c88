"""The numbers behind every verdict: sums, averages, medians and the two-group split, per job and side.

All jobs at once, in NumPy over segments (``bincount`` adds doubles in the order of rows, as upstream does).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from engine.job_heuristics.model.arrays import RUNNING, Array, TaskArrays

__all__ = ["Array", "Segments", "Sides", "divided", "measure", "truncated"]

Sides = Mapping[str, Array]
"""What ``measure`` gives: by name, one value per job and side, map then reduce."""

NO_CPU_RATIO = 2.1
"""Upstream's constant for yarn.nodemanager.vmem-pmem-ratio."""
MB = 2**20


_FEW = 16
"""Up to so many segments are sorted one by one."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_EXACT = 2.0**52
"""Integers whose magnitudes add up to less than this have exact sums in double, in any order."""


def truncated(values: Array) -> Array:
    """Doubles cast to 64-bit integers as Java does: toward zero, NaN to 0, out of range to the nearest end."""
    if not len(values) or np.abs(values).max() < 2.0**63:  # not so where one is NaN
        whole: Array = values.astype(np.int64)
        return whole
    clipped = np.clip(np.where(np.isnan(values), 0.0, values), -(2.0**63), 2.0**63)
    big = clipped >= 2.0**63
    return np.where(big, np.int64(2**63 - 1), np.where(big, 0.0, clipped).astype(np.int64))


def divided(a: Array, b: Array | int) -> Array:
    """Integer division toward zero; ``b`` must not hold 0."""
    if len(a) and a.min() >= 0 and np.min(b) > 0:
        whole: Array = a // b
        return whole
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _narrow(values: Array) -> tuple[Array, int]:
    """Whole numbers less their least one, in 32 bits, and that one; as they are where they do not fit, or are few. NumPy sorts
    32 bits in half the time."""
    if len(values) < 500 or values.dtype != np.int64:
        return values, 0
    least = int(values.min())
    return ((values - least).astype(np.int32), least) if int(values.max()) - least < 2**31 else (values, 0)


def _sorted(values: Array) -> Array:
    small, least = _narrow(values)
    return np.sort(small).astype(values.dtype) + least


def _nth(values: Array, at: int) -> int:
    """The value at place ``at`` of the sorted ones."""
    small, least = _narrow(values)
    return int(np.partition(small, at)[at]) + least


class Segments:
    """Rows that belong to numbered segments."""

    def __init__(self, segment: Array, count: int) -> None:
        self.segment = segment
        self.count = count
        self.size = _count(segment, count)
        self._sorted: dict[int, tuple[Array, Array]] = {}
        self._halved: dict[int, tuple[Array, list[_Split] | None]] = {}

    @cached_property
    def _start(self) -> Array:
        """Where each segment begins once the rows are sorted by segment."""
        found: Array = np.cumsum(self.size) - self.size
        return found

    @property
    def _few(self) -> bool:
        return self.count <= _FEW

    @cached_property
    def _sized(self) -> list[tuple[slice | Array, int]]:
        return list(zip(self._parts, self.size.tolist(), strict=True))

    @cached_property
    def _parts(self) -> list[slice | Array]:
        """The rows of each segment, for few segments."""
        if (self.segment[1:] >= self.segment[:-1]).all():
            return [slice(int(a), int(a + n)) for a, n in zip(self._start, self.size, strict=True)]
        return [self.segment == k for k in range(self.count)]

    def _ordered(self, values: Array) -> Array:
        """Values sorted within their segment, segment by segment."""
        if not self._few:
            found: Array = values[np.lexsort((values, self.segment))]
            return found
        held = self._sorted.get(id(values))
        if held is None:
            parts = [_sorted(values[part]) for part in self._parts]
            held = self._sorted[id(values)] = (values, np.concatenate(parts) if parts else values)
        return held[1]

    def _picked(self, values: Array, place: Array) -> Array:
        """Per segment the value at ``place`` (from 0) of its sorted values; 0 without rows."""
        place = np.clip(place, 0, np.maximum(self.size - 1, 0))
        if self._few and id(values) not in self._sorted:
            found = [
                _nth(values[part], at) if n else 0 for (part, n), at in zip(self._sized, place.tolist(), strict=True)
            ]
            return np.array(found, dtype=np.int64)
        ranked = self._ordered(values)
        if not len(ranked):
            return np.zeros(self.count, dtype=np.int64)
        return np.where(self.size > 0, ranked[np.minimum(self._start + place, len(ranked) - 1)], 0)

    def _splits(self, values: Array) -> list[_Split] | None:
        """Per segment its values ready to be divided in two; None for many segments, and where sums in double depend
        on their order."""
        held = self._halved.get(id(values))
        if held is None:
            found = None
            if self._few and len(values) and np.abs(values.astype(np.float64)).sum() < _EXACT:
                ranked, ends = self._ordered(values).astype(np.float64), (self._start + self.size).tolist()
                found = [_Split(ranked[a:b]) for a, b in zip(self._start.tolist(), ends, strict=True)]
            held = self._halved[id(values)] = (values, found)
        return held[1]

    def sum(self, values: Array) -> Array:
        """Sum in double, in the order of rows."""
        if self._few and values.dtype == np.int64 and len(values):
            most = max(-int(values.min()), int(values.max()))
            if most * len(values) < _EXACT:  # then no order loses anything
                return self.whole(values).astype(np.float64)
        return np.bincount(self.segment, weights=values.astype(np.float64), minlength=self.count)

    def whole(self, values: Array) -> Array:
        """Exact integer sum."""
        if self._few:
            return np.array([values[part].sum() for part in self._parts], dtype=np.int64)
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self.segment, values)
        return total

    def average(self, values: Array) -> Array:
        """Upstream's average: sum in double, divided, truncated; 0 without rows."""
        return self._mean(self.sum(values), self.size)

    @staticmethod
    def _mean(total: Array, count: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return truncated(total / count)

    def largest(self, values: Array, empty: int) -> Array:
        """Largest value; ``empty`` without rows."""
        if self._few:
            return np.array(
                [values[part].max(initial=_LEAST) if n else empty for part, n in self._sized], dtype=np.int64
            )
        out = np.full(self.count, _LEAST)
        np.maximum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def smallest(self, values: Array, empty: int) -> Array:
        """Smallest value; ``empty`` without rows."""
        if self._few:
            return np.array(
                [values[part].min(initial=_MOST) if n else empty for part, n in self._sized], dtype=np.int64
            )
        out = np.full(self.count, _MOST)
        np.minimum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def mean(self, values: Array) -> Array:
        """Mean rounded down, in double; NaN without rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Array = np.floor(self.sum(values) / self.size)
        return found

    def quantile(self, values: Array, share: float) -> Array:
        """The value at place ``share`` x (n - 1) from 0, rounded up; 0 without rows."""
        return self._picked(values, np.ceil(share * np.maximum(self.size - 1, 0)).astype(np.int64))

    def median(self, values: Array) -> Array:
        """Median; of an even count the truncated mean of the middle two; 0 without rows."""
        low = self._picked(values, np.maximum(self.size - 1, 0) // 2)
        high = low if (self.size % 2 == 1).all() else self._picked(values, self.size // 2)
        total = low + high
        middle = np.where(self.size % 2 == 1, low, divided(total, 2))
        return np.where(self.size > 0, middle, 0)

    def ranked(self, values: Array, share: Array) -> Array:
        """Percentile by nearest rank: the value at place ceil(n x share); 0 for a share of 0 or without rows."""
        place = np.ceil(self.size * np.clip(share, 0.0, 1.0)).astype(np.int64)
        return np.where(place > 0, self._picked(values, place - 1), 0)

    def two_groups(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Upstream's split into group A (below the middle) and B: sizes and averages (na, a, nb, b).

        Three splits: by the mean, then twice by the *difference* of the two groups' averages (an upstream quirk).
        """
        splits = self._splits(values)
        if splits is not None:
            return _columns([split.by_differences() for split in splits])
        total = self.sum(values)
        middle = self._mean(total, self.size)
        for step in range(3):
            below = values < middle[self.segment]
            segment = self.segment[below]
            na = np.bincount(segment, minlength=self.count).astype(np.int64)
            sum_a = np.bincount(segment, weights=values[below].astype(np.float64), minlength=self.count)
            above = ~below
            sum_b = np.bincount(self.segment[above], weights=values[above].astype(np.float64), minlength=self.count)
            nb = self.size - na
            a, b = self._mean(sum_a, na), self._mean(sum_b, nb)
            if step < 2:
                middle = b - a
        return na, a, nb, b

    def two_means(self, values: Array, rounds: int = 32) -> tuple[Array, Array, Array, Array]:
        """The seed's split, by recursive averages: the middle is the mean of the two groups' means, until it stays."""
        splits = self._splits(values)
        if splits is not None:
            return _columns([split.by_means(rounds) for split in splits])
        size = self.size
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.nan_to_num(self.sum(values) / size)
        na = a = nb = b = np.zeros(self.count)
        for _ in range(rounds):
            below = values < middle[self.segment]
            low, high = self.segment[below], self.segment[~below]
            na = np.bincount(low, minlength=self.count).astype(np.int64)
            sum_a = np.bincount(low, weights=values[below].astype(np.float64), minlength=self.count)
            sum_b = np.bincount(high, weights=values[~below].astype(np.float64), minlength=self.count)
            nb = size - na
            with np.errstate(divide="ignore", invalid="ignore"):
                a, b = np.nan_to_num(sum_a / na), np.nan_to_num(sum_b / nb)
            step = np.where((na > 0) & (nb > 0), (a + b) / 2, middle)
            if np.array_equal(step, middle):
                break
            middle = step
        return na, truncated(a), nb, truncated(b)


class _Split:
    """Sorted whole numbers, as doubles whose sums are exact, to be divided into those below a middle and the others."""

    def __init__(self, ranked: Array) -> None:
        self._ranked = ranked
        self._sums = np.concatenate(([0.0], np.cumsum(ranked)))

    def _cut(self, middle: float) -> tuple[int, float, int, float]:
        """Sizes and sums of both groups."""
        n = int(self._ranked.searchsorted(middle))
        low = float(self._sums[n])
        return n, low, len(self._ranked) - n, float(self._sums[-1]) - low

    def by_differences(self) -> tuple[int, int, int, int]:
        """``Segments.two_groups`` of one segment."""
        na, low, nb, high = 0, 0.0, len(self._ranked), float(self._sums[-1])
        a, b = 0, int(high / nb) if nb else 0
        middle = b
        for _ in range(3):
            na, low, nb, high = self._cut(middle)
            a, b = int(low / na) if na else 0, int(high / nb) if nb else 0
            middle = b - a
        return na, a, nb, b

    def by_means(self, rounds: int) -> tuple[int, int, int, int]:
        """``Segments.two_means`` of one segment."""
        total = len(self._ranked)
        middle = float(self._sums[-1]) / total if total else 0.0
        na, a, nb, b = 0, 0.0, 0, 0.0
        for _ in range(rounds):
            na, low, nb, high = self._cut(middle)
            a, b = low / na if na else 0.0, high / nb if nb else 0.0
            step = (a + b) / 2 if na and nb else middle
            if step == middle:
                break
            middle = step
        return na, int(a), nb, int(b)


_LONG = tuple(minutes * 60_000 for minutes in (13, 13.5, 14, 14.5))
"""Run times, ms, from which a task is long, by the level of the queue's limit."""


def _count(segment: Array, count: int) -> Array:
    """Rows of each of ``count`` segments."""
    found: Array = np.bincount(segment, minlength=count).astype(np.int64)
    return found


def _columns(rows: list[tuple[int, int, int, int]]) -> tuple[Array, Array, Array, Array]:
    na, a, nb, b = np.array(rows, dtype=np.int64).T
    return na, a, nb, b


def measure(judged: Array, containers: tuple[Array, Array], tasks: TaskArrays, slow_start: Array) -> dict[str, Array]:
    """By name, one value per job and side (map then reduce).

    ``judged``: per job, whether all its tasks count (it has ended well or badly); of the others only the ended tasks do.
    ``containers``: MB of a map and of a reduce, per job. ``slow_start``: per job, the share of finished maps at which
    its reduces may begin (the seed's wait uses it). Times in ms, sizes in bytes; ``a``/``b`` are upstream's two groups
    (``na``/``nb`` their sizes) of data and time.
    """
    count = 2 * len(judged)
    counted = judged[tasks.job] | (tasks.state != RUNNING)
    if not counted[tasks.timed].all():
        tasks, counted = tasks.only(counted), counted[counted]
    side, ended = tasks.side, tasks.state != RUNNING
    s, v = Segments(side[tasks.timed], count), tasks.numbers
    total = v["total_ms"]
    seconds = divided(total, 1000)
    peak = np.maximum(v["physical_bytes"] >> 20, truncated((v["virtual_bytes"] >> 20) / NO_CPU_RATIO))
    is_map = (s.segment & 1) == 0
    data = np.where(is_map, v["input_bytes"], v["reduce_shuffle_bytes"])
    moving, speed, bytes_, ms = total != 0, s, v["input_bytes"], total
    if not moving.all():
        speed, bytes_, ms = Segments(s.segment[moving], count), bytes_[moving], total[moving]
    speeds = divided(1000 * bytes_, ms)
    code = total - v["shuffle_ms"] - v["sort_ms"]
    longest, largest = s.largest(total, 0), s.largest(v["physical_bytes"], 0)
    out: dict[str, Array] = {}
    for prefix, values in (("data", data), ("time", total)):
        for name, column in zip(("na", "a", "nb", "b"), s.two_groups(values), strict=True):
            out[f"{prefix}_{name}"] = column
        for name, column in zip(("na", "a", "nb", "b"), s.two_means(values), strict=True):
            out[f"seed_{prefix}_{name}"] = column
    out |= {
        "n": _count(side[counted], count),
        "ended": _count(side[ended], count),
        "timed": s.size,
        "ours": _count(side[tasks.timed & tasks.fallback], count),
        "still": s.size - speed.size,
        "avg_total_ms": s.average(total),
        "max_total_ms": np.maximum(longest, 0),
        "min_total_ms": s.smallest(total, 0),
        "longest_ms": longest,
        "avg_shuffle_ms": s.average(v["shuffle_ms"]),
        "avg_sort_ms": s.average(v["sort_ms"]),
        "avg_code_ms": s.average(code),
        "avg_cpu_ms": s.average(v["cpu_ms"]),
        "avg_gc_ms": s.average(v["gc_ms"]),
        "avg_physical": s.average(v["physical_bytes"]),
        "max_physical": np.maximum(largest, 0),
        "min_physical": s.smallest(v["physical_bytes"], 0),
        "avg_virtual": s.average(v["virtual_bytes"]),
        "sum_spilled": s.whole(v["spilled_records"]),
        "sum_output": s.whole(v["map_output_records"]),
        "sum_input": s.whole(v["input_bytes"]),
        "avg_input": s.average(v["input_bytes"]),
        "median_input": s.median(v["input_bytes"]),
        "median_total_ms": s.median(total),
        "median_speed": speed.median(speeds),
        "seconds": s.whole(seconds),
        "peak_mb": s.largest(peak, 0),
        "last_finish_ms": s.largest(v["finish_ms"], 0),
        "slow_finish_ms": s.ranked(v["finish_ms"], np.repeat(slow_start, 2)),
        "exact_ms": s.whole(total),
    }
    long = total >= _LONG[0]
    side_of_long, long_ms = s.segment[long], total[long]
    for level, least in enumerate(_LONG, 1):
        out[f"over_{level}"] = _count(side_of_long[long_ms >= least], count)
    # The seed's waste: per task, container minus that task's own peak.
    container = np.zeros(count, dtype=np.int64)
    container[0::2], container[1::2] = containers
    out["seed_wasted"] = s.whole((container[s.segment] - peak) * seconds)
    return out


class Measured:
    """``Sides`` of many jobs; those of a few can be replaced without touching the others."""

    def __init__(self, names: Sequence[str], sides: Sides) -> None:
        self._names = list(names)
        self._place = {name: k for k, name in enumerate(self._names)}
        self._sides = sides
        self._newer: dict[str, tuple[Sides, int]] = {}

    def replace(self, gone: Collection[str], names: Sequence[str], sides: Sides) -> None:
        """Forget the jobs ``gone`` and take in ``names`` with their ``sides``."""
        for name in gone:
            self._newer.pop(name, None)
            self._place.pop(name, None)
        self._newer.update({name: (sides, k) for k, name in enumerate(names)})

    def of(self, names: Sequence[str]) -> Sides:
        """The sides of ``names``, in that order. Raises KeyError for a job that is not known."""
        if not self._newer and names == self._names:
            return self._sides
        if len(names) == 1:  # as at each step of a growing job
            sides, k = self._newer.get(names[0]) or (self._sides, self._place[names[0]])
            return {column: values[2 * k : 2 * k + 2] for column, values in sides.items()}
        old = [(k, self._place[name]) for k, name in enumerate(names) if name not in self._newer]
        new = [(k, *self._newer[name]) for k, name in enumerate(names) if name in self._newer]
        to, at = np.array(old, dtype=np.int64).reshape(-1, 2).T
        found: dict[str, Array] = {}
        for column, values in self._sides.items():
            made = found[column] = np.zeros(2 * len(names), dtype=values.dtype)
            made[2 * to], made[2 * to + 1] = values[2 * at], values[2 * at + 1]
            for k, sides, place in new:
                made[2 * k], made[2 * k + 1] = sides[column][2 * place], sides[column][2 * place + 1]
        return found
