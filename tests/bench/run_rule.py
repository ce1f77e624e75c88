"""The run comparison: how often its rule calls a metric worse that is, and one that is not (300 trials each)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight import statistical
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.significance import benjamini_hochberg
from tests.bench.line import Line

TRIALS, RUNS, NOISE, FAMILY = 300, 20, 0.01, 100


def _trials(factor: float, runs: int, number: int, seed: int, spike: float = 1.0) -> Samples:
    """Return a metric per trial: ``runs`` values a side, on the right times ``factor``, one of them times ``spike``."""
    rng = np.random.default_rng(seed)
    left, right = rng.lognormal(0.0, NOISE, (number, runs)), factor * rng.lognormal(0.0, NOISE, (number, runs))
    right[:, 0] *= spike
    place, ends = np.tile(np.arange(runs, dtype=np.int32), number), np.arange(0, number * runs + 1, runs)
    return Samples(Side(left.ravel(), place, ends, runs), Side(right.ravel(), place, ends, runs))


def worse(samples: Samples, least: float, family: int = 1) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return per metric whether it is significantly higher, and whether the rule calls it worse: families of ``family``
    metrics are corrected together, changes from ``least`` on count."""
    evidence = statistical.gather(samples, 0.05)
    q = np.concatenate([benjamini_hochberg(part) for part in np.split(evidence.p_value, samples.count // family)])
    significant = (q <= 0.05) & (evidence.shift > 0)
    large = statistical.is_large(statistical.as_ratio(evidence, evidence.shift), samples, np.full(samples.count, least))
    return significant, significant & large


def run() -> list[Line]:
    """Measure the shares of trials."""
    small, quarter = (
        worse(_trials(by, RUNS, TRIALS, 1), least)[1].mean() for by, least in ((1.05, 0.03), (1.25, 0.05))
    )
    same = _trials(1.0, RUNS, TRIALS * FAMILY, 2)
    raw, called = worse(same, 0.03)
    corrected, _ = worse(same, 0.0, FAMILY)
    spiked = worse(_trials(1.0, 5, TRIALS, 3, spike=10.0), 0.05)[1].mean()
    return [
        Line("x 1.05 is called worse, worse-by 0.03", 100 * float(small), "%", note="goal: at least 95"),
        Line("x 1.25 is called worse", 100 * float(quarter), "%", note="goal: 100"),
        Line("the same is called worse, worse-by 0.03", 100 * float(called.mean()), "%", note="goal: at most 1"),
        Line("the same is significantly higher", 100 * float(raw.mean()), "%", note="goal: at most 5"),
        Line("the same is significantly higher, corrected", 100 * float(corrected.mean()), "%", note="goal: at most 1"),
        Line("one spike of five is called worse", 100 * float(spiked), "%", note="goal: 0"),
    ]
