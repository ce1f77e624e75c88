"""Made-up workloads whose truth is known, and the plain methods that the default estimate has to beat on them.

The reference sheet says of its generator: x is wall time only, 40 classes x 720 intervals, noise 5 %, and a name per
scenario. The rest (how unequal classes are, how their times vary, who is correlated with whom, what an outlier is) is set
here, once for all scenarios, so that the plain methods (ratio, WLR, OLS, NNLS, EM, EB) come out near the sheet's table. A
search over class sizes, waves, ups and downs and noise found no setting that meets every column at once: EM with noise of
2 % and EB with costs of log-sd 1 stay apart. ``python -m tests.bench._query_scenarios`` prints both side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from engine.query_profile import estimate
from engine.query_profile.wlr import Moments

COLUMNS = ("ratio", "wlr", "ols", "nnls+bg", "em100", "eb", "ln")
SHEET = {
    "costs within 25 %": (0.21, 0.18, 0.18, 0.15, 0.08, 0.07, 0.07),
    "costs log-sd 1": (0.73, 0.67, 0.17, 0.14, 0.25, 0.09, 0.09),
    "correlated classes": (0.37, 0.35, 0.27, 0.21, 0.30, 0.14, 0.13),
    "bursty and a sleeper": (0.53, 0.42, 0.21, 0.13, 0.20, 0.07, 0.08),
    "queueing elbow": (0.34, 0.35, 1.14, 0.93, 0.95, 0.65, 0.49),
    "background and lag": (0.44, 0.42, 0.34, 0.33, 0.39, 0.29, 0.24),
    "outlier intervals": (0.34, 0.33, 0.73, 0.41, 0.21, 0.09, 0.09),
    "30 rows, 60 classes": (0.35, 0.33, 1.36, 0.77, 0.25, 0.27, 0.25),
    "200 classes, 80 rare": (0.47, 0.46, 0.52, 0.33, 0.25, 0.17, 0.15),
    "noise 2 %": (0.37, 0.34, 0.07, 0.06, 0.20, 0.05, 0.05),
    "costs double midway": (0.47, 0.43, 0.44, 0.34, 0.27, 0.30, 0.31),
    "AR(1) noise .6": (0.40, 0.38, 0.17, 0.14, 0.20, 0.10, 0.09),
}
"""Misattribution by scenario and method in the reference sheet."""

REMEDIED = {"queueing elbow": 0.17, "costs double midway": 0.09}
"""Misattribution of the sheet's remedies, switched on by hand."""


def best_of_sheet(name: str) -> float:
    """The lowest misattribution that the sheet has for a scenario, remedies included."""
    return min(*SHEET[name], REMEDIED.get(name, 9.0))


