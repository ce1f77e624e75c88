"""The tables of results that all kinds of jobs share, and short forms of ``Column`` by the type of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from msgspec.structs import replace

from engine.core.tables import Column, Rows, Table


def text(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of texts."""
    return Column(name, pl.String, meaning, **hints)


def flag(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of yes and no."""
    return Column(name, pl.Boolean, meaning, kind="flag", **hints)


def whole(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of whole numbers."""
    return Column(name, pl.Int64, meaning, **hints)


def count(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of counts."""
    return Column(name, pl.Int64, meaning, kind="count", **hints)


def time(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of moments, epoch ms."""
    return Column(name, pl.Int64, meaning, unit="epoch ms", kind="time_ms", **hints)


def fraction(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of fractions."""
    return Column(name, pl.Float64, meaning, **hints)


def percent(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of percentages, 0-100."""
    return Column(name, pl.Float64, meaning, unit="%", kind="percent", **hints)


def mb_s(name: str, meaning: str, dtype: Any = pl.Int64, **hints: Any) -> Column:
    """Make a column of container memory x time, MB s."""
    return Column(name, dtype, meaning, unit="MB s", kind="mb_s", **hints)


def of_rows(table: Table, rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Return the frame of rows that hold a table's columns in their order."""
    cells = list(rows)
    return table.frame({name: [row[k] for row in cells] for k, name in enumerate(table.schema)})


def gathered(inputs: Iterable[Table], rows: Mapping[str, list[tuple[Any, ...]]], *without: str) -> dict[str, Rows]:
    """Return the columns of ``rows`` by table. Cells are in the order of the table's columns, except those ``without``."""
    return {
        table.name: dict(
            zip(
                (name for name in table.schema if name not in without), zip(*rows[table.name], strict=True), strict=True
            )
        )
        for table in inputs
        if rows[table.name]
    }


SEQ = count("seq", "place of the record in its file, growing: line number or byte")


SEVERITIES: tuple[str, ...] = ("NONE", "LOW", "MODERATE", "SEVERE", "CRITICAL")  # severity words by value 0-4
LETTERS = dict(zip(SEVERITIES, ".LMSC", strict=True))  # letter of each severity in a job's strip

JOBS = Table(
    "jobs",
    "One row per job with Dr. Elephant's four metrics, its severity and score",
    (
        text("job_id", "job id from the content", kind="id", priority=0, width=24),
        text("name", "job name in full", priority=0, width=24),
        text("user", "who submitted it", priority=1),
        text("queue", "queue of the cluster that it was submitted to", priority=2),
        text("job_type", "job type", title="type", priority=3),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN", priority=0),
        time("submit_ms", "when it was submitted", title="submitted", priority=2),
        time("launch_ms", "when it was initialised", title="launched", hidden=True),
        time("finish_ms", "finished; null while running", title="finished"),
        count("maps", "map tasks (running jobs: planned)", priority=1),
        count("reduces", "reduce tasks (running jobs: planned)", priority=1),
        text("severity", "worst verdict, null: none", kind="level", priority=0),
        count("score", "sum of severity x tasks over verdicts of MODERATE and worse", priority=0),
        mb_s("used_mb_s", "container memory x time of the chosen attempts"),
        mb_s("wasted_mb_s", "of it above 1.5 x the peak (mode published: above the peak)"),
        whole("wait_ms", "time the job ran longer than its longest map and reduce", unit="ms", kind="ms", title="wait"),
        whole("runtime_ms", "submit to finish", unit="ms", kind="ms", title="run time"),
        text(
            "error",
            "why a job that did not succeed failed: the cause named most often; empty: it succeeded, or nothing tells",
            priority=3,
            width=40,
        ),
        text(
            "upstream_says",
            "Dr. Elephant's error where it would show nothing, else empty",
            title="Dr. Elephant says",
            hidden=True,
        ),
        count("maps_finished", "maps that succeeded so far", hidden=True),
        count("reduces_finished", "reduces that succeeded so far", hidden=True),
        count("attempts_running", "attempts running now", hidden=True),
        text("source", "history, rest, am or log", hidden=True),
        text("notes", "what was assumed for this job", hidden=True),
    ),
    key=("job_id",),
    order=("-submit_ms", "job_id"),
)

HEURISTICS = Table(
    "heuristics",
    "One row per job and heuristic that gave a result, in Dr. Elephant's order",
    (
        text("job_id", "name of the job in the cluster", kind="id", priority=0),
        text("heuristic", "Dr. Elephant's name of the heuristic", priority=0),
        text("severity", "NONE, LOW, MODERATE, SEVERE or CRITICAL", kind="level", priority=0),
        count("score", "severity x tasks of the side from MODERATE on"),
        text("details", "Dr. Elephant's labels and values, JSON", kind="json"),
    ),
    key=("job_id", "heuristic"),
)

DIFFERENCES = Table(
    "differences",
    "Where Dr. Elephant's published description and its code give another number or verdict for a job",
    (
        text("job_id", "name of the job in the cluster", kind="id", priority=0),
        text("what", "metric or heuristic", priority=0),
        text("upstream", "by Dr. Elephant's code", title="Dr. Elephant", priority=0),
        text("published", "by its published description", priority=0),
        text("reason", "the rule that differs", priority=1),
    ),
    key=("job_id", "what"),
)


RECOMMENDATIONS = Table(
    "recommendations",
    "One row per job and advice that should pay: what to set, what it saves, and the verdict after it",
    (
        text("job_id", "name of the job in the cluster", kind="id", priority=0, width=24),
        count("rank", "1 saves most", width=4),
        text("topic", "what it is about", priority=0, width=16),
        text("key", "property to set", priority=0, width=44),
        text("value", "value to set it to", priority=0, width=12),
        text("current", "value it has, or what follows from it now", width=12),
        mb_s("saving_mb_s", "predicted saving of container memory x time", pl.Float64, title="saves"),
        percent("saving_percent", "the same as part of what the job used", title="of used"),
        whole("wait_change_ms", "predicted change of the job's waiting; below 0 is shorter", kind="ms", title="wait"),
        text("heuristic", "verdict it aims at", width=16),
        text("severity_now", "its severity", kind="level", title="now"),
        text("severity_after", "its severity with the new value", kind="level", title="after"),
        text("text", "the reason in words, with the job's numbers", width=80, priority=2),
    ),
    key=("job_id", "rank"),
)

COSTS = Table(
    "costs",
    "One row per job and cause: container memory and cores over time of all attempts; causes add up to the job",
    (
        text("job_id", "name of the job in the cluster", kind="id", priority=0, width=24),
        text("cause", "what the resources went to", priority=0, width=20),
        count("attempts", "attempts with a part in it"),
        count("mb_ms", "container MB x ms, exact", unit="MB ms", hidden=True),
        mb_s("mb_s", "container memory x time", pl.Float64, priority=0),
        fraction("vcore_s", "virtual cores x time", unit="vcore s", kind="number"),
        percent("share", "part of the job's memory x time", priority=0),
        fraction("price", "by option price-gb-h and price-vcore-h; null without them", kind="number"),
    ),
    key=("job_id", "cause"),
    title="cost",
)

ROLLUP = Table(
    "rollup",
    "One row per group (by user, queue, job_type and hour): jobs, resources and severities; most avoidable cost first",
    (
        text("by", "what the jobs are grouped by: user, queue, job_type, hour", priority=0, width=9),
        text("group", "its value; hours in UTC", priority=0, width=24),
        count("jobs", "number of jobs", priority=0),
        count("running", "of them running", priority=3),
        count("failed", "of them failed or killed", priority=2),
        mb_s("used_mb_s", "Dr. Elephant's used memory x time", title="used", priority=2),
        mb_s("wasted_mb_s", "Dr. Elephant's wasted memory x time", title="wasted", priority=2),
        percent("wasted_percent", "wasted of used", title="of used", priority=2),
        mb_s("cost_mb_s", "true cost of all attempts", pl.Float64, title="held"),
        mb_s("avoidable_mb_s", "of it avoidable by a better set-up", pl.Float64, title="avoidable", priority=0),
        mb_s("saving_mb_s", "predicted saving of all recommendations", pl.Float64, title="saving"),
        whole("wait_ms", "Dr. Elephant's wait, summed", unit="ms", kind="ms", title="wait", priority=2),
        percent("share", "part of all that is avoidable", title="of all", width=14, priority=1),
        percent("cumulated", "part of all that is avoidable down to here (Pareto)", width=14, priority=2),
        *(count(word.lower(), f"jobs whose worst verdict is {word}", priority=3) for word in SEVERITIES),
    ),
    key=("by", "group"),
    title="roll-up",
)

EXPLAINED = Table(
    "explained",
    "One row per verdict of one job (option job): why it is so, how far to the next level, what to do",
    (
        text("job_id", "name of the job in the cluster", kind="id", hidden=True),
        text("heuristic", "the rule that judges", priority=0, width=18, grow=22),
        text("severity", "its severity", kind="level", priority=0),
        text("value", "the value that decides", priority=0, width=24, grow=60),
        text("limits", "its limits, LOW to CRITICAL", width=44, priority=2),
        text("reason", "which limit keeps it where it is", priority=3, width=60),
        text("worse", "what one level worse would take", priority=2, width=40),
        text("better", "what one level better would take", priority=2, width=40),
        percent("margin", "smallest relative move that changes it, null: none can"),
        text("status", "running jobs: certain, at least, at most or provisional", priority=1, width=18),
        text("likely", "running jobs: most probable final severity", kind="level", priority=2),
        percent("chance", "its probability", priority=2),
        text("predicted", "severity under the what-if scenario", kind="level", priority=1),
        text("advice", "what to do, with the job's numbers", priority=4, width=80),
    ),
    key=("heuristic",),
    title="verdicts",
)

PHASES = Table(
    "phases",
    "The waterfall of one job (option job): each phase begins where the one before it ended",
    (
        text("job_id", "name of the job in the cluster", kind="id", hidden=True),
        text("phase", "part of the run", priority=0, width=16),
        time("start_ms", "when it began", priority=1),
        whole("ms", "how long it took", unit="ms", kind="ms", priority=0),
        percent("share", "part of the whole", priority=0),
        text("meaning", "from when until when", width=50, priority=2),
    ),
    key=("phase",),
)

HISTORY = Table(
    "history",
    "Runs of the jobs with the same name (numbers and dates left out), normalised by input, newest first",
    (
        text("job_id", "name of the job in the cluster", kind="id", priority=0, width=24),
        text("name", "job name in full", priority=2, width=24),
        time("submit_ms", "when it was submitted", title="submitted", priority=0),
        text("state", "how it stands or ended", priority=1),
        text("severity", "worst verdict", kind="level", priority=0),
        whole("input_bytes", "bytes read by maps", unit="bytes", kind="bytes", title="input"),
        mb_s("used_mb_s", "Dr. Elephant's used memory x time", title="used"),
        mb_s("wasted_mb_s", "Dr. Elephant's wasted", title="wasted", priority=2),
        whole("runtime_ms", "from start to end", unit="ms", kind="ms", title="run time"),
        fraction("used_per_gb", "used MB s per GB of input", unit="MB s/GB", kind="number", title="used/GB"),
        fraction("ms_per_gb", "run time per GB of input", unit="ms/GB", kind="ms", title="time/GB"),
        percent("change", "used per GB against the median of earlier runs"),
        text("flag", "regression, improvement or change: this run or the level from it on", priority=0),
    ),
    key=("job_id",),
    title="history",
)

CONF_CHANGES = Table(
    "conf_changes",
    "Configuration of the chosen job against the run before it (or option compare): properties that differ",
    (
        text("key", "property that was changed", priority=0, width=48),
        text("before", "value in the other run, null: not set", priority=0, width=30),
        text("after", "value in this run, null: not set", priority=0, width=30),
        text("other_job_id", "the other run", kind="id", hidden=True),
    ),
    key=("key",),
    order=("key",),
    title="conf changes",
)

WHAT_IF = Table(
    "what_if",
    "Metrics of the chosen job now and under the what-if options; absent without one",
    (
        text("what", "metric or verdict", priority=0, width=22),
        text("now", "as it ran", priority=0, width=16),
        text("predicted", "under the scenario", priority=0, width=16),
        percent("change", "after minus before", priority=1),
        text("direction", "better, worse or same", priority=1, width=9),
    ),
    key=("what",),
    title="what if",
)

INSIGHTS = Table(
    "insights",
    "One row per number of one Spark or Tez application (option job) that goes beyond Dr. Elephant, the worst first",
    (
        text("topic", "what was looked at", priority=0, width=20),
        text(
            "subject",
            "application, stage, sql execution, executor, host, query, DAG, vertex or edge",
            priority=0,
            width=12,
        ),
        text("severity", "NONE: within its limit", kind="level", priority=0, width=10),
        text("value", "the number", priority=0, width=18),
        text("limit", "what it should be", priority=1, width=18),
        text("key", "property to change", priority=1, width=36),
        text("setting", "value to try", priority=1, width=12),
        text(
            "current",
            "value it has: set, the engine's default, or seen in the files; empty: unknown",
            title="now",
            priority=2,
            width=12,
        ),
        text("status", "while it runs: certain, can only get worse, or provisional", priority=2, width=20),
        text("reason", "why, with the application's numbers", priority=2, width=80),
    ),
    key=("topic", "subject"),
)

ERRORS = Table(
    "errors",
    "One row per cause of the errors of one job (option job), the most frequent first, with the longest error in full",
    (
        text("job_id", "name of the job in the cluster", kind="id", hidden=True),
        text("cause", "the line that names the cause", priority=0, width=40, grow=120),
        count("attempts", "attempts that ended with it, null: only what is above them names it", priority=0),
        text("place", "where it was seen first", priority=1, width=24),
        text("text", "the whole error", priority=3, width=60),
    ),
    key=("cause",),
)

INSIGHT_TABLES: tuple[Table, ...] = (
    RECOMMENDATIONS, COSTS, ROLLUP, EXPLAINED, ERRORS, PHASES, HISTORY, CONF_CHANGES, WHAT_IF,
)  # fmt: skip
"""Further result tables, in the order they are shown. The last six only with option job."""

SHOWN_WASTE = 1024 * 36  # MB·s of a hundredth of a GB·h, as the list shows waste
_FIRST = ("name", "severity", "state", "score", "user", "submit_ms", "wasted_mb_s", "used_mb_s", "runtime_ms", "job_id")
LISTING = Table(
    "listing",
    "The job list with one letter per heuristic (. NONE, L LOW, M MODERATE, S SEVERE, C CRITICAL, blank: no result)",
    (
        replace(JOBS.column("name"), width=22, grow=60),
        replace(JOBS.column("severity"), width=10, title="verdict"),
        mb_s("avoidable_mb_s", "of the true cost what was not used", pl.Float64, title="avoidable GB·h", priority=0, width=14),
        mb_s("cost_mb_s", "true cost: memory that all attempts held", pl.Float64, title="held GB·h", priority=0, width=10),
        replace(JOBS.column("runtime_ms"), priority=0, title="run time", width=8),
        replace(JOBS.column("state"), width=9, priority=1),
        replace(JOBS.column("wasted_mb_s"), priority=1, title="wasted GB·h", width=12),
        replace(JOBS.column("used_mb_s"), priority=1, title="used GB·h", width=10),
        text(
            "strip",
            "one letter per heuristic in Dr. Elephant's order: . NONE, L LOW, M MODERATE, S SEVERE, C CRITICAL, blank: no result",
            title="all verdicts", priority=2, width=13,
        ),
        replace(JOBS.column("score"), priority=2, width=6),
        replace(JOBS.column("user"), priority=2, width=8),
        replace(JOBS.column("submit_ms"), priority=2, title="submitted"),
        replace(JOBS.column("job_id"), priority=3),
        *(replace(c, priority=max(c.priority, 3)) for c in JOBS.columns if c.name not in _FIRST),
        mb_s("saving_mb_s", "predicted saving", pl.Float64, title="saving GB·h", priority=3),
        whole("rank", "place of the verdict, 0 without one to 5 for CRITICAL", hidden=True),
    ),
    key=JOBS.key,
    title="jobs",
)  # fmt: skip
