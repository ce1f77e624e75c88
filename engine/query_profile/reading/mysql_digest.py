"""Read MySQL and MariaDB digest dumps (events_statements_summary_by_digest), tab-separated or CSV.

Source: the MySQL documentation, "Statement Summary Tables" (columns, timers in picoseconds, the row of NULL).
"""

from __future__ import annotations

import math
from typing import Any

from engine.formats.delimited import header_fields, records
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.problems import Problem
from engine.query_profile.reading.pgss import HOST_COLUMNS, TIME_COLUMNS
from engine.query_profile.reading.snapshots import SnapshotRows, number
from engine.query_profile.tables import SNAPSHOTS
from engine.reading import Reading, Source
from engine.tables import Table

PICO = 1e-6
"""Microseconds per picosecond, the unit of every timer column."""

CATCH_ALL = "(digest table full)"
"""Text of the row without a digest: all statements that found no room in the table."""

COUNTERS = (
    "count_star", "sum_timer_wait", "sum_lock_time", "sum_errors", "sum_warnings", "sum_rows_affected",
    "sum_rows_sent", "sum_rows_examined", "sum_created_tmp_disk_tables", "sum_created_tmp_tables",
    "sum_select_full_join", "sum_select_full_range_join", "sum_select_range", "sum_select_range_check",
    "sum_select_scan", "sum_sort_merge_passes", "sum_sort_range", "sum_sort_rows", "sum_sort_scan",
    "sum_no_index_used", "sum_no_good_index_used", "sum_cpu_time", "count_secondary",
)  # fmt: skip
"""Columns that can only grow."""


class MysqlDigest:
    """``SELECT * FROM performance_schema.events_statements_summary_by_digest``, one snapshot per file or several."""

    id = "mysql-digest"
    title = "MySQL or MariaDB statement digests (TSV or CSV)"
    append = False
    version = 1
    tables: tuple[Table, ...] = (SNAPSHOTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise its column names."""
        return {"digest", "count_star", "sum_timer_wait"} <= set(header_fields(head))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows of cumulative counters; picoseconds become microseconds."""
        rows = SnapshotRows(source, "mysql")
        timed: str | None = None
        for line, row in records(source, data, rows.problems, final):
            if row is None:
                rows.next_part()
                continue
            timed = timed or next((name for name in TIME_COLUMNS if name in row), None)
            try:
                counters = [number(row.get(name)) for name in COUNTERS]
            except ValueError as error:
                rows.problems.append(Problem.at(source.path, "bad-number", f"{error}; the row is left out", line=line))
                continue
            values = dict(zip(COUNTERS, counters, strict=True))
            if math.isnan(values["count_star"]) or math.isnan(values["sum_timer_wait"]):
                rows.problems.append(
                    Problem.at(source.path, "bad-record", "a row without count or time; the row is left out", line=line)
                )
                continue
            if any(value < 0 for value in counters):
                rows.problems.append(
                    Problem.at(source.path, "negative-value", "a negative counter; the row is left out", line=line)
                )
                continue
            at_ms = instant_ms(row[timed]) if timed else None
            if timed and at_ms is None:
                rows.problems.append(
                    Problem.at(
                        source.path, "bad-time", f"{row[timed][:40]!r} is no time; the row is left out", line=line
                    )
                )
                continue
            digest = "" if row.get("digest", "") in ("NULL", "\\N", "") else row["digest"]
            schema = "" if row.get("schema_name") in (None, "NULL", "\\N") else row["schema_name"]
            query = row.get("digest_text", "")
            sent, affected = values["sum_rows_sent"], values["sum_rows_affected"]
            rows.add(
                key=f"{digest}\x1f{schema}",
                series="/".join(row[name] for name in HOST_COLUMNS if row.get(name)),
                at_ms=at_ms,
                timed=timed is not None,
                queryid=digest,
                query=(CATCH_ALL if not digest else "") if query in ("NULL", "\\N", "") else query,
                user="",
                database=schema,
                nested=False,
                since_ms=instant_ms(row.get("first_seen", "")),
                calls=values["count_star"],
                time_us=values["sum_timer_wait"] * PICO,
                rows=None if math.isnan(sent + affected) else sent + affected,
                errors=None if math.isnan(values["sum_errors"]) else values["sum_errors"],
                lock_us=None if math.isnan(values["sum_lock_time"]) else values["sum_lock_time"] * PICO,
                cpu_us=None if math.isnan(values["sum_cpu_time"]) else values["sum_cpu_time"] * PICO,
                counters=counters,
            )
        reading = rows.reading(name_instant_ms(source.name) or source.mtime_ms)
        if rows.part > 0 and timed is None:
            reading.problems.append(
                Problem.at(
                    source.path,
                    "no-time",
                    f"{rows.part + 1} snapshots one after another without a time column: their order is known, their "
                    "times are not",
                )
            )
        return reading
