"""Where everything beyond upstream plugs in: further result tables and the detail the screen draws.

Cost and recommendations are kept per job in ``context.memo`` and made anew only for jobs whose rows changed; what
concerns one job (option ``job``) is made for that one only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import polars as pl

from engine.job_heuristics import cost, gates, recommend, rollup
from engine.job_heuristics.beyond_tables import COSTS, LISTING, RECOMMENDATIONS, ROLLUP
from engine.job_heuristics.changes import Changes, spliced
from engine.job_heuristics.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.rules import NAMES, Rules
from engine.job_heuristics.shown import Detail
from engine.job_heuristics.tables import SEVERITIES
from engine.text import clean
from engine.view import Context

LETTERS = dict(zip(SEVERITIES, ".LMSC", strict=True))


@dataclass(frozen=True, slots=True)
class Extension:
    """Frames of ``TABLES``, the detail the screen draws, and sentences on what is in force."""

    tables: dict[str, pl.DataFrame]
    detail: Detail
    notes: tuple[str, ...] = ()


_MINUTES = ("runtime_severity_in_min", "short_runtime_severity_in_min", "long_runtime_severity_in_min")
MB = 2**20


def limits_of(rules: Rules, block: int) -> dict[tuple[str, str], tuple[float, ...]]:
    """The limits in force in the units of ``gates`` (ms, bytes, bytes/s); of heuristics that are switched off, the
    defaults."""
    found = gates.default_limits(block)
    for rule in rules.rules:
        name = NAMES.get(rule.kind, "")
        for key, limits in rule.limits.items():
            if (name, key) in found:
                memory = rule.numbers.get("container_memory_default_mb", 2048)
                found[name, key] = tuple(_scaled(key, x, block, memory) for x in limits)
    return found


def _scaled(key: str, value: float, block: int, memory_mb: int) -> float:
    if key in _MINUTES:
        return value * gates.MINUTE
    if key == "files_severity":
        return value * block
    if key == "disk_speed_severity":
        return value * 100 * MB
    return value * memory_mb * MB if key == "container_memory_severity" else value


def changed_limits(
    limits: gates.Limits, wishes: Collection[str], block: int
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
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    rules: Rules,
    job_id: str | None,
    parameters: JobParameters,
    changes: Changes,
    context: Context,
) -> Extension:
    """Tables and detail from the model, the ``heuristics`` and ``jobs`` result frames and the rules in force; ``job_id``
    is the chosen job. Pure; ``context.memo`` only makes it faster."""
    memo: dict[str, Any] = context.memo.setdefault(("job-beyond", context.at_ms is None), {})
    limits = limits_of(rules, parameters.block_size)
    costs, avoidable, advised, touched = _fleet(model, limits, parameters, changes, memo)
    names = tuple(NAMES[rule.kind] for rule in rules.rules if rule.kind in NAMES)
    listing = _listed(model, verdicts, jobs, (avoidable, advised, touched), names, parameters, memo)
    context.check()
    tables = {
        COSTS.name: costs,
        RECOMMENDATIONS.name: advised,
        ROLLUP.name: rollup.rollup(jobs, avoidable, advised),
    }
    context.check()
    changed, complaints = changed_limits(limits, parameters.limits, parameters.block_size)
    shown = None
    if job_id is not None:
        from engine.job_heuristics import one_job  # half of all the code: only who wants it waits for it

        shown = one_job.shown(model, verdicts, jobs, (limits, changed), job_id, parameters, memo, tables)
    stamp = (names, listing.height, memo["turn"], parameters, shown.stamp if shown is not None else None)
    return Extension(tables, Detail(stamp, names, listing, LISTING, shown), complaints)


def _fleet(
    model: Model, limits: gates.Limits, parameters: JobParameters, changes: Changes, memo: dict[str, Any]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, frozenset[str] | None]:
    """Costs, waste and recommendations of all jobs, only those of changed jobs made anew; and which those are (None:
    all)."""
    key = (parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h, tuple(sorted(limits.items())))
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
        made = (costs, cost.waste(costs), recommend.recommendations(part, limits, parameters.headroom))
        if not again and touched is not None:
            old = memo["fleet"]
            a, b, c = (spliced(was, now, touched, model.place) for was, now in zip(old, made, strict=True))
            made = (a, b, c)
        memo.update(key=key, fleet=made, generation=changes.generation, turn=memo.get("turn", 0) + 1)
    costs, avoidable, advised = memo["fleet"]
    return costs, avoidable, advised, None if again else touched


def _listed(
    model: Model,
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    fleet: tuple[pl.DataFrame, pl.DataFrame, frozenset[str] | None],
    names: tuple[str, ...],
    parameters: JobParameters,
    memo: dict[str, Any],
) -> pl.DataFrame:
    """The job list, only the rows of changed jobs made anew. ``fleet``: what each job wastes, the recommendations, and
    which jobs changed."""
    avoidable, advised, touched = fleet
    key = (names, parameters.mode, parameters.heuristic_conf, parameters.block_size, parameters.queue_limit)
    # Kept for the turn before this one only: what is older has missed changes.
    held = memo.get("listing")
    if held is None or touched is None or held[0] != key or memo["turn"] - held[1] > 1:
        found = _listing(jobs, verdicts, avoidable, advised, names)
    elif not touched:
        found = held[2]
    else:
        wanted = pl.col("job_id").is_in(pl.Series(sorted(touched)).implode())
        mine = (frame.filter(wanted) for frame in (jobs, verdicts, avoidable, advised))
        part = _listing(next(mine), next(mine), next(mine), next(mine), names)
        found = spliced(held[2], part, touched, model.place)
    memo["listing"] = (key, memo["turn"], found)
    return found


def _listing(
    jobs: pl.DataFrame, verdicts: pl.DataFrame, avoidable: pl.DataFrame, advised: pl.DataFrame, names: tuple[str, ...]
) -> pl.DataFrame:
    place = pl.DataFrame({"heuristic": names, "at": range(len(names))}, schema={"heuristic": pl.String, "at": pl.Int64})
    letters = verdicts.join(place, "heuristic", "inner", maintain_order="left").select(
        "job_id", "at", pl.col("severity").replace_strict(LETTERS, default="?", return_dtype=pl.String).alias("letter")
    )
    wide = letters.group_by("job_id", maintain_order=True).agg(
        *(pl.col("letter").filter(pl.col("at") == k).first().fill_null(" ").alias(f"l{k}") for k in range(len(names)))
    )
    strips = wide.select(
        "job_id",
        pl.concat_str([pl.col(f"l{k}") for k in range(len(names))]).alias("strip")
        if names
        else pl.lit("").alias("strip"),
    )
    saved = advised.group_by("job_id", maintain_order=True).agg(pl.col("saving_mb_s").clip(0).sum())
    found = jobs
    for more in (strips, avoidable, saved):
        found = found.join(more, "job_id", "left", maintain_order="left")
    return LISTING.frame(found.with_columns(pl.col("strip").fill_null(" " * len(names))))
