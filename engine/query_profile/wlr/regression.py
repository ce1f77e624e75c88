"""Weighted linear regression: CPU per query class from two plain series, as VividCortex computes it.

Each interval's CPU is shared among its classes by their time; then every class gets its own simple regression of its
shares (z) on its times (x). Six sums per class are all that is kept, so partial sums of files and live batches add.

Two forms, one method. ``Sums`` are upstream's: plain sums in row order, so that also what rounding makes of a class whose
times are all equal comes out as upstream prints it. ``Moments`` are the safe form: centred, with the extremes of x, so
that a class without spread is seen as such.
Source: Schwartz and others, "Estimating CPU Per Query With Weighted Linear Regression", CMG 2014, and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BLOCK = 64
"""Rows taken at once: temporaries of this height stay in the cache."""

NO_SPREAD = 1e-9
"""Relative spread of x at or below which a class has one point only, and so no line."""

CLEAR_SPREAD = 1e-6
"""Relative standard deviation of x in a block above which there is no need to look for its extremes."""


HUGE = 1e100
"""No time is this long; squares of it are still finite. The safe form leaves such rows out."""


@dataclass(frozen=True)
class Lines:
    """One fitted line per class; all arrays of shape (classes,). ``intercept_stderr`` is upstream's formula,
    ``intercept_stderr_correct`` the right one; ``no_spread`` marks classes whose times are all equal;
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
        """Classes that predict at all: known, with a slope above 0."""
        with np.errstate(invalid="ignore"):
            return (self.n > 0) & (self.slope > 0)

    def contributions(self) -> np.ndarray:
        """CPU of each class (classes,) over all rows that made the line, with upstream's clamps."""
        use = self.usable()
        with np.errstate(invalid="ignore"):
            total = self.sx * self.slope + self.n * np.where(self.intercept > 0, self.intercept, 0.0)
        return np.where(use, total, 0.0)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """CPU of each row of ``x`` (rows, classes): sum of max(intercept, 0) + slope * x over usable present classes.

        A negative intercept is set to 0 without refitting, a slope of 0 or less (or NaN) drops the class, and an
        infinite slope makes every row with that class infinite, as upstream does it.
        """
        use = self.usable()
        slope = np.where(use & np.isfinite(self.slope), self.slope, 0.0)
        with np.errstate(invalid="ignore"):
            intercept = np.where(use & (self.intercept > 0), self.intercept, 0.0)
        endless = use & ~np.isfinite(self.slope)
        predicted = np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            block = x[start : start + BLOCK]
            with np.errstate(invalid="ignore"):
                present = block > 0
                plain = block.min(initial=0.0) >= 0 and block.max(initial=0.0) < np.inf
            # an infinite time of a dropped class is no 0 * inf
            held = block if plain else np.where(present & use, block, 0.0)
            with np.errstate(invalid="ignore", over="ignore"):
                row = held @ slope + present @ intercept
            if endless.any():
                row[(present & endless).any(axis=1)] = np.inf
            predicted[start : start + BLOCK] = row
        return predicted


