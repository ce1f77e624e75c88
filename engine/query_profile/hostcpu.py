"""Readers of resource series: CPU of the database process or its host, from what operators already collect.

All of them fill the ``host`` table: cumulative microseconds where the file has counters, percent of all CPUs over a
stretch of seconds where it has rates. ``user_us`` includes nice time, ``system_us`` interrupts.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import polars as pl

from engine.formats.prometheus import looks_like, parse
from engine.problems import Problem
from engine.query_profile.delimited import BOM, header_fields, records
from engine.query_profile.instants import instant_ms, name_instant_ms, name_stem
from engine.query_profile.pgss import TIME_COLUMNS
from engine.query_profile.tables import HOST
from engine.reading import Reading, Source
from engine.tables import Table
from engine.text import clean, decode

TICK_US = 10_000
"""Microseconds of one kernel tick as /proc shows it (USER_HZ is 100 on every supported Linux)."""

_PID = re.compile(rb"^\d+ \(.*?\) [A-Za-z] -?\d+ -?\d+ ", re.DOTALL)
_VMSTAT_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)")
_DAY = 86_400_000


class _Rows:
    """Collects rows of the ``host`` table."""

    def __init__(self, source: Source, kind: str, *, host: str = "", cores: float | None = None) -> None:
        self.source = source
        self.kind = kind
        self.host = host
        self.cores = cores
        self.columns: dict[str, list[Any]] = {name: [] for name in HOST.schema}
        self.problems: list[Problem] = []

    def add(self, at_ms: int, name: str, value: float, seconds: float | None = None) -> None:
        row = (
            self.kind,
            clean(self.host),
            clean(name_stem(self.source.name)),
            at_ms,
            seconds,
            self.cores,
            clean(name, 200),
            value,
        )
        for column, item in zip(self.columns.values(), row, strict=True):
            column.append(item)

    def problem(self, kind: str, reason: str, line: int | None = None) -> None:
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line))

    def reading(self) -> Reading:
        return Reading(rows={"host": self.columns}, problems=self.problems)


class _HostKind:
    append = False
    version = 1
    tables: tuple[Table, ...] = (HOST,)


class CumulativeCsv(_HostKind):
    """``captured_at,user_us,system_us``: cumulative CPU of the server (or any growing series) by time."""

    id = "cpu-csv"
    title = "cumulative CPU over time (CSV: captured_at,user_us,system_us)"

    def recognise(self, name: str, head: bytes) -> bool:
        """A time column first, and microsecond columns."""
        fields = header_fields(head)
        if not fields or fields[0] not in TIME_COLUMNS or "calls" in fields or "dealloc" in fields:
            return False
        return "user_us" in fields or any(field.endswith("_us") for field in fields[1:])

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Every numeric column but the time is a cumulative series."""
        rows = _Rows(source, "process")
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
            numbers: dict[str, float] = {}
            try:
                for name in names:
                    if name.endswith("_us"):
                        numbers[name] = _finite(row[name])
            except ValueError as error:
                rows.problem("bad-number", f"{error}; the row is left out", line)
                continue
            last = at_ms
            for name, value in numbers.items():
                rows.add(at_ms, name, value)
        return rows.reading()


