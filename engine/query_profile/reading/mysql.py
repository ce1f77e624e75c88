"""Read what MySQL, Percona and MariaDB tell of their statements: digest dumps, slow query logs, pt-query-digest.

Source: the MySQL documentation, "Statement Summary Tables" (columns, timers in picoseconds, the row of NULL).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from engine.core.reading import HEAD, Document, Log, Problem, Reading, Source, clean, decode
from engine.core.tables import Table
from engine.formats import json_text
from engine.formats.delimited import header_fields, records, unescape
from engine.formats.timestamps import instant_ms, name_stem, old_mysql_ms
from engine.query_profile.reading.collected_rows import (
    CARRIERS,
    STEM,
    Headed,
    Known,
    Rows,
    SnapshotRows,
    Statements,
    class_key,
    counters,
    finite,
    loaded,
)
from engine.query_profile.tables import INTERVALS_IN, SNAPSHOTS

PICO = 1e-6  # microseconds per picosecond, the unit of every timer column

CATCH_ALL = "(digest table full)"  # text of the row without a digest: statements that did not fit into the table

COUNTERS = (
    "count_star", "sum_timer_wait", "sum_lock_time", "sum_errors", "sum_warnings", "sum_rows_affected",
    "sum_rows_sent", "sum_rows_examined", "sum_created_tmp_disk_tables", "sum_created_tmp_tables",
    "sum_select_full_join", "sum_select_full_range_join", "sum_select_range", "sum_select_range_check",
    "sum_select_scan", "sum_sort_merge_passes", "sum_sort_range", "sum_sort_rows", "sum_sort_scan",
    "sum_no_index_used", "sum_no_good_index_used", "sum_cpu_time", "count_secondary",
)  # fmt: skip
"""Columns that can only grow."""


class MysqlDigest(Headed):
    """``SELECT * FROM performance_schema.events_statements_summary_by_digest``, one snapshot per file or several."""

    id = "mysql-digest"
    title = "MySQL or MariaDB statement digests (TSV or CSV)"
    marks = ("digest", "count_star", "sum_timer_wait")
    tables: tuple[Table, ...] = (SNAPSHOTS,)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows of cumulative counters; picoseconds become microseconds."""
        rows = SnapshotRows(source, "mysql")
        for line, row in rows.records(data, final):
            with rows.attempt(line):
                values = counters(row, COUNTERS, "count_star", ("sum_timer_wait",))
                digest = "" if row.get("digest", "") in ("NULL", "\\N", "") else row["digest"]
                schema = "" if row.get("schema_name") in (None, "NULL", "\\N") else row["schema_name"]
                query = row.get("digest_text", "")
                rows.add(
                    row,
                    line,
                    key=class_key(digest, schema),
                    queryid=digest,
                    query=(CATCH_ALL if not digest else "") if query in ("NULL", "\\N", "") else query,
                    user="",
                    database=schema,
                    nested=False,
                    since_ms=instant_ms(row.get("first_seen", "")),
                    calls=values["count_star"],
                    time_us=values["sum_timer_wait"] * PICO,
                    rows=values["sum_rows_sent"] + values["sum_rows_affected"],
                    errors=values["sum_errors"],
                    lock_us=values["sum_lock_time"] * PICO,
                    cpu_us=values["sum_cpu_time"] * PICO,
                    counters=list(values.values()),
                )
        return rows.reading()


