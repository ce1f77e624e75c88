"""Problems: bad input, reported once with its place. Readers collect them instead of raising."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from engine.core.text import clean


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong in one place of a file.

    ``line`` is 1-based, None in files without lines (``byte`` says where, if known). ``kind``: a short stable id in kebab-case
    (``bad-record``, ``cut-file``, ``unreadable``); ``reason``: one sentence, cleaned for a terminal; ``count``: number of
    occurrences, of which the place is the first.
    """

    path: str
    line: int | None
    kind: str
    reason: str
    count: int = 1
    byte: int | None = None

    @classmethod
    def at(
        cls, path: str, kind: str, reason: str, *, line: int | None = None, byte: int | None = None, count: int = 1
    ) -> Problem:
        """Make a problem with its texts cleaned and cut (path 4096, reason 400 characters)."""
        return cls(clean(path, 4096), line, kind, clean(reason, 400), count, byte)

    def as_row(self) -> dict[str, object]:
        """Return the row of ``report``'s ``problems`` list: path, line, kind, reason, count."""
        reason = self.reason if self.byte is None else f"{self.reason} (at byte {self.byte})"
        return {"path": self.path, "line": self.line, "kind": self.kind, "reason": reason, "count": self.count}


def fold(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Merge problems of equal path, kind and reason at their first place, and sort them by path and place."""
    first: dict[tuple[str, str, str], Problem] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for problem in problems:
        key = (problem.path, problem.kind, problem.reason)
        first.setdefault(key, problem)
        counts[key] = counts.get(key, 0) + problem.count
    folded = (replace(problem, count=counts[key]) for key, problem in first.items())
    return tuple(sorted(folded, key=lambda p: (p.path, p.line or 0, p.byte or 0, p.kind, p.reason)))


def not_utf8(path: str, data: bytes) -> tuple[Problem, ...]:
    """Return a problem with the first place where ``data`` is not UTF-8; empty if it is."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        reason = "bytes that are not UTF-8 are shown as \ufffd"
        return (Problem.at(path, "not-utf-8", reason, line=data.count(b"\n", 0, error.start) + 1),)
    return ()


MORE = "more-problems"
"""Kind of the problem that counts the unlisted ones."""


def bounded(problems: Iterable[Problem], most: int) -> tuple[Problem, ...]:
    """Return ``problems`` with equal ones joined, at most ``most`` of them; further ones are counted.

    The result does not depend on parts: bounding a bounded list together with later problems gives the same.
    """
    several = tuple(problems)
    counted = sum(problem.count for problem in several if problem.kind == MORE)
    listed = fold(problem for problem in several if problem.kind != MORE)
    if not counted and len(listed) <= most:
        return listed
    counted += sum(problem.count for problem in listed[most - 1 :])
    reason = "further problems in this file are counted only"
    return (*listed[: most - 1], Problem(several[0].path, None, MORE, reason, counted))


class Problems(list[Problem]):
    """The problems of one reading: equal ones are counted at the first place, and the number of different ones is bounded.

    Add problems only by ``append``, ``extend`` and ``+=``.
    """

    MOST = 1000
    """Different problems that stay listed; beyond twice as many the rest is only counted."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        super().__init__()
        self._at: dict[tuple[str, str], int] = {}
        self.extend(problems)

    def append(self, problem: Problem) -> None:
        """Add a problem, or count it with an equal one."""
        at = self._at.setdefault((problem.kind, problem.reason), len(self))
        if at < len(self):
            first = self[at]
            self[at] = Problem(
                first.path, first.line, first.kind, first.reason, first.count + problem.count, first.byte
            )
            return
        super().append(problem)
        if len(self) > 2 * self.MOST:
            self[:] = bounded(self, self.MOST)
            self._at = {(one.kind, one.reason): at for at, one in enumerate(self)}

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add several problems."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Self:  # type: ignore[misc, override]
        self.extend(problems)
        return self

    def __reduce__(self) -> tuple[type[Problems], tuple[list[Problem]]]:
        return type(self), (list(self),)
