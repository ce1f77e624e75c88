"""Verdicts of all rules in force, and the result tables made of them: metrics, severity, score, errors, notes, findings.

Errors are those that Dr. Elephant throws instead of a result, see docs/models/job-heuristics.md, "Where Dr. Elephant shows
nothing".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl

from engine.core.reading import clean
from engine.core.view import Context
from engine.job_heuristics.dr_elephant.display import integer
from engine.job_heuristics.dr_elephant.errors import cause_of, root_cause
from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.dr_elephant.heuristic import BLOCK_SIZE
from engine.job_heuristics.dr_elephant.judged import (
    FAILED,
    STRIPS,
    Judged,
    JudgedJobs,
    findings_of,
    judged_jobs,
    strips_of,
)
from engine.job_heuristics.dr_elephant.metrics import UNKNOWN, Whole, memory, peaks, seconds, slow_start_error, waits
from engine.job_heuristics.dr_elephant.side_stats import Sides, SideTasks
from engine.job_heuristics.dr_elephant.sides import (
    SIDES,
    Jobs,
    Verdict,
    rows,
    totals,
    verdicts,
)
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.arrays import TaskArrays, measure
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.rules.heuristics import MEASURES, MapReduceRules
from engine.job_heuristics.mapreduce.tables import JOB_MODEL
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import DIFFERENCES, JOBS, SEVERITIES, of_rows

_NULL_STATE = 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)" because "<local13>" is null'
_NEITHER = "java.lang.RuntimeException: job neither succeeded or failed. can not process it "
_OPEN_TASK = 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)": a task has no final state'


def errors(jobs: Jobs, rules: MapReduceRules) -> list[str]:
    """Return Dr. Elephant's first exception per job; empty if it shows a result."""
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    unfinished = (maps["n"] + reduces["n"] - maps["ended"] - reduces["ended"]).tolist()
    thrown = [(rule.excluded, each) for rule in rules.rules if (each := rule.heuristic.error(jobs))]
    texts = []
    names = ("job_id", "state", "source", "broken", "conf_file", "job_type")
    for j, cells in enumerate(zip(*(jobs.frame[name].to_list() for name in names), strict=True)):
        row = dict(zip(names, cells, strict=True))
        told = (
            # reading the job fails before its heuristics run
            (row["broken"], row["broken"]),
            (row["state"] == "RUNNING" and row["source"] == "history", _NULL_STATE),
            (row["state"] not in ("SUCCEEDED", "FAILED"), _NEITHER),
            (row["conf_file"] is None, f"java.lang.RuntimeException: Can't find config of {row['job_id']}"),
            (unfinished[j], _OPEN_TASK),
            *((row["job_type"] not in excluded, each[j]) for excluded, each in thrown if j in each),
        )
        text = next((error for applies, error in told if applies and error), "")
        texts.append(clean(text or slow_start_error(jobs.properties[j].get(job_conf.SLOW_START))))
    return texts


def assumptions(jobs: Jobs) -> list[str]:
    """Return the assumptions made for each job."""
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    timed, fallback, n = (maps[name] + reduces[name] for name in ("timed", "fallback", "n"))
    measured = (maps["avg_physical_bytes"] > 0) | (reduces["avg_physical_bytes"] > 0)
    columns = zip(
        jobs.frame["state"].to_list(), jobs.frame["conf_file"].to_list(),
        fallback.tolist(), (n - timed).tolist(), maps["instant"].tolist(), ((timed > 0) & ~measured).tolist(),
        _huge(jobs), strict=True,
    )  # fmt: skip
    notes = []
    for j, (state, conf_file, chosen, untimed, instant, unmeasured, huge) in enumerate(columns):
        said = (
            (chosen, "the file names no successful attempts: those that succeeded are taken"),
            (untimed and state == "SUCCEEDED", f"{untimed} ended task(s) have no times"),
            (instant, f"{instant} map(s) of 0 ms are left out of Mapper Speed"),
            *((conf_file is not None, words) for words in _container_notes(jobs.properties[j])),
            (conf_file is None, "no configuration found: containers of 2048 MB and an unknown job type are assumed"),
            (huge, "memory x time is beyond 64 bit: it wraps around as Dr. Elephant's does, and no total counts it"),
            (unmeasured, "memory was not measured: all of it would count as wasted"),
            (state == "RUNNING", "still running: verdicts and metrics are over the tasks that have ended so far"),
            (
                state not in ("RUNNING", "SUCCEEDED", "FAILED"),
                f"{state}: verdicts and metrics are over the tasks that ended",
            ),
        )
        notes.append("; ".join(words for applies, words in said if applies))
    return notes


