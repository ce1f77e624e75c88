"""The declaration of a MapReduce heuristic, the jobs that it judges and the verdicts that it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.display import details_json
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Subject, Tree
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule, Rules
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules.side_stats import Measure, Sides

_NOTHING: dict[str, str] = {}
SIDES = ("map", "reduce")
"""The sides of a job, in the order of ``Sides``."""


class Jobs:
    """Some jobs as heuristics see them, in the order of ``frame`` (JOB_MODEL rows).

    ``sides``: measures. ``properties``: settings by job id. ``block_size``: bytes per job.
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
        # Of a failed job Dr. Elephant judges only the failure. Running and killed jobs are judged here by their ended
        # tasks, and column upstream_says tells that Dr. Elephant would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, side: str) -> Mapping[str, Array]:
        """Return the measures of the maps or reduces by name, one value per job."""
        return self._sides[SIDES.index(side)]


@dataclass(frozen=True)
class PerJob:
    """Details whose labels differ by job: label → value of job ``j``."""

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
    """Verdicts of one heuristic on all jobs: which are ``given``, severities 0-4, scores, and details."""

    given: Array
    severity: Array
    score: Array
    details: PerJob | PerLabel


def unscored(given: Array, severity: Array, details: PerJob) -> Verdict:
    """Return the verdict of a heuristic that never scores."""
    return Verdict(given, severity, np.zeros(len(severity), dtype=np.int64), details)


@dataclass(frozen=True, kw_only=True, eq=False)
class MapReduceHeuristic(Heuristic):
    """A heuristic of MapReduce jobs. Most are judged by gates over measures of one ``side`` (``map`` or ``reduce``); the
    others have no ``branches`` and judge by a function of their own.

    Judging: ``measures`` declares statistics over tasks and ``settings`` numbers from a job's properties, both looked up
    by name in the gates of ``branches``. ``averages``: its values are averages, so that without tasks there is nothing to
    explain. ``defined``: which jobs get a result at all (None: every job that is judged). ``published``: the gates of the
    published description where they differ, with the reason in ``difference``; ``in_published`` tells whether it has the
    heuristic at all.

    Words: ``details`` gives Dr. Elephant's labels and values, ``advice`` what to do from the severity and the job,
    ``error`` the exception Dr. Elephant throws, by number of the job.
    """

    application: str = "mapreduce"
    side: str = ""
    measures: tuple[Measure, ...] = ()
    settings: Mapping[str, Callable[[Mapping[str, str]], float]] = field(default_factory=dict)
    averages: bool = False
    defined: Callable[[Subject], Array] | None = None
    published: tuple[Branch, ...] | None = None
    in_published: bool = True
    difference: str = ""
    details: Callable[[Subject], Mapping[str, list[str]]] | None = None
    judge: Callable[[Jobs, MapReduceRule], Verdict] | None = None
    advice: Callable[[int, Job], str]
    error: Callable[[Jobs], Mapping[int, str]] = lambda jobs: {}

    @property
    def same_in_both(self) -> bool:
        """Whether Dr. Elephant's code and the published description give the same verdicts."""
        return self.in_published and self.published is None

    def branches_of(self, *, published: bool) -> tuple[Branch, ...]:
        """Return the gates of the published description, or of Dr. Elephant's code."""
        return self.published if published and self.published is not None else self.branches


MapReduceRule = Rule[MapReduceHeuristic]
MapReduceRules = Rules[MapReduceHeuristic]


def verdict_of(rule: MapReduceRule, jobs: Jobs, *, published: bool) -> Verdict:
    """Return the verdict of ``rule`` on all of ``jobs``."""
    heuristic = rule.heuristic
    if heuristic.judge is not None:
        return _allowed(heuristic.judge(jobs, rule), rule, jobs)
    measures = {
        **jobs.side(heuristic.side),
        "block_size": jobs.block_size,
        **{name: np.array([setting(p) for p in jobs.properties]) for name, setting in heuristic.settings.items()},
    }
    subject = rule.subject(measures, published=published)
    tree = rule.tree(subject)
    severity = tree.levels()
    branches = heuristic.branches_of(published=published)
    scoring = Tree(tuple(readings for branch, readings in zip(branches, tree.branches, strict=True) if branch.scores))
    scored = scoring.levels() if scoring.branches != tree.branches else severity
    score = np.where(scored >= 2, scored * subject["n"], 0)
    given = jobs.judged if heuristic.defined is None else jobs.judged & heuristic.defined(subject)
    details = heuristic.details
    assert details is not None, f"{heuristic.name} has gates and no details"
    return _allowed(Verdict(given, severity, score, PerLabel(lambda at: details(subject.rows(at)))), rule, jobs)


def _allowed(verdict: Verdict, rule: MapReduceRule, jobs: Jobs) -> Verdict:
    """Withdraw results of excluded job types."""
    if not rule.excluded:
        return verdict
    allowed = np.array([kind not in rule.excluded for kind in jobs.types], dtype=bool)
    return Verdict(verdict.given & allowed, verdict.severity, verdict.score, verdict.details)
