"""The profile of a workload: its resource by query class, by the chosen method, beside the other methods and another window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.view import Context
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.estimators.design import CALLS, TIME, FitOptions, build_design
from engine.query_profile.insight.all_methods import MOST_WITH_CALLS, NO_TRUST, UNTESTED, Fits, Trust
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.tables import COMPARISON, METHODS, METHODS_SIDE_BY_SIDE, NAN_TO_NULL
from engine.query_profile.wlr.regression import HUGE, Lines, plausible
from engine.query_profile.workloads.resources import COVERED, OWN
from engine.query_profile.workloads.workload import Workload

SEEN = 0.02  # share by which a counter of CPU may be off either way: it is read at the begin and the end of a statement
UNSEEN_US = 350.0
"""CPU microseconds per call that such counters may miss: parsing, planning and sending (measured: 53 to 330 by kind)."""
LEAST = 0.5  # share of the measured CPU that must be the statements' for the model to be compared with counters
STILL = 1e-6  # spread of a class' times, as a share of the longest, up to which they are the same
MOST_TIED = 300  # most classes that are searched for sums of other classes' times: more take seconds
FULL = 0.95  # utilisation from which a host is full: its CPU no longer grows with the work, and time is mostly waiting


class Counted(msgspec.Struct, frozen=True):
    """CPU that the server itself counted by class, over the intervals shown: ``by_class`` (T, J) and ``total`` (J,) in us, with
    the ends ``low`` and ``high`` (J,) between which the truth lies; ``covered``: share of all time with counted CPU;
    ``of_measured``: its sum as a share of the host's or process' CPU; ``error``: share of it that the model attributes to
    other classes; ``complete``: it replaces the model."""

    by_class: np.ndarray
    total: np.ndarray
    low: np.ndarray
    high: np.ndarray
    covered: float
    of_measured: float
    error: float
    complete: bool


class Profile(msgspec.Struct, frozen=True, dict=True):
    """A workload of T intervals by J classes with its resource attributed by ``method``.

    ``shown`` (T,): intervals that are summed; ``x_total`` (J,): their elapsed time; ``measured``: their use of the
    resource, us (NaN: unknown); ``totals``: CPU by class (J,) by method; ``attribution``: the default one, where it was
    fitted; ``lines``: of WLR, where there are any, and the number of rows they were fitted on; ``by_class`` (T, J): CPU by
    ``method``, zeros without a resource or with too much data; ``fitted`` (T,): CPU as the method explains it, NaN where an
    interval is not used.
    """

    work: Workload
    fits: Fits
    method: str
    shown: np.ndarray
    x_total: np.ndarray
    measured: float
    totals: dict[str, np.ndarray]
    attribution: Attribution | None
    lines: Lines | None
    rows_trained: int
    by_class: np.ndarray
    fitted: np.ndarray
    trust: Trust
    counted: Counted | None = None

    @property
    def counts(self) -> bool:
        """Whether the server's own counters stand for the model."""
        return self.method == "default" and self.counted is not None and self.counted.complete

    @property
    def used(self) -> np.ndarray:
        """Intervals (T,) that fits use."""
        return self.fits.used

    @property
    def measurable(self) -> bool:
        """Whether the resource is known in any interval free of doubt."""
        return bool(self.used.any())

    @property
    def full(self) -> bool:
        """Whether hardly a CPU was ever idle."""
        return self.utilisation > FULL and self.work.y_source != OWN

    @property
    def attributable(self) -> bool:
        """Whether the resource says something about classes. That of a whole host that is full does not: it is always the same,
        whatever the classes do."""
        return self.measurable and (self.counts or not (self.full and self.work.shared))

    @property
    def total(self) -> np.ndarray:
        """CPU by class (J,) by the chosen method; NaN where the resource is unknown."""
        if self.counts and self.counted is not None:
            return np.asarray(self.counted.total)
        return self.totals[self.method] if self.attributable else np.full(len(self.work.classes), np.nan)

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end (J,) of the interval of each class' CPU; NaN where the method has none."""
        if self.counts and self.counted is not None:
            return self.counted.low, self.counted.high
        if self.attribution is None or self.method != "default":
            return (np.full(len(self.work.classes), np.nan),) * 2
        low, high = self.attribution.cpu_low_us, self.attribution.cpu_high_us
        high = np.where(self.called_alike, np.fmin(high, self.measured), high)
        unknown = self.full | (self.still & np.isfinite(low))
        return np.where(unknown, 0.0, low), np.where(unknown, np.fmin(self.fits.most, self.measured), high)

    @cached_property
    def still(self) -> np.ndarray:
        """Classes (J,) with the same time in every interval: nothing tells their CPU from what is used at all times. So it is
        with ``tied`` classes."""
        x = self.work.x[self.used]
        most = x.max(axis=0, initial=0.0)
        return np.asarray((most > 0) & (most - x.min(axis=0, initial=math.inf) <= STILL * most)) | self.tied

    @cached_property
    def tied(self) -> np.ndarray:
        """Classes (J,) whose times are a sum of multiples of others' (and of a background): only their sum is known."""
        return self._alike(None, MOST_TIED)

    @cached_property
    def called_alike(self) -> np.ndarray:
        """Classes (J,) whose calls are a sum of multiples of others': of their costs per call only the sum is known."""
        calls = self.work.calls
        return ~self.still & (False if calls is None else self._alike(calls[self.used], MOST_WITH_CALLS))

    def _alike(self, calls: np.ndarray | None, most: int) -> np.ndarray:
        """Mark the classes (J,) that share times, or ``calls`` (T, J), unless there are more than ``most``."""
        alike = np.zeros(len(self.work.classes), bool)
        if len(alike) <= most and self.measurable:
            design = build_design(self.work.x[self.used], calls, self.work.seconds[self.used])
            for group in design.inseparable():
                alike[design.owner[group & (design.role == (TIME if calls is None else CALLS))]] = True
        return alike

    @property
    def draws(self) -> np.ndarray:
        """Draws (B, J) of each class' CPU behind the model's intervals; none where those come from elsewhere."""
        modelled = self.method == "default" and not self.counts and not self.full and not self.still.any()
        return self.attribution.draws if modelled and self.attribution is not None else np.zeros((0, 0))

    @property
    def attributed(self) -> float:
        """CPU given to classes, us."""
        return float(np.nansum(self.total)) if self.attributable else math.nan

    @property
    def background(self) -> float:
        """CPU given to no class: used at all times, us."""
        return 0.0 if self.counts else self.fits.background(self.method) if self.attributable else math.nan

    @property
    def seconds(self) -> float:
        """Length of the intervals shown; NaN where any is unknown."""
        seconds = self.work.seconds[self.shown]
        return float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else math.nan

    @property
    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Costs of each class (J,) per time and per call by the chosen method, NaN where it has none."""
        unknown = np.full(len(self.work.classes), np.nan)
        if not self.attributable:
            return unknown, unknown
        if self.counts:
            return np.where(self.x_total > 0, self.total / np.maximum(self.x_total, 1e-300), 0.0), unknown
        if self.method == "wlr":
            lines = self.lines
            return (unknown if lines is None else np.where(lines.usable(), lines.slope, 0.0)), unknown
        fitted = self.attribution if self.method == "default" else self.fits.costs(self.method)
        assert fitted is not None
        return fitted.time, unknown if self.work.calls is None else fitted.call

    @property
    def unattributed_share(self) -> float:
        """Part of the measured use that is given to no class; NaN where the resource is unknown."""
        return (
            (self.measured - self.attributed) / self.measured if (self.attributable and self.measured > 0) else math.nan
        )

    @property
    def active_cpus(self) -> float:
        """CPUs in use on average; NaN where times or the resource are unknown."""
        return self.measured / (self.seconds * 1e6) if self.measurable and self.seconds > 0 else math.nan

    @property
    def utilisation(self) -> float:
        """Part of the host's CPUs in use, 0 to 1; NaN where their number, times or the resource are unknown."""
        capacity = self.work.cores * self.seconds * 1e6
        return self.measured / capacity if self.measurable and capacity > 0 else math.nan

    def unattributed(self, method: str) -> float:
        """Return the measured use that ``method`` does not explain; 0 if it is rounding."""
        rest = (
            self.measured - self.attributed
            if self.counts and method == self.method
            else self.measured - float(np.nansum(self.totals[method])) - self.fits.background(method)
        )
        return 0.0 if abs(rest) <= 1e-12 * abs(self.measured) else rest


