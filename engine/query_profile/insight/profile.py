"""The profile of a workload: its resource by query class, by the chosen method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.insight.trust import NO_TRUST, UNTESTED, Trust
from engine.query_profile.tables import METHODS
from engine.query_profile.wlr.regression import HUGE, Lines, plausible
from engine.query_profile.workloads.workload import Workload
from engine.view import Context


@dataclass(frozen=True)
class Profile:
    """A workload of T intervals by J classes with its resource attributed by ``method``.

    ``shown`` (T,): intervals that the sums are over; ``x_total`` (J,): their elapsed time; ``measured``: their use of the
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

    @property
    def used(self) -> np.ndarray:
        """Intervals (T,) that fits use."""
        return self.fits.used

    @property
    def attributable(self) -> bool:
        """Whether the resource is known in any interval without a doubt."""
        return bool(self.used.any())

    @property
    def total(self) -> np.ndarray:
        """CPU by class (J,) by the chosen method; NaN where the resource is unknown."""
        return self.totals[self.method] if self.attributable else np.full(len(self.work.classes), np.nan)

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end (J,) of the interval of each class' CPU; NaN where the method has none."""
        if self.attribution is None or self.method != "default":
            return (np.full(len(self.work.classes), np.nan),) * 2
        return self.attribution.low, self.attribution.high

    @property
    def attributed(self) -> float:
        """CPU given to classes, us."""
        return float(np.nansum(self.total)) if self.attributable else math.nan

    @property
    def background(self) -> float:
        """CPU given to no class: used at all times, us."""
        return self.fits.background(self.method) if self.attributable else math.nan

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
        if self.method == "wlr":
            lines = self.lines
            return (unknown if lines is None else np.where(lines.usable(), lines.slope, 0.0)), unknown
        fitted = self.attribution if self.method == "default" else self.fits.costs(self.method)
        assert fitted is not None
        return fitted.time, unknown if self.work.calls is None else fitted.call

    @property
    def unattributed_share(self) -> float:
        """Part of the measured use that is given to no class; NaN where the resource is unknown."""
        known = self.attributable and self.measured > 0
        return (self.measured - self.attributed) / self.measured if known else math.nan

    @property
    def active_cpus(self) -> float:
        """CPUs in use on average; NaN where times or the resource are unknown."""
        return self.measured / (self.seconds * 1e6) if self.attributable and self.seconds > 0 else math.nan

    @property
    def utilisation(self) -> float:
        """Part of the host's CPUs in use, 0 to 1; NaN where their number, times or the resource are unknown."""
        capacity = self.work.cores * self.seconds * 1e6
        return self.measured / capacity if self.attributable and capacity > 0 else math.nan

    def unattributed(self, method: str) -> float:
        """Return what ``method`` leaves of the measured use, rounding taken for nothing."""
        rest = self.measured - float(np.nansum(self.totals[method])) - self.fits.background(method)
        return 0.0 if abs(rest) <= 1e-12 * abs(self.measured) else rest


def build_profile(fits: Fits, method: str, context: Context) -> Profile:
    """Attribute the resource of the workload of ``fits`` by ``method``; with little enough data by all other methods too."""
    work, used = fits.work, fits.used
    known = bool(used.any())
    # without a resource the sums are over everything that is not doubtful, or simply everything
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
    return Profile(
        work=work,
        fits=fits,
        method=method,
        shown=shown,
        x_total=_summed_time(work.x, shown),
        measured=float(np.where(np.isfinite(work.y), work.y, 0.0)[shown].sum()) if known else math.nan,
        totals=totals,
        attribution=fits.attribution if "default" in totals else None,
        lines=lines,
        rows_trained=int(rows_trained if method == "wlr" else used.sum()),
        by_class=by_class,
        fitted=fitted,
        trust=trust,
    )


def _summed_time(x: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Sum the times (J,) of the intervals ``shown``; what no time can be counts nothing."""
    x = x if shown.all() else plausible(x[shown])
    with np.errstate(invalid="ignore", over="ignore"):
        total = x.sum(axis=0)
        return np.asarray(total if (total < HUGE).all() else plausible(x).sum(axis=0))
