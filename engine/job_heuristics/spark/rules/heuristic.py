"""A Spark heuristic: its declaration, judged by gates over measures with one value per application, and the result tables of
Dr. Elephant's rules for Spark applications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.job_heuristics.dr_elephant import judged
from engine.job_heuristics.dr_elephant.display import details_json
from engine.job_heuristics.dr_elephant.errors import cause_of, root_cause
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Gate, Tree
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule, Rules
from engine.job_heuristics.dr_elephant.judged import FAILED, STRIPS, Judged, JudgedJobs, findings_of, strips_of
from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.spark.model.assembly import Apps
from engine.job_heuristics.spark.rules import metrics
from engine.job_heuristics.tables import HEURISTICS as VERDICTS
from engine.job_heuristics.tables import JOBS, SEVERITIES

SPARK = "spark"  # application type of Spark's heuristics in HeuristicConf.xml, and name of the type in lists


class SparkHeuristic(Heuristic, frozen=True, kw_only=True, eq=False):
    """A heuristic of Spark applications.

    ``measure``: its measures of one application; ``describe``: Dr. Elephant's labels and values at a severity 0-4;
    ``advise``: what to do; ``throws``: Dr. Elephant's exception or empty; ``sure``: lower bounds of the final
    measures of a running application (default 0); ``measure`` itself means that they are final.
    """

    measure: Callable[[App, SparkRule], Mapping[str, float]]
    describe: Callable[[App, SparkRule, int], Mapping[str, Any]]
    advise: Callable[[int, App], str]
    throws: Callable[[App], str] = lambda app: ""
    sure: Callable[[App, SparkRule], Mapping[str, float]] = lambda app, rule: {}
    application: str = SPARK


SparkRule = Rule[SparkHeuristic]
SparkRules = Rules[SparkHeuristic]


def gate(key: str, label: str, limits: str, unit: str = "", scale: float = 1.0, *, fact: str) -> Branch:
    """Return a branch of one rising gate over the measure ``key``; ``fact`` as in ``Gate``."""
    made = Gate(
        key=key, label=label, unit=unit, value=lambda subject: subject[key], limits=limits, scale=scale, fact=fact
    )
    return Branch((made,))


def tree_of(rule: SparkRule, apps: Sequence[App]) -> Tree:
    """Return the readings of a rule's gates over ``apps``."""
    return _tree(rule, [rule.heuristic.measure(app, rule) for app in apps])


def surely(rule: SparkRule, app: App, level: int) -> tuple[int, int]:
    """Return bounds of the final severity of a running application, now at ``level``."""
    heuristic = rule.heuristic
    if heuristic.sure is heuristic.measure:
        return level, level
    lowest = dict.fromkeys(heuristic.measure(app, rule), 0.0) | dict(heuristic.sure(app, rule))
    return int(_tree(rule, [lowest]).levels()[0]), 4


def _tree(rule: SparkRule, measured: Sequence[Mapping[str, float]]) -> Tree:
    names = measured[0] if measured else ()
    measures: dict[str, Array] = {name: np.array([each[name] for each in measured], dtype=np.float64) for name in names}
    return rule.tree(rule.subject(measures))


TYPE = "Spark"  # job type of Spark applications
_STATUSES = ("RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN")


def upstream_says(app: App, rules: SparkRules) -> str:
    """Return why Dr. Elephant would show no useful result of an application, or empty."""
    if app.upstream_error:
        return app.upstream_error
    if app.state == "RUNNING":
        return "still running: Dr. Elephant takes its end for 1969-12-31T23:59:59.999, and counts no memory as used"
    if any(job.status not in _STATUSES for job in app.jobs):
        return "com.fasterxml.jackson.databind.exc.InvalidFormatException: a job of unknown status"
    for rule in rules.rules:
        if TYPE not in rule.excluded and (error := rule.heuristic.throws(app)):
            return error
    return metrics.throws(app)


