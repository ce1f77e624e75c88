"""Tasks and attempts of jobs, from their events: which attempt of a task counts, and when each phase ended."""

from __future__ import annotations

from typing import Literal

import polars as pl

from engine.core.inputs import FILE
from engine.job_heuristics.mapreduce.model.events import Events
from engine.job_heuristics.mapreduce.tables.input import COUNTER_COLUMNS


def _one(frame: pl.DataFrame, key: str, keep: Literal["first", "last"]) -> pl.DataFrame:
    """The first or last row of each ``key``, by place in the file."""
    if frame[key].n_unique() == frame.height:
        return frame
    return frame.sort(FILE, "seq", maintain_order=True).unique(key, keep=keep, maintain_order=True)


_SIDE = pl.when(pl.col("type") == "MAP").then(pl.lit("map")).otherwise(pl.lit("reduce"))


def attempt_rows(starts: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Join starts and ends to one row per attempt, without counters and without what only the task knows; unordered."""
    starts = _one(starts, "attempt_id", "first")
    ended = _one(ends.filter(pl.col("state").is_not_null()), "attempt_id", "last")
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
    """The end of each task: the last one, unless the attempt it rests on was lost afterwards."""
    ended = _one(task_ends.filter(pl.col("state").is_not_null()), "task_id", "last")
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
    """The attempt whose times and counters an ended task takes: (task_id, attempt_id, fallback). ``fallback``: Dr.
    Elephant would find none."""
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
    starts = _one(events.task_starts, "task_id", "first")
    ends = _ends(events.task_ends, attempts)
    ids = pl.concat(
        [f[["job_id", "task_id", "type", FILE]] for f in (events.task_starts, events.task_ends, attempts)]
    ).unique("task_id", keep="first", maintain_order=True)
    chosen = _chosen_attempts(ends, attempts, rest)
    # Hadoop's parser has all phases of an attempt that did not succeed end with it.
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
    counted = events.task_ends.filter(pl.col("has_counters"))
    separate = counted.filter(pl.col("state").is_null())
    end_columns = ["task_id", "state", "finish_ms", "scheduled_ms", "error"]
    if separate.height:
        ends = ends.select(*end_columns).join(
            _one(
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
    frame = frame.with_columns(
        timed=timed,
        shuffle_ms=pl.when(timed).then(pl.col("shuffle_ms").fill_null(0)),
        sort_ms=pl.when(timed).then(pl.col("sort_ms").fill_null(0)),
    )
    return frame.collect()


def completed_attempts(events: Events, attempts: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Add to ``attempts`` what their tasks know (schedule, counters of the chosen attempt); ATTEMPT_MODEL rows, unordered."""
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
