"""Read the CPU of the server, its control group or its host: cumulative counters (/proc, cpu.stat, a plain CSV) and percentages.

Percentages come from vmstat, sysstat (mpstat, sadf) and docker stats. All readers fill the ``host`` table with microseconds
or with percent of all CPUs over a stretch of seconds. ``user_us`` includes nice time, ``system_us`` interrupts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import msgspec

from engine.core.reading import Problem, Reading, Source, decode, not_utf8, whole_lines
from engine.formats import json_text
from engine.formats.delimited import header_fields
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.reading.collected_rows import (
    LONGEST_S,
    TIME_COLUMNS,
    Bad,
    HostKind,
    HostRows,
    finite,
    non_negative,
)

TICK_US = 10_000  # microseconds per kernel tick in /proc (USER_HZ is 100 on every supported Linux)

_NUMBER = re.compile(r"[-_.]?\d+")


class CumulativeCsv(HostKind):
    """``captured_at,user_us,system_us``: cumulative CPU of the server (or any growing series) by time."""

    id = "cpu-csv"
    title = "cumulative CPU over time (CSV: captured_at,user_us,system_us)"
    marks = ("captured_at", "_us")

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a time column first, and microsecond columns."""
        first, *fields = header_fields(head) or [""]
        counted = any(field.endswith("_us") for field in fields)
        return first in TIME_COLUMNS and counted and not {"calls", "dealloc"} & {*fields}

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every microsecond column as a cumulative series."""
        rows = HostRows(source, "process")
        last = None
        for line, row in rows.records(data, final):
            with rows.attempt(line):
                timed, *names = row
                at_ms = later(instant_ms(row[timed]), last, f"{row[timed][:40]!r} is no time; the row is left out")
                numbers = {name: non_negative(row[name]) for name in names if name.endswith("_us")}
                last = at_ms
                for name, value in numbers.items():
                    rows.used(at_ms, name, value)
        return rows.reading()


def later(at_ms: int | None, last: int | None, no_time: str, what: str = "row") -> int:
    """Return a moment that is later than the ``last`` one. Raises Bad, with the words ``no_time`` without a moment."""
    if at_ms is None:
        raise Bad("bad-time", no_time)
    if last is not None and at_ms <= last:
        raise Bad("clock-backwards", f"the time does not grow; the {what} is left out")
    return at_ms


class ProcStat(HostKind):
    """A copy of ``/proc/stat``, taken at the time in its name or its modification time."""

    id = "proc-stat"
    title = "copies of /proc/stat"
    known = re.compile(rb"cpu +\d+ \d+ \d+ \d+")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the counters of all CPUs (user time includes guest time already)."""
        rows = HostRows(source, "procstat")
        lines = decode(data).split("\n")
        rows.cores = float(sum(1 for line in lines if re.match(r"cpu\d+ ", line))) or None
        at_ms = name_instant_ms(source.name) or source.mtime_ms
        for number, line in [(n, line) for n, line in enumerate(lines, 1) if line.startswith("cpu ")][:1]:
            with rows.attempt(number, words="{}; the file is left out"):
                ticks = [finite(field) for field in line.split()[1:]]
                if len(ticks) < 4 or min(ticks) < 0:
                    raise ValueError("fewer than four counters, or a negative one")
                user, nice, system, idle, iowait, irq, soft, steal = [*ticks, 0.0, 0.0, 0.0, 0.0][:8]
                rows.states(
                    at_ms, [value * TICK_US for value in (user + nice, system + irq + soft, iowait, idle, steal)]
                )
        return rows.reading()


