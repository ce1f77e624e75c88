"""The three modes' answers in one shape: columns of the metrics table, samples of its rows, the overall verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.problems import Problem
from engine.run_comparison.insight import change_points, resampling, statistical
from engine.run_comparison.insight.evidence import Evidence, as_ratio
from engine.run_comparison.insight.influence import RunScores
from engine.run_comparison.insight.ordered import Distances
from engine.run_comparison.insight.ranked import Tracker
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.perf_tests import comparison, published
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Series
from engine.run_comparison.runs import metric_units
from engine.run_comparison.runs.measurements import Floats, Measurements
from engine.run_comparison.runs.runs import Runs
from engine.run_comparison.runs.samples import Joined, MetricKey, Pooled, Samples, metric_keys

T = TypeVar("T")


@dataclass(frozen=True)
class Compared:
    """An answer in the shape all modes share: metric columns by name, samples of each row, and the overall numbers."""

    columns: dict[str, Any]
    samples: Samples
    counted: NDArray[np.bool_]
    matched: NDArray[np.bool_]
    verdict: str
    passed: bool | None
    share: float | None
    interval: tuple[float, float] | None = None
    scores: tuple[RunScores, RunScores] | None = None
    axis: change_points.Axis | None = None
    changes: tuple[change_points.Found, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


# --- naming rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the honest metrics' rows, and how they hang together with upstream's keys: ``key_of[i]`` is the
    upstream key a metric goes into (-1: none), ``parts[k]`` the metrics of a key."""

    names: list[tuple[str, str, str, str, str, str]]
    key_of: NDArray[np.int64]
    parts: list[list[int]]


def name_rows(pooled: Pooled, pool: comparison.Pool, found: Measurements) -> Naming:
    """Upstream's names where a metric alone makes up an upstream key, else the report's."""
    numbers = {key: i for i, key in enumerate(pooled.keys)}
    keys, which, _ = metric_keys(found)
    key_of = np.full(len(pooled.keys), -1, dtype=np.int64)
    parts: list[list[int]] = []
    owners: dict[int, set[int]] = defaultdict(set)
    for number, codes in enumerate(pool.codes):
        members = sorted({numbers[keys[which[code]]] for code in codes if keys[which[code]] in numbers})
        parts.append(members)
        for member in members:
            key_of[member] = number
            owners[member].add(number)
    names = []
    for i, key in enumerate(pooled.keys):
        number = int(key_of[i])
        if number >= 0 and len(parts[number]) == 1 and len(owners[i]) == 1:
            names.append(tuple(pool.keys[number]))
        else:
            names.append(_own_name(key))
    return Naming(names, key_of, parts)  # type: ignore[arg-type]


def _own_name(key: MetricKey) -> tuple[str, str, str, str, str, str]:
    verb, resource = key.verb, key.resource
    if key.metric and not resource:
        resource = key.metric
    elif key.metric and not verb:
        verb = key.metric
    return key.report or key.kind, verb, resource, key.subresource, key.scope, key.bucket


def _directions(keys: Sequence[MetricKey], hints: Sequence[str], rules: Sequence[str]) -> list[str]:
    told = dict(text.rpartition("=")[::2] for text in hints)
    parsed = metric_units.parse_rules(rules)
    found = []
    for key in keys:
        kind = BY_NAME.get(key.kind)
        hint = told.get(key.unit) or told.get(key.bucket) or told.get(key.verb) or (kind.better if kind else "")
        name = " ".join((key.kind, key.report, key.verb, key.resource, key.metric, key.bucket))
        found.append(metric_units.direction(name, key.unit, hint, parsed))
    return found


class Names:
    """What follows from the names of metrics alone, kept from one look to the next while these stay the same; and the
    ``distances`` of upstream's samples, for its second scheme."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self.distances = Distances()
        self._known: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def once(self, what: str, basis: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What ``make`` says of ``basis``, asked once for the same."""
        known = self._known.get(what)
        if known is None or not all(a is b or a == b for a, b in zip(known[0], basis, strict=True)):
            known = self._known[what] = basis, make()
        found: T = known[1]
        return found


