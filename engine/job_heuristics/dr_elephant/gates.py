"""Severity from gates: a heuristic is as severe as its worst branch, a branch as its mildest gate.

Gates look at named *measures*: arrays with one number per job (or per weighted copy of one job), so that the same
gates judge all jobs at once and explain a single one. See docs/models/job-heuristics.md, "Severity".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import reduce
from typing import Any

import msgspec
import numpy as np

Array = np.ndarray[Any, Any]
Limits = tuple[float, float, float, float]
"""The limits of LOW, MODERATE, SEVERE and CRITICAL, in the unit that HeuristicConf.xml spells them in."""

MINUTE = 60_000.0  # milliseconds per minute
MB = 2**20


class Subject(msgspec.Struct, frozen=True, eq=False):
    """What gates look at: ``measures`` by name, and the ``limits`` and whole ``numbers`` in force by parameter name.
    ``published``: apply the published description instead of Dr. Elephant's code."""

    measures: Mapping[str, Array]
    limits: Mapping[str, Limits]
    numbers: Mapping[str, int]
    published: bool

    def __getitem__(self, measure: str) -> Array:
        """Return the values of a measure. Raises KeyError."""
        return self.measures[measure]

    def rows(self, at: Array) -> Subject:
        """Return the subject's values at the places ``at`` only."""
        return Subject(
            {name: values[at] for name, values in self.measures.items()}, self.limits, self.numbers, self.published
        )


class Final(Enum):
    """What is known about a gate's final value while the job still runs."""

    OPEN = "nothing"
    TASKS = "it is the number of tasks, which is planned"
    SOME_TASKS = "it is at most the number of tasks"
    FIXED = "it stays what it is"
    MEAN_TIME = "it is the tasks' mean time, at least the time spent so far over the tasks planned"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of a heuristic.

    ``value`` computes the values, ``limits`` names the parameter with the four limits, ``scale`` converts them to the
    unit of the values. ``rising``: larger values are worse. ``unit`` is ``ms``, ``bytes``, ``bytes/s``, ``tasks``,
    ``10000`` (a ratio times that) or empty (a ratio). ``fact``: how a finding says it, with ``{}`` for the value in words
    and ``{value}`` for the number; empty: labels and values of the verdict tell it.
    """

    key: str
    label: str
    unit: str = ""
    value: Callable[[Subject], Array]
    limits: str
    rising: bool = True
    scale: float | Callable[[Subject], Any] = 1.0
    final: Final = Final.OPEN
    fact: str = ""

    def read(self, subject: Subject) -> Reading:
        """Return the gate's values for ``subject`` and its limits, in the same unit."""
        scale = self.scale(subject) if callable(self.scale) else self.scale
        a, b, c, d = subject.limits[self.limits]
        return Reading(self, self.value(subject), (a * scale, b * scale, c * scale, d * scale))


class Reading(msgspec.Struct, frozen=True, eq=False):
    """A gate's ``values`` and its ``limits`` from LOW to CRITICAL in the same unit (numbers, or arrays where they
    differ)."""

    gate: Gate
    values: Array
    limits: tuple[Any, ...]

    def levels(self) -> Array:
        """Return the severity 0-4 that the gate alone gives each value."""
        return severities(self.values, self.limits, rising=self.gate.rising)

    @property
    def value(self) -> float:
        """The first of the values."""
        return float(self.values[0])

    @property
    def scale(self) -> tuple[float, ...]:
        """The limits of the first of the values."""
        return tuple(float(np.ravel(limit)[0]) for limit in self.limits)

    def fact(self, at: int) -> str:
        """Return what a finding says of one of the values."""
        value = float(self.values[at])
        text = amount(value, self.gate.unit)
        return self.gate.fact.format(text, value=value) if math.isfinite(value) else f"{self.gate.label}: {text}"

    def level_of(self, value: float) -> int:
        """Return the severity 0-4 that the gate gives ``value`` by the limits of the first of its values."""
        return int(severities(np.array([value]), self.scale, rising=self.gate.rising)[0])


def severities(values: Array, limits: tuple[Any, ...], *, rising: bool) -> Array:
    """Return severities 0-4: the worst level whose limit is reached (inclusive); NaN gives 0."""
    values = np.asarray(values)
    met = [values >= limit if rising else values <= limit for limit in limits]
    # ``numpy.select`` gives the same three times slower.
    return np.where(met[3], 4, np.where(met[2], 3, np.where(met[1], 2, met[0].astype(np.int64))))


class Branch(msgspec.Struct, frozen=True):
    """Gates that must all be passed: the branch is as severe as its mildest gate. ``scores`` tells whether its severity
    counts in the score (tasks times severity)."""

    gates: tuple[Gate, ...]
    scores: bool = True


class Tree(msgspec.Struct, frozen=True, eq=False):
    """The readings of a heuristic, branch by branch: as severe as its worst branch."""

    branches: tuple[tuple[Reading, ...], ...]

    def levels(self) -> Array:
        """Return severities 0-4."""
        return reduce(
            np.maximum, [reduce(np.minimum, [reading.levels() for reading in branch]) for branch in self.branches]
        )


def ratio(part: Array, whole: Array) -> Array:
    """Divide in double: x / 0 is infinite, 0 / 0 is NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Array = np.asarray(part, dtype=np.float64) / np.asarray(whole, dtype=np.float64)
    return quotient


def amount(value: float, unit: str) -> str:
    """Write a value in the words of its unit: minutes, MB, MB/s, tasks or a bare number."""
    if not math.isfinite(value):
        return "infinite" if value > 0 else "undefined"
    if unit == "ms":
        return f"{value / MINUTE:.1f} min" if value >= MINUTE / 10 or value == 0 else f"{value / 1000:.2f} s"
    if unit in ("bytes", "bytes/s"):
        tail = "/s" if unit == "bytes/s" else ""
        sizes = ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "KB"))
        return (
            next((f"{value / size:.1f} {name}" for size, name in sizes if value >= size), f"{value:.0f} bytes") + tail
        )
    if unit == "tasks":
        return f"{value:,.0f} task{'' if round(value) == 1 else 's'}"
    return f"{value / 10_000:.4g}" if unit == "10000" else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