def _huge(jobs: Jobs) -> list[bool]:
    """Return which jobs have more memory x time than a 64-bit number holds."""
    products = [
        [mb * s for mb, s in zip(jobs.frame[name].to_list(), jobs.side(side)["seconds"].tolist(), strict=True)]
        for name, side in zip(CONTAINERS, SIDES, strict=True)
    ]
    return [max(map(abs, (*both, sum(both)))) >= 2**63 for both in zip(*products, strict=True)]


def _container_notes(properties: Mapping[str, str]) -> list[str]:
    """Return sentences on containers whose size is no number of MB."""
    words = []
    for side, key in job_conf.MEMORY.items():
        value = properties.get(key)
        if value is None:
            continue
        number = integer(value)
        if number is None:
            stated = job_conf.stated_mb(properties, side)
            mb = job_conf.DEFAULT_MB if stated < 0 else stated
            words.append(
                f"{side} container {clean(value, 100)!r} is not a number: metrics count 2048 MB, the memory heuristic {mb} MB"
            )
        elif number < 0:
            words.append(f"{side} container {value} means Hadoop's own choice: 2048 MB is assumed")
    return words


Properties = Mapping[str, Mapping[str, str]]


def slow_start(properties: Properties, names: list[str]) -> Array:
    """Return per job the share of maps after which reduces may start (Hadoop's 0.05 where unset or unusable)."""
    shares = []
    for name in names:
        try:
            shares.append(float(properties.get(name, {}).get(job_conf.SLOW_START, "0.05")))
        except ValueError:
            shares.append(0.05)
    return np.nan_to_num(np.array(shares, dtype=np.float64), nan=0.05)


def sides_of(jobs: pl.DataFrame, tasks: TaskArrays, properties: Properties, *, published: bool) -> dict[str, Array]:
    """Compute the measures of all heuristics and metrics, those of the published description only where ``published``.

    ``tasks`` counts in the order of ``jobs`` (JOB_MODEL rows).
    """
    names: list[str] = jobs["job_id"].to_list()
    judged = np.array([state in ("SUCCEEDED", "FAILED") for state in jobs["state"].to_list()], dtype=bool)
    values, stats = measure(judged, tasks, [each for each in MEASURES if published or not each.published])
    if not published:
        return values
    containers = (jobs["map_memory_mb"].to_numpy(), jobs["reduce_memory_mb"].to_numpy())
    return values | published_measures(stats, containers, slow_start(properties, names))


def blocks_of(jobs: pl.DataFrame, properties: Properties, block_size: int, *, published: bool) -> Array:
    """Return the block size in bytes per job: as in ``rules``; for the published description the cluster's own from
    the configuration, unless a size was chosen."""
    sizes = np.full(jobs.height, float(block_size))
    if published and block_size == BLOCK_SIZE:
        for j, name in enumerate(jobs["job_id"].to_list()):
            conf = properties.get(name, {})
            value = next((v for key in job_conf.BLOCK_SIZES if (v := integer(conf.get(key)))), 0)
            if value > 0:
                sizes[j] = value
    return sizes


_SHOWN = tuple(name for name in JOBS.schema if name in JOB_MODEL.schema)  # columns taken from the job model unchanged


FAILED_WITH_ERROR = (pl.col("state") == "FAILED") & (pl.col("error").fill_null("") != "")
"""Attempts (ATTEMPT_MODEL rows) that failed and say why."""
_NOTHING_FAILED: Mapping[str, str] = {}


def why_failed(model: Model) -> dict[str, str]:
    """Return the cause of the failure of each job that did not succeed: the one that most of its failed attempts name, else
    what the job's diagnostics say."""
    failed = model.jobs.filter(pl.col("state").is_in(FAILED)).select("job_id", "state", "diagnostics")
    if failed.is_empty():
        return {}
    told = model.attempts.filter(FAILED_WITH_ERROR).select("job_id", "error").partition_by("job_id", as_dict=True)
    causes = {
        job: cause_of(told[job,]["error"])
        for job, state, _ in failed.iter_rows()
        if state == "FAILED" and (job,) in told
    }
    return {job: causes.get(job) or root_cause(text or "") for job, _, text in failed.iter_rows()}


