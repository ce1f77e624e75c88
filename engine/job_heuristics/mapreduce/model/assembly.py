"""The model of some jobs: one row per job, task and attempt from the events that count.

It is incremental: only jobs whose files changed are assembled again. Two steps of ``Partials``: which jobs each file names
(by the file's version), then one assembled part per job (by the versions of all files that concern it). The result equals
``assemble`` over all files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec
import polars as pl

from engine.core.incremental import Partials
from engine.core.view import FILE, Context, Inputs
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.file_choice import (
    EVENT_TABLES,
    TERMINAL,
    Events,
    choose_confs,
    choose_files,
    id_in_name,
    only_chosen,
    rows_of,
)
from engine.job_heuristics.mapreduce.model.model import JobPart, Model, ModelFrames, parts_of
from engine.job_heuristics.mapreduce.tables import ATTEMPT_MODEL, CONF_MODEL, COUNTER_COLUMNS, JOB_MODEL, TASK_MODEL


def _one_per_key(frame: pl.DataFrame, key: str, keep: Literal["first", "last"]) -> pl.DataFrame:
    """The first or last row of each ``key``, by place in the file."""
    if frame[key].n_unique() == frame.height:
        return frame
    return frame.sort(FILE, "seq", maintain_order=True).unique(key, keep=keep, maintain_order=True)


_SIDE = pl.when(pl.col("type") == "MAP").then(pl.lit("map")).otherwise(pl.lit("reduce"))


def attempt_rows(starts: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Join starts and ends to one row per attempt, without counters and task columns; unordered."""
    starts = _one_per_key(starts, "attempt_id", "first")
    ended = _one_per_key(ends.filter(pl.col("state").is_not_null()), "attempt_id", "last")
    keep = ("attempt_id", "state", "finish_ms", "map_finish_ms", "shuffle_finish_ms", "sort_finish_ms", "rack",
            "error", "progress")  # fmt: skip
    both = starts.join(
        ended.select(*keep, pl.col("seq").alias("end_seq"), pl.col("host").alias("end_host")),
        on="attempt_id", how="left", maintain_order="left",
    )  # fmt: skip
    lost = ended.join(starts, on="attempt_id", how="anti", maintain_order="left")
    if lost.height:
        lost = lost.select(
            "seq", "job_id", "task_id", "attempt_id", "type", FILE, *keep[1:], pl.col("seq").alias("end_seq"),
            pl.col("host").alias("end_host"),
        )  # fmt: skip
        both = pl.concat([both, lost], how="diagonal")
    return both.with_columns(
        host=pl.coalesce("end_host", "host"), state=pl.col("state").fill_null("RUNNING"), side=_SIDE
    ).drop("end_host")


