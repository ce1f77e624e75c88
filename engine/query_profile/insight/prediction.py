"""Predict the training intervals or those of an attached table, and score the predictions."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import polars as pl

from engine.core.parameters import Attachment
from engine.core.reading import Problem, Reading, Source
from engine.query_profile import tables
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET, WlrCsv
from engine.query_profile.wlr.regression import (
    HUGE,
    Lines,
    Quality,
    quality,
    without_tiny,
)
from engine.query_profile.workloads.workload import Workload

Exact = Callable[[], tuple[Lines, np.ndarray, np.ndarray, Quality]]
"""Computes the lines, actuals, predictions and final line of VividCortex' program."""


class Rows(msgspec.Struct, frozen=True):
    """Intervals to predict: ``x`` (rows, J) times of the workload's classes, ``calls`` likewise or None, ``y`` (rows,)
    measured use (NaN: unknown), ``seconds`` (rows,). ``own``: these are the training rows; ``measured``: there is a column
    of y."""

    x: np.ndarray
    calls: np.ndarray | None
    y: np.ndarray
    seconds: np.ndarray
    own: bool = False
    measured: bool = True

    @property
    def taken_y(self) -> np.ndarray:
        """Return ``y`` as VividCortex' program takes it: zeros if the column is missing."""
        return self.y if self.measured else np.zeros(len(self.y))


class Predictions(msgspec.Struct, frozen=True):
    """The ``predictions`` table and its score."""

    frame: pl.DataFrame
    quality: Quality


NO_PREDICTIONS = Predictions(tables.PREDICTIONS.empty(), Quality(0, *(math.nan,) * 6))


def read(attachment: Attachment) -> Reading:
    """Read an attached WLR CSV."""
    source = Source(attachment.name, attachment.name.rsplit("/", 1)[-1], 0, len(attachment.data))
    return WlrCsv().read(source, attachment.data, None, True)


def attached(
    work: Workload, name: str, reading: Reading, parameters: QueryProfileParameters
) -> tuple[Rows, list[Problem]]:
    """Return the rows of the attached table ``name`` and its problems. Classes that ``work`` does not have are left out."""
    problems = list(reading.problems)
    frame = reading.rows.get("matrix")
    if not isinstance(frame, pl.DataFrame) or not frame.height or not len(frame["values"][0]):
        problems.append(Problem.at(name, "nothing-to-predict", "no row of this table can be predicted"))
        return Rows(np.zeros((0, len(work.classes))), None, np.zeros(0), np.zeros(0)), problems
    names = frame["names"][0].to_list()
    values = frame["values"][0].to_numpy().reshape(-1, len(names))
    target = parameters.target or DEFAULT_TARGET
    place = {info.name: j for j, info in enumerate(work.classes)}
    shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
    x = np.zeros((len(values), len(work.classes)))
    if shared:
        x[:, [j for _, j in shared]] = values[:, [i for i, _ in shared]]
    else:
        reason = "none of its classes is known from what was trained on: there is nothing to predict from"
        problems.append(Problem.at(name, "unknown-classes", reason, line=1))
    if work.calls is not None and parameters.method in ("default", "nnls"):
        reason = "the table has times only: what calls cost beside them is left out of its predictions"
        problems.append(Problem.at(name, "no-calls", reason))
    y = values[:, names.index(target)].copy() if target in names else np.full(len(values), np.nan)
    if target not in names:
        problems.append(Problem.at(name, "missing-target", f"no column {target!r}: nothing to compare with", line=1))
    return Rows(x, None, y, np.full(len(values), np.nan), measured=target in names), problems


def predict(fits: Fits, rows: Rows, method: str) -> Predictions:
    """Predict ``rows`` by ``method`` and score the predictions.

    By the rules of VividCortex' program rows without y are skipped and all others scored. Otherwise rows with numbers too
    large for any time are left out, and only training rows that fits use are scored.
    """
    x, calls, seconds = rows.x, rows.calls, rows.seconds
    y = rows.taken_y if fits.rules == "upstream" else rows.y
    number = np.arange(1, len(y) + 1)
    exactly = method == "wlr" and fits.rules == "upstream"
    keep = y != 0 if fits.rules == "upstream" else np.ones(len(y), bool)
    if not exactly:
        with np.errstate(invalid="ignore", over="ignore"):
            keep &= np.abs(x).sum(axis=1) < HUGE
            keep &= ~(np.abs(y) >= HUGE)
        x, y = without_tiny(x), without_tiny(y)
    if not keep.all():
        x, y, number, seconds = x[keep], y[keep], number[keep], seconds[keep]
        calls = calls[keep] if calls is not None else None
    # fits drop tiny times, VividCortex' program keeps them
    as_trained = rows.own and keep.all() and fits.used.all() and not exactly
    values = fits.fitted(method) if as_trained else fits.predict(method, x, calls, seconds)
    scored = np.ones(len(y), bool) if exactly else np.isfinite(y)
    if rows.own and not exactly:
        scored &= fits.used[keep]
    return Predictions(_table(number, y, values), quality(y[scored], values[scored]))


def exactly(fits: Fits, rows: Rows) -> tuple[Lines, np.ndarray, np.ndarray, Quality]:
    """Return the lines, actuals, predictions and final line that VividCortex' program computes for the same intervals. For
    sources other than tables, only intervals that fits use are taken."""
    x, y = rows.x, rows.taken_y
    keep = y != 0
    if rows.own and not fits.work.is_table:
        keep &= fits.used
    lines = fits.lines("upstream")[0]
    predicted = lines.predict(x[keep])
    return lines, y[keep], predicted, quality(y[keep], predicted)


def nothing_learned(attachment: Attachment | None, target: str) -> Predictions:
    """Return what VividCortex' program predicts if no table has the column ``target``: zeros for the attached table, if any."""
    y = np.zeros(0)
    frame = None if attachment is None else read(attachment).rows.get("matrix")
    if isinstance(frame, pl.DataFrame) and frame.height and target in frame["names"][0]:
        names = frame["names"][0].to_list()
        y = frame["values"][0].to_numpy().reshape(-1, len(names))[:, names.index(target)]
    keep = np.flatnonzero(y)
    actual, zeros = y[keep], np.zeros(len(keep))
    return Predictions(_table(keep + 1, actual, zeros), quality(actual, zeros))


def _table(row: np.ndarray, actual: np.ndarray, predicted: np.ndarray) -> pl.DataFrame:
    columns = {"row": row, "actual": actual, "predicted": predicted}
    return pl.DataFrame(columns, schema=tables.PREDICTIONS.schema, nan_to_null=False)
