"""Saved answers of the history server's REST interface (``/api/v1/applications/...``)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engine.core.problems import Problem, Problems
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats import json_text
from engine.job_heuristics.spark.tables.input import SPARK_ANSWERS

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("job", ("jobId", "stageIds")),
    ("stage", ("stageId", "attemptId", "executorRunTime")),
    ("executor", ("id", "hostPort", "totalDuration")),
    ("sql", ("id", "status", "planDescription")),
    ("application", ("id", "name", "attempts")),
)
"""What an entry is, and the fields by which it is known."""
_FIRST = re.compile(rb"\s*[\[{]")
_APP = re.compile(r"(?:application_\d+_\d+|app-\d{14}-\d+|local-\d+|spark-[0-9a-f]{32})$")


class SparkAnswer:
    """One saved answer: applications, jobs, stages, executors, SQL executions or environment."""

    id = "spark-rest"
    title = "Answers of Spark's history server (JSON): application, jobs, stages, executors, SQL, environment"
    append = False
    version = 2
    closes = True
    tables: tuple[Table, ...] = (SPARK_ANSWERS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by the fields of its first entry."""
        if not _FIRST.match(head):
            return False
        if b'"sparkProperties"' in head:
            return b'"runtime"' in head
        if b'"attempts"' in head and b'"sparkUser"' in head:
            return True
        return any(
            all(b'"%s"' % field.encode() in head for field in fields)
            for what, fields in _KINDS
            if what != "application"
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole answer."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            return document
        answer, problems = document.value, Problems(document.problems)
        app, attempt = named_in_path(source.path)
        rows: list[tuple[str, str | None, str, bytes]] = []
        for entry in answer if isinstance(answer, list) else [answer]:
            found = _entry(entry)
            name = app
            if found is not None and found[0] == "application":
                name = str(entry["id"])
            if found is None or not name:
                reason = "an entry of another kind" if found is None else "no application in the answer or its path"
                problems.append(Problem.at(source.path, "bad-record", reason))
                continue
            what, fields = found
            try:
                packed = msgspec.msgpack.encode(fields)
            except OverflowError:
                fields = {key: value for key, value in fields.items() if _fits(value)}
                packed = msgspec.msgpack.encode(fields)
                problems.append(Problem.at(source.path, "bad-number", "fields with numbers beyond 64 bit are left out"))
            rows.append((clean(name, 300), attempt, what, packed))
        columns = dict(zip(SPARK_ANSWERS.schema.names(), zip(*rows, strict=True), strict=True)) if rows else {}
        return Reading({SPARK_ANSWERS.name: columns} if rows else {}, problems, len(data))


def _fits(value: Any) -> bool:
    try:
        msgspec.msgpack.encode(value)
    except OverflowError:
        return False
    return True


def _entry(entry: Any) -> tuple[str, dict[str, Any]] | None:
    """Return what an entry is, and its fields."""
    if not isinstance(entry, dict):
        return None
    if isinstance(entry.get("sparkProperties"), list):
        return "property", {"sparkProperties": entry["sparkProperties"]}
    for what, fields in _KINDS:
        if all(field in entry for field in fields):
            return what, {k: v for k, v in entry.items() if k not in _LONG}
    return None


_LONG = frozenset(
    {
        "planDescription",
        "nodes",
        "edges",
        "details",
        "tasks",
        "executorSummary",
        "executorLogs",
        "accumulatorUpdates",
        "peakExecutorMetrics",
    }
)
"""Fields that are not needed and may be long."""


def named_in_path(path: str) -> tuple[str | None, str | None]:
    """Return application and attempt that a path below ``applications/`` names, or its folders do."""
    parts = path.split("/")[:-1]
    if "applications" in parts:
        below = parts[len(parts) - parts[::-1].index("applications") :]
        if below:
            attempt = below[1] if len(below) > 1 and below[1].isdecimal() else None
            return below[0], attempt
    return next((part for part in reversed(parts) if _APP.match(part)), None), None