def _texts(names: Sequence[tuple[str, ...]], keys: Sequence[MetricKey], directions: list[str]) -> dict[str, Any]:
    columns: dict[str, list[str]] = {
        name: [row[i] for row in names]
        for i, name in enumerate(("test", "verb", "resource", "subresource", "scope", "bucket"))
    }
    columns["unit"] = [key.unit for key in keys]
    columns["kind"] = [key.kind for key in keys]
    columns["metric"] = [key.metric for key in keys]
    columns["direction"] = directions
    return {name: pl.Series(name, values, dtype=pl.String) for name, values in columns.items()}


def _base_columns(texts: dict[str, Any], samples: Samples) -> dict[str, Any]:
    columns = dict(texts)
    columns["n_left"], columns["n_right"] = samples.left.sizes, samples.right.sizes
    columns["runs_left"], columns["runs_right"] = samples.left.behind, samples.right.behind
    columns["row"] = np.arange(samples.count)
    columns["pooled"] = np.zeros(samples.count, dtype=bool)
    return columns


# --- the three modes -------------------------------------------------------------------------------------------------


def _answer(
    pool: comparison.Pool,
    parameters: ComparisonParameters,
    moments: tuple[comparison.Moments, comparison.Moments],
    known: Names,
) -> comparison.Answer:
    left, right = moments
    scheme = comparison.SCHEMES[parameters.scheme]
    answer = scheme.compare(pool.samples, left, right, parameters.threshold, parameters.min_average, known.distances.of)
    return answer


def upstream_compared(
    pool: comparison.Pool, found: Measurements, parameters: ComparisonParameters, known: Names
) -> Compared:
    """Upstream's answer, over its own keys; share and PASS are the seed's rule, which upstream does not apply."""
    left, right = comparison.moments(pool.samples)
    answer = _answer(pool, parameters, (left, right), known)
    samples = pool.samples

    def texts() -> dict[str, Any]:
        one = [_first(found, codes) for codes in pool.codes]
        keys = [MetricKey(*series[:6], "", series.bucket, series.unit) for series in one]
        whole = [MetricKey(*series[:8], series.unit) for series in one]
        return _texts(pool.keys, keys, _directions(whole, (), parameters.direction))

    columns = _base_columns(known.once("upstream", (pool.keys, pool.codes, parameters.direction), texts), samples)
    columns["mean_left"], columns["mean_right"] = left.mean, right.mean
    columns["ratio"], columns["p_value"], columns["matched"] = answer.ratio, answer.p_value, answer.matched
    columns["upstream_matched"] = answer.matched
    both = (left.n > 0) & (right.n > 0)
    columns["verdict"] = [
        statistical.MISSING if not two else ("equivalent" if ok else "different")
        for two, ok in zip(both.tolist(), answer.matched.tolist(), strict=True)
    ]
    total = samples.count
    share = float(answer.matched.sum()) / total if total else None
    passed = None if share is None else share >= parameters.pass_share
    notes = (
        "Upstream mode: APIResponsiveness_ and PodStartupLatency_ files only; a metric that one side lacks is matched, "
        "as upstream has it; the pass rule is the seed design's, upstream computes none.",
    )
    return Compared(
        columns, samples, np.ones(total, dtype=bool), answer.matched, _word(passed), passed, share,
        notes=notes,
    )  # fmt: skip


