"""What histories say of a job, and what upstream makes of their size: shared by both ways to assemble a job."""

from __future__ import annotations

from engine.inputs import FileInfo

TERMINAL = ("SUCCEEDED", "FAILED", "KILLED", "ERROR")
"""States in which a job or attempt has ended."""
JOB_FACTS = (
    "submit_ms", "launch_ms", "finish_ms", "name", "user", "queue", "state", "maps", "reduces", "maps_finished",
    "reduces_finished", "attempts_running", "uberized", "workflow", "diagnostics", "source",
)  # fmt: skip
"""Facts of a job of which the last one said counts."""
EVENT_TABLES = ("job_events", "task_starts", "task_ends", "attempt_starts", "attempt_ends")
"""The input tables that a job is assembled from."""
UPSTREAM_LIMIT_MB = 500
"""Size of a history file (MiB on disk) above which upstream's file fetcher does not parse it, unless told otherwise."""


def over_limit(info: FileInfo) -> str | None:
    """What upstream says instead of parsing a history file that is too large for it; None for all others."""
    if info.size <= UPSTREAM_LIMIT_MB * 2**20 or info.kind != "jhist":
        return None
    return (
        f"the history file has {info.size / 2**20:,.0f} MB, more than upstream's limit of {UPSTREAM_LIMIT_MB} MB "
        "(history_log_size_limit_in_mb): it is not parsed and the job is treated as failed"
    )
