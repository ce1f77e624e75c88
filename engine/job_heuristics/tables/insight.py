"""The result tables beyond Dr. Elephant's. Apart from what computes them, so that knowing a view's tables loads none of it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from engine.job_heuristics.tables.result import JOBS, SEVERITIES
from engine.tables import Column, Table

RECOMMENDATIONS = Table(
    "recommendations",
    "One row per job and advice that should pay: what to set, what it saves, and the verdict after it",
    (
        Column("job_id", pl.String, "job id", kind="id", priority=0, width=24),
        Column("rank", pl.Int64, "1 saves most", kind="count", width=4),
        Column("topic", pl.String, "what it is about", priority=0, width=16),
        Column("key", pl.String, "property to set", priority=0, width=44),
        Column("value", pl.String, "value to set it to", priority=0, width=12),
        Column("current", pl.String, "value it has, or what follows from it now", width=12),
        Column(
            "saving_mb_s",
            pl.Float64,
            "predicted saving of container memory x time",
            unit="MB s",
            kind="mb_s",
            title="saves",
        ),
        Column(
            "saving_percent",
            pl.Float64,
            "the same as part of what the job used",
            unit="%",
            kind="percent",
            title="of used",
        ),
        Column(
            "wait_change_ms",
            pl.Int64,
            "predicted change of the job's waiting; below 0 is shorter",
            kind="ms",
            title="wait",
        ),
        Column("heuristic", pl.String, "verdict it aims at", width=16),
        Column("severity_now", pl.String, "its severity", kind="level", title="now"),
        Column("severity_after", pl.String, "its severity with the new value", kind="level", title="after"),
        Column("text", pl.String, "the reason in words, with the job's numbers", width=80, priority=2),
    ),
    key=("job_id", "rank"),
)

COSTS = Table(
    "costs",
    "One row per job and cause: container memory and cores over time of all attempts; causes add up to the job",
    (
        Column("job_id", pl.String, "job id", kind="id", priority=0, width=24),
        Column("cause", pl.String, "what the resources went to", priority=0, width=20),
        Column("attempts", pl.Int64, "attempts with a part in it", kind="count"),
        Column("mb_ms", pl.Int64, "container MB x ms, exact", unit="MB ms", hidden=True, kind="count"),
        Column("mb_s", pl.Float64, "container memory x time", unit="MB s", kind="mb_s", priority=0),
        Column("vcore_s", pl.Float64, "virtual cores x time", unit="vcore s", kind="number"),
        Column("share", pl.Float64, "part of the job's memory x time", unit="%", kind="percent", priority=0),
        Column("price", pl.Float64, "by option price-gb-h and price-vcore-h; null without them", kind="number"),
    ),
    key=("job_id", "cause"),
    title="cost",
)

ROLLUP = Table(
    "rollup",
    "One row per group (by user, queue, job_type and hour): jobs, resources and severities; most wasted first",
    (
        Column("by", pl.String, "what the jobs are grouped by: user, queue, job_type, hour", priority=0, width=9),
        Column("group", pl.String, "its value; hours in UTC", priority=0, width=24),
        Column("jobs", pl.Int64, "jobs", kind="count", priority=0),
        Column("running", pl.Int64, "of them running", kind="count", priority=3),
        Column("failed", pl.Int64, "of them failed or killed", kind="count", priority=2),
        Column("used_mb_s", pl.Int64, "Dr. Elephant's used memory x time", unit="MB s", kind="mb_s", title="used"),
        Column(
            "wasted_mb_s",
            pl.Int64,
            "Dr. Elephant's wasted memory x time",
            unit="MB s",
            kind="mb_s",
            title="wasted",
            priority=0,
        ),
        Column("wasted_percent", pl.Float64, "wasted of used", unit="%", kind="percent", title="of used"),
        Column(
            "cost_mb_s",
            pl.Float64,
            "true cost of all attempts",
            unit="MB s",
            kind="mb_s",
            title="true cost",
            priority=2,
        ),
        Column(
            "avoidable_mb_s",
            pl.Float64,
            "of it avoidable by a better set-up",
            unit="MB s",
            kind="mb_s",
            title="avoidable",
            priority=2,
        ),
        Column(
            "saving_mb_s",
            pl.Float64,
            "predicted saving of all recommendations",
            unit="MB s",
            kind="mb_s",
            title="saving",
        ),
        Column("wait_ms", pl.Int64, "Dr. Elephant's wait, summed", unit="ms", kind="ms", title="wait", priority=2),
        Column(
            "share",
            pl.Float64,
            "part of all waste",
            unit="%",
            kind="percent",
            title="of all waste",
            width=14,
            priority=1,
        ),
        Column(
            "cumulated",
            pl.Float64,
            "part of all waste down to here (Pareto)",
            unit="%",
            kind="percent",
            width=14,
            priority=2,
        ),
        *(
            Column(word.lower(), pl.Int64, f"jobs whose worst verdict is {word}", kind="count", priority=3)
            for word in SEVERITIES
        ),
    ),
    key=("by", "group"),
    title="roll-up",
)

EXPLAINED = Table(
    "explained",
    "One row per verdict of one job (option job): why it is so, how far to the next level, what to do",
    (
        Column("job_id", pl.String, "job id", kind="id", hidden=True),
        Column("heuristic", pl.String, "verdict", priority=0, width=18),
        Column("severity", pl.String, "its severity", kind="level", priority=0),
        Column("value", pl.String, "the value that decides", priority=0),
        Column("limits", pl.String, "its limits, LOW to CRITICAL", width=34),
        Column("reason", pl.String, "which limit keeps it where it is", priority=3, width=60),
        Column("worse", pl.String, "what one level worse would take", priority=2, width=40),
        Column("better", pl.String, "what one level better would take", priority=2, width=40),
        Column(
            "margin", pl.Float64, "smallest relative move that changes it, null: none can", unit="%", kind="percent"
        ),
        Column("status", pl.String, "running jobs: certain, at least, at most or provisional", priority=1, width=18),
        Column("likely", pl.String, "running jobs: most probable final severity", kind="level", priority=2),
        Column("chance", pl.Float64, "its probability", unit="%", kind="percent", priority=2),
        Column("predicted", pl.String, "severity under the what-if scenario", kind="level", priority=1),
        Column("advice", pl.String, "what to do, with the job's numbers", priority=4, width=80),
    ),
    key=("heuristic",),
    title="verdicts",
)

PHASES = Table(
    "phases",
    "The waterfall of one job (option job): each phase begins where the one before it ended",
    (
        Column("job_id", pl.String, "job id", kind="id", hidden=True),
        Column("phase", pl.String, "phase", priority=0, width=16),
        Column("start_ms", pl.Int64, "begin", unit="epoch ms", kind="time_ms", priority=1),
        Column("ms", pl.Int64, "length", unit="ms", kind="ms", priority=0),
        Column("share", pl.Float64, "part of the whole", unit="%", kind="percent", priority=0),
        Column("meaning", pl.String, "from when until when", width=50, priority=2),
    ),
    key=("phase",),
)

HISTORY = Table(
    "history",
    "Runs of the jobs with the same name (numbers and dates left out), normalised by input, newest first",
    (
        Column("job_id", pl.String, "job id", kind="id", priority=0, width=24),
        Column("name", pl.String, "job name in full", priority=2, width=24),
        Column("submit_ms", pl.Int64, "submitted", unit="epoch ms", kind="time_ms", title="submitted", priority=0),
        Column("state", pl.String, "state", priority=1),
        Column("severity", pl.String, "worst verdict", kind="level", priority=0),
        Column("input_bytes", pl.Int64, "bytes read by maps", unit="bytes", kind="bytes", title="input"),
        Column("used_mb_s", pl.Int64, "Dr. Elephant's used memory x time", unit="MB s", kind="mb_s", title="used"),
        Column("wasted_mb_s", pl.Int64, "Dr. Elephant's wasted", unit="MB s", kind="mb_s", title="wasted", priority=2),
        Column("runtime_ms", pl.Int64, "run time", unit="ms", kind="ms", title="run time"),
        Column("used_per_gb", pl.Float64, "used MB s per GB of input", unit="MB s/GB", kind="number", title="used/GB"),
        Column("ms_per_gb", pl.Float64, "run time per GB of input", unit="ms/GB", kind="ms", title="time/GB"),
        Column("change", pl.Float64, "used per GB against the median of earlier runs", unit="%", kind="percent"),
        Column("flag", pl.String, "regression, improvement or change: this run or the level from it on", priority=0),
    ),
    key=("job_id",),
    title="history",
)

CONF_CHANGES = Table(
    "conf_changes",
    "Configuration of the chosen job against the run before it (or option compare): properties that differ",
    (
        Column("key", pl.String, "property", priority=0, width=48),
        Column("before", pl.String, "value in the other run, null: not set", priority=0, width=30),
        Column("after", pl.String, "value in this run, null: not set", priority=0, width=30),
        Column("other_job_id", pl.String, "the other run", kind="id", hidden=True),
    ),
    key=("key",),
    order=("key",),
    title="conf changes",
)

WHAT_IF = Table(
    "what_if",
    "Metrics of the chosen job now and under the what-if options; absent without one",
    (
        Column("what", pl.String, "metric or verdict", priority=0, width=22),
        Column("now", pl.String, "as it ran", priority=0, width=16),
        Column("predicted", pl.String, "under the scenario", priority=0, width=16),
        Column("change", pl.Float64, "difference", unit="%", kind="percent", priority=1),
        Column("direction", pl.String, "better, worse or same", priority=1, width=9),
    ),
    key=("what",),
    title="what if",
)

TABLES: tuple[Table, ...] = (
    RECOMMENDATIONS,
    COSTS,
    ROLLUP,
    EXPLAINED,
    PHASES,
    HISTORY,
    CONF_CHANGES,
    WHAT_IF,
)
"""Further result tables, in the order they are shown. The last five only with option job."""

_FIRST = ("name", "severity", "state", "score", "user", "submit_ms", "wasted_mb_s", "used_mb_s", "runtime_ms", "job_id")
LISTING = Table(
    "listing",
    "The job list with one letter per heuristic (. NONE, L LOW, M MODERATE, S SEVERE, C CRITICAL, blank: no result)",
    (
        JOBS.column("name"),
        Column("strip", pl.String, "one letter per heuristic in Dr. Elephant's order: . NONE, L LOW, M MODERATE, "
               "S SEVERE, C CRITICAL, blank: no result", title="verdicts", priority=0, width=13),
        replace(JOBS.column("severity"), width=10),
        replace(JOBS.column("state"), width=9),
        replace(JOBS.column("score"), priority=1, width=6),
        *(
            replace(JOBS.column(n), priority=1, title=title)
            for n, title in (
                ("user", ""), ("submit_ms", "submitted"), ("wasted_mb_s", "wasted"), ("used_mb_s", "used"),
                ("runtime_ms", "run time"),
            )
        ),
        replace(JOBS.column("job_id"), priority=2),
        *(c for c in JOBS.columns if c.name not in _FIRST),
        Column("cost_mb_s", pl.Float64, "true cost of all attempts", unit="MB s", kind="mb_s", title="cost", hidden=True),
        Column("avoidable_mb_s", pl.Float64, "of it avoidable", unit="MB s", kind="mb_s", title="avoidable", hidden=True),
        Column("saving_mb_s", pl.Float64, "predicted saving", unit="MB s", kind="mb_s", title="saving", priority=2),
    ),
    key=JOBS.key,
    order=JOBS.order,
    title="jobs",
)  # fmt: skip
