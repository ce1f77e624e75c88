"""Assignment of files to logs, and of logs to attempts of applications."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from engine.core.inputs import FILE, Inputs
from engine.job_heuristics.spark.reading.event_log import GROWING

_PART = re.compile(r"events_(\d{1,9})_(.+?)(\.compact)?$")
"""Name of a part of a rolling log, without codec."""
_CODEC = re.compile(r"\.(?:zstd|zst|lz4|snappy|lzf|gz|gzip)(?=$|\.compact$|\.inprogress$)")
OLD = "EVENT_LOG_1"
"""Name of the log in the application folders of Spark 1.0 to 1.2; its events do not name the application."""
_YARN = re.compile(r"(application_\d+_\d+)(?:_(\d+))?$")

Part = tuple[int, str | None]
"""A file, and the log within it if it is an archive."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Description of one log within one file. ``group``: equal for the parts of a rolling log; ``number``: position
    among them, plus a half if compacted; ``name``: without codec and in-progress suffix."""

    part: Part
    group: tuple[str, str]
    number: float
    name: str
    growing: bool
    app_id: str | None
    attempt: str | None
    start_ms: int | None
    ended: bool
    mtime_ms: int
    old: bool


@dataclass(frozen=True, slots=True)
class Log:
    """One log: its parts in order, without those replaced by a compacted one. ``gap``: a part is missing; ``old``: a
    folder of Spark 1.0 to 1.2."""

    app_id: str
    attempt: str | None
    parts: tuple[Part, ...]
    start_ms: int | None
    ended: bool
    growing: bool
    mtime_ms: int
    known: bool
    gap: bool
    old: bool

    @property
    def files(self) -> set[int]:
        """The files of its parts."""
        return {file for file, _ in self.parts}


def log_parts(inputs: Inputs, files: Collection[int]) -> dict[int, tuple[LogPart, ...]]:
    """Return the logs in each of ``files``."""
    found: dict[int, dict[str | None, dict[str, object]]] = {file: {} for file in files}
    rows = inputs.of("spark_events", frozenset(files)).filter(pl.col("event").is_in(["START", "END"]))
    for file, log, event, app, attempt, start in rows.select(
        FILE, "log", "event", "app_id", "attempt", "time_ms"
    ).iter_rows():
        facts = found[file].setdefault(log, {})
        if event == "START":
            facts.update(app=app, attempt=attempt, start=start)
        else:
            facts["ended"] = True
    for table in ("spark_jobs", "spark_task_ends", "spark_executors"):
        without = frozenset(file for file in files if not found[file])
        if without:
            for file, log in inputs.of(table, without).select(FILE, "log").unique().iter_rows():
                found[file].setdefault(log, {})
    return {
        file: tuple(
            _part(inputs, file, log, facts) for log, facts in sorted(logs.items(), key=lambda each: each[0] or "")
        )
        for file, logs in found.items()
    }


def _part(inputs: Inputs, file: int, log: str | None, facts: Mapping[str, object]) -> LogPart:
    info = inputs.files[file]
    folder, _, name = (info.path if log is None else f"{info.path}//{log}").rpartition("/")
    bare = _CODEC.sub("", _CODEC.sub("", name))
    growing = bare.endswith(GROWING)
    bare = bare.removesuffix(GROWING)
    if bare == OLD:
        bare = folder.rpartition("/")[2]
    rolling = _PART.match(bare)
    number = int(rolling.group(1)) + (0.5 if rolling.group(3) else 0.0) if rolling else 0.0
    text = rolling.group(2) if rolling else bare
    start = facts.get("start")
    return LogPart(
        (file, log), (folder, f"events_{text}" if rolling else name), number, text, growing or bool(rolling),
        _text(facts.get("app")), _text(facts.get("attempt")), start if isinstance(start, int) else None,
        bool(facts.get("ended")), info.mtime_ms, name.startswith(OLD),
    )  # fmt: skip


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def logs_of(parts: Iterable[LogPart]) -> list[Log]:
    """Join parts to logs."""
    groups: dict[tuple[str, str], list[LogPart]] = defaultdict(list)
    for part in parts:
        groups[part.group].append(part)
    return [_joined(sorted(group, key=lambda part: (part.number, part.part))) for group in groups.values()]


def _joined(parts: list[LogPart]) -> Log:
    compact = max((k for k, part in enumerate(parts) if part.number % 1), default=0)
    parts = parts[compact:]
    first = next((part for part in parts if part.app_id or part.start_ms is not None), parts[0])
    yarn = _YARN.match(first.name)
    app_id = first.app_id or (yarn.group(1) if yarn else first.name)
    attempt = first.attempt or (yarn.group(2) if yarn and not first.app_id else None)
    numbers = [int(part.number) for part in parts]
    gap = bool(numbers[0]) and (
        numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (numbers[0] != 1 and not parts[0].number % 1)
    )
    ended = any(part.ended for part in parts)
    return Log(
        app_id, attempt, tuple(part.part for part in parts), first.start_ms, ended,
        not ended and any(part.growing for part in parts), max(part.mtime_ms for part in parts),
        first.start_ms is not None or first.app_id is not None, gap, any(part.old for part in parts),
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
