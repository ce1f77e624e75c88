"""Tables of results: jobs, verdicts, differences between both sets of rules."""

from __future__ import annotations

from engine.core.tables import Table
from engine.job_heuristics.tables.columns import count, mb_s, text, time, whole

SEVERITIES: tuple[str, ...] = ("NONE", "LOW", "MODERATE", "SEVERE", "CRITICAL")
"""Severity words by value 0-4."""
LETTERS = dict(zip(SEVERITIES, ".LMSC", strict=True))
"""Letter of each severity in a job's strip."""

JOBS = Table(
    "jobs",
    "One row per job with Dr. Elephant's four metrics, its severity and score",
    (
        text("job_id", "job id from the content", kind="id", priority=0, width=24),
        text("name", "job name in full", priority=0, width=24),
        text("user", "user", priority=1),
        text("queue", "queue", priority=2),
        text("job_type", "job type", title="type", priority=3),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN", priority=0),
        time("submit_ms", "submitted", title="submitted", priority=2),
        time("launch_ms", "initialised", title="launched", hidden=True),
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
        text("job_id", "job id", kind="id", priority=0),
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
        text("job_id", "job id", kind="id", priority=0),
        text("what", "metric or heuristic", priority=0),
        text("upstream", "by Dr. Elephant's code", title="Dr. Elephant", priority=0),
        text("published", "by its published description", priority=0),
        text("reason", "the rule that differs", priority=1),
    ),
    key=("job_id", "what"),
)
