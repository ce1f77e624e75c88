"""Events by file, and which files supply a job's events and configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import polars as pl

from engine.core.view import FILE, FileInfo, Inputs
from engine.job_heuristics.mapreduce.reading.kinds import job_in
from engine.job_heuristics.mapreduce.tables import CONF_MODEL

TERMINAL = ("SUCCEEDED", "FAILED", "KILLED", "ERROR")  # states in which a job or attempt has ended
EVENT_TABLES = ("job_events", "task_starts", "task_ends", "attempt_starts", "attempt_ends")
"""Input tables of a job's events."""


class Events:
    """The input rows of some files: one frame per input table, and ``infos``."""

    def __init__(self, inputs: Inputs, files: Collection[int], at_ms: int | None) -> None:
        """Take the rows of ``files``, up to ``at_ms`` (epoch ms) if given."""
        self.infos: Mapping[int, FileInfo] = {i: inputs.files[i] for i in files}
        self.jobs, self.task_starts, self.task_ends, self.attempt_starts, self.attempt_ends, self.conf = (
            rows_of(inputs, name, files) for name in (*EVENT_TABLES, "conf")
        )
        if at_ms is not None:
            self._drop_after(at_ms)

    def _drop_after(self, at: int) -> None:
        """Drop what happened after ``at``; jobs that ended later are running."""
        self.task_starts, self.task_ends, self.attempt_starts, self.attempt_ends = (
            frame.filter(pl.col(time).fill_null(at) <= at)
            for frame, time in (
                (self.task_starts, "scheduled_ms"), (self.task_ends, "finish_ms"),
                (self.attempt_starts, "start_ms"), (self.attempt_ends, "finish_ms"),
            )
        )  # fmt: skip
        begun = pl.coalesce("time_ms", "submit_ms", "launch_ms", pl.lit(at))
        later = pl.col("finish_ms").fill_null(at) > at
        self.jobs = self.jobs.filter((begun <= at) & ~pl.col("event").is_in(["BROKEN", "CUT"])).with_columns(
            [
                pl.when(later).then(pl.lit(None)).otherwise(pl.col(name)).alias(name)
                for name in ("finish_ms", "maps_finished", "reduces_finished", "attempts_running", "diagnostics")
            ]
            + [pl.when(later).then(pl.lit("RUNNING")).otherwise(pl.col("state")).alias("state")]
        )
        timed = pl.any_horizontal(pl.col("submit_ms", "launch_ms", "am_start_ms").is_not_null())
        self.jobs = self.jobs.join(
            self.jobs.filter(timed).select("job_id", FILE).unique(), on=["job_id", FILE], how="semi"
        )


def rows_of(inputs: Inputs, name: str, files: Collection[int]) -> pl.DataFrame:
    """The rows of input table ``name`` that come from ``files``."""
    return inputs.table(name) if len(files) == len(inputs.files) else inputs.of(name, frozenset(files))


_RANK = {"jhist": 2, "mapreduce-rest": 1}  # preference among kinds of files; higher is better


