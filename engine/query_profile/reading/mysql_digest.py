"""Read MySQL and MariaDB digest dumps (events_statements_summary_by_digest), tab-separated or CSV.

Source: the MySQL documentation, "Statement Summary Tables" (columns, timers in picoseconds, the row of NULL).
"""

from __future__ import annotations

from typing import Any

from engine.core.problems import not_utf8
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.formats.delimited import header_fields, records
from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.snapshots import TIME_COLUMNS, SnapshotRows, class_key
from engine.query_profile.tables import SNAPSHOTS

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
        rows.problems += not_utf8(source.path, data)
        timed: str | None = None
        for line, row in records(source, data, rows.problems, final):
            if row is None:
                rows.next_part()
                continue
            timed = timed or next((name for name in TIME_COLUMNS if name in row), None)
            values = rows.counters(row, line, COUNTERS, "count_star", ("sum_timer_wait",))
            if values is None:
                continue
            digest = "" if row.get("digest", "") in ("NULL", "\\N", "") else row["digest"]
            schema = "" if row.get("schema_name") in (None, "NULL", "\\N") else row["schema_name"]
            query = row.get("digest_text", "")
            rows.add(
                row,
                line,
                timed,
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
        return rows.reading(timed=timed is not None)
