"""Each numeric verdict as a tree of limits: the best of branches, each held by its weakest gate.

The exact verdicts come from upstream's formulas in integer arithmetic; here the same formulas (fact sheet, section 5)
are written once for any number of weighted copies of the tasks, so that *why*, *how far* and *how likely* agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.insight.job_arrays import MB, Ints, Job, Side

Floats = NDArray[np.float64]
Limits = Mapping[tuple[str, str], tuple[float, ...]]
"""(heuristic, name of the parameter in HeuristicConf.xml) to the four limits, in the units of the values below."""

MINUTE = 60_000.0
GB = 2.0**30


def default_limits(block: int = 64 * MB, memory_default_mb: int = 2048) -> dict[tuple[str, str], tuple[float, ...]]:
    """Upstream's limits (fact sheet, section 5): LOW, MODERATE, SEVERE, CRITICAL. Times in ms, sizes in bytes."""
    short = tuple(m * MINUTE for m in (10, 4, 2, 1))
    long = tuple(m * MINUTE for m in (15, 30, 60, 120))
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for side in ("Mapper", "Reducer"):
        found[f"{side} Skew", "num_tasks_severity"] = (10, 50, 100, 200)
        found[f"{side} Skew", "deviation_severity"] = (2, 4, 8, 16)
        found[f"{side} Skew", "files_severity"] = tuple(block * f for f in (1 / 8, 1 / 4, 1 / 2, 1))
        found[f"{side} GC", "gc_ratio_severity"] = (0.01, 0.02, 0.03, 0.04)
        found[f"{side} GC", "runtime_severity_in_min"] = tuple(m * MINUTE for m in (5, 10, 12, 15))
        found[f"{side} Memory", "memory_ratio_severity"] = (0.6, 0.5, 0.4, 0.3)
        found[f"{side} Memory", "container_memory_severity"] = tuple(
            f * memory_default_mb * MB for f in (1.1, 1.5, 2.0, 2.5)
        )
        found[f"{side} Time", "short_runtime_severity_in_min"] = short
        found[f"{side} Time", "long_runtime_severity_in_min"] = long
        found[f"{side} Time", "num_tasks_severity"] = (50, 101, 500, 1000)
    found["Mapper Speed", "disk_speed_severity"] = tuple(100 * MB * f for f in (1 / 2, 1 / 4, 1 / 8, 1 / 32))
    found["Mapper Speed", "runtime_severity_in_min"] = tuple(m * MINUTE for m in (5, 10, 15, 30))
    found["Mapper Spill", "spill_severity"] = (2.01, 2.2, 2.5, 3.0)
    found["Mapper Spill", "num_tasks_severity"] = (50, 100, 500, 1000)
    found["Shuffle & Sort", "runtime_severity_in_min"] = tuple(m * MINUTE for m in (1, 5, 10, 30))
    found["Shuffle & Sort", "runtime_ratio_severity"] = (1, 2, 4, 8)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One limit of a verdict: ``value`` per copy (1-D), ``limits`` LOW to CRITICAL, ``rising`` if more is worse.

    ``unit`` is ``ms``, ``bytes``, ``bytes/s``, ``tasks``, ``10000`` (a ratio times that) or empty (a ratio)."""

    key: str
    label: str
    unit: str
    value: Floats
    limits: tuple[float, ...]
    rising: bool

    def levels(self) -> NDArray[np.int64]:
        """Severity 0-4 per copy; both ends inclusive, NaN is 0."""
        found = np.zeros(len(self.value), dtype=np.int64)
        for k, limit in enumerate(self.limits):
            met = self.value >= limit if self.rising else self.value <= limit
            found[met] = k + 1
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A verdict: the worst of its branches; a branch is as bad as its mildest gate. ``measured`` False: no tasks, so
    NONE whatever the gates say."""

    heuristic: str
    side: str
    branches: tuple[tuple[Gate, ...], ...]
    measured: bool = True

    def levels(self) -> NDArray[np.int64]:
        """Severity 0-4 per copy."""
        if not self.branches:
            return np.zeros(1, dtype=np.int64)
        levels = np.max([np.min([g.levels() for g in branch], axis=0) for branch in self.branches], axis=0)
        result: NDArray[np.int64] = levels if self.measured else np.zeros_like(levels)
        return result


