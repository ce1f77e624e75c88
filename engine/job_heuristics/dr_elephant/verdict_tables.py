"""From the model to the result frames: metrics, verdicts, what upstream would say, and where the seed differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant import metrics
from engine.job_heuristics.dr_elephant.heuristics import Judge, Verdict, memory_mb, rows
from engine.job_heuristics.dr_elephant.rules import DEFAULT, Rules
from engine.job_heuristics.dr_elephant.side_stats import Array, Sides, measure
from engine.job_heuristics.model import job_conf
from engine.job_heuristics.model.arrays import TaskArrays
from engine.job_heuristics.tables import DIFFERENCES, JOB_MODEL, JOBS, SEVERITIES
from engine.result import Finding, Level

Properties = Mapping[str, Mapping[str, str]]

_NULL_STATE = 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)" because "<local13>" is null'
_NO_SLOW_START = 'java.lang.NullPointerException: Cannot invoke "String.trim()" because "in" is null'
_NEITHER = "java.lang.RuntimeException: job neither succeeded or failed. can not process it "
_NO_MEDIAN = "java.lang.IllegalArgumentException: Median of an empty list is not defined."
_NO_QUEUE = "java.lang.IllegalStateException: Queue Name not found."


@dataclass(frozen=True)
class Judged:
    """Result frames of some jobs, in the order of those jobs."""

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    differences: pl.DataFrame
    findings: Mapping[str, tuple[Finding, ...]]
    """Of each job, in the same order."""


LEVELS: dict[str, Level] = {
    "NONE": "ok", "LOW": "low", "MODERATE": "moderate", "SEVERE": "severe", "CRITICAL": "critical",
}  # fmt: skip
"""Upstream's severity as a level of the house."""


def findings_of(jobs: pl.DataFrame, heuristics: pl.DataFrame) -> dict[str, tuple[Finding, ...]]:
    """Make one finding per verdict of LOW and worse, for each of ``jobs`` (JOBS rows)."""
    names = dict(zip(jobs["job_id"].to_list(), jobs["name"].to_list(), strict=True))
    found: dict[str, list[Finding]] = {job: [] for job in names}
    bad = heuristics.filter(pl.col("severity") != "NONE") if heuristics.height > 1000 else heuristics
    for job, heuristic, severity, score, details in zip(*(column.to_list() for column in bad), strict=True):
        if severity == "NONE":
            continue
        values = ", ".join(
            f"{label}: {value if isinstance(value, str) else value[-1]}".replace("\n", " ")
            for label, value in json.loads(details).items()
        )
        text = f"{names.get(job) or '(no name)'}, score {score:,}. {values}"
        found[job].append(Finding(LEVELS[severity], f"{job} {heuristic}", text))
    return {job: tuple(each) for job, each in found.items()}


def slow_start(properties: Properties, names: list[str]) -> Array:
    """Per job, the share of maps after which reduces may start (Hadoop's default 0.05 where unset or unusable)."""
    found = []
    for name in names:
        try:
            found.append(float(properties.get(name, {}).get(job_conf.SLOW_START, "0.05")))
        except ValueError:
            found.append(0.05)
    return np.nan_to_num(np.array(found, dtype=np.float64), nan=0.05)


def sides_of(jobs: pl.DataFrame, tasks: TaskArrays, properties: Properties) -> dict[str, Array]:
    """``sides.measure`` of some jobs; ``tasks`` counts in their order."""
    names: list[str] = jobs["job_id"].to_list()
    judged = np.array([state in ("SUCCEEDED", "FAILED") for state in jobs["state"].to_list()], dtype=bool)
    containers = (jobs["map_memory_mb"].to_numpy(), jobs["reduce_memory_mb"].to_numpy())
    return measure(judged, containers, tasks, slow_start(properties, names))