class PidStat(HostKind):
    """Copies of ``/proc/PID/stat``, one line per process; children that have been waited for are included."""

    id = "pid-stat"
    title = "copies of /proc/PID/stat"
    known = re.compile(rb"^\d+ \(.*?\) [A-Za-z] -?\d+ -?\d+ ", re.DOTALL)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Sum the processes of the file. The number of a single process is removed from the series' name: a server consists of
        all its processes, even if each has a file of its own."""
        rows = HostRows(source, "pidstat")
        processes: list[str] = []
        user = system = 0.0
        for number, line in enumerate(decode(data).split("\n"), 1):
            if not line.strip():
                continue
            with rows.attempt(number, "bad-record", "no /proc/PID/stat line: {}"):
                # fields after the name start at 3; 14-17 are utime, stime, cutime, cstime
                utime, stime, cutime, cstime = (finite(field) for field in line.rpartition(")")[2].split()[11:15])
                user += utime + cutime
                system += stime + cstime
                processes.append(line.split(" ", 1)[0])
        if len(processes) == 1:
            alone = processes[0]
            rows.series = _NUMBER.sub(lambda found: "" if found[0].lstrip("-_.") == alone else found[0], rows.series)
        if processes:
            at_ms = name_instant_ms(source.name) or source.mtime_ms
            rows.used(at_ms, "user_us", user * TICK_US)
            rows.used(at_ms, "system_us", system * TICK_US)
        return rows.reading()


_VMSTAT_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DAY = 86_400_000  # milliseconds of a day


class Vmstat(HostKind):
    """``vmstat -t -n SECONDS``: whole percent; the first row is the mean since boot and is dropped."""

    id = "vmstat"
    title = "vmstat -t"
    marks = ("procs ", "us sy id wa", "timestamp")
    known = re.compile(rb"\Aprocs (?=.* us sy id wa)(?=.*timestamp)", re.DOTALL)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read percent of all CPUs in the stretch before each row."""
        rows = HostRows(source, "vmstat")
        names: list[str] = []
        last = None
        offset = 0.0
        for number, line in enumerate(decode(whole_lines(data, final)).split("\n"), 1):
            fields = line.split()
            if not fields or fields[0] == "procs":
                continue
            if fields[0] == "r":
                names = fields
                zone = fields[-1]
                offset = float(zone) / 100 if re.fullmatch(r"[+-]\d{4}", zone) else 0.0
                continue
            with rows.attempt(number):
                stamp = _VMSTAT_TIME.search(line)
                at_ms = instant_ms(f"{stamp.group(1)} {stamp.group(2)}") if stamp else None
                if not names or at_ms is None or len(fields) < len(names):
                    raise Bad("bad-record", "no vmstat row with a time; it is left out")
                at_ms = later(at_ms - round(offset * 3_600_000), last, "")
                if last is not None:
                    row = {name: non_negative(value) for name, value in zip(names[:-1], fields, strict=False)}
                    rows.states(
                        at_ms, [row.get(name) for name in ("us", "sy", "wa", "id", "st")], (at_ms - last) / 1000
                    )
                last = at_ms
        return rows.reading()


