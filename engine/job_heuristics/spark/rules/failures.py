"""Spark Job Metrics and Spark Stage Metrics: jobs and stages that failed or have many failed tasks, and long stages.

Source: Dr. Elephant's ``JobsHeuristic`` and ``StagesHeuristic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import span
from engine.job_heuristics.dr_elephant.gates import MINUTE, severities
from engine.job_heuristics.spark.model.app import App, SparkJob, Stage
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import rate, whole

_RATES = (0.1, 0.3, 0.5, 0.5)
"""Limits of failure rates: SEVERE cannot occur."""
_JOBS, _JOB_TASKS = "job_failure_rate_severity_thresholds", "job_task_failure_rate_severity_thresholds"
_STAGES, _STAGE_TASKS = "stage_failure_rate_severity_thresholds", "stage_task_failure_rate_severity_thresholds"
_RUNTIME = "stage_runtime_minutes_severity_thresholds"
_INSTANCES = "spark.executor.instances"
_TASKS_FACT = "up to {value:.0%} of the tasks of a "


def failure_rate(failed: int, good: int) -> float:
    """Return the failed share; 0 without any."""
    return failed / (failed + good) if failed + good else 0.0


def task_failure_rate(one: SparkJob | Stage) -> float:
    """Return the share of failed tasks among those that completed or failed."""
    return failure_rate(one.failed_tasks, one.completed_tasks)


def above(level: int, value: float, rule: SparkRule, parameter: str) -> bool:
    """Whether ``value`` is worse than ``level`` (0-4) by a parameter of the rule."""
    return int(severities(value, rule.limits[parameter], rising=True)) > level  # type: ignore[arg-type]


def _because(texts: list[str | None], otherwise: str) -> str:
    """Return the first line of the first error, for the end of a sentence."""
    error = next((text for text in texts if text), None)
    return f": {error.split(' · ')[0]}" if error else otherwise


def _ended_jobs(app: App) -> tuple[int, list[SparkJob]]:
    return sum(job.status == "SUCCEEDED" for job in app.jobs), [job for job in app.jobs if job.status == "FAILED"]


def _measure_jobs(app: App, rule: SparkRule) -> Mapping[str, float]:
    good, failed = _ended_jobs(app)
    return {
        "jobs": failure_rate(len(failed), good),
        "tasks": max(map(task_failure_rate, app.jobs), default=0.0),
    }


def _sure_jobs(app: App, rule: SparkRule) -> Mapping[str, float]:
    """Tasks of ended jobs are final."""
    return {"tasks": max((task_failure_rate(job) for job in app.jobs if job.status != "RUNNING"), default=0.0)}


def _describe_jobs(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    good, failed = _ended_jobs(app)
    return {
        "Spark completed jobs count": str(good),
        "Spark failed jobs count": str(len(failed)),
        "Spark failed jobs list": "\n".join(f"job {job.number}, {job.name}" for job in failed),
        "Spark job failure rate": rate(failure_rate(len(failed), good)),
        "Spark jobs with high task failure rates": "\n".join(
            f"job {job.number}, {job.name} (task failure rate: {rate(task_failure_rate(job))})"
            for job in app.jobs
            if above(2, task_failure_rate(job), rule, _JOB_TASKS)
        ),
    }


def _advise_jobs(level: int, app: App) -> str:
    errors = _because([job.error for job in app.jobs], "; their errors are listed by stage.")
    return f"Find out why tasks fail{errors}" if level else "Jobs and their tasks succeed."


def _executors(app: App) -> int:
    """Return the number of executors to divide a stage's run time by: configured, else active including the driver;
    at least 1."""
    return whole(app.properties.get(_INSTANCES)) or max(1, len(app.active))


def runtime_ms(stage: Stage, executors: int) -> int:
    """Return the average run time of a stage's tasks per executor, truncated."""
    return int(stage.sums["run_ms"] / executors) if executors < 0 else stage.sums["run_ms"] // executors


def _ended_stages(app: App) -> tuple[int, int]:
    return tuple(sum(stage.status == word for stage in app.stages) for word in ("COMPLETE", "FAILED"))  # type: ignore[return-value]


