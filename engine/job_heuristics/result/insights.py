"""What goes beyond Dr. Elephant: further result tables, and the detail that the screen draws.

Cost and recommendations are kept per job in ``context.memo`` and computed again only for jobs that changed; what
concerns one job (option ``job``) is made for that one only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.incremental import FramePartials
from engine.job_heuristics.dr_elephant.judging import JudgedFleet
from engine.job_heuristics.dr_elephant.rules import Rules
from engine.job_heuristics.insight import cost, recommend, rollup
from engine.job_heuristics.model.arrays import job_index
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result.view_detail import Detail
from engine.job_heuristics.tables.insight import COSTS, LISTING, RECOMMENDATIONS, ROLLUP
from engine.job_heuristics.tables.result import JOBS, SEVERITIES
from engine.text import clean
from engine.view import Context

LETTERS = dict(zip(SEVERITIES, ".LMSC", strict=True))


@dataclass(frozen=True, slots=True)
class Extension:
    """Frames of ``TABLES``, the detail the screen draws, and sentences on what is in force."""

    tables: dict[str, pl.DataFrame]
    detail: Detail
    summary: dict[str, int]
    notes: tuple[str, ...] = ()


def extend(
    model: Model,
    verdicts: JudgedFleet,
    rules: Rules,
    job_id: str | None,
    parameters: JobParameters,
    context: Context,
) -> Extension:
    """Make tables and detail from the model, its verdicts and the rules in force; ``job_id`` is the chosen job.

    Pure; ``context.memo`` only makes it faster.
    """
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    fleet = _fleet(model, rules, parameters, context)
    names = rules.names
    versions = (names, verdicts.version, fleet.version)
    listing = memo.value(f"job list {times}", versions, lambda: _listing(verdicts, fleet.frame("totals"), names))
    context.check()
    tables = {
        COSTS.name: fleet.frame("costs"),
        RECOMMENDATIONS.name: fleet.frame("recommendations"),
        ROLLUP.name: memo.value(f"roll-up {times}", versions, lambda: rollup.rollup(listing)),
    }
    context.check()
    changed, complaints = rules.changed(parameters.limits)
    job_detail = None
    if job_id is not None:
        from engine.job_heuristics.result import job_tables  # half of all the code: imported only when it is wanted

        job_detail, of_job = job_tables.of_job(model, verdicts, (rules, changed), job_id, parameters, context)
        tables.update(of_job)
        if parameters.compare is not None and parameters.compare not in model.parts:
            complaints += (f"Nothing is compared: there is no job {clean(parameters.compare, 100)!r}.",)
    stamp = (*versions, parameters, job_detail.stamp if job_detail is not None else None)
    return Extension(tables, Detail(stamp, names, listing, LISTING, job_detail), rollup.summary(listing), complaints)


def _fleet(model: Model, rules: Rules, parameters: JobParameters, context: Context) -> FramePartials[str]:
    """Return cost and recommendations of all jobs: frames ``costs`` (COSTS), ``recommendations`` (RECOMMENDATIONS) and
    ``totals`` (one row per job of MB s spent, avoidable and saved by the recommendations, null without any)."""
    times = "now" if context.at_ms is None else "past"
    fleet: FramePartials[str] = context.memo.state(f"fleet {times}", lambda: FramePartials("job_id"))

    def compute(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        part = model.only(jobs)
        costs = cost.costs(part, parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h)
        advised = recommend.recommendations(part, rules, parameters.headroom)
        spent, savings = cost.waste(costs), recommend.savings(advised)
        totals = {
            "job_id": part.names,
            "cost_mb_s": [spent.get(job, (None, None))[0] for job in part.names],
            "avoidable_mb_s": [spent.get(job, (None, None))[1] for job in part.names],
            "saving_mb_s": [savings.get(job) for job in part.names],
        }
        return {
            "costs": costs,
            "recommendations": advised,
            "totals": pl.DataFrame(totals, {name: LISTING.schema[name] for name in totals}),
        }

    key = (parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h, rules.key)
    fleet.update({job: model.revisions[job] for job in model.names}, compute, key=key)
    return fleet


_FROM_JOBS = tuple(name for name in LISTING.schema if name in JOBS.schema)
"""Columns of the jobs that are listed as they are."""


def _listing(verdicts: JudgedFleet, totals: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """LISTING rows of all jobs. ``names``: the heuristics whose letters make the strip, in that order."""
    jobs: list[str] = verdicts.jobs["job_id"].to_list()
    codes = verdicts.heuristics.select(
        kind=_code("heuristic", names), letter=_code("severity", tuple(LETTERS)), row=pl.int_range(pl.len())
    )
    # From the back, so that the first of two verdicts of one heuristic stays.
    shown = codes.filter(pl.col("kind") >= 0).reverse()
    letters = np.array([*LETTERS.values(), "?"])  # the last one for -1: a word that is no severity
    strips = np.full((len(jobs), len(names)), " ")
    job = job_index(verdicts.heuristics["job_id"], jobs)[shown["row"].to_numpy()]
    strips[job, shown["kind"].to_numpy()] = letters[shown["letter"].to_numpy()]
    strip = strips.view(f"U{len(names)}").ravel().tolist() if strips.size else [""] * len(jobs)
    return LISTING.frame(
        verdicts.jobs.select(_FROM_JOBS).with_columns(pl.Series("strip", strip), *totals.drop("job_id").get_columns())
    )


def _code(column: str, words: tuple[str, ...]) -> pl.Expr:
    """Return the place of each value of ``column`` in ``words``, -1 where it is none of them."""
    places = {word: k for k, word in enumerate(words)}
    return pl.col(column).replace_strict(places, default=-1, return_dtype=pl.Int64)
