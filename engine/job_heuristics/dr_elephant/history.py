"""Earlier and later runs of a job: grouped by name, cost per input, trend breaks, configuration changes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.reading import clean
from engine.job_heuristics.tables import CONF_CHANGES, HISTORY, of_rows

SCALE = 1.4826  # ratio of standard deviation to median absolute deviation for normal data
MOST = 200  # maximum number of runs, those nearest to the chosen one

_PARTS = (
    re.compile(r"\b(?:application|job|attempt|task)_\d+(?:_\w+)*", re.I),
    re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I),
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b", re.I),
    re.compile(r"\d{1,4}(?:[-/.:_T ]\d{1,4})+Z?"),
    re.compile(r"\d+"),
)


def stem(name: str) -> str:
    """Return a job's name without ids, hashes, dates and numbers (each becomes ``#``); empty names stay empty."""
    for part in _PARTS:
        name = part.sub("#", name)
    name = re.sub(r"#(?:[\s_\-./:,]*#)+", "#", name)
    return re.sub(r"\s+", " ", name).strip()


class Shift(msgspec.Struct, frozen=True):
    """A change of level: from run ``at`` (index in time order) on, the median is ``after`` instead of ``before``;
    ``score`` is the strength in robust standard deviations."""

    at: int
    before: float
    after: float
    score: float


def change_point(values: NDArray[np.float64], least: int = 3, threshold: float = 4.0) -> Shift | None:
    """Return the strongest level shift in ``values`` (finite, in time order), or None.

    The split, with at least ``least`` runs on both sides, minimises the absolute deviations from both medians. The
    distance of the medians is measured in robust standard errors, with a floor of 2 % of the level so that constant
    data do not make every change infinite. Needs 2 x ``least`` runs.
    """
    n = len(values)
    if n < 2 * least:
        return None

    def off(at: int) -> NDArray[np.float64]:
        left, right = values[:at], values[at:]
        return np.concatenate([np.abs(left - np.median(left)), np.abs(right - np.median(right))])

    at = min(range(least, n - least + 1), key=lambda k: float(off(k).sum()))
    a, b = float(np.median(values[:at])), float(np.median(values[at:]))
    spread = max(SCALE * float(np.median(off(at))), 0.02 * max(abs(a), abs(b)), 1e-12)
    score = abs(b - a) / (spread * float(np.sqrt(1 / at + 1 / (n - at))))
    return Shift(at, a, b, score) if score >= threshold else None


def flags(values: NDArray[np.float64]) -> tuple[list[str], list[float]]:
    """Return per run in time order (NaN: unknown): its flag (empty, ``regression``, ``improvement``, ``change up``,
    ``change down``) and its difference in % from the median of the earlier runs (NaN for the first).

    One run is a regression (an improvement) if it lies more than 3.5 robust deviations and more than 20 % above
    (below) the median of at least three earlier ones; a change of level is flagged on the run where it begins.
    """
    n = len(values)
    words, changes = [""] * n, [float("nan")] * n
    for i in range(n):
        before = values[:i][np.isfinite(values[:i])]
        if not np.isfinite(values[i]) or not len(before):
            continue
        middle = float(np.median(before))
        if middle <= 0:
            continue
        changes[i] = 100 * (values[i] / middle - 1)
        spread = max(SCALE * float(np.median(np.abs(before - middle))), 0.02 * middle)
        if len(before) >= 3 and abs(values[i] - middle) > 3.5 * spread and abs(changes[i]) > 20:
            words[i] = "regression" if changes[i] > 0 else "improvement"
    finite = np.flatnonzero(np.isfinite(values))
    shift = change_point(values[finite])
    if shift is not None and abs(shift.after - shift.before) > 0.2 * max(shift.before, 1e-12):
        words[int(finite[shift.at])] = "change up" if shift.after > shift.before else "change down"
    return words, changes


