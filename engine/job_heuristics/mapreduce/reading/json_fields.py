"""Access to decoded JSON of unknown origin, field by field."""

from __future__ import annotations

from typing import Any

from engine.job_heuristics.mapreduce.reading.event_collector import Collector, job_of


class JsonFields:
    """Typed access to one decoded object: a value of another type becomes a problem and counts as absent."""

    def __init__(self, to: Collector, value: dict[str, Any]) -> None:
        self.to = to
        self.value = value

    def text(self, key: str) -> str | None:
        """Return a string, or None."""
        value = self.value.get(key)
        if value is None or isinstance(value, str):
            return value
        self.to.problem("bad-field", f"{key} is no text")
        return None

    def id(self, key: str, what: str) -> str | None:
        """Return an id that holds a job's; without one ``what`` becomes a problem."""
        value = self.text(key)
        if value is not None and job_of(value) is not None:
            return value
        self.to.problem("bad-record", what)
        return None

    def number(self, key: str, low: int = -1, high: int = 2**53) -> int | None:
        """Return an integer within bounds (defaults: those of a time), or None."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value == value and abs(value) < 2**53 and value == int(value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.to.problem("bad-number", f"{key} is no number between {low} and {high}")
        return None

    def time(self, key: str) -> int | None:
        """Return a time (epoch ms), or None: 0 and -1 mean that it was not set."""
        value = self.number(key)
        return value if value is not None and value > 0 else None
