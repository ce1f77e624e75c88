"""Result frames of judged jobs of any kind, and how several kinds are joined."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from itertools import chain

import polars as pl

from engine.core.incremental import FramePartials, Partials
from engine.core.view import Context, Finding, Level
from engine.job_heuristics.tables import JOBS, LETTERS


@dataclass(frozen=True)
class Judged:
    """Result frames of some jobs, in the order of those jobs; ``strips``: one letter per heuristic in force for each
    job."""

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    strips: pl.DataFrame
    findings: Mapping[str, tuple[Finding, ...]]
    """By job, in the same order."""


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


STRIPS = {"job_id": pl.String, "strip": pl.String}
"""Schema of the strips."""


def strips_of(jobs: list[str], heuristics: pl.DataFrame, names: tuple[str, ...]) -> list[str]:
    """Return per job a letter for each heuristic of ``names``, blank without a result; the first of duplicates
    counts."""
    places = {name: k for k, name in enumerate(names)}
    strips = {job: [" "] * len(names) for job in jobs}
    cells = heuristics.select("job_id", "heuristic", "severity").reverse()
    for job, name, severity in zip(*(column.to_list() for column in cells), strict=True):
        if name in places:
            strips[job][places[name]] = LETTERS.get(severity, "?")
    return ["".join(strip) for strip in strips.values()]


_FRAMES = ("jobs", "heuristics", "strips")


@dataclass(frozen=True)
class JudgedFleet:
    """Result frames of all jobs (JOBS, HEURISTICS, strips), jobs in model order, and a finding per bad verdict.

    ``version`` changes with any of them.
    """

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    strips: pl.DataFrame
    findings: tuple[Finding, ...]
    version: int


def judged_fleet(
    name: str,
    stamps: Mapping[str, Hashable],
    judge: Callable[[Collection[str]], Judged],
    key: Hashable,
    context: Context,
) -> JudgedFleet:
    """Judge all jobs in ``stamps``, reusing the results of jobs whose stamp is unchanged (unless ``key`` changed).
    ``judge`` computes the frames of some jobs; ``name``: key in the memo."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    frames: FramePartials[str] = memo.state(f"{name} {times}", lambda: FramePartials("job_id"))
    findings: Partials[str, tuple[Finding, ...]] = memo.state(f"{name}: findings {times}", Partials)
    fresh: dict[str, tuple[Finding, ...]] = {}

    def compute(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        judged = judge(jobs)
        fresh.update(judged.findings)
        return {name: getattr(judged, name) for name in _FRAMES}

    frames.update(stamps, compute, key=key)
    findings.update(frames.revisions, lambda jobs: {job: fresh[job] for job in jobs})
    return memo.value(
        f"{name}: all {times}",
        frames.version,
        lambda: JudgedFleet(
            **{name: frames.frame(name) for name in _FRAMES},
            findings=tuple(chain.from_iterable(findings.values())),
            version=frames.version,
        ),
    )


def together(*kinds: JudgedFleet) -> JudgedFleet:
    """Join the result frames of several kinds of jobs, the first of which may be empty; jobs in the order of JOBS."""
    some = [kind for kind in kinds if kind.jobs.height]
    if len(some) < 2:
        return next(iter(some), kinds[0])
    jobs = JOBS.sorted(pl.concat([kind.jobs for kind in some]))
    names: list[str] = jobs["job_id"].to_list()
    joined = {name: in_order(jobs, *(getattr(kind, name) for kind in some)) for name in ("heuristics", "strips")}
    rank = {name: k for k, name in enumerate(names)}
    findings = sorted(
        chain.from_iterable(kind.findings for kind in some),
        key=lambda finding: rank.get(finding.subject.partition(" ")[0], 0),
    )
    return JudgedFleet(jobs, **joined, findings=tuple(findings), version=hash(tuple(kind.version for kind in kinds)))


def in_order(jobs: pl.DataFrame, *frames: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``frames`` (with ``job_id``) in the order of ``jobs``, stable within a job; rows of other
    jobs come last."""
    place = pl.DataFrame({"job_id": jobs["job_id"], "_place": pl.int_range(jobs.height, eager=True)})
    placed = pl.concat(frames).join(place, on="job_id", how="left", maintain_order="left")
    return placed.sort("_place", maintain_order=True, nulls_last=True).drop("_place")