class Sysstat(HostKind):
    """``mpstat -o JSON`` and ``sadf -j``; a file still being written counts up to its last complete sample."""

    id = "sysstat-json"
    title = "mpstat -o JSON, sadf -j"
    known = re.compile(rb'\A\s*+\{(?=.*"sysstat")(?=.*"hosts")', re.DOTALL)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read percent of all CPUs in the stretch before each sample."""
        rows = HostRows(source, "mpstat")
        document = json_text.decode(source, data, records=(5,), ends_cut=True)
        if isinstance(document, Reading):
            return document
        sysstat = document.value.get("sysstat") if isinstance(document.value, dict) else None
        hosts = sysstat.get("hosts") if isinstance(sysstat, dict) else None
        if not isinstance(hosts, list):
            problem = Problem.at(source.path, "bad-json", "no sysstat answer: it has no list of hosts")
            return Reading(problems=[problem], complete=False)
        if document.cut:
            rows.problem("cut-file", "the file ends in the middle (still being written): its complete samples count")
        rows.problems += document.problems
        for host in hosts:
            if not isinstance(host, dict):
                rows.problem("bad-record", "an element of hosts that is no object")
                continue
            rows.host = str(host.get("nodename", ""))
            cores = host.get("number-of-cpus")
            rows.cores = float(cores) if isinstance(cores, int) and 0 < cores < 1 << 20 else None
            statistics = host.get("statistics")
            samples = statistics if isinstance(statistics, list) else []
            self._samples(
                rows,
                str(host.get("date", "")),
                [sample for sample in samples if sample is not None or not document.bad],
            )
        return rows.reading()

    def _samples(self, rows: HostRows, date: str, samples: list[Any]) -> None:
        """Add the samples of one host; ``date``: the day, for samples that have only a time."""
        moments: list[tuple[int, str, float | None, dict[str, float]]] = []
        day = 0
        before: int | None = None
        for sample in samples:
            with rows.attempt(None, words="{}; the sample is left out"):
                if not isinstance(sample, dict):
                    raise Bad("bad-record", "a sample that is no object")
                stamp = sample.get("timestamp")
                interval: float | None = None
                tool = "sadf" if isinstance(stamp, dict) else "mpstat"
                if isinstance(stamp, dict):
                    at_ms = sysstat_ms(str(stamp.get("date", "")), str(stamp.get("time", "")))
                    length = stamp.get("interval")
                    interval = float(length) if isinstance(length, int | float) and 0 < length < LONGEST_S else None
                elif (at_ms := sysstat_ms(date, str(stamp))) is not None:
                    # local time without a date seems to go back by almost a day at midnight
                    day += before is not None and before - at_ms - day * _DAY > _DAY // 2
                    at_ms += day * _DAY
                at_ms = later(at_ms, before, f"sample without a time: {str(stamp)[:60]}", "sample")
                load = sample.get("cpu-load") or sample.get("cpu-load-all")
                loads = [each for each in load if isinstance(each, dict)] if isinstance(load, list) else []
                every = next((each for each in loads if str(each.get("cpu")) in ("all", "-1")), None)
                if every is None:
                    raise Bad("bad-record", "a sample without the load of all CPUs")
                value = {name: non_negative(item) for name, item in every.items() if name != "cpu"}
                before = at_ms
                moments.append((at_ms, tool, interval, value))
        steps = sorted(b[0] - a[0] for a, b in pairwise(moments))
        usual = steps[len(steps) // 2] / 1000 if steps else None
        for index, (at_ms, tool, interval, value) in enumerate(moments):
            rows.kind = tool
            if seconds := interval or ((at_ms - moments[index - 1][0]) / 1000 if index else usual):
                rows.states(at_ms, _sysstat_states(value), seconds)


class SadfCsv(HostKind):
    """``sadf -d``: semicolons, a header line that begins with ``#``, CPU -1 is all of them."""

    id = "sadf-d"
    title = "sadf -d"
    marks = ("# hostname;interval;timestamp", "%user")
    known = re.compile(rb"# hostname;interval;timestamp[^\n]*%use?r")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read percent of all CPUs in the stretch before each line."""
        rows = HostRows(source, "sadf")
        names: list[str] = []
        last: dict[str, int] = {}
        cpus: dict[str, set[str]] = {}
        for number, line in enumerate(decode(whole_lines(data, final)).split("\n"), 1):
            line = line.rstrip("\r")
            if line.startswith("#"):
                names = line.lstrip("# ").split(";")
            if line.startswith("#") or not line or "LINUX-RESTART" in line:
                continue
            fields = line.split(";")
            row = dict(zip(names, fields, strict=False))
            host = row.get("hostname", "")
            with rows.attempt(number):
                if len(fields) != len(names):
                    raise Bad("ragged-row", f"{len(fields)} fields where the header has {len(names)}")
                if row.get("CPU", "-1") not in ("-1", "all"):
                    cpus.setdefault(host, set()).add(row["CPU"])
                    continue
                stamp = row.get("timestamp", "")
                at_ms = later(instant_ms(stamp), last.get(host), f"{stamp[:40]!r} is no time")
                seconds = finite(row["interval"])
                value = {name[1:]: non_negative(text) for name, text in row.items() if name.startswith("%")}
                if 0 < seconds < LONGEST_S:
                    last[host] = at_ms
                    rows.host = host
                    rows.states(at_ms, _sysstat_states(value), seconds)
        # lines of single CPUs (-P ALL) give the number of cores
        rows.columns["cores"] = [float(len(cpus[host])) if host in cpus else None for host in rows.columns["host"]]
        return rows.reading()


class DockerStats(HostKind):
    """``docker stats --no-stream --format '{{json .}}'``, a file per sample: percent of one core in the last second or so."""

    id = "docker-stats"
    title = "docker stats (JSON lines)"
    known = re.compile(rb'\A(?=.*"CPUPerc")(?=.*"(?:Container|Name)")', re.DOTALL)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one sample per container; it covers the time since the sample before."""
        rows = HostRows(source, "docker")
        rows.problems += not_utf8(source.path, data)
        at_ms = name_instant_ms(source.name) or source.mtime_ms
        for number, line in enumerate(decode(data).split("\n"), 1):
            text = _ESCAPES.sub("", line).strip()
            if not text:
                continue
            with rows.attempt(number, "bad-record", "no line of docker stats: {}"):
                container = msgspec.json.decode(text)
                percent = non_negative(str(container["CPUPerc"]).removesuffix("%"))
                rows.host = str(container.get("Name") or container.get("Container") or "")
                rows.used(at_ms, "cpu_us", percent, 0.0)
        return rows.reading()


