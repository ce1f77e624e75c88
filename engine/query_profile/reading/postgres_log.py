"""Read statements with their durations from PostgreSQL's logs (stderr, csvlog, jsonlog), and logs inside JSON or CSV.

Source: the PostgreSQL documentation, "Error Reporting and Logging" (prefix, columns of csvlog, keys of jsonlog).
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from engine.core.reading import HEAD, Document, Log, Problem, Problems, Reading, Source, decode
from engine.core.tables import Table
from engine.formats.delimited import records
from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.collected_rows import CARRIERS, Bad, Statements, loaded
from engine.query_profile.reading.mysql import LONGEST, MOST_LINES, SlowLog
from engine.query_profile.tables import INTERVALS_IN

SYSTEM = "postgresql-log"

_DURATION = re.compile(
    r"duration: (\d[\d.]*) ms(?:  (statement|parse|bind|execute fetch from|execute|plan)\b[^:]*:\s?(.*))?", re.DOTALL
)
_PLAN = re.compile(r"\n[^\n(]*\([^\n]*\b(?:cost|rows|actual)\b")
_STATEMENT = re.compile(r"(?:statement|execute [^:]*): (.*)", re.DOTALL)
_OTHER_WORDS = re.compile(r"(\w+) ?: ?[\d.,]+ ms\b")
_SEVERITY = re.compile(
    r"\b(LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG\d?|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT):  "
)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))? ?([+-]\d\d(?::?\d\d)?|[A-Z]{2,5}(?![\w@]))?"
    r"|(?<![\d.])(\d{10}\.\d{3})(?![\d.])"
)
_ARRIVED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)()")
"""A time from the program that carries the log (rsyslog, Docker): used where the log itself has none."""
_SYSLOG = re.compile(r"(?:<\d{1,3}>)?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) ")
"""A moment of the old syslog, which has no year."""
_PID = re.compile(r"\[(\d+)(?:-\d+)?\]|\bpid ?[=:] ?(\d+)|\b([0-9a-f]{8}\.[0-9a-f]+)\b")
_OWNER = re.compile(r"(?<![^\s:\[\](){}<>|;=,/@])([^\s:\[\](){}<>|;=,/@]{1,64})@([^\s:\[\](){}<>|;=,/@]{1,64})")
_NAMED = re.compile(r"\b(u|d)(?:ser|sr|b|atabase|bname)?=([^\s,;|/\])]*)")
_PROGRAM = re.compile(r"\S.{0,200}?\w\[(\d+)\]: (?:\[\d+-(\d+)\] )?")
"""What syslog puts before each line: at last the program with its process, and the part of the message."""
_DIGITS = re.compile(r"\d+")

ZONES = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9, "HKT": 8,
    "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13, "EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""Hours from UTC of the zones whose short names mean one thing only (CST, IST and BST do not)."""

MOST_SESSIONS = 2000  # sessions whose last statement is remembered

MOST_PLANS = 100  # plans of auto_explain after which a log without other durations tells only these

MOST_OPEN = 16  # records of syslog that take turns with their lines


class Entry(NamedTuple):
    """One record of a log: text with its moment (and zone), session, user and database, and message."""

    stamp: str
    pid: str
    user: str
    database: str
    message: str


class _Record(NamedTuple):
    """A record whose lines are being collected: its first line's number and byte, the process that syslog names, its lines."""

    line: int
    position: int
    process: str
    lines: list[str]


