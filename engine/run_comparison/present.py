"""From answers to the result: tables, summary, headline, findings, notes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.inputs import Inputs
from engine.problems import Problem
from engine.result import Finding, Headline, Level, Result
from engine.run_comparison import changepoints, design, statistical, units, upstream
from engine.run_comparison.chunks import Floats, Measurements
from engine.run_comparison.detail import Detail
from engine.run_comparison.influence import RunScores
from engine.run_comparison.kinds import BY_NAME
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs import Run, Runs, one_per_file
from engine.run_comparison.samples import MetricKey, Pooled, Samples, Side, metric_keys
from engine.run_comparison.tables import CHANGE_POINTS, GROUPS, METRICS, MISSING, RUNS

MAX_FINDINGS = 200
"""Findings told one by one; the rest is a number in the overall finding."""


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
    axis: changepoints.Axis | None = None
    changes: tuple[changepoints.Found, ...] = ()
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


def name_rows(pooled: Pooled, pool: upstream.Pool, found: Measurements) -> Naming:
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


def _means(samples: Samples) -> tuple[Floats, Floats]:
    found = []
    for side in (samples.left, samples.right):
        sums = (
            np.add.reduceat(np.concatenate([side.values, [0.0]]), side.offsets[:-1]) if samples.count else np.zeros(0)
        )
        sizes = side.sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.where(sizes > 0, sums / sizes, np.nan))
    return found[0], found[1]


def _runs_behind(side: Side) -> NDArray[np.int64]:
    metrics = side.offsets.size - 1
    which = np.repeat(np.arange(metrics), side.sizes)
    flat = np.zeros(metrics * max(side.n_runs, 1), dtype=bool)
    flat[which * max(side.n_runs, 1) + side.runs] = True
    found: NDArray[np.int64] = flat.reshape(metrics, -1).sum(axis=1)
    return found


def _directions(keys: Sequence[MetricKey], hints: Sequence[str], rules: Sequence[str]) -> list[str]:
    told = dict(text.rpartition("=")[::2] for text in hints)
    parsed = units.parse_rules(rules)
    found = []
    for key in keys:
        kind = BY_NAME.get(key.kind)
        hint = told.get(key.unit) or told.get(key.bucket) or told.get(key.verb) or (kind.better if kind else "")
        name = " ".join((key.kind, key.report, key.verb, key.resource, key.metric, key.bucket))
        found.append(units.direction(name, key.unit, hint, parsed))
    return found


def _base_columns(
    names: Sequence[tuple[str, ...]], keys: Sequence[MetricKey], samples: Samples, directions: list[str]
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: [row[i] for row in names]
        for i, name in enumerate(("test", "verb", "resource", "subresource", "scope", "bucket"))
    }
    columns["unit"] = [key.unit for key in keys]
    columns["kind"] = [key.kind for key in keys]
    columns["metric"] = [key.metric for key in keys]
    columns["n_left"], columns["n_right"] = samples.left.sizes, samples.right.sizes
    columns["runs_left"], columns["runs_right"] = _runs_behind(samples.left), _runs_behind(samples.right)
    columns["direction"] = directions
    columns["row"] = np.arange(samples.count)
    columns["pooled"] = np.zeros(samples.count, dtype=bool)
    return columns


# --- the three modes -------------------------------------------------------------------------------------------------


def _answer(
    pool: upstream.Pool, parameters: ComparisonParameters, moments: tuple[upstream.Moments, upstream.Moments]
) -> upstream.Answer:
    left, right = moments
    scheme = upstream.SCHEMES[parameters.scheme]
    answer = scheme.compare(pool.samples, left, right, parameters.threshold, parameters.min_average)
    return answer


def upstream_compared(pool: upstream.Pool, found: Measurements, parameters: ComparisonParameters) -> Compared:
    """Upstream's answer, over its own keys; share and PASS are the seed's rule, which upstream does not apply."""
    left, right = upstream.moments(pool.samples)
    answer = _answer(pool, parameters, (left, right))
    samples = pool.samples
    one = [found.series[min(codes)] for codes in pool.codes]
    keys = [MetricKey(*series[:8], series.unit) for series in one]
    columns = _base_columns(pool.keys, keys, samples, _directions(keys, (), parameters.direction))
    columns["mean_left"], columns["mean_right"] = left.mean, right.mean
    columns["ratio"], columns["p_value"], columns["matched"] = answer.ratio, answer.p_value, answer.matched
    columns["upstream_matched"] = answer.matched
    columns["metric"] = ["" for _ in keys]
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
    pooled: Pooled, pool: upstream.Pool, found: Measurements, part: NDArray[np.bool_], parameters: ComparisonParameters
) -> Compared:
    """The seed design's answer over its metric set."""
    answer = design.compare(
        pooled.keys, pooled.samples, part, parameters.similarity, parameters.threshold, parameters.upper
    )
    naming = name_rows(pooled, pool, found)
    rows = np.flatnonzero(part)
    keys = [pooled.keys[i] for i in rows]
    columns = _base_columns(
        naming.names, pooled.keys, pooled.samples, _directions(pooled.keys, (), parameters.direction)
    )
    columns["mean_left"], columns["mean_right"] = answer.mean_left, answer.mean_right
    raw_left, raw_right = _means(pooled.samples)
    lacking = part & ~answer.compared
    columns["mean_left"] = np.where(lacking, raw_left, answer.mean_left)
    columns["mean_right"] = np.where(lacking, raw_right, answer.mean_right)
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


