"""The rows and problems that reading one log has given so far."""

from __future__ import annotations

from typing import Any

from engine.core.problems import Problem, Problems
from engine.core.reading import Reading
from engine.core.tables import Rows
from engine.core.text import clean
from engine.job_heuristics.spark.reading.decoding import NO_EVENT
from engine.job_heuristics.spark.tables import input as tables

MOST_TEXT = 600
"""Characters of an error or description that are kept."""


class Gathered:
    """Gathers the rows of what is read of one log at once. ``line`` is the number of the event at hand."""

    def __init__(self, path: str, line: int) -> None:
        self.path, self.line = path, line
        self.problems: list[Problem] = Problems()
        self.rows: dict[str, list[tuple[Any, ...]]] = {table.name: [] for table in tables.SPARK_INPUTS}
        self._names: dict[str, str] = {}

    def problem(self, kind: str, reason: str) -> None:
        """Note what is wrong with the line at hand."""
        self.problems.append(Problem.at(self.path, kind, reason, line=self.line))
        if kind == NO_EVENT:  # Spark's own reader would stop there
            self.app_event("BAD", name=f"line {self.line} is no event")

    def app_event(self, word: str, **fields: Any) -> None:
        """Add a row of SPARK_EVENTS."""
        names = ("time_ms", "app_id", "attempt", "name", "user", "version", "number", "cpus")
        self._add(tables.SPARK_EVENTS.name, word, *(fields.get(name) for name in names))

    def finish(self) -> None:
        """Add what had to wait for the end of what is read at once."""

    def reading(self, consumed: int, state: Any) -> Reading:
        """Return what was gathered."""
        self.finish()
        rows: dict[str, Rows] = {}
        for table in tables.SPARK_INPUTS:
            if made := self.rows[table.name]:
                names = [name for name in table.schema.names() if name != "log"]
                rows[table.name] = dict(zip(names, zip(*made, strict=True), strict=True))
        return Reading(rows, self.problems, consumed, state)

    def _add(self, table: str, *cells: Any) -> None:
        self.rows[table].append((self.line, *cells))

    def _name(self, text: str) -> str:
        """Return a name of a host or executor, cleaned; each is looked at once."""
        name = self._names.get(text)
        if name is None:
            if len(self._names) > 100_000:
                self._names.clear()
            name = "driver" if text == "<driver>" else clean(text, 300)
            self._names[text] = name
        return name
