"""Heuristics over the tasks of the sides of jobs (maps, reduces, and scopes of Tez): declaration, jobs and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.display import details_json
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Subject, Tree
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule, Rules
from engine.job_heuristics.dr_elephant.side_stats import Measure, Sides
from engine.job_heuristics.tables import HEURISTICS, SEVERITIES

_NOTHING: dict[str, str] = {}
SIDES = ("map", "reduce")
"""The sides of a MapReduce job, in the order of ``Sides``."""


class Jobs:
    """Some jobs as heuristics see them, in the order of ``frame`` (columns ``job_id``, ``job_type``, ``state`` and those that
    a kind of job adds).

    ``sides``: measures. ``properties``: settings by job id. ``block_size``: bytes per job. ``named``: the sides.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        sides: Sides,
        properties: Mapping[str, Mapping[str, str]],
        block_size: Array,
        named: tuple[str, ...] = SIDES,
    ) -> None:
        self.frame = frame
        self.count = frame.height
        self.names: list[str] = frame["job_id"].to_list()
        self.properties = [properties.get(name, _NOTHING) for name in self.names]
        self.types: list[str] = frame["job_type"].to_list()
        self.state = frame["state"].to_numpy()
        self.block_size = block_size
        self._sides = {
            side: {name: values[k :: len(named)] for name, values in sides.items()} for k, side in enumerate(named)
        }
        self.empty = np.sum([side["n"] for side in self._sides.values()], axis=0) == 0
        # Of a failed job Dr. Elephant judges only the failure. Running and killed jobs are judged here by their ended
        # tasks, and column upstream_says tells that Dr. Elephant would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, side: str) -> Mapping[str, Array]:
        """Return the measures of one side by name, one value per job. Raises KeyError."""
        return self._sides[side]


@dataclass(frozen=True)
class Verdict:
    """Verdicts of one heuristic on all jobs: which are ``given``, severities 0-4, scores, and ``details``: of the jobs
    at some places, as JSON objects."""

    given: Array
    severity: Array
    score: Array
    details: Callable[[Array], list[str]]


def unscored(given: Array, severity: Array, details: Callable[[int], Mapping[str, Any]]) -> Verdict:
    """Return the verdict of a heuristic that never scores and whose ``details`` (of a job by its number) differ in labels."""
    score = np.zeros(len(severity), dtype=np.int64)
    return Verdict(given, severity, score, lambda at: [details_json(details(j)) for j in at.tolist()])


