"""Sums over the job list: its order, the roll-up by user and queue, the summary, and what goes on to Prometheus."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl

from engine.core.exports import PERCENT, Gauge
from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.tables import ROLLUP, SEVERITIES, SHOWN_WASTE

GROUPS: tuple[str, ...] = ("user", "queue", "job_type", "hour")
"""Groupings of jobs; ``hour`` is the UTC hour in which they finished (or were submitted)."""
_FAILED = ("FAILED", "KILLED", "ERROR")
_STATES = ("SUCCEEDED", "FAILED", "KILLED", "RUNNING")
_HOUR = 3_600_000  # milliseconds of an hour


def _summed(column: str) -> pl.Expr:
    """A summand: 0 if unknown, or implausibly large so that it would swamp all others."""
    return pl.when(pl.col(column).abs() < _MOST_SUMMED).then(column).otherwise(0)


_MOST_SUMMED = 2**53  # MB s or ms of one job from which on totals ignore it (285,000 years)
_COUNTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "running": ("state", ("RUNNING",)),
    "failed": ("state", _FAILED),
    **{word.lower(): ("severity", (word,)) for word in SEVERITIES},
}
"""Counts per group: column and the words that count."""
_ADDED = ("used_mb_s", "wasted_mb_s", "wait_ms")  # whole numbers that are summed over the jobs of a group
_WEIGHED = ("cost_mb_s", "avoidable_mb_s", "saving_mb_s")  # fractions that are summed over the jobs of a group


def summary(listing: pl.DataFrame) -> dict[str, float]:
    """Count jobs by state and severity, and sum up their score and metrics; from LISTING rows."""
    states, severities = (dict(listing[name].value_counts().iter_rows()) for name in ("state", "severity"))
    counts = {f"jobs_{state.lower()}": states.pop(state, 0) for state in _STATES}
    counts["jobs_other_state"] = sum(states.values())
    counts |= {f"jobs_{word.lower()}": severities.get(word, 0) for word in SEVERITIES}
    counts["jobs_not_judged"] = severities.get(None, 0)
    counts["jobs_upstream_shows_nothing"] = int((listing["upstream_says"] != "").sum())
    sums = listing.select(_summed(name) for name in ("score", "used_mb_s", "wasted_mb_s", *_WEIGHED))
    return {"jobs": listing.height, **counts, **{each.name: sum(each.drop_nulls().to_list()) for each in sums}}


VISIBLE = 0.01
"""Share of all avoidable cost from which a job's place in the list is that of its cost; below it the verdict leads."""
_AVOIDABLE = pl.col("avoidable_mb_s").fill_null(0.0)
_SHOWN = (_AVOIDABLE / SHOWN_WASTE).round()
WORST: tuple[pl.Expr, ...] = (
    pl.when((_SHOWN > 0) & (VISIBLE * _AVOIDABLE.sum() <= _AVOIDABLE)).then(_SHOWN),
    pl.col("rank"),
    _AVOIDABLE,
    pl.col("submit_ms"),
)
"""Sort keys of the job list, descending: avoidable cost as shown if it is a visible share of all, verdict, exact cost, time;
then the id. Every kind of job has them: Dr. Elephant's waste is not defined for all."""
NUMBERS = ("avoidable_mb_s", "rank", "submit_ms")  # columns that ``WORST`` reads


def worst_first(listing: pl.DataFrame) -> pl.DataFrame:
    """Sort LISTING rows for display."""
    return listing.sort(*WORST, "job_id", descending=[*(True for _ in WORST), False], nulls_last=True)


