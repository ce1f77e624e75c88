"""Statistics over the tasks of each side of a job: sums, averages, medians and divisions into two groups, by name.

All jobs at once, in NumPy over segments (``bincount`` adds doubles in the order of rows, as Dr. Elephant does); see
docs/models/job-heuristics.md, "Arithmetic".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from engine.job_heuristics.dr_elephant.gates import Array

Sides = Mapping[str, Array]
"""Measures by name: one value per job and side: all sides of the first job (maps, reduces), then those of the next."""


class Groups(NamedTuple):
    """Values divided in two: sizes and averages of those below ``middle`` and of the others, per segment."""

    low_n: Array
    low_mean: Array
    high_n: Array
    high_mean: Array
    middle: Array


class Measure(msgspec.Struct, frozen=True):
    """Named statistics over tasks (one array per name). ``of_all``: over all counted tasks, also those without times,
    which have the columns ``OF_ALL_TASKS`` and ``data``. ``published``: used only by the published description."""

    names: tuple[str, ...]
    compute: Callable[[TaskStats], tuple[Array, ...]]
    of_all: bool = False
    published: bool = False


_STATISTICS: dict[str, Callable[[TaskStats, Array], Array]] = {
    "avg": lambda tasks, values: tasks.average(values),
    "sum": lambda tasks, values: tasks.whole(values),
    "median": lambda tasks, values: tasks.median(values),
    "max": lambda tasks, values: np.maximum(tasks.largest(values, 0), 0),
    "min": lambda tasks, values: tasks.smallest(values, 0),
}


def measures(*names: str, of_all: bool = False) -> tuple[Measure, ...]:
    """Declare statistics of columns: ``avg_COLUMN``, ``sum_`` (wrapped around beyond 64 bit), ``median_``, ``max_`` (never
    below 0) and ``min_``; each is 0 without tasks."""

    def one(name: str) -> Measure:
        statistic, _, column = name.partition("_")
        return Measure((name,), lambda tasks: (_STATISTICS[statistic](tasks, tasks[column]),), of_all)

    return tuple(map(one, names))


def truncated(values: Array) -> Array:
    """Cast doubles to 64-bit integers as Java does: toward zero, NaN to 0, out of range to the nearest end."""
    clipped = np.clip(np.where(np.isnan(values), 0.0, values), -(2.0**63), 2.0**63)
    big = clipped >= 2.0**63
    return np.where(big, np.int64(2**63 - 1), np.where(big, 0.0, clipped).astype(np.int64))


def divided(a: Array, b: Array | int) -> Array:
    """Divide 64-bit whole numbers toward zero; ``b`` must not hold 0. The smallest one over -1 is itself, as in Java."""
    with np.errstate(over="ignore"):
        quotient: Array = a // b
        return quotient + ((quotient * b != a) & ((a < 0) != (np.asarray(b) < 0)))


class Segments:
    """Rows that belong to numbered segments."""

    def __init__(self, segment: Array, count: int) -> None:
        self.segment = segment
        self.groups = count
        self.size = row_count(segment, count)

    def _picked(self, values: Array, *places: Array) -> list[Array]:
        """Return per segment the values at each of ``places`` (from 0) of its sorted values; 0 without rows."""
        if not len(values):
            return [np.zeros(self.groups, dtype=np.int64) for _ in places]
        ordered = values[np.lexsort((values, self.segment))]
        start = np.cumsum(self.size) - self.size
        last = np.maximum(self.size - 1, 0)
        at = [np.minimum(start + np.clip(place, 0, last), len(ordered) - 1) for place in places]
        return [np.where(self.size > 0, ordered[each], 0) for each in at]

    def sum(self, values: Array) -> Array:
        """Return the sum in double, in the order of rows."""
        return np.bincount(self.segment, weights=values.astype(np.float64), minlength=self.groups)

    def whole(self, values: Array) -> Array:
        """Return the sum of whole numbers, wrapped around beyond 64 bit."""
        total = np.zeros(self.groups, dtype=np.int64)
        np.add.at(total, self.segment, values)
        return total

    def average(self, values: Array) -> Array:
        """Return the average as Dr. Elephant takes it: sum in double, divided, truncated; 0 without rows."""
        return self._mean(self.sum(values), self.size)

    @staticmethod
    def _mean(total: Array, count: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return truncated(total / count)

    def largest(self, values: Array, empty: int) -> Array:
        """Return the largest value; ``empty`` without rows."""
        out = np.full(self.groups, np.iinfo(np.int64).min)
        np.maximum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def smallest(self, values: Array, empty: int) -> Array:
        """Return the smallest value; ``empty`` without rows."""
        out = np.full(self.groups, np.iinfo(np.int64).max)
        np.minimum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def mean(self, values: Array) -> Array:
        """Return the mean rounded down, in double; NaN without rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            means: Array = np.floor(self.sum(values) / self.size)
        return means

    def quantile(self, values: Array, share: float) -> Array:
        """Return the value at place ``share`` x (n - 1) from 0, rounded up; 0 without rows."""
        return self._picked(values, np.ceil(share * np.maximum(self.size - 1, 0)).astype(np.int64))[0]

    def median(self, values: Array) -> Array:
        """Return the median; of an even count the truncated mean of the middle two; 0 without rows."""
        low, high = self._picked(values, (self.size - 1) // 2, self.size // 2)
        return np.where(self.size > 0, np.where(self.size % 2 == 1, low, divided(low + high, 2)), 0)

    def ranked(self, values: Array, share: Array) -> Array:
        """Return the percentile by nearest rank: the value at place ceil(n x share); 0 for a share of 0 or without
        rows."""
        place = np.ceil(self.size * np.clip(share, 0.0, 1.0)).astype(np.int64)
        return np.where(place > 0, self._picked(values, place - 1)[0], 0)

    def _halves(self, values: Array, middle: Array) -> tuple[Array, Array, Array, Array]:
        """Return the sizes and sums of the values below ``middle`` and of the others: n, sum, n, sum."""
        below = values < middle[self.segment]
        low, high = (Segments(self.segment[half], self.groups) for half in (below, ~below))
        return low.size, low.sum(values[below]), high.size, high.sum(values[~below])

    def two_groups(self, values: Array) -> Groups:
        """Divide values as Dr. Elephant does (``Statistics.findTwoGroups``), three times: by the mean, then twice by the
        *difference* of the two groups' averages. Averages are truncated; 0 for an empty group."""
        middle = self.average(values)
        for step in range(3):
            low_n, low_sum, high_n, high_sum = self._halves(values, middle)
            low, high = self._mean(low_sum, low_n), self._mean(high_sum, high_n)
            if step < 2:
                middle = high - low
        return Groups(low_n, low, high_n, high, middle)

    def two_means(self, values: Array) -> Groups:
        """Divide values as the published description says, by recursive averages: the middle is the mean of the two
        groups' means, until it is stable. Averages are truncated; 0 for an empty group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.nan_to_num(self.sum(values) / self.size)
            for _ in range(32):
                low_n, low_sum, high_n, high_sum = self._halves(values, middle)
                low, high = np.nan_to_num(low_sum / low_n), np.nan_to_num(high_sum / high_n)
                step = np.where((low_n > 0) & (high_n > 0), (low + high) / 2, middle)
                if np.array_equal(step, middle):
                    break
                middle = step
        return Groups(low_n, truncated(low), high_n, truncated(high), middle)


def row_count(segment: Array, count: int) -> Array:
    """Return the rows of each of ``count`` segments."""
    return np.bincount(segment, minlength=count).astype(np.int64)


class SideTasks(Segments):
    """Tasks with times by segment, with their ``columns``."""

    def __init__(self, segment: Array, count: int, columns: Mapping[str, Array]) -> None:
        super().__init__(segment, count)
        self.columns = columns

    def __getitem__(self, column: str) -> Array:
        """Return a number of each task. Raises KeyError."""
        return self.columns[column]

    def where(self, mask: Array) -> SideTasks:
        """Return the tasks where ``mask`` is set."""
        if mask.all():
            return self
        return SideTasks(self.segment[mask], self.groups, {name: values[mask] for name, values in self.columns.items()})

    def count(self, mask: Array) -> Array:
        """Return the number of tasks where ``mask`` is set, per segment."""
        return row_count(self.segment[mask], self.groups)


class Copies:
    """Weighted copies of one side's tasks: ``weights`` of shape (copies, tasks), one group per copy; else as ``SideTasks``."""

    def __init__(self, columns: Mapping[str, Array], weights: Array) -> None:
        self.columns = columns
        self.weights = weights
        self.tasks = weights.sum(axis=1)

    def __getitem__(self, column: str) -> Array:
        """Return a number of each task. Raises KeyError."""
        return self.columns[column]

    def where(self, mask: Array) -> Copies:
        """Return the tasks where ``mask`` is set."""
        return (
            self
            if mask.all()
            else Copies({name: values[mask] for name, values in self.columns.items()}, self.weights[:, mask])
        )

    def whole(self, values: Array) -> Array:
        """Return the weighted sum per copy."""
        return self.weights @ values.astype(np.float64)

    def count(self, mask: Array) -> Array:
        """Return the weight of the tasks where ``mask`` is set, per copy."""
        return self.whole(mask)

    def average(self, values: Array) -> Array:
        """Return the weighted mean, truncated; 0 without tasks."""
        return np.trunc(_divide(self.whole(values), self.tasks))

    def median(self, values: Array) -> Array:
        """Return the weighted lower median; 0 without tasks."""
        if not len(values):
            return np.zeros(len(self.weights))
        order = np.argsort(values, kind="stable")
        reach = np.cumsum(self.weights[:, order], axis=1)
        return values[order][np.minimum((reach < reach[:, -1:] / 2).sum(axis=1), len(values) - 1)].astype(np.float64)

    def largest(self, values: Array, empty: int) -> Array:
        """Return the largest value of any task; ``empty`` without tasks."""
        return np.full(len(self.weights), values.max() if len(values) else empty)

    def smallest(self, values: Array, empty: int) -> Array:
        """Return the smallest value of any task; ``empty`` without tasks."""
        return np.full(len(self.weights), values.min() if len(values) else empty)

    def two_groups(self, values: Array) -> Groups:
        """Return two groups as Dr. Elephant divides values; see ``Segments.two_groups``."""
        copies = len(self.weights)
        if not len(values):
            zero = np.zeros(copies)
            return Groups(zero, zero, zero, zero, zero)
        order = np.argsort(values, kind="stable")
        ordered, weights = values[order], self.weights[:, order]
        edge = np.zeros((copies, 1))
        count = np.concatenate([edge, np.cumsum(weights, axis=1)], axis=1)
        total = np.concatenate([edge, np.cumsum(weights * ordered, axis=1)], axis=1)
        rows = np.arange(copies)
        low_n = high_n = low = middle = np.zeros(copies)
        high = np.trunc(_divide(total[:, -1], count[:, -1]))
        for _ in range(3):
            middle = high - low
            at = np.searchsorted(ordered, middle, side="left")
            low_n, high_n = count[rows, at], count[:, -1] - count[rows, at]
            low = np.trunc(_divide(total[rows, at], low_n))
            high = np.trunc(_divide(total[:, -1] - total[rows, at], high_n))
        return Groups(low_n, low, high_n, high, middle)

    def two_means(self, values: Array) -> Groups:
        """Raise NotImplementedError: copies are judged by Dr. Elephant's code only."""
        raise NotImplementedError


def _divide(part: Array, whole: Array) -> Array:
    """Divide; 0 where the divisor is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=np.abs(whole) > 1e-9)


TaskStats = SideTasks | Copies
"""Tasks with times in numbered groups: sides of jobs, or weighted copies of one side.

Statistics return one value per group; averages and medians are truncated to whole numbers, 0 without tasks. Columns are those
of ``TASK_NUMBERS``, ``peak``, and ``data`` (bytes read by a map or fetched by a reduce).
"""
