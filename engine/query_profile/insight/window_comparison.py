"""Compare a window with another one: work and CPU of each class per second in both, and what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.query_profile.estimators.design import FitOptions
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.tables import COMPARISON, NAN_TO_NULL
from engine.query_profile.workloads.workload import Workload


def compare(
    whole: Workload,
    window: np.ndarray,
    earlier: np.ndarray,
    fits_now: Fits,
    parameters: QueryProfileParameters,
    context: Context,
) -> pl.DataFrame:
    """Put the intervals ``window`` beside those ``earlier`` (masks (T,)). Both are attributed by one fit of both: two fits
    would differ also where nothing did. How sure the change is follows from two fits, one of each window alone: ``fits_now``
    and one made here."""
    either = earlier | window
    work = whole.rows(either)
    used, clear = work.used, np.array([not reason for reason in work.reasons], bool)
    by_class = None
    if used.any():
        fits = Fits(work, used, parameters.rules, FitOptions(draws=0), parameters.level, context)
        by_class = fits.by_class(parameters.method)

    def side(mask: np.ndarray) -> _Side:
        part = mask[either]
        best = next((part & good for good in (used, clear) if (part & good).any()), part)
        return _sums(work, best, by_class if (part & used).any() else None)

    now, before = side(window), side(earlier)
    alone = whole.rows(earlier)
    fits_before = Fits(alone, alone.used, fits_now.rules, fits_now.options, fits_now.level, context)
    errors = _errors(fits_now, parameters), _errors(fits_before, parameters)
    return _table(work, now, before, errors)


Errors = tuple[np.ndarray, np.ndarray]
"""How far (J,) the CPU per second of each class may lie below and above its estimate; NaN where that is not known."""


def _errors(fits: Fits, parameters: QueryProfileParameters) -> Errors:
    """Return the errors of one window's CPU by class, from the intervals of ``fits`` of that window alone."""
    unknown = np.full(len(fits.work.classes), np.nan)
    if parameters.method != "default" or parameters.draws == 0 or not fits.used.any():
        return unknown, unknown
    fitted = fits.attribution
    length = _length(fits.seconds)
    return (fitted.total - fitted.low) / length, (fitted.high - fitted.total) / length


def _length(seconds: np.ndarray) -> float:
    """Return the length of intervals in seconds, their number where any length is unknown."""
    return float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else float(max(len(seconds), 1))


@dataclass(frozen=True)
class _Side:
    """One window of a comparison, per second (or per interval): times, calls, latency and CPU per class (J,)."""

    x: np.ndarray
    calls: np.ndarray
    latency: np.ndarray
    y: np.ndarray


def _sums(work: Workload, pick: np.ndarray, y_by_class: np.ndarray | None) -> _Side:
    """Sum the intervals ``pick`` (mask (T,)) by class; ``y_by_class`` (T, J): their CPU, or None."""
    length = _length(work.seconds[pick])
    unknown = np.full(len(work.classes), np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = work.x[pick].sum(axis=0)
        calls = work.calls[pick].sum(axis=0) if work.calls is not None else unknown
        latency = np.where(calls > 0, x / calls, np.nan)
    y = y_by_class[pick].sum(axis=0) / length if y_by_class is not None else unknown
    return _Side(x / length, calls / length, latency, y)


def _table(work: Workload, now: _Side, before: _Side, errors: tuple[Errors, Errors]) -> pl.DataFrame:
    """Return the ``comparison`` table: classes of either window, those whose CPU (or else time) changed most first.

    The windows' errors are independent: they add as squares.
    """
    (below, above), (before_below, before_above) = errors
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        change = now.y - before.y
        low, high = change - np.hypot(below, before_above), change + np.hypot(above, before_below)
        factor = np.where(before.x > 0, now.x / before.x, np.nan)
    status = np.where((before.x > 0) & (now.x > 0), "both", np.where(now.x > 0, "new", "gone"))
    names = [info.name for info in work.classes]
    columns: dict[str, Any] = {"class": names, "x_factor": factor, "status": status.tolist()}
    for when, side in (("before", before), ("now", now)):
        columns |= {f"x_{when}": side.x, f"calls_{when}": side.calls, f"y_{when}": side.y}
        columns[f"latency_{when}_us"] = side.latency
    columns |= {"y_change": change, "y_change_low": low, "y_change_high": high}
    frame = COMPARISON.frame(columns).with_columns(NAN_TO_NULL).filter((pl.col("x_before") > 0) | (pl.col("x_now") > 0))
    size, time = pl.col("y_change").abs(), (pl.col("x_now") - pl.col("x_before")).abs()
    return frame.sort(size, time, "class", descending=[True, True, False], nulls_last=True, maintain_order=True)