def _joined(first: Side, second: Side) -> Side:
    return Side(
        np.concatenate([first.values, second.values]),
        np.concatenate([first.runs, second.runs]),
        np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]]),
        max(first.n_runs, second.n_runs),
    )


def _subset(side: Side, metrics: Sequence[int]) -> Side:
    pieces = [side.of(i) for i in metrics]
    places = [side.runs_of(i) for i in metrics]
    offsets = np.concatenate([[0], np.cumsum([p.size for p in pieces], dtype=np.int64)])
    return Side(
        np.concatenate([*pieces, np.zeros(0)]),
        np.concatenate([*places, np.zeros(0, dtype=np.int32)]),
        offsets.astype(np.int64),
        side.n_runs,
    )


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
    lump_evidence: statistical.Evidence
    samples: Samples
    key_of: NDArray[np.int64]
    moments: tuple[upstream.Moments, upstream.Moments]


def prepare(
    pooled: Pooled,
    pool: upstream.Pool,
    found: Measurements,
    part: NDArray[np.bool_],
    runs: Runs,
    parameters: ComparisonParameters,
) -> Prepared:
    """Name all rows and gather the evidence of upstream's pools."""
    naming = name_rows(pooled, pool, found)
    lumps = [k for k, members in enumerate(naming.parts) if len(members) > 1 and not parameters.kinds]
    lumped = Samples(_subset(pool.samples.left, lumps), _subset(pool.samples.right, lumps))
    samples = Samples(_joined(pooled.samples.left, lumped.left), _joined(pooled.samples.right, lumped.right))
    lump_keys = [
        MetricKey(*found.series[min(pool.codes[k])][:6], "", pool.keys[k].bucket, found.series[min(pool.codes[k])].unit)
        for k in lumps
    ]
    keys = [*pooled.keys, *lump_keys]
    directions = _directions(keys, runs.directions, parameters.direction)
    columns = _base_columns([*naming.names, *(tuple(pool.keys[k]) for k in lumps)], keys, samples, directions)
    columns["pooled"][len(pooled.keys) :] = True
    columns["mean_left"], columns["mean_right"] = _means(samples)
    evidence = statistical.gather(lumped, parameters.alpha)
    key_of = np.concatenate([naming.key_of, np.array(lumps, dtype=np.int64)])
    return Prepared(columns, directions, lumps, lumped, evidence, samples, key_of, upstream.moments(pool.samples))


