"""The design matrix that all classes are fitted on together, the costs that a fit finds, and the weights of intervals.

Outliers are down-weighted by their residuals, and correlated errors are whitened.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

TIME, CALLS, BACKGROUND = 0, 1, 2  # roles of the columns of a design matrix

TIED = 1e-5  # part of the columns, relative to the largest, that tells nothing: it is their rounding


class Design(msgspec.Struct, frozen=True):
    """A design matrix: ``columns`` (T, P), the class ``owner`` (P,) of each (-1: background) and its ``role`` (P,);
    ``classes``: number of classes, including those without a column."""

    columns: np.ndarray
    owner: np.ndarray
    role: np.ndarray
    classes: int

    def totals(self, costs: np.ndarray) -> np.ndarray:
        """Return the CPU per class (B, classes) over all rows for each of the ``costs`` (B, P) of the columns."""
        work = costs * self.columns.sum(axis=0)
        total = np.zeros((len(costs), self.classes))
        for role in (TIME, CALLS):
            here = self.role == role
            total[:, self.owner[here]] += work[:, here]
        return total

    def inseparable(self) -> list[np.ndarray]:
        """Return groups of columns of several owners, as masks (P,): some of a group's costs can grow and others fall without a
        change in any interval, so only their sum is known. None where there are hardly more intervals than columns."""
        if len(self.columns) <= len(self.owner):
            return []
        scaled = self.columns / self.columns.max(axis=0)
        sizes, vectors = np.linalg.eigh(scaled.T @ scaled)
        free = vectors[:, sizes <= TIED**2 * sizes[-1]]
        shared = np.abs(free @ free.T) > 1e-4
        told = shared.diagonal()
        return [group for group in np.unique(shared[told] & told, axis=0) if len(set(self.owner[group].tolist())) > 1]

    def costs(self, cost: np.ndarray) -> Costs:
        """Return the costs (P,) of the columns as costs of classes."""
        time, call = np.zeros(self.classes), np.zeros(self.classes)
        time[self.owner[self.role == TIME]] = cost[self.role == TIME]
        call[self.owner[self.role == CALLS]] = cost[self.role == CALLS]
        return Costs(time, call, float(cost[self.role == BACKGROUND].sum()))


class Costs(msgspec.Struct, frozen=True):
    """Costs of all classes by one method.

    ``time`` (J,): CPU microseconds per microsecond of elapsed time; ``call`` (J,): CPU microseconds per call;
    ``background``: CPU microseconds per interval of usual length; ``draws`` (B, J): CPU totals of the bootstrap or the
    posterior, empty where the method has none; ``predictive`` (J,), ``predictive_background``: costs per time that predict
    other intervals best (may be negative); None: use ``time`` and ``background``.
    """

    time: np.ndarray
    call: np.ndarray
    background: float
    draws: np.ndarray = msgspec.field(default_factory=lambda: np.zeros((0, 0)))
    predictive: np.ndarray | None = None
    predictive_background: float = 0.0

    def explained(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """Return the CPU (T,) of intervals by the costs of the classes; ``length`` (T,) relative to the usual one."""
        with np.errstate(over="ignore", invalid="ignore"):
            row = np.maximum(x, 0) @ self.time + self.background * length
            return np.asarray(row if calls is None else row + np.maximum(calls, 0) @ self.call)

    def predict(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """Predict the CPU (T,) of other intervals."""
        explained = self.explained(x, calls, length)
        if self.predictive is None:
            return explained
        better = np.maximum(x, 0) @ self.predictive + self.predictive_background * length
        return np.asarray(np.clip(better, 0.5 * explained, 2 * explained))


def lengths(seconds: np.ndarray) -> np.ndarray:
    """Return the background column (T,): interval lengths relative to the median; all ones if any length is unknown."""
    if not (np.isfinite(seconds) & (seconds > 0)).all() or not len(seconds):
        return np.ones(len(seconds))
    return np.asarray(seconds / np.median(seconds))


def build_design(x: np.ndarray, calls: np.ndarray | None, seconds: np.ndarray) -> Design:
    """Build the design matrix of all classes that did anything in the intervals: times ``x`` and ``calls`` (T, J), then the
    background by ``seconds`` (T,)."""
    own, called = np.flatnonzero((x > 0).any(axis=0)), np.zeros(0, np.int64)
    parts = [np.maximum(x[:, own], 0.0)]
    if calls is not None:
        called = np.flatnonzero((calls > 0).any(axis=0))
        parts.append(np.maximum(calls[:, called], 0.0))
    parts.append(lengths(seconds)[:, None])
    role = np.repeat([TIME, CALLS, BACKGROUND], [len(own), len(called), 1])
    return Design(np.hstack(parts), np.r_[own, called, -1], role, x.shape[1])


def column_scale(columns: np.ndarray) -> np.ndarray:
    """Return the root mean square (P,) of each column, 1 for one of zeros."""
    scale = np.sqrt((columns**2).mean(axis=0))
    return np.where(scale == 0, 1.0, scale)


class FitOptions(msgspec.Struct, frozen=True):
    """Options of the default estimate.

    ``rounds`` of reweighting; ``draws``: bootstrap fits, or draws of the posterior; ``seed`` of the only random generator;
    ``sample``: draw from the posterior; without it only predictive costs are fitted.
    """

    rounds: int = 6
    draws: int = 100
    seed: int = 1
    sample: bool = True


FLOOR = 0.05  # share of the median y below which an interval's weight stops growing

GROSS = 5.0
"""Robust standard deviations from which an interval is down-weighted beyond Huber; its weight is 0 from twice that."""

USUAL_LIMIT = 1.345  # Huber's limit in robust standard deviations at which normal errors lose 5 % of their information

LIMITS = (0.4, 0.7, 1.0, USUAL_LIMIT, 2.0)
"""Huber limits to choose from: from almost least absolute errors to almost least squares."""


def weights(y: np.ndarray, power: float = 1.0) -> np.ndarray:
    """Return row weights (T,) for errors that grow with y to ``power``, scaled so that the median row weighs 1/median y."""
    median = float(np.median(y)) if len(y) else 1.0
    median = median if median > 0 else max(float(y.max(initial=0.0)), 1.0)
    return np.asarray(np.maximum(y, FLOOR * median) ** -power * median ** (power - 1))


def robust_scale(residual: np.ndarray) -> float:
    """Estimate the standard deviation of normal residuals (T,) by the median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if len(residual) else 0.0


