"""Large text histories: lines of one event type differ only in their values, so one pattern takes the values out.

A pattern is learned from a line that the typed decoder has accepted: everything but ids, times, states and counter
values stays literal. What does not match it exactly goes the decoder's way; so damage is never taken for data. The
counters of an attempt are not read (the task repeats them) but compared with the task's, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.reading.event_collector import ANYWHERE, OFFICIAL, Collector
from engine.job_heuristics.reading.records import Counters
from engine.job_heuristics.tables.input import ATTEMPT_ENDS, ATTEMPT_STARTS, COUNTER_COLUMNS, TASK_ENDS, TASK_STARTS
from engine.reading import Reading
from engine.tables import Table

FROM_BYTES = 2**20
"""A read of so much may learn patterns anew."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|\[[\d,]*\]|-?\d+')
_TEXT = rb"([^\"\\\x00-\x1f\x7f-\xff]{0,4000})"
_TIME = rb"(\d{1,15})"
_VALUE = rb"-?\d{1,18}"
_ARRAY = rb"(\[[\d,]*\])"
_COUNTERS = b',"counters":'
_MOST_PATTERNS = 8
_EARN = 64
"""Lines that must be taken for one more pattern to be learned."""

_ENDS = {"taskid": "task_id", "taskType": "type", "finishTime": "finish_ms"}
_FIELDS: dict[bytes, tuple[Table, dict[str, str], bytes]] = {
    b"TASK_STARTED": (
        TASK_STARTS,
        {"taskid": "task_id", "taskType": "type", "startTime": "scheduled_ms", "splitLocations": "locations"},
        b"",
    ),
    b"TASK_FINISHED": (
        TASK_ENDS,
        {**_ENDS, "status": "state", "successfulAttemptId": "chosen_id"},
        b',"successfulAttemptId":',
    ),
}
for _side in (b"MAP", b"REDUCE"):
    _FIELDS[_side + b"_ATTEMPT_STARTED"] = (
        ATTEMPT_STARTS,
        {
            "taskid": "task_id", "attemptId": "attempt_id", "taskType": "type", "startTime": "start_ms",
            "trackerName": "host", "containerId": "container", "locality": "locality", "avataar": "avataar",
        },
        b"",
    )  # fmt: skip
    _FIELDS[_side + b"_ATTEMPT_FINISHED"] = (
        ATTEMPT_ENDS,
        {
            **_ENDS, "attemptId": "attempt_id", "taskStatus": "state", "mapFinishTime": "map_finish_ms",
            "shuffleFinishTime": "shuffle_finish_ms", "sortFinishTime": "sort_finish_ms", "hostname": "host",
            "rackname": "rack", "state": "split", "clockSplits": "clock", "cpuUsages": "cpu", "vMemKbytes": "virtual",
            "physMemKbytes": "physical",
        },
        b',"clockSplits":',
    )  # fmt: skip
_TIMES = frozenset({"scheduled_ms", "finish_ms", "start_ms", "map_finish_ms", "shuffle_finish_ms", "sort_finish_ms"})


@dataclass
class _Pattern:
    """How the lines of one event type look, in up to two parts around counters that are not read."""

    first: Callable[..., re.Match[bytes] | None]
    second: Callable[..., re.Match[bytes] | None] | None
    behind: bytes
    columns: list[str]
    counted: bool
    attempt: int = -1
    """Place of the attempt id among the values: the counters of an attempt are compared under it."""
    key: bytes = b""
    table: str = ""


@dataclass
class Known:
    """Patterns that any file may use; they only make reading faster. ``credit``: how many more may be learned of a
    type; lines taken earn it, so that odd files cannot make a thousand patterns."""

    patterns: dict[bytes, list[_Pattern]] = field(default_factory=dict)
    credit: dict[bytes, float] = field(default_factory=dict)


