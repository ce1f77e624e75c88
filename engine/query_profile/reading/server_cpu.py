"""Read the CPU of a server alone, without its host's other programs: of its control group, and of its processes by pidstat."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from engine.core.reading import Reading, Source, decode, whole_lines
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.reading.collected_rows import HostKind, HostRows, non_negative
from engine.query_profile.reading.cpu_readers import TICK_US, sysstat_ms

CGROUP = "cgroup"
"""Source of these rows: a control group's CPU is the server's own."""

_COUNTERS = {
    "user_usec": ("user_us", 1.0),
    "system_usec": ("system_us", 1.0),
    "usage": ("user_us", 1e-3),
    "user": ("user_us", float(TICK_US)),
    "system": ("system_us", float(TICK_US)),
    "throttled_usec": ("throttled_us", 1.0),
}
"""Name and microseconds per unit of the counters of cpu.stat (v2) and cpuacct.stat (v1)."""


class CgroupCpu(HostKind):
    """Copies of ``cpu.stat`` (v2), ``cpuacct.stat`` or ``cpuacct.usage`` (v1), or one file of many, each after its moment."""

    id = "cgroup-cpu"
    title = "CPU of a control group (cpu.stat; cpuacct.usage, cpuacct.stat of version 1)"
    marks = ("usage_usec", "user_usec")

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the counters; a number alone only by its name."""
        words = [line.split(b" ")[0] for line in head.replace(b"\r", b"").split(b"\n")]
        begin = words[1:4] if re.match(rb"\d", words[0]) and len(words) > 2 else words[:3]
        if begin[:2] in ([b"usage_usec", b"user_usec"], [b"nr_periods", b"nr_throttled"]):
            return True
        if begin[:2] == [b"user", b"system"]:
            return all(word in (b"", b"user", b"system") or re.match(rb"\d", word) is not None for word in words)
        return "cpuacct.usage" in name and re.fullmatch(rb"\d+", head.strip()) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read cumulative microseconds; a line with a time tells the moment of the counters below it."""
        rows = HostRows(source, CGROUP)
        at_ms: int | None = name_instant_ms(source.name) or source.mtime_ms
        lines = decode(whole_lines(data, final)).splitlines()
        if len(lines) == 1 and re.fullmatch(r"\d+", lines[0], re.ASCII):
            lines = [f"usage {lines[0]}"]
        for number, line in enumerate(lines, 1):
            name, _, value = line.strip().partition(" ")
            if name in _COUNTERS:
                column, unit = _COUNTERS[name]
                try:
                    rows.add(at_ms or 0, column, non_negative(value) * unit)
                except ValueError as error:
                    rows.problem("bad-number", f"{error}; the line is left out", number)
            elif name == "throttled_time":
                reason = "cpu.stat of version 1 tells no CPU: copy cpuacct.usage from the folder cpuacct beside it"
                rows.problem("no-cpu", reason, number)
            elif name[:1].isdecimal() and (moment := instant_ms(line)) is not None:
                at_ms = moment
        return rows.reading()


class Pidstat(HostKind):
    """``pidstat -u SECONDS`` of a server's processes (``-p``, ``-G``; best with ``-h -H``): percent of one CPU each."""

    id = "pidstat"
    title = "pidstat -u of a server's processes"
    marks = ("linux ", "pid", "%usr", "%system")

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise sysstat's first line, and a header with processes and their CPU."""
        return (
            head.startswith(b"Linux ")
            and re.search(rb"(?m)^[^\n]*\b(?:PID|TGID)\b[^\n]*%usr +%system\b", head) is not None
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Sum the processes of each sample; one that used nothing is not listed."""
        rows = HostRows(source, "pidstat-u")
        lines = decode(whole_lines(data, final)).splitlines()
        rows.host, _, rest = lines[0].partition("(")[2].partition(")") if lines else ("", "", "")
        date = next(iter(rest.split()), "")
        names: list[str] = []
        samples: dict[int, list[float]] = {}
        before = 0
        for number, line in enumerate(lines[1:], 2):
            fields = line.lstrip("# ").split()
            if "PID" in fields or "TGID" in fields:
                names = fields[
                    fields.index("UID") if "UID" in fields else fields.index("TGID" if "TGID" in fields else "PID") :
                ]
                continue
            if not fields or not names or fields[0] == "Average:":
                continue
            clock = 2 if fields[1:2] in (["AM"], ["PM"]) else 1
            row = dict(zip(names, fields[clock:], strict=False))
            at_ms = instant_ms(fields[0]) if ":" not in fields[0] else sysstat_ms(date, " ".join(fields[:clock]))
            try:
                used = [non_negative(row["%usr"]), non_negative(row["%system"])]
            except (KeyError, ValueError) as error:
                rows.problem("bad-record", f"no row of pidstat ({error}); it is left out", number)
                continue
            if at_ms is None:
                rows.problem("bad-time", f"{fields[0][:40]!r} is no time; the row is left out", number)
                continue
            while at_ms < before - DAY_MS // 2:  # times without a date begin again at midnight
                at_ms += DAY_MS
            before = at_ms
            if row.get("TID", "-") == "-":  # with -t: the process itself
                sums = samples.setdefault(at_ms, [0.0, 0.0])
                sums[0] += used[0]
                sums[1] += used[1]
        moments = sorted(samples)
        step = min((b - a for a, b in pairwise(moments)), default=0)
        for last, at_ms in zip([moments[0] - step, *moments] if moments else [], moments, strict=False):
            for name, percent in zip(("user_us", "system_us"), samples[at_ms], strict=True):
                if at_ms - last > step * 1.5:  # all were idle
                    rows.add(at_ms - step, name, 0.0, (at_ms - step - last) / 1000)
                if step:
                    rows.add(at_ms, name, percent, step / 1000)
        return rows.reading()


DAY_MS = 86_400_000
