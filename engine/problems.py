"""A *problem*: bad input, reported once, with its place. Readers collect problems; they never raise for bad data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.text import clean


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong in one place of one file.

    ``line`` is 1-based; it is ``None`` where the file has no lines (then ``byte`` says where, if known).
    ``kind`` is a short stable id in kebab-case (``bad-record``, ``cut-file``, ``unreadable``), ``reason`` one plain
    sentence that is already cleaned for a terminal, ``count`` the number of occurrences (the place is the first one).
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
        """Make a problem with its texts cleaned and cut to a sane length (path 4096, reason 400 characters)."""
        return cls(clean(path, 4096), line, kind, clean(reason, 400), count, byte)

    def as_row(self) -> dict[str, object]:
        """Return the row of ``report``'s ``problems`` list: path, line, kind, reason, count."""
        reason = self.reason if self.byte is None else f"{self.reason} (at byte {self.byte})"
        return {"path": self.path, "line": self.line, "kind": self.kind, "reason": reason, "count": self.count}


MOST_OF_A_KIND = 1000
"""Most different problems of one kind that a file's list holds; further ones are counted together."""


class ProblemList(list[Problem]):
    """The problems of one file, however many: equal ones are counted at the first place, and so is what exceeds
    ``MOST_OF_A_KIND``. Takes them by ``append`` alone."""

    def __init__(self) -> None:
        super().__init__()
        self._place: dict[tuple[str, str], int] = {}
        self._of_kind: dict[str, int] = {}

    def append(self, problem: Problem) -> None:
        """Add a problem, or count it with an earlier one."""
        key = (problem.kind, problem.reason)
        if key not in self._place and self._of_kind.get(problem.kind, 0) >= MOST_OF_A_KIND:
            problem = replace(problem, reason="more problems of this kind")
            key = (problem.kind, problem.reason)
        at = self._place.get(key)
        if at is not None:
            first = self[at]
            self[at] = Problem(
                first.path, first.line, first.kind, first.reason, first.count + problem.count, first.byte
            )
            return
        self._place[key] = len(self)
        self._of_kind[problem.kind] = self._of_kind.get(problem.kind, 0) + 1
        super().append(problem)


def fold(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Merge problems of equal path, kind and reason at their first place, and sort them by path and place."""
    first: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        key = (problem.path, problem.kind, problem.reason)
        earlier = first.get(key)
        first[key] = problem if earlier is None else replace(earlier, count=earlier.count + problem.count)
    return tuple(sorted(first.values(), key=lambda p: (p.path, p.line or 0, p.byte or 0, p.kind, p.reason)))
