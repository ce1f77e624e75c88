"""Job histories: the file kind ``jhist`` finds header and schema and passes the events to the reader of their form.

Text goes to ``history_text``, binary to ``history_binary``; both decode events to ``records`` for the ``Collector``
(``event_collector``), which turns them into input rows.
"""

from __future__ import annotations

import io
import re
from typing import Any

from engine.core.reading import Log, Reading, Source
from engine.core.tables import Table
from engine.core.text import decode
from engine.job_heuristics.mapreduce.reading import history_binary, history_text
from engine.job_heuristics.mapreduce.reading.event_collector import Collector
from engine.job_heuristics.mapreduce.tables import (
    ATTEMPT_ENDS,
    ATTEMPT_STARTS,
    JOB_EVENTS,
    TASK_ENDS,
    TASK_STARTS,
)

_HEADER = re.compile(rb"^[ \t]*Avro-(Json|Binary)[ \t]*\r?$", re.MULTILINE)
_LONGEST_PREFACE = 2**20
"""Most bytes of foreign text before the header."""


class History(Log):
    """Job histories (``.jhist``): Avro-Json and Avro-Binary of Hadoop 0.23 to 3.x."""

    id = "jhist"
    title = "Hadoop job histories (.jhist) as text or binary, finished or growing"
    tables: tuple[Table, ...] = (JOB_EVENTS, TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by its header line within the first bytes, or by its name."""
        return name.endswith((".jhist", ".jhist_tmp")) or _HEADER.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new bytes of a history. ``state``: its form; number of the last line (text) or schema (binary);
        current job; pending parser errors by record, those before any job was named, jobs that have one; length of an
        incomplete last record."""
        state = dict(state) if isinstance(state, dict) else {"form": "", "line": 0, "errors": {}, "job": None}
        unplaced, broken = state.get("unplaced") or (), state.get("broken") or ()
        to = Collector(source.path, job=state.get("job"), unplaced=unplaced, broken=broken)
        at = 0
        if not state["form"]:
            at = self._begin(data, state, final, to)
            if at < 0:
                return to.reading(0, None)
        if state["form"] == "json":
            at = self._text(data, at, state, final, to)
        elif state["form"] == "binary":
            at = self._binary(source, data, at, state, final, to)
        else:
            at = len(data)
        state.update(job=to.job, unplaced=[list(each) for each in to.unplaced])
        if to.broken:
            state["broken"] = sorted(to.broken)
        return to.reading(at, state)

    def _begin(self, data: bytes, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Find header and schema. Returns where the events begin, -1 if unknown yet. The result does not depend on
        how much of the file exists already."""
        header = None if history_text.is_event(data[:256]) else _HEADER.search(data, 0, _LONGEST_PREFACE)
        if header is None or data.find(b"\n", header.end() - 1) < 0:
            return self._without_header(data, state, final, to, begun=header is not None)
        start = data.find(b"\n", header.end() - 1) + 1
        end = data.find(b"\n", start)
        if end < 0:
            if final:
                to.problem("cut-file", "the file ends inside its schema", line=data.count(b"\n") + 1)
            return -1
        preface = data[: header.start()].count(b"\n")
        if preface:
            to.problem("text-before-header", f"{preface} line(s) of other text before the header", line=1)
            first = decode(data[: data.find(b"\n")])
            to.parser_error(0, f"java.io.IOException: Incompatible event log version: {first}")
        begin = self._text_schema if header.group(1) == b"Json" else self._binary_schema
        return begin(data, start, end, preface + 2, state, to)

    @staticmethod
    def _without_header(data: bytes, state: dict[str, Any], final: bool, to: Collector, *, begun: bool) -> int:
        """As ``_begin``, if no header line ends within the available bytes. ``begun``: one has begun."""
        if history_text.is_event(data[:256]) and b"\n" in data:
            to.problem("no-header", "the header line Avro-Json is missing; events taken as they are", line=1)
            to.parser_error(
                0, "java.io.IOException: Incompatible event log version: " + decode(data.partition(b"\n")[0][:40])
            )
            state["form"] = "json"
            return 0
        if not data or (len(data) < _LONGEST_PREFACE and not final):
            return -1
        if begun or b"\n" not in data:
            to.problem("cut-file", "the file ends before its first event", line=1)
        else:
            to.problem("no-header", "no line says Avro-Json or Avro-Binary", line=1)
        if len(data) < _LONGEST_PREFACE:
            return -1
        state["form"] = "none"
        return len(data)

    @staticmethod
    def _text_schema(data: bytes, start: int, end: int, line: int, state: dict[str, Any], to: Collector) -> int:
        """Take the schema of a text history, line number ``line``. Returns where the events begin."""
        schema = data[start:end].strip()
        errors = history_text.schema_problems(schema)
        if errors is None:
            to.problem("bad-schema", "the second line is not an Avro schema", line=line)
            to.parser_error(line, "org.apache.avro.SchemaParseException: the second line is not an Avro schema")
            errors = {}
            if history_text.is_event(schema):
                end = start - 1
                line -= 1
        state.update(form="json", line=line, errors=dict(errors))
        return end + 1

    @staticmethod
    def _binary_schema(data: bytes, start: int, end: int, line: int, state: dict[str, Any], to: Collector) -> int:
        """Take the schema of a binary history, line number ``line``. Returns where the events begin."""
        schema = data[start:end].strip()
        try:
            decoder = history_binary.decoder(schema)
        except history_binary.BadSchema as error:
            to.problem("bad-schema", f"the second line is not a usable Avro schema: {error}", line=line)
            to.parser_error(line, f"org.apache.avro.SchemaParseException: {error}")
            state["form"] = "none"
            return len(data)
        state.update(form="binary", schema=schema, errors=dict(decoder.errors))
        return end + 1

    @staticmethod
    def _text(data: bytes, at: int, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Read text events from ``at`` on, an unfinished last line only if ``final``. Returns where reading stopped."""
        end = data.rfind(b"\n", at) + 1
        line = state["line"]
        errors = dict(state.get("errors") or {})
        if end > at:
            # BytesIO shares the bytes: only one line at a time is copied.
            lines = io.BytesIO(data)
            lines.seek(at)
            line = history_text.read_events(lines, line, errors, to, end - at)
            at = end
        tail = data[at:]
        if final and tail and not tail.isspace():
            mark = (line, len(tail))
            if list(mark) != state.get("cut"):
                trial = Collector(to.path, job=to.job)
                history_text.read_events(io.BytesIO(tail), line, errors, trial, len(tail))
                if trial.problems:
                    to.problem("cut-file", "the file ends inside its last record", line=line + 1)
                    to.job_event(line + 1, "CUT", broken=history_text.cannot_parse(to.path, "Unexpected end-of-input"))
                    state["cut"] = list(mark)
                else:
                    line = history_text.read_events(io.BytesIO(tail), line, errors, to, len(tail)) - 1
                    at = len(data)
        state.update(line=line, errors=errors)
        return at

    @staticmethod
    def _binary(source: Source, data: bytes, at: int, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Read binary events from ``at`` on. Returns where reading stopped."""
        try:
            decoder = history_binary.decoder(bytes(state["schema"]))
        except history_binary.BadSchema:
            state["form"] = "none"
            return len(data)
        errors = dict(state.get("errors") or {})
        at, bad = decoder.read(data, at, source.offset, errors, to)
        state["errors"] = errors
        if bad is not None:
            to.problem("bad-record", f"unreadable from here on: {bad}", byte=source.offset + at)
            to.parser_error(source.offset + at, f"org.apache.avro.AvroRuntimeException: Malformed data: {bad}")
            state["form"] = "none"
            return len(data)
        if final and at < len(data) and state.get("cut") != len(data) - at:
            to.problem("cut-file", "the file ends inside its last record", byte=source.offset + at)
            state["cut"] = len(data) - at
        return at