@dataclass(frozen=True)
class Scenario:
    """Times (T, J) as a server would report them, CPU (T,), true CPU per class (J,)."""

    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def scenario(name: str, seed: int, *, other: bool = False) -> Scenario:
    """One draw of the scenario called ``name``; ``other``: classes less unequal, all on one daily wave, gamma ups and downs:
    a generator on which nothing was tuned."""
    rng = np.random.default_rng(1000 + seed)
    rows, classes = (30, 60) if name == "30 rows, 60 classes" else (720, 200 if name == "200 classes, 80 rare" else 40)
    spread = {"costs within 25 %": 0.25, "costs log-sd 1": 1.0}.get(name, 0.5)
    noise = 0.02 if name == "noise 2 %" else 0.05
    cost = 0.6 * np.exp(rng.normal(0, spread, classes))
    size = 1e6 * np.exp(rng.normal(0, 1.0 if other else 1.5, classes))
    # a daily wave of which classes see different hours, and their own ups and downs
    hour = np.arange(rows)[:, None] / rows * 2 * np.pi
    phase = rng.uniform(0, 2 * np.pi) + (0.0 if other else 0.3) * rng.uniform(-np.pi, np.pi, classes)
    own = 0.2 if name == "correlated classes" else 0.38
    if other:
        ups = rng.gamma(own**-2, own**2, (rows, classes))
    else:
        ups = np.exp(rng.normal(0, own, (rows, classes)))
    x = size * (1 + 0.3 * np.sin(hour + phase)) * ups
    if name == "correlated classes":
        x = x * np.exp(rng.normal(0, 0.3, (rows, 4)))[:, rng.integers(0, 4, classes)]
    if name == "bursty and a sleeper":
        bursty = rng.random(classes) < 0.5
        on = np.repeat(rng.random((rows // 40, classes)) < 0.7, 40, axis=0)
        x = np.where(bursty, x * on, x)
        x[:, 0] = 0.15 / 0.85 * x[:, 1:].sum(axis=1).mean() * np.exp(rng.normal(0, 0.1, rows))
        cost[0] = 0.002
    if name == "200 classes, 80 rare":
        x[:, :80] *= rng.random((rows, 80)) < 0.02
    used = x * cost
    if name == "costs double midway":
        used[rows // 2 :, np.argsort(-used.sum(axis=0))[1]] *= 2
    y = used.sum(axis=1)
    seen = x
    if name == "queueing elbow":
        seen = x / (1 - 0.93 * y / y.max())[:, None]
    if name == "background and lag":
        y = 0.75 * y + 0.25 * np.r_[y[0], y[:-1]] + 0.3 * y.mean()
    error = rng.normal(size=rows)
    if name == "AR(1) noise .6":
        for t in range(1, rows):
            error[t] = 0.6 * error[t - 1] + 0.8 * error[t]
    y = y * (1 + noise * error)
    if name == "outlier intervals":
        y = y * np.where(rng.random(rows) < 0.03, rng.uniform(0.2, 3, rows), 1)
    return Scenario(seen, np.maximum(y, 1.0), used.sum(axis=0))


def with_calls(seed: int) -> tuple[Scenario, np.ndarray]:
    """A server whose statements cost CPU by service time and by call, a fifth of them mostly waiting, 18 classes x 240
    intervals, noise 5 %; and the calls (T, J)."""
    rng = np.random.default_rng(5000 + seed)
    rows, classes = 240, 18
    rate, latency = np.exp(rng.normal(2, 1.5, classes)), np.exp(rng.normal(8.5, 1.2, classes))
    hour = np.arange(rows)[:, None] / rows * 2 * np.pi
    wave = 1 + 0.4 * np.sin(hour + rng.uniform(-1, 1, classes))
    calls = rng.poisson(rate * wave * rng.gamma(4, 0.25, (rows, classes))).astype(float)
    waiting = rng.gamma(2, 0.5, (rows, classes))
    x = calls * latency * (0.6 + 0.4 * waiting) * np.exp(rng.normal(0, 0.1, (rows, classes)))
    share = np.where(rng.random(classes) < 0.2, 0.001, rng.uniform(0.3, 1, classes))
    used = calls * (latency * 0.6 * share + np.exp(rng.normal(5.5, 1, classes)))
    total = used.sum(axis=1)
    return Scenario(x, total * (1 + 0.05 * rng.normal(size=rows)) + 0.02 * total.mean(), used.sum(axis=0)), calls


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


def empirical_bayes(x: np.ndarray, y: np.ndarray, rounds: int = 4) -> np.ndarray:
    """The sheet's EB: relative errors, costs b_j ~ N(b0, tau^2) with b0 by generalised least squares and lambda =
    sigma^2/tau^2 by marginal likelihood on a log grid (one decomposition), then non-negative least squares on the stacked
    system with a background that is not pulled; Huber weights. Costs (J,)."""
    w = 1 / np.maximum(y, 0.05 * np.median(y))
    scale = float(x.sum() / y.sum())
    a0, back0, t0 = x * w[:, None] / scale, np.median(y) * w, y * w
    row, b, size = np.ones(len(y)), np.zeros(x.shape[1]), x.shape[1]
    for _ in range(rounds):
        root = np.sqrt(row)
        a, back, t = a0 * root[:, None], back0 * root, t0 * root
        unit = back / np.linalg.norm(back)
        ap, tp = a - np.outer(unit, unit @ a), t - unit * (unit @ t)
        left, values, _ = np.linalg.svd(ap, full_matrices=False)
        u, both = ap.sum(axis=1), values**2
        lu, lt = left.T @ u, left.T @ tp
        best, strength, center = -np.inf, 1.0, 1.0
        for lam in both.max() * np.exp(np.linspace(math.log(1e-8), math.log(10), 60)):
            # (I + A A'/lam)^-1 through the decomposition
            less = both / (both + lam)
            uu, ut, tt = u @ u - less @ lu**2, u @ tp - less @ (lu * lt), tp @ tp - less @ lt**2
            b0 = max(float(ut / uu), 0.0)
            rss = max(float(tt - 2 * b0 * ut + b0 * b0 * uu), 1e-300)
            evidence = -0.5 * (len(y) - 1) * math.log(rss) - 0.5 * float(np.log1p(both / lam).sum())
            if evidence > best:
                best, strength, center = evidence, lam, b0
        pull = math.sqrt(strength)
        stacked = np.block([[a, back[:, None]], [pull * np.eye(size), np.zeros((size, 1))]])
        found = nnls(stacked, np.r_[t, np.full(size, pull * center)], maxiter=50 * (size + 1))[0]
        b = found[:-1]
        off = t0 - a0 @ b - back0 * found[-1]
        limit = 1.345 * 1.4826 * float(np.median(np.abs(off)))
        row = np.minimum(1.0, limit / np.maximum(np.abs(off), 1e-300))
    return np.asarray(b / scale)


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
        "eb": empirical_bayes(x, y) * time,
    }


if __name__ == "__main__":
    for each, sheet in SHEET.items():
        draws = [scenario(each, seed) for seed in range(12)]
        totals = [plain_methods(case.x, case.y) for case in draws]
        print(f"{each:24}", end="")
        for column, value in zip(COLUMNS[:6], sheet, strict=False):
            mine = np.median([error(t[column], case.truth) for t, case in zip(totals, draws, strict=True)])
            print(f"  {column} {mine:.2f} (sheet {value:.2f})", end="")
        print()