def statistical_compared(
    prepared: Prepared,
    pooled: Pooled,
    pool: upstream.Pool,
    part: NDArray[np.bool_],
    evidence: statistical.Evidence,
    overall: statistical.Overall,
    scores: tuple[RunScores, RunScores],
    axis: changepoints.Axis,
    changes: tuple[list[changepoints.Found], int],
    parameters: ComparisonParameters,
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
        return np.concatenate([statistical.as_ratio(e, getattr(e, name)) for e in (evidence, lump_evidence)])

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
    answer = _answer(pool, parameters, prepared.moments)
    says = [None if k < 0 else bool(answer.matched[k]) for k in prepared.key_of.tolist()]
    columns["upstream_matched"] = says
    columns["disagree"] = [
        None
        if said is None
        else (said and word == statistical.DIFFERENT) or (not said and word == statistical.EQUIVALENT)
        for said, word in zip(says, words.tolist(), strict=True)
    ]
    shown = np.concatenate([rows, np.arange(len(pooled.keys), samples.count)])
    chosen = {name: _take(values, shown) for name, values in columns.items()}
    counted = np.concatenate([(part & evidence.compared)[rows], np.zeros(len(lumps), dtype=bool)])
    total = int(counted.sum())
    matched = inside[shown]
    share = float((matched & counted).sum()) / total if total else None
    low, high = statistical.share_interval(overall, evidence, margin, 1.0 - 2.0 * parameters.alpha, share or 0.0)
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


# --- the result ------------------------------------------------------------------------------------------------------


def build_result(
    inputs: Inputs,
    parameters: ComparisonParameters,
    chosen: tuple[tuple[Run, ...], tuple[Run, ...], tuple[str, ...], tuple[str, ...], str],
    runs: Runs,
    compared: Compared,
    problems: Sequence[Problem],
) -> Result:
    """The result object that all front ends show."""
    left, right, left_patterns, right_patterns, side_note = chosen
    metrics = METRICS.sorted(_weighed(_no_nan(METRICS.frame(compared.columns))))
    tables = {
        "metrics": metrics,
        "runs": _runs_table(runs, left, right, compared),
        "missing": _missing_table(metrics),
        "change_points": _change_table(compared, metrics),
        "groups": group(metrics, parameters.group_by),
    }
    counted = pl.Series(compared.counted)
    words = Counter(word for word, counts in zip(compared.columns["verdict"], counted.to_list(), strict=True) if counts)
    matched = int((compared.matched & compared.counted).sum())
    total = int(compared.counted.sum())
    for_worse = (pl.col("effect") == "worse") & (pl.col("verdict") == statistical.DIFFERENT)
    worse = metrics.filter(for_worse & ~pl.col("pooled"))
    summary: dict[str, Any] = {
        "mode": parameters.mode,
        "scheme": parameters.scheme if parameters.mode == "upstream" else None,
        "threshold": parameters.threshold,
        "left": ", ".join(left_patterns),
        "right": ", ".join(right_patterns),
        "runs_left": len(left),
        "runs_right": len(right),
        "matched": matched,
        "mismatched": total - matched,
        "total": total,
        "share": compared.share,
        "share_low": _finite(compared.interval[0]) if compared.interval else None,
        "share_high": _finite(compared.interval[1]) if compared.interval else None,
        "pass": compared.passed,
        "verdict": compared.verdict,
        "missing": tables["missing"].height,
        "different": words.get("different", 0),
        "equivalent": words.get("equivalent", 0),
        "not_enough_data": words.get("not enough data", 0),
        "worse": worse.height,
        "change_points": tables["change_points"].height,
        "bad_runs": int(tables["runs"].get_column("bad").fill_null(False).sum()),
        **compared.extra,
    }
    notes = [side_note] if side_note else []
    notes += [_selection_note(parameters, left, right), *compared.notes]
    axis = compared.axis or changepoints.time_axis(left, right)
    upper = parameters.upper if parameters.mode == "design" else 1.0 / max(parameters.threshold, 1e-9)
    return Result(
        view="run-comparison",
        summary=summary,
        tables=tables,
        headline=_headline(summary, parameters),
        findings=_findings(summary, metrics, parameters),
        notes=tuple(notes),
        problems=one_per_file((*problems, *runs.bad_names, *compared.problems)),
        newest_ms=inputs.newest_ms,
        detail=Detail(
            compared.samples,
            left,
            right,
            axis,
            compared.changes,
            parameters.threshold,
            upper,
            parameters.alpha,
            left_patterns,
            right_patterns,
        ),
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _weighed(frame: pl.DataFrame) -> pl.DataFrame:
    """With ``evidence``: how far the ratio is from 1, weighed by how sure that is where a q says so. Missing: none."""
    size = pl.col("ratio").log().abs().clip(0.0, 50.0)
    sure = pl.when(pl.col("q_value").is_null()).then(1.0).otherwise(-pl.col("q_value").clip(1e-300, 1.0).log10())
    known = pl.col("ratio").is_not_null() & (pl.col("ratio") > 0)
    return frame.with_columns(pl.when(known).then(size * sure + 0.0).otherwise(None).alias("evidence"))


def _no_nan(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def _selection_note(parameters: ComparisonParameters, left: Sequence[Run], right: Sequence[Run]) -> str:
    failed = sum(1 for run in (*left, *right) if run.ci and not run.success)
    odd = f"; {failed} of them did not finish with SUCCESS" if failed else ""
    return f"{len(left)} runs on the left and {len(right)} on the right (select {parameters.select}){odd}."


def _runs_table(runs: Runs, left: Sequence[Run], right: Sequence[Run], compared: Compared) -> pl.DataFrame:
    places: dict[Any, tuple[str, int | None]] = {run.key: ("right", i) for i, run in enumerate(right)}
    for i, run in enumerate(left):
        places[run.key] = ("both" if run.key in places else "left", i)
    columns: dict[str, list[Any]] = defaultdict(list)
    scores: dict[str, list[list[Any]]] = {}
    names = ("influence", "badness", "outliers", "bad")
    if compared.scores is not None:
        scores = {
            side: [getattr(found, name).tolist() for name in names]
            for side, found in zip(("left", "right"), compared.scores, strict=True)
        }
        scores["both"] = scores["left"]
    for run in runs.runs:
        side, order = places.get(run.key, ("", None))
        columns["job"].append(run.job)
        columns["run"].append(run.name)
        columns["number"].append(run.number)
        columns["time_ms"].append(run.time_ms)
        columns["result"].append(run.state)
        columns["side"].append(side)
        columns["order"].append(order)
        columns["files"].append(len(run.files))
        columns["values"].append(run.values)
        columns["problems"].append(run.problems)
        told = scores.get(side) if order is not None else None
        for at, name in enumerate(names):
            columns[name].append(None if told is None or order is None else told[at][order])
    return RUNS.sorted(_no_nan(RUNS.frame(columns)))


def _missing_table(metrics: pl.DataFrame) -> pl.DataFrame:
    lacking = metrics.filter(((pl.col("n_left") == 0) | (pl.col("n_right") == 0)) & ~pl.col("pooled"))
    names = [column.name for column in MISSING.columns if column.name not in ("side", "n")]
    return MISSING.sorted(
        MISSING.frame(
            lacking.select(
                *names,
                pl.when(pl.col("n_left") == 0).then(pl.lit("left")).otherwise(pl.lit("right")).alias("side"),
                (pl.col("n_left") + pl.col("n_right")).alias("n"),
            )
        )
    )


def _change_table(compared: Compared, metrics: pl.DataFrame) -> pl.DataFrame:
    axis = compared.axis
    if axis is None or not compared.changes:
        return CHANGE_POINTS.empty()
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
    wanted = pl.Series("row", [found.metric for found in compared.changes], dtype=pl.Int64)
    named = {
        row[0]: row[1:]
        for row in metrics.filter(pl.col("row").is_in(wanted.implode())).select("row", *names).iter_rows()
    }
    columns: dict[str, list[Any]] = defaultdict(list)
    words = ("left", "right")
    for found in compared.changes:
        for point, position in zip(found.points, found.positions, strict=True):
            run = axis.runs[position]
            for name, value in zip(names, named[found.metric], strict=True):
                columns[name].append(value)
            columns["index"].append(position)
            columns["job"].append(run.job)
            columns["run"].append(run.name)
            columns["time_ms"].append(run.time_ms)
            columns["mean_before"].append(point.mean_before)
            columns["mean_after"].append(point.mean_after)
            columns["change"].append(point.relative_change if np.isfinite(point.relative_change) else None)
            columns["p_value"].append(point.p_value)
            here, before = int(axis.sides[position]), int(axis.sides[max(position - 1, 0)])
            columns["inside"].append(words[here] if here == before else "between")
    return CHANGE_POINTS.sorted(CHANGE_POINTS.frame(columns))


def group(metrics: pl.DataFrame, by: str) -> pl.DataFrame:
    """Verdicts by one of the labels, groups with most differences first: a shared cause shows as a group."""
    verdict = pl.col("verdict")
    return GROUPS.sorted(
        GROUPS.frame(
            metrics.filter(~pl.col("pooled"))
            .group_by(pl.col(by).alias("group"), maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("metrics"),
                (verdict == "different").sum().cast(pl.Int64).alias("different"),
                ((pl.col("effect") == "worse") & (verdict == "different")).sum().cast(pl.Int64).alias("worse"),
                (verdict == "equivalent").sum().cast(pl.Int64).alias("equivalent"),
                (verdict == "not enough data").sum().cast(pl.Int64).alias("not_enough_data"),
                (verdict == "missing").sum().cast(pl.Int64).alias("missing"),
                pl.col("matched").filter(verdict != "missing").mean().alias("share"),
                pl.col("ratio").filter(pl.col("ratio").is_finite()).median().alias("ratio"),
            )
            .with_columns(pl.lit(by).alias("by"))
        )
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _headline(summary: dict[str, Any], parameters: ComparisonParameters) -> tuple[Headline, ...]:
    level: Level = "ok" if summary["pass"] else ("severe" if summary["pass"] is False else "low")
    interval = ""
    if summary["share_low"] is not None:
        interval = f"{_percent(summary['share_low'])} to {_percent(summary['share_high'])} over resampled runs; "
    basis = f"{interval}{summary['runs_left']} against {summary['runs_right']} runs"
    shown = [
        Headline("Verdict", str(summary["verdict"]), f"passes from {_percent(parameters.pass_share)}", level),
        Headline("Matched", f"{summary['matched']} of {summary['total']} ({_percent(summary['share'])})", basis),
    ]
    if parameters.mode == "statistical":
        shown += [
            Headline("Different", str(summary["different"]), f"{summary['worse']} for the worse"),
            Headline("Equivalent", str(summary["equivalent"]), "interval inside the margin"),
            Headline("Not enough data", str(summary["not_enough_data"])),
        ]
    elif parameters.mode == "design" and summary.get("similarity") is not None:
        shown.append(Headline("Similarity", f"{summary['similarity']:.2f}", "mean over the compared metrics"))
    shown.append(Headline("Missing", str(summary["missing"]), "on one side only"))
    return tuple(shown)


def _findings(summary: dict[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters) -> tuple[Finding, ...]:
    share = f"{summary['matched']} of {summary['total']} metrics matched ({_percent(summary['share'])})"
    if summary["share_low"] is not None:
        share += f", {_percent(summary['share_low'])} to {_percent(summary['share_high'])} over resampled runs"
    needed = f"; {_percent(parameters.pass_share)} are needed"
    level: Level = "ok" if summary["pass"] else ("severe" if summary["pass"] is False else "moderate")
    found = [Finding(level, "comparison", f"{summary['verdict']}: {share}{needed}")]
    picked = metrics.filter((pl.col("verdict") == "different") & ~pl.col("pooled") & (pl.col("n_left") > 0))
    columns = ("test", "verb", "resource", "subresource", "scope", "bucket", "ratio", "ratio_low", "ratio_high")
    more = ("q_value", "p_value", "effect", "mean_left", "mean_right", "unit", "n_left", "n_right")
    by_size = picked.sort((pl.col("ratio").log().abs()).fill_null(0.0), descending=True, maintain_order=True)
    for row in by_size.head(MAX_FINDINGS).select(*columns, *more).iter_rows(named=True):
        subject = " ".join(str(row[name]) for name in columns[:6] if row[name])
        text = f"{row['mean_left']:.6g} against {row['mean_right']:.6g} {row['unit']}".rstrip()
        if row["ratio"] is not None:
            side = "right/left" if parameters.mode == "statistical" else "left/right"
            text += f", ratio {side} {row['ratio']:.3g}"
        if row["ratio_low"] is not None:
            text += f" [{row['ratio_low']:.3g}, {row['ratio_high']:.3g}]"
        if row["q_value"] is not None:
            text += f", q {row['q_value']:.2g}"
        elif row["p_value"] is not None:
            text += f", p {row['p_value']:.2g}"
        text += f", n {row['n_left']} and {row['n_right']}"
        if row["effect"]:
            text += f", {row['effect']}"
        found.append(Finding("low", subject, text))
    return tuple(found)
