"""Collect the statements of a log: sums per second and class, and each long statement by itself."""

from __future__ import annotations

from typing import Any

from engine.core.reading import Problem, Problems, Reading, Source, clean
from engine.formats.sql_text import fingerprint, query_hash
from engine.formats.timestamps import name_stem
from engine.query_profile.reading.collected_rows import STEM, class_key

SECOND = 1000
"""Milliseconds per bucket of statements; longer ones stay by themselves."""

KNOWN, LONGEST_KNOWN = 1000, 2000
"""Statements whose class is remembered, and their most characters."""


class Statements:
    """The ``interval_classes`` rows of one reading of a log of kind ``system``. ``spread``: long statements belong to all seconds
    that they ran, else to the one they ended in."""

    def __init__(self, source: Source, system: str, *, spread: bool = False) -> None:
        self.source = source
        self.system = system
        self.spread = spread
        self.problems: list[Problem] = Problems()
        self._groups: dict[tuple[Any, ...], list[float]] = {}
        self._known: dict[str, str] = {}

    def problem(self, kind: str, reason: str, line: int | None = None) -> None:
        """Note a problem of the file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line))

    def add(
        self,
        end_ms: int | None,
        seconds: float,
        text: str,
        owner: tuple[str, str],
        *,
        calls: float = 1.0,
        rows: float = 0.0,
        errors: float = 0.0,
        lock_s: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """Add a statement that ended at ``end_ms`` (None: unknown) of ``owner``: user and database. It stands for ``rate``."""
        folded = self._known.get(text)
        if folded is None:
            folded = fingerprint(text)
            if len(text) <= LONGEST_KNOWN and len(self._known) < KNOWN:
                self._known[text] = folded
        stretch: tuple[int | None, int | None] = (None, None)
        if end_ms is not None:
            second = end_ms // SECOND * SECOND
            long = self.spread and seconds * 1000 > SECOND
            stretch = (round(end_ms - seconds * 1000), end_ms) if long else (second, second + SECOND)
        sums = self._groups.setdefault((*stretch, folded, *owner), [0.0] * 5)
        for i, value in enumerate((calls, seconds * 1e6, rows, errors, lock_s * 1e6)):
            sums[i] += value * rate

    def put(self, reading: Reading) -> Reading:
        """Put the rows and problems into ``reading``."""
        reading.problems += self.problems
        if not self._groups:
            return reading
        starts, ends, texts, users, databases = map(list, zip(*self._groups, strict=True))
        hashes = [query_hash(text) for text in texts]
        names = ("calls", "time_us", "rows", "errors", "lock_us")
        reading.rows["interval_classes"] = {
            "series": [STEM + clean(name_stem(self.source.name))] * len(hashes),
            "key": [class_key(*parts) for parts in zip(hashes, users, databases, strict=True)],
            "queryid": hashes,
            "query": [clean(text) for text in texts],
            "user": [clean(user) for user in users],
            "database": [clean(database) for database in databases],
            "system": [self.system] * len(hashes),
            "start_ms": starts,
            "end_ms": ends,
            **dict(zip(names, map(list, zip(*self._groups.values(), strict=True)), strict=True)),
        }
        return reading
