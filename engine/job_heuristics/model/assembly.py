"""From events to the model: which attempt of a task counts, which file of a job, what state it is in.

``upkeep`` calls this for all jobs, or for those that changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.job_heuristics.model import job_conf
from engine.job_heuristics.model.job_facts import EVENT_TABLES, JOB_FACTS, TERMINAL, over_limit
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.reading.conf import job_in
from engine.job_heuristics.tables import (
    ATTEMPT_MODEL,
    CONF_MODEL,
    COUNTER_COLUMNS,
    JOB_MODEL,
    TASK_MODEL,
)

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
        for named in (job, *sorted(names_in(events.infos, mentioned) - {job})):
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


def names_in(infos: Mapping[int, FileInfo], files: Iterable[int]) -> set[str]:
    """The job ids that the names of ``files`` carry."""
    found = set()
    for file in files:
        info = infos.get(file)
        if info is not None and (name := job_in(info.path[info.path.rfind("/") + 1 :])) is not None:
            found.add(name)
    return found


@dataclass(frozen=True)
class Built:
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
    ) -> Built:
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


def build(events: Events) -> Built:
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
    jobs = job_conf.complete(jobs, conf, conf_files, tasks, attempts)
    attempts = _attempt_model(events, attempts, tasks)
    names: dict[str, set[str]] = defaultdict(set)
    for job, mentioned in files.items():
        for name in names_in(events.infos, mentioned):
            names[name].add(job)
    model = Model.of(
        JOB_MODEL.sorted(jobs.select(JOB_MODEL.schema.names())),
        TASK_MODEL.sorted(tasks.select(TASK_MODEL.schema.names())),
        ATTEMPT_MODEL.sorted(attempts.select(ATTEMPT_MODEL.schema.names())),
        CONF_MODEL.sorted(conf.select(CONF_MODEL.schema.names())),
    )
    return Built.of(model, files, {job: {m[2] for m in found} for job, found in mentions.items()}, dict(names))
