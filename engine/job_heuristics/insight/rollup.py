"""Fleet view: used, wasted, wait and severities by user, queue, type and hour; the Pareto of waste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.insight_tables import ROLLUP
from engine.job_heuristics.model.arrays import Array
from engine.job_heuristics.tables import SEVERITIES

GROUPS: tuple[str, ...] = ("user", "queue", "job_type", "hour")
"""What jobs can be grouped by; ``hour`` is the UTC hour in which they finished (or were submitted)."""


_COUNTED = ("jobs", "running", "failed", "used_mb_s", "wasted_mb_s", "wait_ms", *(word.lower() for word in SEVERITIES))
_STATES = ("SUCCEEDED", "FAILED", "KILLED", "RUNNING")
_TOLD = (*(state.lower() for state in _STATES), "not_judged", "upstream_shows_nothing", "score")
_WEIGHED = ("cost_mb_s", "avoidable_mb_s", "saving_mb_s")
_FAILED = ("FAILED", "KILLED", "ERROR")
_HOUR = 3_600_000


def _hour(ms: int | None) -> str:
    """The UTC hour of an epoch time, ``?`` if it is not known or beyond the years 1 to 9999."""
    if ms is None:
        return "?"
    try:
        return (datetime(1970, 1, 1) + timedelta(hours=ms // _HOUR)).strftime("%Y-%m-%d %H:00")
    except OverflowError:
        return "?"


class Base:
    """What is summed, job by job: rows of some jobs can be put in anew, and only the sums of their groups are made anew.

    The sums are to the last bit those of all jobs one after another.
    """

    def __init__(self, count: int) -> None:
        self._counted = np.zeros((len(_COUNTED) + len(_TOLD), count), dtype=np.int64)
        self._weighed = np.zeros((len(_WEIGHED), count))
        self._group: dict[str, Array] = {by: np.zeros(count, dtype=np.int64) for by in GROUPS}
        self._names: dict[str, dict[str, int]] = {by: {} for by in GROUPS}
        self._sums: dict[str, tuple[Array, Array]] = {}
        self._stale: dict[str, set[int]] = {by: set() for by in GROUPS}
        self._total: list[int] | None = None
        self._ranked: dict[str, Array] = {}

    def put(
        self,
        at: Sequence[int],
        jobs: pl.DataFrame,
        waste: Mapping[str, tuple[float, float]],
        savings: Mapping[str, float],
    ) -> None:
        """Set the rows ``at`` from ``jobs`` (JOBS rows), ``cost.waste`` and ``recommend.savings``."""
        column: dict[str, list[Any]] = {name: jobs[name].to_list() for name in _FROM}
        none = (0.0, 0.0)
        spent = [waste.get(job, none) for job in column["job_id"]]
        word = [-1 if level is None else SEVERITIES.index(level) for level in column["severity"]]
        counted = [
            [1] * jobs.height,
            [state == "RUNNING" for state in column["state"]],
            [state in _FAILED for state in column["state"]],
            *([value or 0 for value in column[name]] for name in ("used_mb_s", "wasted_mb_s", "wait_ms")),
            *([level == k for level in word] for k in range(len(SEVERITIES))),
            *([state == one for state in column["state"]] for one in _STATES),
            [level < 0 for level in word],
            [said != "" for said in column["upstream_says"]],
            [value or 0 for value in column["score"]],
        ]
        weighed = ([a for a, _ in spent], [b for _, b in spent], [savings.get(job, 0.0) for job in column["job_id"]])
        places = np.array(at, dtype=np.int64)
        new = np.array(counted, dtype=np.int64)
        old = self._counted[:, places]
        if len(places) > _FEW:
            self._total = None
            self._sums.clear()
        elif self._total is not None:
            changes = zip(self._total, new.tolist(), old.tolist(), strict=True)
            self._total = [total + sum(now) - sum(before) for total, now, before in changes]
        self._counted[:, places] = new
        self._weighed[:, places] = np.array(weighed)
        ends = zip(column["finish_ms"], column["submit_ms"], strict=True)
        hours: dict[int | None, str] = {}
        shown = []
        for finish, submit in ends:
            ms = submit if finish is None else finish
            hour = None if ms is None else ms // _HOUR
            if hour not in hours:
                hours[hour] = _hour(ms)
            shown.append(hours[hour])
        for by in GROUPS:
            names = self._names[by]
            values = shown if by == "hour" else ["?" if value is None else value for value in column[by]]
            group = [names.setdefault(value, len(names)) for value in values]
            if by in self._sums:
                self._move(by, self._group[by][places], group, old, new)
            self._group[by][places] = group

    def _move(self, by: str, before: Array, after: list[int], old: Array, new: Array) -> None:
        """Bring the sums up to date of which the order does not matter; note the groups whose other sums are stale."""
        counted, weighed = self._sums[by]
        more = len(self._names[by]) - counted.shape[1]
        if more:
            counted, weighed = (np.pad(each, ((0, 0), (0, more))) for each in (counted, weighed))
            self._sums[by] = counted, weighed
        for k, (was, now) in enumerate(zip(before.tolist(), after, strict=True)):
            counted[:, was] -= old[: len(_COUNTED), k]
            counted[:, now] += new[: len(_COUNTED), k]
        self._stale[by].update(before.tolist(), after)

    def summary(self) -> dict[str, int]:
        """Jobs, by state and by severity, and the sums over all of them."""
        if self._total is None:
            self._total = [_sum(row) for row in self._counted]
        total = dict(zip((*_COUNTED, *_TOLD), self._total, strict=True))
        found = {"jobs": total["jobs"]}
        found |= {f"jobs_{state.lower()}": total[state.lower()] for state in _STATES}
        found["jobs_other_state"] = total["jobs"] - sum(total[state.lower()] for state in _STATES)
        found |= {f"jobs_{word.lower()}": total[word.lower()] for word in SEVERITIES}
        found |= {f"jobs_{name}": total[name] for name in ("not_judged", "upstream_shows_nothing")}
        return found | {name: total[name] for name in ("score", "used_mb_s", "wasted_mb_s")}

    def table(self) -> pl.DataFrame:
        """Rows of ``ROLLUP``."""
        parts: dict[str, list[Any]] = {name: [] for name in ROLLUP.schema}
        for by in GROUPS:
            counted, weighed = self._summed(by)
            present = np.flatnonzero(counted[_COUNTED.index("jobs")])
            wasted, used = (counted[_COUNTED.index(name)] for name in ("wasted_mb_s", "used_mb_s"))
            at = present[np.lexsort((self._ranks(by)[present], -used[present], -wasted[present]))]
            names, all_waste = list(self._names[by]), int(wasted.sum())
            parts["by"] += [by] * len(at)
            parts["group"] += [names[k] for k in at.tolist()]
            for name, rows in zip((*_COUNTED, *_WEIGHED), (*counted, *weighed), strict=True):
                parts[name].append(rows[at])
            so_far = accumulate(wasted[at].tolist())
            for lost, spent, sum_ in zip(wasted[at].tolist(), used[at].tolist(), so_far, strict=True):
                parts["wasted_percent"].append(100 * lost / spent if spent > 0 else None)
                parts["share"].append(100 * lost / all_waste if all_waste > 0 else None)
                parts["cumulated"].append(100 * sum_ / all_waste if all_waste > 0 else None)
        return ROLLUP.frame(
            {name: np.concatenate(part) if name in (*_COUNTED, *_WEIGHED) else part for name, part in parts.items()}
        )

    def _ranks(self, by: str) -> Array:
        """The place of each group among the names in their order."""
        names = self._names[by]
        ranks = self._ranked.get(by)
        if ranks is None or len(ranks) != len(names):
            ranks = self._ranked[by] = np.empty(len(names), dtype=np.int64)
            ranks[sorted(range(len(names)), key=list(names).__getitem__)] = np.arange(len(names))
        return ranks

    def _summed(self, by: str) -> tuple[Array, Array]:
        """Sums of each group: _COUNTED x groups and _WEIGHED x groups."""
        group, count = self._group[by], len(self._names[by])
        stale, self._stale[by] = self._stale[by], set()
        known = self._sums.get(by)
        if known is None:
            numbers = self._counted[: len(_COUNTED)]
            counted = np.zeros((len(_COUNTED), count), dtype=np.int64)
            order = np.argsort(group, kind="stable")
            ranked = group[order]
            begin = np.flatnonzero(np.diff(ranked, prepend=-1))
            if len(begin):
                counted[:, ranked[begin]] = np.add.reduceat(numbers[:, order], begin, axis=1)
            weighed = np.array([np.bincount(group, weights=row, minlength=count) for row in self._weighed])
        else:
            counted, weighed = known
            for one in stale:  # fractions: of them the order matters, job by job, as bincount goes
                at = np.flatnonzero(group == one)
                none = np.zeros(len(at), dtype=np.int64)
                weighed[:, one] = [np.bincount(none, weights=row[at], minlength=1)[0] for row in self._weighed]
        self._sums[by] = counted, weighed
        return counted, weighed


_FEW = 64
"""Up to so many rows at once change sums; more have all of them made anew."""


def _sum(values: Array) -> int:
    """Exact sum of whole numbers, also beyond 64 bit."""
    if len(values) and max(-int(values.min()), int(values.max())) < 2**62 // len(values):
        return int(values.sum())
    return sum(values.tolist())


_FROM = (
    "job_id", "user", "queue", "job_type", "state", "severity", "used_mb_s", "wasted_mb_s", "wait_ms", "finish_ms",
    "submit_ms", "upstream_says", "score",
)  # fmt: skip


def rollup(jobs: pl.DataFrame, waste: Mapping[str, tuple[float, float]], savings: Mapping[str, float]) -> pl.DataFrame:
    """Rows of ``ROLLUP`` from the ``jobs`` result, ``cost.waste`` and ``recommend.savings``."""
    base = Base(jobs.height)
    base.put(range(jobs.height), jobs, waste, savings)
    return base.table()
