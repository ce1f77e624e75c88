"""Running jobs: which verdicts are already certain, how likely each severity is, and when the job will end.

The tasks that finished are a sample of those the job will have. The Pólya posterior (finite-population Bayesian
bootstrap; Lo 1988, Ghosh and Meeden 1997) draws the missing tasks from the finished ones, weighted for the fact that
short tasks finish first (Kaplan and Meier 1958, with the age of running attempts as censoring).
Hard bounds need no model: counts are planned, container sizes are fixed, and an average can only be so small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.insight import phases
from engine.job_heuristics.insight.job_arrays import Ints, Job, Side
from engine.job_heuristics.insight.severity_rules import Floats, Limits, Sample, Tree, trees
from engine.job_heuristics.insight.whatif import makespan, peak_slots
from engine.job_heuristics.tables import SEVERITIES

COPIES = 200
MOST = 1000
"""Above this many finished tasks of a side, as many drawn at random stand for all: their deviations, made smaller by
the square root of the ratio, are put around the values of all tasks."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One verdict of a running job: ``level`` over the finished tasks, the hard bounds ``floor`` and ``ceiling`` of the
    final one if the job succeeds, and ``chance`` 0-1 of each of the five severities."""

    heuristic: str
    level: int
    floor: int
    ceiling: int
    chance: tuple[float, float, float, float, float]

    @property
    def status(self) -> str:
        """``certain`` (cannot change any more), ``can only get worse``, ``at least`` or ``at most`` a severity, or
        ``provisional``."""
        if self.floor == self.ceiling:
            return "certain"
        if self.floor >= max(1, self.level):
            return "can only get worse"
        if self.floor:
            return f"at least {SEVERITIES[self.floor]}"
        return f"at most {SEVERITIES[self.ceiling]}" if self.ceiling < 4 else "provisional"

    @property
    def likely(self) -> int:
        """The most probable final severity."""
        return int(np.argmax(self.chance))


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the job will probably end: ``low``, ``middle`` and ``high`` (5, 50, 95 %) as epoch ms, None where nothing
    can be said; ``words`` says on what it rests."""

    low: int | None
    middle: int | None
    high: int | None
    words: str


def outlooks(job: Job, limits: Limits, seed: int = 1, copies: int = COPIES) -> tuple[Outlook, ...]:
    """Outlook of each numeric verdict. A job that has ended: every verdict certain. Deterministic for a seed."""
    now = trees(job, limits)
    if not job.running:
        return tuple(
            Outlook(t.heuristic, lev, lev, lev, tuple(float(k == lev) for k in range(5)))  # type: ignore[arg-type]
            for t in now
            for lev in [int(t.levels()[0])]
        )
    later = _drawn(job, limits, np.random.default_rng(seed), copies)
    found = []
    for tree in now:
        drawn = later[tree.heuristic]
        side = job.maps if tree.side == "map" else job.reduces
        low, high = bounds(job, side, tree)
        level = int(tree.levels()[0])
        levels = np.clip(drawn.levels(), low, high) if len(side.total) else np.zeros(0, dtype=np.int64)
        if len(levels):
            chance = tuple(float(np.mean(levels == k)) for k in range(5))
        else:
            # Nothing finished: every severity within the bounds is as likely as the next.
            chance = tuple(1 / (high - low + 1) if low <= k <= high else 0.0 for k in range(5))
        found.append(Outlook(tree.heuristic, level, low, high, chance))  # type: ignore[arg-type]
    return tuple(found)


def running_ages(job: Job, side: Side) -> Ints:
    """Age in ms of the attempts of one side that run now."""
    a = job.attempts
    mine = (a.is_map == (side.name == "map")) & (a.outcome == phases.RUNNING) & (a.start > 0)
    result: Ints = np.maximum(0, a.finish[mine] - a.start[mine])
    return result


def bounds(job: Job, side: Side, tree: Tree) -> tuple[int, int]:
    """Lowest and highest final severity, whatever the missing tasks do, if the job succeeds as planned."""
    planned = max(side.planned, side.n)
    ages = running_ages(job, side)
    low, high = 0, 0
    for branch in tree.branches:
        floors, ceilings = [], []
        for gate in branch:
            value = float(gate.value[0])
            a, b = 0, 4
            if gate.key in ("tasks", "data-tasks", "time-tasks"):
                known = float(planned)
                b = _level(known, gate.limits, gate.rising)
                a = b if gate.key == "tasks" and side.planned >= side.n else 0
            elif gate.key == "container":
                a = b = _level(value, gate.limits, gate.rising)
            elif gate.key in ("long", "runtime") and tree.heuristic != "Mapper Speed" and planned:
                least = (float(side.total.sum()) + float(ages.sum())) / planned
                a = _level(np.trunc(least), gate.limits, gate.rising)
            elif gate.key == "short" and planned:
                # The average can still fall, but not below what has been spent already.
                least = (float(side.total.sum()) + float(ages.sum())) / planned
                b = _level(np.trunc(least), gate.limits, gate.rising)
            if side.n >= planned and not len(ages):
                a = b = int(gate.levels()[0])
            floors.append(a)
            ceilings.append(b)
        low, high = max(low, min(floors, default=0)), max(high, min(ceilings, default=0))
    if not planned:
        return 0, 0
    return low, max(low, high)