def judge(apps: Mapping[str, App], rules: SparkRules) -> Judged:
    """Return the result frames of ``apps`` under ``rules``."""
    listed = list(apps.values())
    worst = np.zeros(len(listed), dtype=np.int64)
    cells: list[tuple[int, int, str, int, str]] = []
    told: dict[tuple[str, str], tuple[str, str]] = {}
    for order, rule in enumerate(rules.rules):
        if not listed or TYPE in rule.excluded:
            continue
        tree = tree_of(rule, listed)
        readings = [(one, one.levels()) for branch in tree.branches for one in branch]
        levels = tree.levels()
        worst = np.maximum(worst, levels)
        for at, (app, level) in enumerate(zip(listed, levels.tolist(), strict=True)):
            cells.append((at, order, rule.name, level, details_json(rule.heuristic.describe(app, rule, level))))
            if level:
                text = rule.heuristic.advise(level, app).removesuffix(".")
                facts = ", ".join(reading.fact(at) for reading, alone in readings if alone[at] == level)
                told[app.app_id, rule.name] = facts, f"{text[:1].lower()}{text[1:]}"
    cells.sort(key=lambda cell: cell[:2])
    names = [app.app_id for app in listed]
    heuristics = VERDICTS.frame(
        {
            "job_id": [names[at] for at, *_ in cells],
            "heuristic": [name for _, _, name, _, _ in cells],
            "severity": [SEVERITIES[level] for *_, level, _ in cells],
            "score": [0] * len(cells),
            "details": [details for *_, details in cells],
        }
    )
    shown = _jobs(listed, [SEVERITIES[level] for level in worst.tolist()], rules)
    strips = pl.DataFrame({"job_id": names, "strip": strips_of(names, heuristics, rules.names)}, STRIPS)
    return Judged(shown, heuristics, strips, findings_of(shown, heuristics, told))


def _jobs(apps: list[App], severities: list[str], rules: SparkRules) -> pl.DataFrame:
    counted = [metrics.metrics(app) for app in apps]
    columns: dict[str, list[Any]] = {
        "job_id": [app.app_id for app in apps],
        "name": [app.name for app in apps],
        "user": [app.user for app in apps],
        "queue": [app.properties.get("spark.yarn.queue") for app in apps],
        "job_type": [TYPE] * len(apps),
        "state": [app.state for app in apps],
        "submit_ms": [app.start_ms for app in apps],
        "launch_ms": [None] * len(apps),
        "finish_ms": [app.attempts[0].end_ms if app.attempts else None for app in apps],
        "maps": [None] * len(apps),
        "reduces": [None] * len(apps),
        "severity": severities,
        "score": [0] * len(apps),
        "used_mb_s": [_fitting(used) for used, _ in counted],
        "wasted_mb_s": [_fitting(wasted) for _, wasted in counted],
        "wait_ms": [0] * len(apps),
        "runtime_ms": [app.runtime_ms for app in apps],
        "error": [why_failed(app) for app in apps],
        "upstream_says": [upstream_says(app, rules) for app in apps],
        "attempts_running": [app.running.height for app in apps],
        "source": ["log"] * len(apps),
        "notes": ["; ".join(notes(app)) for app in apps],
    }
    return JOBS.frame(columns)


def why_failed(app: App) -> str:
    """Return the cause of the failure of an application: of its last failed job, else of SQL, else the most frequent of its
    tasks; empty if it did not fail, or nothing tells."""
    if app.state not in FAILED:
        return ""
    failed = [job.error for job in app.jobs if job.error] or [one.error for one in reversed(app.sql) if one.error]
    told = root_cause(failed[0]) if failed else ""
    if told.rstrip(".") not in ("", "Job aborted") and not told.endswith("(most recent call last):"):
        return told
    return cause_of(failed_tasks(app)["error"]) or told


def failed_tasks(app: App) -> pl.DataFrame:
    """Return the attempts of tasks that ended with an error."""
    return app.tasks.filter(~pl.col("reason").is_in(["Success", "TaskKilled", "Resubmitted"]))


def _fitting(value: int) -> int:
    """Clip a number to 64 bit."""
    return max(-(2**63), min(value, 2**63 - 1))


def notes(app: App) -> tuple[str, ...]:
    """Return assumptions made for an application, and where Dr. Elephant's numbers mislead."""
    properties = app.properties
    memory = properties.get("spark.executor.memory")
    unset = memory is None or properties.get("spark.executor.instances") is None
    removed = sum(not executor.active for executor in app.executors)
    told = (
        (not properties, "no Spark properties found"),
        (unset, "spark.executor.instances or spark.executor.memory is not set: Dr. Elephant counts nothing as used; table costs "
         "counts what executors took"),
        (not unset and (memory or "").strip().isdecimal(),
         "spark.executor.memory has no unit: Dr. Elephant reads bytes, Spark MiB"),
        (removed, f"{removed} executor(s) were removed before the end: Dr. Elephant does not see them, nor their tasks"),
        (len(app.attempts) > 1,
         f"{len(app.attempts)} attempts: Dr. Elephant takes the duration of the oldest, all else of the newest"),
        (app.number("spark.executor.cores", 1) > 1,
         "tasks that share an executor count its memory once each: Dr. Elephant finds no waste there"),
        (app.state == "RUNNING", "still running: verdicts and metrics are over what the log holds so far"),
    )  # fmt: skip
    return (*app.notes, *(words for so, words in told if so))


def judge_apps(apps: Apps, rules: SparkRules, context: Context) -> JudgedJobs:
    """Judge all applications; only those that changed since the last call are judged again."""
    return judged.judge_apps("spark", apps, lambda some: judge(some, rules), rules.key, context)
