"""Read statements with their durations from PostgreSQL's logs: stderr, csvlog and jsonlog; and logs that CloudWatch gives out.

Source: the PostgreSQL documentation, "Error Reporting and Logging" (prefix, columns of csvlog, keys of jsonlog).
"""

from __future__ import annotations

import csv
import re
from typing import Any, NamedTuple

import msgspec

from engine.core.reading import Document, Log, Reading, Source, decode
from engine.core.tables import Table
from engine.formats import json_text
from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.collected_rows import finite
from engine.query_profile.reading.mysql import LONGEST, MOST_LINES, SlowLog
from engine.query_profile.reading.statements import Statements
from engine.query_profile.tables import INTERVALS_IN

SYSTEM = "postgresql-log"

_DURATION = re.compile(
    r"duration: ([\d.]+) ms(?:  (statement|parse|bind|execute fetch from|execute|plan)\b[^:]*:\s?(.*))?", re.DOTALL
)
_PLAN = re.compile(r"\n[^\n(]*\([^\n]*\b(?:cost|rows|actual)\b")
_STATEMENT = re.compile(r"(?:statement|execute [^:]*): (.*)", re.DOTALL)
_OTHER_WORDS = re.compile(r"(\w+) ?: ?[\d.,]+ ms\b")
_SEVERITY = re.compile(
    r"\b(LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG\d?|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT):  "
)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) ?([+-]\d\d(?::?\d\d)?|[A-Z]{2,5}(?![\w@]))?|(?<![\d.])(\d{10}\.\d{3})(?![\d.])"
)
_PID = re.compile(r"\[(\d+)(?:-\d+)?\]")
_OWNER = re.compile(r"(?<![^\s:\[\]=,@])([^\s:\[\]=,@]{1,64})@([^\s:\[\]=,@]{1,64})")
_NAMED = re.compile(r"(user|db)=([^\s,\]]*)")