class FastLines:
    """One read of a file by known patterns, and the values they have taken out."""

    def __init__(self, known: Known | None = None, size: int = 0) -> None:
        """``size``: bytes to be read; much of it is worth learning patterns for."""
        self.known = Known() if known is None else known
        self.pending: dict[bytes, tuple[int, bytes]] = {}
        self.bad: list[int] = []
        self.found: dict[int, tuple[_Pattern, list[int], list[bytes]]] = {}
        if size >= FROM_BYTES:
            self.known.credit.clear()

    def take(self, key: bytes, line: bytes, number: int) -> bool:
        """Whether a pattern of event type ``key`` took the whole line."""
        patterns = self.known.patterns.get(key) or []
        for pattern in patterns:
            groups: tuple[bytes, ...]
            if pattern.second is None:
                match = pattern.first(line)
                if match is None:
                    continue
                groups = match.groups()
                if pattern.counted:
                    at = line.find(_COUNTERS)
                    before = self.pending.pop(groups[-1], None)
                    if before is not None and before[1] != line[at : line.rfind(pattern.behind)]:
                        self._check(*before)
            else:
                at, end = line.find(_COUNTERS), line.rfind(pattern.behind)
                if at < 0 or end < at:
                    continue
                one, two = pattern.first(line, 0, at), pattern.second(line, end)
                if one is None or two is None:
                    continue
                groups = one.groups() + two.groups()
                self.pending[groups[pattern.attempt]] = (number, line[at:end])
            held = self.found.get(id(pattern))
            if held is None:
                self.found[id(pattern)] = (pattern, [number], list(groups))
                if pattern is not patterns[0]:
                    self.known.patterns[key] = [pattern, *(p for p in patterns if p is not pattern)]
            else:
                held[1].append(number)
                held[2].extend(groups)
            return True
        return False

    def _check(self, number: int, counters: bytes) -> None:
        """Counters that no task repeated: at least they must be JSON."""
        try:
            msgspec.json.decode(b"{" + counters[1:] + b"}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.bad.append(number)

    def learn(self, key: bytes, line: bytes) -> None:
        """Make a pattern of a line the decoder has accepted."""
        if key not in _FIELDS:
            return
        credit = self.known.credit.get(key, float(_MOST_PATTERNS))
        if credit < 1:
            return
        self.known.credit[key] = credit - 1
        made = _learn(key, line)
        if made is not None:
            self.known.patterns[key] = [made, *self.known.patterns.get(key, ())][:_MOST_PATTERNS]

    def finish(self, to: Collector, reading: Reading) -> None:
        """Add what was gathered to ``reading``, in the order of lines."""
        for number, counters in self.pending.values():
            self._check(number, counters)
        for number in sorted(self.bad):
            to.problem("bad-record", "the counters of an attempt cannot be read", line=number)
        tables: dict[str, list[_Taken]] = {}
        credit = self.known.credit
        for pattern, seqs, values in self.found.values():
            left = credit.get(pattern.key)
            if left is not None:
                credit[pattern.key] = min(float(_MOST_PATTERNS), left + len(seqs) / _EARN)
            tables.setdefault(pattern.table, []).append((pattern, seqs, values))
        for name, taken in tables.items():
            slow = reading.rows.get(name)
            reading.rows[name] = Lines(taken, dict(slow) if isinstance(slow, Mapping) else {}, to.job)


_Taken = tuple[_Pattern, list[int], list[bytes]]
"""A pattern, the numbers of the lines it took, and their values one after the other."""
_ALL = {table.name: frozenset(table.schema) for table, _, _ in _FIELDS.values()}


class Lines:
    """Rows of one table from one read: what patterns took, and ready columns of the lines that fitted none."""

    def __init__(self, taken: list[_Taken], slow: dict[str, Any], job: str | None) -> None:
        self.taken = taken
        self.slow = slow
        self.job = job
        self.columns = _ALL[taken[0][0].table]
        self.height = sum(len(seqs) for _, seqs, _ in taken) + (len(slow["seq"]) if slow else 0)

    def glue(self, table: Table, pieces: Sequence[Lines]) -> pl.DataFrame:
        """All rows as one frame: piece by piece, by line within each."""
        if len(pieces) == 1:
            plain = pieces[0].plain(table)
            if plain is not None:
                return table.frame(plain)
        by_pattern: dict[int, tuple[_Pattern, list[int], list[bytes], list[int]]] = {}
        frames = []
        for place, piece in enumerate(pieces):
            for pattern, seqs, values in piece.taken:
                found = by_pattern.get(id(pattern))
                if found is None:
                    found = by_pattern[id(pattern)] = (pattern, [], [], [])
                found[1].extend(seqs)
                found[2].extend(values)
                found[3].extend(repeat(place, len(seqs)))
        jobs = pl.Series([piece.job for piece in pieces], dtype=pl.String)
        for pattern, seqs, values, places in by_pattern.values():
            at = pl.Series("place", places, dtype=pl.UInt32)
            frames.append(table.frame(_frame(table, pattern, seqs, values, jobs.gather(at))).with_columns(at))
        slow = [(place, piece.slow) for place, piece in enumerate(pieces) if piece.slow]
        if slow:
            names = set().union(*(rows for _, rows in slow))
            counts = [len(rows["seq"]) for _, rows in slow]
            columns = {
                name: list(
                    chain.from_iterable(
                        rows.get(name) or repeat(None, n) for (_, rows), n in zip(slow, counts, strict=True)
                    )
                )
                for name in names
            }
            at = pl.Series("place", np.repeat(np.array([place for place, _ in slow], dtype=np.uint32), counts))
            frames.append(table.frame(columns).with_columns(at))
        whole = frames[0] if len(frames) == 1 else pl.concat(frames)
        return whole.sort("place", "seq", maintain_order=True).drop("place")

    def plain(self, table: Table) -> dict[str, list[Any]] | None:
        """As ``Bulk.plain``: what a growing file gives is too little to be worth queries over frames. None also where ids do
        not tell their job."""
        own = f"task_{self.job[4:]}_".encode() if self.job is not None else b""
        if self.height > _FEW or not own:
            return None
        parts: list[tuple[int, dict[str, list[Any]]]] = []
        for pattern, seqs, values in self.taken:
            made = _few(table, pattern, seqs, values, self.job, own)
            if made is None:
                return None
            parts.append((len(seqs), made))
        if self.slow:
            slow = table.frame(self.slow)
            parts.append((slow.height, slow.to_dict(as_series=False)))
        if len(parts) == 1:
            return parts[0][1]
        joined = {
            name: list(chain.from_iterable(part.get(name) or repeat(None, rows) for rows, part in parts))
            for name in table.schema
            if any(name in part for _, part in parts)
        }
        order = sorted(range(self.height), key=joined["seq"].__getitem__)
        return {name: [column[k] for k in order] for name, column in joined.items()}


_FEW = 5_000
"""Rows up to which values become columns one by one."""


def _few(
    table: Table, pattern: _Pattern, seqs: list[int], values: list[bytes], job: str | None, own: bytes
) -> dict[str, list[Any]] | None:
    """As ``_frame``, plain values of few rows of a ``job`` whose tasks' ids begin with ``own``; None if one of them does
    not."""
    width, rows = len(pattern.columns), len(seqs)
    found = {name: values[index::width] for index, name in enumerate(pattern.columns) if name}
    if not all(task.startswith(own) for task in found["task_id"]):
        return None
    columns: dict[str, Any] = {"seq": seqs, "job_id": [job] * rows}
    if table is TASK_ENDS:
        columns["has_counters"] = [pattern.counted] * rows
    if table is ATTEMPT_ENDS:
        columns["counted"] = [False] * rows
        if "clock" in found:
            parts = [found.pop(name) for name in ("clock", "cpu", "virtual", "physical") if name in found]
            columns["progress"] = [b";".join(row) for row in zip(*parts, strict=True)]
    for name, texts in found.items():
        if name in _TIMES or name in _COUNTED:
            columns[name] = list(map(int, texts))
        else:
            columns[name] = [text.decode() for text in texts]
    return columns if columns.keys() <= table.schema.keys() else None


_COUNTED = frozenset(COUNTER_COLUMNS)
_JOB = r"^(?:task|attempt|job|application|appattempt)_((?:local)?[0-9]+)_([0-9]+)(?:_|$)"


def _frame(table: Table, pattern: _Pattern, seqs: list[int], values: list[bytes], jobs: pl.Series) -> pl.DataFrame:
    """Rows of one pattern; ``jobs``: the job of each row's file, for ids that do not tell theirs."""
    width = len(pattern.columns)
    columns: dict[str, pl.Series] = {"seq": pl.Series("seq", seqs, dtype=pl.Int64)}
    for index, name in enumerate(pattern.columns):
        if name:
            columns[name] = pl.Series(name, values[index::width], dtype=pl.Binary)
    frame = pl.DataFrame(columns)
    numbers = [c for c in frame.columns if c in _TIMES or c in COUNTER_COLUMNS]
    raw = {"seq", "clock", "cpu", "virtual", "physical"}
    frame = frame.with_columns(
        pl.col(numbers).cast(pl.String).cast(pl.Int64),
        pl.col([c for c in frame.columns if c not in raw and c not in numbers]).cast(pl.String),
    )
    if table is TASK_ENDS:
        frame = frame.with_columns(has_counters=pl.lit(pattern.counted))
    if table is ATTEMPT_ENDS:
        frame = frame.with_columns(counted=pl.lit(False))
        if "clock" in columns:
            parts = [pl.col(c).cast(pl.String) for c in ("clock", "cpu", "virtual", "physical") if c in columns]
            frame = frame.with_columns(progress=pl.concat_str(parts, separator=";").cast(pl.Binary))
            frame = frame.drop([c for c in raw if c != "seq" and c in frame.columns])
    frame = frame.with_columns(jobs.alias("job_id"))
    own = pl.concat_str(pl.lit("task_"), pl.col("job_id").str.slice(4), pl.lit("_"))
    if frame.select(pl.col("task_id").str.starts_with(own).fill_null(False).all()).item():
        return frame
    told = pl.concat_str(
        pl.lit("job_"), pl.col("task_id").str.extract(_JOB, 1), pl.lit("_"), pl.col("task_id").str.extract(_JOB, 2)
    )
    # An id that begins as the job of its file does belongs to it, whatever it looks like.
    mine = pl.col("task_id").str.starts_with(own)
    return frame.with_columns(job_id=pl.when(mine).then("job_id").otherwise(pl.coalesce(told, "job_id")))


def _learn(key: bytes, line: bytes) -> _Pattern | None:
    """The pattern of a line, None if it is unlike what Hadoop writes."""
    _, names, behind = _FIELDS[key]
    line = line.rstrip()
    at, end = line.find(_COUNTERS), line.rfind(behind) if behind else -1
    if not behind:
        body, columns = _plain(line, names)
        return _made(key, body + rb"\s*", None, behind, columns, False)
    if not 0 < at < end:
        return None
    head, columns = _plain(line[:at], names)
    tail, more = _plain(line[end:], names)
    if key != b"TASK_FINISHED":
        if "attempt_id" not in columns:
            return None
        return _made(key, head, tail + rb"\s*", behind, columns + more, False)
    counters = _counters(line[at:end])
    if counters is None or more != ["chosen_id"]:
        return None
    return _made(key, head + counters[0] + tail + rb"\s*", None, behind, columns + counters[1] + more, True)


def _made(
    key: bytes, first: bytes, second: bytes | None, behind: bytes, columns: list[str], counted: bool
) -> _Pattern | None:
    wanted = [c for c in columns if c]
    if len(wanted) != len(set(wanted)) or columns[:1] != ["task_id"]:
        return None
    two = None if second is None else re.compile(second).fullmatch
    attempt = columns.index("attempt_id") if "attempt_id" in columns else -1
    return _Pattern(re.compile(first).fullmatch, two, behind, columns, counted, attempt, key, _FIELDS[key][0].name)


def _plain(part: bytes, names: dict[str, str]) -> tuple[bytes, list[str]]:
    """Pattern and columns of a piece of a line without counters: every text, whole number and array is free."""
    pieces: list[bytes] = []
    columns: list[str] = []
    at = 0
    name = b""
    for token in _TOKEN.finditer(part):
        text, (begin, end) = token.group(), token.span()
        if text[:1] == b'"' and part[end : end + 1] == b":":
            if text != b'"string"':
                name = text[1:-1]
            continue
        if name == b"type":
            continue
        if text[:1] == b'"':
            free = (part[at : begin + 1], _TEXT, end - 1)
        elif text[:1] == b"[":
            free = (part[at:begin], _ARRAY, end)
        elif text.isdigit():
            free = (part[at:begin], _TIME, end)
        else:
            continue
        pieces += [re.escape(free[0]), free[1]]
        at = free[2]
        columns.append(names.get(name.decode("ascii", "replace"), ""))
    return b"".join(pieces) + re.escape(part[at:]), columns


def _counters(part: bytes) -> tuple[bytes, list[str]] | None:
    """Pattern and columns of ``,"counters":{...}``; None where a counter needs the long way."""
    try:
        found = msgspec.json.decode(b"{" + part[1:] + b"}", type=_Part).counters
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    pieces: list[bytes] = []
    columns: list[str] = []
    at = 0
    spots = list(_SPOT.finditer(part))
    named = [(group.name, counter.name) for group in found.groups or () for counter in group.counts]
    if len(spots) != len(named):
        return None
    for spot, (group, counter) in zip(spots, named, strict=True):
        index = OFFICIAL.get(group)
        column = -1 if index is None else index.get(counter, -1)
        if index is None and counter in ANYWHERE:
            return None
        pieces += [re.escape(part[at : spot.start(1)]), b"(" + _VALUE + b")" if column >= 0 else _VALUE]
        if column >= 0:
            columns.append(COUNTER_COLUMNS[column])
        at = spot.end(1)
    return b"".join(pieces) + re.escape(part[at:]), columns


_SPOT = re.compile(rb'"value":(-?\d+)')


class _Part(msgspec.Struct):
    counters: Counters
