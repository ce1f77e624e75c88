"""Sides of a comparison made from arrays, for tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.samples import Side, pool

Run = list[tuple[int, float]]
"""Metric and value of each value of one run, in sample order."""


def side_of(rows: NDArray[np.float64]) -> Side:
    """A side of one value per metric (rows) and run (columns, the newest first)."""
    metrics, n = rows.shape
    place = np.tile(np.arange(n, dtype=np.int32), metrics)
    return Side(rows.ravel(), place, np.arange(0, metrics * n + 1, n), n)


def pooled(runs: list[Run], metrics: int) -> Side:
    """A side made at once of runs, the oldest first."""
    parts = []
    for place, run in enumerate(reversed(runs)):
        which = np.array([metric for metric, _ in run], dtype=np.int64)
        parts.append((place, which, np.array([value for _, value in run], dtype=np.float64)))
    return pool(parts, metrics, len(runs))


def random_runs(
    rng: np.random.Generator, count: int, metrics: int, *, level: float = 4.0, ragged: float = 0.0, ties: bool = False
) -> list[Run]:
    """Runs of lognormal values; ``ragged``: chance that a run lacks a metric, or has two values of it. With ``ties``
    every third metric holds small whole numbers (with zeros), every fourth one is constant, every fifth negative."""
    runs: list[Run] = []
    for _ in range(count):
        run: Run = []
        for metric in range(metrics):
            chance = rng.random()
            if chance < ragged / 2:
                continue
            for _ in range(2 if chance > 1.0 - ragged / 2 else 1):
                value = float(rng.lognormal(level, 0.2))
                if ties and metric % 3 == 0:
                    value = float(rng.integers(0, 4))
                elif ties and metric % 4 == 0:
                    value = 7.0 if rng.random() < 0.97 else 9.0
                elif ties and metric % 5 == 0:
                    value = float(rng.normal(0.0, 50.0))
                run.append((metric, value))
        runs.append(run)
    return runs