def _ends(task_ends: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """The end of each task: the last one, unless its attempt was lost afterwards."""
    ended = _one_per_key(task_ends.filter(pl.col("state").is_not_null()), "task_id", "last")
    lost = attempts.filter(pl.col("state").is_in(["FAILED", "KILLED"])).select(
        pl.col("attempt_id").alias("chosen_id"), "end_seq"
    )
    if lost.height:
        undone = (
            ended.filter(pl.col("state") == "SUCCEEDED")
            .join(lost, on="chosen_id", how="inner")
            .filter(pl.col("end_seq") > pl.col("seq"))
            .select("task_id")
        )
        if undone.height:
            ended = ended.join(undone, on="task_id", how="anti", maintain_order="left")
    return ended


def _chosen_attempts(ends: pl.DataFrame, attempts: pl.DataFrame, rest: pl.Series) -> pl.DataFrame:
    """The attempt that supplies an ended task's times and counters: (task_id, attempt_id, fallback). ``fallback``:
    Dr. Elephant would find none."""
    named = ends.select("job_id", "task_id", FILE, "state", pl.col("chosen_id").alias("attempt_id")).with_columns(
        rest=pl.col(FILE).is_in(rest.implode())
    )
    sure = named.filter(pl.col("attempt_id").is_not_null() & (~pl.col("rest") | (pl.col("state") == "SUCCEEDED")))
    telling = pl.col("job_id").is_in(sure["job_id"].unique().implode())
    open_ = named.join(sure, on="task_id", how="anti").select("task_id", "state", "rest", telling=telling)
    certain = sure.select("task_id", "attempt_id", fallback=pl.lit(False))
    if not open_.height:
        return certain
    tried = attempts.select("task_id", "attempt_id", pl.col("state").alias("how"), "finish_ms")
    # Old histories name no successful attempt at all, and Dr. Elephant gives up; a single task without one has no times. REST
    # never names the attempt of an unsuccessful task: Dr. Elephant then takes the earliest-ended that did not succeed.
    guess = (
        open_.join(tried, on="task_id", how="inner")
        .filter(
            pl.when(pl.col("state") == "SUCCEEDED")
            .then((pl.col("how") == "SUCCEEDED") & ~pl.col("telling"))
            .otherwise(pl.col("rest") & (pl.col("how") != "SUCCEEDED"))
        )
        .sort("task_id", "finish_ms", "attempt_id", nulls_last=True)
        .unique("task_id", keep="first", maintain_order=True)
        .select("task_id", "attempt_id", fallback=~pl.col("rest"))
    )
    return pl.concat([certain, guess])


def task_rows(events: Events, attempts: pl.DataFrame, rest: pl.Series) -> pl.DataFrame:
    """Make TASK_MODEL rows, with further columns; unordered. ``rest``: ids of files with REST answers."""
    starts = _one_per_key(events.task_starts, "task_id", "first")
    ends = _ends(events.task_ends, attempts)
    ids = pl.concat(
        [f[["job_id", "task_id", "type", FILE]] for f in (events.task_starts, events.task_ends, attempts)]
    ).unique("task_id", keep="first", maintain_order=True)
    chosen = _chosen_attempts(ends, attempts, rest)
    # In Hadoop's parser all phases of an unsuccessful attempt end with it.
    histories = pl.Series([i for i, info in events.infos.items() if info.kind == "jhist"], dtype=pl.UInt32)
    failed = pl.col(FILE).is_in(histories.implode()) & pl.col("state").is_in(["FAILED", "KILLED"])
    phase_ends = [
        pl.when(failed).then(pl.coalesce(name, "finish_ms")).otherwise(name).alias(name)
        for name in ("shuffle_finish_ms", "sort_finish_ms")
    ]
    picked = chosen.lazy().join(
        attempts.lazy().select(
            "attempt_id", "start_ms", pl.col("finish_ms").alias("attempt_finish_ms"), *phase_ends, "host", "rack",
            "locality",
        ),
        on="attempt_id", how="left", maintain_order="left",
    )  # fmt: skip
    separate = events.task_ends.filter("has_counters", pl.col("state").is_null())
    end_columns = ["task_id", "state", "finish_ms", "scheduled_ms", "error"]
    if separate.height:
        ends = ends.select(*end_columns).join(
            _one_per_key(
                pl.concat([separate, ends.filter(pl.col("has_counters")).select(separate.columns)]), "task_id", "last"
            ).select("task_id", *COUNTER_COLUMNS),
            on="task_id", how="left", maintain_order="left",
        )  # fmt: skip
    else:
        ends = ends.select(*end_columns, *COUNTER_COLUMNS)
    tries = attempts.lazy().group_by("task_id").agg(attempts=pl.len().cast(pl.Int64))
    frame = (
        ids.lazy()
        .join(
            starts.lazy().select("task_id", "scheduled_ms", begun=pl.lit(True)),
            on="task_id", how="left", maintain_order="left",
        )
        .join(ends.lazy(), on="task_id", how="left", maintain_order="left", suffix="_end")
        .join(picked, on="task_id", how="left", maintain_order="left")
        .join(tries, on="task_id", how="left", maintain_order="left")
    )  # fmt: skip
    is_map = pl.col("type") == "MAP"
    zero = pl.lit(0, dtype=pl.Int64)
    frame = frame.with_columns(
        side=_SIDE,
        state=pl.col("state").fill_null("RUNNING"),
        ended_ms=pl.col("finish_ms"),
        finish_ms=pl.col("attempt_finish_ms"),
        scheduled_ms=pl.coalesce("scheduled_ms", "scheduled_ms_end"),
        total_ms=pl.col("attempt_finish_ms") - pl.col("start_ms"),
        attempts=pl.col("attempts").fill_null(0),
        input_bytes=pl.sum_horizontal(
            pl.col("hdfs_read_bytes", "s3_read_bytes", "s3a_read_bytes", "s3n_read_bytes").fill_null(0)
        ),
        fallback=pl.col("fallback").fill_null(False),
        shuffle_ms=pl.when(is_map).then(zero).otherwise(pl.col("shuffle_finish_ms") - pl.col("start_ms")),
        sort_ms=pl.when(is_map).then(zero).otherwise(pl.col("sort_finish_ms") - pl.col("shuffle_finish_ms")),
    )
    timed = pl.col("total_ms").is_not_null()
    return frame.with_columns(
        timed=timed,
        shuffle_ms=pl.when(timed).then(pl.col("shuffle_ms").fill_null(0)),
        sort_ms=pl.when(timed).then(pl.col("sort_ms").fill_null(0)),
    ).collect()


def completed_attempts(events: Events, attempts: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Add task columns to ``attempts`` (schedule, counters of the chosen one); ATTEMPT_MODEL rows, unordered."""
    frame = attempts.lazy().join(
        tasks.lazy().select("task_id", "scheduled_ms", pl.col("attempt_id").alias("picked")),
        on="task_id", how="left", maintain_order="left",
    ).with_columns(chosen=(pl.col("attempt_id") == pl.col("picked")).fill_null(False))  # fmt: skip
    of_tasks = tasks.lazy().filter(pl.col("attempt_id").is_not_null()).select("attempt_id", *COUNTER_COLUMNS)
    counted = events.attempt_ends.filter(pl.col("counted"))
    if counted.height:
        own = counted.lazy().select("attempt_id", *COUNTER_COLUMNS)
        own = own.unique("attempt_id", keep="last", maintain_order=True).join(of_tasks, on="attempt_id", how="anti")
        of_tasks = pl.concat([of_tasks, own])
    return frame.join(of_tasks, on="attempt_id", how="left", maintain_order="left").collect()


_BEGINNING = {"NEW", "INITED", "SETUP", "RUNNING", "COMMITTING", "FAIL_WAIT", "KILL_WAIT", "ACCEPTED", "SUBMITTED"}
"""Hadoop's and YARN's states of a job that has not ended."""
_ATTRIBUTES = (
    "submit_ms", "launch_ms", "finish_ms", "name", "user", "queue", "state", "maps", "reduces", "maps_finished",
    "reduces_finished", "attempts_running", "uberized", "workflow", "diagnostics", "source",
)  # fmt: skip
"""Job attributes of which the latest event counts."""
_LOST = "java.lang.NullPointerException: an event of a task or attempt whose start the history does not hold"
SIZE_LIMIT_MB = 500  # default size limit, MiB, of a history file for Dr. Elephant's fetcher.


def assemble(events: Events) -> dict[str, JobPart]:
    """Assemble all jobs in ``events``: parts of the model by job, in the order of JOB_MODEL."""
    chosen, files = choose_files(events)
    rest = pl.Series([i for i, f in events.infos.items() if f.kind == "mapreduce-rest"], dtype=pl.UInt32)
    contested = any(len(each) > 1 for each in files.values())
    for name in ("jobs", "task_starts", "task_ends", "attempt_starts", "attempt_ends"):
        frame = getattr(events, name)
        setattr(
            events,
            name,
            only_chosen(frame, chosen, rest) if contested else frame.filter(pl.col("job_id").is_not_null()),
        )
    attempts = attempt_rows(events.attempt_starts, events.attempt_ends)
    tasks = task_rows(events, attempts, rest)
    jobs = _jobs(events, chosen, tasks, attempts)
    conf, conf_files = choose_confs(events, files)
    settings = job_conf.settings_by_job(conf)
    jobs = job_conf.complete(jobs, settings, conf_files, attempts)
    attempts = completed_attempts(events, attempts, tasks)
    tables = ((JOB_MODEL, jobs), (TASK_MODEL, tasks), (ATTEMPT_MODEL, attempts), (CONF_MODEL, conf))
    return parts_of(ModelFrames(*(table.sorted(frame[table.schema.names()]) for table, frame in tables)), settings)


def _jobs(events: Events, chosen: pl.DataFrame, tasks: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """JOB_MODEL rows without configuration columns; unordered."""
    facts = (
        events.jobs.lazy()
        .sort(FILE, "seq", maintain_order=True)
        .group_by("job_id", maintain_order=True)
        .agg(
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
            # Hadoop's parser fails on the end of something whose start is missing.
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
    # A cut last line counts only while nothing follows it.
    still_cut = pl.col("cut_seq") > pl.max_horizontal(pl.col("last_seq"), pl.col("attempt_seq")).fill_null(-1)
    lost = (pl.col("kind") == "jhist") & pl.any_horizontal("lost_tasks", "lost_choices", "lost_attempts")
    return (
        frame.with_columns(
            state=pl.when(ended)
            .then(state)
            .when(state.is_in(_BEGINNING) | (pl.col("kind") == "jhist"))
            .then(pl.lit("RUNNING"))
            .otherwise(pl.coalesce(state, pl.lit("UNKNOWN"))),
            source=pl.coalesce(
                "source",
                pl.col("kind").replace_strict(
                    {"jhist": "history", "mapreduce-rest": "rest"},
                    default="history",
                    return_dtype=pl.String,
                ),
            ),
            broken=pl.coalesce(
                "broken", pl.when(still_cut).then(pl.col("cut")), pl.when(lost).then(pl.lit(_LOST)), pl.lit("")
            ),
            file=pl.coalesce(pl.col("file"), pl.col("task_file")),
            tasks_seen=pl.col("tasks_seen").fill_null(0),
            am_starts=pl.col("am_starts").fill_null(0),
        )
        .with_columns(
            maps=pl.when(pl.col("state") == "RUNNING")
            .then(pl.coalesce("maps", "seen_maps"))
            .otherwise(pl.coalesce("seen_maps", "maps", pl.lit(0))),
            reduces=pl.when(pl.col("state") == "RUNNING")
            .then(pl.coalesce("reduces", "seen_reduces"))
            .otherwise(pl.coalesce("seen_reduces", "reduces", pl.lit(0))),
            maps_finished=pl.coalesce("done_maps", "maps_finished"),
            reduces_finished=pl.coalesce("done_reduces", "reduces_finished"),
            attempts_running=pl.when(pl.col("state").is_in(TERMINAL))
            .then(pl.lit(0))
            .otherwise(pl.coalesce("attempts_running", "running")),
            finish_ms=pl.when(pl.col("state") != "RUNNING").then(pl.col("finish_ms")),
            last_event_ms=pl.max_horizontal("last_time", "task_time", "attempt_time"),
            broken=_over_limit(events).fill_null(pl.col("broken")),
        )
        .collect()
    )


def _over_limit(events: Events) -> pl.Expr:
    """Dr. Elephant's message for a history file above its size limit; null for others."""
    texts = {
        file: f"the history file has {info.size / 2**20:,.0f} MB, more than Dr. Elephant's limit of {SIZE_LIMIT_MB} MB "
        "(history_log_size_limit_in_mb): it is not parsed and the job is treated as failed"
        for file, info in events.infos.items()
        if info.size > SIZE_LIMIT_MB * 2**20 and info.kind == "jhist"
    }
    return (
        pl.col("file").replace_strict(texts, default=None, return_dtype=pl.String)
        if texts
        else pl.lit(None, dtype=pl.String)
    )


class NamedJobs(msgspec.Struct, frozen=True):
    """Job ids that one file names: in its events, in configurations that it holds, and in its file name."""

    in_events: frozenset[str]
    in_conf: frozenset[str]
    in_name: str | None


def current_model(inputs: Inputs, context: Context) -> Model:
    """Return the model of all jobs in ``inputs`` as of ``context.at_ms`` (later events do not exist)."""
    times = "now" if context.at_ms is None else "past"
    return context.memo.value(
        f"job model {times}", (inputs.version, context.at_ms), lambda: _updated_model(inputs, context, times)
    )


def _updated_model(inputs: Inputs, context: Context, times: str) -> Model:
    """Assemble the jobs whose files changed, and return the model of all. Parts of ``now`` and ``past`` are kept
    apart, so that looking back does not evict the present."""
    versions = {number: info.version for number, info in inputs.files.items()}
    named: Partials[int, NamedJobs] = context.memo.state("files by job", Partials)
    named.update(versions, lambda files: _named_jobs(inputs, files))
    files_of = _files_by_job(named)
    parts: Partials[str, JobPart | None] = context.memo.state(f"job parts {times}", Partials)

    def compute(jobs: Collection[str]) -> Mapping[str, JobPart | None]:
        files = inputs.files if len(jobs) == len(files_of) else {file for job in jobs for file in files_of[job]}
        fresh = assemble(Events(inputs, files, context.at_ms))
        return {job: fresh.get(job) for job in jobs}

    stamps = {job: tuple((file, versions[file]) for file in files) for job, files in files_of.items()}
    parts.update(stamps, compute, key=context.at_ms)
    return Model({job: part for job, part in parts.items() if part is not None}, parts.revisions)


def _named_jobs(inputs: Inputs, files: Collection[int]) -> dict[int, NamedJobs]:
    """Read which jobs each of ``files`` names."""
    in_events = _ids_by_file(inputs, EVENT_TABLES, files)
    in_conf = _ids_by_file(inputs, ("conf",), files)
    return {
        file: NamedJobs(frozenset(in_events[file]), frozenset(in_conf[file]), id_in_name(inputs.files[file]))
        for file in files
    }


def _ids_by_file(inputs: Inputs, tables: Iterable[str], files: Collection[int]) -> dict[int, set[str]]:
    """Job ids in the rows of ``tables``, by file."""
    ids: dict[int, set[str]] = defaultdict(set)
    for job, file in (
        pl.concat([rows_of(inputs, name, files)[["job_id", FILE]] for name in tables]).unique().iter_rows()
    ):
        if job is not None:
            ids[file].add(job)
    return ids


def _files_by_job(named: Mapping[int, NamedJobs]) -> dict[str, list[int]]:
    """Return the sorted files of each job: those that name it, and those that name another id carried by its
    history's file name (its configuration may be stored under that id)."""
    by_id: dict[str, list[int]] = defaultdict(list)
    files_of: dict[str, list[int]] = {}
    aliases: list[tuple[str, str]] = []
    for file in sorted(named):
        ids = named[file]
        for job in ids.in_events:
            files_of[job] = by_id[job]
            by_id[job].append(file)
            if ids.in_name is not None and ids.in_name != job:
                aliases.append((job, ids.in_name))
        for job in ids.in_conf - ids.in_events:
            by_id[job].append(file)
    for job, alias in aliases:
        files_of[job] = sorted({*files_of[job], *by_id.get(alias, ())})
    return files_of
