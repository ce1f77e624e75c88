"""Tables of a fleet result (docs/fleet.md): the per-job tables of a report, and those written beside them."""

from __future__ import annotations

from engine.core.tables import Table
from engine.job_heuristics.tables import (
    COSTS,
    DIFFERENCES,
    HEURISTICS,
    JOBS,
    LISTING,
    RECOMMENDATIONS,
    count,
    text,
    time,
)

FLEET_RESULTS = Table(
    "fleet_results",
    "One row per fleet result: what its manifest says",
    (
        text("version", "version of loadlens that computed it"),
        time("at_ms", "when it was computed"),
        text("parameters", "options that it was computed with, JSON"),
        text("findings", "number of findings by level, JSON"),
        count("jobs", "number of jobs in it"),
        text("rows", "number of rows by table, JSON"),
    ),
)
PROBLEMS = Table(
    "problems",
    "What was wrong with the files",
    (
        text("path", "the file"),
        count("line", "line, if it has lines"),
        text("kind", "kind of problem"),
        text("reason", "what is wrong"),
        count("count", "number of occurrences"),
    ),
    order=("path", "kind", "reason"),
)
FINDINGS = Table(
    "findings",
    "What a check would name",
    (
        text("level", "how bad it is"),
        text("subject", "which job, and which of its verdicts"),
        text("text", "what was found"),
    ),
    order=("subject", "level", "text"),
)
FILES = Table(
    "files",
    "One row per job and file that it was computed from",
    (text("job_id", "job id", kind="id"), text("path", "the file, as the run that computed it could open it")),
    key=("job_id",),
    order=("job_id", "path"),
)
PER_JOB = (JOBS, HEURISTICS, RECOMMENDATIONS, COSTS, DIFFERENCES)
"""Tables whose rows each concern one job."""
WRITTEN = (*PER_JOB, LISTING, PROBLEMS, FINDINGS, FILES)
"""All tables of a fleet result except the roll-up."""
