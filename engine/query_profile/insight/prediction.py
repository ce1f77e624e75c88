"""Predictions: of the intervals that were trained on or of an attached table, and how they meet what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.parameters import Attachment
from engine.problems import Problem
from engine.query_profile import tables
from engine.query_profile.insight.fits import Fits
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET, WlrCsv
from engine.query_profile.wlr.regression import HUGE, Lines, Quality, quality
from engine.query_profile.workloads.workload import Workload
from engine.reading import Reading, Source

Exact = Callable[[], tuple[Lines, np.ndarray, np.ndarray, Quality]]
"""Makes upstream's lines, actuals, predictions and final line."""


@dataclass(frozen=True)
class Rows:
    """Intervals to predict: ``x`` (rows, J) times of the workload's classes, ``calls`` likewise or None, ``y`` (rows,)
    what was measured (NaN: not known), ``seconds`` (rows,). ``own``: they are those that were trained on."""

    x: np.ndarray
    calls: np.ndarray | None
    y: np.ndarray
    seconds: np.ndarray
    own: bool = False


def trained_on(work: Workload) -> Rows:
    """The intervals of ``work`` itself."""
    return Rows(work.x, work.calls, work.y, work.seconds, own=True)


def read(attachment: Attachment) -> Reading:
    """An attached upstream-style table."""
    source = Source(attachment.name, attachment.name.rsplit("/", 1)[-1], 0, len(attachment.data))
    return WlrCsv().read(source, attachment.data, None, True)


def attached(work: Workload, name: str, reading: Reading, given: QueryProfileParameters) -> tuple[Rows, list[Problem]]:
    """The rows of the attached table called ``name``, and what is wrong with it. Classes that ``work`` has not count as
    nothing."""
    problems = list(reading.problems)
    frame = reading.rows.get("matrix")
    if not isinstance(frame, pl.DataFrame) or not frame.height or not len(frame["values"][0]):
        problems.append(Problem.at(name, "nothing-to-predict", "no row of this table can be predicted"))
        nothing = np.zeros(0)
        return Rows(np.zeros((0, len(work.classes))), None, nothing, nothing), problems
    names = frame["names"][0].to_list()
    values = frame["values"][0].to_numpy().reshape(-1, len(names))
    wanted = given.target or DEFAULT_TARGET
    place = {info.name: j for j, info in enumerate(work.classes)}
    shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
    x = np.zeros((len(values), len(work.classes)))
    if shared:
        x[:, [j for _, j in shared]] = values[:, [i for i, _ in shared]]
    else:
        reason = "none of its classes is known from what was trained on: there is nothing to predict from"
        problems.append(Problem.at(name, "unknown-classes", reason, line=1))
    if work.calls is not None and given.method in ("default", "nnls"):
        reason = "the table has times only: what calls cost beside them is left out of its predictions"
        problems.append(Problem.at(name, "no-calls", reason))
    if wanted in names:
        y = values[:, names.index(wanted)].copy()
    else:
        y = np.zeros(len(values)) if given.rules == "upstream" else np.full(len(values), np.nan)
        problems.append(Problem.at(name, "missing-target", f"no column {wanted!r}: nothing to compare with", line=1))
    return Rows(x, None, y, np.full(len(values), np.nan)), problems


NONE: dict[str, Any] = {"rows_predicted": 0, **dict.fromkeys(("slope", "intercept", "r2", "mape"), math.nan)}
"""The part of the summary that tells of predictions, where there are none."""


def predicted(fits: Fits, rows: Rows, method: str, rules: str) -> tuple[dict[str, Any], pl.DataFrame]:
    """The part of the summary that tells of predictions, and the ``predictions`` table.

    By upstream's rules rows without y are skipped and all others scored; otherwise those are left out whose numbers are
    too large for any time, and of one's own rows those are scored that fits use.
    """
    x, calls, y, seconds = rows.x, rows.calls, rows.y, rows.seconds
    number = np.arange(1, len(y) + 1)
    exactly = method == "wlr" and rules == "upstream"
    keep = y != 0 if rules == "upstream" else np.ones(len(y), bool)
    if not exactly:
        with np.errstate(invalid="ignore", over="ignore"):
            signed = not float(x.min(initial=0.0)) >= 0
            keep &= (np.abs(x) if signed else x).sum(axis=1) < HUGE
    if not keep.all():
        x, y, number, seconds = x[keep], y[keep], number[keep], seconds[keep]
        calls = calls[keep] if calls is not None else None
    known = rows.own and keep.all() and fits.used.all()
    values = fits.fitted(method) if known else fits.predict(method, x, calls, seconds)
    scored = np.ones(len(y), bool) if exactly else np.isfinite(y)
    if rows.own and not exactly:
        scored &= fits.used[keep]
    found = quality(y[scored], values[scored])
    summary = {
        "rows_predicted": len(y),
        "slope": found.slope,
        "intercept": found.intercept,
        "r2": found.r2,
        "mape": found.mape,
    }
    columns = {"row": number, "actual": y, "predicted": values}
    return summary, pl.DataFrame(columns, schema=tables.PREDICTIONS.schema, nan_to_null=False)


def exactly(fits: Fits, rows: Rows) -> Exact:
    """What upstream makes of ``rows``, all of them as they are."""

    def made() -> tuple[Lines, np.ndarray, np.ndarray, Quality]:
        lines = fits.lines("upstream")[0]
        kept = rows.y != 0
        values = lines.predict(rows.x[kept])
        return lines, rows.y[kept], values, quality(rows.y[kept], values)

    return made
