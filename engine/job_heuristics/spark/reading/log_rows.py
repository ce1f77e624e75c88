"""Rows of an event log: what each event adds to the input tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from engine.core.reading import Problem, Problems, Reading, clean, decode
from engine.formats import json_text
from engine.job_heuristics.dr_elephant.errors import root_cause, with_cause
from engine.job_heuristics.spark import tables
from engine.job_heuristics.spark.reading import events as spark
from engine.job_heuristics.spark.reading.events import MOST_TEXT, MOST_TRACE, NO_EVENT, packed
from engine.job_heuristics.tables import gathered

_RDD = re.compile(r"rdd_(\d{1,9})_\d+$")
_UPDATES = msgspec.json.Decoder(list[spark.Update])
_OUTSIDE = re.compile(r"Python|Pandas|InArrow|Arrow\w{0,40}InR|RRDD|PipedRDD")
"""Names of RDDs and operators whose work is done by another process than the executor."""
_WHOLE = re.compile(r"-?\d{1,17}$")
_MOST_TRACES = 1_000
_MOST_IDS = 100_000  # most numbers kept of a list (stages of a job, parents of a stage)


def listed(numbers: list[int]) -> str:
    """Write numbers as one text."""
    return ",".join(map(str, numbers[:_MOST_IDS]))


class LogRows:
    """Makes rows of the events of one log. ``line``: number of the current event."""

    def __init__(self, path: str, line: int = 0) -> None:
        self.path, self.line = path, line
        self.problems: list[Problem] = Problems()
        self.rows: dict[str, list[tuple[Any, ...]]] = {table.name: [] for table in tables.SPARK_INPUTS}
        self._names: dict[str, str] = {}
        self._started: dict[int, tuple[int, Any]] = {}
        """Line and event of the start of each task that has not ended yet."""
        self._unknown: Counter[str] = Counter()
        self._peaks: dict[str, list[Any]] = {}
        self._sums: Counter[int] = Counter()
        self._plans: dict[int, tuple[int, Any]] = {}  # line and event of the newest plan of each SQL execution
        self._tasks = self.rows[tables.SPARK_TASKS.name]
        self._traces: set[str] = set()  # causes whose whole text is kept already

    def problem(self, kind: str, reason: str) -> None:
        """Note a problem of the current line."""
        self.problems.append(Problem.at(self.path, kind, reason, line=self.line))
        if kind == NO_EVENT:  # Spark's own reader would stop there
            self.app_event("BAD", name=f"line {self.line} is no event")

    def app_event(self, word: str, **fields: Any) -> None:
        """Add a row of SPARK_EVENTS."""
        names = ("time_ms", "app_id", "attempt", "name", "user", "version", "number", "cpus")
        self._add(tables.SPARK_EVENTS.name, word, *map(fields.get, names))

    def reading(self, consumed: int, state: Any) -> Reading:
        """Return the gathered rows, with those that had to wait for the end of this read."""
        for name, times in sorted(self._unknown.items()):
            self.app_event("UNKNOWN", name=clean(name, 200), number=times)
        last = self.line
        for line, start in self._started.values():
            self.line = line
            self._add(tables.SPARK_TASK_STARTS.name, *self._task(start, start.info))
        for line, planned in self._plans.values():
            self.line = line
            plan = packed(bytes(planned.plan), self.problem)
            if plan is not None:
                self._add(tables.SPARK_SQL.name, "PLAN", planned.execution, None, planned.time, None, None, plan)
        self.line = last
        for executor, peaks in self._peaks.items():
            self._add(
                tables.SPARK_PEAKS.name, executor, *map(max, zip(*map(msgspec.structs.astuple, peaks), strict=True))
            )
        for accumulator, total in self._sums.items():
            self._add(tables.SPARK_SQL_METRICS.name, accumulator, max(-(2**62), min(total, 2**62)))
        return Reading(gathered(tables.SPARK_INPUTS, self.rows, "log"), self.problems, consumed, state)

    def _add(self, table: str, *cells: Any) -> None:
        self.rows[table].append((self.line, *cells))

    def _name(self, text: str) -> str:
        """Return the cleaned name of a host or executor (cached)."""
        name = self._names.get(text)
        if name is None:
            if len(self._names) > 100_000:
                self._names.clear()
            name = self._names[text] = "driver" if text == "<driver>" else clean(text, 300)
        return name

    # -- the application -----------------------------------------------------------------------------------------

    def _log_start(self, found: Any) -> None:
        self.app_event("VERSION", version=clean(found.version, 100))

    def _app_start(self, found: Any) -> None:
        self.app_event(
            "START", time_ms=found.time, app_id=found.id and clean(found.id, 300), name=clean(found.name),
            attempt=found.attempt and clean(found.attempt, 100), user=clean(found.user, 300),
        )  # fmt: skip

    def _app_end(self, found: Any) -> None:
        self.app_event("END", time_ms=found.time, number=found.code)

    def _profile(self, found: Any) -> None:
        cpus = found.tasks.get("cpus")
        cores = int(cpus.amount) if cpus and 1 <= cpus.amount < 2**31 else 1
        named = clean(",".join(sorted({*found.tasks, *found.executors})), 300)
        self.app_event("PROFILE", number=found.id, cpus=cores, name=named)

    def _environment(self, found: Any) -> None:
        pairs = found.spark.items() if isinstance(found.spark, dict) else found.spark
        for pair in () if isinstance(pairs, (str, int, float)) else pairs or ():
            if isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str):
                self._add(
                    tables.SPARK_CONF.name, clean(pair[0], 500), clean(pair[1]) if isinstance(pair[1], str) else None
                )

    def unknown(self, name: bytes) -> None:
        """Count an unknown event."""
        if len(self._unknown) < 1000:
            self._unknown[decode(name)[:300]] += 1

    # -- jobs and stages -----------------------------------------------------------------------------------------

    def _job_start(self, found: Any) -> None:
        infos = found.infos
        if infos is None:  # before 1.2
            infos = [spark.StageInfo(id=number, name="unknown") for number in found.stages]
        last = max(infos, key=lambda info: info.id, default=None)
        facts = found.properties or {}
        execution = str(facts.get("spark.sql.execution.id", ""))
        description = facts.get("spark.job.description") or facts.get("spark.jobGroup.id")
        self._add(
            tables.SPARK_JOBS.name, "START", found.job, found.time,
            clean(last.name if last else "(Unknown Stage Name)"), listed(found.stages),
            sum(info.tasks for info in infos if info.completed is None),
            int(execution) if _WHOLE.match(execution) else None,
            clean(description, MOST_TEXT) if isinstance(description, str) else None,
        )  # fmt: skip
        for info in infos:
            self._stage("LISTED", info, found.job)

    def _job_end(self, found: Any) -> None:
        result = found.result
        message = result.exception.message if result.exception else None
        self._add(
            tables.SPARK_JOBS.name, "END", found.job, found.time, clean(result.result, 100), None, None, None,
            with_cause(message, MOST_TRACE) if message else None,
        )  # fmt: skip

    def _stage_change(self, found: Any, word: str) -> None:
        self._stage(word, found.info, None)

    def _stage(self, word: str, info: Any, job: int | None) -> None:
        self._add(
            tables.SPARK_STAGES.name, word, job, info.id, info.attempt, clean(info.name), info.tasks,
            listed(info.parents), info.submitted, info.completed,
            None if info.failure is None else with_cause(info.failure, MOST_TRACE),
            listed([rdd.id for rdd in info.rdds if _stored(rdd.level)]) or None, info.profile,
            any(_OUTSIDE.search(f"{rdd.name} {rdd.scope}") for rdd in info.rdds),
        )  # fmt: skip

    # -- executors and blocks ------------------------------------------------------------------------------------

    def _executor(self, found: Any, word: str) -> None:
        info = found.info or spark.NO_EXECUTOR
        self._add(
            tables.SPARK_EXECUTORS.name, word, found.old_time or found.time, self._name(found.old_executor or found.executor),
            self._name(info.host), info.cores, info.profile, None,
            None if found.reason is None else clean(found.reason, MOST_TEXT),
        )  # fmt: skip

    def _manager_added(self, found: Any) -> None:
        who, host = self._name(found.manager.executor), self._name(found.manager.host)
        self._add(tables.SPARK_EXECUTORS.name, "MANAGER", found.time, who, host, None, None, found.memory, None)

    def _block_updated(self, found: Any) -> None:
        info = found.info
        rdd = _RDD.match(info.block)
        if rdd is None and not info.block.startswith("broadcast_"):
            return  # the history server ignores it
        self._add(
            tables.SPARK_BLOCKS.name, self._name(info.manager.executor), clean(info.block, 300),
            int(rdd.group(1)) if rdd else None, info.memory if info.level.memory else -info.memory,
            info.disk if info.level.disk else -info.disk, _stored(info.level),
        )  # fmt: skip

    def _unpersisted(self, found: Any) -> None:
        self._add(tables.SPARK_BLOCKS.name, None, None, found.rdd, None, None, None)

    def _stage_memory(self, found: Any) -> None:
        self._peak(found.executor, found.memory)

    def _memory_update(self, found: Any) -> None:
        for update in found.updates:
            self._peak(found.executor, update.memory)

    def _peak(self, executor: str, memory: Any) -> None:
        self._peaks.setdefault(self._name(executor), []).append(memory)

    # -- tasks ---------------------------------------------------------------------------------------------------

    def _task_start(self, found: Any) -> None:
        # A row only if the task does not end within this read.
        self._started[found.info.id] = (self.line, found)

    def _task(self, found: Any, info: Any) -> tuple[Any, ...]:
        names = self._names
        return (
            found.stage, found.attempt, info.id, info.index, info.attempt, info.launch,
            names.get(info.executor) or self._name(info.executor), names.get(info.host) or self._name(info.host),
            names.get(info.locality) or self._name(info.locality), info.speculative,
        )  # fmt: skip

    def _task_end(self, found: Any) -> None:
        info, m, memory, reason = found.info, found.metrics, found.memory, found.reason
        started = self._started.pop(info.id, None)
        head = (
            self.line, *self._task(found, info), started[0] if started else None, info.finish, info.getting,
            self._name(reason.reason), *((None, None) if reason.reason == "Success" else self._error(reason)),
        )  # fmt: skip
        if m is None:
            self._tasks.append((*head, False, *_NO_METRICS))
        else:
            read, write = m.read or spark.NO_READ, m.write or spark.NO_WRITE
            taken, written = m.input or spark.NO_INPUT, m.output or spark.NO_OUTPUT
            self._tasks.append(
                (
                    *head, True, m.run, m.cpu, m.gc, m.unpack, m.pack, m.result, m.memory_spilled, m.disk_spilled,
                    m.peak, taken.bytes, taken.records, written.bytes, written.records, read.remote, read.local,
                    read.wait, read.records, write.bytes, write.nanos, write.records,
                )
            )  # fmt: skip
        if memory is not None and (memory.heap or memory.unified or memory.jvm_rss or memory.gc):
            self._peak(info.executor, memory)
        if b'"sql"' in (updates := bytes(info.updates)):
            self._sql_updates(updates)

    def _error(self, reason: Any) -> tuple[str, str | None]:
        """Return the cause of an error, and the whole text if it is the first of that cause and says more."""
        parts = (reason.class_name, reason.description or reason.message or reason.loss or reason.kill or reason.error)
        whole = reason.trace or ": ".join(part for part in parts if part) or reason.reason
        cause = root_cause(whole) or reason.reason
        known = cause in self._traces or len(self._traces) >= _MOST_TRACES or whole.strip() == cause
        self._traces.add(cause)
        return self._name(cause), None if known else clean(whole.strip(), MOST_TRACE)

    def _sql_updates(self, data: bytes) -> None:
        """Add a task's updates of SQL metrics; values are numbers or texts, by version."""
        try:
            updates = _UPDATES.decode(data)
        except json_text.ERRORS as error:
            self.problem("bad-field", f"Accumulables that cannot be read: {error}")
            return
        for update in updates:
            if update.metadata == "sql":
                value = update.value
                if isinstance(value, str) and _WHOLE.match(value):
                    value = int(value)
                if isinstance(value, int) and -(2**56) < value < 2**56 and 0 <= update.id < 2**46:
                    self._sums[update.id] += value

    # -- SQL and streaming ---------------------------------------------------------------------------------------

    def _sql_start(self, found: Any) -> None:
        self._plans[found.execution] = (self.line, found)
        root = found.root if found.root != found.execution else None
        text = clean(found.description, MOST_TEXT)
        self._add(tables.SPARK_SQL.name, "START", found.execution, root, found.time, text, None, None)

    def _sql_plan(self, found: Any) -> None:
        # Only the last one of a read is decoded.
        self._plans[found.execution] = (self.line, found)

    def _sql_end(self, found: Any) -> None:
        error = with_cause(found.error, MOST_TRACE) if found.error else None
        self._add(tables.SPARK_SQL.name, "END", found.execution, None, found.time, None, error, None)

    def _driver_updates(self, found: Any) -> None:
        for accumulator, value in found.updates:
            self._sums[accumulator] += value

    def _stream_progress(self, found: Any) -> None:
        progress = found.progress
        if isinstance(progress, str):
            try:
                progress = msgspec.json.decode(progress)
            except json_text.ERRORS:
                progress = None
        if not isinstance(progress, dict):
            return
        operators = progress.get("stateOperators")
        states = [each for each in operators if isinstance(each, dict)] if isinstance(operators, list) else []
        self._add(
            tables.SPARK_BATCHES.name, clean(str(progress.get("name") or progress.get("id") or "?"), 300),
            _whole(progress.get("batchId")), _when(progress.get("timestamp")), _whole(progress.get("batchDuration")),
            _whole(progress.get("numInputRows")), _rate(progress.get("inputRowsPerSecond")),
            _rate(progress.get("processedRowsPerSecond")), sum(_whole(each.get("numRowsTotal")) or 0 for each in states),
            sum(_whole(each.get("memoryUsedBytes")) or 0 for each in states),
        )  # fmt: skip