_TIME = re.compile(r"# Time: (\S+(?:\s+\d{1,2}:\d\d:\d\d(?:\.\d+)?)?)")
_CARRIED = re.compile(
    r"((?:[^\s#'\"]{1,200} +){0,2}?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{10}\.\d+)"
    r"(?: +[^\s#'\"]{1,200}){0,2}?(?: +\|)?[ \t]+|[\w.-]{1,100} +\| )# (?:Time|User@Host|Query_time|administrator)"
)
"""A header line behind what carries the log writes before a record, or each of its lines: a moment, with the name of the stream
(CloudWatch) or of host and program (syslog, journal) around it."""
_BEGUN = re.compile(rb"(?m)^(?:[^#\n'\"{]{0,200}(?:\d[:.\d]{4}|\|)[^#\n'\"{]{0,200}[ \t])?# (?:Query_time|User@Host): ")
_FIELD = re.compile(r"(?<!\S)([A-Za-z_]+):(?:\s*+(?![A-Za-z_]+:(?:\s|\Z))(\S+))?")
"""A pair ``Name: value`` of a comment; the next name may follow a name without a value."""
_NUMBER = re.compile(r"\d[\d:.]*")
_FINE = re.compile(r":\d\d\.\d{3}(\d{3})")
_STAMP = re.compile(r"(?i)set timestamp\s*=\s*(\d{1,12})(?:\.(\d+))?")
_USE = re.compile(r"(?i)use\s+`?([^`;]+)`?")

LONGEST = 1e9  # longest query time in seconds; beyond, the number is damaged

LAST_S, FARTHEST_MS = 253_402_300_799, 57_600_000
"""Last valid second (year 9999), and largest distance of a server's clock from UTC (16 hours)."""

MOST_LINES = 2000  # lines of one statement that are read

ZONE_MS = 900_000  # unit of time zones: a quarter of an hour


class _Event(msgspec.Struct):
    """One statement whose lines are being collected; ``line``: number of its first."""

    line: int
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    stamp_ms: int | None = None
    sql: list[str] = msgspec.field(default_factory=list)
    command: str = ""


_NEW_LOG = {
    "line": 1, "time_ms": None, "fine": (0.0, 1.0), "local": False, "zone_ms": None, "user": "", "db": "",
}  # fmt: skip
"""What is known before the first line of a log."""