def build_profile(fits: Fits, method: str, context: Context) -> Profile:
    """Attribute the resource of the workload of ``fits`` by ``method``, and by all others unless there is too much data."""
    work, used = fits.work, fits.used
    known = bool(used.any())
    # without a resource sum all intervals free of doubt, or all intervals
    shown = used if known else np.array([not reason for reason in work.reasons], bool)
    if not shown.any():
        shown = np.ones(len(work.y), bool)
    by_class, fitted = np.zeros(work.x.shape), np.full(len(work.y), np.nan)
    totals: dict[str, np.ndarray] = {}
    if known:
        context.progress(0.3, "attributing")
        totals = {name: fits.total(name) for name in ([method] if fits.large else METHODS)}
        fitted[used] = fits.fitted(method)
        if not fits.large:
            by_class = fits.by_class(method)
    # VividCortex' program predicts zeros and scores them even where it had nothing to learn from.
    is_exact = method == "wlr" and fits.rules == "upstream" and work.is_table
    lines, rows_trained = fits.lines(fits.rules) if known or is_exact else (None, 0)
    trust = UNTESTED if known else NO_TRUST
    if known and not fits.large:
        context.progress(0.8, "testing the fit")
        trust = fits.trust
    measured = float(np.where(np.isfinite(work.y), work.y, 0.0)[shown].sum()) if known else math.nan
    counted = _counted(work, shown, totals.get("default"), measured) if known else None
    if counted is not None:
        trust = _judged(trust, counted, work)
        if method == "default" and counted.complete:
            by_class = counted.by_class
    profile = Profile(
        work=work,
        fits=fits,
        method=method,
        shown=shown,
        x_total=_summed_time(work.x, shown),
        measured=measured,
        totals=totals,
        attribution=fits.attribution if "default" in totals else None,
        lines=lines,
        rows_trained=int(rows_trained if method == "wlr" else used.sum()),
        by_class=by_class,
        fitted=fitted,
        trust=trust,
        counted=counted,
    )
    if not profile.full or profile.counts:
        return profile
    said = "of a full host neither time nor CPU tells what a class needs"
    trust = msgspec.structs.replace(trust, score=0.0, grade="poor", reasons=(said, *trust.reasons))
    return msgspec.structs.replace(
        profile, trust=trust, by_class=by_class if profile.attributable else np.zeros(work.x.shape)
    )


