"""Skew beyond Dr. Elephant's split: inequality measures, and causes of slow tasks.

Beside Dr. Elephant's division of task values: the Gini index and shares of the largest tasks, and a robust line of
run time on bytes whose residuals tell big inputs from slow nodes from costly records. See
docs/models/job-heuristics.md, "Causes of long tasks".
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.history import SCALE
from engine.job_heuristics.dr_elephant.side_stats import Segments
from engine.stats.natural_break import Split, natural_break

Floats = NDArray[np.float64]


def dr_elephant_split(values: NDArray[np.int64]) -> Split:
    """Split task values like Dr. Elephant's skew heuristics, for display beside the natural break.

    See ``Segments.two_groups``; ``at`` is the middle of the last division.
    """
    if not len(values):
        return Split(0.0, 0, 0.0, 0, 0.0)
    groups = Segments(np.zeros(len(values), dtype=np.int64), 1).two_groups(values)
    at = int(groups.middle[0])
    low, high = values[values < at], values[values >= at]
    around = float(np.sum((values - values.mean()) ** 2))
    within = sum(float(np.sum((part - part.mean()) ** 2)) for part in (low, high) if len(part))
    return Split(
        at=float(at),
        low_n=int(groups.low_n[0]),
        low_mean=float(groups.low_mean[0]),
        high_n=int(groups.high_n[0]),
        high_mean=float(groups.high_mean[0]),
        fit=max(0.0, 1 - within / around) if around > 0 and len(low) and len(high) else 0.0,
    )


def gini(values: Floats) -> float:
    """Return the Gini index 0-1 of non-negative ``values``: 0 all equal, towards 1 one task has everything; 0 if all
    are 0.

    Half the relative mean absolute difference, from ranks (Gini 1912), O(n log n).
    """
    ordered = np.sort(np.clip(np.asarray(values, dtype=np.float64), 0, None))
    n, total = len(ordered), float(ordered.sum())
    return (
        0.0
        if n == 0 or total <= 0
        else max(0.0, float(2 * np.sum(np.arange(1, n + 1) * (ordered / total)) / n - (n + 1) / n))
    )


def top_share(values: Floats, share: float = 0.01) -> tuple[int, float]:
    """Return the largest ``share`` of tasks (at least one): their number, and their share 0-1 of the sum."""
    ordered = np.sort(np.clip(np.asarray(values, dtype=np.float64), 0, None))[::-1]
    if not len(ordered):
        return 0, 0.0
    k = max(1, int(np.ceil(len(ordered) * share)))
    total = float(ordered.sum())
    return k, float(ordered[:k].sum()) / total if total > 0 else 0.0


class Line(msgspec.Struct, frozen=True):
    """A robust line ``y = intercept + slope x``; ``spread`` is the robust standard deviation of the residuals,
    ``explained`` 0-1 the share of y's variance (with the final weights) explained by x."""

    intercept: float
    slope: float
    spread: float
    explained: float

    def at(self, x: Floats) -> Floats:
        """Return the line at ``x``."""
        return self.intercept + self.slope * x


def robust_line(x: Floats, y: Floats, rounds: int = 30) -> Line:
    """Fit Huber's M-estimate of ``y`` on ``x`` by iteratively reweighted least squares, scale from the median
    absolute residual, started at a line through thirds of x (so that a few hot tasks cannot pull it). Without spread in
    x: the median. Huber (1981), tuning constant 1.345."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) == 0:
        return Line(0.0, 0.0, 0.0, 0.0)
    middle = float(np.median(y))
    flat_spread = SCALE * float(np.median(np.abs(y - middle)))
    reach = float(x.max() - x.min())
    if len(x) < 3 or reach <= 0:
        return Line(middle, 0.0, flat_spread, 0.0)
    scaled = (x - x.min()) / reach
    slope, intercept = _line_through_thirds(scaled, y)
    weight = np.ones(len(x))
    for _ in range(rounds):
        off = y - intercept - slope * scaled
        scale = SCALE * float(np.median(np.abs(off)))
        if scale <= 1e-12 * (1 + abs(middle)):
            break
        weight = 1.0 / np.maximum(1.0, np.abs(off) / (1.345 * scale))
        before = (slope, intercept)
        slope, intercept = _weighted_line(scaled, y, weight)
        if abs(slope - before[0]) + abs(intercept - before[1]) < 1e-9 * (1 + abs(slope) + abs(intercept)):
            break
    off = y - intercept - slope * scaled
    spread = SCALE * float(np.median(np.abs(off)))
    around = float(weight @ (y - (weight @ y) / weight.sum()) ** 2)
    explained = 1 - float(weight @ off**2) / around if around > 0 else 0.0
    true_slope = slope / reach
    return Line(intercept - true_slope * float(x.min()), true_slope, spread, min(1.0, max(0.0, explained)))


def _line_through_thirds(x: Floats, y: Floats) -> tuple[float, float]:
    order = np.argsort(x, kind="stable")
    third = max(1, len(x) // 3)
    left, right = order[:third], order[-third:]
    run = float(np.median(x[right]) - np.median(x[left]))
    slope = float(np.median(y[right]) - np.median(y[left])) / run if run > 1e-9 else 0.0
    return slope, float(np.median(y - slope * x))


def _weighted_line(x: Floats, y: Floats, w: Floats) -> tuple[float, float]:
    total = w.sum()
    mx, my = (w @ x) / total, (w @ y) / total
    sxx = w @ (x - mx) ** 2
    if sxx <= 1e-15 * total:
        return 0.0, float(my)
    slope = float((w @ ((x - mx) * (y - my))) / sxx)
    return slope, float(my - slope * mx)


class Outlier(msgspec.Struct, frozen=True):
    """A node or rack whose tasks ran longer than their bytes explain: ``ratio``: median of actual over expected run
    time of its ``tasks``; ``lost_ms``: excess time; ``z``: deviation in robust standard deviations of a group median."""

    name: str
    tasks: int
    ratio: float
    lost_ms: float
    z: float


class Causes(msgspec.Struct, frozen=True):
    """Causes of a side's long tasks. Counts by cause add up to ``long``; ``words`` is the sentence."""

    line: Line
    long: int
    data: int
    node: int
    cpu: int
    other: int
    nodes: tuple[Outlier, ...]
    racks: tuple[Outlier, ...]
    words: str


