"""The tables of one MapReduce job (option job), and what the screen draws beyond tables: attempts, tasks, their insides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core import units
from engine.core.view import Context
from engine.formats import json_text
from engine.job_heuristics.dr_elephant import decision
from engine.job_heuristics.dr_elephant.decision import Metric, OpenJob, tables_of, verdicts_in_full
from engine.job_heuristics.dr_elephant.errors import Told
from engine.job_heuristics.dr_elephant.judged import JudgedJobs
from engine.job_heuristics.dr_elephant.sides import NO_DATA, NO_DATA_ADVICE
from engine.job_heuristics.mapreduce.insight import certainty, phases, skew, whatif
from engine.job_heuristics.mapreduce.insight.job_verdicts import explain, job_verdicts
from engine.job_heuristics.mapreduce.model.model import Attempts, Job, Model, Side
from engine.job_heuristics.mapreduce.model.model import job as job_of
from engine.job_heuristics.mapreduce.rules.heuristics import MapReduceRules
from engine.job_heuristics.mapreduce.rules.verdict_tables import FAILED_WITH_ERROR, differences
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import PHASES, of_rows
from engine.stats.natural_break import Split, natural_break

_ARRAY = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]])


def decode(progress: bytes | None) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Decode a value of column ``progress`` to its four arrays; None where there are none or they are damaged."""
    if not progress:
        return None
    try:
        parts = [_ARRAY.decode(part) if part else [] for part in progress.split(b";")]
    except json_text.ERRORS:
        return None
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else None


BUCKETS = 12  # parts into which Hadoop divides the progress of an attempt
MOST = 400  # most attempts that are decoded, sampled evenly


class InTask(msgspec.Struct, frozen=True):
    """One side's tasks by twelfths of their time: mean physical MB and mean CPU per wall time (0-1), of ``seen`` attempts.

    ``growing``: tasks whose memory rises to the end; ``stalled``: tasks that used less than 10% CPU for a third of their time.
    ``words``: the same as a sentence.
    """

    side: str
    seen: int
    memory_mb: tuple[float, ...]
    cpu_share: tuple[float, ...]
    growing: int
    stalled: int
    words: str


def in_task(attempts: pl.DataFrame, side: str) -> InTask | None:
    """Describe one side of a job from its ATTEMPT_MODEL rows; None if the history has no such arrays."""
    mine = attempts.filter((pl.col("side") == side) & pl.col("chosen") & pl.col("progress").is_not_null())
    if not mine.height:
        return None
    picked = np.unique(np.linspace(0, mine.height - 1, min(MOST, mine.height)).astype(np.int64))
    decoded = [decode(data) for data in mine["progress"].gather(picked.tolist()).to_list()]
    rows = [four for four in decoded if four is not None and all(len(each) == BUCKETS for each in four)]
    if not rows:
        return None
    data = np.clip(np.array(rows, dtype=np.float64), 0, 2**52)
    clock, cpu, memory = data[:, 0], data[:, 1], data[:, 3] / 1024
    measured = memory[memory.max(axis=1) > 0]
    wall = clock.sum(axis=0)
    share = np.divide(cpu.sum(axis=0), wall, out=np.zeros(BUCKETS), where=wall > 0)
    growing = _growing(measured)
    # attempts that spent a third of their time (at least 30 s) in twelfths with less than 10 % CPU, though they used some
    idle = np.where(cpu < 0.1 * clock, clock, 0).sum(axis=1)
    stalled = int(((cpu.sum(axis=1) > 0) & (idle >= clock.sum(axis=1) / 3) & (idle >= 30_000)).sum())
    words = f"{len(rows):,} of {mine.height:,} {'maps' if side == 'map' else 'reducers'} looked at: "
    words += f"{growing:,} grow in memory to their end" if growing else "none keeps growing in memory"
    words += (
        f", {stalled:,} stand still (under 10% CPU) for a third of their time." if stalled else ", none stands still."
    )
    mean = measured.mean(axis=0) if len(measured) else np.zeros(BUCKETS)
    return InTask(
        side, len(rows), tuple(float(x) for x in mean), tuple(float(x) for x in share), growing, stalled, words
    )


