"""Verdicts of all jobs, kept from one computation to the next: only jobs that changed are judged again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain

import polars as pl

from engine.incremental import FramePartials, Partials
from engine.job_heuristics.dr_elephant.rules import Rules
from engine.job_heuristics.dr_elephant.verdict_tables import judge, sides_of
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.result import Finding
from engine.view import Context

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
    """Judge all jobs of ``model`` by the rules ``chosen``."""
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
