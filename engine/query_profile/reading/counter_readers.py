"""Read cumulative CPU counters of the database process or its host: /proc or a plain CSV.

All readers fill the ``host`` table with microseconds. ``user_us`` includes nice time, ``system_us`` interrupts.
"""

from __future__ import annotations

import re
from typing import Any

from engine.core.problems import not_utf8
from engine.core.reading import Reading, Source
from engine.core.text import decode
from engine.formats.delimited import header_fields, records
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.reading.collected_rows import TIME_COLUMNS, HostKind, HostRows, finite, non_negative

TICK_US = 10_000
"""Microseconds per kernel tick in /proc (USER_HZ is 100 on every supported Linux)."""

_NUMBER = re.compile(r"[-_.]?\d+")
_PID = re.compile(rb"^\d+ \(.*?\) [A-Za-z] -?\d+ -?\d+ ", re.DOTALL)


class CumulativeCsv(HostKind):
    """``captured_at,user_us,system_us``: cumulative CPU of the server (or any growing series) by time."""

    id = "cpu-csv"
    title = "cumulative CPU over time (CSV: captured_at,user_us,system_us)"
    version = 2

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a time column first, and microsecond columns."""
        fields = header_fields(head)
        if not fields or fields[0] not in TIME_COLUMNS or "calls" in fields or "dealloc" in fields:
            return False
        return "user_us" in fields or any(field.endswith("_us") for field in fields[1:])

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every microsecond column as a cumulative series."""
        rows = HostRows(source, "process")
        rows.problems += not_utf8(source.path, data)
        last: int | None = None
        for line, row in records(source, data, rows.problems, final):
            if row is None:
                continue
            timed, *names = row
            at_ms = instant_ms(row[timed])
            if at_ms is None:
                rows.problem("bad-time", f"{row[timed][:40]!r} is no time; the row is left out", line)
                continue
            if last is not None and at_ms <= last:
                rows.problem("clock-backwards", "the time does not grow; the row is left out", line)
                continue
            try:
                numbers = {name: non_negative(row[name]) for name in names if name.endswith("_us")}
            except ValueError as error:
                rows.problem("bad-number", f"{error}; the row is left out", line)
                continue
            last = at_ms
            for name, value in numbers.items():
                rows.add(at_ms, name, value)
        return rows.reading()


class ProcStat(HostKind):
    """A copy of ``/proc/stat``; its moment is in its name, or is its modification time."""

    id = "proc-stat"
    title = "copies of /proc/stat"

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the line of all CPUs at the beginning."""
        return re.match(rb"cpu +\d+ \d+ \d+ \d+", head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the counters of all CPUs (user time includes guest time already)."""
        rows = HostRows(source, "procstat")
        lines = decode(data).split("\n")
        rows.cores = float(sum(1 for line in lines if re.match(r"cpu\d+ ", line))) or None
        at_ms = name_instant_ms(source.name) or source.mtime_ms
        for number, line in enumerate(lines, 1):
            if not line.startswith("cpu "):
                continue
            try:
                ticks = [finite(field) for field in line.split()[1:]]
                if len(ticks) < 4 or min(ticks) < 0:
                    raise ValueError("fewer than four counters, or a negative one")
            except ValueError as error:
                rows.problem("bad-number", f"{error}; the file is left out", number)
                break
            ticks += [0.0] * (8 - len(ticks))
            user, nice, system, idle, iowait, irq, soft, steal = ticks[:8]
            states = (user + nice, system + irq + soft, iowait, idle, steal)
            rows.states(at_ms, [value * TICK_US for value in states])
            break
        return rows.reading()


class PidStat(HostKind):
    """Copies of ``/proc/PID/stat``, one line per process; children that have been waited for are included."""

    id = "pid-stat"
    title = "copies of /proc/PID/stat"
    version = 2

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a process number, a name in parentheses, a state letter and numbers."""
        return _PID.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Sum the processes of the file. The number of a single process is no part of the series' name: a server is all its
        processes, also where each has a file of its own."""
        rows = HostRows(source, "pidstat")
        processes: list[str] = []
        user = system = 0.0
        for number, line in enumerate(decode(data).split("\n"), 1):
            if not line.strip():
                continue
            fields = line.rpartition(")")[2].split()
            try:
                # after the name: field 3 is the first; 14-17 are utime, stime, cutime, cstime
                utime, stime, cutime, cstime = (finite(field) for field in fields[11:15])
            except ValueError as error:
                rows.problem("bad-record", f"no /proc/PID/stat line: {error}", number)
                continue
            user += utime + cutime
            system += stime + cstime
            processes.append(line.split(" ", 1)[0])
        if len(processes) == 1:
            rows.series = _without_number(rows.series, processes[0])
        if processes:
            at_ms = name_instant_ms(source.name) or source.mtime_ms
            rows.add(at_ms, "user_us", user * TICK_US)
            rows.add(at_ms, "system_us", system * TICK_US)
        return rows.reading()


def _without_number(name: str, number: str) -> str:
    """Return ``name`` without ``number`` and the sign before it, where it stands alone."""
    return _NUMBER.sub(lambda found: "" if found.group().lstrip("-_.") == number else found.group(), name)
