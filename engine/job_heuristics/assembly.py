"""From events to the model: which attempt of a task counts, which file of a job, what state it is in."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.job_heuristics import settings
from engine.job_heuristics.changes import Changes
from engine.job_heuristics.conf import job_in
from engine.job_heuristics.grown import Grown, Refused
from engine.job_heuristics.model import Model
from engine.job_heuristics.said import EVENT_TABLES, JOB_FACTS, TERMINAL, over_limit
from engine.job_heuristics.tables import (
    ATTEMPT_MODEL,
    CONF_MODEL,
    COUNTER_COLUMNS,
    JOB_MODEL,
    TASK_MODEL,
)
from engine.view import Context

_BEGINNING = {"NEW", "INITED", "SETUP", "RUNNING", "COMMITTING", "FAIL_WAIT", "KILL_WAIT", "ACCEPTED", "SUBMITTED"}
_RANK = {"jhist": 4, "mapreduce-rest": 3, "rumen": 2, "job-summary": 1}


class Events:
    """The input rows of some files."""

    def __init__(self, inputs: Inputs, files: Iterable[int] | None, at_ms: int | None) -> None:
        self.infos: Mapping[int, FileInfo] = (
            inputs.files if files is None else {i: inputs.files[i] for i in files if i in inputs.files}
        )
        chosen = None if files is None else frozenset(files)
        names = (*EVENT_TABLES, "conf")
        frames = {name: inputs.table(name) if chosen is None else inputs.of(name, chosen) for name in names}
        self.jobs = frames["job_events"]
        self.task_starts = frames["task_starts"]
        self.task_ends = frames["task_ends"]
        self.attempt_starts = frames["attempt_starts"]
        self.attempt_ends = frames["attempt_ends"]
        self.conf = frames["conf"]
        if at_ms is not None:
            self._until(at_ms)

    def _until(self, at: int) -> None:
        """Forget what happened after ``at``."""
        self.task_starts = self.task_starts.filter(pl.col("scheduled_ms").fill_null(at) <= at)
        self.task_ends = self.task_ends.filter(pl.col("finish_ms").fill_null(at) <= at)
        self.attempt_starts = self.attempt_starts.filter(pl.col("start_ms").fill_null(at) <= at)
        self.attempt_ends = self.attempt_ends.filter(pl.col("finish_ms").fill_null(at) <= at)
        begun = pl.coalesce("time_ms", "submit_ms", "launch_ms", pl.lit(at))
        later = pl.col("finish_ms").fill_null(at) > at
        jobs = self.jobs.filter((begun <= at) & ~pl.col("event").is_in(["BROKEN", "CUT"]))
        self.jobs = jobs.with_columns(
            [
                pl.when(later).then(pl.lit(None)).otherwise(pl.col(name)).alias(name)
                for name in ("finish_ms", "maps_finished", "reduces_finished", "attempts_running", "diagnostics")
            ]
            + [pl.when(later).then(pl.lit("RUNNING")).otherwise(pl.col("state")).alias("state")]
        )
        timed = pl.any_horizontal(pl.col("submit_ms", "launch_ms", "am_start_ms").is_not_null())
        alive = self.jobs.filter(timed).select("job_id", FILE).unique()
        self.jobs = self.jobs.join(alive, on=["job_id", FILE], how="semi")


def _choose(events: Events) -> tuple[pl.DataFrame, dict[str, set[int]]]:
    """Which source counts for each job: one row (job_id, kind, group) per job, and every file that mentions it.

    A job may lie in several files (staging and done, an earlier application master, saved REST answers). The one
    that is finished wins, then the one with most ended tasks and attempts, then most records, then history over
    REST over trace over summary, then the newest file.
    """
    kinds = pl.DataFrame(
        {
            FILE: pl.Series(list(events.infos), dtype=pl.UInt32),
            "kind": [info.kind for info in events.infos.values()],
            "mtime": pl.Series([info.mtime_ms for info in events.infos.values()], dtype=pl.Int64),
        },
        schema={FILE: pl.UInt32, "kind": pl.String, "mtime": pl.Int64},
    ).with_columns(rank=pl.col("kind").replace_strict(_RANK, default=0, return_dtype=pl.Int64))
    parts = [
        events.jobs.group_by("job_id", FILE).agg(
            final=pl.col("state").is_in(TERMINAL).any().fill_null(False),
            ends=pl.lit(0, dtype=pl.UInt32),
            records=pl.len(),
        )
    ]
    for frame, ends in (
        (events.task_ends, 1),
        (events.attempt_ends, 1),
        (events.task_starts, 0),
        (events.attempt_starts, 0),
    ):
        parts.append(
            frame.group_by("job_id", FILE).agg(
                final=pl.lit(False), ends=pl.len() * pl.lit(ends, dtype=pl.UInt32), records=pl.len()
            )
        )
    seen = pl.concat(parts).filter(pl.col("job_id").is_not_null())
    per_file = (
        seen.group_by("job_id", FILE)
        .agg(pl.col("final").any(), pl.col("ends").sum(), pl.col("records").sum())
        .join(kinds, on=FILE, how="left")
    )
    files: dict[str, set[int]] = defaultdict(set)
    for job, file in per_file.select("job_id", FILE).iter_rows():
        files[job].add(file)
    group = (
        pl.when(pl.col("kind") == "mapreduce-rest")
        .then(pl.lit(-1, dtype=pl.Int64))
        .otherwise(pl.col(FILE).cast(pl.Int64))
    )
    chosen = (
        per_file.with_columns(group=group)
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
    )  # fmt: skip
    return chosen, files


def _only(frame: pl.DataFrame, chosen: pl.DataFrame, rest: pl.Series, contested: bool) -> pl.DataFrame:
    """Rows of ``frame`` that come from the chosen source of their job."""
    if not contested:
        return frame.filter(pl.col("job_id").is_not_null())
    group = (
        pl.when(pl.col(FILE).is_in(rest.implode()))
        .then(pl.lit(-1, dtype=pl.Int64))
        .otherwise(pl.col(FILE).cast(pl.Int64))
    )
    return (
        frame.with_columns(group=group)
        .join(chosen.select("job_id", "group"), on=["job_id", "group"], how="semi", maintain_order="left")
        .drop("group")
    )


def _last(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    """The last row of each ``key`` by place in the file."""
    if frame[key].n_unique() == frame.height:
        return frame
    return frame.sort(FILE, "seq", maintain_order=True).unique(key, keep="last", maintain_order=True)


def _first(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    if frame[key].n_unique() == frame.height:
        return frame
    return frame.sort(FILE, "seq", maintain_order=True).unique(key, keep="first", maintain_order=True)


_SIDE = pl.when(pl.col("type") == "MAP").then(pl.lit("map")).otherwise(pl.lit("reduce"))


def _attempts(starts: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt, without counters and without what only the task knows."""
    starts = _first(starts, "attempt_id")
    told = _last(ends.filter(pl.col("state").is_not_null()), "attempt_id")
    keep = ("attempt_id", "state", "finish_ms", "map_finish_ms", "shuffle_finish_ms", "sort_finish_ms", "rack",
            "error", "progress")  # fmt: skip
    both = starts.join(
        told.select(*keep, pl.col("seq").alias("end_seq"), pl.col("host").alias("end_host")),
        on="attempt_id", how="left", maintain_order="left",
    )  # fmt: skip
    lost = told.join(starts, on="attempt_id", how="anti", maintain_order="left")
    if lost.height:
        lost = lost.select(
            "seq", "job_id", "task_id", "attempt_id", "type", pl.lit(None, dtype=pl.Int64).alias("start_ms"),
            pl.lit(None, dtype=pl.String).alias("host"), pl.lit(None, dtype=pl.String).alias("container"),
            pl.lit(None, dtype=pl.String).alias("locality"), pl.lit(None, dtype=pl.String).alias("avataar"), FILE,
            *keep[1:], pl.col("seq").alias("end_seq"), pl.col("host").alias("end_host"),
        )  # fmt: skip
        both = pl.concat([both, lost.select(both.columns)])
    return both.with_columns(
        host=pl.coalesce("end_host", "host"), state=pl.col("state").fill_null("RUNNING"), side=_SIDE
    ).drop("end_host")


