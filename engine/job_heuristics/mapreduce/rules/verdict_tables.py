"""The result tables of Dr. Elephant's rules: metrics, severity, score, verdicts and findings of each job."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import FramePartials, Partials
from engine.core.result import Finding, Level
from engine.core.view import Context
from engine.job_heuristics.dr_elephant import registry
from engine.job_heuristics.dr_elephant.heuristic_conf import BLOCK_SIZE, Rules
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.arrays import Array, TaskArrays
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.rules import metrics
from engine.job_heuristics.mapreduce.rules.errors import assumptions, errors
from engine.job_heuristics.mapreduce.rules.jobs import Jobs
from engine.job_heuristics.mapreduce.rules.published_differences import differences
from engine.job_heuristics.mapreduce.rules.side_stats import Sides, measure
from engine.job_heuristics.mapreduce.rules.verdicts import Verdicts, idle, rows, verdicts
from engine.job_heuristics.mapreduce.tables.model import JOB_MODEL
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables.result import JOBS, LETTERS, SEVERITIES

Properties = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Judged:
    """Result frames of some jobs, in the order of those jobs; ``strips``: per job a letter for each heuristic in force."""

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    differences: pl.DataFrame
    strips: pl.DataFrame
    findings: Mapping[str, tuple[Finding, ...]]
    """Of each job, in the same order."""


LEVELS: dict[str, Level] = {
    "NONE": "ok", "LOW": "low", "MODERATE": "moderate", "SEVERE": "severe", "CRITICAL": "critical",
}  # fmt: skip
"""Level of a finding by severity."""


def findings_of(jobs: pl.DataFrame, heuristics: pl.DataFrame) -> dict[str, tuple[Finding, ...]]:
    """Make one finding per verdict of LOW and worse, for each of ``jobs`` (JOBS rows)."""
    names = dict(zip(jobs["job_id"].to_list(), jobs["name"].to_list(), strict=True))
    running = frozenset(jobs.filter(pl.col("state") == "RUNNING")["job_id"].to_list())
    findings: dict[str, list[Finding]] = {job: [] for job in names}
    bad = heuristics.filter(pl.col("severity") != "NONE")
    for job, heuristic, severity, score, details in zip(*(column.to_list() for column in bad), strict=True):
        values = ", ".join(
            f"{label}: {value if isinstance(value, str) else value[-1]}".replace("\n", " ")
            for label, value in json.loads(details).items()
        )
        so_far = ", so far: it still runs" if job in running else ""
        text = f"{names.get(job) or '(no name)'}, score {score:,}{so_far}. {values}"
        findings[job].append(Finding(LEVELS[severity], f"{job} {heuristic}", text, ("jobs", (job,))))
    return {job: tuple(each) for job, each in findings.items()}


def slow_start(properties: Properties, names: list[str]) -> Array:
    """Return per job the share of maps after which reduces may start (Hadoop's 0.05 where unset or unusable)."""
    shares = []
    for name in names:
        try:
            shares.append(float(properties.get(name, {}).get(job_conf.SLOW_START, "0.05")))
        except ValueError:
            shares.append(0.05)
    return np.nan_to_num(np.array(shares, dtype=np.float64), nan=0.05)


def sides_of(jobs: pl.DataFrame, tasks: TaskArrays, properties: Properties) -> dict[str, Array]:
    """Compute the measures of all heuristics and metrics; ``tasks`` counts in the order of ``jobs`` (JOB_MODEL rows)."""
    names: list[str] = jobs["job_id"].to_list()
    judged = np.array([state in ("SUCCEEDED", "FAILED") for state in jobs["state"].to_list()], dtype=bool)
    containers = (jobs["map_memory_mb"].to_numpy(), jobs["reduce_memory_mb"].to_numpy())
    values, stats = measure(judged, tasks, (*metrics.MEASURES, *registry.measures()))
    return values | metrics.published_measures(stats, containers, slow_start(properties, names))


def _blocks(jobs: pl.DataFrame, properties: Properties, block_size: int, *, published: bool) -> Array:
    """Return the bytes of a block per job: those of ``rules``; in the published description the cluster's own, which
    the configuration tells, unless another size was chosen."""
    sizes = np.full(jobs.height, float(block_size))
    if published and block_size == BLOCK_SIZE:
        for j, name in enumerate(jobs["job_id"].to_list()):
            conf = properties.get(name, {})
            value = next((v for key in job_conf.BLOCK_SIZES if (v := job_conf.integer(conf.get(key)))), 0)
            if value > 0:
                sizes[j] = value
    return sizes


_SHOWN = tuple(name for name in JOBS.schema if name in JOB_MODEL.schema)
"""Columns of the job model that are shown as they are."""


def judge(jobs: pl.DataFrame, sides: Sides, properties: Properties, rules: Rules, *, published: bool) -> Judged:
    """Return the result frames of ``jobs`` (JOB_MODEL rows) from their ``sides`` and configurations, under ``rules``.

    ``published``: by the published description instead of Dr. Elephant's code.
    """
    code = Jobs(jobs, sides, properties, _blocks(jobs, properties, rules.block_size, published=False))
    described = Jobs(jobs, sides, properties, _blocks(jobs, properties, rules.block_size, published=True))
    by_code = verdicts(rules, code)
    by_description = verdicts(rules, described, published=True, by_code=by_code)
    counted = {mode: metrics.compute(jobs, sides, published=mode) for mode in (False, True)}
    judged, made = (described, by_description) if published else (code, by_code)
    heuristics = rows(judged, made)
    worst, score = _totals(judged, made)
    columns: dict[str, Any] = {
        **{name: jobs[name] for name in _SHOWN},
        "severity": [None if level is None else SEVERITIES[level] for level in worst],
        "score": [None if level is None else points for level, points in zip(worst, score, strict=True)],
        **counted[published],
        "upstream_says": errors(code, rules),
        "notes": assumptions(code),
    }
    unknown = _without_tasks(jobs)
    if any(unknown):
        for name in ("used_mb_s", "wasted_mb_s", "wait_ms"):
            columns[name] = [None if u else value for u, value in zip(unknown, columns[name], strict=True)]
    shown = JOBS.frame(columns)
    strips = pl.DataFrame({"job_id": judged.names, "strip": strips_of(judged.names, heuristics, rules.names)}, STRIPS)
    differing = differences(jobs, by_code, by_description, counted)
    return Judged(shown, heuristics, differing, strips, findings_of(shown, heuristics))


STRIPS = {"job_id": pl.String, "strip": pl.String}
"""Schema of the strips."""


def strips_of(jobs: list[str], heuristics: pl.DataFrame, names: tuple[str, ...]) -> list[str]:
    """Return per job a letter for each heuristic of ``names``, blank without a result; of two results the first counts."""
    places = {name: k for k, name in enumerate(names)}
    strips = {job: [" "] * len(names) for job in jobs}
    cells = heuristics.select("job_id", "heuristic", "severity").reverse()
    for job, name, severity in zip(*(column.to_list() for column in cells), strict=True):
        if name in places:
            strips[job][places[name]] = LETTERS.get(severity, "?")
    return ["".join(strip) for strip in strips.values()]


def _without_tasks(jobs: pl.DataFrame) -> list[bool]:
    """Return per job, whether it has tasks of which nothing is known: then used and wasted are unknown, not 0."""
    planned = zip(*(jobs[name].to_list() for name in ("tasks_seen", "maps", "reduces", "source")), strict=True)
    return [
        not seen and ((maps or 0) > 0 or (reduces or 0) > 0) and source in ("am", "rest", "summary")
        for seen, maps, reduces, source in planned
    ]


def _totals(jobs: Jobs, made: Verdicts) -> tuple[list[int | None], list[int]]:
    """Return the severity (None: no verdict at all) and score of each job, by Dr. Elephant's heuristics alone."""
    worst = np.full(jobs.count, -1, dtype=np.int64)
    score = np.zeros(jobs.count, dtype=np.int64)
    for rule, verdict in made:
        if rule.heuristic.own:
            continue
        worst = np.where(verdict.given, np.maximum(worst, verdict.severity), worst)
        score = score + np.where(verdict.given, verdict.score, 0)
    without_data = idle(jobs)
    worst = np.where(without_data, 1, worst)
    score = np.where(without_data, 0, score)
    # A finished job that no rule judges is NONE, as Dr. Elephant would show it.
    ended = (jobs.state == "SUCCEEDED") | jobs.failed
    worst = np.where((worst < 0) & ended & ~jobs.empty, 0, worst)
    return [None if level < 0 else level for level in worst.tolist()], score.tolist()


_FRAMES = ("jobs", "heuristics", "differences", "strips")


@dataclass(frozen=True)
class JudgedFleet:
    """Result frames of all jobs (JOBS, HEURISTICS, DIFFERENCES, strips), jobs in model order, and a finding per bad verdict.

    ``version`` differs whenever any of them does.
    """

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    differences: pl.DataFrame
    strips: pl.DataFrame
    findings: tuple[Finding, ...]
    version: int


def judge_all(model: Model, chosen: Rules, parameters: JobParameters, context: Context) -> JudgedFleet:
    """Judge all jobs of ``model`` by the rules ``chosen``; only jobs that changed since the last call are judged again."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    frames: FramePartials[str] = memo.state(f"verdicts {times}", lambda: FramePartials("job_id"))
    findings: Partials[str, tuple[Finding, ...]] = memo.state(f"findings {times}", Partials)
    fresh: dict[str, tuple[Finding, ...]] = {}

    def compute(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        part = model.only(jobs)
        sides = sides_of(part.jobs, part.arrays[0], part.properties)
        judged = judge(part.jobs, sides, part.properties, chosen, published=parameters.mode == "published")
        fresh.update(judged.findings)
        return {name: getattr(judged, name) for name in _FRAMES}

    key = (parameters.mode, chosen.key)
    frames.update(model.stamps, compute, key=key)
    findings.update(frames.revisions, lambda jobs: {job: fresh[job] for job in jobs})
    return memo.value(
        f"all verdicts {times}",
        frames.version,
        lambda: JudgedFleet(
            **{name: frames.frame(name) for name in _FRAMES},
            findings=tuple(chain.from_iterable(findings.values())),
            version=frames.version,
        ),
    )
