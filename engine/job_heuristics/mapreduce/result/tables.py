"""Result tables and detail of the one chosen job (option job): imported only when a job is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from engine.core import units
from engine.core.view import Context
from engine.job_heuristics.dr_elephant import decision, history
from engine.job_heuristics.dr_elephant.judged import JudgedFleet
from engine.job_heuristics.mapreduce.insight import phases, whatif
from engine.job_heuristics.mapreduce.model import job_arrays
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.result import detail
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceRules
from engine.job_heuristics.mapreduce.rules.published_differences import differences
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables.insight import CONF_CHANGES, EXPLAINED, HISTORY, PHASES, WHAT_IF
from engine.job_heuristics.tables.result import SEVERITIES


def of_job(
    model: Model,
    verdicts: JudgedFleet,
    rules: tuple[MapReduceRules, MapReduceRules],
    job_id: str,
    parameters: JobParameters,
    context: Context,
) -> tuple[detail.JobDetail, dict[str, pl.DataFrame]]:
    """Make the detail of one job, and its tables by name. ``rules``: those in force, and those of the scenario."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    revision = (job_id, times, model.revisions[job_id])
    facts = memo.value("job facts", revision, lambda: _facts(model.only((job_id,))))
    scenario = whatif.Scenario(
        parameters.map_mb, parameters.reduce_mb, parameters.split_size, parameters.reduces, parameters.slow_start
    )
    ahead = memo.value(
        "outlook of job",
        (*revision, rules[0].key, parameters.seed),
        lambda: detail.ahead_of(facts.job, rules[0], parameters.seed),
    )
    mine = verdicts.heuristics.filter(pl.col("job_id") == job_id)
    stamp = (*revision, verdicts.version, parameters)
    differing = memo.value(
        "differences of job",
        (*revision, rules[0].key),
        lambda: tuple(differences(model.only((job_id,)), rules[0]).to_dicts()),
    )
    job_detail = detail.job_detail(facts, mine, differing, *rules, scenario, ahead, stamp)
    runs = memo.value("runs like job", (job_id, times, verdicts.version), lambda: _runs(model, verdicts.jobs, job_id))
    tables = {
        EXPLAINED.name: _explained(job_detail),
        PHASES.name: _phases(job_detail),
        HISTORY.name: runs,
        CONF_CHANGES.name: _conf_changes(model, parameters.compare or history.run_before(runs, job_id), job_id),
    }
    if job_detail.prediction is not None:
        tables[WHAT_IF.name] = _what_if(job_detail)
    return job_detail, tables


def _facts(part: Model) -> detail.JobFacts:
    """Return all of one job that does not depend on parameters; ``part`` holds that job alone."""
    job = job_arrays.job(part)
    assert job is not None
    return detail.facts_of(job, part.attempts, part.tasks)


def _explained(job_detail: detail.JobDetail) -> pl.DataFrame:
    rows: dict[str, list[Any]] = {name: [] for name in EXPLAINED.schema}
    for v in job_detail.verdicts:
        deciding = [limit for branch in v.why.branches for limit in branch if limit.decides] if v.why else []
        margin = v.why.margin * 100 if v.why and v.why.margin < 1e6 else None
        cells = (
            job_detail.facts.job.id, v.heuristic, v.severity,
            "; ".join(d.phrase for d in deciding), "; ".join(d.limits_text for d in deciding),
            _reason(v), v.why.worse if v.why else "", v.why.better if v.why else "", margin,
            v.outlook.status if v.outlook else "", SEVERITIES[v.outlook.likely] if v.outlook else None,
            100 * v.outlook.chance[v.outlook.likely] if v.outlook else None,
            SEVERITIES[v.predicted] if v.predicted is not None else None, v.advice,
        )  # fmt: skip
        for name, cell in zip(rows, cells, strict=True):
            rows[name].append(cell)
    return EXPLAINED.frame(rows)


def _reason(v: detail.VerdictDetail) -> str:
    if v.why is None:
        return ""
    word = SEVERITIES[v.why.level]
    return v.why.reason if word == v.severity else f"By Dr. Elephant's code it would be {word}: {v.why.reason}"


def _phases(job_detail: detail.JobDetail) -> pl.DataFrame:
    bars = job_detail.facts.waterfall
    return PHASES.frame(
        {
            "job_id": [job_detail.facts.job.id] * len(bars),
            "phase": [p.name for p in bars],
            "start_ms": [p.start_ms for p in bars],
            "ms": [p.ms for p in bars],
            "share": phases.shares(bars),
            "meaning": [p.text for p in bars],
        }
    )


def _runs(model: Model, jobs: pl.DataFrame, job_id: str) -> pl.DataFrame:
    """Return HISTORY rows: earlier and later runs of the same job, by the stem of its name. ``jobs``: JOBS rows."""
    runs = history.runs_like(jobs, job_id)
    sizes = (
        model.only(runs["job_id"].to_list())
        .tasks.filter(pl.col("side") == "map")
        .group_by("job_id", maintain_order=True)
        .agg(pl.col("input_bytes").sum())
    )
    return history.history(runs, sizes, job_id)


def _conf_changes(model: Model, other: str | None, job_id: str) -> pl.DataFrame:
    if not other or other == job_id or other not in model.parts:
        return CONF_CHANGES.empty()
    conf = model.only((other, job_id)).conf
    before, after = (
        dict(conf.filter(pl.col("job_id") == job).select("key", "value").iter_rows()) for job in (other, job_id)
    )
    return history.conf_changes(before, after, other)


def _what_if(job_detail: detail.JobDetail) -> pl.DataFrame:
    assert job_detail.prediction is not None
    before, after = job_detail.before, job_detail.prediction.metrics
    metrics: tuple[tuple[str, int | None, int | None, Callable[[float], str]], ...] = (
        ("used", before.used_mb_s, after.used_mb_s, units.mb_seconds),
        ("wasted", before.wasted_mb_s, after.wasted_mb_s, units.mb_seconds),
        ("wait", before.wait_ms, after.wait_ms, units.duration),
        ("run time", before.runtime_ms, after.runtime_ms, units.duration),
    )
    rows: list[tuple[str, str, str, float | None, str]] = [
        (what, write(a), write(b), *decision.change(a, b))
        for what, a, b, write in metrics
        if a is not None and b is not None
    ]
    for v in job_detail.verdicts:
        if v.predicted is not None and v.severity in SEVERITIES:
            _, word = decision.change(SEVERITIES.index(v.severity), v.predicted)
            rows.append((v.heuristic, v.severity, SEVERITIES[v.predicted], None, word))
    return WHAT_IF.frame({name: [row[k] for row in rows] for k, name in enumerate(WHAT_IF.schema)})