def _ends(task_ends: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """The end of each task that counts: the last one, unless the attempt it rests on was lost afterwards."""
    told = _last(task_ends.filter(pl.col("state").is_not_null()), "task_id")
    lost = attempts.filter(pl.col("state").is_in(["FAILED", "KILLED"])).select(
        pl.col("attempt_id").alias("chosen_id"), "end_seq"
    )
    if lost.height:
        undone = (
            told.filter(pl.col("state") == "SUCCEEDED")
            .join(lost, on="chosen_id", how="inner")
            .filter(pl.col("end_seq") > pl.col("seq"))
            .select("task_id")
        )
        if undone.height:
            told = told.join(undone, on="task_id", how="anti", maintain_order="left")
    return told


def _chosen(ends: pl.DataFrame, attempts: pl.DataFrame, rest: pl.Series) -> pl.DataFrame:
    """The attempt of each ended task: (task_id, attempt_id, fallback). ``fallback``: upstream would find none."""
    named = ends.select("task_id", FILE, "state", pl.col("chosen_id").alias("attempt_id")).with_columns(
        rest=pl.col(FILE).is_in(rest.implode())
    )
    sure = named.filter(pl.col("attempt_id").is_not_null() & (~pl.col("rest") | (pl.col("state") == "SUCCEEDED")))
    open_ = named.join(sure, on="task_id", how="anti").select("task_id", "state", "rest")
    found = sure.select("task_id", "attempt_id", fallback=pl.lit(False))
    if not open_.height:
        return found
    tried = attempts.select("task_id", "attempt_id", pl.col("state").alias("how"), "finish_ms")
    # Old histories do not name the successful attempt; REST never names that of an unsuccessful task: upstream then
    # takes the earliest-ended of those that did not succeed.
    guess = (
        open_.join(tried, on="task_id", how="inner")
        .filter(
            pl.when(pl.col("state") == "SUCCEEDED")
            .then(pl.col("how") == "SUCCEEDED")
            .otherwise(pl.col("rest") & (pl.col("how") != "SUCCEEDED"))
        )
        .sort("task_id", "finish_ms", "attempt_id", nulls_last=True)
        .unique("task_id", keep="first", maintain_order=True)
        .select("task_id", "attempt_id", fallback=~pl.col("rest"))
    )
    return pl.concat([found, guess])


def _tasks(events: Events, attempts: pl.DataFrame, rest: pl.Series) -> pl.DataFrame:
    """TASK_MODEL rows and more; unordered."""
    starts = _first(events.task_starts, "task_id")
    ends = _ends(events.task_ends, attempts)
    ids = pl.concat(
        [f.select("job_id", "task_id", "type", FILE) for f in (events.task_starts, events.task_ends, attempts)]
    ).unique("task_id", keep="first", maintain_order=True)
    chosen = _chosen(ends, attempts, rest)
    picked = chosen.join(
        attempts.select(
            "attempt_id", "start_ms", pl.col("finish_ms").alias("attempt_finish_ms"), "shuffle_finish_ms",
            "sort_finish_ms", "host", "rack", "locality",
        ),
        on="attempt_id", how="left", maintain_order="left",
    )  # fmt: skip
    counted = events.task_ends.filter(pl.col("has_counters"))
    separate = counted.filter(pl.col("state").is_null())
    end_columns = ["task_id", "state", "finish_ms", "scheduled_ms", "error"]
    if separate.height:
        ends = ends.select(*end_columns).join(
            _last(pl.concat([separate, ends.filter(pl.col("has_counters")).select(separate.columns)]), "task_id").select(
                "task_id", *COUNTER_COLUMNS
            ),
            on="task_id", how="left", maintain_order="left",
        )  # fmt: skip
    else:
        ends = ends.select(*end_columns, *COUNTER_COLUMNS)
    tries = attempts.group_by("task_id").agg(attempts=pl.len().cast(pl.Int64))
    frame = (
        ids.join(starts.select("task_id", "scheduled_ms"), on="task_id", how="left", maintain_order="left")
        .join(ends, on="task_id", how="left", maintain_order="left", suffix="_end")
        .join(picked, on="task_id", how="left", maintain_order="left")
        .join(tries, on="task_id", how="left", maintain_order="left")
    )
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
    )


