"""Made-up workloads whose truth is known, and the plain methods that the default estimate has to beat on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.query_profile import estimate
from engine.query_profile.wlr import Moments

SHEET = {
    "costs within 25 %": 0.07,
    "costs log-sd 1": 0.09,
    "correlated classes": 0.13,
    "bursty and a sleeper": 0.07,
    "queueing elbow": 0.17,
    "background and lag": 0.24,
    "outlier intervals": 0.09,
    "30 rows, 60 classes": 0.25,
    "200 classes, 80 rare": 0.15,
    "noise 2 %": 0.05,
    "costs double midway": 0.09,
    "AR(1) noise .6": 0.09,
}
"""Scenario and the best column of the reference sheet (another generator: for orientation)."""


@dataclass(frozen=True)
class Scenario:
    """Times (T, J) as a server would report them, CPU (T,), true CPU per class (J,)."""

    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def scenario(name: str, seed: int) -> Scenario:
    """One draw of the scenario called ``name``."""
    rng = np.random.default_rng(1000 + seed)
    rows, classes, noise, spread = 720, 40, 0.05, 0.5
    if name == "costs within 25 %":
        spread = 0.25
    elif name == "costs log-sd 1":
        spread = 1.0
    elif name == "30 rows, 60 classes":
        rows, classes = 30, 60
    elif name == "200 classes, 80 rare":
        classes = 200
    elif name == "noise 2 %":
        noise = 0.02
    cost = 0.6 * np.exp(rng.normal(0, spread, classes))
    level = np.exp(rng.normal(0, 0.4, (rows, classes)))
    if name == "correlated classes":
        level = np.sqrt(level) * np.sqrt(np.exp(rng.normal(0, 0.4, (rows, 1))))
    else:
        level *= 1 + 0.3 * np.sin(np.linspace(0, 2 * np.pi, rows) + rng.uniform(0, 6.28))[:, None]
    x = 1e6 * np.exp(rng.normal(0, 1, classes)) * level
    if name == "bursty and a sleeper":
        x[rng.random(x.shape) >= 0.25] = 0
        x[:, 0] = 0.3 * x.sum(axis=1).mean() * np.exp(rng.normal(0, 0.1, rows))
        cost[0] = 0.002
    if name == "200 classes, 80 rare":
        x[:, :80] *= rng.random((rows, 80)) < 0.02
    used = x * cost
    if name == "costs double midway":
        used[rows // 2 :, np.argsort(-used.sum(axis=0))[:4]] *= 2
    y = used.sum(axis=1)
    seen = x
    if name == "queueing elbow":
        seen = x / (1 - 0.93 * y / y.max())[:, None]
    if name == "background and lag":
        y = y + 0.3 / 0.7 * y.mean()
        seen = 0.75 * x + 0.25 * np.vstack([x[:1], x[:-1]])
    if name == "outlier intervals":
        y = y * np.where(rng.random(rows) < 0.03, rng.uniform(2, 4, rows), 1)
    error = rng.normal(size=rows)
    if name == "AR(1) noise .6":
        for t in range(1, rows):
            error[t] = 0.6 * error[t - 1] + 0.8 * error[t]
    return Scenario(seen, np.maximum(y * (1 + noise * error), 1.0), used.sum(axis=0))


def error(found: np.ndarray, truth: np.ndarray) -> float:
    """Misattribution: sum |estimate - truth| / sum truth."""
    return float(np.abs(found - truth).sum() / truth.sum())


def multiplicative(x: np.ndarray, y: np.ndarray, rounds: int = 100) -> np.ndarray:
    """Iterated WLR: b_j <- b_j sum(x y / p) / sum(x), from the global ratio."""
    b = np.full(x.shape[1], y.sum() / x.sum())
    weight = np.maximum(x.sum(axis=0), 1e-300)
    for _ in range(rounds):
        p = x @ b
        b *= (x * (y / np.where(p > 0, p, 1.0))[:, None]).sum(axis=0) / weight
    return b


def plain_methods(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """CPU per class by the methods that the sheet compares."""
    time = x.sum(axis=0)
    unknown = np.full(len(y), np.nan)
    return {
        "ratio": time * y.sum() / x.sum(),
        "wlr": Moments.zero(x.shape[1]).add(x, y).lines().contributions(),
        "ols": estimate.ordinary(x, y, unknown).time * time,
        "nnls+bg": estimate.plain_nonnegative(x, None, y, unknown).time * time,
        "em100": multiplicative(x, y) * time,
    }