def _longest_ms(app: App, executors: int) -> int:
    return max((runtime_ms(stage, executors) for stage in app.stages), default=0)


def _measure_stages(app: App, rule: SparkRule) -> Mapping[str, float]:
    good, failed = _ended_stages(app)
    return {
        "stages": failure_rate(failed, good),
        "tasks": max(map(task_failure_rate, app.stages), default=0.0),
        "runtime": _longest_ms(app, _executors(app)),
    }


def _sure_stages(app: App, rule: SparkRule) -> Mapping[str, float]:
    """Tasks of ended stages are final; run time only grows, over a fixed number of executors if set."""
    ended = [stage for stage in app.stages if stage.status in ("COMPLETE", "FAILED") and not stage.active_tasks]
    asked = whole(app.properties.get(_INSTANCES))
    return {
        "tasks": max(map(task_failure_rate, ended), default=0.0),
        "runtime": _longest_ms(app, asked) if asked else 0,
    }


def _describe_stages(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    good, failed = _ended_stages(app)
    executors = _executors(app)
    return {
        "Spark completed stages count": str(good),
        "Spark failed stages count": str(failed),
        "Spark stage failure rate": rate(failure_rate(failed, good)),
        "Spark stages with high task failure rates": "\n".join(
            f"stage {stage.stage}, attempt {stage.attempt} (task failure rate: {rate(task_failure_rate(stage))})"
            for stage in app.stages
            if above(2, task_failure_rate(stage), rule, _STAGE_TASKS)
        ),
        "Spark stages with long average executor runtimes": "\n".join(
            f"stage {stage.stage}, attempt {stage.attempt} (runtime: {span(runtime_ms(stage, executors))})"
            for stage in app.stages
            if above(2, runtime_ms(stage, executors) / MINUTE, rule, _RUNTIME)
        ),
    }


def _throws_stages(app: App) -> str:
    text = app.properties.get(_INSTANCES)
    asked = whole(text)
    if text is not None and asked is None:
        return f'java.lang.NumberFormatException: For input string: "{text}"'
    return "java.lang.ArithmeticException: / by zero" if asked == 0 and app.stages else ""


def _advise_stages(level: int, app: App) -> str:
    if not level:
        return "Stages succeed and take little time."
    executors = _executors(app)
    longest = max(app.stages, key=lambda stage: runtime_ms(stage, executors), default=None)
    if longest is None or runtime_ms(longest, executors) < 15 * MINUTE:
        return f"Find out why tasks of these stages fail{_because([stage.failure for stage in app.stages], '.')}"
    return f"Stage {longest.stage} ({longest.name[:80]}) keeps each executor busy longest: more partitions, or more executors."


HEURISTICS = (
    SparkHeuristic(
        name="Spark Job Metrics",
        class_name="JobsHeuristic",
        order=103,
        limits={_JOBS: _RATES, _JOB_TASKS: _RATES},
        branches=(
            gate("jobs", "share of jobs that failed", _JOBS, fact="{value:.0%} of its jobs failed"),
            gate("tasks", "largest share of failed tasks in a job", _JOB_TASKS, fact=f"{_TASKS_FACT}job failed"),
        ),
        measure=_measure_jobs,
        describe=_describe_jobs,
        advise=_advise_jobs,
        sure=_sure_jobs,
    ),
    SparkHeuristic(
        name="Spark Stage Metrics",
        class_name="StagesHeuristic",
        order=104,
        limits={_STAGES: _RATES, _STAGE_TASKS: _RATES, _RUNTIME: (15, 30, 45, 60)},
        branches=(
            gate("stages", "share of stages that failed", _STAGES, fact="{value:.0%} of its stages failed"),
            gate("tasks", "largest share of failed tasks in a stage", _STAGE_TASKS, fact=f"{_TASKS_FACT}stage failed"),
            gate(
                "runtime",
                "longest run time of a stage per executor",
                _RUNTIME,
                "ms",
                MINUTE,
                fact="a stage keeps each executor busy for {}",
            ),
        ),
        measure=_measure_stages,
        describe=_describe_stages,
        advise=_advise_stages,
        throws=_throws_stages,
        sure=_sure_stages,
    ),
)
