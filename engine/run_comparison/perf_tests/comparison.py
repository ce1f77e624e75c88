"""The comparison tool of kubernetes/perf-tests (``benchmark/``), as it is: which files, which keys, two schemes, the
six printed tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.reading.clusterloader import UPSTREAM_PREFIXES
from engine.run_comparison.runs.layout import Place
from engine.run_comparison.runs.measurements import Codes, Floats, Measurements
from engine.run_comparison.runs.pooling import Keeper, Numbers
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples, Side

PRINTED = ("Perc99", "Perc90", "Perc50")
HEADER = ("E2E TEST", "VERB", "RESOURCE", "SUBRESOURCE", "SCOPE", "PERCENTILE", "COMMENTS")


class UpstreamKey(NamedTuple):
    """Upstream's metric key."""

    test: str
    verb: str
    resource: str
    subresource: str
    scope: str
    bucket: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Upstream's samples: keys in order, both sides, the series codes behind each key."""

    keys: tuple[UpstreamKey, ...]
    samples: Samples
    codes: tuple[frozenset[int], ...]


def file_rank(rest: str) -> int | None:
    """0 for an API file, 1 for a pod startup file, None for what upstream does not read; ``rest`` is inside the run."""
    for rank, prefix in enumerate(UPSTREAM_PREFIXES):
        if rest.startswith(f"artifacts/{prefix}"):
            return rank
    return None


def test_name(job: str, run: str, rest: str) -> str | None:
    """The last but one piece of the whole path split at ``_``; None (skipped) with fewer than three pieces."""
    pieces = f"logs/{job}/{run}/{rest}".split("_")
    return pieces[-2] if len(pieces) >= 3 else None


class UpstreamKeeper(Keeper):
    """Parts by upstream's key: its number of each series, for each test name, is looked up once."""

    def __init__(self) -> None:
        """Nothing known yet."""
        super().__init__()
        self.numbers: dict[UpstreamKey, int] = {}
        self.keys: list[UpstreamKey] = []
        self._of_test: dict[str, Numbers] = {}

    def lookup(self, test: str, codes: Codes, measurements: Measurements) -> Numbers:
        """Key number of each series code in a file of ``test``."""
        table = self._of_test.get(test, np.zeros(0, dtype=np.int64))
        if table.size < len(measurements.series):
            more = np.full(len(measurements.series) - table.size, -2, dtype=np.int64)
            table = self._of_test[test] = np.concatenate([table, more])
        found = table[codes]
        fresh = found == -2
        if fresh.any():
            for code in np.unique(codes[fresh]).tolist():
                key = _key(test, measurements, code)
                if key not in self.numbers:
                    self.numbers[key] = len(self.keys)
                    self.keys.append(key)
                table[code] = self.numbers[key]
            found = table[codes]
        return found


def pool_upstream(
    measurements: Measurements,
    left: Sequence[Run],
    right: Sequence[Run],
    places: Mapping[int, Place],
    min_count: int,
    keeper: UpstreamKeeper,
) -> Pool:
    """Samples by upstream's key. ``places``: where each file lies. Null is 0, as Go's decoder has it. ``keeper``: what
    earlier calls left."""
    keeper.begin(min_count)

    def make(run: Run) -> tuple[Numbers, Numbers, Codes, Floats]:
        ranked = []
        for chunk in run.chunks:
            rest = places[chunk.file].rest
            rank = file_rank(rest)
            if rank is None or chunk.refused or chunk.run is not None:
                continue
            test = test_name(run.job_path[-1] if run.job_path else "", run.name, rest)
            if test is not None:
                ranked.append((rank, rest.encode(), test, chunk))
        ranked.sort(key=lambda entry: entry[:2])
        if not ranked:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0)
        linked = np.concatenate([keeper.lookup(test, chunk.codes, measurements) for _, _, test, chunk in ranked])
        codes = np.concatenate([chunk.codes for *_, chunk in ranked])
        counts = np.concatenate([chunk.counts for *_, chunk in ranked])
        values = np.concatenate([chunk.values for *_, chunk in ranked])
        return np.where(counts < min_count, -1, linked), linked, codes, np.where(np.isnan(values), 0.0, values)

    sides = [[keeper.part(run, make) for run in runs] for runs in (left, right)]
    _, samples = keeper.sides(sides[0], sides[1], keeper.keys)
    return Pool(keeper.named(keeper.keys), samples, keeper.linked(*sides))


def _key(test: str, measurements: Measurements, code: int) -> UpstreamKey:
    series = measurements.series[code]
    pods = series.metric == "pod_startup" or series.metric.startswith("pod_startup, ")
    verb = "Pod-Startup" if pods else series.verb
    return UpstreamKey(test, verb, series.resource, series.subresource, series.scope, series.bucket)


