"""Job Queue Limit: tasks in the default queue approach its kill limit on run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.job_heuristics.dr_elephant.side_stats import Measure
from engine.job_heuristics.dr_elephant.sides import Jobs, PerJob, SideRule, Verdict, unscored
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

RUNTIMES_MS = tuple(minutes * 60_000 for minutes in (13, 13.5, 14, 14.5))
"""Run times, ms, from which a task is LOW, MODERATE, SEVERE and CRITICAL."""
_NO_QUEUE = "java.lang.IllegalStateException: Queue Name not found."

LONG_TASKS = Measure(
    tuple(f"tasks_over_limit_{level}" for level in (1, 2, 3, 4)),
    lambda tasks: tuple(tasks.count(tasks["total_ms"] >= least) for least in RUNTIMES_MS),
)


def _judge(jobs: Jobs, rule: SideRule) -> Verdict:
    queues = [properties.get(job_conf.QUEUE_OLD, properties.get(job_conf.QUEUE)) for properties in jobs.properties]
    default = np.array([queue == "default" for queue in queues], dtype=bool)
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    severity = np.zeros(jobs.count, dtype=np.int64)
    for level in (1, 2, 3, 4):
        name = f"tasks_over_limit_{level}"
        severity = np.where(default & ((maps[name] > 0) | (reduces[name] > 0)), level, severity)

    def details(j: int) -> Mapping[str, Any]:
        if not default[j]:
            return {"Not Applicable": f"This Heuristic is not applicable to {queues[j]} queue"}
        n = {"Number of Map tasks": f"{maps['n'][j]}", "Number of Reduce tasks": f"{reduces['n'][j]}"}
        labels = {"Queue: ": "default", **n}
        for side, word in ((maps, "Map"), (reduces, "Reduce")):
            critical = side["tasks_over_limit_4"][j]
            severe = side["tasks_over_limit_3"][j] - critical
            labels[f"Number of {word} tasks that are in severe state (14 to 14.5 min)"] = f"{severe}"
            labels[f"Number of {word} tasks that are in critical state (over 14.5 min)"] = f"{critical}"
        return labels

    named = np.array([queue is not None for queue in queues], dtype=bool)
    return unscored(named, severity, PerJob(details))


def _error(jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job without the queue's old key, which Hadoop renames on loading a configuration."""
    return {
        j: _NO_QUEUE
        for j, (properties, source) in enumerate(zip(jobs.properties, jobs.frame["source"].to_list(), strict=True))
        if source == "history" or job_conf.QUEUE_OLD not in properties
    }


QUEUE_LIMIT = MapReduceHeuristic(
    name="Job Queue Limit",
    class_name="JobQueueLimitHeuristic",
    order=13,
    default=False,
    measures=(LONG_TASKS,),
    judge=_judge,
    advice=lambda level, job: (
        "Tasks in the default queue should end well before its limit: divide the work into more tasks or use "
        "another queue."
    ),
    error=_error,
)
HEURISTICS = (QUEUE_LIMIT,)