def design_compared(
    pooled: Pooled,
    pool: comparison.Pool,
    found: Measurements,
    part: NDArray[np.bool_],
    parameters: ComparisonParameters,
    known: Names,
) -> Compared:
    """The seed design's answer over its metric set."""
    answer = published.compare(
        pooled.keys, pooled.samples, part, parameters.similarity, parameters.threshold, parameters.upper
    )
    rows = np.flatnonzero(part)
    keys = [pooled.keys[i] for i in rows]

    def texts() -> dict[str, Any]:
        names = name_rows(pooled, pool, found).names
        return _texts(names, pooled.keys, _directions(pooled.keys, (), parameters.direction))

    basis = pooled.keys, pool.keys, pool.codes, parameters.direction
    columns = _base_columns(known.once("design", basis, texts), pooled.samples)
    columns["mean_left"], columns["mean_right"] = answer.mean_left, answer.mean_right
    lacking = part & ~answer.compared
    columns["mean_left"] = np.where(lacking, pooled.samples.left.means, answer.mean_left)
    columns["mean_right"] = np.where(lacking, pooled.samples.right.means, answer.mean_right)
    columns["ratio"], columns["similarity"], columns["matched"] = answer.ratio, answer.similarity, answer.matched
    columns["verdict"] = [
        statistical.MISSING if not two else ("equivalent" if ok else "different")
        for two, ok in zip(answer.compared.tolist(), answer.matched.tolist(), strict=True)
    ]
    chosen = {name: _take(values, rows) for name, values in columns.items()}
    total = int(answer.compared.sum())
    share = float(answer.matched.sum()) / total if total else None
    passed = None if share is None else share >= parameters.pass_share
    similarity = float(answer.similarity[answer.compared].mean()) if total else None
    notes = (
        f"Design mode: percentiles {', '.join(parameters.percentiles)}; values below 50 ms (API) and 1 s (pod startup) "
        f"count as that; matched from {parameters.threshold:g} to {parameters.upper:g}.",
    )
    return Compared(
        chosen, pooled.samples, answer.compared[rows], answer.matched[rows], _word(passed), passed, share,
        notes=notes, extra={"similarity": similarity}, problems=_mixed(pooled, keys),
    )  # fmt: skip


def _word(passed: bool | None) -> str:
    return statistical.NOT_ENOUGH if passed is None else ("PASS" if passed else "FAIL")


def _take(values: Any, rows: NDArray[np.int64]) -> Any:
    if rows.size == len(values):
        return values  # rows rise, so these are all
    if isinstance(values, pl.Series):
        return values.gather(rows)
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]


def _mixed(pooled: Pooled, keys: Sequence[MetricKey]) -> tuple[Problem, ...]:
    """One problem per file that writes metrics in another unit than the others."""
    wanted = set(keys)
    by_file: dict[str, list[str]] = defaultdict(list)
    for i, units_written, path in pooled.mixed:
        key = pooled.keys[i]
        if key in wanted:
            name = " ".join(part for part in _own_name(key)[1:] if part)
            written = " and ".join(unit or "no unit" for unit in units_written)
            by_file[path].append(f"{name}: written in {written}, converted to {key.unit}")
    return tuple(
        Problem.at(path, "mixed-units", "; ".join(reasons[:3]), count=len(reasons)) for path, reasons in by_file.items()
    )


def _first(found: Measurements, codes: Iterable[int]) -> Series:
    """Of the series behind a key the first by name, whatever order they were met in."""
    return min(found.series[code] for code in codes)


def usable_margin(threshold: float) -> float:
    """A threshold as the lower end of an equivalence margin: between 0 and 1."""
    margin = max(threshold, 1e-9)
    return min(margin, 1.0 / margin)


@dataclass(frozen=True)
class Prepared:
    """What of statistical mode's answer does not depend on a threshold: names and counts of all rows, upstream's
    pools of several metrics (``lumps``), their samples and evidence."""

    columns: dict[str, Any]
    directions: list[str]
    lumps: list[int]
    lumped: Samples
    lump_evidence: Evidence
    samples: Samples
    key_of: NDArray[np.int64]
    moments: tuple[comparison.Moments, comparison.Moments]