class SlowLog(Log):
    """Slow query log; grows by whole statements. Sums are per second and class, scaled by the log's rate limit."""

    id = "slow-log"
    title = "MySQL, Percona or MariaDB slow query log"
    marks = ("# query_time:", "# user@host:")
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise its ``# Query_time:`` and ``# User@Host:`` lines or the server's banner."""
        banner = b"Version:" in head and b"started with:" in head and b"Time" in head and b"Command" in head
        header = b"# Query_time: " in head or b"# User@Host: " in head
        return (banner or (header and _BEGUN.search(head) is not None)) and CARRIERS.match(head) is None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new complete statements, summed per second and class."""
        state = {**_NEW_LOG, **(state or {})}
        rows = Statements(source, self.id, sessions=state.get("sessions"))
        *lines, tail = data.split(b"\n")
        start = position = 0
        carrier: list[str] = []
        event: _Event | None = None
        begun: dict[str, Any] = dict(state)  # before the statement that is still open
        for raw in [*lines, tail] if final and tail else lines:
            text = decode(raw.rstrip(b"\r"))
            if "# " in text[1:] and text[0] != "#" and (found := _CARRIED.match(text)):
                text, carrier = text[found.end(1) :], _blanked(found[1].split())
            elif carrier and _blanked((words := text.split(None, len(carrier)))[: len(carrier)]) == carrier:
                text = "".join(words[len(carrier) :])
            header = text.startswith("# ") and not text.startswith("# administrator command")
            body = event is not None and (event.sql or event.command or event.stamp_ms is not None)
            begins = header and (body or text.startswith(("# Time:", "# User")) or "Query_time:" in text)
            # where the head of the log was cut off, a record may begin behind its own header
            if event is not None and ("Query_time" in event.fields or body) and (begins or _is_banner(text)):
                self._close(event, state, rows)
                event = None
                start, begun = position, dict(state)
            if event is None and text.startswith("# "):
                event = _Event(state["line"])
            if event is not None:
                self._line(text, event, state)
            position += len(raw) + 1
            state["line"] += 1
        if event is not None and final:
            self._close(event, state, rows)
        if event is None or final:
            start, begun = min(position, len(data)), state
        return rows.put(Reading(consumed=start, state={**begun, "sessions": rows.carried()}))

    @staticmethod
    def _line(text: str, event: _Event, state: dict[str, Any]) -> None:
        """Add a line to the open statement; user, database and time also apply to later statements."""
        if text.startswith("# administrator command:"):
            event.command = text[2:].rstrip(";")
        elif text.startswith("#") and not event.sql:
            if time := _TIME.match(text):
                iso = instant_ms(time[1])
                state["local"] = iso is None
                state["time_ms"] = old_mysql_ms(time[1]) if iso is None else iso
                state["fine"] = _fine(time[1])
                text = text[time.end() :].strip()
            user = _user(text)
            if user is not None:
                state["user"] = user
                if " Id:" in text:
                    event.fields.setdefault("Thread_id", text.rpartition("Id:")[2].strip())
            else:
                for name, value in _FIELD.findall(text):
                    event.fields.setdefault(name, value)
        elif not event.sql and event.stamp_ms is None and (stamp := _STAMP.match(text)) and int(stamp[1]) <= LAST_S:
            event.stamp_ms = int(stamp[1]) * 1000
        elif not event.sql and (use := _USE.match(text)):
            state["db"] = use[1].strip()
        elif text.strip() and len(event.sql) < MOST_LINES:
            event.sql.append(text)

    @staticmethod
    def _close(event: _Event, state: dict[str, Any], rows: Statements) -> None:
        fields = event.fields
        if "Query_time" not in fields:
            if event.sql or len(fields) > 1:
                reason = "a statement without Query_time (the log begins inside it?); it is left out"
                rows.problem("bad-record", reason, event.line)
            return
        with rows.attempt(event.line, words="{}; the statement is left out"):
            seconds = float(fields["Query_time"])
            lock = float(fields.get("Lock_time") or 0)
            sent = finite(fields.get("Rows_sent") or 0) + finite(fields.get("Rows_affected") or 0)
            rate = float(fields.get("Log_slow_rate_limit") or 1)
            if not (0 <= seconds < LONGEST and 0 <= lock < LONGEST and 1 <= rate < LONGEST):
                raise ValueError(f"Query_time {seconds}, Lock_time {lock}, rate {rate}")
            below_ms, grain_ms = (
                state["fine"] if (state["time_ms"] is not None and not state["local"]) else (0.0, math.inf)
            )
            end_ms = _end_ms(event, state)
            rows.add(
                None if end_ms is None else end_ms + below_ms,
                seconds,
                "\n".join(event.sql) or event.command,
                (state["user"], fields.get("Schema", state["db"])),
                rows=sent,
                errors=float(fields.get("Last_errno", "0") not in ("0", "")),
                lock_s=lock,
                rate=rate,
                session=fields.get("Thread_id", ""),
                marked="Stored_routine" in fields,
                grain_ms=grain_ms,
            )


def _fine(moment: str) -> tuple[float, float]:
    """Return what a moment tells below its millisecond, and to how many milliseconds it is exact (infinite: to seconds)."""
    found = _FINE.search(moment)
    return (int(found[1]) / 1000, 0.001) if found else (0.0, 1.0 if "." in moment else math.inf)


def _blanked(words: list[str]) -> list[str]:
    """Return words with 0 for each number or clock: what carries a log writes the same before each line."""
    return [_NUMBER.sub("0", word) for word in words]


_CLOCK = re.compile(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d+)?)")
_ENGINE = re.compile(rb'(?m)^"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?","[^"\[\n]*+\[[^"\n]*+","\d+:\d\d:\d\d')
_ESCAPE = re.compile(r"\\(.)")
_COLUMNS = (
    "start_time", "user_host", "query_time", "lock_time", "rows_sent", "rows_examined", "db", "last_insert_id", "insert_id",
    "server_id", "sql_text", "thread_id", "rows_affected",
)  # fmt: skip
"""Columns of ``mysql.slow_log``; only MariaDB has the last one."""


class SlowTable(Document):
    """``SELECT * FROM mysql.slow_log`` (``--batch``, ``-t``, ``\\G``, CSV with a header, JSON), or its own ``slow_log.CSV``."""

    id = "slow-log-table"
    title = "MySQL or MariaDB table mysql.slow_log (TSV, CSV, JSON, -t, \\G)"
    marks = ("start_time", "user_host", "query_time", "sql_text")
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise its column names, or the table's own file by its first row."""
        needed = {"start_time", "user_host", "query_time", "sql_text"}
        if CARRIERS.match(head) is not None:
            return all(f'"{name}"'.encode() in head.lower() for name in needed)
        return needed <= set(header_fields(head)) or _ENGINE.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read a statement a row: ``start_time`` is its begin."""
        statements = Statements(source, SlowLog.id)
        found: Iterable[tuple[int | None, dict[str, Any] | None]]
        if data.lstrip()[:1] in (b"{", b"["):
            value = loaded(source, data, statements.problems)
            if isinstance(value, Reading):
                return value
            found = ((None, row) for row in _objects(value))
        elif "start_time" in header_fields(data[:HEAD]):
            found = records(source, data, statements.problems, final)
        else:
            found = _engine_rows(decode(data))
        for line, row in found:
            if row is None:
                continue
            with statements.attempt(line, "bad-record", "no row of mysql.slow_log ({}); it is left out"):
                begin = instant_ms(row["start_time"])
                seconds = _clock(row["query_time"])
                lock = _clock(row.get("lock_time") or "0:00:00")
                sent = finite(row.get("rows_sent") or 0) + finite(row.get("rows_affected") or 0)
                text = row["sql_text"]
                text = decode(bytes.fromhex(text[2:])) if re.match(r"0x[0-9A-Fa-f]{8}", text) else text
                below_ms, grain_ms = _fine(row["start_time"])
                end_ms = None if begin is None else begin + below_ms + seconds * 1000
                owner = (
                    _user(f"# User@Host: {row.get('user_host', '')}") or "",
                    "" if row.get("db") == "NULL" else row.get("db", ""),
                )
                session = row.get("thread_id", "")
                statements.add(end_ms, seconds, text, owner, rows=sent, lock_s=lock, session=session, grain_ms=grain_ms)
        return statements.put(Reading())


def _objects(value: Any, deepest: int = 4) -> Iterator[dict[str, str]]:
    """Yield the rows in a JSON document: objects with a ``query_time``, their names in lower case and their values as texts."""
    if isinstance(value, dict) and "query_time" in map(str.lower, value):
        yield {name.lower(): "NULL" if each is None else str(each) for name, each in value.items()}
    elif isinstance(value, dict | list) and deepest:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _objects(each, deepest - 1)


def _clock(text: str) -> float:
    """Parse ``hh:mm:ss.ffffff`` (up to 838 hours), or seconds, to seconds. Raises ValueError."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        seconds = finite(text)
        if not 0 <= seconds < LONGEST:
            raise ValueError(f"{text[:40]!r} is no length of time")
        return seconds
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])