@dataclass(frozen=True)
class Sums:
    """Upstream's six plain sums per class, shape (classes,) each. ``rows`` counts the intervals that took part."""

    n: np.ndarray
    sx: np.ndarray
    sz: np.ndarray
    sxx: np.ndarray
    sxz: np.ndarray
    szz: np.ndarray
    rows: int = 0

    @classmethod
    def zero(cls, classes: int) -> Sums:
        """No interval yet."""
        n, sx, sz, sxx, sxz, szz = np.zeros((6, classes))
        return cls(n, sx, sz, sxx, sxz, szz)

    def add(self, x: np.ndarray, y: np.ndarray) -> Sums:
        """With the intervals ``x`` (rows, classes) and ``y`` (rows,) added one after the other: O(cells)."""
        kept = [getattr(self, name).copy() for name in ("n", "sx", "sz", "sxx", "sxz", "szz")]
        rows = self.rows
        classes = x.shape[1]
        # Row by row on top of what is there: axis-0 reduction of a C-ordered array adds in row order, as a program
        # that reads line by line does, so the rounding is upstream's. (A single column would be added pairwise: it
        # gets an empty neighbour.)
        stack = np.zeros((min(BLOCK, len(x)) + 1, max(classes, 2)))
        for start in range(0, len(x), BLOCK):
            held, present, shares, taken = _shares(x[start : start + BLOCK], y[start : start + BLOCK])
            rows += taken
            end = len(held) + 1
            kept[0] += _count(present)
            pairs = ((held, None), (shares, None), (held, held), (held, shares), (shares, shares))
            with np.errstate(invalid="ignore", over="ignore"):
                for i, (one, other) in enumerate(pairs, 1):
                    stack[0, :classes] = kept[i]
                    if other is None:
                        stack[1:end, :classes] = one
                    else:
                        np.multiply(one, other, out=stack[1:end, :classes])
                    kept[i] = np.add.reduce(stack[:end], axis=0)[:classes]
        n, sx, sz, sxx, sxz, szz = kept
        return Sums(n, sx, sz, sxx, sxz, szz, rows)

    def merge(self, other: Sums) -> Sums:
        """Sums of both batches."""
        return Sums(
            self.n + other.n,
            self.sx + other.sx,
            self.sz + other.sz,
            self.sxx + other.sxx,
            self.sxz + other.sxz,
            self.szz + other.szz,
            self.rows + other.rows,
        )

    def lines(self) -> Lines:
        """The lines by upstream's formulas, rounding traps included."""
        n, sx, sz = self.n, self.sx, self.sz
        with np.errstate(all="ignore"):
            a = n * self.sxx - sx * sx
            b = n * self.szz - sz * sz
            c = n * self.sxz - sx * sz
            slope = np.where(n == 0, 0.0, np.where(n == 1, sz / sx, c / a))
            intercept = np.where(n < 2, 0.0, (sz - slope * sx) / n)
            r2 = np.where(n < 2, 0.0, c * c / (a * b))
            scatter = np.sqrt((b - c * c / a) / (n - 2))
            mean = sx / n
            slope_se = np.where(n < 3, 0.0, scatter / np.sqrt(a))
            wrong = np.where(n < 3, 0.0, scatter * np.sqrt(1 / n + mean * mean / a))
            # Rounding can push the residual sum of squares just below 0 where the truth is 0; only our own column
            # corrects that.
            right = np.where(
                n < 3, 0.0, np.sqrt(np.maximum(b - c * c / a, 0) / (n * (n - 2))) * np.sqrt(1 / n + n * mean**2 / a)
            )
        return Lines(n, slope, intercept, r2, slope_se, wrong, right, np.zeros(len(n), bool), sx)


@dataclass(frozen=True)
class Moments:
    """The safe six: count, means and centred products per class, and the extremes of x. Mergeable (Chan and others).

    ``low`` is 0 for a class that clearly has spread: what its smallest x is makes no difference then.
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
        """No interval yet."""
        n, mean_x, mean_z, mxx, mxz, mzz, high = np.zeros((7, classes))
        return cls(n, mean_x, mean_z, mxx, mxz, mzz, np.full(classes, np.inf), high)

    def add(self, x: np.ndarray, y: np.ndarray) -> Moments:
        """With intervals added; rows with a value that is not finite are left out."""
        found = self
        for start in range(0, len(x), BLOCK):
            block, target = x[start : start + BLOCK], y[start : start + BLOCK]
            if not (_within(block) and _within(target)):
                with np.errstate(invalid="ignore", over="ignore"):
                    fine = (np.abs(target) < HUGE) & (block.max(axis=1, initial=0.0) < HUGE)
                    fine &= block.min(axis=1, initial=0.0) > -HUGE
                block, target = block[fine], target[fine]
            found = found.merge(_moments(block, target))
        return found

    def merge(self, other: Moments) -> Moments:
        """Moments of both batches."""
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
        """The lines; a class without spread goes through the origin and its mean, and says so."""
        n = self.n
        with np.errstate(all="ignore"):
            flat = (n > 1) & (self.high - self.low <= NO_SPREAD * self.high)
            origin = (n == 1) | flat
            slope = np.where(n == 0, 0.0, np.where(origin, self.mean_z / self.mean_x, self.mxz / self.mxx))
            intercept = np.where(origin | (n == 0), 0.0, self.mean_z - slope * self.mean_x)
            r2 = np.where(origin | (n == 0), 0.0, self.mxz**2 / (self.mxx * self.mzz))
            r2 = np.where(np.isfinite(r2), r2, 0.0)
            rest = np.maximum(self.mzz - self.mxz**2 / self.mxx, 0.0)
            scatter = np.sqrt(rest / (n - 2))
            known = (n > 2) & ~flat
            slope_se = np.where(known, scatter / np.sqrt(self.mxx), 0.0)
            right = np.where(known, scatter * np.sqrt(1 / n + self.mean_x**2 / self.mxx), 0.0)
        return Lines(n, slope, intercept, r2, slope_se, right, right, flat, n * self.mean_x)


@dataclass(frozen=True)
class Quality:
    """How predictions meet actuals: upstream's last line. Regression of predicted on actual; ``mape`` a fraction."""

    rows: int
    slope: float
    slope_stderr: float
    intercept: float
    intercept_stderr: float
    r2: float
    mape: float