def prepare(
    pooled: Pooled,
    pool: comparison.Pool,
    found: Measurements,
    part: NDArray[np.bool_],
    runs: Runs,
    parameters: ComparisonParameters,
    tracker: Tracker,
    known: Names,
    check: Callable[[], None],
) -> Prepared:
    """Name all rows and gather the evidence of upstream's pools. ``tracker``: what is known of theirs."""
    whole = not parameters.kinds

    def named() -> tuple[Naming, list[int], list[str], dict[str, Any]]:
        naming = name_rows(pooled, pool, found)
        lumps = [k for k, members in enumerate(naming.parts) if len(members) > 1 and whole]
        firsts = [_first(found, pool.codes[k]) for k in lumps]
        lump_keys = [
            MetricKey(*first[:6], "", pool.keys[k].bucket, first.unit) for k, first in zip(lumps, firsts, strict=True)
        ]
        keys = [*pooled.keys, *lump_keys]
        directions = _directions(keys, runs.directions, parameters.direction)
        names = [*naming.names, *(tuple(pool.keys[k]) for k in lumps)]
        return naming, lumps, directions, _texts(names, keys, directions)

    basis = pooled.keys, pool.keys, pool.codes, whole, runs.directions, parameters.direction
    naming, lumps, directions, texts = known.once("statistical", basis, named)
    rows = np.array(lumps, dtype=np.int64)
    lumped = Samples(Joined(None, pool.samples.left, rows), Joined(None, pool.samples.right, rows))
    samples = Samples(
        Joined(pooled.samples.left, pool.samples.left, rows), Joined(pooled.samples.right, pool.samples.right, rows)
    )
    columns = _base_columns(texts, samples)
    columns["pooled"][len(pooled.keys) :] = True
    columns["mean_left"], columns["mean_right"] = samples.left.means, samples.right.means
    only = np.zeros(pool.samples.count, dtype=bool)
    only[rows] = True
    evidence = tracker.evidence(pool.samples, parameters.alpha, check, only).take(rows)
    key_of = np.concatenate([naming.key_of, np.array(lumps, dtype=np.int64)])
    return Prepared(columns, directions, lumps, lumped, evidence, samples, key_of, comparison.moments(pool.samples))