def causes(total_ms: Floats, size: Floats, cpu_ms: Floats, hosts: list[str], racks: list[str]) -> Causes:
    """Attribute the long tasks of one side to causes (arrays of equal length n, one entry per task with times).

    A task is long if it is in the high group of the natural break of run times, that break explains most of the
    variance, the group is at least 1.5 times longer and no more than half of the tasks.

    Long tasks are attributed in this order: *data* if the robust
    line of time on bytes predicts a long task from its bytes; *node* if its host is an outlier; *cpu* if it used more
    CPU than the line of CPU on bytes allows by the same measure; else *other* (waiting: disk, network, locks).
    """
    line = robust_line(size, total_ms)
    expected = np.maximum(line.at(size), 1.0)
    nodes = _outliers(total_ms, expected, hosts)
    rack_outliers = _outliers(total_ms, expected, racks)
    split = natural_break(total_ms)
    if not split.low_n or split.fit < 0.5 or split.factor < 1.5 or split.high_n > split.low_n:
        return Causes(line, 0, 0, 0, 0, 0, nodes, rack_outliers, _words_even(total_ms, nodes))
    long = total_ms >= split.at
    by_data = long & (expected >= (split.low_mean + split.high_mean) / 2)
    slow = {outlier.name for outlier in nodes}
    by_node = long & ~by_data & np.fromiter((host in slow for host in hosts), dtype=bool, count=len(hosts))
    extra_cpu = cpu_ms - robust_line(size, cpu_ms).at(size)
    extra_time = total_ms - expected
    by_cpu = long & ~by_data & ~by_node & (extra_time > 0) & (extra_cpu >= 0.5 * extra_time)
    counts = [int(mask.sum()) for mask in (long, by_data, by_node, by_cpu)]
    other = counts[0] - sum(counts[1:])
    return Causes(
        line, counts[0], counts[1], counts[2], counts[3], other, nodes, rack_outliers,
        _words(split, counts, other, nodes),
    )  # fmt: skip


def _outliers(total_ms: Floats, expected: Floats, names: list[str], least: int = 3) -> tuple[Outlier, ...]:
    """Return groups of at least ``least`` tasks whose median actual-over-expected ratio is 1.25 or more and more than
    3.5 robust deviations above the median group, worst first. Needs three groups, so that there is a normal one."""
    if not names:
        return ()
    distinct, index = np.unique(np.asarray(names, dtype=object).astype(str), return_inverse=True)
    if len(distinct) < 3:
        return ()
    ratio = total_ms / expected
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(len(distinct) + 1))
    groups = [order[starts[i] : starts[i + 1]] for i in range(len(distinct))]
    medians = np.array([float(np.median(ratio[g])) for g in groups])
    big = np.array([len(g) >= least for g in groups])
    if big.sum() < 3:
        return ()
    middle = float(np.median(medians[big]))
    # The floor keeps identical synthetic nodes from making every deviation infinite.
    spread = max(SCALE * float(np.median(np.abs(medians[big] - middle))), 0.02 * middle, 1e-9)
    result = [
        Outlier(
            name=str(distinct[i]),
            tasks=len(groups[i]),
            ratio=float(medians[i]),
            lost_ms=float(np.sum(np.maximum(0.0, total_ms[groups[i]] - expected[groups[i]]))),
            z=float((medians[i] - middle) / spread),
        )
        for i in np.flatnonzero(big)
        if distinct[i] and medians[i] >= 1.25 * middle and (medians[i] - middle) / spread > 3.5
    ]
    return tuple(sorted(result, key=lambda o: (-o.lost_ms, o.name)))


def _words_even(total_ms: Floats, nodes: tuple[Outlier, ...]) -> str:
    if not len(total_ms):
        return "No task with times."
    return (
        f"Run times form one group, but {_node_words(nodes)}."
        if nodes
        else "Run times form one group: no skew to explain."
    )


def _node_words(nodes: tuple[Outlier, ...]) -> str:
    first = nodes[0]
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{first.name}{more} took {first.ratio:.1f} times what the bytes of its {first.tasks} tasks explain"


def _words(split: Split, counts: list[int], other: int, nodes: tuple[Outlier, ...]) -> str:
    long, data, node, cpu = counts
    head = f"{long} of {split.low_n + split.high_n} tasks form a group {split.factor:.1f} times longer"
    causes_of = (
        (data, "because they got more bytes (data skew)"),
        (node, f"because of slow nodes ({_node_words(nodes)})" if node else ""),
        (cpu, "because each byte cost them more CPU (costly keys or records)"),
        (other, "without more bytes, a slow node or more CPU (waiting for disk, network or a service)"),
    )
    return f"{head}: {'; '.join(f'{count} {words}' for count, words in causes_of if count)}."
