"""Read the CPU of a server alone, without its host's other programs: of its control group, and of its processes by pidstat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from engine.core.reading import Reading, Source, decode, whole_lines
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.reading.collected_rows import Bad, HostKind, HostRows, non_negative
from engine.query_profile.reading.cpu_readers import TICK_US, sysstat_ms

CGROUP = "cgroup"
"""Source of these rows: a control group's CPU is the server's own."""

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
        lines = decode(whole_lines(data, final)).splitlines()
        found = [*_counters(lines, _V1.search(source.name))]
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
    """Yield line, moment (None: not in this line), name and values of the counters, and of lines with a moment only.

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