def _counted(work: Workload, shown: np.ndarray, model: np.ndarray | None, measured: float) -> Counted | None:
    """Return the CPU that the server counted by class; None if it counted none or another resource is attributed."""
    by_class = work.metrics.get("cpu_us")
    if by_class is None or work.y_name != "cpu_us":
        return None
    total = by_class[shown].sum(axis=0)
    whole = float(total.sum())
    if not whole > 0:
        return None
    error = float(np.abs(model - total).sum()) / whole if model is not None else math.nan
    of_measured = whole / measured if measured > 0 else math.nan
    high = total * (1 + SEEN) + (work.calls[shown].sum(axis=0) * UNSEEN_US if work.calls is not None else total)
    if work.y_source != OWN and measured > whole:
        high = np.minimum(high, total * (1 + SEEN) + measured - whole)
    return Counted(by_class, total, total * (1 - SEEN), high, work.counted, of_measured, error, work.counted >= COVERED)


def _judged(trust: Trust, counted: Counted, work: Workload) -> Trust:
    """Adjust trust by the server's own counters: they replace the model, or show how far it is off."""
    off = f"the model alone puts {counted.error * 100:.1f}% of it elsewhere" if counted.error == counted.error else ""
    if counted.complete:
        said = "the server counted the CPU of every statement; short ones use more: parsing and sending are not counted"
        rest = 1 - counted.of_measured
        whose = "the host" if work.shared else "the server"
        other = f"{rest * 100:.0f}% of the CPU of {whose} is not these queries" if rest >= 0.005 else ""
        off = (
            off if counted.of_measured >= LEAST else ""
        )  # a model of a host's CPU that other programs use most of knows nothing
        return msgspec.structs.replace(trust, score=1.0, grade="good", reasons=tuple(filter(None, (said, other, off))))
    said = f"the server counted the CPU of classes with {counted.covered * 100:.0f}% of the time"
    return msgspec.structs.replace(trust, reasons=("; ".join(filter(None, (said, off))), *trust.reasons))