class ProcStat(_HostKind):
    """A copy of ``/proc/stat``; its moment is in its name, or is its modification time."""

    id = "proc-stat"
    title = "copies of /proc/stat"

    def recognise(self, name: str, head: bytes) -> bool:
        """Begins with the line of all CPUs."""
        return re.match(rb"cpu +\d+ \d+ \d+ \d+", head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Counters of all CPUs (guest time is inside user time already); several copies may follow one another."""
        rows = _Rows(source, "procstat")
        lines = decode(data).split("\n")
        rows.cores = float(sum(1 for line in lines if re.match(r"cpu\d+ ", line))) or None
        at_ms = name_instant_ms(source.name) or source.mtime_ms
        for number, line in enumerate(lines, 1):
            if not line.startswith("cpu "):
                continue
            try:
                ticks = [_finite(field) for field in line.split()[1:]]
                if len(ticks) < 4 or min(ticks) < 0:
                    raise ValueError("fewer than four counters, or a negative one")
            except ValueError as error:
                rows.problem("bad-number", f"{error}; the file is left out", number)
                break
            ticks += [0.0] * (8 - len(ticks))
            user, nice, system, idle, iowait, irq, soft, steal = ticks[:8]
            for name, value in (
                ("user_us", user + nice),
                ("system_us", system + irq + soft),
                ("iowait_us", iowait),
                ("idle_us", idle),
                ("steal_us", steal),
            ):
                rows.add(at_ms, name, value * TICK_US)
            break
        return rows.reading()


class PidStat(_HostKind):
    """Copies of ``/proc/PID/stat``, one line per process; children that have been waited for are included."""

    id = "pid-stat"
    title = "copies of /proc/PID/stat"

    def recognise(self, name: str, head: bytes) -> bool:
        """A process number, a name in parentheses, a state letter and numbers."""
        return _PID.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Sum over the processes of the file."""
        rows = _Rows(source, "pidstat")
        user = system = 0.0
        count = 0
        for number, line in enumerate(decode(data).split("\n"), 1):
            if not line.strip():
                continue
            fields = line.rpartition(")")[2].split()
            try:
                # after the name: field 3 is the first; 14-17 are utime, stime, cutime, cstime
                utime, stime, cutime, cstime = (_finite(field) for field in fields[11:15])
            except ValueError as error:
                rows.problem("bad-record", f"no /proc/PID/stat line: {error}", number)
                continue
            user += utime + cutime
            system += stime + cstime
            count += 1
        if count:
            at_ms = name_instant_ms(source.name) or source.mtime_ms
            rows.add(at_ms, "user_us", user * TICK_US)
            rows.add(at_ms, "system_us", system * TICK_US)
        return rows.reading()


class Vmstat(_HostKind):
    """``vmstat -t -n SECONDS``: whole percent; the first row is the mean since boot and is dropped."""

    id = "vmstat"
    title = "vmstat -t"

    def recognise(self, name: str, head: bytes) -> bool:
        """By its two header lines, with a time column."""
        return head.startswith(b"procs ") and b" us sy id wa" in head and b"timestamp" in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Percent of all CPUs in the stretch before each row, and blocks in and out per second."""
        rows = _Rows(source, "vmstat")
        names: list[str] = []
        last: int | None = None
        offset = 0.0
        text = decode(data)
        if not final and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
        for number, line in enumerate(text.split("\n"), 1):
            fields = line.split()
            if not fields or fields[0] == "procs":
                continue
            if fields[0] == "r":
                names = fields
                zone = fields[-1]
                offset = float(zone) / 100 if re.fullmatch(r"[+-]\d{4}", zone) else 0.0
                continue
            found = _VMSTAT_TIME.search(line)
            at_ms = instant_ms(f"{found.group(1)} {found.group(2)}") if found else None
            if not names or at_ms is None or len(fields) < len(names):
                rows.problem("bad-record", "no vmstat row with a time; it is left out", number)
                continue
            at_ms -= round(offset * 3_600_000)
            if last is None:
                last = at_ms
                continue
            if at_ms <= last:
                rows.problem("clock-backwards", "the time does not grow; the row is left out", number)
                continue
            try:
                row = {name: _finite(value) for name, value in zip(names[:-1], fields, strict=False)}
            except ValueError as error:
                rows.problem("bad-number", f"{error}; the row is left out", number)
                continue
            seconds = (at_ms - last) / 1000
            for name, key in (("user_us", "us"), ("system_us", "sy"), ("iowait_us", "wa"), ("idle_us", "id")):
                if key in row:
                    rows.add(at_ms, name, row[key], seconds)
            if "st" in row:
                rows.add(at_ms, "steal_us", row["st"], seconds)
            last = at_ms
        return rows.reading()


class Sysstat(_HostKind):
    """``mpstat -o JSON`` and ``sadf -j``; a file still being written counts up to its last complete sample."""

    id = "sysstat-json"
    title = "mpstat -o JSON, sadf -j"

    def recognise(self, name: str, head: bytes) -> bool:
        """JSON of sysstat with CPU load."""
        return head.lstrip()[:1] == b"{" and b'"sysstat"' in head and b'"hosts"' in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Percent of all CPUs in the stretch before each sample."""
        document, cut = _sysstat(data)
        rows = _Rows(source, "mpstat")
        if document is None:
            reading = rows.reading()
            reading.problems.append(Problem.at(source.path, "bad-json", "no sysstat answer (yet)"))
            reading.complete = False
            return reading
        if cut:
            rows.problem("cut-file", "the file ends in the middle (still being written): its complete samples count")
        for host in document["sysstat"]["hosts"]:
            if not isinstance(host, dict):
                continue
            rows.host = str(host.get("nodename", ""))
            cores = host.get("number-of-cpus")
            rows.cores = float(cores) if isinstance(cores, int) and 0 < cores < 1 << 20 else None
            statistics = host.get("statistics")
            self._samples(rows, str(host.get("date", "")), statistics if isinstance(statistics, list) else [])
        return rows.reading()

    def _samples(self, rows: _Rows, date: str, samples: list[Any]) -> None:
        moments: list[tuple[int, float | None, dict[str, Any]]] = []
        day = 0
        before: int | None = None
        for sample in samples:
            if not isinstance(sample, dict):
                continue
            stamp = sample.get("timestamp")
            interval: float | None = None
            if isinstance(stamp, dict):
                rows.kind = "sadf"
                at_ms = instant_ms(f"{stamp.get('date', '')} {stamp.get('time', '')}")
                interval = float(stamp["interval"]) if isinstance(stamp.get("interval"), int | float) else None
            else:
                at_ms = instant_ms(f"{date} {stamp}")
                if at_ms is not None:
                    # local time without a date: past midnight it seems to go back by almost a day
                    at_ms += day * _DAY
                    if before is not None and before - at_ms > _DAY // 2:
                        day += 1
                        at_ms += _DAY
            if at_ms is None:
                rows.problem("bad-time", f"sample without a time: {str(stamp)[:60]}")
                continue
            if before is not None and at_ms <= before:
                rows.problem("clock-backwards", "the time does not grow; the sample is left out")
                continue
            before = at_ms
            load = sample.get("cpu-load") or sample.get("cpu-load-all")
            every = next(
                (c for c in load if isinstance(c, dict) and str(c.get("cpu")) in ("all", "-1")), None
            ) if isinstance(load, list) else None  # fmt: skip
            if every is None:
                rows.problem("bad-record", "a sample without the load of all CPUs")
                continue
            moments.append((at_ms, interval, every))
        steps = sorted(b[0] - a[0] for a, b in pairwise(moments))
        usual = steps[len(steps) // 2] / 1000 if steps else None
        for index, (at_ms, interval, load) in enumerate(moments):
            seconds = interval or ((at_ms - moments[index - 1][0]) / 1000 if index else usual)
            if not seconds:
                continue
            try:
                value = {name: _finite(item) for name, item in load.items() if name != "cpu"}
            except (ValueError, TypeError) as error:
                rows.problem("bad-number", f"{error}; the sample is left out")
                continue
            user = value.get("usr", value.get("user", 0.0)) + value.get("nice", 0.0)
            user += value.get("guest", 0.0) + value.get("gnice", 0.0)  # sysstat takes guest time out of user time
            system = value.get("sys", value.get("system", 0.0)) + value.get("irq", 0.0) + value.get("soft", 0.0)
            for name, percent in (
                ("user_us", user),
                ("system_us", system),
                ("iowait_us", value.get("iowait", 0.0)),
                ("idle_us", value.get("idle", 0.0)),
                ("steal_us", value.get("steal", 0.0)),
            ):
                rows.add(at_ms, name, percent, seconds)


class SadfCsv(_HostKind):
    """``sadf -d``: semicolons, a header line that begins with ``#``, CPU -1 is all of them."""

    id = "sadf-d"
    title = "sadf -d"

    def recognise(self, name: str, head: bytes) -> bool:
        """By its header."""
        first = head.split(b"\n", 1)[0]
        return first.startswith(b"# hostname;interval;timestamp") and b"%user" in first.replace(b"%usr", b"%user")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Percent of all CPUs in the stretch before each line."""
        rows = _Rows(source, "sadf")
        names: list[str] = []
        text = decode(data)
        if not final and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
        last: dict[str, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            line = line.rstrip("\r")
            if line.startswith("#"):
                names = line.lstrip("# ").split(";")
                continue
            if not line:
                continue
            fields = line.split(";")
            row = dict(zip(names, fields, strict=False))
            if len(fields) != len(names):
                if "LINUX-RESTART" not in line:
                    rows.problem("ragged-row", f"{len(fields)} fields where the header has {len(names)}", number)
                continue
            if row.get("CPU", "-1") not in ("-1", "all"):
                continue
            at_ms = instant_ms(row.get("timestamp", ""))
            if at_ms is None:
                rows.problem("bad-time", f"{row.get('timestamp', '')[:40]!r} is no time", number)
                continue
            host = row.get("hostname", "")
            if host in last and at_ms <= last[host]:
                rows.problem("clock-backwards", "the time does not grow; the row is left out", number)
                continue
            try:
                seconds = _finite(row["interval"])
                value = {name: _finite(text) for name, text in row.items() if name.startswith("%")}
            except (ValueError, KeyError) as error:
                rows.problem("bad-number", f"{error}; the row is left out", number)
                continue
            if seconds <= 0:
                continue
            last[host] = at_ms
            rows.host = host
            user = value.get("%user", value.get("%usr", 0.0)) + value.get("%nice", 0.0)
            user += value.get("%guest", 0.0) + value.get("%gnice", 0.0)
            system = value.get("%system", value.get("%sys", 0.0)) + value.get("%irq", 0.0) + value.get("%soft", 0.0)
            for name, percent in (
                ("user_us", user),
                ("system_us", system),
                ("iowait_us", value.get("%iowait", 0.0)),
                ("idle_us", value.get("%idle", 0.0)),
                ("steal_us", value.get("%steal", 0.0)),
            ):
                rows.add(at_ms, name, percent, seconds)
        return rows.reading()


def _finite(text: Any) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > 1e21:
        raise ValueError(f"{str(text)[:40]!r} is no counter")
    return value


def _sysstat(data: bytes) -> tuple[dict[str, Any] | None, bool]:
    """The document and whether it was cut: then it ends after the last complete sample."""

    def sound(document: Any) -> bool:
        return isinstance(document, dict) and isinstance((document.get("sysstat") or {}).get("hosts"), list)

    text = data.removeprefix(BOM)
    try:
        document = msgspec.json.decode(text)
        return (document, False) if sound(document) else (None, False)
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        pass
    # a sample ends in "}" two or more levels inside its list: try from the end until the closed text parses
    end = len(text)
    for _ in range(200):
        end = text.rfind(b"}", 0, end)
        if end < 0:
            return None, False
        for closing in (b"]}]}}",):
            try:
                document = msgspec.json.decode(text[: end + 1] + closing)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if sound(document) and isinstance(document["sysstat"]["hosts"][-1].get("statistics"), list):
                return document, True
    return None, False


def utc_text(at_ms: int) -> str:
    """Epoch milliseconds as ISO text to the second, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class NodeExporter(_HostKind):
    """node_exporter's text: cumulative seconds per CPU and mode; no time inside, so the name's or the file's."""

    id = "node-exporter-cpu"
    title = "node_exporter text (node_cpu_seconds_total)"

    def recognise(self, name: str, head: bytes) -> bool:
        """A text exposition of node_exporter (its CPU counters may come later than the head)."""
        return looks_like(head) and (b"node_cpu_" in head or b"node_" in head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Counters of all CPUs by mode."""
        rows = _Rows(source, "node_exporter")
        scrape = parse(source.path, data, labels=("cpu", "mode"), names="^node_cpu_seconds_total")
        rows.problems += scrape.problems
        samples = scrape.samples.filter(
            pl.col("value").is_finite() & (pl.col("value") >= 0) & pl.col("mode").is_not_null()
        )
        if samples.height:
            rows.cores = float(samples["cpu"].n_unique())
            stamped = samples["time_ms"].drop_nulls()
            at_ms = int(stamped[0]) if len(stamped) else name_instant_ms(source.name) or source.mtime_ms
            mode = dict(samples.group_by("mode", maintain_order=True).agg(pl.col("value").sum()).iter_rows())
            for name, modes in (
                ("user_us", ("user", "nice")),
                ("system_us", ("system", "irq", "softirq")),
                ("iowait_us", ("iowait",)),
                ("idle_us", ("idle",)),
                ("steal_us", ("steal",)),
            ):
                if modes[0] in mode:
                    rows.add(at_ms, name, sum(mode.get(m, 0.0) for m in modes) * 1e6)
        return rows.reading()