class _PostgresLog(Log):
    """Frame of the three formats: records are cut at the lines that begin one, so a damaged record costs itself only."""

    tables: tuple[Table, ...] = (INTERVALS_IN,)

    begin: re.Pattern[str]  # matches a line that begins a record
    known: re.Pattern[bytes]  # found in the head of such a log

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise what only this format of the log has."""
        return self.known.search(head) is not None

    def entry(self, record: str) -> Entry | None:
        """Parse a record; None for one without interest. Raises ValueError for a damaged one."""
        raise NotImplementedError

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the statements of new complete records, summed per second and class."""
        rows = Statements(source, SYSTEM, spread=True)
        state = {"line": 1, "last": {}, "timed": False, "plans": [], **(state or {})}
        state |= {"last": dict(state["last"]), "plans": [*state["plans"]]}
        *lines, tail = data.split(b"\n")
        position = 0
        opened: deque[_Record] = deque()
        number = state["line"]
        for raw in [*lines, tail] if final and tail else lines:
            text = decode(raw.rstrip(b"\r"))
            process, part = self.carried(text)
            if part < 2 and self.begin.match(text):
                opened.append(_Record(number, position, process, [text]))
                if len(opened) > (MOST_OPEN if process else 1):
                    self._close(rows, opened.popleft(), state)
            elif opened:
                self._continue(opened, text, process)
            position += len(raw) + 1
            number += 1
        if final:
            for record in opened:
                self._close(rows, record, state)
            opened.clear()
        plans = state["plans"]
        if state["timed"] or final or len(plans) > MOST_PLANS:
            state["plans"] = []
            # auto_explain repeats what log_min_duration_statement says
            for end_ms, seconds, sql, owner, pid in [] if state["timed"] else plans:
                rows.add(end_ms, seconds, sql, owner, session=pid, holds=True)
        consumed, state["line"] = (opened[0].position, opened[0].line) if opened else (position if final else 0, number)
        said = state["timed"] or plans or any(problem.kind == "other-language" for problem in rows.problems)
        if not source.offset and consumed and not said:
            rows.problem("no-durations", "the log tells no durations: set log_min_duration_statement = 0 and reload")
        return rows.put(Reading(consumed=min(consumed, len(data)), state=state))

    def carried(self, text: str) -> tuple[str, int]:
        """Return the process that syslog puts before a line, and the line's part of the message (0: not told)."""
        return "", 0

    @staticmethod
    def _continue(opened: deque[_Record], text: str, process: str) -> None:
        """Add a further line to the newest record, or to that of its process."""
        record = next((one for one in reversed(opened) if one.process == process), None)
        if record is not None and len(record.lines) < MOST_LINES:
            record.lines.append(text)

    def _close(self, rows: Statements, record: _Record, state: dict[str, Any]) -> None:
        line, last = record.line, state["last"]
        with rows.attempt(line, "bad-record", "no record of PostgreSQL's log ({}); it is left out"):
            entry = self.entry("\n".join(record.lines))
            if entry is None:
                return
            found = _DURATION.match(entry.message)
            if found is None:
                said, other = _STATEMENT.match(entry.message), _OTHER_WORDS.match(entry.message)
                if said is not None and entry.pid:
                    last.pop(entry.pid, None)
                    last[entry.pid] = said[1]
                    if len(last) > MOST_SESSIONS:
                        del last[next(iter(last))]
                elif other is not None:
                    reason = f"durations in another language ({other[1]}) are not read"
                    raise Bad("other-language", f"{reason}: set lc_messages = 'C' and reload")
                return
            ms, what, sql = found.groups()
            seconds = float(ms) / 1000 if ms.count(".") <= 1 else LONGEST
            if not seconds < LONGEST:
                raise Bad("bad-number", f"a duration of {ms[:40]} ms; the record is left out")
            end_ms, owner = _moment(rows, entry.stamp, line), (entry.user, entry.database)
            if what == "plan":
                text = _PLAN.split(sql.partition("Query Text: ")[2], maxsplit=1)[0]
                state["plans"].append((end_ms, seconds, text, owner, entry.pid))
                return
            state["timed"] = True
            sql = last.get(entry.pid) if what is None else sql
            if sql is None:
                reason = "a duration without a statement (log_duration needs log_statement, and %p in log_line_prefix)"
                raise Bad("no-statement", f"{reason}; left out")
            rows.add(end_ms, seconds, sql, owner, calls=float(what in (None, "statement", "execute")))


