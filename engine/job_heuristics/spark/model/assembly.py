"""Applications assembled from their logs; only those whose logs changed are assembled again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import polars as pl

from engine.core.incremental import Partials
from engine.core.tables import Table
from engine.core.view import FILE, Context, Inputs
from engine.job_heuristics.dr_elephant import judged
from engine.job_heuristics.spark import tables
from engine.job_heuristics.spark.model.app import DRIVER, App, AppAttempt, SqlExecution
from engine.job_heuristics.spark.model.history_server import Summary, summarise
from engine.job_heuristics.spark.reading.event_log import GROWING
from engine.job_heuristics.spark.tables import SPARK_TASK_STARTS

_PART = re.compile(r"events_(\d{1,9})_(.+?)(\.compact)?$")  # name of a part of a rolling log, without codec
_DELIVERED = re.compile(r"eventlog(?:-(\d{4}-\d\d-\d\d--\d\d-\d\d\S{0,20}))?$")
"""Name of a part of a log that Databricks delivered, without codec: all in one folder, the one without a date last."""
_CODEC = re.compile(r"\.(?:zstd|zst|lz4|snappy|lzf|gz|gzip)(?=$|\.compact$|\.inprogress$)")
OLD = "EVENT_LOG_1"
"""Name of the log in the application folders of Spark 1.0 to 1.2; its events do not name the application."""
_YARN = re.compile(r"(application_\d+_\d+)(?:_(\d+))?$")

Part = tuple[int, str | None]  # a file, and the log within it if it is an archive


class Log(msgspec.Struct, frozen=True):
    """One log, or before they are joined one of its ``parts``, which are in order, without those replaced by a compacted one.

    ``group``: equal for the parts of a rolling log; ``number``: position among them, plus a half if compacted, 0 if ``date``
    gives the position. ``known``: whether it names its application itself, not only its file; ``gap``: a part is missing;
    ``old``: a folder of Spark 1.0 to 1.2.
    """

    parts: tuple[Part, ...]
    group: tuple[str, str]
    number: float
    date: str
    app_id: str
    attempt: str | None
    start_ms: int | None
    known: bool
    ended: bool
    growing: bool
    mtime_ms: int
    old: bool
    gap: bool = False

    @property
    def files(self) -> set[int]:
        """The files of its parts."""
        return {file for file, _ in self.parts}


def log_parts(inputs: Inputs, files: Collection[int]) -> dict[int, tuple[Log, ...]]:
    """Return the parts of logs in each of ``files``."""
    found: dict[int, dict[str | None, Sequence[Any]]] = {file: {} for file in files}
    start = pl.col("event") == "START"
    told = inputs.of("spark_events", frozenset(files)).group_by(FILE, "log").agg(
        pl.col("app_id", "attempt", "time_ms").filter(start).last(), (pl.col("event") == "END").any(), started=start.any()
    )  # fmt: skip
    for file, log, *facts, ended, started in told.iter_rows():
        if ended or started:
            found[file][log] = (*facts, ended)
    for table in ("spark_jobs", "spark_task_ends", "spark_executors"):
        if without := frozenset(file for file in files if not found[file]):
            for file, log in inputs.of(table, without).select(FILE, "log").unique().iter_rows():
                found[file].setdefault(log, (None, None, None, False))
    return {
        file: tuple(_part(inputs, file, log, *logs[log]) for log in sorted(logs, key=lambda log: log or ""))
        for file, logs in found.items()
    }


def _part(
    inputs: Inputs, file: int, log: str | None, app: str | None, attempt: str | None, start: int | None, ended: bool
) -> Log:
    info = inputs.files[file]
    folder, _, name = (info.path if log is None else f"{info.path}//{log}").rpartition("/")
    bare = _CODEC.sub("", _CODEC.sub("", name))
    growing = bare.endswith(GROWING)
    bare = folder.rpartition("/")[2] if bare.removesuffix(GROWING) == OLD else bare.removesuffix(GROWING)
    rolling = _PART.match(bare)
    number = int(rolling.group(1)) + (0.5 if rolling.group(3) else 0.0) if rolling else 0.0
    text, group = (rolling.group(2), f"events_{rolling.group(2)}") if rolling else (bare, name)
    delivered = _DELIVERED.match(bare)
    if delivered:
        text, group = "-".join(folder.split("/")[-2:]), "eventlog"
    yarn = _YARN.match(text)
    return Log(
        ((file, log),), (folder, group), number, (delivered.group(1) or "~") if delivered else "",
        app or (yarn.group(1) if yarn else text), attempt or (yarn.group(2) if yarn and not app else None), start,
        bool(app) or start is not None, ended, growing or bool(rolling), info.mtime_ms, name.startswith(OLD),
    )  # fmt: skip


def logs_of(parts: Iterable[Log]) -> list[Log]:
    """Join parts to logs."""
    groups: dict[tuple[str, str], list[Log]] = defaultdict(list)
    for part in parts:
        groups[part.group].append(part)
    return [_joined(sorted(group, key=lambda part: (part.number, part.date, part.parts))) for group in groups.values()]


def _joined(parts: list[Log]) -> Log:
    parts = parts[max((k for k, part in enumerate(parts) if part.number % 1), default=0) :]
    first = next((part for part in parts if part.known), parts[0])
    numbers = [int(part.number) for part in parts]
    gap = bool(numbers[0]) and (
        numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (numbers[0] != 1 and not parts[0].number % 1)
    )
    ended = any(part.ended for part in parts)
    return msgspec.structs.replace(
        first, parts=tuple(chain.from_iterable(part.parts for part in parts)), ended=ended,
        growing=not ended and any(part.growing for part in parts), mtime_ms=max(part.mtime_ms for part in parts), gap=gap,
        old=any(part.old for part in parts),
    )  # fmt: skip


def attempts_by_app(logs: Iterable[Log]) -> dict[str, list[Log]]:
    """Return the logs that count for each application, the newest attempt first; of several logs of one attempt
    prefer an ended one, then one without a gap, then the newest."""
    by_app: dict[str, dict[str | None, Log]] = defaultdict(dict)
    for log in logs:
        attempts = by_app[log.app_id]
        other = attempts.get(log.attempt)
        if other is None or _rank(log) > _rank(other):
            attempts[log.attempt] = log
    return {
        app: sorted(attempts.values(), key=lambda log: (-(log.start_ms or 0), log.attempt or ""))
        for app, attempts in by_app.items()
    }


def _rank(log: Log) -> tuple[object, ...]:
    return (log.ended, not log.gap, log.mtime_ms, *(-file for file, _ in log.parts))


_TIMES = (
    ("spark_events", "time_ms", ""), ("spark_jobs", "time_ms", ""), ("spark_executors", "time_ms", ""),
    ("spark_task_starts", "launch_ms", ""), ("spark_task_ends", "finish_ms", ""), ("spark_sql", "time_ms", ""),
    ("spark_stages", "submit_ms", "SUBMITTED"), ("spark_stages", "complete_ms", "COMPLETED"),
)  # fmt: skip
"""Time columns of the input tables, and the events for which they are the time (empty: all)."""


def until(frames: Mapping[str, pl.DataFrame], at_ms: int) -> dict[str, pl.DataFrame]:
    """Return the rows before the first event later than ``at_ms``; tasks that end later are running."""
    later = [
        frames[table].filter(pl.col(column) > at_ms, *([pl.col("event") == word] if word else []))["seq"].min()
        for table, column, word in _TIMES
    ]
    places = [place for place in later if isinstance(place, int)]
    if not places:
        return dict(frames)
    end = min(places)
    ends = frames["spark_task_ends"]
    open_tasks = ends.filter((pl.col("start_seq") < end) & (pl.col("seq") >= end)).with_columns(seq=pl.col("start_seq"))
    kept = {name: frame.filter(pl.col("seq") < end) for name, frame in frames.items()}
    columns = [name for name in SPARK_TASK_STARTS.schema.names() if name != "log"]
    kept["spark_task_starts"] = pl.concat([kept["spark_task_starts"].select(columns), open_tasks.select(columns)]).sort(
        "seq"
    )
    return kept


_STEP = 1 << 40  # range of sequence numbers reserved for one part of a log
MOST_RETAINED = 1000
"""Jobs, and stages, that the history server retains per application (spark.ui.retainedJobs, -Stages)."""
SIZE_LIMIT_MB = 100  # size limit, MiB, of Dr. Elephant's own replay of logs (event_log_size_limit_in_mb).


Apps = judged.Apps[App]


def current_apps(inputs: Inputs, context: Context) -> Apps:
    """Return all Spark applications in ``inputs`` as of ``context.at_ms``."""
    return judged.current_apps("spark", inputs, context, _logged)


def _logged(inputs: Inputs, context: Context) -> tuple[Mapping[str, Hashable], judged.Assemble[App]]:
    """Return the stamps of the applications that have logs, and what assembles them."""
    memo = context.memo
    versions = {
        n: info.version for n, info in inputs.files.items() if info.kind in ("spark-event-log", "spark-archive")
    }
    parts: Partials[int, tuple[Log, ...]] = memo.state("spark log parts", Partials)
    parts.update(versions, lambda files: log_parts(inputs, files))
    attempts = memo.value(
        "spark logs", parts.version, lambda: attempts_by_app(logs_of(part for each in parts.values() for part in each))
    )

    def assemble(wanted: Collection[str]) -> Mapping[str, App | None]:
        rows = _Rows(inputs, {file for app in wanted for log in attempts[app] for file in log.files})
        return {app: _app(rows, app, attempts[app], context.at_ms, inputs) for app in wanted}

    stamps = {
        app: tuple((file, versions[file]) for log in logs for file in sorted(log.files))
        for app, logs in attempts.items()
    }
    return stamps, assemble


class _Rows:
    """The input rows of some files, by part of a log."""

    def __init__(self, inputs: Inputs, files: set[int]) -> None:
        self._frames: dict[str, dict[Part, pl.DataFrame]] = {}
        for table in tables.SPARK_INPUTS:
            frame = inputs.of(table.name, frozenset(files))
            # Most tables of most logs are empty, and a partition of nothing takes as long as one of a few rows.
            parts = (
                frame.partition_by(FILE, "log", maintain_order=True, as_dict=True, include_key=False)
                if frame.height
                else {}
            )
            self._frames[table.name] = {(int(file), log): part for (file, log), part in parts.items()}

    def of(self, table: Table, log: Log) -> pl.DataFrame:
        """Return the rows of ``log``, with sequence numbers growing over its parts."""
        found = []
        for place, part in enumerate(log.parts):
            frame = self._frames[table.name].get(part)
            if frame is not None:
                places = [name for name in ("seq", "start_seq") if name in frame.columns]
                found.append(frame.with_columns(pl.col(places) + place * _STEP) if place else frame)
        return (found[0] if len(found) == 1 else pl.concat(found, rechunk=True)) if found else table.empty().drop("log")


def _app(rows: _Rows, app_id: str, logs: list[Log], at_ms: int | None, inputs: Inputs) -> App | None:
    """Assemble one application from its logs, the newest attempt first."""
    facts = [rows.of(tables.SPARK_EVENTS, log) for log in logs]
    if at_ms is not None:
        begun = [k for k, log in enumerate(logs) if log.start_ms is None or log.start_ms <= at_ms]
        if not begun:
            return None
        logs, facts = [logs[k] for k in begun], [facts[k] for k in begun]
    log = logs[0]
    frames = {table.name: rows.of(table, log) for table in tables.SPARK_INPUTS}
    if at_ms is not None:
        frames = until(frames, at_ms)
        facts[0] = frames["spark_events"]
    attempts = tuple(_attempt(each, fact, at_ms) for each, fact in zip(logs, facts, strict=True))
    events = facts[0]
    summary = summarise(frames)
    start = _first(events, "START")
    state = _state(log, events, summary, attempts[0].end_ms is not None)
    end = attempts[0].end_ms if attempts[0].end_ms is not None else _newest(frames)
    for executor in summary.executors:  # the history server since Spark 3.3: the driver's time is the application's
        if executor.name == DRIVER and attempts[0].start_ms is not None and end is not None:
            executor.duration_ms = end - attempts[0].start_ms
    conf = frames["spark_conf"]
    properties = dict(conf.filter(pl.col("seq") == pl.col("seq").min()).select("key", "value").iter_rows())
    profiles = events.filter((pl.col("event") == "PROFILE") & pl.col("number").is_not_null())
    with_gpu = profiles.filter(pl.col("name").fill_null("").str.contains("gpu", literal=True))["number"]
    sums = frames["spark_sql_metrics"].group_by("accumulator").agg(pl.col("value").sum())
    return App(
        app_id, start["name"] or "", start["user"] or "", state, attempts, attempts[0].start_ms, end, properties,
        summary.jobs, summary.stages, summary.executors, frames["spark_task_ends"], summary.running,
        _sql(frames["spark_sql"]), dict(sums.iter_rows()), frames["spark_batches"],
        dict(profiles.select("number", "cpus").iter_rows()), frozenset(with_gpu.to_list()),
        summary.stored, _unreadable(log, events, conf, inputs), _notes(log, events, summary, state),
    )  # fmt: skip


def _first(events: pl.DataFrame, word: str) -> dict[str, Any]:
    found = events.filter(pl.col("event") == word)
    return found.row(0, named=True) if found.height else dict.fromkeys(events.columns)


def _attempt(log: Log, events: pl.DataFrame, at_ms: int | None) -> AppAttempt:
    start, end, version = (_first(events, word) for word in ("START", "END", "VERSION"))
    end_ms = end["time_ms"]
    if at_ms is not None and isinstance(end_ms, int) and end_ms > at_ms:
        end_ms = None
    return AppAttempt(
        log.attempt,
        start["time_ms"],
        end_ms,
        start["user"] or "",
        version["version"] or "",
    )


def _newest(frames: Mapping[str, pl.DataFrame]) -> int | None:
    """Return the newest time in a log."""
    newest = (frames[table][column].max() for table, column, _ in _TIMES)
    return max((each for each in newest if isinstance(each, int)), default=None)


def _state(log: Log, events: pl.DataFrame, summary: Summary, ended: bool) -> str:
    """Return the state of an application. A log records its end and, since 4.0, its exit code; without a code it
    failed if its last job did, or was killed if that job was cancelled as the driver went down."""
    if not ended:
        return "UNKNOWN" if log.ended or not log.growing else "RUNNING"
    code = _first(events, "END")["number"]
    if code is not None:
        return "SUCCEEDED" if code == 0 else "FAILED"
    finished = [job for job in summary.jobs if job.finish_ms is not None]
    last = max(finished, key=lambda job: (job.finish_ms or 0, job.number), default=None)
    if last is None or last.status == "SUCCEEDED":
        return "SUCCEEDED"
    return "KILLED" if "SparkContext was shut down" in (last.error or "") else "FAILED"


def _sql(frame: pl.DataFrame) -> tuple[SqlExecution, ...]:
    """Return the SQL executions, each with its last plan."""
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in frame.iter_rows(named=True):
        one = found[row["execution"]]
        if row["event"] == "START":
            one.update(root=row["root"], description=row["description"], start=row["time_ms"])
        elif row["event"] == "PLAN":
            one["plan"] = row["plan"]
        else:
            one.update(end=row["time_ms"], error=row["error"])
    return tuple(
        SqlExecution(
            number, one.get("root"), one.get("description") or "", one.get("start"), one.get("end"),
            one.get("error"), one.get("plan"),
        )
        for number, one in sorted(found.items())
    )  # fmt: skip


def _unreadable(log: Log, events: pl.DataFrame, conf: pl.DataFrame, inputs: Inputs) -> str:
    """Return why the history server or Dr. Elephant would fail on a log; empty if neither would."""
    bad, cut = _first(events, "BAD")["name"], _first(events, "CUT")["name"]
    reasons = (
        (not log.known, "history server: the log does not name its application, so it is not listed"),
        (log.old, "history server: does not list the folders that Spark 1.0 to 1.2 wrote"),
        (log.gap, "history server: java.lang.IllegalArgumentException: Found missing event log file"),
        (bad, f"history server: HTTP 404, log not loadable ({bad})"),
        (cut and not log.growing and not log.ended,
         "history server: HTTP 404, log not loadable (cut in the last line of a log that is not .inprogress)"),
        (conf.filter(pl.col("seq") == pl.col("seq").min())["value"].null_count(),
         "org.json4s.package$MappingException: a Spark property that is not a text"),
    )  # fmt: skip
    return next((reason for failed, reason in reasons if failed), "")


def _notes(log: Log, events: pl.DataFrame, summary: Summary, state: str) -> tuple[str, ...]:
    notes = []
    unknown = events.filter(pl.col("event") == "UNKNOWN")
    if unknown.height:
        names = unknown.group_by("name").agg(pl.col("number").sum()).sort("number", "name", descending=[True, False])
        listed = ", ".join(f"{name} ({number})" for name, number in names.head(5).iter_rows())
        notes.append(f"events that are not known were left out: {listed}" + (", ..." if names.height > 5 else ""))
    if len(summary.jobs) > MOST_RETAINED or len(summary.stages) > MOST_RETAINED:
        notes.append(
            f"the history server keeps {MOST_RETAINED:,} jobs and stages by default: Dr. Elephant would judge the last "
            "ones only"
        )
    if state == "UNKNOWN":
        notes.append("the log ends without saying that the application ended")
    return tuple(notes)
