"""Compare samples as the published description of the comparison does: cutoffs, ratio of means, similarity scores.

See docs/models/run-comparison.md, The published description.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.runs.measurements import Floats, MetricKey
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.ranks import merge

_PERCENTILE = re.compile(r"(?:perc|percentile|p)?[\s(_]*(\d{1,3}(?:\.\d+)?)\)?(?:th percentile)?", re.IGNORECASE)


def ratio_of_means(a: Floats, b: Floats) -> Floats:
    """Return the smaller mean over the larger one: 1 for two zero means, 0 for means of different sign."""
    ratio = np.minimum(a, b) / np.maximum(a, b)
    ratio = np.where((a < 0) & (b < 0), np.maximum(a, b) / np.minimum(a, b), ratio)
    return np.where(a == b, 1.0, np.maximum(np.nan_to_num(ratio), 0.0))


def similarity_of(measure: str, left: Floats, right: Floats) -> Floats:
    """Return how alike two samples are, 0 to 1, per row of ``left`` [k, n1] and ``right`` [k, n2].

    ``distribution``: one minus the Kolmogorov-Smirnov distance (level, spread and shape). ``overlap``: one minus the
    absolute value of Cliff's delta (1 if neither side tends to be larger).
    """
    merged = merge(left, right)
    return 1.0 - (merged.distance if measure == "distribution" else np.abs(merged.cliffs_delta))


def percentile_of(bucket: str) -> str | None:
    """Return ``"90"`` for Perc90, P90, p(90), 90 and the like, None for other buckets."""
    match = _PERCENTILE.fullmatch(bucket.strip())
    return match[1] if match else None


def metric_set(keys: Sequence[MetricKey], percentiles: Sequence[str], kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Return which metrics are compared: the kinds of the published set (or the given ones) at the percentiles."""
    wanted = set(percentiles)
    return np.array(
        [
            (key.kind in kinds if kinds else key.kind in BY_NAME and BY_NAME[key.kind].published)
            and percentile_of(key.bucket) in wanted
            for key in keys
        ],
        dtype=bool,
    )


@dataclass(frozen=True, slots=True)
class PublishedAnswer:
    """Per metric: means after the cutoff, their ratio, the similarity, and whether the ratio is within the limits.

    NaN and False if a side is empty or the metric is not in the set.
    """

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
) -> PublishedAnswer:
    """Compare the metrics that are ``part`` of the set: match ratios of means left / right from ``lower`` to ``upper``.

    Durations below the cutoff of their kind count as the cutoff.
    """
    cutoff = np.full(samples.count, -np.inf)
    for i, key in enumerate(keys):
        kind = BY_NAME.get(key.kind)
        if kind is not None and kind.cutoff is not None and key.unit == "ms":
            cutoff[i] = kind.cutoff
    compared = part & (samples.left.sizes > 0) & (samples.right.sizes > 0)
    mean_left, mean_right = (_means(side, cutoff, compared) for side in (samples.left, samples.right))
    ratio = np.where(mean_left == mean_right, 1.0, mean_left / mean_right)
    matched = compared & (ratio >= lower) & (ratio <= upper)
    score = np.full(samples.count, np.nan)
    if similarity == "ratio":
        score[compared] = ratio_of_means(mean_left[compared], mean_right[compared])
    for metrics, n1, n2 in samples.shapes() if similarity != "ratio" else ():
        metrics = metrics[compared[metrics]]
        if metrics.size:
            lowest = cutoff[metrics][:, None]
            left, right = (
                np.maximum(side.rows(metrics, n), lowest) for side, n in ((samples.left, n1), (samples.right, n2))
            )
            score[metrics] = similarity_of(similarity, left, right)
    return PublishedAnswer(compared, mean_left, mean_right, ratio, score, matched)


def passes(share: float | None, pass_share: float) -> tuple[str, bool | None]:
    """Return the overall verdict from the share of matching metrics; None: nothing could be compared."""
    if share is None:
        return "undecided", None
    return ("PASS", True) if share >= pass_share else ("FAIL", False)


_BLOCK = 65_536
"""Values handled at a time, so that they stay in the cache."""


def _means(side: Side, cutoff: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return the mean of each ``wanted`` metric, values below its cutoff counting as the cutoff; else NaN."""
    means = np.full(side.count, np.nan)
    for metrics, size in side.by_size():
        metrics = metrics[wanted[metrics]]
        step = max(1, _BLOCK // size)
        for start in range(0, metrics.size, step):
            some = metrics[start : start + step]
            means[some] = np.maximum(side.rows(some, size), cutoff[some][:, None]).mean(axis=1)
    return means
