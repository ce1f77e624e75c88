"""The file kind of Spark's event logs: finds the lines and hands each event to ``LogRows``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.core.problems import Problem
from engine.core.reading import Log, Reading, Source
from engine.core.tables import Table
from engine.formats import json_text
from engine.job_heuristics.spark.reading.decoding import NO_EVENT
from engine.job_heuristics.spark.reading.log_rows import HANDLERS, IGNORED, LogRows
from engine.job_heuristics.spark.tables import SPARK_INPUTS

_HEAD = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:SparkListener|org\.apache\.spark\.|com\.databricks\.|DBCEventLogging)')
_DATABRICKS = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:com\.databricks\.|DBCEventLogging)')
_DATABRICKS_PART = re.compile(r"eventlog-\d{4}-\d\d-\d\d--\d\d-\d\d(?:\.|$)")
_NAME = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"\\]{1,300})"')
PREFIX = b'{"Event":"'
"""How Spark begins each line."""
MOST_LINE = 64 << 20
"""Most bytes of a line. The longest in real logs, plans of huge queries, have a few MB; decoded, they take several
times as much memory."""
_RUN = b"\n" * 64
_BLANK_LINES = re.compile(_RUN + rb"\n*+")
"""Runs of blank lines, skipped at once: one by one they would take longer than events."""
GROWING = ".inprogress"
"""Suffix of a log's name while its application runs."""


def read_lines(rows: LogRows, lines: Iterable[bytes]) -> None:
    """Read complete lines; ``rows.line`` counts them."""
    start = len(PREFIX)
    for line in lines:
        rows.line += 1
        if len(line) > MOST_LINE:
            rows.problem("long-line", f"an event of {len(line) >> 20} MB is left out: more than {MOST_LINE >> 20} MB")
            continue
        if line.startswith(PREFIX):
            name = line[start : line.find(b'"', start, start + 300)]
        else:
            if not line or line.isspace():
                continue
            found = _NAME.match(line)
            if found is None:
                rows.problem(NO_EVENT, "no event of Spark")
                continue
            name = found.group(1)
        handler = HANDLERS.get(name)
        if handler is not None:
            handler(rows, line)
        elif name not in IGNORED:
            rows.unknown(name)


def is_whole(line: bytes) -> bool:
    """Whether an unterminated last line is a whole event."""
    try:
        return isinstance(json_text.parse("", line).value, dict)
    except json_text.ERRORS:
        return False


def is_growing(name: str) -> bool:
    """Whether a log of this name may be incomplete because its application runs; rolling logs do not tell."""
    return name.endswith(GROWING) or name.startswith("events_")


class EventLog(Log):
    """Spark's event logs, single files and parts of rolling ones."""

    id = "spark-event-log"
    title = "Spark event logs, 1.3 to 4.x: single files and rolling folders, also packed by zstd, lz4, snappy or lzf"
    tables: tuple[Table, ...] = SPARK_INPUTS
    ends_cut = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by the first event."""
        return _HEAD.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new lines. ``state``: number of lines read, and length of an incomplete last line, or the mark of a
        Databricks log."""
        fresh = not isinstance(state, dict)
        state = {"line": 0} if fresh else dict(state)
        rows = LogRows(source.path, int(state.get("line", 0)))
        if fresh and data and (_DATABRICKS.match(data) or _DATABRICKS_PART.match(source.name)):
            state["foreign"] = True
            rows.line = 1
            rows.problems.append(
                Problem.at(source.path, "databricks-log", "a part of an event log of Databricks, which does not say of which "
                           "application it is: not read", line=1)
            )  # fmt: skip
        if state.get("foreign"):
            return Reading({}, rows.problems, len(data), state)
        end, at = data.rfind(b"\n") + 1, 0
        tail = data[end:]
        for run in _BLANK_LINES.finditer(data) if _RUN in data else ():
            read_lines(rows, data[at : run.start()].split(b"\n"))
            rows.line += len(run[0]) - 1
            at = run.end()
        read_lines(rows, data[at:end].split(b"\n")[:-1])
        if final and tail and not tail.isspace() and state.get("cut") != len(tail):
            if is_whole(tail):
                read_lines(rows, (tail,))
                rows.line -= 1  # its line end comes later
                end = len(data)
            else:
                rows.line += 1
                rows.app_event("CUT", name=f"line {rows.line} is cut")
                if not is_growing(source.name):
                    rows.problem("cut-file", "the log ends inside its last event")
                rows.line -= 1
                state["cut"] = len(tail)
        state["line"] = rows.line
        return rows.reading(end, state)
