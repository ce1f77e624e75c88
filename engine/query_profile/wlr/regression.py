"""Compute VividCortex' weighted linear regression (WLR), CPU per query class from two plain series, and print it as it does.

The CPU of each interval is shared among its classes by their time; then each class gets its own simple regression of its
shares (z) on its times (x). Six sums per class are enough, so sums of batches of intervals add.

Two forms, one method. ``Sums`` are those of VividCortex' program: plain sums in row order, so that even the rounding of a
class whose times are all equal matches the program. ``Moments`` are the safe form: centred, with the extremes of x, so that a
class without spread is recognised.
See docs/models/query-profile.md, "Weighted linear regression". Source: Schwartz, "Estimating CPU Per Query With Weighted
Linear Regression", CMG 2014; the program ``regress.go``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

BLOCK, CELLS = 64, 1 << 15
"""Least rows of a batch, and cells of one of narrow tables: temporaries of this size stay in the cache."""


def batches(x: np.ndarray) -> Iterator[slice]:
    """Yield the rows of ``x`` (rows, classes) in batches."""
    height = max(BLOCK, CELLS // max(x.shape[1], 1))
    for start in range(0, len(x), height):
        yield slice(start, start + height)


NO_SPREAD = 1e-9  # relative spread of x at or below which a class has effectively one point, so no line

CLEAR_SPREAD = 1e-6  # relative standard deviation of x in a batch above which its extremes do not matter

HUGE, TINY = 1e30, 1e-30
"""Limits of plausible microseconds: between them products of four numbers are finite. The safe form skips rows with larger
numbers and treats smaller ones as 0."""


def without_tiny(values: np.ndarray) -> np.ndarray:
    """Return ``values`` with 0 for numbers smaller than ``TINY``."""
    with np.errstate(invalid="ignore"):
        tiny = (values < TINY) & (values > -TINY) & (values != 0)
    return np.where(tiny, 0.0, values) if tiny.any() else values


def plausible(values: np.ndarray) -> np.ndarray:
    """Return ``values`` with 0 for everything that is no positive time or count: negative, tiny, too large, or NaN."""
    return np.where((values >= TINY) & (values < HUGE), values, 0.0)


class Lines(msgspec.Struct, frozen=True):
    """One fitted line per class; all arrays of shape (classes,). ``intercept_stderr`` is by the program's
    formula, ``intercept_stderr_correct`` by the right one; ``no_spread`` marks classes whose times are all equal;
    ``sx`` is the sum of their times."""

    n: np.ndarray
    slope: np.ndarray
    intercept: np.ndarray
    r2: np.ndarray
    slope_stderr: np.ndarray
    intercept_stderr: np.ndarray
    intercept_stderr_correct: np.ndarray
    no_spread: np.ndarray
    sx: np.ndarray

    def usable(self) -> np.ndarray:
        """Mark the classes that can predict: known, with a slope above 0."""
        with np.errstate(invalid="ignore"):
            return (self.n > 0) & (self.slope > 0)

    def clamped_intercept(self) -> np.ndarray:
        """Return the intercepts (classes,) that predictions use: 0 instead of a negative one, or of a class that predicts
        nothing."""
        with np.errstate(invalid="ignore"):
            return np.where(self.usable() & (self.intercept > 0), self.intercept, 0.0)

    def contributions(self) -> np.ndarray:
        """Return the CPU of each class (classes,) over the rows that its line was fitted on, with the clamps of ``predict``."""
        with np.errstate(invalid="ignore"):
            return np.where(self.usable(), self.sx * self.slope + self.n * self.clamped_intercept(), 0.0)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predict the CPU of each row of ``x`` (rows, classes): the sum of max(intercept, 0) + slope * x over usable present
        classes.

        A negative intercept is set to 0 without refitting, a slope of 0 or less (or NaN) drops the class, and an infinite
        slope makes every row with that class infinite, as in VividCortex' program.
        """
        use = self.usable()
        slope = np.where(use & np.isfinite(self.slope), self.slope, 0.0)
        intercept = self.clamped_intercept()
        endless = use & ~np.isfinite(self.slope)
        predicted = np.empty(len(x))
        for rows in batches(x):
            block = x[rows]
            with np.errstate(invalid="ignore"):
                present = block > 0
                plain = block.min(initial=0.0) >= 0 and block.max(initial=0.0) < np.inf
            # an infinite time of a dropped class is no 0 * inf
            times = block if plain else np.where(present & use, block, 0.0)
            # Intercept and slope * x of a class are added first, then the classes, as the program does: where all actuals are
            # equal, the last bit decides what its last line says.
            with np.errstate(invalid="ignore", over="ignore"):
                terms = times * slope
                terms += present * intercept
                row = terms.sum(axis=1)
            if endless.any():
                row[(present & endless).any(axis=1)] = np.inf
            predicted[rows] = row
        return predicted