def _growing(memory: NDArray[np.float64]) -> int:
    """Count attempts whose memory at the end is 1.3 times that of the middle and never falls by more than 2 % after it."""
    if not len(memory):
        return 0
    late = memory[:, BUCKETS // 2 :]
    rising = (np.diff(late, axis=1) >= -0.02 * late[:, :-1]).all(axis=1)
    return int((rising & (late[:, -1] >= 1.3 * np.maximum(late[:, 0], 1.0))).sum())


SLOT_POINTS = 240  # points of the series of containers in use
LANES = 400  # most lanes of attempts that are drawn


class Bins(msgspec.Struct, frozen=True):
    """A histogram: ``counts`` between ``edges`` (one more than counts)."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class SideDetail(msgspec.Struct, frozen=True, eq=False):
    """Distribution of one side: histograms of its tasks' times (ms) and bytes, their percentiles 5, 50, 95 and 100, both splits
    of each, inequality of bytes, causes of long tasks, and the series inside the tasks."""

    name: str
    tasks: int
    times: Bins
    sizes: Bins
    time_points: tuple[float, float, float, float]
    size_points: tuple[float, float, float, float]
    time_split: Split
    time_natural: Split
    size_split: Split
    size_natural: Split
    gini: float
    top: tuple[int, float]
    causes: skew.Causes
    inside: InTask | None


class Chart(msgspec.Struct, frozen=True, eq=False):
    """Gantt of attempts: arrays per bar, by start: epoch ms, lane, side, outcome code, whether on the critical path."""

    start: NDArray[np.int64]
    finish: NDArray[np.int64]
    lane: NDArray[np.int64]
    is_map: NDArray[np.bool_]
    outcome: NDArray[np.int8]
    critical: NDArray[np.bool_]
    lanes: int
    map_waves: int
    reduce_waves: int
    begin_ms: int
    end_ms: int
    map_slots: NDArray[np.int64]
    reduce_slots: NDArray[np.int64]
    waits: tuple[int, int, int]
    waited: int


class JobFacts(msgspec.Struct, frozen=True, eq=False):
    """Parts of a job that do not depend on parameters and survive a change of them."""

    job: Job
    waterfall: tuple[phases.Phase, ...]
    path: tuple[phases.Step, ...]
    chart: Chart
    sides: tuple[SideDetail, ...]
    errors: tuple[tuple[str, int, str], ...]


class Ahead(msgspec.Struct, frozen=True):
    """Forecast of a running job; independent of a scenario."""

    outlooks: tuple[decision.Outlook, ...]
    arrival: certainty.Arrival


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job for the screen. ``differences``: its rows of that table. Equal ``stamp`` values mean equal contents, so
    that nothing is redrawn."""

    stamp: tuple[Any, ...]
    facts: JobFacts = field(compare=False, repr=False)
    verdicts: tuple[decision.VerdictDetail, ...] = field(compare=False)
    differences: tuple[dict[str, Any], ...] = field(compare=False)
    arrival: certainty.Arrival = field(compare=False)
    before: whatif.Metrics = field(compare=False)
    scenario: whatif.Scenario = field(compare=False)
    prediction: whatif.Prediction | None = field(compare=False)


def facts_of(part: Model) -> JobFacts:
    """Return the facts of the one job in ``part``."""
    job = job_of(part)
    assert job is not None
    a, row = job.attempts, job.row
    path = phases.critical_path(a, row["launch_ms"])
    return JobFacts(
        job,
        phases.waterfall(a, row["submit_ms"], row["am_start_ms"], row["launch_ms"], row["finish_ms"]),
        path,
        _chart(a, path, row),
        tuple(_side(s, part.attempts) for s in job.sides if len(s.total)),
        _errors(part),
    )


def _errors(part: Model) -> tuple[Told, ...]:
    """Return the errors of failed attempts, and what the one job in ``part`` says of its own end."""
    each = (
        part.attempts.filter(FAILED_WITH_ERROR)
        .group_by("error", maintain_order=True)
        .agg(pl.len(), pl.col("attempt_id").first())
    )
    return (*each.iter_rows(), *((text, 0, "job") for text in part.jobs["diagnostics"].to_list()))


def _chart(a: Attempts, path: tuple[phases.Step, ...], row: Mapping[str, Any]) -> Chart:
    chart = phases.gantt(a)
    order = chart.order[chart.lane[chart.order] < LANES]
    moments = [int(row[k]) for k in ("submit_ms", "launch_ms") if row[k]]
    begin = min([*moments, *([int(a.start[order].min())] if len(order) else [])], default=0)
    end = max(int(row["finish_ms"] or 0), int(row["last_event_ms"] or 0), *(a.finish[order].tolist()), begin + 1)
    critical = np.zeros(len(a), dtype=bool)
    critical[[s.attempt for s in path if s.attempt >= 0]] = True
    waits = chart.wait_ms[chart.wait_ms >= 0]
    low, middle, high = (int(q) for q in np.quantile(waits, (0.05, 0.5, 0.95))) if len(waits) else (0, 0, 0)
    map_slots, reduce_slots = phases.slots_in_use(a, begin, end, SLOT_POINTS)
    return Chart(
        a.start[order], a.finish[order], chart.lane[order], a.is_map[order], a.outcome[order], critical[order],
        chart.lanes, chart.map_waves, chart.reduce_waves, begin, end, map_slots, reduce_slots, (low, middle, high),
        len(waits),
    )  # fmt: skip


def bins(values: NDArray[np.float64]) -> Bins:
    """Return the histogram of non-negative ``values`` in at most 60 equal bins, starting at 0 unless all values are
    far from it."""
    count = int(np.clip(2 * np.sqrt(len(values)), 8, 60))
    high = max(1.0, float(values.max(initial=0.0)))
    low = float(values.min(initial=high))
    counts, edges = np.histogram(values, bins=count, range=(low if 0.5 * high < low < high else 0.0, high))
    return Bins(tuple(edges.tolist()), tuple(counts.tolist()))


def _points(values: NDArray[np.float64]) -> tuple[float, float, float, float]:
    a, b, c, d = np.quantile(values, (0.05, 0.5, 0.95, 1.0)).tolist() if len(values) else (0.0, 0.0, 0.0, 0.0)
    return a, b, c, d


def _side(side: Side, attempts: pl.DataFrame) -> SideDetail:
    total, size = side.total.astype(np.float64), side.size.astype(np.float64)
    return SideDetail(
        side.name,
        len(total),
        bins(total),
        bins(size),
        _points(total),
        _points(size),
        skew.dr_elephant_split(side.total),
        natural_break(total),
        skew.dr_elephant_split(side.size),
        natural_break(size),
        skew.gini(size),
        skew.top_share(size),
        skew.causes(total, size, side.cpu.astype(np.float64), list(side.hosts), list(side.racks)),
        in_task(attempts, side.name),
    )


def job_detail(
    facts: JobFacts,
    verdicts: pl.DataFrame,
    differences: tuple[dict[str, Any], ...],
    rules: MapReduceRules,
    changed: MapReduceRules,
    scenario: whatif.Scenario,
    ahead: Ahead,
    stamp: tuple[Any, ...],
) -> JobDetail:
    """Return one job under ``rules`` (those in force) and the what-if ``scenario`` with ``changed`` limits.
    ``verdicts``, ``differences``: the job's rows of these tables; ``ahead``: forecast by the same rules."""
    job = facts.job
    explained = {verdict.name: verdict for verdict in job_verdicts(job, rules)}
    outlooks = {outlook.heuristic: outlook for outlook in ahead.outlooks}
    advices = {rule.name: rule.heuristic.advice for rule in rules.rules}
    prediction = (
        whatif.predict(job, scenario, changed) if scenario != whatif.Scenario() or changed is not rules else None
    )

    def words(name: str, level: int) -> tuple[decision.Why | None, str, decision.Outlook | None]:
        advice = advices[name](level, job) if name in advices else NO_DATA_ADVICE if name == NO_DATA else ""
        return (
            explain(explained[name]) if name in explained else None,
            advice,
            outlooks.get(name) if job.running else None,
        )

    details = verdicts_in_full(verdicts, words, prediction.levels if prediction is not None else {})
    return JobDetail(stamp, facts, details, differences, ahead.arrival, whatif.metrics(job), scenario, prediction)


def of_job(
    model: Model,
    verdicts: JudgedJobs,
    rules: tuple[MapReduceRules, MapReduceRules],
    job_id: str,
    parameters: JobParameters,
    context: Context,
) -> tuple[JobDetail, dict[str, pl.DataFrame]]:
    """Make the detail of one job, and its tables by name. ``rules``: in force, and of the scenario."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    revision = (job_id, times, model.revisions[job_id])
    facts = memo.value("job facts", revision, lambda: facts_of(model.only((job_id,))))
    scenario = whatif.Scenario(
        parameters.map_mb, parameters.reduce_mb, parameters.split_size, parameters.reduces, parameters.slow_start
    )
    job, seed = facts.job, parameters.seed
    ahead = memo.value(
        "outlook of job",
        (*revision, rules[0].key, seed),
        lambda: Ahead(certainty.outlooks(job, rules[0], seed) if job.running else (), certainty.arrival(job, seed)),
    )
    mine = verdicts.heuristics.filter(pl.col("job_id") == job_id)
    differing = memo.value(
        "differences of job",
        (*revision, rules[0].key),
        lambda: tuple(differences(model.only((job_id,)), rules[0]).to_dicts()),
    )
    made = job_detail(facts, mine, differing, *rules, scenario, ahead, (*revision, verdicts.version, parameters))
    metrics: list[Metric] | None = None
    if made.prediction is not None:
        before, after = made.before, made.prediction.metrics
        metrics = [
            ("used", before.used_mb_s, after.used_mb_s, units.mb_seconds),
            ("wasted", before.wasted_mb_s, after.wasted_mb_s, units.mb_seconds),
            ("wait", before.wait_ms, after.wait_ms, units.duration),
            ("run time", before.runtime_ms, after.runtime_ms, units.duration),
        ]
    frame = OpenJob(
        job_id, model.parts, partial(_input_bytes, model),
        lambda other: dict(model.only((other,)).conf.select("key", "value").iter_rows()), facts.errors,
    )  # fmt: skip
    bars = facts.waterfall
    waterfall = zip(bars, phases.shares(bars), strict=True)
    rows = [(job.id, bar.name, bar.start_ms, bar.ms, share, bar.text) for bar, share in waterfall]
    return made, tables_of(frame, verdicts, made.verdicts, metrics, parameters.compare, context) | {
        PHASES.name: of_rows(PHASES, rows)
    }


def _input_bytes(model: Model, jobs: Sequence[str]) -> dict[str, int | None]:
    return dict(
        model.only(jobs)
        .tasks.filter(pl.col("side") == "map")
        .group_by("job_id")
        .agg(pl.col("input_bytes").sum())
        .iter_rows()
    )