def _level(value: float, limits: tuple[float, ...], rising: bool) -> int:
    return max((k + 1 for k, x in enumerate(limits) if (value >= x if rising else value <= x)), default=0)


def survivors(finished: Ints, ages: Ints) -> Floats:
    """Probability of each finished duration for a new task, with running ones (``ages``) as censored (Kaplan and Meier
    1958); what lies beyond the longest finished task counts as that one."""
    n = len(finished)
    if not n:
        return np.zeros(0)
    order = np.argsort(finished, kind="stable")
    ordered = finished[order]
    older = len(ages) - np.searchsorted(np.sort(ages), ordered, side="left")
    hazard = 1.0 / (n - np.arange(n) + older)
    alive = np.cumprod(1 - hazard)
    weight = hazard * np.concatenate([[1.0], alive[:-1]])
    weight[-1] += alive[-1]  # what is left beyond the longest finished task
    result = np.empty(n)
    result[order] = weight / weight.sum()
    return result


def _drawn(job: Job, limits: Limits, rng: np.random.Generator, copies: int) -> dict[str, Tree]:
    """Each verdict's tree over ``copies`` complete jobs."""
    thin = replace(job, maps=_thinned(job.maps, rng), reduces=_thinned(job.reduces, rng))
    samples = [_sample(job, side, rng, copies) for side in thin.sides]
    drawn = {t.heuristic: t for t in trees(thin, limits, *samples)}
    if all(len(a.total) == len(b.total) for a, b in zip(job.sides, thin.sides, strict=True)):
        return drawn
    centre = trees(thin, limits, *(_whole(side) for side in thin.sides))
    around = {t.heuristic: t for t in trees(job, limits, *(_whole(side) for side in job.sides))}
    for tree in centre:
        whole, part = (job.maps, thin.maps) if tree.side == "map" else (job.reduces, thin.reduces)
        if len(whole.total) == len(part.total):
            continue
        shrink = float(np.sqrt(len(part.total) / len(whole.total)))
        drawn[tree.heuristic] = replace(
            tree,
            branches=tuple(
                tuple(
                    replace(copy, value=_moved(copy.value, float(point.value[0]), float(full.value[0]), shrink))
                    for copy, point, full in zip(*branch, strict=True)
                )
                for branch in zip(
                    drawn[tree.heuristic].branches, tree.branches, around[tree.heuristic].branches, strict=True
                )
            ),
        )
    return drawn


def _moved(values: Floats, centre: float, around: float, shrink: float) -> Floats:
    if not (np.isfinite(centre) and np.isfinite(around)):
        return values
    result: Floats = around + (values - centre) * shrink
    return result


def _whole(side: Side) -> Sample:
    """The finished tasks standing for all planned ones."""
    n, planned = len(side.total), float(max(side.planned, side.n))
    return Sample(side, np.full((1, n), planned / max(1, n)), np.array([planned]))


def _thinned(side: Side, rng: np.random.Generator) -> Side:
    n = len(side.total)
    if n <= MOST:
        return side
    at = np.sort(rng.choice(n, MOST, replace=False))
    arrays = {
        name: getattr(side, name)[at]
        for name in (
            "total", "shuffle", "sort", "start", "finish", "size", "cpu", "gc", "pmem", "vmem", "peak", "spilled",
            "out_records", "out_bytes",
        )
    }  # fmt: skip
    return replace(side, hosts=(), racks=(), **arrays)


def _sample(job: Job, side: Side, rng: np.random.Generator, copies: int) -> Sample:
    """Copies of the complete side: finished tasks once, missing ones drawn (Pólya posterior). A thinned side's tasks
    stand for as many finished ones each."""
    n = len(side.total)
    planned = max(side.planned, side.n)
    tasks = np.full(copies, float(planned))
    if not n:
        return Sample(side, np.zeros((copies, 0)), tasks)
    finished = max(n, side.n)
    missing = max(0, planned - finished) * n // finished
    each = finished / n
    if not missing:
        return Sample(side, np.full((copies, n), planned / n), tasks)
    base = survivors(side.total, running_ages(job, side)) * n
    chances = rng.standard_gamma(np.maximum(base, 1e-9), (copies, n))
    chances /= chances.sum(axis=1, keepdims=True)
    weights: Floats = (1.0 + rng.multinomial(missing, chances).astype(np.float64)) * each
    return Sample(side, weights, tasks)