def statistical_compared(
    prepared: Prepared,
    pooled: Pooled,
    pool: comparison.Pool,
    part: NDArray[np.bool_],
    evidence: Evidence,
    overall: resampling.Overall,
    scores: tuple[RunScores, RunScores],
    axis: change_points.Axis,
    changes: tuple[list[change_points.Found], int],
    parameters: ComparisonParameters,
    known: Names,
) -> Compared:
    """Verdicts of all metrics; upstream's pools of several metrics as rows of their own that never count."""
    rows = np.flatnonzero(part)
    columns, lumps, samples = dict(prepared.columns), prepared.lumps, prepared.samples
    lump_evidence = prepared.lump_evidence
    margin = usable_margin(parameters.threshold)
    verdicts = statistical.decide(evidence, pooled.samples, margin, parameters.alpha, part)
    lump_verdicts = statistical.decide(
        lump_evidence, prepared.lumped, margin, parameters.alpha, np.ones(len(lumps), dtype=bool)
    )

    def both(name: str) -> Any:
        return np.concatenate([getattr(evidence, name), getattr(lump_evidence, name)])

    def judged(name: str) -> Any:
        return np.concatenate([getattr(verdicts, name), getattr(lump_verdicts, name)])

    def ratios(name: str) -> Any:
        return np.concatenate([as_ratio(e, getattr(e, name)) for e in (evidence, lump_evidence)])

    columns["ratio"] = ratios("shift")
    columns["ratio_low"], columns["ratio_high"] = ratios("low"), ratios("high")
    columns["p_value"], columns["spread_p"], columns["cliffs_delta"] = (
        both("p_value"), both("spread_p"), both("cliffs_delta")
    )  # fmt: skip
    columns["q_value"], columns["spread_q"] = judged("q_value"), judged("spread_q")
    words = judged("words")
    columns["verdict"] = words.tolist()
    changed, inside = judged("changed"), judged("inside")
    columns["changed"] = np.where(both("compared"), changed, False)
    columns["matched"] = inside
    columns["runs_needed"] = _needed_runs(judged("runs_needed"), columns)
    columns["effect"] = _effects(columns["ratio"], words, changed, prepared.directions)
    answer = _answer(pool, parameters, prepared.moments, known)
    told = prepared.key_of >= 0
    said = np.zeros(told.size, dtype=bool)
    said[told] = answer.matched[prepared.key_of[told]]
    columns["upstream_matched"] = _told(said, told)
    columns["disagree"] = _told(words == np.where(said, statistical.DIFFERENT, statistical.EQUIVALENT), told)
    shown = np.concatenate([rows, np.arange(len(pooled.keys), samples.count)])
    chosen = {name: _take(values, shown) for name, values in columns.items()}
    counted = np.concatenate([(part & evidence.compared)[rows], np.zeros(len(lumps), dtype=bool)])
    total = int(counted.sum())
    matched = inside[shown]
    share = float((matched & counted).sum()) / total if total else None
    low, high = resampling.share_interval(overall, evidence, margin, 1.0 - 2.0 * parameters.alpha, share or 0.0)
    verdict, passed = _overall(share, low, high, samples, parameters)
    points, searched = changes
    notes = [
        f"Statistical mode: ratio right/left (Hodges-Lehmann) with its {1 - 2 * parameters.alpha:.0%} interval; "
        f"equivalent if the interval lies within {margin:g} to {1 / margin:.3g}, different if q ≤ {parameters.alpha:g}.",
    ]
    if searched < total:
        notes.append(f"Change points were looked for in the {searched} metrics that drift most, of {total}.")
    if lumps:
        notes.append(f"{len(lumps)} rows are upstream's pools of several metrics: shown for comparison, never counted.")
    return Compared(
        chosen, samples, counted, matched, verdict, passed, share, (low, high), scores, axis, tuple(points),
        tuple(notes), _mixed(pooled, [pooled.keys[i] for i in rows]),
    )  # fmt: skip


def _told(values: NDArray[np.bool_], told: NDArray[np.bool_]) -> list[bool | None]:
    """The values, None where nothing is told."""
    return [value if known else None for value, known in zip(values.tolist(), told.tolist(), strict=True)]


def _needed_runs(values: Floats, columns: dict[str, Any]) -> list[int | None]:
    """Further values as further runs: by how many values a run gives."""
    with np.errstate(divide="ignore", invalid="ignore"):
        per_run = np.minimum(
            columns["n_left"] / np.maximum(columns["runs_left"], 1),
            columns["n_right"] / np.maximum(columns["runs_right"], 1),
        )
        needed = np.ceil(values / np.maximum(per_run, 1.0))
    return [None if np.isnan(v) else int(v) for v in needed]


def _effects(ratio: Floats, words: Any, changed: NDArray[np.bool_], directions: Sequence[str]) -> list[str]:
    found = []
    for value, word, moved, better in zip(ratio.tolist(), words.tolist(), changed.tolist(), directions, strict=True):
        if not (moved or word == statistical.DIFFERENT) or value != value or value == 1.0:
            found.append("")
        else:
            found.append("worse" if (value > 1.0) == (better == "lower") else "better")
    return found


def _overall(
    share: float | None, low: float, high: float, samples: Samples, parameters: ComparisonParameters
) -> tuple[str, bool | None]:
    smallest = min(samples.left.n_runs, samples.right.n_runs)
    if share is None or smallest < 3 or not np.isfinite([low, high]).all():
        return statistical.NOT_ENOUGH, None
    if low >= parameters.pass_share:
        return "PASS", True
    if high < parameters.pass_share:
        return "FAIL", False
    return statistical.NOT_ENOUGH, None