def _engine_rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and fields of the rows of ``slow_log.CSV``, which escapes quotes and line ends by backslashes."""
    for line, row in enumerate(text.split("\n"), 1):
        if row.strip():
            try:
                fields = next(csv.reader([_ESCAPE.sub(lambda found: '""' if found[1] == '"' else found[0], row)]))
            except csv.Error:  # no row: its columns are missing
                fields = []
            yield line, dict(zip(_COLUMNS, map(unescape, fields), strict=False))


def _end_ms(event: _Event, state: dict[str, Any]) -> int | None:
    """Return when the statement ended (epoch ms); None where the log does not say.

    Old headers have the server's local time. ``SET timestamp`` of each record (its end, in logs with such headers) tells the
    distance from UTC, which changes with summer time.
    """
    end_ms: int | None = state["time_ms"]
    if end_ms is None:
        return event.stamp_ms
    if not state["local"]:
        return end_ms
    if event.stamp_ms is not None:
        apart = round((end_ms - event.stamp_ms) / ZONE_MS) * ZONE_MS
        if abs(apart) <= FARTHEST_MS:
            state["zone_ms"] = apart
    return end_ms - (state["zone_ms"] or 0)


def _is_banner(text: str) -> bool:
    """Whether the server writes this line when it starts."""
    if text.startswith("Tcp port:") or text.split(None, 3)[:3] == ["Time", "Id", "Command"]:
        return True
    version = text.find(", Version: ")
    return version > 0 and not text[0].isspace() and text.find("started with:", version) > 0


def _user(text: str) -> str | None:
    """Return the user of a line ``# User@Host: shown[user] @ host [address]``; None for another line."""
    if not text.startswith(("# User@Host:", "# User:")):
        return None
    before, at, _ = text.partition(":")[2].partition("@")
    shown, bracket, inside = before.partition("[")
    if bracket:  # a name in brackets may contain an @
        inside = text.partition("[")[2].partition("]")[0]
    return (inside or shown).strip() if at else None


