"""Read PostgreSQL snapshots: pg_stat_statements, its info view, pg_stat_kcache, and the names behind ids.

pg_stat_statements comes as CSV of any extension version (1.1 to 1.12) or as JSON. pg_stat_kcache counts CPU seconds; from 2.2
on it separates planning from execution and marks nested statements. Sources: the PostgreSQL documentation
("pg_stat_statements", "pg_roles", "pg_user", "pg_database") and that of pg_stat_kcache.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from engine.core.reading import Document, Reading, Source, clean
from engine.core.tables import Table
from engine.formats import json_text
from engine.formats.delimited import header_fields
from engine.formats.sql_text import fingerprint
from engine.formats.timestamps import instant_ms, name_instant_ms, name_stem
from engine.query_profile.reading.collected_rows import (
    HIDDEN,
    STEM,
    TIME_COLUMNS,
    Bad,
    Headed,
    Known,
    SnapshotRows,
    TableRows,
    class_key,
    counters,
    number,
    text_key,
    time_column,
)
from engine.query_profile.tables import INTERVALS_IN, SERVER_NAMES, SNAPSHOT_INFO, SNAPSHOTS

COUNTERS = (
    "plans", "total_plan_time", "calls", "total_time", "total_exec_time", "rows",
    "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written",
    "local_blks_hit", "local_blks_read", "local_blks_dirtied", "local_blks_written", "temp_blks_read",
    "temp_blks_written", "blk_read_time", "blk_write_time", "shared_blk_read_time", "shared_blk_write_time",
    "local_blk_read_time", "local_blk_write_time", "temp_blk_read_time", "temp_blk_write_time",
    "wal_records", "wal_fpi", "wal_bytes", "wal_buffers_full", "jit_functions", "jit_generation_time",
    "jit_inlining_count", "jit_inlining_time", "jit_optimization_count", "jit_optimization_time",
    "jit_emission_count", "jit_emission_time", "jit_deform_count", "jit_deform_time",
    "parallel_workers_to_launch", "parallel_workers_launched",
)  # fmt: skip
"""Columns that can only grow, across all versions; times in milliseconds."""

_IO = (
    "blk_read_time", "blk_write_time", "shared_blk_read_time", "shared_blk_write_time", "local_blk_read_time",
    "local_blk_write_time", "temp_blk_read_time", "temp_blk_write_time",
)  # fmt: skip
_ROUNDED_TEXT = re.compile(r"-?\d+(?:\.\d+)?[eE]\+?\d+|-?\d+\.0*")


_INSIGHTS = re.compile(
    rb'"MetricList"|\bdb\.(?:load|sql(?:_tokenized)?)\b|\bDBLoad(?:CPU|NonCPU|RelativeToNumVCPUs)?\b'
)
_NOT_TOLD = (
    "calls and times of each statement, which Performance Insights does not tell (it counts sessions); every minute: psql -qc "
    '"copy (select now() captured_at, s.* from pg_stat_statements s) to stdout csv header" > pgss-$(date +%s).csv; '
    "for MySQL and MariaDB: loadlens feeds query-profile"
)


def _false(value: Any) -> bool:
    return str(value).lower() in ("f", "false", "0")


class _Pgss(Document):
    tables: tuple[Table, ...] = (SNAPSHOTS,)

    def _add(self, rows: SnapshotRows, line: int | None, row: dict[str, Any], rounded: bool) -> None:
        """Add a row of the view. ``rounded``: query ids were rounded and do not identify classes."""
        values = counters(row, COUNTERS, "calls", ("total_exec_time", "total_time"))
        time_ms = values["total_exec_time"] if not math.isnan(values["total_exec_time"]) else values["total_time"]
        io_ms = [values[name] for name in _IO if not math.isnan(values[name])]
        query, queryid = str(row.get("query") or ""), str(row.get("queryid") or "")
        if query == HIDDEN:
            reason = (
                "the role that asked may not see other users' statements: GRANT pg_read_all_stats TO it; until then they are "
                "one class per user and database"
            )
            rows.problem("insufficient-privilege", reason, line)
        identity = str(row.get("md5") or "") or text_key(query) if rounded or queryid in ("", "0", "NULL") else queryid
        user = str(row.get("usename") or row.get("rolname") or row.get("user") or row.get("userid") or "")
        database = str(row.get("datname") or row.get("database") or row.get("dbid") or "")
        nested = _false(row.get("toplevel"))
        owner = (str(row.get("userid", user)), str(row.get("dbid", database)))
        rows.add(
            row,
            line,
            key=class_key(identity, *owner, "n" if nested else "t"),
            queryid=queryid,
            query=query,
            user=user,
            database=database,
            nested=nested,
            since_ms=instant_ms(str(row["stats_since"])) if row.get("stats_since") else None,
            calls=values["calls"],
            time_us=time_ms * 1000,
            rows=values["rows"],
            io_us=sum(io_ms) * 1000 if io_ms else None,
            cpu_us=_own_cpu(row),
            counters=list(values.values()),
        )


def _own_cpu(row: dict[str, Any]) -> float | None:
    """Return the CPU in microseconds of a row joined with pg_stat_kcache; None without one."""
    try:
        return _cpu_us(row)
    except (ValueError, TypeError):
        return None


class PgssCsv(Headed, _Pgss):
    """``COPY (SELECT * FROM pg_stat_statements) TO ... CSV HEADER``, one snapshot per file or several one after another."""

    id = "pgss-csv"
    title = "pg_stat_statements snapshots (CSV)"
    marks = ("calls", "total_exec_time|total_time", "queryid|query")
    without = frozenset({"bucket_start_time"})

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return what Performance Insights (``aws pi``, or its metrics in CloudWatch) does not tell, and what does."""
        return (0.9, _NOT_TOLD) if _INSIGHTS.search(head) is not None else super().lacks(head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows of cumulative counters."""
        rows = self._rows(source, data, final, ())
        rounded = _rounded(rows.queryids)
        if rounded:  # rare: read again instead of holding all rows of a large file until this is known
            rows = self._rows(source, data, final, rounded)
        return rows.reading()

    def _rows(self, source: Source, data: bytes, final: bool, rounded: Sequence[str]) -> SnapshotRows:
        """Collect the rows. ``rounded``: query ids that were rounded, if they do not identify classes."""
        rows = SnapshotRows(source, "postgresql")
        _report_rounded(rows, rounded)
        for line, row in rows.records(data, final):
            with rows.attempt(line):
                self._add(rows, line, row, bool(rounded))
        return rows


class PgssJson(Known, _Pgss):
    """Snapshots as JSON: postgres-checkup's files, arrays of rows, or one row object per line."""

    id = "pgss-json"
    title = "pg_stat_statements snapshots (JSON)"
    known = re.compile(rb'\A\s*+[{[](?=.*"calls")(?=.*"total_(?:exec_)?time")(?!.*"diff_)', re.DOTALL)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows of cumulative counters; ids that a JSON tool rounded do not identify classes."""
        rows = SnapshotRows(source, "postgresql")
        items, moment = json_text.lines(source.path, data, rows.problems), None
        if items is None:
            document = json_text.decode(source, data, records=(1,) if data.lstrip()[:1] == b"[" else (2, 1))
            if isinstance(document, Reading):
                return document
            items, moment = _items(rows, document)
        items = [{str(k).lower(): v for k, v in item.items()} for item in items]
        rounded = _rounded([str(item.get("queryid", "")) for item in items])
        _report_rounded(rows, rounded)
        rows.timed = time_column(items[0]) if items else None
        for item in items:
            with rows.attempt(None):
                self._add(rows, None, item, bool(rounded))
        return rows.reading(moment)


def _items(rows: SnapshotRows, document: json_text.Document) -> tuple[list[dict[str, Any]], int | None]:
    """Return the row objects of a JSON document and its own time, if any; other elements become problems."""
    moment: int | None = None
    value = document.value
    rows.problems += document.problems
    if isinstance(value, dict):
        times = ("snapshot_timestamptz", *TIME_COLUMNS)
        stamp = next((value[name] for name in times if isinstance(value.get(name), str)), None)
        moment = instant_ms(stamp) if stamp is not None else None
        value = value.get("queries", value.get("rows", value))
        # in an object of rows by name, other values are metadata (such as the time)
        value = [item for item in value.values() if isinstance(item, dict)] if isinstance(value, dict) else value
    several = value if isinstance(value, list) else [value]
    items = [item for item in several if isinstance(item, dict)]
    others = len(several) - len(items) - document.bad
    if others > 0:
        rows.problem("bad-record", "an element that is no row", count=others)
    return items, moment


class PgssInfo(Headed):
    """``pg_stat_statements_info`` with a time in front: evictions and resets."""

    id = "pgss-info"
    title = "pg_stat_statements_info (CSV)"
    tables: tuple[Table, ...] = (SNAPSHOT_INFO,)
    columns = ("dealloc", "stats_reset")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per query of the view."""
        rows = TableRows(source, SNAPSHOT_INFO)
        for line, row in rows.records(data, final):
            with rows.attempt(line, words="{}"):
                timed = time_column(row)
                at_ms = instant_ms(row[timed]) if timed else name_instant_ms(source.name) or source.mtime_ms
                dealloc = number(row.get("dealloc"))
                if at_ms is None:
                    raise Bad("bad-time", "no time in this row")
                rows.add(at_ms, None if math.isnan(dealloc) else dealloc, instant_ms(row.get("stats_reset", "")))
        return rows.reading()


def _rounded(ids: Sequence[str]) -> list[str]:
    """Return the 64-bit ids that were rounded to a double, if most were and ids do not identify classes; else an empty list."""
    large = [text for text in ids if len(text.lstrip("-")) > 16 or "e" in text.lower()]
    # A number too large for a 64-bit id is damaged and no sign of rounding.
    odd = [
        text for text in large if (_ROUNDED_TEXT.fullmatch(text) and abs(float(text)) < 2**64) or text.endswith("00")
    ]
    return (
        []
        if len(odd) * 2 <= len(large) or (len(large) < 3 and not any("e" in t.lower() or "." in t for t in large))
        else odd
    )


def _report_rounded(rows: SnapshotRows, ids: Sequence[str]) -> None:
    """Note that rounded ids do not identify classes."""
    if ids:
        reason = f"query ids such as {ids[0]} were rounded to a double by some tool: classes are joined by query text instead"
        rows.problem("rounded-queryid", reason, count=len(ids))


KCACHE = "pg_stat_kcache"
"""System of these snapshots: they have CPU only and are joined with those of pg_stat_statements."""
_CPU = ("exec_user_time", "exec_system_time", "plan_user_time", "plan_system_time", "user_time", "system_time")
"""Columns of CPU seconds, of all versions."""


def _cpu_us(row: dict[str, Any]) -> float | None:
    """Return the CPU of a row in microseconds, None without any. Raises ValueError for values that are no numbers."""
    found = [value for name in _CPU if name in row and not math.isnan(value := number(row[name]))]
    if any(value < 0 for value in found):
        raise ValueError("a negative counter")
    return sum(found) * 1e6 if found else None


class KcacheCsv(Headed):
    """``COPY (SELECT now() captured_at, k.* FROM pg_stat_kcache() k) TO ... CSV HEADER``, one snapshot per file or several."""

    id = "pg-stat-kcache"
    title = "pg_stat_kcache snapshots (CSV)"
    marks = ("queryid", "exec_user_time|user_time")
    tables: tuple[Table, ...] = (SNAPSHOTS,)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the CPU of each class."""
        rows = SnapshotRows(source, KCACHE)
        for line, row in rows.records(data, final):
            with rows.attempt(line):
                cpu = _cpu_us(row)
                if cpu is None or not row.get("queryid"):
                    raise Bad("bad-record", "a row without query id or CPU; the row is left out")
                nested = _false(row.get("top"))
                owner = (str(row.get("userid", "")), str(row.get("dbid", "")))
                key = class_key(row["queryid"], *owner, "n" if nested else "t")
                rows.add(row, line, key=key, queryid=row["queryid"], query="", user=owner[0], database=owner[1],
                         nested=nested, cpu_us=cpu, counters=[cpu])  # fmt: skip
        return rows.reading()


BUCKET_MS = 60_000  # usual length of a bucket (pgsm_bucket_time)


class PgStatMonitor(Headed):
    """``COPY (SELECT * FROM pg_stat_monitor) TO ... CSV HEADER``: a bucket is an interval, with the CPU of each class."""

    id = "pg-stat-monitor"
    title = "pg_stat_monitor (CSV)"
    marks = ("bucket_start_time", "bucket", "calls")
    without = frozenset()
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the work of each class in each bucket; clients, applications and plans of a class add up."""
        rows = TableRows(source, INTERVALS_IN)
        sums: dict[tuple[int, str], list[float]] = {}
        about: dict[str, tuple[str, ...]] = {}
        for line, row in rows.records(data, final):
            if _false(row.get("toplevel")) or row.get("top_queryid"):
                continue
            with rows.attempt(line):
                start = instant_ms(row.get("bucket_start_time") or "")
                times = [number(row.get(name)) for name in ("total_exec_time", "total_time", "total_plan_time")]
                cpu = number(row.get("cpu_user_time")) + number(row.get("cpu_sys_time"))
                work = [number(row.get("calls")), float(np.nansum(times)) * 1000, number(row.get("rows")), cpu * 1000]
                if start is None or not work[0] >= 0 or work[1] < 0:
                    raise Bad("bad-record", "a row without bucket or calls")
                query = fingerprint(row.get("query") or "", postgres=True)
                queryid = row.get("queryid") or row.get("pgsm_query_id") or text_key(query)
                owner = (
                    row.get("username") or row.get("userid") or row.get("user") or "",
                    row.get("datname") or row.get("dbid") or "",
                )
                key = class_key(queryid, *owner)
                about.setdefault(key, (queryid, query, *owner))
                sums[start, key] = [a + b for a, b in zip(sums.get((start, key), [0.0] * 4), work, strict=True)]
        width = min((b - a for a, b in pairwise(sorted({start for start, _ in sums}))), default=BUCKET_MS)
        columns: dict[str, Any] = {name: [clean(about[key][i]) for _, key in sums] for i, name in enumerate(_ABOUT)}
        columns |= dict(
            zip(("calls", "time_us", "rows", "cpu_us"), map(list, zip(*sums.values(), strict=True)), strict=False)
        )
        columns |= {
            "series": [STEM + clean(name_stem(source.name))] * len(sums),
            "key": [key for _, key in sums],
            "system": [self.id] * len(sums),
            "start_ms": [start for start, _ in sums],
            "end_ms": [start + width for start, _ in sums],
        }
        return Reading(rows={"interval_classes": columns} if sums else {}, problems=rows.problems)


_ABOUT = ("queryid", "query", "user", "database")
_NAME_COLUMNS = (("user", "oid", "rolname"), ("user", "usesysid", "usename"), ("database", "oid", "datname"))
"""What a table names, and its columns of ids and names."""


class PgNames(Document):
    """``COPY (SELECT oid, rolname FROM pg_roles) TO ... CSV HEADER``, and the same of ``pg_user`` and ``pg_database``."""

    id = "pg-names"
    title = "Names of PostgreSQL's roles or databases (CSV of pg_roles, pg_user, pg_database)"
    tables: tuple[Table, ...] = (SERVER_NAMES,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the columns of ids and names, without any that counts."""
        fields = set(header_fields(head))
        return any({number, text} <= fields for _, number, text in _NAME_COLUMNS) and "calls" not in fields

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per role or database."""
        rows = TableRows(source, SERVER_NAMES)
        for line, row in rows.records(data, final):
            for what, id_column, text in _NAME_COLUMNS:
                if id_column not in row or text not in row:
                    continue
                if row[id_column].isascii() and row[id_column].isdecimal() and row[text]:
                    rows.add(what, row[id_column], clean(row[text]))
                else:
                    rows.problem("bad-row", "no id or no name", line)
        return rows.reading()