def _summed_time(x: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Sum the times (J,) of the intervals ``shown``; impossible times count as 0."""
    x = x if shown.all() else plausible(x[shown])
    with np.errstate(invalid="ignore", over="ignore"):
        total = x.sum(axis=0)
    return np.asarray(total if (total < HUGE).all() else plausible(x).sum(axis=0))


class Saving(msgspec.Struct, frozen=True):
    """What a faster class saves, by the columns of the ``what_if`` table: CPU microseconds with their interval, utilisation
    (0-1) before and after (NaN without cores or times), and the time in queue and service of the other classes relative
    to now (an M/M/c-like approximation)."""

    saved: float
    saved_low: float
    saved_high: float
    utilisation: float
    utilisation_after: float
    latency_factor: float


def saving(row: Mapping[str, Any], profile: Profile, faster: float, drop: bool) -> Saving | None:
    """Compute what is saved if the class of a ``row`` of ``classes`` were ``faster`` times faster, or dropped; None where
    nothing is attributed to it."""
    if row["y_total"] is None:
        return None
    share = 1.0 if drop or math.isinf(faster) else 1 - 1 / max(faster, 1.0)
    saved, low, high = (math.nan if row[name] is None else row[name] * share for name in ("y_total", "y_low", "y_high"))
    cores = profile.work.cores
    capacity = cores * profile.seconds * 1e6
    if not capacity > 0:
        return Saving(saved, low, high, math.nan, math.nan, math.nan)
    before = profile.measured / capacity
    after = max(before - saved / capacity, 0.0)
    servers = max(cores, 1.0)
    return Saving(
        saved, low, high, before, after, (1 - before**servers) / (1 - after**servers) if before < 1 else math.nan
    )


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

    def side(mask: np.ndarray) -> dict[str, np.ndarray]:
        part = mask[either]
        best = next((part & good for good in (used, clear) if (part & good).any()), part)
        return _sums(work, best, by_class if (part & used).any() else None)

    alone = whole.rows(earlier)
    fits_before = Fits(alone, alone.used, fits_now.rules, fits_now.options, fits_now.level, context)
    errors = _errors(fits_now, parameters), _errors(fits_before, parameters)
    return _comparison_table(work, side(window), side(earlier), errors)


Errors = tuple[np.ndarray, np.ndarray]
"""How far (J,) the CPU per second of each class may lie below and above its estimate; NaN if unknown."""


def _errors(fits: Fits, parameters: QueryProfileParameters) -> Errors:
    """Return the errors of one window's CPU by class, from only those intervals of ``fits`` that lie in the window."""
    unknown = np.full(len(fits.work.classes), np.nan)
    if parameters.method != "default" or parameters.draws == 0 or not fits.used.any():
        return unknown, unknown
    fitted = fits.attribution
    length = _length(fits.seconds)
    return (fitted.total - fitted.cpu_low_us) / length, (fitted.cpu_high_us - fitted.total) / length


def _length(seconds: np.ndarray) -> float:
    """Return the total length in seconds, or the number of intervals if any length is unknown."""
    return float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else float(max(len(seconds), 1))


def _sums(work: Workload, pick: np.ndarray, y_by_class: np.ndarray | None) -> dict[str, np.ndarray]:
    """Sum the intervals ``pick`` (mask (T,)) by class: x, calls and y per second (or per interval), latency_us per call (J,).
    ``y_by_class`` (T, J): their CPU, or None."""
    length = _length(work.seconds[pick])
    unknown = np.full(len(work.classes), np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = work.x[pick].sum(axis=0)
        calls = work.calls[pick].sum(axis=0) if work.calls is not None else unknown
        latency = np.where(calls > 0, x / calls, np.nan)
    y = y_by_class[pick].sum(axis=0) / length if y_by_class is not None else unknown
    return {"x": x / length, "calls": calls / length, "y": y, "latency": latency}


def _comparison_table(
    work: Workload, now: dict[str, np.ndarray], before: dict[str, np.ndarray], errors: tuple[Errors, Errors]
) -> pl.DataFrame:
    """Build the ``comparison`` table: classes of either window, the largest change of CPU (or else time) first.

    The windows' errors are independent: they add as squares.
    """
    (below, above), (before_below, before_above) = errors
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        change = now["y"] - before["y"]
        low, high = change - np.hypot(below, before_above), change + np.hypot(above, before_below)
        factor = np.where(before["x"] > 0, now["x"] / before["x"], np.nan)
    status = np.where((before["x"] > 0) & (now["x"] > 0), "both", np.where(now["x"] > 0, "new", "gone"))
    columns: dict[str, Any] = {
        "class": [info.name for info in work.classes],
        "x_factor": factor,
        "status": status.tolist(),
        **{f"{name}_before": values for name, values in before.items()},
        **{f"{name}_now": values for name, values in now.items()},
        "latency_before_us": before["latency"],
        "latency_now_us": now["latency"],
        "y_change": change,
        "y_change_low": low,
        "y_change_high": high,
    }
    listed = {name: columns[name] for name in COMPARISON.schema}
    frame = COMPARISON.frame(listed).with_columns(NAN_TO_NULL).filter((pl.col("x_before") > 0) | (pl.col("x_now") > 0))
    size, time = pl.col("y_change").abs(), (pl.col("x_now") - pl.col("x_before")).abs()
    return frame.sort(size, time, "class", descending=[True, True, False], nulls_last=True, maintain_order=True)
