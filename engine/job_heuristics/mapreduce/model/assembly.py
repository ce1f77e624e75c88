"""From events to the model: one row per job, task and attempt, and the job's configuration.

``incremental_assembly`` calls this for all jobs, or for those whose files changed.
"""

from __future__ import annotations

import polars as pl

from engine.core.inputs import FILE
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.events import TERMINAL, Events
from engine.job_heuristics.mapreduce.model.file_choice import choose_confs, choose_files, only_chosen
from engine.job_heuristics.mapreduce.model.model import JobPart, ModelFrames, parts_of
from engine.job_heuristics.mapreduce.model.task_rows import attempt_rows, completed_attempts, task_rows
from engine.job_heuristics.mapreduce.tables.model import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL

_BEGINNING = {"NEW", "INITED", "SETUP", "RUNNING", "COMMITTING", "FAIL_WAIT", "KILL_WAIT", "ACCEPTED", "SUBMITTED"}
"""Hadoop's and YARN's states of a job that has not ended."""
_ATTRIBUTES = (
    "submit_ms", "launch_ms", "finish_ms", "name", "user", "queue", "state", "maps", "reduces", "maps_finished",
    "reduces_finished", "attempts_running", "uberized", "workflow", "diagnostics", "source",
)  # fmt: skip
"""Job attributes where the most recent event wins."""
_LOST = "java.lang.NullPointerException: an event of a task or attempt whose start the history does not hold"
SIZE_LIMIT_MB = 500
"""MiB of a history file on disk above which Dr. Elephant's fetcher does not parse it, by default."""


def assemble(events: Events) -> dict[str, JobPart]:
    """Assemble all jobs that ``events`` name; each job's part of the model, in the order of JOB_MODEL."""
    chosen, files = choose_files(events)
    rest = pl.Series([i for i, f in events.infos.items() if f.kind == "mapreduce-rest"], dtype=pl.UInt32)
    contested = any(len(each) > 1 for each in files.values())
    for name in ("jobs", "task_starts", "task_ends", "attempt_starts", "attempt_ends"):
        frame = getattr(events, name)
        rows = only_chosen(frame, chosen, rest) if contested else frame.filter(pl.col("job_id").is_not_null())
        setattr(events, name, rows)
    attempts = attempt_rows(events.attempt_starts, events.attempt_ends)
    tasks = task_rows(events, attempts, rest)
    jobs = _jobs(events, chosen, tasks, attempts)
    conf, conf_files = choose_confs(events, files)
    settings = job_conf.settings_by_job(conf)
    jobs = job_conf.complete(jobs, settings, conf_files, attempts)
    attempts = completed_attempts(events, attempts, tasks)
    tables = ((JOB_MODEL, jobs), (TASK_MODEL, tasks), (ATTEMPT_MODEL, attempts), (CONF_MODEL, conf))
    frames = ModelFrames(*(table.sorted(frame[table.schema.names()]) for table, frame in tables))
    return parts_of(frames, settings)


