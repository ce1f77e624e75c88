"""Exception: the job failed; shows its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.job_heuristics.dr_elephant.display import MOST_DETAILS, cut
from engine.job_heuristics.dr_elephant.sides import Jobs, PerJob, SideRule, Verdict, unscored
from engine.job_heuristics.mapreduce.model.model import FAILED, Job
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

_NO_STACK = (
    "Unable to find stacktrace info. Please find the real problem in the Jobhistory link above."
    "Exception can happen either in task log or Application Master log."
)
"""Dr. Elephant's text for a failed job without diagnostics."""


def _judge(jobs: Jobs, rule: SideRule) -> Verdict:
    texts: list[str | None] = jobs.frame["diagnostics"].to_list()

    def details(j: int) -> Mapping[str, Any]:
        text = texts[j]
        return {"Error": _NO_STACK if text is None else ["Stacktrace", cut(text, MOST_DETAILS)]}

    return unscored(jobs.failed, np.where(jobs.failed, 2, 0), PerJob(details))


def _advice(level: int, job: Job) -> str:
    failed = int((job.attempts.outcome == FAILED).sum())
    return (
        f"The job failed after {failed:,} failed attempt{'' if failed == 1 else 's'}. Read the error of the task "
        f"named in the diagnostics first; where it is empty, the logs of that container and of the application "
        f"master say more."
    )


HEURISTICS = (
    MapReduceHeuristic(
        name="Exception",
        class_name="ExceptionHeuristic",
        order=11,
        in_published=False,
        difference="the published description has no such heuristic",
        judge=_judge,
        advice=_advice,
    ),
)
