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
from engine.job_heuristics.dr_elephant.judging import Verdicts
from engine.job_heuristics.dr_elephant.rules import NAMES, Rules
from engine.job_heuristics.insight import cost, recommend, rollup, severity_rules
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


_MINUTES = ("runtime_severity_in_min", "short_runtime_severity_in_min", "long_runtime_severity_in_min")
MB = 2**20


def limits_of(rules: Rules, block: int) -> dict[tuple[str, str], tuple[float, ...]]:
    """The limits in force in the units of ``gates`` (ms, bytes, bytes/s); of heuristics that are switched off, the
    defaults."""
    found = severity_rules.default_limits(block)
    for rule in rules.rules:
        name = NAMES.get(rule.kind, "")
        for key, limits in rule.limits.items():
            if (name, key) in found:
                memory = rule.numbers.get("container_memory_default_mb", 2048)
                found[name, key] = tuple(_scaled(key, x, block, memory) for x in limits)
    return found


def _scaled(key: str, value: float, block: int, memory_mb: int) -> float:
    if key in _MINUTES:
        return value * severity_rules.MINUTE
    if key == "files_severity":
        return value * block
    if key == "disk_speed_severity":
        return value * 100 * MB
    return value * memory_mb * MB if key == "container_memory_severity" else value


def changed_limits(
    limits: severity_rules.Limits, wishes: Collection[str], block: int
) -> tuple[dict[tuple[str, str], tuple[float, ...]], tuple[str, ...]]:
    """``limits`` with ``wishes`` applied, and a sentence for each wish that cannot be.

    A wish is ``Mapper Time/num_tasks_severity=50:101:500:1000`` (units as in HeuristicConf.xml) or ``...=x1.5`` (all
    four times that).
    """
    found, complaints = dict(limits), []
    for wish in wishes:
        where, _, text = wish.partition("=")
        name, _, key = (part.strip() for part in where.partition("/"))
        try:
            if text.startswith("x") and (name, key) in limits:
                factor = float(text[1:])
                if 0 < factor < 1e6:
                    found[name, key] = tuple(v * factor for v in limits[name, key])
                    continue
            values = tuple(float(x) for x in text.split(":"))
        except ValueError:
            values = ()
        if (name, key) in found and len(values) == 4 and all(abs(v) < 1e15 for v in values):
            found[name, key] = tuple(_scaled(key, v, block, 2048) for v in values)
        else:
            complaints.append(
                f"Limits {clean(wish, 100)!r} are not used: wanted HEURISTIC/PARAMETER=low:moderate:severe:critical or =x1.5."
            )
    return found, tuple(complaints)


def extend(
    model: Model,
    verdicts: Verdicts,
    rules: Rules,
    job_id: str | None,
    parameters: JobParameters,
    context: Context,
) -> Extension:
    """Make tables and detail from the model, its verdicts and the rules in force; ``job_id`` is the chosen job.

    Pure; ``context.memo`` only makes it faster.
    """
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    limits = limits_of(rules, parameters.block_size)
    fleet = _fleet(model, limits, parameters, context)
    names = tuple(NAMES[rule.kind] for rule in rules.rules if rule.kind in NAMES)
    versions = (names, verdicts.version, fleet.version)
    listing = memo.value(f"job list {times}", versions, lambda: _listing(verdicts, fleet.frame("totals"), names))
    context.check()
    tables = {
        COSTS.name: fleet.frame("costs"),
        RECOMMENDATIONS.name: fleet.frame("recommendations"),
        ROLLUP.name: memo.value(f"roll-up {times}", versions, lambda: rollup.rollup(listing)),
    }
    context.check()
    changed, complaints = changed_limits(limits, parameters.limits, parameters.block_size)
    job_detail = None
    if job_id is not None:
        from engine.job_heuristics.result import job_tables  # half of all the code: imported only when it is wanted

        job_detail, of_job = job_tables.of_job(model, verdicts, (limits, changed), job_id, parameters, context)
        tables.update(of_job)
        if parameters.compare is not None and parameters.compare not in model.parts:
            complaints += (f"Nothing is compared: there is no job {clean(parameters.compare, 100)!r}.",)
    stamp = (*versions, parameters, job_detail.stamp if job_detail is not None else None)
    return Extension(tables, Detail(stamp, names, listing, LISTING, job_detail), rollup.summary(listing), complaints)


def _fleet(
    model: Model, limits: severity_rules.Limits, parameters: JobParameters, context: Context
) -> FramePartials[str]:
    """Cost and recommendations of all jobs: frames ``costs`` (COSTS), ``recommendations`` (RECOMMENDATIONS) and ``totals``
    (one row per job of MB s spent, avoidable and saved by the recommendations, null without any)."""
    times = "now" if context.at_ms is None else "past"
    fleet: FramePartials[str] = context.memo.state(f"fleet {times}", lambda: FramePartials("job_id"))

    def compute(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        part = model.only(jobs)
        costs = cost.costs(part, parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h)
        advised = recommend.recommendations(part, limits, parameters.headroom)
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

    key = (parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h, tuple(sorted(limits.items())))
    fleet.update({job: model.revisions[job] for job in model.names}, compute, key=key)
    return fleet


_FROM_JOBS = tuple(name for name in LISTING.schema if name in JOBS.schema)
"""Columns of the jobs that are listed as they are."""


def _listing(verdicts: Verdicts, totals: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
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
    """The place of each value of ``column`` in ``words``, -1 where it is none of them."""
    places = {word: k for k, word in enumerate(words)}
    return pl.col(column).replace_strict(places, default=-1, return_dtype=pl.Int64)