def _blocks(jobs: pl.DataFrame, properties: Properties, block_size: int, seed: bool, default: int) -> Array:
    """Block size per job: the parameter's; by the seed the cluster's own, which the configuration tells."""
    sizes = np.full(jobs.height, float(block_size))
    if seed and block_size == default:
        for j, name in enumerate(jobs["job_id"].to_list()):
            given = properties.get(name, {})
            value = next((v for key in job_conf.BLOCK_SIZES if (v := job_conf.integer(given.get(key)))), None)
            if value is not None and value > 0:
                sizes[j] = value
    return sizes


_KEPT = tuple(name for name in JOBS.schema if name in JOB_MODEL.schema)
"""Columns of the job model that are shown as they are."""


def judge(
    jobs: pl.DataFrame,
    sides: Sides,
    properties: Properties,
    rules: Rules,
    *,
    seed: bool,
    block_size: int,
    default_block: int,
) -> Judged:
    """The result frames of ``jobs`` (JOB_MODEL rows) from their ``sides`` and configurations, under ``rules``."""
    judges = {
        mode: Judge(
            jobs, sides, properties, rules, _blocks(jobs, properties, block_size, mode, default_block), seed=mode
        )
        for mode in (False, True)
    }
    upstream = judges[False].all()
    verdicts = {False: upstream, True: judges[True].all(upstream)}
    counted = {mode: metrics.compute(jobs, sides, seed=mode) for mode in (False, True)}
    heuristics = rows(judges[seed], verdicts[seed])
    says, notes = _words(jobs, judges[False], properties, rules)
    worst, score = _totals(judges[seed], verdicts[seed])
    # Nothing is known of the tasks: used and wasted are unknown, not 0.
    planned = zip(*(jobs[name].to_list() for name in ("tasks_seen", "maps", "reduces", "source")), strict=True)
    blind = [
        not seen and ((maps or 0) > 0 or (reduces or 0) > 0) and source in ("am", "rest", "summary")
        for seen, maps, reduces, source in planned
    ]
    numbers: dict[str, list[int | None]] = dict(counted[seed])
    if any(blind):
        for name in ("used_mb_s", "wasted_mb_s", "wait_ms"):
            numbers[name] = [None if b else value for b, value in zip(blind, numbers[name], strict=True)]
    columns: dict[str, Any] = {
        **{name: jobs[name] for name in _KEPT},
        "severity": [None if w is None else SEVERITIES[w] for w in worst],
        "score": [None if w is None else s for w, s in zip(worst, score, strict=True)],
        **numbers,
        "upstream_says": says,
        "notes": notes,
    }
    done = JOBS.frame(columns)
    return Judged(done, heuristics, _differences(jobs, judges, verdicts, counted), findings_of(done, heuristics))


def _totals(judge: Judge, verdicts: list[Verdict]) -> tuple[list[int | None], list[int]]:
    """Severity (None: no verdict at all) and score of each job."""
    worst = np.full(judge.count, -1, dtype=np.int64)
    score = np.zeros(judge.count, dtype=np.int64)
    for verdict in verdicts:
        worst = np.where(verdict.given, np.maximum(worst, verdict.severity), worst)
        score = score + np.where(verdict.given, verdict.score, 0)
    idle = judge.empty & (judge.state == "SUCCEEDED")
    worst = np.where(idle, 1, worst)
    score = np.where(idle, 0, score)
    # A finished job that no rule judges is NONE, as upstream would show it.
    ended = (judge.state == "SUCCEEDED") | judge.failed
    worst = np.where((worst < 0) & ended & ~judge.empty, 0, worst)
    return [None if w < 0 else int(w) for w in worst.tolist()], score.tolist()