def judge(
    jobs: pl.DataFrame, sides: Sides, properties: Properties, rules: MapReduceRules, *, published: bool,
    failures: Mapping[str, str] = _NOTHING_FAILED,
) -> Judged:  # fmt: skip
    """Return the result frames of ``jobs`` (JOB_MODEL rows) from their ``sides`` and configurations, under ``rules``.

    ``failures``: causes of failed jobs. ``published``: by the published description instead of Dr. Elephant's code.
    """
    judged = Jobs(jobs, sides, properties, blocks_of(jobs, properties, rules.block_size, published=published))
    made = verdicts(rules, judged, published=published)
    heuristics = rows(judged, made)
    worst, score = totals(judged, made)
    columns: dict[str, Any] = {
        **{name: jobs[name] for name in _SHOWN},
        "severity": [None if level is None else SEVERITIES[level] for level in worst],
        "score": [None if level is None else points for level, points in zip(worst, score, strict=True)],
        **metrics_of(jobs, sides, published=published),
        "error": [failures.get(name, "") for name in judged.names],
        "upstream_says": errors(judged, rules),
        "notes": assumptions(judged),
    }
    # Jobs that have tasks but no data on them: used and wasted are unknown, not 0.
    planned = zip(*(jobs[name].to_list() for name in ("tasks_seen", "maps", "reduces", "source")), strict=True)
    unknown = [
        not seen and ((maps or 0) > 0 or (reduces or 0) > 0) and source in ("am", "rest")
        for seen, maps, reduces, source in planned
    ]
    if any(unknown):
        columns |= {
            name: [None if u else value for u, value in zip(unknown, columns[name], strict=True)]
            for name in ("used_mb_s", "wasted_mb_s", "wait_ms")
        }
    shown = JOBS.frame(columns)
    strips = pl.DataFrame({"job_id": judged.names, "strip": strips_of(judged.names, heuristics, rules.names)}, STRIPS)
    return Judged(shown, heuristics, strips, findings_of(shown, heuristics))


def judge_all(model: Model, chosen: MapReduceRules, parameters: JobParameters, context: Context) -> JudgedJobs:
    """Judge all jobs of ``model`` by the rules ``chosen``; only jobs that changed since the last call are judged again."""
    published = parameters.mode == "published"

    def judge_some(jobs: Collection[str]) -> Judged:
        part = model.only(jobs)
        sides = sides_of(part.jobs, part.arrays[0], part.properties, published=published)
        return judge(part.jobs, sides, part.properties, chosen, published=published, failures=why_failed(part))

    return judged_jobs("verdicts", model.stamps, judge_some, (parameters.mode, chosen.key), context)


METRIC_DIFFERENCES = {
    "used_mb_s": "the published description counts exact times, Dr. Elephant whole seconds of each task",
    "wasted_mb_s": "the published description counts container - peak of each task, Dr. Elephant container - 1.5 x the "
    "side's largest peak",
    "wait_ms": "the published description's ideal start is the launch and the slow-start share of maps, and waits may be "
    "negative; Dr. Elephant's is submission and the last map, floored at 0",
}
"""Why a metric differs between the published description and Dr. Elephant's code."""


def differences(model: Model, rules: MapReduceRules) -> pl.DataFrame:
    """Judge the jobs of ``model`` both ways. Return DIFFERENCES rows in model order, metrics before heuristics."""
    jobs, properties = model.jobs, model.properties
    sides = sides_of(jobs, model.arrays[0], properties, published=True)
    code, described = (
        Jobs(jobs, sides, properties, blocks_of(jobs, properties, rules.block_size, published=mode))
        for mode in (False, True)
    )
    by_code = verdicts(rules, code)
    by_description = {id(rule): verdict for rule, verdict in verdicts(rules, described, published=True)}
    counted = [metrics_of(jobs, sides, published=mode) for mode in (False, True)]
    both = [
        (name, *(list(map(str, found[name])) for found in counted), reason)
        for name, reason in METRIC_DIFFERENCES.items()
    ]
    both += [
        (
            rule.name, _severity_words(verdict, code.count), _severity_words(by_description.get(id(rule)), code.count),
            rule.heuristic.difference,
        )
        for rule, verdict in by_code
    ]  # fmt: skip
    return of_rows(
        DIFFERENCES,
        (
            (job, what, ours[j], theirs[j], reason)
            for j, job in enumerate(code.names)
            for what, ours, theirs, reason in both
            if ours[j] != theirs[j]
        ),
    )