def _sysstat_states(value: dict[str, float]) -> list[float]:
    """Return the percentages of ``STATES`` from sysstat's columns; guest time, which sysstat excludes, is added to user time."""
    user = value.get("usr", value.get("user", 0.0)) + value.get("nice", 0.0)
    user += value.get("guest", 0.0) + value.get("gnice", 0.0)
    system = value.get("sys", value.get("system", 0.0)) + value.get("irq", 0.0) + value.get("soft", 0.0)
    return [user, system, *(value.get(name, 0.0) for name in ("iowait", "idle", "steal"))]


def sysstat_ms(date: str, time: str) -> int | None:
    """Parse a date and a time of sysstat: ISO, or by the C locale (``11/20/26``, ``11:38:08 PM``), or day first where the month
    cannot be; None without a time."""
    local = re.fullmatch(r"(\d\d)([/.])(\d\d)[/.](\d\d)?(\d\d)", date)
    if local:
        month, cut, day, century, year = local.groups()
        if cut == "." or int(month) > 12:
            month, day = day, month
        date = f"{century or 20}{year}-{month}-{day}"
    half = re.fullmatch(r"(\d\d?)(:\d\d:\d\d) ([AP])M", time)
    if half:
        time = f"{int(half.group(1)) % 12 + (12 if half.group(3) == 'P' else 0):02}{half.group(2)}"
    return instant_ms(f"{date} {time}") if time.strip() else None  # a date alone would mean midnight


CGROUP = "cgroup"  # source of these rows: a control group's CPU is the server's own

_COUNTERS = {
    "usage_usec": ("cpu_us", 1.0),
    "user_usec": ("user_us", 1.0),
    "system_usec": ("system_us", 1.0),
    "usage": ("cpu_us", 1e-3),
    "usage_user": ("user_us", 1e-3),
    "usage_sys": ("system_us", 1e-3),
    "user": ("user_us", float(TICK_US)),
    "system": ("system_us", float(TICK_US)),
    "throttled_usec": ("throttled_us", 1.0),
}
"""Name and microseconds per unit of the counters of cpu.stat (v2), cpuacct.stat and cpuacct.usage (v1)."""

_V2 = re.compile(rb"(?m)^(?:\d[\d:.TZ +-]{7,40}[ ,;\t])?(?:usage_usec[ ,;]\d|user \d+ system \d)")
_V1 = re.compile(r"cpuacct\.usage(?:_percpu)?(_user|_sys)?")
_BARE = re.compile(r"[\d:.TZ+\s-]+", re.ASCII)


class CgroupCpu(HostKind):
    """Copies of ``cpu.stat`` (v2), ``cpuacct.stat`` or ``cpuacct.usage`` (v1), or one file of many, each after its moment."""

    id = "cgroup-cpu"
    title = "CPU of a control group (cpu.stat; cpuacct.usage, cpuacct.stat of version 1)"
    version = 2
    marks = ("usage_usec", "user_usec")

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the counters; numbers alone only by the name."""
        lines = head.replace(b"\r", b"").split(b"\n")
        words = [line.split(b" ")[0] for line in (lines[:-1] if len(lines) > 4 else lines)]
        if _V2.search(head) is not None or words[:2] == [b"nr_periods", b"nr_throttled"]:
            return True
        if {b"user", b"system"} <= {*words}:
            return all(word in (b"user", b"system") or word[:1] in b"0123456789" for word in words)
        return _V1.search(name) is not None and _BARE.fullmatch(decode(head)) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read cumulative microseconds; a time before a counter, or in a line above it, tells its moment."""
        rows = HostRows(source, CGROUP)
        found = [*_counters(decode(whole_lines(data, final)).splitlines(), _V1.search(source.name))]
        rows.series = _V1.sub("cpuacct", rows.series)
        folder = PurePath(source.path).parent.name
        told = any(moment is not None for _, moment, *_ in found)  # then nothing in front of the first moment has one
        at_ms = None if told else name_instant_ms(source.name) or name_instant_ms(folder) or source.mtime_ms
        for number, moment, name, values in found:
            at_ms = at_ms if moment is None else moment
            if name in _COUNTERS and at_ms is not None:
                column, unit = _COUNTERS[name]
                with rows.attempt(number, words="{}; the line is left out"):
                    rows.used(at_ms, column, sum(map(non_negative, values)) * unit)
            elif name == "throttled_time":
                reason = "cpu.stat of version 1 tells no CPU: copy cpuacct.usage from the folder cpuacct beside it"
                rows.problem("no-cpu", reason, number)
        return rows.reading()