def arrival(job: Job, seed: int = 1, copies: int = COPIES) -> Arrival:
    """When a running job ends. Missing tasks take times drawn from the finished ones, running ones more than their age;
    containers stay as many as now; reducers end when the last map is done, their copies are in and their code has run
    (times of reducers that finished; unknown while none has)."""
    if not job.running:
        return Arrival(None, None, None, "the job has ended")
    now = int(job.row["last_event_ms"] or 0)
    rng = np.random.default_rng(seed)
    maps, why_maps = _side_left(job, job.maps, job.maps.total, rng, copies)
    if maps is None:
        return Arrival(None, None, None, why_maps)
    if not job.reduces.planned:
        return _arrival(now, maps, why_maps)
    last_map = int(job.maps.finish.max()) if len(job.maps.finish) else now
    after = np.minimum(job.reduces.total, np.maximum(0, job.reduces.finish - np.maximum(last_map, job.reduces.start)))
    reduces, why_reduces = _side_left(job, job.reduces, after, rng, copies)
    if reduces is None:
        found = _arrival(now, maps, why_maps)
        return Arrival(
            found.low, None, None, f"maps end about then ({why_maps}); no reducer has finished, so the rest is unknown"
        )
    return _arrival(now, maps + reduces, f"{why_maps}; {why_reduces}")


def _arrival(now: int, left: Floats, words: str) -> Arrival:
    low, middle, high = (int(now + q) for q in np.quantile(left, (0.05, 0.5, 0.95)))
    return Arrival(low, middle, high, words)


def _side_left(
    job: Job, side: Side, lengths: Ints, rng: np.random.Generator, copies: int
) -> tuple[NDArray[np.float64] | None, str]:
    """Ms until one side has finished, per copy; None (and why) if nothing can be said."""
    ages = running_ages(job, side)
    if side.name == "reduce":
        # A reducer that waits for maps has not aged as far as its code is concerned.
        ends = int(job.maps.finish.max()) if len(job.maps.finish) else int(job.row["last_event_ms"] or 0)
        ages = np.minimum(ages, max(0, int(job.row["last_event_ms"] or 0) - ends))
    waiting = max(0, side.planned - side.n - len(ages))
    if not waiting and not len(ages):
        return np.zeros(copies), f"all {side.planned:,} {side.word}s done"
    if not len(lengths):
        return None, f"no {side.word} has finished yet"
    slots = max(1, len(ages))
    if not len(ages):
        slots = max(1, min(waiting, _recent_slots(job, side)))
    chance = survivors(lengths, ages)
    order = np.argsort(lengths, kind="stable")
    ordered, tail = lengths[order].astype(np.float64), np.cumsum(chance[order])
    left = np.empty(copies)
    for k in range(copies):
        # Running: drawn from the part of the distribution beyond the age; beyond the longest, a memoryless tail.
        at = np.searchsorted(ordered, ages, side="right")
        spent = np.where(at > 0, tail[np.maximum(at, 1) - 1], 0.0)
        u = spent + rng.random(len(ages)) * (1 - spent)
        drawn = ordered[np.minimum(np.searchsorted(tail, u), len(ordered) - 1)]
        beyond = ages >= ordered[-1]
        rest = np.where(beyond, rng.exponential(max(1.0, float(ordered.mean()) * 0.5), len(ages)), drawn - ages)
        rest = np.maximum(0.0, rest)
        left[k] = _finish(rest, ordered, tail, waiting, slots, rng)
    words = f"{len(ages):,} {side.word}s run and {waiting:,} wait, on {slots:,} containers"
    return left, words


def _finish(rest: Floats, ordered: Floats, tail: Floats, waiting: int, slots: int, rng: np.random.Generator) -> float:
    """Ms until running tasks (``rest``) and ``waiting`` drawn ones are done on ``slots`` containers."""
    if not waiting:
        return float(rest.max()) if len(rest) else 0.0
    picks = min(waiting, 300)
    drawn = ordered[np.minimum(np.searchsorted(tail, rng.random(picks)), len(ordered) - 1)]
    if waiting <= 300:
        return float(makespan(np.concatenate([rest, drawn]).astype(np.int64), slots))
    # Many waves: total work over containers, plus half a long task for the last wave's ragged end.
    work = float(rest.sum()) + waiting * float(drawn.mean())
    return max(float(rest.max()) if len(rest) else 0.0, work / slots + 0.5 * float(np.quantile(drawn, 0.95)))


def _recent_slots(job: Job, side: Side) -> int:
    a = job.attempts
    mine = (a.is_map == (side.name == "map")) & (a.start > 0)
    if not mine.any():
        return 1
    return max(1, peak_slots(a.start[mine], a.finish[mine]))