class Sample:
    """Weighted copies of one side's tasks: ``weights`` of shape (copies, tasks), None for the tasks as they are."""

    def __init__(self, side: Side, weights: Floats | None = None, tasks: Floats | None = None) -> None:
        self.side = side
        self.weights = weights
        self.copies = 1 if weights is None else len(weights)
        self.held = np.full(1, float(len(side.total))) if weights is None else weights.sum(axis=1)
        self.tasks = np.full(self.copies, float(side.n)) if tasks is None else tasks

    def sum(self, values: Ints) -> Floats:
        """Weighted sum per copy."""
        if self.weights is None:
            return np.array([values.sum(dtype=np.float64)])
        result: Floats = self.weights @ values.astype(np.float64)
        return result

    def avg(self, values: Ints) -> Floats:
        """Upstream's average: sum over count, truncated; 0 without tasks."""
        return np.trunc(_ratio(self.sum(values), self.held))

    def median(self, values: Ints) -> Floats:
        """Upstream's median (integer mean of the two middle values); weighted lower median for weighted copies."""
        if not len(values):
            return np.zeros(self.copies)
        if self.weights is None:
            ordered = np.sort(values)
            n = len(ordered)
            return np.array([float((int(ordered[(n - 1) // 2]) + int(ordered[n // 2])) // 2)])
        order = np.argsort(values, kind="stable")
        reach = np.cumsum(self.weights[:, order], axis=1)
        at = (reach < reach[:, -1:] / 2).sum(axis=1)
        result: Floats = values[order][np.minimum(at, len(values) - 1)].astype(np.float64)
        return result

    def split(self, values: Ints) -> tuple[Floats, Floats, Floats]:
        """Upstream's two groups (5.1): average of A, average of B, number of tasks in A, per copy."""
        if not len(values):
            zero = np.zeros(self.copies)
            return zero, zero, zero
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        weights = np.ones((1, len(values))) if self.weights is None else self.weights[:, order]
        edge = np.zeros((self.copies, 1))
        count = np.concatenate([edge, np.cumsum(weights, axis=1)], axis=1)
        total = np.concatenate([edge, np.cumsum(weights * ordered, axis=1)], axis=1)
        rows = np.arange(self.copies)
        middle = np.trunc(_ratio(total[:, -1], count[:, -1]))
        for last in (False, False, True):
            at = np.searchsorted(ordered, middle, side="left")
            a = np.trunc(_ratio(total[rows, at], count[rows, at]))
            b = np.trunc(_ratio(total[:, -1] - total[rows, at], count[:, -1] - count[rows, at]))
            if last:
                return a, b, count[rows, at]
            middle = b - a
        raise AssertionError("unreachable")


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=np.abs(bottom) > 1e-9)


def _deviation(a: Floats, b: Floats) -> Floats:
    least = np.minimum(a, b)
    result: Floats = np.abs(b - a) // np.where(least <= 0, 1.0, least)
    return result


def trees(job: Job, limits: Limits, maps: Sample | None = None, reduces: Sample | None = None) -> tuple[Tree, ...]:
    """The numeric verdicts of a job in upstream's order; ``maps`` and ``reduces`` are samples of its sides."""
    maps = maps or Sample(job.maps)
    reduces = reduces or Sample(job.reduces)
    return (
        _skew("Mapper", maps, limits),
        _gc("Mapper", maps, limits),
        _time("Mapper", maps, limits),
        _speed(maps, limits),
        _spill(maps, limits),
        _memory("Mapper", maps, limits),
        _skew("Reducer", reduces, limits),
        _gc("Reducer", reduces, limits),
        _time("Reducer", reduces, limits),
        _memory("Reducer", reduces, limits),
        _shuffle(reduces, limits),
    )


def _skew(word: str, s: Sample, limits: Limits) -> Tree:
    name = f"{word} Skew"
    a, b, low = s.split(s.side.size)
    ta, tb, tlow = s.split(s.side.total)
    ta, tb = ta // 1000, tb // 1000
    deviation, files, tasks = (limits[name, k] for k in ("deviation_severity", "files_severity", "num_tasks_severity"))
    return Tree(
        name,
        s.side.name,
        (
            (
                Gate("data-factor", "factor between the groups' bytes", "", _deviation(a, b), deviation, True),
                Gate("data-size", "mean bytes of the large group", "bytes", b, files, True),
                Gate("data-tasks", "tasks in the small group (bytes)", "tasks", low, tasks, True),
            ),
            (
                Gate("time-factor", "factor between the groups' times", "", _deviation(ta, tb), deviation, True),
                Gate("time-tasks", "tasks in the small group (time)", "tasks", tlow, tasks, True),
            ),
        ),
    )


def _gc(word: str, s: Sample, limits: Limits) -> Tree:
    name = f"{word} GC"
    gc, cpu = s.avg(s.side.gc), s.avg(s.side.cpu)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = gc / cpu
    gates = (
        Gate("gc-ratio", "garbage collection per CPU time", "", ratio, limits[name, "gc_ratio_severity"], True),
        Gate("runtime", "average run time", "ms", s.avg(s.side.total), limits[name, "runtime_severity_in_min"], True),
    )
    return Tree(name, s.side.name, (gates,), bool(s.side.n))


def _memory(word: str, s: Sample, limits: Limits) -> Tree:
    name = f"{word} Memory"
    container = float(s.side.memory_container_mb * MB)
    ratio = s.avg(s.side.pmem) / container
    gates = (
        Gate("memory-ratio", "memory used of the container", "", ratio, limits[name, "memory_ratio_severity"], False),
        Gate(
            "container",
            "container size",
            "bytes",
            np.full(s.copies, container),
            limits[name, "container_memory_severity"],
            True,
        ),
    )
    return Tree(name, s.side.name, (gates,), bool(s.side.n))


def _time(word: str, s: Sample, limits: Limits) -> Tree:
    name = f"{word} Time"
    mean = s.avg(s.side.total)
    short, long = limits[name, "short_runtime_severity_in_min"], limits[name, "long_runtime_severity_in_min"]
    return Tree(
        name,
        s.side.name,
        (
            (
                Gate("short", "average run time", "ms", mean, short, False),
                Gate("tasks", "number of tasks", "tasks", s.tasks, limits[name, "num_tasks_severity"], True),
            ),
            (Gate("long", "average run time", "ms", mean, long, True),),
        ),
        bool(s.side.n),
    )


def _speed(s: Sample, limits: Limits) -> Tree:
    name = "Mapper Speed"
    timed = np.maximum(s.side.total, 1)
    speed = np.where(s.side.total > 0, (1000 * s.side.size.astype(np.float64)) // timed, 0).astype(np.int64)
    gates = (
        Gate("speed", "median speed", "bytes/s", s.median(speed), limits[name, "disk_speed_severity"], False),
        Gate("runtime", "median run time", "ms", s.median(s.side.total), limits[name, "runtime_severity_in_min"], True),
    )
    return Tree(name, s.side.name, (gates,), bool(s.side.n))


def _spill(s: Sample, limits: Limits) -> Tree:
    name = "Mapper Spill"
    spilled, output = s.sum(s.side.spilled), s.sum(s.side.out_records)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(spilled == 0, 0.0, spilled / output)
    # Upstream truncates the ratio x 10000 to an integer before it compares (exactly 2.01 is NONE).
    scaled = np.where(np.isfinite(q), np.trunc(np.nan_to_num(q, posinf=0.0) * 10_000), np.inf)
    ends = tuple(limit * 10_000 for limit in limits[name, "spill_severity"])
    gates = (
        Gate("spill", "records spilled per output record", "10000", scaled, ends, True),
        Gate("tasks", "number of tasks", "tasks", s.tasks, limits[name, "num_tasks_severity"], True),
    )
    return Tree(name, s.side.name, (gates,))


def _shuffle(s: Sample, limits: Limits) -> Tree:
    name = "Shuffle & Sort"
    code = s.avg(s.side.code)
    branches = []
    for key, word in (("shuffle", "shuffle"), ("sort", "sort")):
        mean = s.avg(getattr(s.side, key))
        factor = np.where(code > 0, (2 * mean) // np.where(code > 0, code, 1), np.inf)
        branches.append(
            (
                Gate(f"{key}-time", f"average {word} time", "ms", mean, limits[name, "runtime_severity_in_min"], True),
                Gate(
                    f"{key}-factor",
                    f"twice the {word} time per code time",
                    "",
                    factor,
                    limits[name, "runtime_ratio_severity"],
                    True,
                ),
            )
        )
    return Tree(name, s.side.name, tuple(branches))
