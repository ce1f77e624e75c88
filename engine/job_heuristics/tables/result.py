"""Tables of results: jobs, verdicts, differences between both sets of rules, and the tasks of one job."""

from __future__ import annotations

from engine.job_heuristics.tables.input import COUNTER_COLUMNS, COUNTERS, INT, TEXT
from engine.job_heuristics.tables.model import TASK_MODEL
from engine.tables import Column, Table

SEVERITIES: tuple[str, ...] = ("NONE", "LOW", "MODERATE", "SEVERE", "CRITICAL")
"""Severity words by value 0-4."""

JOBS = Table(
    "jobs",
    "One row per job with Dr. Elephant's four metrics, its severity and score",
    (
        Column("job_id", TEXT, "job id from the content", kind="id", priority=0, width=24),
        Column("name", TEXT, "job name in full", priority=0, width=24),
        Column("user", TEXT, "user", priority=1),
        Column("queue", TEXT, "queue", priority=2),
        Column("job_type", TEXT, "job type", title="type", priority=3),
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN", priority=0),
        Column("submit_ms", INT, "submitted", unit="epoch ms", kind="time_ms", title="submitted", priority=2),
        Column("launch_ms", INT, "initialised", unit="epoch ms", kind="time_ms", title="launched", hidden=True),
        Column("finish_ms", INT, "finished; null while running", unit="epoch ms", kind="time_ms", title="finished"),
        Column("maps", INT, "map tasks (running jobs: planned)", kind="count", priority=1),
        Column("reduces", INT, "reduce tasks (running jobs: planned)", kind="count", priority=1),
        Column("severity", TEXT, "worst verdict, null: none could be given", kind="level", priority=0),
        Column("score", INT, "sum of severity x tasks over verdicts of MODERATE and worse", kind="count", priority=0),
        Column("used_mb_s", INT, "container memory x time of the chosen attempts", unit="MB s", kind="mb_s"),
        Column(
            "wasted_mb_s", INT, "of it above 1.5 x the peak (mode published: above the peak)", unit="MB s", kind="mb_s"
        ),
        Column(
            "wait_ms",
            INT,
            "time the job ran longer than its longest map and reduce",
            unit="ms",
            kind="ms",
            title="wait",
        ),
        Column("runtime_ms", INT, "submit to finish", unit="ms", kind="ms", title="run time"),
        Column("upstream_says", TEXT, "Dr. Elephant's error where it would show nothing, else empty", hidden=True),
        Column("maps_finished", INT, "maps that succeeded so far", kind="count", hidden=True),
        Column("reduces_finished", INT, "reduces that succeeded so far", kind="count", hidden=True),
        Column("attempts_running", INT, "attempts running now", kind="count", hidden=True),
        Column("source", TEXT, "history, rest, am, rumen or summary", hidden=True),
        Column("notes", TEXT, "what was assumed for this job", hidden=True),
    ),
    key=("job_id",),
    order=("-submit_ms", "job_id"),
)

HEURISTICS = Table(
    "heuristics",
    "One row per job and heuristic that gave a result, in Dr. Elephant's order",
    (
        Column("job_id", TEXT, "job id", kind="id", priority=0),
        Column("heuristic", TEXT, "Dr. Elephant's name of the heuristic", priority=0),
        Column("severity", TEXT, "NONE, LOW, MODERATE, SEVERE or CRITICAL", kind="level", priority=0),
        Column("score", INT, "severity x tasks of the side from MODERATE on", kind="count"),
        Column("details", TEXT, "Dr. Elephant's labels and values, JSON", kind="json"),
    ),
    key=("job_id", "heuristic"),
)

DIFFERENCES = Table(
    "differences",
    "Where Dr. Elephant's published description and its code give another number or verdict for a job",
    (
        Column("job_id", TEXT, "job id", kind="id", priority=0),
        Column("what", TEXT, "metric or heuristic", priority=0),
        Column("upstream", TEXT, "by Dr. Elephant's code", priority=0),
        Column("published", TEXT, "by its published description", priority=0),
        Column("reason", TEXT, "the rule that differs", priority=1),
    ),
    key=("job_id", "what"),
)

TASKS = Table(
    "tasks",
    "The tasks of one job (option job), as Dr. Elephant sees them",
    (
        *(c for c in TASK_MODEL.columns if c.name not in COUNTER_COLUMNS),
        *COUNTERS,
    ),
    key=("job_id", "task_id"),
    order=("job_id", "side", "task_id"),
)
