"""Read ``pt-query-digest --output json``: one file is one stretch of time."""

from __future__ import annotations

from typing import Any

from engine.core.problems import Problem
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats import json_text
from engine.formats.timestamps import instant_ms, name_stem, old_mysql_ms
from engine.query_profile.reading.resource_rows import finite
from engine.query_profile.tables import INTERVALS_IN


class PtQueryDigest:
    """Classes with sums of one stretch of time (all numbers are texts, times in seconds)."""

    id = "pt-query-digest"
    title = "pt-query-digest --output json"
    append = False
    version = 1
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise JSON with classes that have fingerprints and checksums."""
        return head.lstrip()[:1] == b"{" and (
            (b'"classes"' in head and (b'"checksum"' in head or b'"fingerprint"' in head))
            or (b'"global"' in head and b'"query_count"' in head and b'"unique_query_count"' in head)
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per class."""
        document = json_text.decode(source, data, records=(2,))
        if isinstance(document, Reading):
            return document
        classes = document.value.get("classes") if isinstance(document.value, dict) else None
        if not isinstance(classes, list):
            problem = Problem.at(source.path, "bad-json", "no pt-query-digest answer: it has no list of classes")
            return Reading(problems=[problem], complete=False)
        reading = Reading()
        reading.problems += document.problems
        rows: dict[str, list[Any]] = {name: [] for name in INTERVALS_IN.schema}
        stamps: list[int] = []
        for number, item in enumerate(classes, 1):
            if item is None and document.bad:
                continue
            try:
                metrics = item["metrics"]
                time_us = _sum(metrics, "Query_time") * 1e6
                calls = finite(item["query_count"])
                if calls < 0 or time_us < 0:
                    raise ValueError("a count or time that is negative")
                rows_sent = _sum(metrics, "Rows_sent", 0.0) + _sum(metrics, "Rows_affected", 0.0)
                lock_us = _sum(metrics, "Lock_time", 0.0) * 1e6
                for name in ("ts_min", "ts_max"):
                    stamp = _stamp(str(item.get(name, "")))
                    if stamp is not None:
                        stamps.append(stamp)
                checksum = str(item.get("checksum", "")) or str(item["fingerprint"])[:64]
                user = str((metrics.get("user") or {}).get("value", ""))
                database = str((metrics.get("db") or {}).get("value", ""))
                query = str(item.get("fingerprint", ""))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                reading.problems.append(
                    Problem.at(source.path, "bad-record", f"class {number}: {error}; it is left out")
                )
                continue
            row = {
                "series": "~" + clean(name_stem(source.name)),
                "key": clean(checksum),
                "queryid": clean(checksum),
                "query": clean(query),
                "user": clean(user),
                "database": clean(database),
                "system": "pt-query-digest",
                "calls": calls,
                "time_us": time_us,
                "rows": rows_sent,
                "lock_us": lock_us,
            }
            for name, column in rows.items():
                column.append(row.get(name))
        count = len(rows["key"])
        if stamps:
            rows["start_ms"] = [min(stamps)] * count
            rows["end_ms"] = [max(stamps) + 1000] * count
        reading.rows["interval_classes"] = rows
        return reading


def _sum(metrics: dict[str, Any], name: str, default: float | None = None) -> float:
    """Return the sum of a metric, or ``default``. Raises ValueError without either."""
    metric = metrics.get(name)
    if not isinstance(metric, dict) or "sum" not in metric:
        if default is None:
            raise ValueError(f"no {name} sum")
        return default
    return finite(metric["sum"])


def _stamp(text: str) -> int | None:
    at_ms = instant_ms(text)
    return at_ms if at_ms is not None else old_mysql_ms(text)