def _jobs(events: Events, chosen: pl.DataFrame, tasks: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """JOB_MODEL rows without what the configuration says; unordered."""
    rows = events.jobs.lazy().sort(FILE, "seq", maintain_order=True)
    facts = rows.group_by("job_id", maintain_order=True).agg(
        *[pl.col(name).drop_nulls().last() for name in _ATTRIBUTES],
        pl.col("am_start_ms").drop_nulls().first(),
        am_starts=(pl.col("event") == "AM_STARTED").sum().cast(pl.Int64),
        broken=pl.col("broken").filter(pl.col("event") == "BROKEN").first(),
        cut=pl.col("broken").filter(pl.col("event") == "CUT").last(),
        cut_seq=pl.col("seq").filter(pl.col("event") == "CUT").last(),
        last_seq=pl.col("seq").filter(pl.col("event") != "CUT").max(),
        last_time=pl.max_horizontal(pl.col("time_ms").max(), pl.col("finish_ms").max()),
        file=pl.col(FILE).last(),
    )
    side = (
        tasks.lazy()
        .group_by("job_id")
        .agg(
            tasks_seen=pl.len().cast(pl.Int64),
            seen_maps=(pl.col("side") == "map").sum().cast(pl.Int64),
            seen_reduces=(pl.col("side") == "reduce").sum().cast(pl.Int64),
            done_maps=((pl.col("side") == "map") & (pl.col("state") == "SUCCEEDED")).sum().cast(pl.Int64),
            done_reduces=((pl.col("side") == "reduce") & (pl.col("state") == "SUCCEEDED")).sum().cast(pl.Int64),
            task_time=pl.max_horizontal(pl.col("ended_ms").max(), pl.col("scheduled_ms").max()),
            task_file=pl.col(FILE).min(),
            # Hadoop's parser stumbles over the end of what it has not seen begin.
            lost_tasks=pl.col("begun").is_null().any(),
            lost_choices=(pl.col("attempt_id").is_not_null() & pl.col("start_ms").is_null()).any(),
        )
    )
    tried = (
        attempts.lazy()
        .group_by("job_id")
        .agg(
            running=(pl.col("state") == "RUNNING").sum().cast(pl.Int64),
            attempt_time=pl.max_horizontal(pl.col("finish_ms").max(), pl.col("start_ms").max()),
            attempt_seq=pl.max_horizontal(pl.col("seq").max(), pl.col("end_seq").max()),
            lost_attempts=(pl.col("start_ms").is_null() & (pl.col("state") == "SUCCEEDED")).any(),
        )
    )
    frame = (
        chosen.lazy()
        .join(facts, on="job_id", how="left", maintain_order="left")
        .join(side, on="job_id", how="left", maintain_order="left")
        .join(tried, on="job_id", how="left", maintain_order="left")
    )
    state = pl.col("state").str.to_uppercase()
    ended = state.is_in(TERMINAL)
    # A cut last line counts only while nothing was read behind it.
    still_cut = pl.col("cut_seq") > pl.max_horizontal(pl.col("last_seq"), pl.col("attempt_seq")).fill_null(-1)
    lost = (pl.col("kind") == "jhist") & pl.any_horizontal("lost_tasks", "lost_choices", "lost_attempts")
    completed = frame.with_columns(
        state=pl.when(ended)
        .then(state)
        .when(state.is_in(_BEGINNING) | (pl.col("kind") == "jhist"))
        .then(pl.lit("RUNNING"))
        .otherwise(pl.coalesce(state, pl.lit("UNKNOWN"))),
        source=pl.coalesce(
            "source",
            pl.col("kind").replace_strict(
                {"jhist": "history", "mapreduce-rest": "rest"},
                default="history", return_dtype=pl.String,
            ),
        ),
        broken=pl.coalesce("broken", pl.when(still_cut).then(pl.col("cut")), pl.when(lost).then(pl.lit(_LOST)), pl.lit("")),
        file=pl.coalesce(pl.col("file"), pl.col("task_file")),
        tasks_seen=pl.col("tasks_seen").fill_null(0),
        am_starts=pl.col("am_starts").fill_null(0),
    ).with_columns(
        maps=pl.when(pl.col("state") == "RUNNING").then(pl.coalesce("maps", "seen_maps")).otherwise(
            pl.coalesce("seen_maps", "maps", pl.lit(0))
        ),
        reduces=pl.when(pl.col("state") == "RUNNING").then(pl.coalesce("reduces", "seen_reduces")).otherwise(
            pl.coalesce("seen_reduces", "reduces", pl.lit(0))
        ),
        maps_finished=pl.coalesce("done_maps", "maps_finished"),
        reduces_finished=pl.coalesce("done_reduces", "reduces_finished"),
        attempts_running=pl.when(pl.col("state").is_in(TERMINAL)).then(pl.lit(0)).otherwise(
            pl.coalesce("attempts_running", "running")
        ),
        finish_ms=pl.when(pl.col("state") != "RUNNING").then(pl.col("finish_ms")),
        last_event_ms=pl.max_horizontal("last_time", "task_time", "attempt_time"),
        broken=_over_limit(events).fill_null(pl.col("broken")),
    )  # fmt: skip
    return completed.collect()


def _over_limit(events: Events) -> pl.Expr:
    """What Dr. Elephant says instead of parsing a history file that is too large for it; null for all others."""
    texts = {
        file: f"the history file has {info.size / 2**20:,.0f} MB, more than Dr. Elephant's limit of {SIZE_LIMIT_MB} MB "
        "(history_log_size_limit_in_mb): it is not parsed and the job is treated as failed"
        for file, info in events.infos.items()
        if info.size > SIZE_LIMIT_MB * 2**20 and info.kind == "jhist"
    }
    if not texts:
        return pl.lit(None, dtype=pl.String)
    return pl.col("file").replace_strict(texts, default=None, return_dtype=pl.String)
