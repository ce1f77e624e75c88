"""What a fit of all classes at once is made on, and the costs that come of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.query_profile.estimators.residuals import USUAL_LIMIT


@dataclass(frozen=True)
class Design:
    """What a fit is made on: ``columns`` (T, P) of which ``owner`` (P,) names the class of each (-1: background), and
    ``role`` (P,) what it counts: 0 time, 1 calls, 2 background. ``y`` (T,)."""

    columns: np.ndarray
    owner: np.ndarray
    role: np.ndarray
    y: np.ndarray
    classes: int

    def totals(self, cost: np.ndarray) -> np.ndarray:
        """CPU per class (classes,) for the costs (P,)."""
        own = self.owner >= 0
        return np.bincount(
            self.owner[own], weights=(self.columns.sum(axis=0) * cost)[own], minlength=self.classes
        )  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """Costs of one method. ``time`` (J,) CPU us per us of elapsed time, ``call`` (J,) CPU us per call, ``background`` CPU
    us per interval of usual length; ``draws`` (B, J) CPU totals of the bootstrap, empty where the method has none."""

    method: str
    time: np.ndarray
    call: np.ndarray
    background: float
    draws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    sigma: float = float("nan")
    shared: float = float("nan")
    """Cost that an unknown class would be given (prior mean)."""
    spread: float = float("nan")
    """How far single classes may lie from it (prior standard deviation)."""
    ahead: np.ndarray | None = None
    """(J,) costs per time that predict other intervals best (some below 0), where they are not ``time``."""
    ahead_background: float = 0.0

    def explained(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """CPU (T,) of intervals by the costs of the classes; ``length`` (T,) relative to the usual one."""
        row = np.maximum(x, 0) @ self.time + self.background * length
        return np.asarray(row if calls is None else row + np.maximum(calls, 0) @ self.call)

    def predict(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """CPU (T,) of other intervals."""
        explained = self.explained(x, calls, length)
        if self.ahead is None:
            return explained
        better = np.maximum(x, 0) @ self.ahead + self.ahead_background * length
        return np.asarray(np.clip(better, 0.5 * explained, 2 * explained))


def lengths(seconds: np.ndarray) -> np.ndarray:
    """Background column: interval lengths relative to the usual one; ones where they are not known."""
    known = np.isfinite(seconds) & (seconds > 0)
    if not known.all() or not len(seconds):
        return np.ones(len(seconds))
    return np.asarray(seconds / np.median(seconds))


def design(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Design:
    """The design of all classes that did anything in these intervals."""
    classes = x.shape[1]
    own = np.flatnonzero((x > 0).any(axis=0))
    parts = [np.maximum(x[:, own], 0.0)]
    owners, roles = [own], [np.zeros(len(own), int)]
    if calls is not None:
        called = np.flatnonzero((calls > 0).any(axis=0))
        parts.append(np.maximum(calls[:, called], 0.0))
        owners.append(called)
        roles.append(np.ones(len(called), int))
    parts.append(lengths(seconds)[:, None])
    owners.append(np.array([-1]))
    roles.append(np.array([2]))
    return Design(np.hstack(parts), np.concatenate(owners), np.concatenate(roles), y, classes)


def split(found: Design, cost: np.ndarray, method: str) -> Costs:
    """Costs (P,) of a design as costs per class."""
    time, call = np.zeros(found.classes), np.zeros(found.classes)
    time[found.owner[found.role == 0]] = cost[found.role == 0]
    call[found.owner[found.role == 1]] = cost[found.role == 1]
    return Costs(method, time, call, float(cost[found.role == 2].sum()))


@dataclass(frozen=True)
class Recipe:
    """How the default estimate weighs. ``power``: see ``weights``; ``k``: Huber's limit in robust standard deviations;
    ``draws``: bootstrap replicates; ``seed`` of the only random generator; ``sampled``: draw from the posterior of times
    (without it only what predicts is fitted)."""

    power: float = 1.0
    k: float = USUAL_LIMIT
    rounds: int = 6
    draws: int = 100
    seed: int = 1
    sampled: bool = True
