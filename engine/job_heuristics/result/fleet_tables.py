"""Result tables of all jobs beyond Dr. Elephant's, the summary, and what the screen draws of the job list.

Cost and recommendations are kept per job in ``context.memo`` and computed again only for jobs that changed; what
concerns one job (option ``job``) is made for that one only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from engine.incremental import FramePartials
from engine.job_heuristics.dr_elephant.heuristic_conf import Rules
from engine.job_heuristics.dr_elephant.verdict_tables import JudgedFleet
from engine.job_heuristics.insight import cost, recommend, rollup
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables.insight import COSTS, LISTING, RECOMMENDATIONS, ROLLUP
from engine.job_heuristics.tables.result import JOBS, SEVERITIES
from engine.tables import Table
from engine.view import Context

if TYPE_CHECKING:
    from engine.job_heuristics.result.detail import JobDetail


@dataclass(frozen=True, slots=True)
class Detail:
    """``Result.detail`` of the view: the job list with its severity strips (by declared ``listing_spec``), the
    heuristics a strip shows in order, the chosen job."""

    stamp: tuple[Any, ...]
    heuristics: tuple[str, ...]
    listing: pl.DataFrame = field(compare=False, repr=False)
    listing_spec: Table = field(compare=False, repr=False)
    job: JobDetail | None = None

    def rows(self, table: pl.DataFrame, job_id: str) -> pl.DataFrame:
        """Return the rows of one job in a result table."""
        return table.filter(pl.col("job_id") == job_id)


@dataclass(frozen=True, slots=True)
class Extension:
    """Frames of ``TABLES``, the detail the screen draws, and sentences on what is in force."""

    tables: dict[str, pl.DataFrame]
    detail: Detail
    summary: dict[str, int]
    notes: tuple[str, ...] = ()


def extend(
    model: Model, verdicts: JudgedFleet, rules: Rules, job_id: str | None, parameters: JobParameters, context: Context
) -> Extension:
    """Make tables and detail from the model, its verdicts and the rules in force; ``job_id`` is the chosen job.

    Pure; ``context.memo`` only makes it faster.
    """
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    fleet = _fleet(model, rules, parameters, context)
    names = rules.names
    versions = (names, verdicts.version, fleet.version)
    listing = memo.value(f"job list {times}", versions, lambda: _listing(verdicts, fleet.frame("totals")))
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
    fleet.update(model.stamps, compute, key=key)
    return fleet


_FROM_JOBS = tuple(name for name in LISTING.schema if name in JOBS.schema)
"""Columns of the jobs that are listed as they are."""


def _listing(verdicts: JudgedFleet, totals: pl.DataFrame) -> pl.DataFrame:
    """LISTING rows of all jobs, the most wasteful first, the worse verdict first where they waste the same."""
    jobs = verdicts.jobs.select(_FROM_JOBS)
    places = pl.col("severity").replace_strict({word: place for place, word in enumerate(SEVERITIES, 1)}, default=0)
    listed = jobs.with_columns(
        verdicts.strips["strip"], *totals.drop("job_id").get_columns(), places.cast(pl.Int64).alias("rank")
    )
    return LISTING.sorted(LISTING.frame(listed))
