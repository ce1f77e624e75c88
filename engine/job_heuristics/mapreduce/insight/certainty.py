"""Running jobs: certain verdicts, probabilities of each severity, and the expected end.

Finished tasks are a sample of the tasks the job will have. The Pólya posterior (finite-population Bayesian bootstrap;
Lo 1988, Ghosh and Meeden 1997) draws the missing tasks from the finished ones, weighted because short tasks finish
first (Kaplan and Meier 1958, with the age of running attempts as censoring). Hard bounds need no model: task counts
are planned, container sizes fixed, and averages bounded from below.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.decision import Chances, Outlook
from engine.job_heuristics.dr_elephant.gates import Array, Final, Reading, Tree
from engine.job_heuristics.mapreduce.insight.job_verdicts import Floats, Sample, job_verdicts
from engine.job_heuristics.mapreduce.insight.whatif import makespan, peak_slots
from engine.job_heuristics.mapreduce.model.model import RUNNING, Ints, Job, Side
from engine.job_heuristics.mapreduce.rules.heuristics import MapReduceRules

COPIES = 200  # number of complete jobs that are drawn
MOST = 1000
"""Most finished tasks of a side to draw from. Larger sides are represented by a random sample of this size, with
deviations scaled by the square root of the ratio."""


class Arrival(msgspec.Struct, frozen=True):
    """When the job will probably end: ``low``, ``middle`` and ``high`` (5, 50, 95 %) as epoch ms, None if unknown;
    ``words`` states the basis."""

    low: int | None
    middle: int | None
    high: int | None
    words: str


def outlooks(job: Job, rules: MapReduceRules, seed: int = 1, copies: int = COPIES) -> tuple[Outlook, ...]:
    """Return the outlook of each verdict with gates. For an ended job all are certain. ``seed``: random seed."""
    now = job_verdicts(job, rules)
    if not job.running:
        levels = [(verdict.name, verdict.level) for verdict in now]
        return tuple(Outlook(name, level, level, level, _chances(np.array([level]))) for name, level in levels)
    later = _drawn(job, rules, np.random.default_rng(seed), copies)
    outlook = []
    for verdict in now:
        low, high = bounds(job, verdict.side, verdict.tree)
        chance = _chances(
            np.clip(later[verdict.name].levels(), low, high)
            if len(verdict.side.total)
            else np.arange(low, high + 1)  # nothing finished: all severities within the bounds are equally likely
        )
        outlook.append(Outlook(verdict.name, verdict.level, low, high, chance))
    return tuple(outlook)


def _chances(levels: Array) -> Chances:
    """Return the share of each severity 0-4 among ``levels``."""
    none, low, moderate, severe, critical = (float(np.mean(levels == k)) for k in range(5))
    return none, low, moderate, severe, critical


def running_ages(job: Job, side: Side) -> Ints:
    """Return the age in ms of the running attempts of one side."""
    a, mine = job.attempts, _started(job, side)
    mine &= a.outcome == RUNNING
    return np.maximum(0, a.finish[mine] - a.start[mine])


def _started(job: Job, side: Side) -> NDArray[np.bool_]:
    """Return which attempts of the job are of ``side`` and have started."""
    a = job.attempts
    return (a.is_map == (side.name == "map")) & (a.start > 0)


def bounds(job: Job, side: Side, tree: Tree) -> tuple[int, int]:
    """Return bounds of the final severity for any outcome of the missing tasks, if the job succeeds as planned."""
    planned = max(side.planned, side.n)
    if not planned:
        return 0, 0
    ages = running_ages(job, side)
    complete = side.n >= planned and not len(ages)
    least_mean = float(np.trunc((float(side.total.sum()) + float(ages.sum())) / planned))
    low = high = 0
    for branch in tree.branches:
        ends = [
            (level, level) if complete else _ends(reading, planned, least_mean)
            for reading in branch
            for level in [int(reading.levels()[0])]
        ]
        low, high = max(low, min(end[0] for end in ends)), max(high, min(end[1] for end in ends))
    return low, max(low, high)


def _ends(reading: Reading, planned: int, least_mean: float) -> tuple[int, int]:
    """Return the lowest and highest severity that one gate can end at; ``least_mean`` is the smallest final mean time,
    ms."""
    final = reading.gate.final
    if final in (Final.TASKS, Final.SOME_TASKS):
        level = reading.level_of(planned)
        return (level if final is Final.TASKS else 0), level
    if final is Final.FIXED:
        level = reading.level_of(reading.value)
        return level, level
    if final is Final.MEAN_TIME:
        level = reading.level_of(least_mean)
        return (level, 4) if reading.gate.rising else (0, level)
    return 0, 4


def survivors(finished: Ints, ages: Ints) -> Floats:
    """Return the probability of each finished duration for a new task, with running ones (``ages``) as censored
    (Kaplan and Meier 1958); mass beyond the longest finished task is assigned to it."""
    n = len(finished)
    if not n:
        return np.zeros(0)
    order = np.argsort(finished, kind="stable")
    hazard = 1.0 / (n - np.arange(n) + (len(ages) - np.searchsorted(np.sort(ages), finished[order], side="left")))
    alive = np.cumprod(1 - hazard)
    weight = hazard * np.concatenate([[1.0], alive[:-1]])
    weight[-1] += alive[-1]  # mass beyond the longest finished task
    result = np.empty(n)
    result[order] = weight / weight.sum()
    return result


def _drawn(job: Job, rules: MapReduceRules, rng: np.random.Generator, copies: int) -> dict[str, Tree]:
    """Return the readings of each verdict over ``copies`` complete jobs, by name."""
    thin = msgspec.structs.replace(job, maps=_thinned(job.maps, rng), reduces=_thinned(job.reduces, rng))
    samples = [_sample(job, side, rng, copies) for side in thin.sides]
    drawn = {verdict.name: verdict.tree for verdict in job_verdicts(thin, rules, *samples)}
    if all(len(a.total) == len(b.total) for a, b in zip(job.sides, thin.sides, strict=True)):
        return drawn
    of_thin = job_verdicts(thin, rules, *(_whole(side) for side in thin.sides))
    for part, whole in zip(of_thin, job_verdicts(job, rules, *(_whole(side) for side in job.sides)), strict=True):
        if len(whole.side.total) == len(part.side.total):
            continue
        shrink = float(np.sqrt(len(part.side.total) / len(whole.side.total)))
        drawn[part.name] = Tree(
            tuple(
                tuple(
                    msgspec.structs.replace(copy, values=_moved(copy.values, centre.value, around.value, shrink))
                    for copy, centre, around in zip(*branch, strict=True)
                )
                for branch in zip(drawn[part.name].branches, part.tree.branches, whole.tree.branches, strict=True)
            )
        )
    return drawn


def _moved(values: Floats, centre: float, around: float, shrink: float) -> Floats:
    return around + (values - centre) * shrink if np.isfinite(centre) and np.isfinite(around) else values


def _whole(side: Side) -> Sample:
    """Return the finished tasks standing for all planned ones."""
    n, planned = len(side.total), float(max(side.planned, side.n))
    return Sample.weighted(side, np.full((1, n), planned / max(1, n)), np.array([planned]))


def _thinned(side: Side, rng: np.random.Generator) -> Side:
    n = len(side.total)
    return side if n <= MOST else side.at(np.sort(rng.choice(n, MOST, replace=False)))


def _sample(job: Job, side: Side, rng: np.random.Generator, copies: int) -> Sample:
    """Return copies of the complete side: finished tasks once, missing ones drawn (Pólya posterior). Each task of a
    thinned side represents several finished ones."""
    n = len(side.total)
    planned = max(side.planned, side.n)
    tasks = np.full(copies, float(planned))
    if not n:
        return Sample.weighted(side, np.zeros((copies, 0)), tasks)
    finished = max(n, side.n)
    missing = max(0, planned - finished) * n // finished
    each = finished / n
    if not missing:
        return Sample.weighted(side, np.full((copies, n), planned / n), tasks)
    chances = rng.standard_gamma(np.maximum(survivors(side.total, running_ages(job, side)) * n, 1e-9), (copies, n))
    chances /= chances.sum(axis=1, keepdims=True)
    weights: Floats = (1.0 + rng.multinomial(missing, chances).astype(np.float64)) * each
    return Sample.weighted(side, weights, tasks)


def arrival(job: Job, seed: int = 1, copies: int = COPIES) -> Arrival:
    """Return when a running job ends. Missing tasks take times drawn from the finished ones, running ones more than
    their age; the number of containers stays; reducers end when the last map is done, their copies have arrived and
    their code has run (times of finished reducers; unknown without any)."""
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
        words = f"maps end about then ({why_maps}); no reducer has finished, so the rest is unknown"
        return Arrival(_arrival(now, maps, why_maps).low, None, None, words)
    return _arrival(now, maps + reduces, f"{why_maps}; {why_reduces}")


def _arrival(now: int, left: Floats, words: str) -> Arrival:
    low, middle, high = (int(now + q) for q in np.quantile(left, (0.05, 0.5, 0.95)))
    return Arrival(low, middle, high, words)


def _side_left(
    job: Job, side: Side, lengths: Ints, rng: np.random.Generator, copies: int
) -> tuple[NDArray[np.float64] | None, str]:
    """Return ms until one side has finished, per copy; None (and why) if nothing is known."""
    ages = running_ages(job, side)
    if side.name == "reduce":
        # A reducer waiting for maps has not started its code.
        ends = int(job.maps.finish.max()) if len(job.maps.finish) else int(job.row["last_event_ms"] or 0)
        ages = np.minimum(ages, max(0, int(job.row["last_event_ms"] or 0) - ends))
    waiting = max(0, side.planned - side.n - len(ages))
    if not waiting and not len(ages):
        return np.zeros(copies), f"all {side.planned:,} {side.word}s done"
    if not len(lengths):
        return None, f"no {side.word} has finished yet"
    slots = max(1, len(ages))
    if not len(ages):
        started = _started(job, side)
        slots = max(1, min(waiting, peak_slots(job.attempts.start[started], job.attempts.finish[started])))
    chance = survivors(lengths, ages)
    order = np.argsort(lengths, kind="stable")
    ordered, tail = lengths[order].astype(np.float64), np.cumsum(chance[order])
    left = np.empty(copies)
    for k in range(copies):
        # Running tasks: drawn beyond their age; an exponential tail beyond the longest.
        at = np.searchsorted(ordered, ages, side="right")
        spent = np.where(at > 0, tail[np.maximum(at, 1) - 1], 0.0)
        u = spent + rng.random(len(ages)) * (1 - spent)
        drawn = ordered[np.minimum(np.searchsorted(tail, u), len(ordered) - 1)]
        beyond = ages >= ordered[-1]
        rest = np.maximum(
            0.0, np.where(beyond, rng.exponential(max(1.0, float(ordered.mean()) * 0.5), len(ages)), drawn - ages)
        )
        left[k] = _finish(rest, ordered, tail, waiting, slots, rng)
    return left, f"{len(ages):,} {side.word}s run and {waiting:,} wait, on {slots:,} containers"


def _finish(rest: Floats, ordered: Floats, tail: Floats, waiting: int, slots: int, rng: np.random.Generator) -> float:
    """Return ms until running tasks (``rest``) and ``waiting`` drawn ones are done on ``slots`` containers."""
    if not waiting:
        return float(rest.max()) if len(rest) else 0.0
    drawn = ordered[np.minimum(np.searchsorted(tail, rng.random(min(waiting, 300))), len(ordered) - 1)]
    if waiting <= 300:
        return float(makespan(np.concatenate([rest, drawn]).astype(np.int64), slots))
    # Many waves: total work over containers, plus half a long task for the last wave.
    work = float(rest.sum()) + waiting * float(drawn.mean())
    return max(float(rest.max()) if len(rest) else 0.0, work / slots + 0.5 * float(np.quantile(drawn, 0.95)))
