"""All methods of attribution on one workload, each computed when it is first needed, and how far to trust the default one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.query_profile.estimators import attribution, design, estimate, remedies
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.estimators.design import Costs, FitOptions
from engine.query_profile.wlr.regression import (
    NO_SPREAD,
    Lines,
    Moments,
    Sums,
    plausible,
    without_tiny,
)
from engine.query_profile.workloads.workload import Workload

Grade = Literal["good", "fair", "poor", "none"]


class Trust(msgspec.Struct, frozen=True):
    """Measures of trust.

    ``correlation`` of summed time and y; ``blocked_mape``: mean relative error on blocks of intervals that were left out of
    the fit; ``attributed``: share of y given to classes; ``disagreement``: share of y that WLR and the default give to
    different classes; ``score`` 0-1 and its ``grade``; ``reasons``: what lowers it, worst first.
    """

    correlation: float
    blocked_mape: float
    attributed: float
    disagreement: float
    score: float
    grade: Grade
    reasons: tuple[str, ...]


_UNKNOWN = (float("nan"),) * 4
NO_TRUST = Trust(*_UNKNOWN, 0.0, "none", ("there is no CPU series",))
UNTESTED = Trust(*_UNKNOWN, 0.0, "none", ("too much data to test the fit",))


_QUICK = FitOptions(draws=12, rounds=4, sample=False)


def blocked_error(
    x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, blocks: int = 5
) -> float:
    """Return the mean |(y - p)/y| over ``blocks`` consecutive parts, each predicted from the others by the default estimate;
    NaN for too few intervals."""
    rows = len(y)
    if rows < 2 * blocks:
        return float("nan")
    errors = []
    length = design.lengths(seconds)
    for part in np.array_split(np.arange(rows), blocks):
        rest = np.setdiff1d(np.arange(rows), part)
        rest_calls, part_calls = (None, None) if calls is None else (calls[rest], calls[part])
        costs = estimate.fit(x[rest], rest_calls, y[rest], seconds[rest], _QUICK)
        predicted = costs.predict(x[part], part_calls, length[part])
        positive = y[part] > 0
        errors.append(np.abs((y[part] - predicted) / np.where(positive, y[part], 1.0))[positive])
    joined = np.concatenate(errors)
    return float(joined.mean()) if len(joined) else float("nan")


def assess(
    s: np.ndarray,
    y: np.ndarray,
    by_wlr: np.ndarray,
    by_default: np.ndarray,
    blocked_mape: float,
    *,
    elbow: bool,
    changed: bool,
    doubtful: int,
) -> Trust:
    """Grade the default attribution; the penalties stand in docs/models/query-profile.md, "Trust".

    ``s``, ``y``: (T,) summed time and resource use; ``by_wlr``, ``by_default``: (J,) CPU per class; ``elbow``, ``changed``:
    whether an elbow or a change of costs was found; ``doubtful``: how many intervals are left out.
    """
    total = float(y.sum())
    if not len(y) or total <= 0:
        return NO_TRUST
    correlation = design.correlation(s, y) if len(y) > 2 else float("nan")
    attributed = float(by_default.sum()) / total
    disagreement = float(np.abs(by_wlr - by_default).sum()) / 2 / total
    mape, rows = blocked_mape if np.isfinite(blocked_mape) else 0.3, len(y)
    left_out = "1 doubtful interval is left out" if doubtful == 1 else f"{doubtful} doubtful intervals are left out"
    missed = f"left-out intervals are missed by {mape * 100:.1f}%"
    penalties = (
        (min(mape / 0.25, 1) * 0.5, missed if np.isfinite(blocked_mape) else "too few intervals to test the fit"),
        (min(abs(attributed - 1), 1) * 0.4, f"{attributed * 100:.0f}% of the CPU is explained by query classes"),
        (min(max(disagreement - 0.1, 0), 0.5) * 0.4, f"WLR puts {disagreement * 100:.0f}% of the CPU elsewhere"),
        (max(0.7 - correlation, 0) * 0.2, f"time and CPU hardly go together (correlation {correlation:.2f})"),
        (0.15 * elbow, "past the queueing elbow time is mostly waiting"),
        (0.05 * changed, "costs changed within the window: both sides are fitted alone"),
        (min(doubtful / max(rows + doubtful, 1), 1) * 0.2, left_out),
        (0.3 if rows < 20 else 0.1 if rows < 60 else 0.0, f"only {rows} interval{'s' * (rows != 1)}"),
    )
    reasons = sorted((each for each in penalties if each[0] > 0.02), reverse=True)
    score = max(0.0, 1 - sum(penalty for penalty, _ in reasons))
    grade: Grade = "good" if score >= 0.75 else "fair" if score >= 0.5 else "poor"
    return Trust(correlation, blocked_mape, attributed, disagreement, score, grade, tuple(t for _, t in reasons))


LARGE_CELLS = 2_000_000
"""Limit on intervals times classes for fitting all methods side by side; above, only the chosen one is fitted."""

MOST_SEPARATE = 400  # most classes that the multivariate methods fit separately by time; the rest is fitted as one

MOST_WITH_CALLS, FEWEST_WITH_CALLS = 80, 30
"""The same if calls are known, so that each class has two costs: half the number of intervals within these bounds; classes
with the largest shares of time and calls come first."""


OUTSIDE_US = 1000.0
"""Most CPU microseconds of a call outside of its elapsed time (parsing, planning, sending; measured: 53 to 330 by kind)."""


@dataclass
class Fits:
    """The methods of attribution on the intervals ``used`` (T,) of ``work``. ``rules``: of WLR, ``upstream`` or ``safe``."""

    work: Workload
    used: np.ndarray
    rules: str
    options: FitOptions
    level: float
    context: Context
    results: Memo = field(default_factory=Memo)

    def __post_init__(self) -> None:
        def pick(table: np.ndarray) -> np.ndarray:
            return without_tiny(table if self.used.all() else table[self.used])

        self.x, self.y = pick(self.work.x), pick(self.work.y)
        self.seconds = self.work.seconds[self.used]
        self.calls = None if self.work.calls is None else pick(self.work.calls)

    @property
    def large(self) -> bool:
        """Whether this is too much data to fit every method."""
        return self.x.size > LARGE_CELLS

    def lines(self, rules: str) -> tuple[Lines, int]:
        """Return WLR's lines under ``rules`` and the number of rows they were fitted on."""
        # VividCortex' program takes every row of a table, also values that are not finite
        source = self.work if rules == "upstream" and self.work.is_table else self
        empty = (Moments if rules == "safe" else Sums).zero(self.x.shape[1])
        batch = self.results.state(f"sums {rules}", lambda: empty.add(source.x, source.y))
        return self.results.state(f"lines {rules}", batch.lines), batch.rows

    def no_spread(self) -> np.ndarray:
        """Mark the classes (J,) whose times are all equal."""
        if not self.large or self.rules == "safe":
            return self.lines("safe")[0].no_spread
        low = np.where(self.x > 0, self.x, np.inf).min(axis=0, initial=np.inf)
        high = self.x.max(axis=0, initial=0.0)
        return np.asarray((low < high * 2) & (high - low <= NO_SPREAD * high) & ((self.x > 0).sum(axis=0) > 1))

    @property
    def _separate(self) -> int:
        """How many classes are fitted separately."""
        return (
            MOST_SEPARATE if self.calls is None else int(np.clip(len(self.y) // 2, FEWEST_WITH_CALLS, MOST_WITH_CALLS))
        )

    @cached_property
    def _lumped(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Times and calls (T, columns) with the smallest classes joined into the last column, and the column of each class
        (J,)."""
        separate = self._separate
        if self.x.shape[1] <= separate:
            return self.x, self.calls, np.arange(self.x.shape[1])
        weight = self.x.sum(axis=0)
        if self.calls is not None:
            called = self.calls.sum(axis=0)
            weight = weight / max(float(weight.sum()), 1e-300) + called / max(float(called.sum()), 1e-300)
        top = np.argsort(-weight, kind="stable")[:separate]
        column = np.full(len(weight), separate)
        column[top] = np.arange(separate)

        def join(table: np.ndarray) -> np.ndarray:
            return np.column_stack([table[:, top], np.delete(table, top, axis=1).sum(axis=1)])

        return join(self.x), None if self.calls is None else join(self.calls), column

    def _costs_of_classes(self, costs: Costs) -> Costs:
        """Return the costs of columns as costs of classes."""
        column = self._lumped[2]
        if len(column) <= self._separate:
            return costs
        predictive = None if costs.predictive is None else costs.predictive[column]
        return Costs(
            costs.time[column], costs.call[column], costs.background, predictive=predictive,
            predictive_background=costs.predictive_background,
        )  # fmt: skip

    def costs(self, method: str) -> Costs:
        """Return the costs by ``ratio``, ``ols`` or ``nnls``."""
        return self.results.state(f"costs {method}", lambda: self._fit_costs(method))

    def _fit_costs(self, method: str) -> Costs:
        self.context.check()
        if method == "ratio":
            return estimate.global_ratio(self.x, self.y)
        x, calls, _ = self._lumped
        if method == "ols":
            return self._costs_of_classes(estimate.ols(x, self.y))
        return self._costs_of_classes(estimate.nnls(x, calls, self.y, self.seconds))

    @cached_property
    def attribution(self) -> Attribution:
        """The default attribution."""
        self.context.check()
        x, calls, column = self._lumped
        found = attribution.attribute(x, calls, self.y, self.seconds, self.options, self.level)
        if len(column) > self._separate:
            found = _unlump(found, column, self.x, self.calls)
        most = np.where(np.isnan(self.most), np.inf, self.most)
        share = np.where(found.total > most, most / np.maximum(found.total, 1e-300), 1.0)
        bounded = ("total", "cpu_low_us", "cpu_high_us", *["draws"] * (len(found.draws) > 0))
        found = msgspec.structs.replace(found, **{name: np.minimum(getattr(found, name), most) for name in bounded})
        return msgspec.structs.replace(found, time=found.time * share, call=found.call * share)

    @cached_property
    def most(self) -> np.ndarray:
        """The most CPU (J,) that each class can have used: all cores throughout its time, and ``OUTSIDE_US`` a call beside it.
        NaN where the cores are unknown, or times end before the work (a WLR CSV's at the first byte of the answer)."""
        if self.work.is_table:
            return np.full(self.x.shape[1], np.nan)
        calls = 0.0 if self.calls is None else np.maximum(self.calls, 0).sum(axis=0) * OUTSIDE_US
        return np.asarray(self.work.cores * np.maximum(self.x, 0).sum(axis=0) + calls)

    def total(self, method: str) -> np.ndarray:
        """Return the CPU per class (J,) over the used intervals."""
        if method in ("default", "wlr"):
            return self.attribution.total if method == "default" else self.lines(self.rules)[0].contributions()
        costs = self.costs(method)
        total = np.maximum(self.x, 0).sum(axis=0) * costs.time
        return np.asarray(total if self.calls is None else total + np.maximum(self.calls, 0).sum(axis=0) * costs.call)

    def by_class(self, method: str) -> np.ndarray:
        """Return the CPU of each class in each interval (T, J), including doubtful ones; sums over the used intervals equal
        ``total``."""
        work = self.work
        x = plausible(work.x)
        if method == "wlr":
            lines, _ = self.lines(self.rules)
            use = lines.usable() & np.isfinite(lines.slope)
            return np.asarray(
                x * np.where(use, lines.slope, 0.0) + (x > 0) * np.where(use, lines.clamped_intercept(), 0.0)
            )
        calls = None if work.calls is None else plausible(work.calls)

        def worth(rows: slice, costs: Costs | Attribution) -> np.ndarray:
            time = np.asarray(x[rows] * costs.time)
            return time if calls is None else time + calls[rows] * costs.call

        table = worth(slice(None), self.attribution if method == "default" else self.costs(method))
        if method == "default" and self.attribution.changed and len(self.attribution.parts) == 2:
            # each side of a change of costs has its own
            turn = int(np.flatnonzero(self.used)[self.attribution.change_point.row])
            sides = zip((slice(turn), slice(turn, None)), self.attribution.parts, strict=True)
            table = np.vstack([worth(side, self._costs_of_classes(costs)) for side, costs in sides])
        # keep totals that were scaled to the measured use
        sums = table[self.used].sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(sums > 0, self.total(method) / sums, 1.0)
        return np.asarray(table * factor)

    def background(self, method: str) -> float:
        """Return the CPU over all used intervals that the method gives to no class."""
        if method in ("default", "wlr", "ratio"):
            return self.attribution.background if method == "default" else 0.0
        length = design.lengths(self.seconds) if method == "nnls" else np.ones(len(self.y))
        return self.costs(method).background * float(length.sum())

    def predict(self, method: str, x: np.ndarray, calls: np.ndarray | None, seconds: np.ndarray) -> np.ndarray:
        """Predict the CPU (rows,) of other intervals: ``x`` and ``calls`` (rows, J), ``seconds`` (rows,)."""
        if method == "wlr":
            return self.lines(self.rules)[0].predict(x)
        length = design.lengths(seconds) if method != "ols" else np.ones(len(x))
        if method != "default":
            return self.costs(method).explained(x, calls, length)
        fitted = self.attribution
        if not fitted.parts:
            return np.zeros(len(x))
        # after a change of costs the newer ones hold
        last = self._costs_of_classes(fitted.parts[-1])
        if fitted.elbow is not None and fitted.elbow.curve is not None:
            return fitted.elbow.curve.cpu(np.maximum(x, 0) @ last.time)
        lag = fitted.lag.share
        return last.predict(remedies.shifted(x, lag), None if calls is None else remedies.shifted(calls, lag), length)

    def fitted(self, method: str) -> np.ndarray:
        """Return the CPU of each used interval as the method explains it."""
        if method == "default":
            return self.attribution.predicted
        return self.results.state(f"fitted {method}", lambda: self.predict(method, self.x, self.calls, self.seconds))

    @cached_property
    def trust(self) -> Trust:
        """The measures of trust in the default attribution."""
        if not len(self.y):
            return NO_TRUST
        self.context.check()
        fitted = self.attribution
        x, calls, _ = self._lumped
        x = remedies.shifted(x, fitted.lag.share)
        calls = None if calls is None else remedies.shifted(calls, fitted.lag.share)
        blocked = blocked_error(x, calls, self.y, self.seconds) if x.size <= LARGE_CELLS else float("nan")
        return assess(
            np.maximum(self.x, 0).sum(axis=1),
            self.y,
            self.total("wlr"),
            fitted.total,
            blocked,
            elbow=bool(fitted.elbow and fitted.elbow.found),
            changed=fitted.changed,
            doubtful=int((~self.used).sum()),
        )


def _unlump(lumped: Attribution, column: np.ndarray, x: np.ndarray, calls: np.ndarray | None) -> Attribution:
    """Split the CPU of the last column among the classes that were fitted as one, by the fitted cost of their time and calls."""
    last = len(lumped.total) - 1
    small = column == last
    time = np.maximum(x, 0).sum(axis=0)
    called = 0.0 if calls is None else np.maximum(calls, 0).sum(axis=0) * lumped.call[last]
    part = time * lumped.time[last] + called
    if not part[small].sum() > 0:
        part = time
    rest = float(part[small].sum())
    share = np.where(small, part / rest if rest > 0 else 0.0, 1.0)
    cpu_low_us, cpu_high_us = lumped.cpu_low_us[column] * share, lumped.cpu_high_us[column] * share
    # for a single small class only the total of all of them is known
    cpu_low_us = np.where(small, 0.0, cpu_low_us)
    cpu_high_us = np.where(small, lumped.cpu_high_us[last], cpu_high_us)
    total, time, call = lumped.total[column] * share, lumped.time[column], lumped.call[column]
    return msgspec.structs.replace(
        lumped,
        total=total,
        cpu_low_us=cpu_low_us,
        cpu_high_us=cpu_high_us,
        time=time,
        call=call,
        draws=lumped.draws[:0],
    )
