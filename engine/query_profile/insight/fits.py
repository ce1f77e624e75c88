"""All methods on one workload, each computed once and kept until the data or a choice that matters changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.query_profile.estimators import attribution, design, least_squares, time_lag
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.estimators.design import Costs, Recipe
from engine.query_profile.insight import trust
from engine.query_profile.wlr.regression import HUGE, NO_SPREAD, Lines, Moments, Sums
from engine.query_profile.workloads.workload import Workload
from engine.view import Context

LARGE_CELLS = 2_000_000
"""Above so many cells only what was asked for is fitted, not all methods side by side."""

MANY_CLASSES = 400
"""Above so many classes the multivariate methods fit this many by time and the rest as one."""

MANY_CALLED, FEWEST_APART = 80, 30
"""The same where calls are known too, so that each class has two costs: at most this many, and half as many as there are
intervals, if that is more than the other number; those with the largest shares of time and calls."""


@dataclass
class Fits:
    """Methods on the used intervals of ``work``; filled on demand. ``rules``: upstream or safe (WLR only)."""

    work: Workload
    used: np.ndarray
    rules: str
    recipe: Recipe
    level: float
    context: Context
    sums: Sums | None = None
    moments: Moments | None = None
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.x = self.work.x[self.used] if not self.used.all() else self.work.x
        self.y = self.work.y[self.used] if not self.used.all() else self.work.y
        seconds = self.work.seconds
        self.seconds = seconds[self.used] if not self.used.all() else seconds
        calls = self.work.calls
        self.calls = None if calls is None else calls[self.used] if not self.used.all() else calls

    @property
    def large(self) -> bool:
        """Whether this is too much to fit every method unasked."""
        return self.x.size > LARGE_CELLS

    def lines(self, rules: str) -> tuple[Lines, int]:
        """WLR's lines under ``rules`` and the number of rows they are made of."""
        key = f"lines-{rules}"
        if key not in self.kept:
            if rules == "upstream" and self.work.plain:
                # upstream takes every row as it is, also what is not finite
                sums = (
                    self.sums
                    if self.sums is not None
                    else Sums.zero(self.work.x.shape[1]).add(self.work.x, self.work.y)
                )
                self.kept[key] = (sums.lines(), sums.rows)
            elif rules == "upstream":
                sums = Sums.zero(self.x.shape[1]).add(self.x, self.y)
                self.kept[key] = (sums.lines(), sums.rows)
            else:
                moments = self.moments
                if moments is None:
                    moments = Moments.zero(self.x.shape[1]).add(self.x, self.y)
                self.kept[key] = (moments.lines(), moments.rows)
        found: tuple[Lines, int] = self.kept[key]
        return found

    def flat(self) -> np.ndarray:
        """Classes (J,) whose times are all equal."""
        if not self.large or "lines-safe" in self.kept:
            return self.lines("safe")[0].no_spread
        low = np.where(self.x > 0, self.x, np.inf).min(axis=0, initial=np.inf)
        high = self.x.max(axis=0, initial=0.0)
        return np.asarray((low < high * 2) & (high - low <= NO_SPREAD * high) & ((self.x > 0).sum(axis=0) > 1))

    def _apart(self) -> int:
        """How many classes are fitted each alone."""
        if self.calls is None:
            return MANY_CLASSES
        return int(np.clip(len(self.y) // 2, FEWEST_APART, MANY_CALLED))

    def _few(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Times and calls with the smallest classes joined into one, and the class -> column map."""
        x, calls = self.x, self.calls
        classes = x.shape[1]
        apart = self._apart()
        if classes <= apart:
            return x, calls, np.arange(classes)
        if "few" not in self.kept:
            weight = x.sum(axis=0)
            if calls is not None:
                called = calls.sum(axis=0)
                weight = weight / max(float(weight.sum()), 1e-300) + called / max(float(called.sum()), 1e-300)
            order = np.argsort(-weight, kind="stable")
            place = np.full(classes, apart)
            place[order[:apart]] = np.arange(apart)
            top = order[:apart]

            def join(table: np.ndarray) -> np.ndarray:
                rest = np.delete(table, top, axis=1).sum(axis=1)
                return np.column_stack([table[:, top], rest])

            self.kept["few"] = (join(x), None if calls is None else join(calls), place)
        found: tuple[np.ndarray, np.ndarray | None, np.ndarray] = self.kept["few"]
        return found

    def _spread(self, costs: Costs, place: np.ndarray) -> Costs:
        if len(place) <= self._apart():
            return costs
        ahead = None if costs.ahead is None else costs.ahead[place]
        return Costs(
            costs.method, costs.time[place], costs.call[place], costs.background, shared=costs.shared, ahead=ahead,
            ahead_background=costs.ahead_background,
        )  # fmt: skip

    def costs(self, method: str) -> Costs:
        """Costs of ``ratio``, ``ols`` or ``nnls``."""
        key = f"costs-{method}"
        if key not in self.kept:
            self.context.check()
            x, calls, place = self._few()
            if method == "ratio":
                self.kept[key] = least_squares.global_ratio(self.x, self.y)
            elif method == "ols":
                self.kept[key] = self._spread(least_squares.ordinary(x, self.y, self.seconds), place)
            else:
                self.kept[key] = self._spread(least_squares.plain_nonnegative(x, calls, self.y, self.seconds), place)
        found: Costs = self.kept[key]
        return found

    def attribution(self) -> Attribution:
        """The default attribution."""
        if "default" not in self.kept:
            self.context.check()
            x, calls, place = self._few()
            found = attribution.attribute(x, calls, self.y, self.seconds, self.recipe, self.level)
            if len(place) > self._apart():
                found = _unlump(found, place, self.x, self.calls)
            self.kept["default"] = found
        result: Attribution = self.kept["default"]
        return result

    def total(self, method: str) -> np.ndarray:
        """CPU per class (J,) over the used intervals."""
        if method == "default":
            return self.attribution().total
        if method == "wlr":
            return self.lines(self.rules)[0].contributions()
        costs = self.costs(method)
        total = np.maximum(self.x, 0).sum(axis=0) * costs.time
        if self.calls is not None:
            total = total + np.maximum(self.calls, 0).sum(axis=0) * costs.call
        return np.asarray(total)

    def by_class(self, method: str) -> np.ndarray:
        """CPU of each class in each interval (T, J), doubtful ones included; totals over the used ones are ``total``'s."""
        work = self.work
        x = np.where((work.x > 0) & (work.x < HUGE), work.x, 0.0)
        if method == "wlr":
            lines, _ = self.lines(self.rules)
            use = lines.usable() & np.isfinite(lines.slope)
            slope = np.where(use, lines.slope, 0.0)
            with np.errstate(invalid="ignore"):
                intercept = np.where(use & (lines.intercept > 0), lines.intercept, 0.0)
            return np.asarray(x * slope + (x > 0) * intercept)
        calls = None if work.calls is None else np.maximum(np.nan_to_num(work.calls), 0)

        def worth(part: slice, costs: Costs | Attribution) -> np.ndarray:
            time = np.asarray(x[part] * costs.time)
            return time if calls is None else time + calls[part] * costs.call

        if method != "default":
            table = worth(slice(None), self.costs(method))
        else:
            found = self.attribution()
            table = worth(slice(None), found)
            if found.broken is not None and found.broken.row > 0 and len(found.parts) == 2:
                # each side of a change of costs has its own
                turn, place = int(np.flatnonzero(self.used)[found.broken.row]), self._few()[2]
                sides = zip((slice(turn), slice(turn, None)), found.parts, strict=True)
                table = np.vstack([worth(side, self._spread(costs, place)) for side, costs in sides])
        # what was scaled to the measured use keeps its totals
        sums = table[self.used].sum(axis=0)
        wanted = self.total(method)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(sums > 0, wanted / sums, 1.0)
        return np.asarray(table * factor)

    def background(self, method: str) -> float:
        """CPU in all that the method gives to no class."""
        if method == "default":
            return self.attribution().background
        if method in ("wlr", "ratio"):
            return 0.0
        length = design.lengths(self.seconds) if method == "nnls" else np.ones(len(self.y))
        return self.costs(method).background * float(length.sum())

    def predict(self, method: str, x: np.ndarray, calls: np.ndarray | None, seconds: np.ndarray) -> np.ndarray:
        """CPU of each row of other intervals (rows, J)."""
        if method == "wlr":
            return self.lines(self.rules)[0].predict(x)
        length = design.lengths(seconds) if method != "ols" else np.ones(len(x))
        if method != "default":
            return self.costs(method).explained(x, calls, length)
        found = self.attribution()
        if not found.parts:
            return np.zeros(len(x))
        # after a break the newer costs hold
        last = self._spread(found.parts[-1], self._few()[2])
        if found.elbow is not None and found.elbow.curve is not None:
            return found.elbow.curve.cpu(np.maximum(x, 0) @ last.time)
        late = found.shift.share
        return last.predict(time_lag.shifted(x, late), None if calls is None else time_lag.shifted(calls, late), length)

    def fitted(self, method: str) -> np.ndarray:
        """CPU of each used interval as the method explains it."""
        if method == "default":
            return self.attribution().predicted
        key = f"fitted-{method}"
        if key not in self.kept:
            self.kept[key] = self.predict(method, self.x, self.calls, self.seconds)
        found: np.ndarray = self.kept[key]
        return found

    def trust(self) -> trust.Trust:
        """The gauge of trust in the default attribution."""
        if "trust" not in self.kept:
            if not len(self.y):
                self.kept["trust"] = trust.NO_TRUST
            else:
                self.context.check()
                found = self.attribution()
                x, calls, _ = self._few()
                x = time_lag.shifted(x, found.shift.share)
                calls = None if calls is None else time_lag.shifted(calls, found.shift.share)
                blocked = trust.blocked_error(x, calls, self.y, self.seconds) if x.size <= LARGE_CELLS else float("nan")
                self.kept["trust"] = trust.assess(
                    np.maximum(self.x, 0).sum(axis=1),
                    self.y,
                    self.total("wlr"),
                    found.total,
                    blocked,
                    elbow=bool(found.elbow and found.elbow.found),
                    broken=bool(found.broken and found.broken.row > 0),
                    doubtful=int((~self.used).sum()),
                )
        result: trust.Trust = self.kept["trust"]
        return result


def _unlump(found: Attribution, place: np.ndarray, x: np.ndarray, calls: np.ndarray | None) -> Attribution:
    """Classes that were fitted as one get its CPU by what their time and calls cost in it."""
    last = len(found.total) - 1
    small = place == last
    time = np.maximum(x, 0).sum(axis=0)
    part = time * found.time[last]
    if calls is not None:
        part = part + np.maximum(calls, 0).sum(axis=0) * found.call[last]
    if not part[small].sum() > 0:
        part = time
    rest = float(part[small].sum())
    share = np.where(small, part / rest if rest > 0 else 0.0, 1.0)
    total = found.total[place] * share
    low, high = found.low[place] * share, found.high[place] * share
    # nothing is known of a single small class but what all of them take together
    low, high = np.where(small, 0.0, low), np.where(small, found.high[last], high)
    return Attribution(
        total, low, high, found.predicted, found.time[place], found.call[place], found.background, found.parts,
        found.elbow, found.broken, shift=found.shift,
    )  # fmt: skip