ZONES = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9, "HKT": 8,
    "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13, "EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""Hours from UTC of the zones whose short names mean one thing only (CST, IST and BST do not)."""

MOST_SESSIONS = 2000
"""Sessions whose last statement is remembered."""


class Entry(NamedTuple):
    """One record of a log: its moment (text and zone, or epoch ms as text), session, user and database, and message."""

    stamp: str
    pid: str
    user: str
    database: str
    message: str


class _PostgresLog(Log):
    """Frame of the three formats: records are cut at the lines that begin one, so a damaged record costs itself only."""

    tables: tuple[Table, ...] = (INTERVALS_IN,)

    begin: re.Pattern[str]
    """Matches a line that begins a record."""
    known: re.Pattern[bytes]
    """Found in the head of such a log."""

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise what only this format of the log has."""
        return self.known.search(head) is not None

    def entry(self, record: str) -> Entry | None:
        """Parse a record; None for one without interest. Raises ValueError for a damaged one."""
        raise NotImplementedError

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the statements of new complete records, summed per second and class."""
        rows = Statements(source, SYSTEM, spread=True)
        state = state or {"line": 1, "last": {}, "timed": False}
        state = {**state, "last": dict(state["last"])}
        lines = data.split(b"\n")
        tail = lines.pop()
        if final and tail:
            lines.append(tail)
        position = consumed = 0
        record: list[str] = []
        first = number = state["line"]
        plans: list[tuple[int | None, float, str, tuple[str, str]]] = []
        for raw in lines:
            text = decode(raw.rstrip(b"\r"))
            if self.begin.match(text):
                self._close(rows, record, first, state, plans)
                record, first, consumed = [text], number, position
            elif record and len(record) < MOST_LINES:
                record.append(text)
            position += len(raw) + 1
            number += 1
        if final:
            self._close(rows, record, first, state, plans)
            consumed, first = position, number
        if not state["timed"]:  # auto_explain repeats what log_min_duration_statement says
            for end_ms, seconds, sql, owner in plans:
                rows.add(end_ms, seconds, sql, owner)
        if not source.offset and not state["timed"] and not plans and consumed:
            rows.problem("no-durations", "the log tells no durations: set log_min_duration_statement = 0 and reload")
        reading = Reading(consumed=min(consumed, len(data)), state={**state, "line": first})
        return rows.put(reading)

    def _close(self, rows: Statements, record: list[str], line: int, state: dict[str, Any], plans: list[Any]) -> None:
        """Add the statement of a complete record, if it has one."""
        if not record:
            return
        try:
            entry = self.entry("\n".join(record))
        except (ValueError, csv.Error, *json_text.ERRORS) as error:
            rows.problem("bad-record", f"no record of PostgreSQL's log ({error}); it is left out", line)
            return
        if entry is None:
            return
        found, last = _DURATION.match(entry.message), state["last"]
        if found is None:
            said, other = _STATEMENT.match(entry.message), _OTHER_WORDS.match(entry.message)
            if said is not None:
                last.pop(entry.pid, None)
                last[entry.pid] = said[1]
                if len(last) > MOST_SESSIONS:
                    del last[next(iter(last))]
            elif other is not None:
                reason = f"durations in another language ({other[1]}) are not read: set lc_messages = 'C' and reload"
                rows.problem("other-language", reason, line)
            return
        ms, what, sql = found.groups()
        seconds = finite(ms) / 1000
        if not seconds < LONGEST:
            rows.problem("bad-number", f"a duration of {ms[:40]} ms; the record is left out", line)
            return
        end_ms, owner = _moment(rows, entry.stamp, line), (entry.user, entry.database)
        if what == "plan":
            plans.append((end_ms, seconds, _PLAN.split(sql.partition("Query Text: ")[2], maxsplit=1)[0], owner))
            return
        state["timed"] = True
        sql = last.get(entry.pid) if what is None else sql
        if sql is None:
            rows.problem(
                "no-statement", "a duration without a statement (log_duration needs log_statement); left out", line
            )
            return
        rows.add(end_ms, seconds, sql, owner, calls=float(what in (None, "statement", "execute")))


def _moment(rows: Statements, stamp: str, line: int) -> int | None:
    """Return the moment (epoch ms) of a time with its zone, or of epoch seconds; None, with a problem, if that is not clear."""
    clock, _, zone = stamp.rpartition(" ") if stamp[-1:].isalpha() else (stamp, "", "")
    at_ms = instant_ms(clock)
    hours = ZONES.get(zone, None if zone else 0)
    if at_ms is None or hours is None:
        what = f"the zone {zone} of its times means several" if at_ms is not None else "its records have no time"
        rows.problem("bad-time", f"{what} (set log_timezone = 'UTC', and %m in log_line_prefix)", line)
        return None
    return at_ms - hours * 3_600_000


class PostgresStderr(_PostgresLog):
    """The usual text log with any ``log_line_prefix``; further lines of a record begin with a blank."""

    id = "postgresql-log"
    title = "PostgreSQL log with durations (stderr, any log_line_prefix)"
    marks = ("log:  ", "duration: ")

    begin = re.compile(
        r"(?=\S).{0,400}?\b(?:LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG\d?|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT):  "
    )
    known = re.compile(
        rb"(?m)^[^{].*LOG:  (?:duration|statement|execute|checkpoint|database system|starting PostgreSQL|listening on|connection"
        rb"|\w{1,20} ?: ?\d{1,20}[.,]\d{1,9} ms)"
    )

    def entry(self, record: str) -> Entry | None:
        """See the frame."""
        found = _SEVERITY.search(record, 0, 400)
        if found is None or found[1] != "LOG":
            return None
        prefix = record[: found.start()]
        time, pid, owner = _TIME.search(prefix), _PID.search(prefix), _OWNER.search(prefix)
        named = dict(_NAMED.findall(prefix))
        user, database = owner.groups() if owner and not named else (named.get("user", ""), named.get("db", ""))
        stamp = "" if time is None else time[3] or " ".join(filter(None, time.groups()[:2]))
        lines = record[found.end() :].split("\n")
        return Entry(
            stamp,
            pid[1] if pid else "",
            user,
            database,
            "\n".join([lines[0], *(x for x in lines[1:] if x[:1].isspace())]),
        )


class PostgresCsv(_PostgresLog):
    """``log_destination = csvlog``: 23 to 26 columns without a header."""

    id = "postgresql-csvlog"
    title = "PostgreSQL log with durations (csvlog)"
    marks = (",log,00000,", "duration: ")

    begin = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,\s]+,")
    known = re.compile(
        rb"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,\n]+,[^\n]*,(?:LOG|ERROR|FATAL|WARNING),[0-9A-Z]{5},"
    )

    def entry(self, record: str) -> Entry | None:
        """See the frame."""
        fields = next(csv.reader(record.splitlines(keepends=True), strict=True))
        if len(fields) < 14:
            raise ValueError(f"{len(fields)} columns")
        stamp, user, database, pid, severity, message = (fields[i] for i in (0, 1, 2, 3, 11, 13))
        return Entry(stamp, pid, user, database, message) if severity == "LOG" else None


class PostgresJson(_PostgresLog):
    """``log_destination = jsonlog``, of PostgreSQL 15 or newer: an object a line."""

    id = "postgresql-jsonlog"
    title = "PostgreSQL log with durations (jsonlog)"

    begin = re.compile(r"\{")
    known = re.compile(rb'(?m)^\{ ?"timestamp" ?: ?"[^\n]*"error_severity" ?:')

    def entry(self, record: str) -> Entry | None:
        """See the frame."""
        fields = msgspec.json.decode(record)
        if fields.get("error_severity") != "LOG":
            return None
        return Entry(*(str(fields.get(key, "")) for key in ("timestamp", "pid", "user", "dbname", "message")))


class CloudWatchEvents(Document):
    """``aws logs filter-log-events`` or ``get-log-events`` of a slow log or a PostgreSQL log, page by page."""

    id = "cloudwatch-events"
    title = "CloudWatch events of a MySQL slow log or a PostgreSQL log (JSON)"
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise events whose messages are lines of these logs."""
        logs = (b"# Query_time:", b"# User@Host:", b"LOG:  ")
        return re.match(rb'\s*\{\s*"events"\s*:\s*\[', head) is not None and any(mark in head for mark in logs)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Unwrap the messages in order of time, and read them as the log that they are."""
        document = json_text.decode(source, data, records=(2,), ends_cut=True)
        if isinstance(document, Reading):
            return document
        events = [event for event in document.value.get("events") or () if isinstance(event, dict)]
        events = [
            one for one in events if isinstance(one.get("timestamp"), int) and isinstance(one.get("message"), str)
        ]
        events.sort(key=lambda event: event["timestamp"])
        text = "".join(f"{event['message'].rstrip()}\n" for event in events).encode("utf-8", "surrogatepass")
        kind = SlowLog() if b"# Query_time:" in text else PostgresStderr()
        reading = kind.read(source, text, None, True)
        reading.problems += document.problems
        reading.consumed, reading.state = 0, None
        return reading