_NO_METRICS = (0,) * len(tables.METRIC_NAMES)


def _stored(level: Any) -> bool:
    """Whether a storage level stores anything at all."""
    return (level.disk or level.memory) and level.replication > 0


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**46 else None


def _when(value: Any) -> int | None:
    """Parse a time of a streaming query to epoch ms: ``2025-10-09T08:53:20.000Z``."""
    try:
        when = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return int(when.timestamp() * 1000) if when is not None and when.tzinfo is not None and when.year >= 1970 else None


def _rate(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**80 else None
    )


Handler = tuple[Any, Callable[[LogRows, Any], None]]
_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
_PREFIXES = ("", "org.apache.spark.scheduler.")
_HANDLERS: dict[str, Handler] = {
    "SparkListenerTaskStart": (spark.TaskStart, LogRows._task_start),
    "SparkListenerTaskEnd": (spark.TaskEnd, LogRows._task_end),
    "SparkListenerLogStart": (spark.LogStart, LogRows._log_start),
    "SparkListenerApplicationStart": (spark.AppStart, LogRows._app_start),
    "SparkListenerApplicationEnd": (spark.AppEnd, LogRows._app_end),
    "SparkListenerResourceProfileAdded": (spark.Profile, LogRows._profile),
    "SparkListenerEnvironmentUpdate": (spark.Environment, LogRows._environment),
    "SparkListenerJobStart": (spark.JobStart, LogRows._job_start),
    "SparkListenerJobEnd": (spark.JobEnd, LogRows._job_end),
    "SparkListenerStageSubmitted": (spark.StageChange, partial(LogRows._stage_change, word="SUBMITTED")),
    "SparkListenerStageCompleted": (spark.StageChange, partial(LogRows._stage_change, word="COMPLETED")),
    "SparkListenerExecutorAdded": (spark.ExecutorChange, partial(LogRows._executor, word="ADDED")),
    "SparkListenerExecutorRemoved": (spark.ExecutorChange, partial(LogRows._executor, word="REMOVED")),
    "SparkListenerBlockManagerAdded": (spark.BlockManagerChange, LogRows._manager_added),
    "SparkListenerBlockUpdated": (spark.BlockUpdated, LogRows._block_updated),
    "SparkListenerUnpersistRDD": (spark.Unpersist, LogRows._unpersisted),
    "SparkListenerStageExecutorMetrics": (spark.StageMemory, LogRows._stage_memory),
    "SparkListenerExecutorMetricsUpdate": (spark.MemoryUpdate, LogRows._memory_update),
    f"{_SQL}SQLExecutionStart": (spark.SqlStart, LogRows._sql_start),
    f"{_SQL}SQLExecutionEnd": (spark.SqlEnd, LogRows._sql_end),
    f"{_SQL}SQLAdaptiveExecutionUpdate": (spark.SqlStart, LogRows._sql_plan),
    f"{_SQL}DriverAccumUpdates": (spark.DriverUpdates, LogRows._driver_updates),
    f"{_STREAMING}ProgressEvent": (spark.StreamProgress, LogRows._stream_progress),
    **dict.fromkeys(
        (f"{prefix}SparkListenerExecutor{word}" for prefix in _PREFIXES for word in ("Excluded", "Blacklisted")),
        (spark.ExecutorChange, partial(LogRows._executor, word="EXCLUDED")),
    ),
}
HANDLERS: dict[bytes, Handler] = {name.encode(): handler for name, handler in _HANDLERS.items()}
"""What each event is decoded to and which method takes it, by its name in the log."""
_WITHOUT = (
    "TaskGettingResult", "BlockManagerRemoved", "SpeculativeTaskSubmitted",
    "ExecutorUnblacklisted", "ExecutorUnexcluded", "NodeBlacklisted", "NodeExcluded", "NodeUnblacklisted",
    "NodeUnexcluded", "ExecutorBlacklistedForStage", "ExecutorExcludedForStage", "NodeBlacklistedForStage",
    "NodeExcludedForStage", "UnschedulableTaskSetAdded", "UnschedulableTaskSetRemoved", "MiscellaneousProcessAdded",
)  # fmt: skip
IGNORED = frozenset(
    name.encode()
    for name in (
        *(f"{prefix}SparkListener{word}" for word in _WITHOUT for prefix in _PREFIXES),
        *(f"{_STREAMING}{word}Event" for word in ("Started", "Terminated", "Idle")),
        f"{_SQL}SQLAdaptiveSQLMetricUpdates",
        "DBCEventLoggingListenerMetadata",  # at the head of each part of a log of Databricks
    )
)
"""Events that are not used."""