class PtQueryDigest(Known):
    """Classes with sums over one stretch of time (numbers are strings, times in seconds)."""

    id = "pt-query-digest"
    title = "pt-query-digest --output json"
    marks = ('"classes"', '"fingerprint"', '"query_count"')
    known = re.compile(
        rb'\A\s*+\{(?:(?=.*"classes")(?=.*"(?:checksum|fingerprint)")'
        rb'|(?=.*"global")(?=.*"query_count")(?=.*"unique_query_count"))',
        re.DOTALL,
    )
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per class."""
        document = json_text.decode(source, data, records=(2,))
        if isinstance(document, Reading):
            return document
        classes = document.value.get("classes") if isinstance(document.value, dict) else None
        if not isinstance(classes, list):
            problem = Problem.at(source.path, "bad-json", "no pt-query-digest answer: it has no list of classes")
            return Reading(problems=[problem], complete=False)
        found = Rows(source)
        found.problems += document.problems
        rows: list[dict[str, Any]] = []
        stamps: list[int] = []
        for number, item in enumerate(classes, 1):
            if item is None and document.bad:
                continue
            with found.attempt(None, "bad-record", f"class {number}: {{}}; it is left out"):
                metrics = item["metrics"]
                time_us = _sum(metrics, "Query_time") * 1e6
                calls = finite(item["query_count"])
                if calls < 0 or time_us < 0:
                    raise ValueError("a count or time that is negative")
                checksum = str(item.get("checksum", "")) or str(item["fingerprint"])[:64]
                row = {
                    "series": STEM + clean(name_stem(source.name)),
                    "key": clean(checksum),
                    "queryid": clean(checksum),
                    "query": clean(str(item.get("fingerprint", ""))),
                    "user": clean(str((metrics.get("user") or {}).get("value", ""))),
                    "database": clean(str((metrics.get("db") or {}).get("value", ""))),
                    "system": self.id,
                    "calls": calls,
                    "time_us": time_us,
                    "rows": _sum(metrics, "Rows_sent", 0.0) + _sum(metrics, "Rows_affected", 0.0),
                    "lock_us": _sum(metrics, "Lock_time", 0.0) * 1e6,
                }
                for text in (str(item.get(name, "")) for name in ("ts_min", "ts_max")):
                    stamps += [each for each in (instant_ms(text), old_mysql_ms(text)) if each is not None][:1]
                rows.append(row)
        span = {"start_ms": min(stamps), "end_ms": max(stamps) + 1000} if stamps else {}
        columns = {
            name: [span.get(name, row.get(name)) for row in rows] for name in ([*rows[0], *span] if rows else [])
        }
        return Reading(rows={"interval_classes": columns}, problems=found.problems)


def _sum(metrics: dict[str, Any], name: str, default: float | None = None) -> float:
    """Return the sum of a metric, or ``default``. Raises ValueError without either."""
    metric = metrics.get(name)
    if not isinstance(metric, dict) or "sum" not in metric:
        if default is None:
            raise ValueError(f"no {name} sum")
        return default
    return finite(metric["sum"])