def _moment(rows: Statements, text: str, line: int) -> int | None:
    """Return the first moment (epoch ms) in a text, with its zone or as epoch seconds; None, with a problem, if there is none
    that is clear."""
    found = _TIME.search(text) or _ARRIVED.search(text)
    syslog = _SYSLOG.match(text) if found is None else None
    if syslog is not None:
        newest, reason = (
            rows.source.mtime_ms + 86_400_000,
            "syslog tells no year and no zone: that before the file's last change, UTC",
        )
        rows.problem("no-year", f"{reason} (set %m in log_line_prefix)", line)
        last = datetime.fromtimestamp(newest / 1000, UTC).year
        told = (instant_ms(f"Mon {syslog[1]} {syslog[2]} {syslog[3]} {year}") for year in (last, last - 1))
        return next((at_ms for at_ms in told if at_ms is not None and at_ms <= newest), None)
    clock, fraction, zone, epoch = found.groups() if found else ("", "", "", "")
    if epoch:
        return round(float(epoch) * 1000)
    at_ms = _second_ms(clock, zone or "")
    if at_ms is None:
        what = f"the zone {zone} of its times means several" if zone else "its records have no time"
        rows.problem("bad-time", f"{what} (set log_timezone = 'UTC', and %m in log_line_prefix)", line)
        return None
    return at_ms + int(f"{fraction or 0:0<3}"[:3])


@lru_cache(1000)
def _second_ms(clock: str, zone: str) -> int | None:
    """Parse a time without fraction (epoch ms); None if it or its ``zone`` is not known."""
    hours = ZONES.get(zone, None if zone.isalpha() and zone != "Z" else 0)
    at_ms = instant_ms(clock if zone in ZONES else clock + zone)
    return None if at_ms is None or hours is None else at_ms - hours * 3_600_000


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

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise what only this format of the log has, outside of JSON."""
        return super().recognise(name, head) and CARRIERS.match(head) is None

    def carried(self, text: str) -> tuple[str, int]:
        """See the frame."""
        found = _PROGRAM.match(text) if "]: " in text else None
        return (found[1], int(found[2] or 0)) if found else ("", 0)

    @staticmethod
    def _continue(opened: deque[_Record], text: str, process: str) -> None:
        """See the frame. What carries the log puts its own words before each line, which are not the statement's."""
        record = next((one for one in reversed(opened) if one.process == process), None)
        if record is None or len(record.lines) >= MOST_LINES:
            return
        found = _PROGRAM.match(text) if process else None
        head, tab, rest = (
            text.replace("#011", "\t", 1).partition("\t") if found is None else ("", "", text[found.end() :])
        )
        if found is not None and not rest.startswith(("\t", "#011")):
            record.lines[-1] += rest
        elif found is not None or (tab and _DIGITS.sub("0", record.lines[0]).startswith(_DIGITS.sub("0", head))):
            record.lines.append(f"\t{rest}")
        elif text[:1].isspace():
            record.lines.append(text)

    def entry(self, record: str) -> Entry | None:
        """See the frame."""
        found = _SEVERITY.search(record, 0, 400)
        if found is None or found[1] != "LOG":
            return None
        prefix = record[: found.start()]
        message = record[found.end() :]
        return Entry(prefix, *_session(_TIME.sub("", prefix)), message.replace("#011", "\t").replace("#012", "\n"))


