"""Read logs that something else carries as texts of JSON or CSV: CloudWatch, RDS, Cloud Logging, Azure, Docker, journald."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.core.reading import HEAD, Document, Problem, Problems, Reading, Source
from engine.core.tables import Table
from engine.formats.delimited import records
from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.mysql import SlowLog
from engine.query_profile.reading.postgres_log import PostgresCsv, PostgresJson, PostgresStderr
from engine.query_profile.reading.statements import CARRIERS, loaded
from engine.query_profile.tables import INTERVALS_IN

TEXTS = ("message", "@message", "textPayload", "LogFileData", "log", "MESSAGE")
"""Names of the text that a carrier gives to a log's lines."""

MOMENTS = ("timestamp", "@timestamp", "time")
"""Names of its moment."""

DEEPEST = 8
"""Levels of objects and lists that carriers put around an event."""

_TEXT = re.compile(rb'"(?:@?message|textPayload|LogFileData|log|MESSAGE)"|@?timestamp"?,"?@?message', re.IGNORECASE)


class CarriedLog(Document):
    """Events of ``aws logs``, ``aws rds download-db-log-file-portion``, ``gcloud logging read``, Docker's and journald's JSON."""

    id = "cloudwatch-events"
    title = (
        "MySQL slow log or PostgreSQL log inside JSON or CSV (CloudWatch, RDS, Cloud Logging, Azure, Docker, journald)"
    )
    version = 2
    tables: tuple[Table, ...] = (INTERVALS_IN,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise events whose texts are lines of these logs."""
        logs = (b"# Query_time:", b"# User@Host:", b"LOG:  ")
        return (
            CARRIERS.match(head) is not None
            and _TEXT.search(head) is not None
            and any(mark in head for mark in logs)
            and b'"error_severity"' not in head
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Unwrap the texts in order of time, and read them as the log that they are."""
        problems: list[Problem] = Problems()
        if data.lstrip()[:1] in (b"{", b"["):
            value = loaded(source, data, problems)
            if isinstance(value, Reading):
                return value
        else:
            value = [row for _, row in records(source, data, problems, final) if row is not None]
        events = list(_events(value, DEEPEST))
        if all(at_ms is not None for at_ms, _ in events):
            events.sort(key=lambda event: event[0] or 0)
        text = "".join(text for _, text in events).encode("utf-8", "surrogatepass")
        kinds = (SlowLog(), PostgresCsv(), PostgresJson())
        kind = next((each for each in kinds if each.recognise(source.name, text[:HEAD])), PostgresStderr())
        reading = kind.read(source, text, None, True)
        reading.problems += problems
        reading.consumed, reading.state = 0, None
        return reading


def _events(value: Any, deepest: int) -> Iterator[tuple[int | None, str]]:
    """Yield moment (a number in the order of time) and text of the events in ``value``, at most ``deepest`` levels down."""
    if isinstance(value, list) and deepest:  # Logs Insights names each field of an event in an object of its own
        fields = {each["field"]: each.get("value") for each in value if isinstance(each, dict) and "field" in each}
        for each in [fields] if fields else value:
            yield from _events(each, deepest - 1)
    elif isinstance(value, dict) and deepest:
        name = next((name for name in TEXTS if isinstance(value.get(name), str)), None)
        if name is None:
            for each in value.values():
                yield from _events(each, deepest - 1)
            return
        text = value[name]
        moment = next((value[each] for each in MOMENTS if each in value), "")
        at = moment if isinstance(moment, int) else instant_ms(str(moment))
        yield at, text if (name == "log" or text.endswith("\n")) else f"{text.rstrip()}\n"
