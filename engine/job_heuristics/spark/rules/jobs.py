"""Spark Job Metrics: jobs that failed, and jobs with many failed tasks.

Source: Dr. Elephant's ``JobsHeuristic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.gates import severities
from engine.job_heuristics.spark.model.app import App, SparkJob, Stage
from engine.job_heuristics.spark.rules.heuristic import RATES, SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import rate

_JOBS, _TASKS = "job_failure_rate_severity_thresholds", "job_task_failure_rate_severity_thresholds"


def failure_rate(failed: int, good: int) -> float:
    """Return the failed share; 0 without any."""
    return failed / (failed + good) if failed + good else 0.0


def task_failure_rate(one: SparkJob | Stage) -> float:
    """Return the share of failed tasks among those that completed or failed."""
    return failure_rate(one.failed_tasks, one.completed_tasks)


def above(level: int, value: float, rule: SparkRule, parameter: str) -> bool:
    """Whether ``value`` is worse than ``level`` (0-4) by a parameter of the rule."""
    return int(severities(value, rule.limits[parameter], rising=True)) > level  # type: ignore[arg-type]


def _counts(app: App) -> tuple[int, list[SparkJob]]:
    return sum(job.status == "SUCCEEDED" for job in app.jobs), [job for job in app.jobs if job.status == "FAILED"]


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    good, failed = _counts(app)
    return {
        "jobs": failure_rate(len(failed), good),
        "tasks": max(map(task_failure_rate, app.jobs), default=0.0),
    }


def _sure(app: App, rule: SparkRule) -> Mapping[str, float]:
    """Tasks of ended jobs are final."""
    return {"tasks": max((task_failure_rate(job) for job in app.jobs if job.status != "RUNNING"), default=0.0)}


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    good, failed = _counts(app)
    rates = [(job, task_failure_rate(job)) for job in app.jobs]
    return {
        "Spark completed jobs count": str(good),
        "Spark failed jobs count": str(len(failed)),
        "Spark failed jobs list": "\n".join(f"job {job.number}, {job.name}" for job in failed),
        "Spark job failure rate": rate(failure_rate(len(failed), good)),
        "Spark jobs with high task failure rates": "\n".join(
            f"job {job.number}, {job.name} (task failure rate: {rate(value)})"
            for job, value in rates
            if above(2, value, rule, _TASKS)
        ),
    }


def _advise(level: int, app: App) -> str:
    if not level:
        return "Jobs and their tasks succeed."
    error = next((job.error for job in app.jobs if job.error), None)
    return "Find out why tasks fail" + (
        f": {error.split(' · ')[0]}" if error else "; their errors are listed by stage."
    )


HEURISTICS = (
    SparkHeuristic(
        name="Spark Job Metrics",
        class_name="JobsHeuristic",
        order=103,
        limits={_JOBS: RATES, _TASKS: RATES},
        branches=(
            gate("jobs", "share of jobs that failed", _JOBS, fact="{value:.0%} of its jobs failed"),
            gate(
                "tasks",
                "largest share of failed tasks in a job",
                _TASKS,
                fact="up to {value:.0%} of the tasks of a job failed",
            ),
        ),
        measure=_measure,
        describe=_describe,
        advise=_advise,
        throws=lambda app: "",
        sure=_sure,
    ),
)