@lru_cache(1000)
def _session(prefix: str) -> tuple[str, str, str]:
    """Return session, user and database from a ``log_line_prefix``; empty where it does not tell."""
    pid, owner = _PID.search(prefix), _OWNER.search(prefix)
    named = dict(_NAMED.findall(prefix))
    user, database = owner.groups() if owner and not named else (named.get("u", ""), named.get("d", ""))
    return (pid[1] or pid[2] or pid[3]) if pid else "", user, database


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
    """``log_destination = jsonlog``, of PostgreSQL 15 or newer, or CloudNativePG's log of a pod: an object a line."""

    id = "postgresql-jsonlog"
    title = "PostgreSQL log with durations (jsonlog, CloudNativePG)"

    begin = re.compile(r"\{")
    known = re.compile(rb'(?m)^\{ ?(?:"timestamp" ?: ?"|[^\n]*"record" ?: ?\{)[^\n]*"error_severity" ?:')

    def entry(self, record: str) -> Entry | None:
        """See the frame."""
        fields = msgspec.json.decode(record)
        wrapped = fields.get("record")
        fields, names = (wrapped, _OF_RECORD) if isinstance(wrapped, dict) else (fields, _OF_LINE)
        return None if fields.get("error_severity") != "LOG" else Entry(*(str(fields.get(key, "")) for key in names))


_OF_LINE = ("timestamp", "pid", "user", "dbname", "message")
_OF_RECORD = ("log_time", "process_id", "user_name", "database_name", "message")
"""Keys of an entry in jsonlog, and in the record that CloudNativePG wraps."""


TEXTS = ("message", "@message", "textPayload", "LogFileData", "log", "MESSAGE")
"""Names of the text that a carrier gives to a log's lines."""

MOMENTS = ("timestamp", "@timestamp", "time")  # names of its moment

DEEPEST = 8  # levels of objects and lists that carriers put around an event

_TEXT = re.compile(rb'"(?:@?message|textPayload|LogFileData|log|MESSAGE)"|@?timestamp"?,"?@?message', re.IGNORECASE)


class CarriedLog(Document):
    """Events of ``aws logs``, ``aws rds download-db-log-file-portion``, ``gcloud logging read``, Docker's and journald's JSON."""

    id = "cloudwatch-events"
    title = (
        "MySQL slow log or PostgreSQL log inside JSON or CSV (CloudWatch, RDS, Cloud Logging, Azure, Docker, journald)"
    )
    version = 2
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise events whose texts are lines of these logs."""
        logs = (b"# Query_time:", b"# User@Host:", b"LOG:  ")
        return (
            CARRIERS.match(head) is not None
            and _TEXT.search(head) is not None
            and any(mark in head for mark in logs)
            and b'"error_severity"' not in head
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Unwrap the texts in order of time, and read them as the log that they are."""
        problems: list[Problem] = Problems()
        if data.lstrip()[:1] in (b"{", b"["):
            value = loaded(source, data, problems)
            if isinstance(value, Reading):
                return value
        else:
            value = [row for _, row in records(source, data, problems, final) if row is not None]
        events = list(_events(value, DEEPEST))
        if all(at_ms is not None for at_ms, _ in events):
            events.sort(key=lambda event: event[0] or 0)
        text = "".join(text for _, text in events).encode("utf-8", "surrogatepass")
        kinds = (SlowLog(), PostgresCsv(), PostgresJson())
        kind = next((each for each in kinds if each.recognise(source.name, text[:HEAD])), PostgresStderr())
        reading = kind.read(source, text, None, True)
        reading.problems += problems
        reading.consumed, reading.state = 0, None
        return reading


def _events(value: Any, deepest: int) -> Iterator[tuple[int | None, str]]:
    """Yield moment (a number in the order of time) and text of the events in ``value``, at most ``deepest`` levels down."""
    if isinstance(value, list) and deepest:  # Logs Insights names each field of an event in an object of its own
        fields = {each["field"]: each.get("value") for each in value if isinstance(each, dict) and "field" in each}
        for each in [fields] if fields else value:
            yield from _events(each, deepest - 1)
    elif isinstance(value, dict) and deepest:
        name = next((name for name in TEXTS if isinstance(value.get(name), str)), None)
        if name is None:
            for each in value.values():
                yield from _events(each, deepest - 1)
            return
        text = value[name]
        moment = next((value[each] for each in MOMENTS if each in value), "")
        at = moment if isinstance(moment, int) else instant_ms(str(moment))
        yield at, text if (name == "log" or text.endswith("\n")) else f"{text.rstrip()}\n"