def _attempt_model(events: Events, attempts: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """ATTEMPT_MODEL rows: with what the task knows (schedule, counters of the chosen attempt)."""
    frame = attempts.join(
        tasks.select("task_id", "scheduled_ms", pl.col("attempt_id").alias("picked")),
        on="task_id", how="left", maintain_order="left",
    ).with_columns(chosen=(pl.col("attempt_id") == pl.col("picked")).fill_null(False))  # fmt: skip
    own = events.attempt_ends.filter(pl.col("counted")).select("attempt_id", *COUNTER_COLUMNS)
    given = tasks.filter(pl.col("attempt_id").is_not_null()).select("attempt_id", *COUNTER_COLUMNS)
    if own.height:
        own = own.unique("attempt_id", keep="last", maintain_order=True)
        own = own.join(given, on="attempt_id", how="anti")
        given = pl.concat([given, own])
    return frame.join(given, on="attempt_id", how="left", maintain_order="left")


def _jobs(events: Events, chosen: pl.DataFrame, tasks: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """JOB_MODEL rows without what the configuration says; unordered."""
    rows = events.jobs.sort(FILE, "seq", maintain_order=True)
    facts = rows.group_by("job_id", maintain_order=True).agg(
        *[pl.col(name).drop_nulls().last() for name in JOB_FACTS],
        pl.col("am_start_ms").drop_nulls().first(),
        am_starts=(pl.col("event") == "AM_STARTED").sum().cast(pl.Int64),
        broken=pl.col("broken").filter(pl.col("event") == "BROKEN").first(),
        cut=pl.col("broken").filter(pl.col("event") == "CUT").last(),
        cut_seq=pl.col("seq").filter(pl.col("event") == "CUT").last(),
        last_seq=pl.col("seq").filter(pl.col("event") != "CUT").max(),
        last_time=pl.max_horizontal(pl.col("time_ms").max(), pl.col("finish_ms").max()),
        file=pl.col(FILE).last(),
    )
    side = tasks.group_by("job_id").agg(
        tasks_seen=pl.len().cast(pl.Int64),
        seen_maps=(pl.col("side") == "map").sum().cast(pl.Int64),
        seen_reduces=(pl.col("side") == "reduce").sum().cast(pl.Int64),
        done_maps=((pl.col("side") == "map") & (pl.col("state") == "SUCCEEDED")).sum().cast(pl.Int64),
        done_reduces=((pl.col("side") == "reduce") & (pl.col("state") == "SUCCEEDED")).sum().cast(pl.Int64),
        task_time=pl.max_horizontal(pl.col("ended_ms").max(), pl.col("scheduled_ms").max()),
        task_file=pl.col(FILE).min(),
    )
    tried = attempts.group_by("job_id").agg(
        running=(pl.col("state") == "RUNNING").sum().cast(pl.Int64),
        attempt_time=pl.max_horizontal(pl.col("finish_ms").max(), pl.col("start_ms").max()),
        attempt_seq=pl.max_horizontal(pl.col("seq").max(), pl.col("end_seq").max()),
    )
    frame = (
        chosen.join(facts, on="job_id", how="left", maintain_order="left")
        .join(side, on="job_id", how="left", maintain_order="left")
        .join(tried, on="job_id", how="left", maintain_order="left")
    )
    state = pl.col("state").str.to_uppercase()
    ended = state.is_in(TERMINAL)
    # A cut last line counts only while nothing was read behind it.
    still_cut = pl.col("cut_seq") > pl.max_horizontal(pl.col("last_seq"), pl.col("attempt_seq")).fill_null(-1)
    return frame.with_columns(
        state=pl.when(ended)
        .then(state)
        .when(state.is_in(_BEGINNING) | (pl.col("kind") == "jhist"))
        .then(pl.lit("RUNNING"))
        .otherwise(pl.coalesce(state, pl.lit("UNKNOWN"))),
        source=pl.coalesce(
            "source",
            pl.col("kind").replace_strict(
                {"jhist": "history", "mapreduce-rest": "rest", "rumen": "rumen", "job-summary": "summary"},
                default="history", return_dtype=pl.String,
            ),
        ),
        broken=pl.coalesce("broken", pl.when(still_cut).then(pl.col("cut")), pl.lit("")),
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


def _over_limit(events: Events) -> pl.Expr:
    """What upstream says instead of parsing a history file that is too large for it; null for all others."""
    words = {number: text for number, info in events.infos.items() if (text := over_limit(info)) is not None}
    if not words:
        return pl.lit(None, dtype=pl.String)
    return pl.col("file").replace_strict(words, default=None, return_dtype=pl.String)


def _confs(
    events: Events, files: Mapping[str, set[int]], mentions: Mapping[str, list[tuple[int, int, int]]]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The configuration of each job: rows with ``job_id`` set, and which file it is from.

    ``mentions``: job → (properties, mtime, file) of the files that hold its configuration. Several for one job: the
    one with most properties, then the newest. None of a job's own id: the one whose name carries the id that the
    history's file name (wrongly) carries.
    """
    taken: dict[str, tuple[str, int]] = {}
    for job, mentioned in files.items():
        for named in (job, *sorted(_names(events.infos, mentioned) - {job})):
            if named in mentions and (named == job or named not in files):
                taken[job] = (named, max(mentions[named])[2])
                break
    if not taken:
        return CONF_MODEL.empty(), {}
    pairs = pl.DataFrame(
        {
            "own": list(taken),
            "job_id": [named for named, _ in taken.values()],
            FILE: pl.Series([file for _, file in taken.values()], dtype=pl.UInt32),
        }
    )
    rows = events.conf.join(pairs, on=["job_id", FILE], how="inner", maintain_order="left")
    rows = rows.select(pl.col("own").alias("job_id"), "key", "value", "origin")
    return rows, {job: file for job, (_, file) in taken.items()}


def _names(infos: Mapping[int, FileInfo], files: Iterable[int]) -> set[str]:
    """The job ids that the names of ``files`` carry."""
    found = set()
    for file in files:
        info = infos.get(file)
        if info is not None and (name := job_in(info.path[info.path.rfind("/") + 1 :])) is not None:
            found.add(name)
    return found


@dataclass(frozen=True)
class _Built:
    """A model with what is needed to bring it up to date."""

    model: Model
    files: dict[str, set[int]]
    """Job → files that mention it in an event."""
    confs: dict[str, set[int]]
    """Job → files that hold its configuration."""
    names: dict[str, set[str]]
    """Job id in a file name → jobs that file really is about."""

    jobs: dict[int, set[str]]
    """File → the jobs it mentions in an event, or whose configuration it holds."""

    def alone(self, file: int) -> str | None:
        """The one job that ``file`` mentions, if no other file mentions that job and ``file`` holds no configuration."""
        found = self.jobs.get(file, set())
        job = next(iter(found)) if len(found) == 1 else None
        if job is None or self.files.get(job, set()) != {file} or file in self.confs.get(job, set()):
            return None
        return job

    @classmethod
    def of(
        cls, model: Model, files: dict[str, set[int]], confs: dict[str, set[int]], names: dict[str, set[str]]
    ) -> _Built:
        """With ``jobs`` made from the others."""
        return cls(model, files, confs, names, _inverse(files, confs))


def _inverse(*each: Mapping[str, set[int]]) -> dict[int, set[str]]:
    """File → the jobs of which some mapping names it."""
    jobs: dict[int, set[str]] = defaultdict(set)
    for found in each:
        for job, files in found.items():
            for file in files:
                jobs[file].add(job)
    return dict(jobs)


def _build(events: Events) -> _Built:
    """The model of all jobs in ``events``."""
    chosen, files = _choose(events)
    rest = pl.Series([i for i, f in events.infos.items() if f.kind == "mapreduce-rest"], dtype=pl.UInt32)
    contested = any(len(f) > 1 for f in files.values())
    events.jobs = _only(events.jobs, chosen, rest, contested)
    events.task_starts = _only(events.task_starts, chosen, rest, contested)
    events.task_ends = _only(events.task_ends, chosen, rest, contested)
    events.attempt_starts = _only(events.attempt_starts, chosen, rest, contested)
    events.attempt_ends = _only(events.attempt_ends, chosen, rest, contested)
    attempts = _attempts(events.attempt_starts, events.attempt_ends)
    tasks = _tasks(events, attempts, rest)
    jobs = _jobs(events, chosen, tasks, attempts)
    mentions: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for job, file, count in events.conf.group_by("job_id", FILE).agg(pl.len()).iter_rows():
        if job is not None:
            info = events.infos.get(file)
            mentions[job].append((count, info.mtime_ms if info else 0, file))
    conf, conf_files = _confs(events, files, mentions)
    jobs = settings.complete(jobs, conf, conf_files, tasks, attempts)
    attempts = _attempt_model(events, attempts, tasks)
    names: dict[str, set[str]] = defaultdict(set)
    for job, mentioned in files.items():
        for name in _names(events.infos, mentioned):
            names[name].add(job)
    model = Model.of(
        JOB_MODEL.sorted(jobs.select(JOB_MODEL.schema.names())),
        TASK_MODEL.sorted(tasks.select(TASK_MODEL.schema.names())),
        ATTEMPT_MODEL.sorted(attempts.select(ATTEMPT_MODEL.schema.names())),
        CONF_MODEL.sorted(conf.select(CONF_MODEL.schema.names())),
    )
    return _Built.of(model, files, {job: {m[2] for m in found} for job, found in mentions.items()}, dict(names))


def assemble(inputs: Inputs, context: Context) -> Model:
    """The model of all jobs in ``inputs`` as of ``context.at_ms`` (later events do not exist). Pure.

    ``context.memo`` keeps the last one: only jobs whose files changed are assembled again.
    """
    return assembled(inputs, context)[0]


def assembled(inputs: Inputs, context: Context) -> tuple[Model, Changes]:
    """The model, and which jobs changed with its last generations."""
    memo: dict[str, Any] = context.memo.setdefault(("job-model", context.at_ms is None), {})
    model, touched = _assembled(inputs, context, memo)
    if touched is None or touched:
        generation = memo["generation"] = memo.get("generation", 0) + 1
        log: dict[int, frozenset[str] | None] = memo.setdefault("log", {})
        log[generation] = touched
        log.pop(generation - _GENERATIONS, None)
    return model, Changes(memo["generation"], memo["log"])


_GENERATIONS = 16
"""For how many generations it is remembered what changed."""


def _assembled(inputs: Inputs, context: Context, memo: dict[str, Any]) -> tuple[Model, frozenset[str] | None]:
    """The model, and which jobs changed since the last call (None: all, empty: none)."""
    now = inputs.files
    known: Mapping[int, FileInfo] = memo.get("files", {})
    if known and memo["at"] == context.at_ms:
        if memo["version"] == inputs.version:
            return memo["built"].model, frozenset()
        changed, gone = _difference(known, inputs, memo["version"])
        if len(changed) + len(gone) <= len(now) // 2 or (len(changed) == 1 and not gone):
            touched: set[str] = set()
            built: _Built = memo["built"]
            if changed or gone:
                grown = _grown(inputs, memo, changed) if not gone and context.at_ms is None else None
                built, touched = grown or _again(inputs, context, built, changed, gone)
                if grown is None:
                    for job in touched:
                        memo["grown"].pop(job, None)
            memo.update(files=now, version=inputs.version, built=built)
            return built.model, frozenset(touched)
    built = _build(Events(inputs, None, context.at_ms))
    memo.update(at=context.at_ms, files=now, version=inputs.version, built=built, grown={}, refused={})
    return built.model, None


def _difference(known: Mapping[int, FileInfo], inputs: Inputs, version: int) -> tuple[set[int], set[int]]:
    """Files that are new or have another version, and files that are gone, since ``known`` was that of ``version``."""
    now = inputs.files
    touched = inputs.touched_since(version)
    if touched is None:
        touched = frozenset(known.keys() | now.keys())
    changed = {i for i in touched if i in now and (i not in known or known[i].version != now[i].version)}
    return changed, {i for i in touched if i in known and i not in now}


_MOST_GROWN = 64
"""So many growing jobs are followed task by task."""
_WAIT = 8
"""A job that could not be followed is tried again after so many changes."""


def _grown(inputs: Inputs, memo: dict[str, Any], changed: set[int]) -> tuple[_Built, set[str]] | None:
    """The model after nothing but some histories grew, each of one job that is in no other file; None if that is not so,
    or a job cannot be followed that way."""
    old: _Built = memo["built"]
    if len(changed) > _MOST_GROWN // 4:
        return None
    jobs = {file: job for file in sorted(changed) if (job := old.alone(file)) and inputs.files[file].kind == "jhist"}
    if len(jobs) < len(changed):
        return None
    rows: dict[str, pl.DataFrame] = {}
    for name in (*EVENT_TABLES, "conf"):
        added = inputs.added_firm(name, memo["version"])
        if added is None or (name == "conf" and added.height):
            return None
        rows[name] = added
    cuts = _cuts(inputs, changed)
    if cuts is None:
        return None
    followed: dict[str, Grown] = memo["grown"]
    refused: dict[str, int] = memo["refused"]
    model = old.model
    touched: set[str] = set()
    for file, job in jobs.items():
        if refused.get(job, 0) > 0:
            refused[job] -= 1
            return None
        mine = rows if len(changed) == 1 else {n: f.filter(pl.col(FILE) == file) for n, f in rows.items()}
        try:
            one = followed.pop(job, None) or _follow(inputs, job, file, model, mine)
            step = one.apply(mine, inputs.files[file], cuts.get(file))
        except Refused:
            refused[job] = _WAIT
            return None
        followed[job] = one
        model = model.grown(step.row, step.tasks, step.attempts, step.arrays)
        touched.add(job)
    while len(followed) > _MOST_GROWN:
        del followed[next(iter(followed))]
    return _Built(model, old.files, old.confs, old.names, old.jobs), touched


def _cuts(inputs: Inputs, files: set[int]) -> dict[int, str] | None:
    """Of those ``files`` that end within a record: what upstream would say of that. None if anything else is known of
    the last records of ``files`` but that they are cut."""
    if any(not files.isdisjoint(inputs.provisional(name)[FILE].to_list()) for name in (*EVENT_TABLES[1:], "conf")):
        return None
    found: dict[int, str] = {}
    for file, event, broken in inputs.provisional("job_events")[[FILE, "event", "broken"]].iter_rows():
        if file in files:
            if event != "CUT" or broken is None:
                return None
            found[file] = broken
    return found


def prepare(inputs: Inputs, context: Context) -> bool:
    """Do a piece of work ahead: tidy up a running job, or begin to follow one before it grows, the file that changed last
    first. False if there is none left, or the model in ``context.memo`` is not that of ``inputs``."""
    memo: dict[str, Any] = context.memo.get(("job-model", context.at_ms is None), {})
    if context.at_ms is not None or memo.get("version") != inputs.version or memo.get("files") is not inputs.files:
        return False
    built: _Built = memo["built"]
    if memo.get("prepared") is not built:
        runs = built.model.jobs.filter(pl.col("state") == "RUNNING")["job_id"].to_list()
        held = {file for job in runs for file in built.files.get(job, ()) if built.alone(file) == job}
        files = [file for file in held if inputs.files[file].kind == "jhist"]
        newest = sorted(files, key=lambda file: (inputs.files[file].mtime_ms, file))[-_MOST_GROWN // 2 :]
        memo.update(prepared=built, candidates=newest)
    followed: dict[str, Grown] = memo["grown"]
    if any(one.tidy() for one in followed.values()):
        return True
    candidates: list[int] = memo["candidates"]
    while candidates and len(followed) < _MOST_GROWN:
        file = candidates.pop()
        job = built.alone(file)
        assert job is not None
        tried = memo.setdefault("tried", {})
        version = inputs.files[file].version
        if job in followed or memo["refused"].get(job, 0) > 0 or tried.get(file) == version:
            continue
        tried[file] = version
        if _cuts(inputs, {file}) is None:
            continue
        nothing = {name: inputs.table(name).head(0) for name in EVENT_TABLES}
        with contextlib.suppress(Refused):
            followed[job] = _follow(inputs, job, file, built.model, nothing)
        return True
    return False


def _follow(inputs: Inputs, job: str, file: int, model: Model, new: Mapping[str, pl.DataFrame]) -> Grown:
    """Begin to follow a job as ``model`` has it: by the firm events of its file but the ``new`` ones, which are the
    last."""
    events = {}
    for name in EVENT_TABLES:
        loose = inputs.provisional(name)[FILE].to_list().count(file)
        mine = inputs.of(name, {file})  # its provisional rows are its last ones
        events[name] = mine.head(mine.height - loose - new[name].height)
    return Grown(job, file, model.job(job), events)


def _again(
    inputs: Inputs, context: Context, old: _Built, changed: set[int], gone: Iterable[int]
) -> tuple[_Built, set[str]]:
    """Assemble only the jobs that changed or gone files mention, over all files that mention those jobs."""
    moved = changed | set(gone)
    touched = set().union(*(old.jobs.get(file, ()) for file in moved))
    read: set[int] | None = None  # nothing to read is an answer too: all files of a job may be gone
    while True:
        for name in list(touched):
            touched |= old.names.get(name, set())
        wanted = _mentioning(inputs, old, changed, touched)
        if read is not None and wanted <= read:
            break
        # What is new in the changed files may name further jobs: then once more.
        read = wanted
        events = Events(inputs, read, context.at_ms)
        for frame in (events.jobs, events.task_starts, events.task_ends, events.attempt_starts, events.attempt_ends):
            touched.update(_ids(frame))
        touched.update(_ids(events.conf))
    part = _build(events)
    files, confs = _merged(old.files, part.files, touched), _merged(old.confs, part.confs, touched)
    names = {**old.names, **{n: j | old.names.get(n, set()) for n, j in part.names.items()}}
    model = old.model.replaced(touched, part.model.only(frozenset(touched)))
    return _Built(model, files, confs, names, _moved(old, files, confs, touched)), touched


def _moved(
    old: _Built, files: Mapping[str, set[int]], confs: Mapping[str, set[int]], touched: set[str]
) -> dict[int, set[str]]:
    """``_Built.jobs`` when nothing changed but what is known of ``touched`` jobs."""
    held = (old.files, old.confs, files, confs)
    places = set().union(*(each.get(job, ()) for each in held for job in touched))
    jobs = old.jobs.copy()
    for file in places:
        mentioned = jobs.pop(file, set()) - touched
        mentioned |= {job for job in touched if file in files.get(job, ()) or file in confs.get(job, ())}
        if mentioned:
            jobs[file] = mentioned
    return jobs


def _ids(frame: pl.DataFrame) -> Iterable[str]:
    return (job for job in frame["job_id"].unique().to_list() if job is not None)


def _mentioning(inputs: Inputs, old: _Built, changed: set[int], touched: set[str]) -> set[int]:
    """All files that hold something of ``touched`` jobs, and the changed ones."""
    wanted = set(changed)
    for job in touched:
        wanted |= old.files.get(job, set()) | old.confs.get(job, set())
        for name in _names(inputs.files, old.files.get(job, set())):
            wanted |= old.confs.get(name, set())
    for name in _names(inputs.files, changed):
        wanted |= old.confs.get(name, set())
    return wanted & inputs.files.keys()


def _merged(old: dict[str, set[int]], new: dict[str, set[int]], touched: set[str]) -> dict[str, set[int]]:
    merged = old.copy()
    for job in touched:
        merged.pop(job, None)
    merged.update({job: files for job, files in new.items() if job in touched})
    return merged
