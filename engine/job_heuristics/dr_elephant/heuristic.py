"""The declaration of a heuristic, and a heuristic in force with its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from engine.job_heuristics.dr_elephant.gates import Array, Branch, Limits, Subject, Tree


@dataclass(frozen=True, kw_only=True, eq=False)
class Heuristic:
    """One heuristic. Each kind of job has a subclass with what it judges by.

    Identity: ``class_name`` and ``application`` as in HeuristicConf.xml, ``name`` for display, ``order`` in lists and
    strips, ``default``: enabled as shipped.

    Judging: ``limits``, ``numbers`` and ``texts`` are the defaults of its parameters by name; ``branches`` are its
    gates. ``unread``: prefix of parameter names in Dr. Elephant's own configuration file that its code ignores.
    """

    name: str
    class_name: str
    order: int
    application: str
    default: bool = True
    limits: Mapping[str, Limits] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    unread: str = ""

    def branches_of(self, *, published: bool) -> tuple[Branch, ...]:
        """Return the gates of the published description, or of Dr. Elephant's code."""
        return self.branches


H_co = TypeVar("H_co", bound=Heuristic, covariant=True)


@dataclass(frozen=True)
class Rule(Generic[H_co]):
    """A heuristic in force: display ``name``, parameters, and ``excluded`` job types."""

    heuristic: H_co
    name: str
    limits: Mapping[str, Limits]
    numbers: Mapping[str, int] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)

    def subject(self, measures: Mapping[str, Array], *, published: bool = False) -> Subject:
        """Combine ``measures`` with this rule's parameters."""
        return Subject(measures, self.limits, self.numbers, published)

    def tree(self, subject: Subject) -> Tree:
        """Return the readings of the heuristic's gates."""
        branches = self.heuristic.branches_of(published=subject.published)
        return Tree(tuple(tuple(gate.read(subject) for gate in branch.gates) for branch in branches))

    def levels(self, measures: Mapping[str, Array]) -> Array:
        """Return the severities 0-4 that values of the measures give."""
        return self.tree(self.subject(measures)).levels()

    def level(self, **measures: float) -> int:
        """Return the severity 0-4 that one value of each measure gives."""
        return int(self.levels({name: np.array([value], dtype=np.float64) for name, value in measures.items()})[0])


H = TypeVar("H", bound=Heuristic)


def shipped(heuristic: H) -> Rule[H]:
    """Return a heuristic with its default parameters."""
    return Rule(heuristic, heuristic.name, heuristic.limits, heuristic.numbers, texts=heuristic.texts)
