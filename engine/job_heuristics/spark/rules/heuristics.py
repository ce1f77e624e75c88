"""All Spark heuristics, in Dr. Elephant's order: its configuration, and those of executors, jobs and stages.

Source: Dr. Elephant's ``ExecutorsHeuristic``, ``ExecutorGcHeuristic``, ``JobsHeuristic`` and ``StagesHeuristic``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import java_double, span
from engine.job_heuristics.dr_elephant.gates import MINUTE, ratio, severities
from engine.job_heuristics.spark.model.app import (
    DRIVER,
    LOW_PEAK,
    App,
    Executor,
    SparkJob,
    Stage,
    heap_bytes,
    is_local,
    peak_heap,
)
from engine.job_heuristics.spark.rules import configuration
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import distribution, rate, size, whole

_BYTES, _MILLIS = "ignore_max_bytes_less_than_threshold", "ignore_max_millis_less_than_threshold"
_LIMITS = "max_to_median_ratio_severity_thresholds"
_PARTS: tuple[tuple[str, str, Callable[[Executor], int], Callable[[int], str]], ...] = (
    ("storage", "storage memory used", lambda each: each.memory_used, size),
    ("time", "task time", lambda each: each.duration_ms, span),
    ("input", "input bytes", lambda each: each.input_bytes, size),
    ("read", "shuffle read bytes", lambda each: each.shuffle_read, size),
    ("write", "shuffle write bytes", lambda each: each.shuffle_write, size),
)
"""Compared quantities: name of the measure, label, value of an executor, format."""
_NEVER = float("inf")  # ratio for a median of 0


def _distributions(app: App) -> dict[str, dict[str, int]]:
    active = app.active
    return {key: distribution([value(each) for each in active]) for key, _, value, _ in _PARTS} if active else {}


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    found = _distributions(app)
    measures = {}
    for key, _, _, _ in _PARTS:
        if not found or found[key]["max"] < rule.numbers[_MILLIS if key == "time" else _BYTES]:
            measures[key] = 0.0
        else:
            measures[key] = found[key]["max"] / found[key]["median"] if found[key]["median"] else _NEVER
    return measures


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    active, found = app.active, _distributions(app)
    allocated, used = sum(each.max_memory for each in active), sum(each.memory_used for each in active)
    details = {
        "Total executor storage memory allocated": size(allocated),
        "Total executor storage memory used": size(used),
        "Executor storage memory utilization rate": rate(float(ratio(used, allocated))),  # type: ignore[arg-type]
    }
    for key, label, _, write in _PARTS:
        if found:
            texts = ", ".join(f"{name}: {write(value)}" for name, value in found[key].items())
            details[f"Executor {label} distribution"] = texts
        if key == "time":
            details["Executor task time sum"] = str(int(sum(each.duration_ms for each in active) / 1000))
    return details


def _advise(level: int, app: App) -> str:
    if not level:
        return "Executors share the work evenly."
    return (
        "Some executors do much more than others: open the job for its skewed stages, what divides their data, and slow "
        "hosts."
    )


_HIGH, _LOW = "gc_severity_A_threshold", "gc_severity_D_threshold"


def _sums(app: App) -> tuple[int, int]:
    executors = [executor for executor in app.active if executor.name != DRIVER]
    return sum(each.gc_ms for each in executors), sum(each.duration_ms for each in executors)


def _ratio(app: App) -> float:
    gc, duration = _sums(app)
    return gc / duration if duration else float("inf") if gc else float("nan")


def _describe_gc(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    gc, duration = _sums(app)
    value = _ratio(app)
    details = {
        "GC time to Executor Run time ratio": java_double(value),
        "Total GC time": str(gc),
        "Total Executor Runtime": str(duration),
    }
    if above(1, value, rule, _HIGH):
        details["Gc ratio high"] = (
            "The job is spending too much time on GC. We recommend increasing the executor memory."
        )
    if int(severities(value, rule.limits[_LOW], rising=False)) > 1:  # type: ignore[arg-type]
        details["Gc ratio low"] = (
            "The job is spending too less time in GC. Please check if you have asked for more executor memory than required."
        )
    return details


def _advise_gc(level: int, app: App) -> str:
    if not level:
        return "Garbage collection takes little time."
    share = peak_heap(app) / heap_bytes(app)
    if 0 < share < LOW_PEAK:
        return f"The fullest heap was {share:.0%} full, so more memory is not what is missing: give executors fewer cores each."
    who = "the driver" if is_local(app) else "executors"
    key = f"spark.{'driver' if is_local(app) else 'executor'}.memory"
    return f"Give {who} more memory ({key}), or fewer cores, so that fewer tasks share a heap."


_RATES = (0.1, 0.3, 0.5, 0.5)  # limits of failure rates: SEVERE cannot occur
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
    ran = sum(executor.name != DRIVER for executor in app.executors)
    more = f" Dr. Elephant divides by {_INSTANCES}={executors}, but {ran} ran." * (ran > executors)
    return (
        f"Stage {longest.stage} ({longest.name[:80]}) keeps each executor busy longest: more partitions, or more executors."
        f"{more}"
    )


HEURISTICS: tuple[SparkHeuristic, ...] = (
    *configuration.HEURISTICS,
    SparkHeuristic(
        name="Spark Executor Metrics",
        class_name="ExecutorsHeuristic",
        order=102,
        limits={_LIMITS: (10**0.125, 10**0.25, 10**0.5, 10)},
        numbers={_BYTES: 100 * 2**20, _MILLIS: 300_000},
        branches=tuple(
            gate(
                key,
                f"largest to median {label} of executors",
                _LIMITS,
                fact=f"{label} of the busiest executor is {{}} times the median",
            )
            for key, label, _, _ in _PARTS
        ),
        measure=_measure,
        describe=_describe,
        advise=_advise,
        throws=lambda app: "" if app.active else "java.lang.UnsupportedOperationException: empty.min",
    ),
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
    SparkHeuristic(
        name="Executor GC",
        class_name="ExecutorGcHeuristic",
        order=105,
        limits={_HIGH: (0.08, 0.1, 0.15, 0.2), _LOW: (0.05, 0.04, 0.03, 0.01)},
        branches=(
            gate(
                "gc",
                "share of task time in garbage collection",
                _HIGH,
                fact="{value:.1%} of the task time is garbage collection",
            ),
        ),
        measure=lambda app, rule: {"gc": _ratio(app)},
        describe=_describe_gc,
        advise=_advise_gc,
    ),
)