class Sums(msgspec.Struct, frozen=True):
    """The program's six plain sums per class, shape (classes,) each. ``rows``: number of intervals in them."""

    n: np.ndarray
    sx: np.ndarray
    sz: np.ndarray
    sxx: np.ndarray
    sxz: np.ndarray
    szz: np.ndarray
    rows: int = 0

    @classmethod
    def zero(cls, classes: int) -> Sums:
        """Return the sums of no interval."""
        return cls(*np.zeros((6, classes)))

    def add(self, x: np.ndarray, y: np.ndarray) -> Sums:
        """Add the intervals ``x`` (rows, classes) and ``y`` (rows,) one after the other: O(cells)."""
        sums = [getattr(self, name).copy() for name in ("n", "sx", "sz", "sxx", "sxz", "szz")]
        rows = self.rows
        classes = x.shape[1]
        # Axis-0 reduction of a C-ordered array adds row by row, as a program that reads line by line does, so the rounding
        # is that of VividCortex' program. (A single column would be added pairwise: it gets an empty neighbour.)
        stack = np.zeros((1, max(classes, 2)))
        for batch in batches(x):
            times, present, shares = _shares(x[batch], y[batch])
            if len(times) >= len(stack):
                stack = np.zeros((len(times) + 1, stack.shape[1]))
            rows += len(times)
            end = len(times) + 1
            sums[0] += _count(present)
            pairs = ((times, None), (shares, None), (times, times), (times, shares), (shares, shares))
            with np.errstate(invalid="ignore", over="ignore"):
                for i, (one, other) in enumerate(pairs, 1):
                    stack[0, :classes] = sums[i]
                    if other is None:
                        stack[1:end, :classes] = one
                    else:
                        np.multiply(one, other, out=stack[1:end, :classes])
                    sums[i] = np.add.reduce(stack[:end], axis=0)[:classes]
        n, sx, sz, sxx, sxz, szz = sums
        return Sums(n, sx, sz, sxx, sxz, szz, rows)

    def lines(self) -> Lines:
        """Fit the lines by the program's formulas, rounding traps included."""
        n, sx, sz = self.n, self.sx, self.sz
        with np.errstate(all="ignore"):
            a = n * self.sxx - sx * sx
            b = n * self.szz - sz * sz
            c = n * self.sxz - sx * sz
            slope = np.where(n == 0, 0.0, np.where(n == 1, sz / sx, c / a))
            intercept = np.where(n < 2, 0.0, (sz - slope * sx) / n)
            r2 = np.where(n < 2, 0.0, c * c / a / b)  # in this order, so that overflow shows as in the program
            scatter = np.sqrt((b - c * c / a) / (n - 2))
            mean = sx / n
            slope_se = np.where(n < 3, 0.0, scatter / np.sqrt(a))
            wrong = np.where(n < 3, 0.0, scatter * np.sqrt(1 / n + mean * mean / a))
            # Rounding can push the residual sum of squares just below 0; only our own column corrects that.
            right = np.where(
                n < 3, 0.0, np.sqrt(np.maximum(b - c * c / a, 0) / (n * (n - 2))) * np.sqrt(1 / n + n * mean**2 / a)
            )
        return Lines(n, slope, intercept, r2, slope_se, wrong, right, np.zeros(len(n), bool), sx)


