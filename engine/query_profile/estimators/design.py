"""The design matrix that all classes are fitted on together, the costs that a fit finds, and the options of a fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

TIME, CALLS, BACKGROUND = 0, 1, 2
"""Roles of the columns of a design matrix."""


@dataclass(frozen=True)
class Design:
    """A design matrix: ``columns`` (T, P), the class ``owner`` (P,) of each (-1: background) and its ``role`` (P,);
    ``classes``: how many there are, those without a column included."""

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

    def costs(self, cost: np.ndarray) -> Costs:
        """Return the costs (P,) of the columns as costs of classes."""
        time, call = np.zeros(self.classes), np.zeros(self.classes)
        time[self.owner[self.role == TIME]] = cost[self.role == TIME]
        call[self.owner[self.role == CALLS]] = cost[self.role == CALLS]
        return Costs(time, call, float(cost[self.role == BACKGROUND].sum()))


@dataclass(frozen=True)
class Costs:
    """Costs of all classes by one method.

    ``time`` (J,): CPU microseconds per microsecond of elapsed time; ``call`` (J,): CPU microseconds per call;
    ``background``: CPU microseconds per interval of usual length; ``draws`` (B, J): CPU totals of the bootstrap or the
    posterior, empty where the method has none; ``predictive`` (J,), ``predictive_background``: costs per time that predict
    other intervals best (some below 0), None where those are ``time`` and ``background``.
    """

    time: np.ndarray
    call: np.ndarray
    background: float
    draws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
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
    """Return the background column (T,): lengths of the intervals relative to the median, ones where any is unknown."""
    known = np.isfinite(seconds) & (seconds > 0)
    if not known.all() or not len(seconds):
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


@dataclass(frozen=True)
class FitOptions:
    """Options of the default estimate.

    ``rounds`` of reweighting; ``draws``: bootstrap fits, or draws of the posterior; ``seed`` of the only random generator;
    ``sample``: draw from the posterior (without it only what predicts is fitted).
    """

    rounds: int = 6
    draws: int = 100
    seed: int = 1
    sample: bool = True