def _words(jobs: pl.DataFrame, judge: Judge, properties: Properties, rules: Rules) -> tuple[list[str], list[str]]:
    """Per job: what upstream throws (empty: nothing), and what we assumed."""
    says: list[str] = []
    notes: list[str] = []
    names = ("job_id", "state", "source", "broken", "conf_file", "job_type", "tasks_seen", "maps_finished",
             "reduces_finished", "maps", "reduces", "attempts_running")  # fmt: skip
    columns = {name: jobs[name].to_list() for name in names}
    n = (judge.side("n", 0).tolist(), judge.side("n", 1).tolist())
    timed = (judge.side("timed", 0).tolist(), judge.side("timed", 1).tolist())
    ours = (judge.side("ours", 0).tolist(), judge.side("ours", 1).tolist())
    still = judge.side("still", 0).tolist()
    open_ = (judge.side("n", 0) + judge.side("n", 1) - judge.side("ended", 0) - judge.side("ended", 1)).tolist()
    measured = ((judge.side("avg_physical", 0) > 0) | (judge.side("avg_physical", 1) > 0)).tolist()
    in_force = {kind: {r.kind for r in rules.rules if kind not in r.excluded} for kind in set(columns["job_type"])}
    for j, cells in enumerate(zip(*columns.values(), strict=True)):
        row = dict(zip(names, cells, strict=True))
        given = properties.get(row["job_id"], {})
        state, source = row["state"], row["source"]
        words: list[str] = []
        kinds = in_force[row["job_type"]]
        error = _thrown(
            row, given, kinds, n=(n[0][j], n[1][j]), own=timed[0][j] - ours[0][j], still=still[j], open_=open_[j]
        )
        says.append(error)
        if ours[0][j] or ours[1][j]:
            words.append("the file names no successful attempts: those that succeeded are taken")
        lost = n[0][j] + n[1][j] - timed[0][j] - timed[1][j]
        if lost and state == "SUCCEEDED":
            words.append(f"{lost} ended task(s) have no times")
        if still[j]:
            words.append(f"{still[j]} map(s) of 0 ms are left out of Mapper Speed")
        if row["conf_file"] is None and source not in ("rumen", "summary"):
            words.append("no configuration found: containers of 2048 MB and an unknown job type are assumed")
        else:
            for side, key in (("map", job_conf.MAP_MEMORY), ("reduce", job_conf.REDUCE_MEMORY)):
                value = given.get(key)
                if value is not None and job_conf.integer(value) is None:
                    seen = memory_mb(given, key, job_conf.DEFAULT_MB)
                    words.append(
                        f"{side} container {value!r} is no number: metrics count 2048 MB, the memory heuristic {seen} MB"
                    )
                elif value is not None and (job_conf.integer(value) or 0) < 0:
                    words.append(f"{side} container {value} means Hadoop's own choice: 2048 MB is assumed")
        if timed[0][j] + timed[1][j] and not measured[j]:
            words.append("memory was not measured: all of it would count as wasted")
        if state == "RUNNING":
            words.append("still running: verdicts and metrics are over the tasks that have ended so far")
        elif state not in ("SUCCEEDED", "FAILED"):
            words.append(f"{state}: verdicts and metrics are over the tasks that ended")
        notes.append("; ".join(words))
    return says, notes


def _thrown(
    row: Mapping[str, Any],
    given: Mapping[str, str],
    kinds: set[str],
    *,
    n: tuple[int, int],
    own: int,
    still: int,
    open_: int,
) -> str:
    """The exception upstream throws for a job, in the order its code would meet the reasons; empty: none."""
    state, source = row["state"], row["source"]
    if source == "rumen":
        return "upstream does not read Rumen traces"
    if source == "summary":
        return "upstream does not read job summaries: no history of this job was found"
    if row["broken"]:
        return str(row["broken"])
    if state == "RUNNING" and source == "history":
        return _NULL_STATE
    if state not in ("SUCCEEDED", "FAILED"):
        return _NEITHER
    if row["conf_file"] is None:
        return f"java.lang.RuntimeException: Can't find config of {row['job_id']}"
    if open_:
        return 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)": a task has no final state'
    if state == "SUCCEEDED" and (n[0] or n[1]):
        if "MapperSpeedHeuristic" in kinds and n[0]:
            if own == 0:
                return _NO_MEDIAN
            if still:
                return "java.lang.ArithmeticException: / by zero"
        for kind, key in (
            ("MapperMemoryHeuristic", job_conf.MAP_MEMORY),
            ("ReducerMemoryHeuristic", job_conf.REDUCE_MEMORY),
        ):
            value = given.get(key)
            if kind in kinds and value is not None and job_conf.integer(value) is None:
                name = job_conf.variable(value)
                if name is None:
                    return f'java.lang.NumberFormatException: For input string: "{value}"'
                if job_conf.integer(given.get(name)) is None:
                    return f"java.lang.NumberFormatException: {name} is no number: {given.get(name)}"
    if "JobQueueLimitHeuristic" in kinds and (source == "history" or job_conf.QUEUE_OLD not in given):
        return _NO_QUEUE
    if n[0] or n[1] or state == "FAILED":
        value = given.get(job_conf.SLOW_START)
        if value is None:
            return _NO_SLOW_START
        try:
            float(value)
        except ValueError:
            return f'java.lang.NumberFormatException: For input string: "{value}"'
    return ""


