"""Spark Stage Metrics: stages that failed, that have many failed tasks, or keep executors busy for long.

Source: Dr. Elephant's ``StagesHeuristic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import span
from engine.job_heuristics.dr_elephant.gates import MINUTE
from engine.job_heuristics.spark.model.app import App, Stage
from engine.job_heuristics.spark.rules.heuristic import RATES, SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.jobs import above, failure_rate, task_failure_rate
from engine.job_heuristics.spark.rules.metrics import rate, whole

_STAGES, _TASKS = "stage_failure_rate_severity_thresholds", "stage_task_failure_rate_severity_thresholds"
_RUNTIME = "stage_runtime_minutes_severity_thresholds"
_INSTANCES = "spark.executor.instances"


def _executors(app: App) -> int:
    """Return the number of executors to divide a stage's run time by: configured, else active including the driver;
    at least 1."""
    asked = whole(app.properties.get(_INSTANCES))
    return asked or max(1, len(app.active))


def runtime_ms(stage: Stage, executors: int) -> int:
    """Return the average run time of a stage's tasks per executor, truncated."""
    return int(stage.sums["run_ms"] / executors) if executors < 0 else stage.sums["run_ms"] // executors


def _counts(app: App) -> tuple[int, int]:
    return tuple(sum(stage.status == word for stage in app.stages) for word in ("COMPLETE", "FAILED"))  # type: ignore[return-value]


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    good, failed = _counts(app)
    executors = _executors(app)
    return {
        "stages": failure_rate(failed, good),
        "tasks": max(map(task_failure_rate, app.stages), default=0.0),
        "runtime": max((runtime_ms(stage, executors) for stage in app.stages), default=0),
    }


def _sure(app: App, rule: SparkRule) -> Mapping[str, float]:
    """Tasks of ended stages are final; run time only grows, over a fixed number of executors if set."""
    ended = [stage for stage in app.stages if stage.status in ("COMPLETE", "FAILED") and not stage.active_tasks]
    asked = whole(app.properties.get(_INSTANCES))
    return {
        "tasks": max(map(task_failure_rate, ended), default=0.0),
        "runtime": max((runtime_ms(stage, asked) for stage in app.stages), default=0) if asked else 0,
    }


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    good, failed = _counts(app)
    executors = _executors(app)
    rates = [(stage, task_failure_rate(stage)) for stage in app.stages]
    times = [(stage, runtime_ms(stage, executors)) for stage in app.stages]
    return {
        "Spark completed stages count": str(good),
        "Spark failed stages count": str(failed),
        "Spark stage failure rate": rate(failure_rate(failed, good)),
        "Spark stages with high task failure rates": "\n".join(
            f"stage {stage.stage}, attempt {stage.attempt} (task failure rate: {rate(value)})"
            for stage, value in rates
            if above(2, value, rule, _TASKS)
        ),
        "Spark stages with long average executor runtimes": "\n".join(
            f"stage {stage.stage}, attempt {stage.attempt} (runtime: {span(value)})"
            for stage, value in times
            if above(2, value / MINUTE, rule, _RUNTIME)
        ),
    }


def _throws(app: App) -> str:
    text = app.properties.get(_INSTANCES)
    asked = whole(text)
    if text is not None and asked is None:
        return f'java.lang.NumberFormatException: For input string: "{text}"'
    return "java.lang.ArithmeticException: / by zero" if asked == 0 and app.stages else ""


def _advise(level: int, app: App) -> str:
    if not level:
        return "Stages succeed and take little time."
    executors = _executors(app)
    longest = max(app.stages, key=lambda stage: runtime_ms(stage, executors), default=None)
    if longest is None or runtime_ms(longest, executors) < 15 * MINUTE:
        error = next((stage.failure for stage in app.stages if stage.failure), None)
        return "Find out why tasks of these stages fail" + (f": {error.split(' · ')[0]}" if error else ".")
    return f"Stage {longest.stage} ({longest.name[:80]}) keeps each executor busy longest: more partitions, or more executors."


HEURISTICS = (
    SparkHeuristic(
        name="Spark Stage Metrics",
        class_name="StagesHeuristic",
        order=104,
        limits={_STAGES: RATES, _TASKS: RATES, _RUNTIME: (15, 30, 45, 60)},
        branches=(
            gate("stages", "share of stages that failed", _STAGES, fact="{value:.0%} of its stages failed"),
            gate(
                "tasks",
                "largest share of failed tasks in a stage",
                _TASKS,
                fact="up to {value:.0%} of the tasks of a stage failed",
            ),
            gate(
                "runtime",
                "longest run time of a stage per executor",
                _RUNTIME,
                "ms",
                MINUTE,
                fact="a stage keeps each executor busy for {}",
            ),
        ),
        measure=_measure,
        describe=_describe,
        advise=_advise,
        throws=_throws,
        sure=_sure,
    ),
)
