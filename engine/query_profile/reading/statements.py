"""Collect the statements of a log: sums per second and class, and each long statement by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from engine.core.reading import Problem, Reading, Source, clean
from engine.formats import json_text
from engine.formats.sql_text import fingerprint, query_hash, shape
from engine.formats.timestamps import name_stem
from engine.query_profile.reading.collected_rows import STEM, Rows, class_key

SECOND = 1000
"""Milliseconds per bucket of statements; longer ones stay by themselves."""

KNOWN, LONGEST_KNOWN = 2000, 4000
"""Shapes of statements whose class is remembered, and their most characters."""

SESSIONS, MOST_INSIDE, CARRIED = 500, 1000, 20
"""Sessions whose statements may turn out to have run inside another, and how many of each: within a reading, and to the next."""

NOTHING = 1e-3
"""Sums of a group that was taken back: calls, or microseconds."""

Entry = tuple[float, bool, tuple[Any, ...], tuple[float, ...]]
"""A statement of a session: its end (epoch ms), whether the log marks it as part of a routine, its group and its values."""


def loaded(source: Source, data: bytes, problems: list[Problem]) -> Any:
    """Decode a JSON document, or a list of JSON lines; or return the reading that says it does not parse (yet)."""
    lines = json_text.lines(source.path, data, problems)
    document = (
        json_text.decode(source, data, records=(2, 1), ends_cut=True) if lines is None else json_text.Document(lines)
    )
    if isinstance(document, Reading):
        return document
    problems += document.problems
    return document.value


CARRIERS = re.compile(rb'\s*(?:\{\s*"|\[\s*[\[{]|"?@?timestamp"?,|[^\n]{0,200},"?@?message"?\s*\n)')
"""Begin of JSON or CSV that carries a log's lines as its texts: such files belong to ``CarriedLog``."""


class Statements(Rows):
    """The ``interval_classes`` rows of one reading of a log of kind ``system``. ``spread``: long statements belong to all seconds
    that they ran, else to the one they ended in. ``sessions``: newest statements of each session, for the reading behind."""

    def __init__(
        self, source: Source, system: str, *, spread: bool = False, sessions: dict[str, list[Any]] | None = None
    ) -> None:
        super().__init__(source)
        self.system = system
        self.spread = spread
        self.sessions: dict[str, list[Entry]] = {name: [*entries] for name, entries in (sessions or {}).items()}
        self._groups: dict[tuple[Any, ...], list[float]] = {}
        self._known: dict[str, str] = {}

    def add(
        self,
        end_ms: float | None,
        seconds: float,
        text: str,
        owner: tuple[str, str],
        *,
        calls: float = 1.0,
        rows: float = 0.0,
        errors: float = 0.0,
        lock_s: float = 0.0,
        rate: float = 1.0,
        session: str = "",
        marked: bool = False,
        grain_ms: float = 1.0,
        holds: bool = False,
    ) -> None:
        """Add a statement that ended at ``end_ms`` (None: unknown) of ``owner``: user and database. It stands for ``rate``.

        A statement that ``holds`` others, as a CALL does, ended behind those of its ``session`` that ran inside it: they count
        as nested. They are ``marked`` by the log, or its moments tell, which are exact to ``grain_ms`` (infinite: not at all).
        """
        folded = self._folded(text)
        stretch: tuple[int | None, int | None] = (None, None)
        if end_ms is not None:
            second = int(end_ms) // SECOND * SECOND
            long = self.spread and seconds * 1000 > SECOND
            stretch = (round(end_ms - seconds * 1000), int(end_ms)) if long else (second, second + SECOND)
        group = (*stretch, folded, *owner, False)
        values = tuple(value * rate for value in (calls, seconds * 1e6, rows, errors, lock_s * 1e6))
        self._sum(group, values)
        if session and end_ms is not None:
            if holds or folded.startswith("call "):
                self._hide(self.sessions.get(session, []), end_ms - seconds * 1000, grain_ms)
            entries = self.sessions.setdefault(session, [])
            entries.append((end_ms, marked, group, values))
            del entries[: -MOST_INSIDE if len(entries) > 2 * MOST_INSIDE else 0]
            if len(self.sessions) > SESSIONS:
                del self.sessions[next(iter(self.sessions))]

    def _folded(self, text: str) -> str:
        """Return the fingerprint of a statement; those of its shape share it."""
        postgres = self.system.startswith("postgres")
        known = shape(text, postgres=postgres) if len(text) <= LONGEST_KNOWN else None
        folded = self._known.get(known or "")
        if folded is None:
            folded = fingerprint(text, postgres=postgres)
            if known and len(self._known) < KNOWN:
                self._known[known] = folded
        return folded

    def _sum(self, group: tuple[Any, ...], values: Sequence[float], sign: int = 1) -> None:
        sums = self._groups.setdefault(group, [0.0] * 5)
        for i, value in enumerate(values):
            sums[i] += sign * value

    def _hide(self, entries: list[Entry], begin_ms: float, grain_ms: float) -> None:
        """Count those ``entries`` of a session as nested that ran inside a statement that began at ``begin_ms``: they are marked,
        or ended later by more than ``grain_ms``."""
        beside = []
        while entries and entries[-1][0] + SECOND > begin_ms:
            end_ms, marked, group, values = entries.pop()
            if marked or end_ms - grain_ms > begin_ms:
                self._sum(tuple(group), values, -1)
                self._sum((*group[:-1], True), values)
            else:
                beside.append((end_ms, marked, group, values))
        entries += reversed(beside)

    def carried(self) -> dict[str, list[Entry]]:
        """Return the newest statements of the sessions, for the next reading."""
        return {name: entries[-CARRIED:] for name, entries in [*self.sessions.items()][-CARRIED:]}

    def put(self, reading: Reading) -> Reading:
        """Put the rows and problems into ``reading``."""
        reading.problems += self.problems
        groups = {group: sums for group, sums in self._groups.items() if max(map(abs, sums)) > NOTHING}
        if not groups:
            return reading
        starts, ends, texts, users, databases, nested = map(list, zip(*groups, strict=True))
        hashes = [query_hash(text) for text in texts]
        names = ("calls", "time_us", "rows", "errors", "lock_us")
        reading.rows["interval_classes"] = {
            "series": [STEM + clean(name_stem(self.source.name))] * len(hashes),
            "key": [
                class_key(*parts, *["n"] * inside)
                for *parts, inside in zip(hashes, users, databases, nested, strict=True)
            ],
            "nested": nested,
            "queryid": hashes,
            "query": [clean(text) for text in texts],
            "user": [clean(user) for user in users],
            "database": [clean(database) for database in databases],
            "system": [self.system] * len(hashes),
            "start_ms": starts,
            "end_ms": ends,
            **dict(zip(names, map(list, zip(*groups.values(), strict=True)), strict=True)),
        }
        return reading