def quality(actual: np.ndarray, predicted: np.ndarray) -> Quality:
    """Upstream's measures over the rows whose actual is not 0 (mape is NaN without any)."""
    use = actual != 0
    actual, predicted = actual[use], predicted[use]
    one = np.ones((len(actual), 1))
    with np.errstate(all="ignore"):
        stack = np.column_stack([one[:, 0], actual, predicted, actual**2, actual * predicted, predicted**2])
        n, sx, sz, sxx, sxz, szz = np.add.reduce(np.vstack([np.zeros(6), stack]), axis=0)[:, None]
        line = Sums(n, sx, sz, sxx, sxz, szz).lines()
        mape = float(np.mean(np.abs((actual - predicted) / actual))) if len(actual) else float("nan")
    return Quality(
        len(actual),
        float(line.slope[0]),
        float(line.slope_stderr[0]),
        float(line.intercept[0]),
        float(line.intercept_stderr[0]),
        float(line.r2[0]),
        mape,
    )


def _within(values: np.ndarray) -> bool:
    """Whether no value is HUGE or NaN."""
    with np.errstate(invalid="ignore"):
        return bool(values.min(initial=0.0) > -HUGE and values.max(initial=0.0) < HUGE)


def _count(present: np.ndarray) -> np.ndarray:
    """Rows (at most BLOCK) with each class (classes,)."""
    return np.asarray(present.view(np.uint8).sum(axis=0, dtype=np.uint8), float)


def _shares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Times, presence and shares (rows, classes) of the rows that count (y and the sum of times are not 0)."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        total = x.sum(axis=1)
        use = (y != 0) & (total != 0)
        if not use.all():
            x, y, total = x[use], y[use], total[use]
        present = x > 0
        held = x if x.min(initial=0.0) >= 0 else np.where(present, x, 0.0)
        shares = held * (y / total)[:, None]
        if not np.isfinite(shares).all():
            shares = np.where(present, shares, 0.0)
    return held, present, shares, len(x)


def _moments(x: np.ndarray, y: np.ndarray) -> Moments:
    held, present, shares, rows = _shares(x, y)
    n = _count(present)
    with np.errstate(all="ignore"):
        mean_x = np.where(n > 0, held.sum(axis=0) / n, 0.0)
        mean_z = np.where(n > 0, shares.sum(axis=0) / n, 0.0)
    dx, dz = held - mean_x, shares - mean_z
    dx *= present
    dz *= present
    mxx = np.einsum("ij,ij->j", dx, dx)
    high = held.max(axis=0, initial=0.0)
    near = mxx <= n * (CLEAR_SPREAD * high) ** 2
    low = np.zeros(len(n))
    low[near] = np.where(present[:, near], held[:, near], np.inf).min(axis=0, initial=np.inf)
    return Moments(
        n, mean_x, mean_z, mxx, np.einsum("ij,ij->j", dx, dz), np.einsum("ij,ij->j", dz, dz), low, high, rows
    )  # fmt: skip