def _as_json(columns: Mapping[str, list[str]]) -> list[str]:
    """Return details with the same labels for every job, label → texts, as JSON objects. JSON need not escape them."""
    shape = ",".join(f'"{label}":"%s"' for label in columns).join("{}")
    return list(map(shape.__mod__, zip(*columns.values(), strict=True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class SideHeuristic(Heuristic):
    """A heuristic over tasks. Most are judged by gates over measures of one ``side``; the others have no ``branches`` and
    judge by a function of their own.

    Judging: ``measures`` declares statistics over tasks and ``settings`` numbers from a job's properties, both looked up
    by name in the gates of ``branches``. ``averages``: its values are averages, so that without tasks there is nothing to
    explain. ``defined``: which jobs get a result at all (None: every job that is judged). ``published``: the gates of the
    published description where they differ, with the reason in ``difference``; ``in_published`` tells whether it has the
    heuristic at all.

    Words: ``details`` gives Dr. Elephant's labels and values, ``error`` the exception Dr. Elephant throws, by number of
    the job.
    """

    side: str = ""
    measures: tuple[Measure, ...] = ()
    settings: Mapping[str, Callable[[Mapping[str, str]], float]] = field(default_factory=dict)
    averages: bool = False
    defined: Callable[[Subject], Array] | None = None
    published: tuple[Branch, ...] | None = None
    in_published: bool = True
    difference: str = ""
    details: Callable[[Subject], Mapping[str, list[str]]] | None = None
    judge: Callable[[Jobs, SideRule], Verdict] | None = None
    error: Callable[[Jobs], Mapping[int, str]] = lambda jobs: {}

    def branches_of(self, *, published: bool) -> tuple[Branch, ...]:
        """Return the gates of the published description, or of Dr. Elephant's code."""
        return self.published if published and self.published is not None else self.branches


SideRule = Rule[SideHeuristic]
S = TypeVar("S", bound=SideHeuristic)


def subject_of(rule: SideRule, jobs: Jobs, *, published: bool = False) -> Subject:
    """Return what the gates of ``rule`` look at."""
    heuristic = rule.heuristic
    measures = {
        **jobs.side(heuristic.side),
        "block_size": jobs.block_size,
        **{name: np.array([setting(p) for p in jobs.properties]) for name, setting in heuristic.settings.items()},
    }
    return rule.subject(measures, published=published)


def verdict_of(rule: SideRule, jobs: Jobs, *, published: bool) -> Verdict:
    """Return the verdict of ``rule`` on all of ``jobs``."""
    heuristic = rule.heuristic
    if heuristic.judge is not None:
        return _allowed(heuristic.judge(jobs, rule), rule, jobs)
    subject = subject_of(rule, jobs, published=published)
    tree = rule.tree(subject)
    severity = tree.levels()
    branches = heuristic.branches_of(published=published)
    scoring = Tree(tuple(readings for branch, readings in zip(branches, tree.branches, strict=True) if branch.scores))
    scored = scoring.levels() if scoring.branches != tree.branches else severity
    score = np.where(scored >= 2, scored * subject["n"], 0)
    given = jobs.judged if heuristic.defined is None else jobs.judged & heuristic.defined(subject)
    details = heuristic.details
    assert details is not None, f"{heuristic.name} has gates and no details"
    return _allowed(Verdict(given, severity, score, lambda at: _as_json(details(subject.rows(at)))), rule, jobs)


def _allowed(verdict: Verdict, rule: SideRule, jobs: Jobs) -> Verdict:
    """Withdraw results of excluded job types."""
    if not rule.excluded:
        return verdict
    allowed = np.array([kind not in rule.excluded for kind in jobs.types], dtype=bool)
    return Verdict(verdict.given & allowed, verdict.severity, verdict.score, verdict.details)


NO_DATA = "No Data Received"
"""Name of Dr. Elephant's pseudo result for a job without tasks."""
NO_DATA_ADVICE = "No task ran: check whether the input path holds data and whether filters leave any."
_NO_DATA_DETAILS = '{"No Data Received":""}'

Verdicts = Sequence[tuple[SideRule, Verdict]]


def verdicts(rules: Rules[S], jobs: Jobs, *, published: bool = False) -> Verdicts:
    """Return the verdicts of all rules in force, in their order, by Dr. Elephant's code or the ``published``
    description."""
    return [
        (rule, verdict_of(rule, jobs, published=published))
        for rule in rules.rules
        if rule.heuristic.in_published or not published
    ]


def idle(jobs: Jobs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which jobs get the pseudo result instead of verdicts: they succeeded without a task."""
    return jobs.empty & (jobs.state == "SUCCEEDED")


def rows(jobs: Jobs, made: Verdicts) -> pl.DataFrame:
    """Return HEURISTICS rows: jobs in their order, heuristics in the order of ``made``."""
    without_data = idle(jobs)
    at = np.flatnonzero(without_data)
    zero = np.zeros(len(at), np.int64)
    parts = [(at, NO_DATA, zero + 1, zero, [_NO_DATA_DETAILS] * len(at))]
    for rule, each in made:
        at = np.flatnonzero(each.given & ~without_data)
        parts.append((at, rule.name, each.severity[at], each.score[at], each.details(at) if len(at) else []))
    job = np.concatenate([part[0] for part in parts])
    order = np.argsort(job, kind="stable")
    kinds = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    severity, score = (np.concatenate([part[k] for part in parts]).astype(np.int64)[order] for k in (2, 3))
    return HEURISTICS.frame(
        pl.DataFrame(
            {
                "job_id": jobs.frame["job_id"].gather(job[order]),
                "heuristic": pl.Series([part[1] for part in parts]).gather(kinds[order]),
                "severity": pl.Series(SEVERITIES).gather(severity),
                "score": score,
                "details": pl.Series([text for part in parts for text in part[4]], dtype=pl.String).gather(order),
            }
        )
    )


def totals(jobs: Jobs, made: Verdicts) -> tuple[list[int | None], list[int]]:
    """Return the severity (None: no verdict at all) and score of each job."""
    worst = np.full(jobs.count, -1, dtype=np.int64)
    score = np.zeros(jobs.count, dtype=np.int64)
    for _, verdict in made:
        worst = np.where(verdict.given, np.maximum(worst, verdict.severity), worst)
        score = score + np.where(verdict.given, verdict.score, 0)
    without_data = idle(jobs)
    worst = np.where(without_data, 1, worst)
    score = np.where(without_data, 0, score)
    # A finished job that no rule judges is NONE, as Dr. Elephant would show it.
    worst = np.where((worst < 0) & ((jobs.state == "SUCCEEDED") | jobs.failed) & ~jobs.empty, 0, worst)
    return [None if level < 0 else level for level in worst.tolist()], score.tolist()