def choose_files(events: Events) -> tuple[pl.DataFrame, dict[str, set[int]]]:
    """Choose the source of each job: one row (job_id, kind, group) per job; and all files that name it.

    A job may lie in several files (staging and done, an earlier application master, saved REST answers). Prefer a
    finished one, then most ended tasks and attempts, then most records, then history over REST, then the newest file.
    ``group``: the file's id; -1 for all REST answers together.
    """
    kinds = pl.DataFrame(
        {
            FILE: pl.Series(list(events.infos), dtype=pl.UInt32),
            "kind": [info.kind for info in events.infos.values()],
            "mtime": pl.Series([info.mtime_ms for info in events.infos.values()], dtype=pl.Int64),
        },
        schema={FILE: pl.UInt32, "kind": pl.String, "mtime": pl.Int64},
    ).with_columns(rank=pl.col("kind").replace_strict(_RANK, default=0, return_dtype=pl.Int64))
    ended, unended, rows = (
        pl.col("state").is_in(TERMINAL).any().fill_null(False),
        pl.lit(False),
        pl.len().cast(pl.Int32),
    )
    counts = [
        frame.lazy().group_by("job_id", FILE).agg(final=final, ends=ends, records=pl.len())
        for frame, final, ends in (
            (events.jobs, ended, pl.lit(0)),
            (events.task_ends, unended, rows),
            (events.attempt_ends, unended, rows),
            (events.task_starts, unended, pl.lit(0)),
            (events.attempt_starts, unended, pl.lit(0)),
        )
    ]
    per_file = (
        pl.concat(counts)
        .filter(pl.col("job_id").is_not_null())
        .group_by("job_id", FILE)
        .agg(pl.col("final").any(), pl.col("ends").sum(), pl.col("records").sum())
        .collect()
    )
    files: dict[str, set[int]] = defaultdict(set)
    for job, file in per_file.select("job_id", FILE).iter_rows():
        files[job].add(file)
    chosen = (
        per_file.lazy()
        .join(kinds.lazy(), on=FILE, how="left")
        .with_columns(group=_group(pl.col("kind") == "mapreduce-rest"))
        .group_by("job_id", "group")
        .agg(
            pl.col("final").any(), pl.col("ends").sum(), pl.col("records").sum(), pl.col("rank").max(),
            pl.col("mtime").max(), pl.col("kind").first(),
        )
        .sort(
            "job_id", "final", "ends", "records", "rank", "mtime", "group",
            descending=[False, True, True, True, True, True, False],
        )
        .unique("job_id", keep="first", maintain_order=True)
        .select("job_id", "kind", "group")
        .collect()
    )  # fmt: skip
    return chosen, files


def _group(rest: pl.Expr) -> pl.Expr:
    return pl.when(rest).then(pl.lit(-1, dtype=pl.Int64)).otherwise(pl.col(FILE).cast(pl.Int64))


def only_chosen(frame: pl.DataFrame, chosen: pl.DataFrame, rest: pl.Series) -> pl.DataFrame:
    """Rows of ``frame`` that come from the chosen source of their job. ``rest``: ids of files with REST answers."""
    return (
        frame.with_columns(group=_group(pl.col(FILE).is_in(rest.implode())))
        .join(chosen.select("job_id", "group"), on=["job_id", "group"], how="semi", maintain_order="left")
        .drop("group")
    )


def choose_confs(events: Events, files: Mapping[str, set[int]]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Choose the configuration of each job: rows with ``job_id`` set, and the file they come from.

    ``files``: job → files that name it. Of several configurations the one with most properties counts, then the
    newest; without any for the job's id, the one for the id in the history's file name.
    """
    candidates: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for job, file, count in events.conf.group_by("job_id", FILE).agg(pl.len()).iter_rows():
        if job is not None:
            candidates[job].append((count, events.infos[file].mtime_ms, file))
    taken: dict[str, tuple[str, int]] = {}
    for job, own_files in files.items():
        aliases = {name for file in own_files if (name := id_in_name(events.infos[file])) is not None} - {job}
        for name in (job, *sorted(aliases)):
            if name in candidates and (name == job or name not in files):
                taken[job] = (name, max(candidates[name])[2])
                break
    if not taken:
        return CONF_MODEL.empty(), {}
    pairs = pl.DataFrame(
        {
            "own": list(taken),
            "job_id": [name for name, _ in taken.values()],
            FILE: pl.Series([file for _, file in taken.values()], dtype=pl.UInt32),
        }
    )
    rows = events.conf.join(pairs, on=["job_id", FILE], how="inner", maintain_order="left")
    rows = rows.select(pl.col("own").alias("job_id"), "key", "value", "origin")
    return rows, {job: file for job, (_, file) in taken.items()}


def id_in_name(info: FileInfo) -> str | None:
    """The job id in a file's name, or None."""
    return job_in(info.path[info.path.rfind("/") + 1 :])