def _counters(lines: list[str], named: re.Match[str] | None) -> Iterator[tuple[int, int | None, str, list[str]]]:
    """Yield line, moment (None: not in this line), name and values of each counter; for a line with only a moment both are empty.

    ``named``: the name of a file of version 1, whose lines are numbers: one for each CPU, behind a moment in a file of many.
    """
    usage, waiting = f"usage{named[1] or ''}" if named else "", False
    alone = sum(1 for line in lines if line.strip()) == 1
    for number, line in enumerate(lines, 1):
        words = line.replace(",", " ").replace(";", " ").split()
        first = next((i for i, word in enumerate(words) if word[0].isalpha()), None)
        if first is not None:
            moment = instant_ms(" ".join(words[:first]))
            for name, value in zip(words[first::2], words[first + 1 :: 2], strict=False):
                yield number, moment, name, [value]
        elif words and named and (alone or waiting):
            yield number, None, usage, words
            waiting = False
        elif words:
            size = 2 if len(words) > 1 and ":" in words[1] else 1
            values = words[size:] if named else []
            waiting = not values
            yield number, instant_ms(" ".join(words[: size if named else None])), usage if values else "", values


class Pidstat(HostKind):
    """``pidstat -u SECONDS`` of a server's processes (``-p``, ``-G``; best with ``-h -H``): percent of one CPU each."""

    id = "pidstat"
    title = "pidstat -u of a server's processes"
    marks = ("linux ", "pid", "%usr", "%system")

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a header with processes and their CPU."""
        return re.search(rb"(?m)^[^\n]*\b(?:PID|TGID)\b[^\n]*%usr +%system\b", head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Sum the processes of each sample; one that used nothing is not listed."""
        rows = HostRows(source, "pidstat-u")
        lines = decode(whole_lines(data, final)).splitlines()
        rows.host, _, rest = lines[0].partition("(")[2].partition(")") if lines else ("", "", "")
        date = next(iter(rest.split()), "")
        names: list[str] = []
        samples: dict[int, list[float]] = {}
        before = 0
        for number, line in enumerate(lines, 1):
            fields = line.lstrip("# ").split()
            if "PID" in fields or "TGID" in fields:
                names = fields[
                    fields.index("UID") if "UID" in fields else fields.index("TGID" if "TGID" in fields else "PID") :
                ]
                continue
            if not names or not fields or not fields[0][0].isdecimal():  # an average has its word
                continue
            clock = 2 if fields[1:2] in (["AM"], ["PM"]) else 1
            row = dict(zip(names, (each.replace(",", ".") for each in fields[clock:]), strict=False))
            at_ms = instant_ms(fields[0]) if ":" not in fields[0] else sysstat_ms(date, " ".join(fields[:clock]))
            with rows.attempt(number, "bad-record", "no row of pidstat ({}); it is left out"):
                user, system = non_negative(row["%usr"]), non_negative(row["%system"])
                if at_ms is None:
                    raise Bad("bad-time", f"{fields[0][:40]!r} is no time; the row is left out")
                while at_ms < before - DAY_MS // 2:  # times without a date begin again at midnight
                    at_ms += DAY_MS
                before = at_ms
                if row.get("TID", "-") == "-":  # with -t: the process itself
                    sums = samples.setdefault(at_ms, [0.0, 0.0])
                    samples[at_ms] = [sums[0] + user, sums[1] + system]
        moments = sorted(samples)
        step = min((b - a for a, b in pairwise(moments)), default=0)
        for last, at_ms in zip([moments[0] - step, *moments] if moments else [], moments, strict=False):
            for name, percent in zip(("user_us", "system_us"), samples[at_ms], strict=True):
                if at_ms - last > step * 1.5:  # all were idle
                    rows.used(at_ms - step, name, 0.0, (at_ms - step - last) / 1000)
                if step:
                    rows.used(at_ms, name, percent, step / 1000)
        return rows.reading()


DAY_MS = 86_400_000