def huber(residual: np.ndarray, limit: float) -> np.ndarray:
    """Return Huber weights (T,) of residuals; ``limit`` in robust standard deviations."""
    scale = robust_scale(residual)
    return (
        np.ones(len(residual))
        if scale <= 0
        else np.asarray(np.minimum(1.0, limit * scale / np.maximum(np.abs(residual), 1e-300)))
    )


def gross_weights(residual: np.ndarray) -> np.ndarray:
    """Return weights (T,) in [0, 1] that drop intervals with a gross residual: something other than the classes was running.

    If most intervals would be dropped, none is.
    """
    scale = robust_scale(residual)
    if scale <= 0:
        return np.ones(len(residual))
    weight = np.asarray(np.clip(2 - np.abs(residual) / (GROSS * scale), 0.0, 1.0) ** 2)
    return weight if 2 * np.count_nonzero(weight) > len(weight) else np.ones(len(weight))


def best_limit(residual: np.ndarray) -> float:
    """Return the smallest of ``LIMITS`` whose estimated variance E[psi^2] / E[psi']^2 is within 6 % of the best: a small one
    for errors with heavy tails, a large one for normal errors."""
    scale = robust_scale(residual)
    if scale <= 0:
        return USUAL_LIMIT
    u = residual / scale
    variances = [float((np.clip(u, -k, k) ** 2).mean()) / max(float((np.abs(u) < k).mean()), 1e-3) ** 2 for k in LIMITS]
    return next((k for k, v in zip(LIMITS, variances, strict=True) if v <= 1.06 * min(variances)), USUAL_LIMIT)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the correlation of two series (T,); NaN where either does not vary."""
    if len(one) < 2:
        return math.nan
    rows = np.array([one, other])
    rows -= rows.mean(axis=1)[:, None]
    products = rows @ rows.T * (1 / (len(one) - 1))
    first, second = np.sqrt(products.diagonal())
    return float(np.clip(products[0, 1] / first / second, -1, 1)) if first > 0 and second > 0 else math.nan


def autocorrelation(residual: np.ndarray, lag: int) -> float:
    """Return the correlation of residuals ``lag`` intervals apart, outliers clipped; 0 for too few."""
    if len(residual) <= 4 * lag:
        return 0.0
    limit = 4 * float(np.median(np.abs(residual)))
    clipped = np.clip(residual, -limit, limit)
    return float(np.nan_to_num(correlation(clipped[lag:], clipped[:-lag])))


def short_memory(residual: np.ndarray) -> float:
    """Return the part (0-0.8) of the residuals' autocorrelation that vanishes within three intervals.

    That part is noise, and whitening it sharpens the estimate. Slow drift is a misfit that differencing would enlarge.
    """
    return float(np.clip(autocorrelation(residual, 1) - max(autocorrelation(residual, 3), 0.0), 0.0, 0.8))


def whiten(rows: np.ndarray, rho: float) -> np.ndarray:
    """Subtract ``rho`` times the row before from each of ``rows`` (T, ...) (Prais and Winsten)."""
    if rho == 0 or not len(rows):
        return rows
    out = rows.copy()
    out[1:] -= rho * rows[:-1]
    out[0] *= math.sqrt(1 - rho * rho)
    return out