@dataclass(frozen=True, slots=True)
class Moments:
    """Upstream's statistics of one side, per metric: NaN for empty samples."""

    side: Side
    mean: Floats

    @property
    def n(self) -> NDArray[np.int64]:
        """Values of each metric."""
        return self.side.sizes

    @property
    def deviation(self) -> Floats:
        """Population deviation by E[x^2] - mean^2; NaN if rounding makes that negative."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(_means_in_order(self.side, squared=True) - self.mean**2))

    @property
    def maximum(self) -> Floats:
        """The largest value, not below 0."""
        found = np.full(self.side.count, np.nan)
        for metrics, size in self.side.by_size():
            found[metrics] = np.maximum(self.side.rows(metrics, size).max(axis=1), 0.0)
        return found


def _means_in_order(side: Side, *, squared: bool = False) -> Floats:
    """Means of values (or of their squares) added strictly from the newest run to the oldest, as upstream's loop does: one
    more run in front makes all sums anew."""
    found = np.full(side.count, np.nan)
    for metrics, size in side.by_size():
        rows = side.rows(metrics, size)
        step = max(1, 32_768 // size)
        total = np.empty(len(rows))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            # Row after row of the turned block is added to one row of sums; along a row sum() would add in pairs.
            turned = np.ascontiguousarray(rows[block].T)
            if squared:
                turned = turned * turned
            if turned.shape[1] == 1:
                total[block] = np.cumsum(turned)[-1]
            else:
                total[block] = np.add.reduce(turned, axis=0)
        found[metrics] = total / size
    return found


def moments(samples: Samples) -> tuple[Moments, Moments]:
    """Upstream's statistics of both sides."""
    with np.errstate(over="ignore", invalid="ignore"):
        left, right = (side.once("in order", _means_in_order) for side in (samples.left, samples.right))
    return Moments(samples.left, left), Moments(samples.right, right)


def upstream_ks_p(distance: Floats, n1: int, n2: int) -> Floats:
    """go-onlinestats' p-value: Kolmogorov's limit without a small-sample term, two series joined at z = 1.18."""
    z = distance * math.sqrt(n1 * n2 / (n1 + n2)) if n1 and n2 else np.full(distance.shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.exp(-1.23370055013616983 / (z * z))
        small = 1.0 - 2.25675833419102515 * np.sqrt(-np.log(y)) * (y + y**9 + y**25 + y**49)
        x = np.exp(-2.0 * z * z)
        large = 2.0 * (x - x**4 + x**9)
    return np.where(z == 0, 1.0, np.where(z < 1.18, small, large))


@dataclass(frozen=True, slots=True)
class Answer:
    """A scheme's answer per metric. ``ratio`` and ``p_value`` are NaN where the scheme does not fill them."""

    matched: NDArray[np.bool_]
    ratio: Floats
    p_value: Floats


class AvgScheme:
    """Avg-Test: the ratio of means within [t, 1/t]."""

    name = "avg"

    def compare(
        self,
        samples: Samples,
        left: Moments,
        right: Moments,
        threshold: float,
        min_average: float,
        distances: Callable[[Samples], Floats],
    ) -> Answer:
        """Both sides empty of values or below the minimum average: matched."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = left.mean / right.mean
            upper = np.divide(1.0, threshold)
            matched = (ratio >= threshold) & (ratio <= upper)
        return Answer(matched | _excused(left, right, min_average), ratio, np.full(samples.count, np.nan))

    def comments(self, row: Row) -> tuple[str, ...]:
        """Upstream's last column."""
        return (
            f"AvgL/R={go_fixed(row.ratio, 2)}", f"AvgL(ms)={go_fixed(row.mean_left, 2)}",
            f"AvgR(ms)={go_fixed(row.mean_right, 2)}", f"N1={row.n_left}", f"N2={row.n_right}",
        )  # fmt: skip


class KsScheme:
    """KS-Test: the p-value at least t."""

    name = "ks"

    def compare(
        self,
        samples: Samples,
        left: Moments,
        right: Moments,
        threshold: float,
        min_average: float,
        distances: Callable[[Samples], Floats],
    ) -> Answer:
        """The ratio is never filled, as upstream has it."""
        p = np.full(samples.count, np.nan)
        distance = distances(samples)
        for metrics, n1, n2 in samples.shapes():
            if n1 and n2:
                p[metrics] = upstream_ks_p(distance[metrics], n1, n2)
        matched = p >= threshold
        return Answer(matched | _excused(left, right, min_average), np.full(samples.count, np.nan), p)

    def comments(self, row: Row) -> tuple[str, ...]:
        """Upstream's last column."""
        return (f"Pvalue={go_fixed(row.p_value, 4)}", "", f"N1={row.n_left}", f"N2={row.n_right}")


SCHEMES = {scheme.name: scheme for scheme in (AvgScheme(), KsScheme())}


def _excused(left: Moments, right: Moments, min_average: float) -> NDArray[np.bool_]:
    empty = (left.n == 0) | (right.n == 0)
    with np.errstate(invalid="ignore"):
        return np.asarray(empty | ((left.mean < min_average) & (right.mean < min_average)))


class Row(NamedTuple):
    """What a printed line needs."""

    key: UpstreamKey
    matched: bool
    ratio: float
    p_value: float
    mean_left: float
    mean_right: float
    n_left: int
    n_right: int


def go_fixed(value: float | None, digits: int) -> str:
    """``%.<digits>f`` as Go prints it."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}f}"


def printed(rows: Sequence[Row], scheme: str) -> str:
    """The six tables: Perc99, Perc90 and Perc50, first mismatched, then matched; falling ratio, NaN at the end. Where
    upstream's order is random (equal ratios, the whole of KS-Test) rows are in the order of their text."""
    chosen = SCHEMES[scheme]
    blocks = []
    for percentile in PRINTED:
        for matched in (False, True):
            picked = [row for row in rows if row.key.bucket == percentile and row.matched == matched]
            picked.sort(key=lambda row: (math.isnan(row.ratio), -row.ratio if row.ratio == row.ratio else 0.0, row.key))
            lines = [HEADER, *((*row.key, *chosen.comments(row)) for row in picked)]
            blocks.append(f"{percentile} {'matched' if matched else 'mismatched'}: {len(picked)}\n\n{_aligned(lines)}")
    return "\n".join(blocks)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell with two blanks between, trailing blanks cut."""
    widths = [max((len(line[i]) for line in lines if i < len(line)), default=0) for i in range(max(map(len, lines)))]
    return "".join("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() + "\n" for line in lines)