def runs_like(jobs: pl.DataFrame, job_id: str) -> pl.DataFrame:
    """Return the rows of ``jobs`` (JOBS) whose name stem and user match those of ``job_id``; only that job if it has
    no name."""
    one = jobs.filter(pl.col("job_id") == job_id)
    wanted = stem(one["name"][0] or "") if one.height else ""
    if not wanted:
        return one
    jobs = jobs.filter(pl.col("user").eq_missing(pl.lit(one["user"][0], pl.String)))
    alike = [name for name in jobs["name"].drop_nulls().unique().to_list() if stem(name) == wanted]
    return jobs.filter(pl.col("name").is_in(pl.Series(alike, dtype=pl.String).implode()))


def history(jobs: pl.DataFrame, inputs: pl.DataFrame, job_id: str) -> pl.DataFrame:
    """Return the rows of ``HISTORY`` for ``runs_like`` this job.

    ``jobs`` is the jobs result, ``inputs`` has ``job_id`` and ``input_bytes``. Runs without input or that did not
    succeed are listed but not normalised; at most ``MOST`` runs.
    """
    runs = runs_like(jobs, job_id)
    runs = runs.join(inputs, "job_id", "left", maintain_order="left").sort("submit_ms", "job_id", nulls_last=False)
    if runs.height > MOST:
        runs = runs.slice(max(0, min(runs["job_id"].to_list().index(job_id) - MOST // 2, runs.height - MOST)), MOST)
    good = (pl.col("state") == "SUCCEEDED") & (pl.col("input_bytes") > 0)
    per_gb = 2**30 / pl.col("input_bytes")
    runs = runs.with_columns(
        used_per_gb=pl.when(good).then(pl.col("used_mb_s") * per_gb),
        ms_per_gb=pl.when(good).then(pl.col("runtime_ms") * per_gb),
    )
    words, changes = flags(runs["used_per_gb"].fill_null(float("nan")).to_numpy())
    runs = runs.with_columns(
        flag=pl.Series(words, dtype=pl.String), change=pl.Series(changes, dtype=pl.Float64).fill_nan(None)
    )
    return HISTORY.frame(runs.select([c for c in HISTORY.schema if c in runs.columns])).reverse()


def run_before(runs: pl.DataFrame, job_id: str) -> str | None:
    """Return the job in ``runs`` (HISTORY rows, newest first) that ran before ``job_id``, None without one."""
    ids: list[str] = runs["job_id"].to_list()
    at = ids.index(job_id) if job_id in ids else len(ids)
    return ids[at + 1] if at + 1 < len(ids) else None


def conf_difference(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> list[tuple[str, str | None, str | None]]:
    """Return properties that differ between the configurations of two jobs: (key, value before, value after), None
    where unset; sorted by key.

    Properties that identify the run (ids, its own paths, time stamps) are left out.
    """
    pairs = ((key, before.get(key), after.get(key)) for key in sorted(before.keys() | after.keys()))
    return [
        (key, a and clean(a), b and clean(b))
        for key, a, b in pairs
        if a != b and not _ALWAYS.search(key) and (a is None or b is None or _RUN_ID.sub("#", a) != _RUN_ID.sub("#", b))
    ]


_ALWAYS = re.compile(
    r"^(?:mapreduce\.job\.(?:dir|jar|id|working\.dir|submithost\w*|cache\.files\.timestamps|credentials\.binary)"
    r"|mapreduce\.(?:workflow\.\w+|client\.submit\.\w+)|yarn\.app\.\w+\.id|.*\.timestamps?"
    r"|spark\.(?:app\.(?:id|startTime|submitTime)|driver\.port|yarn\.app\.id))$"
)
_RUN_ID = re.compile(
    r"(?:application|job|attempt)_\d{6,}_\d+|\bapp-\d{14}-\d+|\bspark-(?:application-\d+|[0-9a-f]{32})\b|\b\d{13}\b"
)
"""Ids of runs and times in ms inside a value; ``app-`` is Spark's own cluster, ``spark-`` Kubernetes."""


def conf_changes(before: Mapping[str, str | None], after: Mapping[str, str | None], other: str) -> pl.DataFrame:
    """Make CONF_CHANGES of two configurations; ``other``: the job that ``before`` belongs to."""
    return of_rows(CONF_CHANGES, ((*difference, other) for difference in conf_difference(before, after)))
