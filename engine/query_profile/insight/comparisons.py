"""Compare the methods of attribution on the same intervals, and one window with another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.query_profile.estimators.design import FitOptions
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.insight.profile import Profile
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.tables import COMPARISON, METHODS_SIDE_BY_SIDE, NAN_TO_NULL
from engine.query_profile.workloads.workload import Workload


def methods_side_by_side(profile: Profile) -> pl.DataFrame:
    """Build the ``methods`` table: errors and attributions of all methods on the same intervals."""
    rows: list[dict[str, Any]] = []
    y, measured = profile.fits.y, profile.measured
    positive = y > 0
    for name, total in profile.totals.items():
        fitted = profile.fits.fitted(name)
        with np.errstate(invalid="ignore", over="ignore"):
            mape = float(np.mean(np.abs(fitted[positive] / y[positive] - 1))) if positive.any() else math.nan
        top = int(np.argmax(total)) if len(total) else -1
        moved = (
            float(np.abs(total - profile.totals["default"]).sum()) / 2 / measured
            if "default" in profile.totals and measured > 0
            else math.nan
        )
        rows.append(
            {
                "method": name,
                "mape": mape,
                "attributed": float(total.sum()),
                "background": profile.fits.background(name),
                "unattributed": profile.unattributed(name),
                "moved_share": moved,
                "top_class": profile.work.classes[top].name if top >= 0 else "",
                "top_share": float(total[top]) / measured if top >= 0 and measured > 0 else math.nan,
            }
        )
    return pl.DataFrame(rows, schema=METHODS_SIDE_BY_SIDE.schema).with_columns(NAN_TO_NULL)


def compare(
    whole: Workload,
    window: np.ndarray,
    earlier: np.ndarray,
    fits_now: Fits,
    parameters: QueryProfileParameters,
    context: Context,
) -> pl.DataFrame:
    """Compare the intervals ``window`` with those ``earlier`` (masks (T,)).

    One fit attributes both: two fits would differ even if nothing changed. The uncertainty comes from one fit of each window
    alone: ``fits_now`` and one made here.
    """
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
"""How far (J,) the CPU per second of each class may lie below and above its estimate; NaN if unknown."""


def _errors(fits: Fits, parameters: QueryProfileParameters) -> Errors:
    """Return the errors of one window's CPU by class, from the intervals of ``fits`` of that window alone."""
    unknown = np.full(len(fits.work.classes), np.nan)
    if parameters.method != "default" or parameters.draws == 0 or not fits.used.any():
        return unknown, unknown
    fitted = fits.attribution
    length = _length(fits.seconds)
    return (fitted.total - fitted.cpu_low_us) / length, (fitted.cpu_high_us - fitted.total) / length


def _length(seconds: np.ndarray) -> float:
    """Return the total length in seconds, or the number of intervals if any length is unknown."""
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
    """Build the ``comparison`` table: classes of either window, the largest change of CPU (or else time) first.

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