def _severity_words(verdict: Verdict | None, count: int) -> list[str]:
    """Return the severity of each of ``count`` jobs as a word, ``-`` without a result."""
    if verdict is None:
        return ["-"] * count
    levels = zip(verdict.given.tolist(), verdict.severity.tolist(), strict=True)
    return [SEVERITIES[level] if given else "-" for given, level in levels]


# --- Metrics, by Dr. Elephant's code and by its published description ------------------------------------------------


_LARGEST = 2**63 - 1
CONTAINERS = ("map_memory_mb", "reduce_memory_mb")
"""Columns of the job model with the containers that the metrics count with: of a map and of a reduce."""


def published_measures(tasks: SideTasks, containers: tuple[Array, Array], slow_start: Array) -> dict[str, Array]:
    """Compute the measures of the published metrics, per job and side.

    ``containers``: MB of a map and of a reduce, per job. ``slow_start``: per job, the share of finished maps at which
    its reduces may begin.
    """
    container = np.column_stack(containers).astype(np.int64).ravel()
    return {
        "exact_ms": tasks.whole(tasks["total_ms"]),
        "slow_finish_ms": tasks.ranked(tasks["finish_ms"], np.repeat(slow_start, 2)),
        "wasted_per_task": tasks.whole((container[tasks.segment] - peaks(tasks)) * seconds(tasks)),
    }


def metrics_of(jobs: pl.DataFrame, sides: Sides, *, published: bool = False) -> dict[str, Whole]:
    """Return ``used_mb_s``, ``wasted_mb_s``, ``wait_ms`` and ``runtime_ms`` of each job, in the order of ``jobs``.

    Only jobs that succeeded or failed have wait and run time.
    """
    both: tuple[Whole, Whole]
    if published:  # exact times, and each task's own peak; None beyond 64 bit
        exact = [
            [mb * ms // 1000 for mb, ms in zip(jobs[name].to_list(), spent.tolist(), strict=True)]
            for name, spent in zip(CONTAINERS, _side(sides, "exact_ms"), strict=True)
        ]
        both = _summed(*exact), _summed(*(unused.tolist() for unused in _side(sides, "wasted_per_task")))
    else:
        containers = (jobs[CONTAINERS[0]].to_numpy(), jobs[CONTAINERS[1]].to_numpy())
        both = memory(containers, _side(sides, "seconds"), _side(sides, "peak_mb"))
    submit: list[int | None] = jobs["submit_ms"].to_list()
    begin: list[int | None] = jobs["launch_ms"].to_list() if published else submit
    end: list[int | None] = jobs["finish_ms"].to_list()
    over = [state in ("SUCCEEDED", "FAILED") and at is not None for state, at in zip(jobs["state"], end, strict=True)]
    start = np.array([UNKNOWN if at is None else at for at in begin], dtype=np.int64)
    maps, reduces = ({name: values[k::2] for name, values in sides.items()} for k in (0, 1))
    waited = waits(maps, reduces, start, maps["slow_finish_ms"] if published else None).tolist()
    return {
        "used_mb_s": both[0],
        "wasted_mb_s": both[1],
        "wait_ms": [w if o and b is not None else None for w, o, b in zip(waited, over, begin, strict=True)],
        "runtime_ms": [
            None if not o or a is None or b is None else b - a for o, a, b in zip(over, submit, end, strict=True)
        ],
    }


def _side(sides: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    """Return a measure of maps and of reduces, per job."""
    return sides[name][0::2], sides[name][1::2]


def _summed(maps: list[int], reduces: list[int]) -> list[int | None]:
    """Return the sum per job; None where it, or one of both, is beyond 64 bit."""
    sums = [(abs(a), abs(a + b), a + b) for a, b in zip(maps, reduces, strict=True)]
    return [total if first <= _LARGEST and both <= _LARGEST else None for first, both, total in sums]