_REASONS = {
    "used_mb_s": "the seed counts exact times, upstream whole seconds of each task",
    "wasted_mb_s": "the seed counts container - peak of each task, upstream container - 1.5 x the side's largest peak",
    "wait_ms": "the seed's ideal start is the launch and the slow-start share of maps, and waits may be negative; "
    "upstream's is submission and the last map, floored at 0",
    "Skew": "the seed splits by recursive averages, takes the real ratio and counts the smaller group; upstream "
    "splits by differences of averages, divides whole numbers and counts group A",
    "Spill": "the seed compares the ratio itself, upstream the ratio cut after four decimals",
    "Shuffle": "the seed takes the real ratio, upstream a whole-number division",
    "Exception": "the seed has no such heuristic",
    "Distributed": "the seed has no such heuristic",
}


def _differences(
    jobs: pl.DataFrame,
    judges: Mapping[bool, Judge],
    verdicts: Mapping[bool, list[Verdict]],
    counted: Mapping[bool, Mapping[str, list[int | None]]],
) -> pl.DataFrame:
    """DIFFERENCES rows, by job in the order of ``jobs``, metrics before heuristics."""
    parts: list[tuple[list[int], str, list[str], list[str], str]] = []
    for name in ("used_mb_s", "wasted_mb_s", "wait_ms"):
        one, two = counted[False][name], counted[True][name]
        differs = np.array([x != y for x, y in zip(one, two, strict=True)], dtype=bool)
        at = np.flatnonzero(differs).tolist()
        parts.append((at, name, [str(one[j]) for j in at], [str(two[j]) for j in at], _REASONS[name]))
    by_rule = {id(v.rule): v for v in verdicts[True]}
    for verdict in verdicts[False]:
        other = by_rule.get(id(verdict.rule))
        if other is verdict:
            continue
        reason = next((r for word, r in _REASONS.items() if word in verdict.rule.name), "the seed's rule differs")
        ours = np.where(verdict.given, verdict.severity, -1)
        theirs = np.where(other.given, other.severity, -1) if other is not None else np.full(jobs.height, -1)
        where = np.flatnonzero(ours != theirs)
        parts.append((where.tolist(), verdict.rule.name, _as_words(ours[where]), _as_words(theirs[where]), reason))
    found: list[tuple[int, int, str, str, str, str]] = []
    names = jobs["job_id"].to_list()
    for order, (at, what, upstream, seed, reason) in enumerate(parts):
        found += [(j, order, what, a, b, reason) for j, a, b in zip(at, upstream, seed, strict=True)]
    found.sort()
    return DIFFERENCES.frame(
        {
            "job_id": [names[f[0]] for f in found],
            "what": [f[2] for f in found],
            "upstream": [f[3] for f in found],
            "seed": [f[4] for f in found],
            "reason": [f[5] for f in found],
        }
    )


def _as_words(severity: Array) -> list[str]:
    return ["-" if x < 0 else SEVERITIES[x] for x in severity.tolist()]


__all__ = ["DEFAULT", "Judged", "judge", "sides_of"]
