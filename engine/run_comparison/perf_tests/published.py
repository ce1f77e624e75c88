"""Design mode: the comparison as the seed document describes it, with cutoffs, similarity scores and a verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import MetricKey, Samples, Side
from engine.stats.ranks import merge

_PERCENTILE = re.compile(r"(?:perc|percentile|p)?[\s(_]*(\d{1,3}(?:\.\d+)?)\)?(?:th percentile)?", re.IGNORECASE)


class Similarity(Protocol):
    """A measure of how alike two samples are. Adding one is one small class in ``SIMILARITIES``."""

    name: str

    def score(self, left: Floats, right: Floats) -> Floats:
        """0 (nothing in common) to 1 (alike) per row of ``left`` [k, n1] and ``right`` [k, n2]."""
        ...


class RatioSimilarity:
    """The smaller mean over the larger one."""

    name = "ratio"

    def score(self, left: Floats, right: Floats) -> Floats:
        """1 for two zero means, 0 for means of different sign."""
        return self.of_means(left.mean(axis=1), right.mean(axis=1))

    def of_means(self, a: Floats, b: Floats) -> Floats:
        """The same from the means, which is all it takes: so no run is looked at twice."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.minimum(a, b) / np.maximum(a, b)
            ratio = np.where((a < 0) & (b < 0), np.maximum(a, b) / np.minimum(a, b), ratio)
        return np.where(a == b, 1.0, np.clip(np.nan_to_num(ratio), 0.0, 1.0))


class DistributionSimilarity:
    """One minus the Kolmogorov-Smirnov distance."""

    name = "distribution"

    def score(self, left: Floats, right: Floats) -> Floats:
        """Sensitive to level, spread and shape."""
        return 1.0 - merge(left, right).distance


class OverlapSimilarity:
    """One minus the absolute value of Cliff's delta."""

    name = "overlap"

    def score(self, left: Floats, right: Floats) -> Floats:
        """1 if neither side tends to be larger."""
        return 1.0 - np.abs(merge(left, right).cliffs_delta)


SIMILARITIES: dict[str, Similarity] = {
    s.name: s for s in (RatioSimilarity(), DistributionSimilarity(), OverlapSimilarity())
}


def percentile_of(bucket: str) -> str | None:
    """``"90"`` for Perc90, P90, p(90), 90 and the like."""
    found = _PERCENTILE.fullmatch(bucket.strip())
    return found[1] if found else None


def chosen(keys: Sequence[MetricKey], percentiles: Sequence[str], kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Which metrics design mode compares: kinds that are part of its set (or the named ones) at the percentiles."""
    wanted = set(percentiles)
    return np.array(
        [
            (key.kind in kinds if kinds else key.kind in BY_NAME and BY_NAME[key.kind].chosen)
            and percentile_of(key.bucket) in wanted
            for key in keys
        ],
        dtype=bool,
    )


@dataclass(frozen=True, slots=True)
class DesignAnswer:
    """Per metric: means after substitution, their ratio, the score, and whether the ratio is within the limits. NaN
    and False where a side is empty or the metric is not part of the set."""

    compared: NDArray[np.bool_]
    mean_left: Floats
    mean_right: Floats
    ratio: Floats
    similarity: Floats
    matched: NDArray[np.bool_]


def compare(
    keys: Sequence[MetricKey],
    samples: Samples,
    part: NDArray[np.bool_],
    similarity: str,
    lower: float,
    upper: float,
) -> DesignAnswer:
    """Values below a kind's cutoff count as the cutoff (durations only); ratio of means left / right, both limits
    inclusive."""
    k = samples.count
    cut = np.full(k, -np.inf)
    for i, key in enumerate(keys):
        kind = BY_NAME.get(key.kind)
        if kind is not None and kind.cutoff is not None and key.unit == "ms":
            cut[i] = kind.cutoff
    left, right = samples.left, samples.right
    name = f"means from {cut.tobytes().hex()} of {np.packbits(part).tobytes().hex()}"
    mean_left, mean_right = (side.once(name, lambda side: _means(side, cut, part)) for side in (left, right))
    compared = part & (left.sizes > 0) & (right.sizes > 0)
    mean_left, mean_right = (np.where(compared, means, np.nan) for means in (mean_left, mean_right))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(mean_left == mean_right, 1.0, mean_left / mean_right)
        matched = compared & (ratio >= lower) & (ratio <= upper)
    measure = SIMILARITIES[similarity]
    score = np.full(k, np.nan)
    if isinstance(measure, RatioSimilarity):
        score[compared] = measure.of_means(mean_left[compared], mean_right[compared])
        return DesignAnswer(compared, mean_left, mean_right, ratio, score, matched)
    for metrics, n1, n2 in samples.shapes():
        metrics = metrics[compared[metrics]]
        if metrics.size:
            lowest = cut[metrics][:, None]
            one, other = np.maximum(left.rows(metrics, n1), lowest), np.maximum(right.rows(metrics, n2), lowest)
            score[metrics] = measure.score(one, other)
    return DesignAnswer(compared, mean_left, mean_right, ratio, score, matched)


_BLOCK = 65_536
"""Values looked at together: they stay in the cache."""


def _means(side: Side, cut: Floats, part: NDArray[np.bool_]) -> Floats:
    """Mean of each metric of ``part`` with values below its cutoff counting as the cutoff."""
    found = np.full(side.count, np.nan)
    for metrics, size in side.by_size():
        metrics = metrics[part[metrics]]
        step = max(1, _BLOCK // size)
        for start in range(0, metrics.size, step):
            some = metrics[start : start + step]
            found[some] = np.maximum(side.rows(some, size), cut[some][:, None]).mean(axis=1)
    return found