class Moments(msgspec.Struct, frozen=True):
    """The safe form: count, means and centred products per class, and the extremes of x. Mergeable (Chan and others 1983).

    ``low`` is 0 for a class that clearly has spread: its smallest x does not matter then.
    """

    n: np.ndarray
    mean_x: np.ndarray
    mean_z: np.ndarray
    mxx: np.ndarray
    mxz: np.ndarray
    mzz: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: int = 0

    @classmethod
    def zero(cls, classes: int) -> Moments:
        """Return the moments of no interval."""
        n, mean_x, mean_z, mxx, mxz, mzz, high = np.zeros((7, classes))
        return cls(n, mean_x, mean_z, mxx, mxz, mzz, np.full(classes, np.inf), high)

    def add(self, x: np.ndarray, y: np.ndarray) -> Moments:
        """Add intervals; rows with a value that is not finite are left out."""
        total = self
        for batch in batches(x):
            block, target = x[batch], y[batch]
            if not (_within(block) and _within(target)):
                with np.errstate(invalid="ignore", over="ignore"):
                    inside = (np.abs(target) < HUGE) & (block.max(axis=1, initial=0.0) < HUGE)
                    inside &= block.min(axis=1, initial=0.0) > -HUGE
                block, target = block[inside], target[inside]
            total = total.merge(_moments(block, target))
        return total

    def merge(self, other: Moments) -> Moments:
        """Merge with the moments of another batch."""
        n = self.n + other.n
        with np.errstate(all="ignore"):
            part = np.where(n > 0, other.n / n, 0.0)
        dx, dz = other.mean_x - self.mean_x, other.mean_z - self.mean_z
        weight = self.n * part
        return Moments(
            n,
            self.mean_x + dx * part,
            self.mean_z + dz * part,
            self.mxx + other.mxx + dx * dx * weight,
            self.mxz + other.mxz + dx * dz * weight,
            self.mzz + other.mzz + dz * dz * weight,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.rows + other.rows,
        )

    def lines(self) -> Lines:
        """Fit the lines; that of a class without spread goes through the origin and its mean."""
        n = self.n
        with np.errstate(all="ignore"):
            flat = (n > 1) & (self.high - self.low <= NO_SPREAD * self.high)
            origin = (n == 1) | flat
            slope = np.where(n == 0, 0.0, np.where(origin, self.mean_z / self.mean_x, self.mxz / self.mxx))
            intercept = np.where(origin, 0.0, self.mean_z - slope * self.mean_x)
            r2 = np.where(origin, 0.0, self.mxz**2 / (self.mxx * self.mzz))
            r2 = np.where(np.isfinite(r2), r2, 0.0)
            scatter = np.sqrt(np.maximum(self.mzz - self.mxz**2 / self.mxx, 0.0) / (n - 2))
            known = (n > 2) & ~flat
            slope_se = np.where(known, scatter / np.sqrt(self.mxx), 0.0)
            right = np.where(known, scatter * np.sqrt(1 / n + self.mean_x**2 / self.mxx), 0.0)
        return Lines(n, slope, intercept, r2, slope_se, right, right, flat, n * self.mean_x)


class Quality(msgspec.Struct, frozen=True):
    """The program's final line: the regression of predicted on actual; ``mape`` is a fraction."""

    rows: int
    slope: float
    slope_stderr: float
    intercept: float
    intercept_stderr: float
    r2: float
    mape: float


def quality(actual: np.ndarray, predicted: np.ndarray) -> Quality:
    """Score predictions (rows,) over the rows whose actual is not 0 (mape is NaN without any)."""
    use = actual != 0
    actual, predicted = actual[use], predicted[use]
    with np.errstate(all="ignore"):
        stack = np.column_stack([np.ones(len(actual)), actual, predicted, actual**2, actual * predicted, predicted**2])
        line = Sums(*np.add.reduce(np.vstack([np.zeros(6), stack]), axis=0)[:, None]).lines()
        mape = float(np.mean(np.abs((actual - predicted) / actual))) if len(actual) else float("nan")
    columns = (line.slope, line.slope_stderr, line.intercept, line.intercept_stderr, line.r2)
    slope, slope_stderr, intercept, intercept_stderr, r2 = (float(column[0]) for column in columns)
    return Quality(len(actual), slope, slope_stderr, intercept, intercept_stderr, r2, mape)


def _within(values: np.ndarray) -> bool:
    """Tell whether no value is HUGE or NaN."""
    with np.errstate(invalid="ignore"):
        return bool(values.min(initial=0.0) > -HUGE and values.max(initial=0.0) < HUGE)


def _count(present: np.ndarray) -> np.ndarray:
    """Count the rows with each class (classes,)."""
    return np.asarray(present.view(np.uint8).sum(axis=0, dtype=np.uint8 if len(present) < 256 else np.uint32), float)


