"""Where everything beyond Dr. Elephant plugs in: further result tables and the detail the screen draws.

Cost and recommendations are kept per job in ``context.memo`` and made anew only for jobs whose rows changed; what
concerns one job (option ``job``) is made for that one only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.rules import Rules
from engine.job_heuristics.dr_elephant.verdict_tables import Judged
from engine.job_heuristics.insight import cost, recommend, rollup
from engine.job_heuristics.insight_tables import COSTS, LISTING, RECOMMENDATIONS, ROLLUP
from engine.job_heuristics.model.arrays import job_index
from engine.job_heuristics.model.changes import Changes, spliced
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result.view_detail import Detail
from engine.job_heuristics.tables import JOBS, SEVERITIES
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
    judged: Judged,
    rules: Rules,
    job_id: str | None,
    parameters: JobParameters,
    changes: Changes,
    context: Context,
) -> Extension:
    """Tables and detail from the model, its verdicts and the rules in force; ``job_id`` is the chosen job.

    Pure; ``context.memo`` only makes it faster.
    """
    memo: dict[str, Any] = context.memo.setdefault(("job-beyond", context.at_ms is None), {})
    fleet, touched = _fleet(model, rules, parameters, changes, memo)
    names = rules.names
    listed = _listed(model, judged, fleet, touched, names, parameters, memo)
    context.check()
    tables = {
        COSTS.name: fleet.costs,
        RECOMMENDATIONS.name: fleet.advised,
        ROLLUP.name: listed.groups,
    }
    context.check()
    changed, complaints = rules.changed(parameters.limits)
    shown = None
    if job_id is not None:
        from engine.job_heuristics.result import job_tables  # half of all the code: only who wants it waits for it

        shown = job_tables.shown(
            model, judged.heuristics, judged.jobs, (rules, changed), job_id, parameters, memo, tables
        )
        if parameters.compare is not None and parameters.compare not in model.place:
            complaints += (f"Nothing is compared: there is no job {clean(parameters.compare, 100)!r}.",)
    stamp = (names, listed.listing.height, memo["turn"], parameters, shown.stamp if shown is not None else None)
    detail = Detail(stamp, names, listed.listing, LISTING, model.place, shown)
    return Extension(tables, detail, listed.base.summary(), complaints)


@dataclass(frozen=True)
class Fleet:
    """What the jobs cost and should change: rows of COSTS and of RECOMMENDATIONS; per job MB s spent and avoidable
    (``cost.waste``), and MB s that the recommendations save."""

    costs: pl.DataFrame
    advised: pl.DataFrame
    waste: dict[str, tuple[float, float]]
    savings: dict[str, float]


def _fleet(
    model: Model, rules: Rules, parameters: JobParameters, changes: Changes, memo: dict[str, Any]
) -> tuple[Fleet, frozenset[str] | None]:
    """Of all jobs, only changed ones made anew; and which those are (None: all)."""
    key = (parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h, rules.key)
    touched = changes.since(memo.get("generation")) if "fleet" in memo else None
    if touched is None or 2 * len(touched) > model.jobs.height:
        touched = None
    held = memo.get("held")
    if held is not None and (touched is None or held[0] in touched):
        del memo["held"]
    again = touched is None or memo.get("key") != key
    if again or touched:
        part = model if again or touched is None else model.only(touched)
        costs = cost.costs(part, parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h)
        advised = recommend.recommendations(part, rules, parameters.headroom)
        made = Fleet(costs, advised, cost.waste(costs), recommend.savings(advised))
        if not again and touched is not None:
            old: Fleet = memo["fleet"]
            # The frames are the last result's and stay as they are; the rest is nobody's but ours, and takes the changes.
            for job in touched:
                old.waste.pop(job, None)
                old.savings.pop(job, None)
            old.waste.update(made.waste)
            old.savings.update(made.savings)
            made = Fleet(
                spliced(old.costs, made.costs, touched, model.place),
                spliced(old.advised, made.advised, touched, model.place),
                old.waste,
                old.savings,
            )
        memo.update(key=key, fleet=made, generation=changes.generation, turn=memo.get("turn", 0) + 1)
    return memo["fleet"], None if again else touched


def _listed(
    model: Model,
    judged: Judged,
    fleet: Fleet,
    touched: frozenset[str] | None,
    names: tuple[str, ...],
    parameters: JobParameters,
    memo: dict[str, Any],
) -> _Listed:
    """The job list and the roll-up, only the rows of the jobs that changed (``touched``, None: all) made anew."""
    key = (names, parameters.mode, parameters.heuristic_conf, parameters.block_size, parameters.queue_limit)
    # Kept for the turn before this one only: what is older has missed changes.
    held: _Listed | None = memo.get("listing")
    if held is not None and touched is not None and held.key == key and memo["turn"] - held.turn <= 1:
        if not touched:
            return held
        part = judged.of(touched)
        listing = spliced(held.listing, _listing(part, fleet, names), touched, model.place)
        base = held.base
        if held.place is not model.place:
            base = rollup.Base(judged.jobs.height)
            base.put(range(judged.jobs.height), judged.jobs, fleet.waste, fleet.savings)
        else:
            base.put([model.place[job] for job in part.jobs["job_id"]], part.jobs, fleet.waste, fleet.savings)
    else:
        listing = _listing(judged, fleet, names)
        base = rollup.Base(judged.jobs.height)
        base.put(range(judged.jobs.height), judged.jobs, fleet.waste, fleet.savings)
    found = memo["listing"] = _Listed(key, memo["turn"], model.place, base, listing, base.table())
    return found


@dataclass(frozen=True)
class _Listed:
    """The job list and the roll-up of one turn, and what they were made of."""

    key: tuple[Any, ...]
    turn: int
    place: Mapping[str, int]
    base: rollup.Base
    listing: pl.DataFrame
    groups: pl.DataFrame


_KEPT = tuple(name for name in LISTING.schema if name in JOBS.schema)
"""Columns of the jobs that are listed as they are."""


def _listing(judged: Judged, fleet: Fleet, names: tuple[str, ...]) -> pl.DataFrame:
    """LISTING rows of the jobs of ``judged``."""
    jobs: list[str] = judged.jobs["job_id"].to_list()
    at = {name: k for k, name in enumerate(names)}
    found = judged.heuristics
    kind = np.array(list(map(at.get, found["heuristic"].to_list(), repeat(-1))), dtype=np.int64)
    letter = np.array(list(map(LETTERS.get, found["severity"].to_list(), repeat("?"))), dtype="U1")
    # From the back, so that the first of two verdicts of one heuristic stays.
    known = np.flatnonzero(kind >= 0)[::-1]
    strips = np.full((len(jobs), len(names)), " ")
    strips[job_index(found["job_id"], jobs)[known], kind[known]] = letter[known]
    nothing = (None, None)
    columns: dict[str, Any] = {name: judged.jobs[name] for name in _KEPT}
    columns["strip"] = strips.view(f"U{len(names)}").ravel().tolist() if strips.size else [""] * len(jobs)
    columns["cost_mb_s"] = [fleet.waste.get(job, nothing)[0] for job in jobs]
    columns["avoidable_mb_s"] = [fleet.waste.get(job, nothing)[1] for job in jobs]
    columns["saving_mb_s"] = [fleet.savings.get(job) for job in jobs]
    return LISTING.frame(columns)
