"""What heuristics judge: some jobs with their measures and configurations; and the verdicts they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.display import details_json
from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.mapreduce.rules.side_stats import Sides

_NOTHING: dict[str, str] = {}
SIDES = ("map", "reduce")
"""The sides of a job, in the order of ``Sides``."""


class Jobs:
    """Some jobs and what heuristics look at, all in the order of ``frame`` (JOB_MODEL rows).

    ``sides``: the measures of these jobs. ``properties``: per job id the properties of its configuration that are looked up.
    ``block_size``: bytes, per job.
    """

    def __init__(
        self, frame: pl.DataFrame, sides: Sides, properties: Mapping[str, Mapping[str, str]], block_size: Array
    ) -> None:
        self.frame = frame
        self.count = frame.height
        self.names: list[str] = frame["job_id"].to_list()
        self.properties = [properties.get(name, _NOTHING) for name in self.names]
        self.types: list[str] = frame["job_type"].to_list()
        self.state = frame["state"].to_numpy()
        self.block_size = block_size
        self._sides = tuple({name: values[k::2] for name, values in sides.items()} for k in range(len(SIDES)))
        n = [side["n"] for side in self._sides]
        self.empty = (n[0] == 0) & (n[1] == 0)
        # Of a failed job Dr. Elephant judges nothing but the failure; jobs that still run or were killed are judged by the
        # tasks that ended, and column upstream_says tells that Dr. Elephant would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, side: str) -> Mapping[str, Array]:
        """Return the measures of the maps or reduces by name, one value per job."""
        return self._sides[SIDES.index(side)]


@dataclass(frozen=True)
class PerJob:
    """Details that differ in form from job to job: label → value of job ``j``."""

    of: Callable[[int], Mapping[str, Any]]

    def texts(self, at: Array) -> list[str]:
        """Return details of the jobs ``at`` as JSON objects."""
        return [details_json(self.of(j)) for j in at.tolist()]


@dataclass(frozen=True)
class PerLabel:
    """Details with the same labels for every job: label → texts of the jobs asked for. JSON need not escape them."""

    of: Callable[[Array], Mapping[str, list[str]]]

    def texts(self, at: Array) -> list[str]:
        """Return details of the jobs ``at`` as JSON objects."""
        columns = self.of(at)
        shape = ",".join(f'"{label}":"%s"' for label in columns).join("{}")
        return list(map(shape.__mod__, zip(*columns.values(), strict=True)))


@dataclass(frozen=True)
class Verdict:
    """One heuristic over all jobs: which get a result, severities 0-4, scores, and Dr. Elephant's labels and values."""

    given: Array
    severity: Array
    score: Array
    details: PerJob | PerLabel


def unscored(given: Array, severity: Array, details: PerJob) -> Verdict:
    """Return the verdict of a heuristic that never scores."""
    return Verdict(given, severity, np.zeros(len(severity), dtype=np.int64), details)