def _shares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, presence and shares (rows, classes) of the rows that count (y and the sum of times are not 0)."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        total = x.sum(axis=1)
        use = (y != 0) & (total != 0)
        if not use.all():
            x, y, total = x[use], y[use], total[use]
        present = x > 0
        times = x if x.min(initial=0.0) >= 0 else np.where(present, x, 0.0)
        shares = times * (y / total)[:, None]
        if not np.isfinite(shares).all():
            shares = np.where(present, shares, 0.0)
    return times, present, shares


def _moments(x: np.ndarray, y: np.ndarray) -> Moments:
    times, present, shares = _shares(x, y)
    n = _count(present)
    with np.errstate(all="ignore"):
        mean_x = np.where(n > 0, times.sum(axis=0) / n, 0.0)
        mean_z = np.where(n > 0, shares.sum(axis=0) / n, 0.0)
    dx, dz = times - mean_x, shares - mean_z
    dx *= present
    dz *= present
    mxx = np.einsum("ij,ij->j", dx, dx)
    high = times.max(axis=0, initial=0.0)
    near = mxx <= n * (CLEAR_SPREAD * high) ** 2
    low = np.zeros(len(n))
    low[near] = np.where(present[:, near], times[:, near], np.inf).min(axis=0, initial=np.inf)
    return Moments(
        n, mean_x, mean_z, mxx, np.einsum("ij,ij->j", dx, dz), np.einsum("ij,ij->j", dz, dz), low, high,
        len(times),
    )  # fmt: skip


def go_float(value: float, width: int, digits: int) -> str:
    """Format ``value`` like Go's ``%{width}.{digits}g``."""
    endless = "+Inf" if value > 0 else "-Inf"
    return ("NaN" if math.isnan(value) else endless if math.isinf(value) else f"{value:.{digits}g}").rjust(width)


def _fixed(value: float, width: int, digits: int) -> str:
    """Format ``value`` like Go's ``%{width}.{digits}f``."""
    return f"{value:{width}.{digits}f}" if math.isfinite(value) else go_float(value, width, digits)


def _ratio(stderr: float, estimate: float) -> float:
    """Return the program's "t-stat": the error over the estimate, with its sign; the inverse of Student's t."""
    with np.errstate(all="ignore"):
        return float(np.float64(stderr) / np.float64(estimate))


def text(names: list[str], lines: Lines, actual: np.ndarray, predicted: np.ndarray, score: Quality) -> str:
    """Print all tables, classes sorted by name (the program's own order is random).

    ``lines``: of the classes ``names``; ``actual``, ``predicted``: (rows,); ``score``: the final line.
    """
    use = actual != 0
    out = [
        "PREDICT actual predicted",
        *(
            f"PREDICT {go_float(a, 0, 5)} {go_float(p, 0, 5)}"
            for a, p in zip(actual[use].tolist(), predicted[use].tolist(), strict=True)
        ),
        "",
        "================== RESULTS: VARIABLES ====================",
        "",
        "variable             count  R^2     slope  (t-stat) intercept  (t-stat)",
    ]
    for i in sorted((i for i in range(len(names)) if lines.n[i] > 0), key=lambda i: names[i]):
        slope, intercept = float(lines.slope[i]), float(lines.intercept[i])
        out.append(
            f"{names[i]:<20} {lines.n[i]:5.0f} {_fixed(float(lines.r2[i]), 4, 2)} {go_float(slope, 9, 3)} "
            f"{go_float(_ratio(float(lines.slope_stderr[i]), slope), 9, 3)} {go_float(intercept, 9, 3)} "
            f"{go_float(abs(_ratio(float(lines.intercept_stderr[i]), intercept)), 9, 3)}"
        )
    last = (
        f"Slope: {go_float(score.slope, 0, 2)} T-stat: {go_float(_ratio(score.slope_stderr, score.slope), 0, 2)} "
        f"Intercept: {go_float(score.intercept, 0, 2)} "
        f"T-stat: {go_float(abs(_ratio(score.intercept_stderr, score.intercept)), 0, 2)} "
        f"R^2 {go_float(score.r2, 0, 2)} MAPE: {go_float(score.mape, 0, 2)}"
    )
    return "\n".join([*out, "", "================= RESULTS: ACTUAL-VS-PRED ===================", last, ""])