def rollup(listing: pl.DataFrame) -> pl.DataFrame:
    """Sum up LISTING rows by each of ``GROUPS``: rows of ROLLUP, within a grouping most avoidable cost first.

    Fractions are added in the order of the rows: those of ``worst_first`` give the same to the last bit.
    """
    words = {column: _groups(listing, column) for column in ("state", "severity")}
    groups = {by: _groups(listing, by) for by in GROUPS}
    summed: dict[str, dict[str, Array]] = {
        by: {"jobs": np.bincount(group, minlength=len(names)), **_counted(group, len(names), words)}
        for by, (names, group) in groups.items()
    }
    for name in _ADDED:  # of a million jobs, not all columns at once
        added = listing.select(_summed(name)).to_series().to_numpy()
        for by, (names, group) in groups.items():
            summed[by][name] = np.zeros(len(names), np.int64)
            np.add.at(summed[by][name], group, added)
    for name in _WEIGHED:
        weighed = listing[name].fill_null(0.0).to_numpy()
        for by, (names, group) in groups.items():
            summed[by][name] = np.bincount(group, weights=weighed, minlength=len(names))
    rows: dict[str, list[Any]] = {name: [] for name in ROLLUP.schema}
    for by, sums in summed.items():
        names, used, wasted, lost = groups[by][0], sums["used_mb_s"], sums["wasted_mb_s"], sums["avoidable_mb_s"]
        at = np.lexsort((np.arange(len(names)), -used, -lost))
        rows["by"] += [by] * len(at)
        rows["group"] += [names[k] for k in at.tolist()]
        for name, values in sums.items():
            rows[name] += values[at].tolist()
        rows["wasted_percent"] += [100 * a / b if b > 0 else None for a, b in zip(wasted[at], used[at], strict=True)]
        total, worst = float(lost.sum()), lost[at].tolist()
        rows["share"] += [100 * each / total if total > 0 else None for each in worst]
        rows["cumulated"] += [100 * each / total if total > 0 else None for each in accumulate(worst)]
    return ROLLUP.frame(rows)


def _groups(listing: pl.DataFrame, by: str) -> tuple[list[str], Array]:
    """Names of the groups in order, and for each job the index of its group."""
    keys = listing.select(pl.coalesce("finish_ms", "submit_ms") // _HOUR if by == "hour" else by).to_series()
    found = keys.unique()
    labels = ["?" if value is None else _hour(value) if by == "hour" else value for value in found.to_list()]
    names = sorted(set(labels))
    place = {name: k for k, name in enumerate(names)}
    places = pl.Series([place[label] for label in labels], dtype=pl.Int32)
    return names, keys.to_physical().replace_strict(found.to_physical(), places, return_dtype=pl.Int32).to_numpy()


def _counted(group: Array, groups: int, words: dict[str, tuple[list[str], Array]]) -> dict[str, Array]:
    """Count the jobs of each group by the ``words`` of each column, given as by ``_groups``."""
    tables = {
        column: np.bincount(group * len(names) + places, minlength=groups * len(names)).reshape(groups, len(names))
        for column, (names, places) in words.items()
    }
    return {
        counted: tables[column][:, [word in wanted for word in words[column][0]]].sum(axis=1)
        for counted, (column, wanted) in _COUNTED.items()
    }


def _hour(hours: int) -> str:
    """Return the UTC hour this many hours after the epoch; ``?`` beyond the years 1 to 9999."""
    try:
        return (datetime(1970, 1, 1) + timedelta(hours=hours)).strftime("%Y-%m-%d %H:00")
    except OverflowError:
        return "?"


_MB_SECONDS = 1048576.0
_GROUP = {"group": "group", "by": "by"}


def _group(name: str, column: str, meaning: str, factor: float = 1.0) -> Gauge:
    return Gauge(f"jobs{name}", "rollup", column, meaning, _GROUP, factor)


GAUGES = (
    _group("", "jobs", "Jobs of the group."),
    _group("_used_byte_seconds", "used_mb_s", "Memory that the group's jobs reserved, over time.", _MB_SECONDS),
    _group(
        "_held_byte_seconds", "cost_mb_s", "Memory that the group's jobs held in all attempts, over time.", _MB_SECONDS
    ),
    _group(
        "_avoidable_byte_seconds", "avoidable_mb_s", "Memory that a better set-up would not have held.", _MB_SECONDS
    ),
    _group("_wasted_byte_seconds", "wasted_mb_s", "Memory that they reserved and did not use, over time.", _MB_SECONDS),
    _group("_wasted_ratio", "wasted_percent", "Part of the reserved memory that was not used.", PERCENT),
    _group("_severe", "severe", "Jobs whose worst verdict is severe."),
    _group("_critical", "critical", "Jobs whose worst verdict is critical."),
)
