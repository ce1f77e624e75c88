"""The tables of one Spark application (option job), and what the screen draws of it beyond tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from engine.core import units
from engine.core.view import Context
from engine.job_heuristics.dr_elephant import decision
from engine.job_heuristics.dr_elephant.advice import Insight, insights_frame
from engine.job_heuristics.dr_elephant.decision import Metric, OpenJob, tables_of, verdicts_in_full
from engine.job_heuristics.dr_elephant.errors import Told
from engine.job_heuristics.dr_elephant.judged import JudgedJobs
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.insight.advice import Facts, judged
from engine.job_heuristics.spark.insight.resources import Resources, busy_ms
from engine.job_heuristics.spark.insight.skew import StageTasks, waves
from engine.job_heuristics.spark.insight.sql import PlanRow, costly, own_times
from engine.job_heuristics.spark.insight.whatif import (
    Numbers,
    Prediction,
    Scenario,
    Schedule,
    numbers,
    predict,
)
from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.spark.model.assembly import Apps
from engine.job_heuristics.spark.rules.heuristic import SparkRules, failed_tasks, surely, tree_of
from engine.job_heuristics.spark.tables import EXECUTORS, PLAN, SCALE, SPARK_TASK_LIST, SQL, STAGES
from engine.job_heuristics.tables import INSIGHTS, of_rows


@dataclass(frozen=True, slots=True)
class AppDetail:
    """One application for the screen. Equal ``stamp`` values mean equal contents, so that nothing is redrawn.
    ``waves``: when the waves of each stage attempt began, epoch ms."""

    stamp: tuple[Any, ...]
    app: App = field(compare=False, repr=False)
    held: Resources = field(compare=False, repr=False)
    verdicts: tuple[decision.VerdictDetail, ...] = field(compare=False)
    insights: tuple[Insight, ...] = field(compare=False)
    before: Numbers = field(compare=False)
    scenario: Scenario = field(compare=False)
    waves: Mapping[tuple[int, int], tuple[int, ...]] = field(compare=False)
    prediction: Prediction | None = field(compare=False)


SHARES = (25, 50, 75, 100, 150, 200, 300, 500)  # predicted percentages of an application's executors


def of_app(
    apps: Apps,
    verdicts: JudgedJobs,
    rules: tuple[SparkRules, SparkRules],
    app_id: str,
    parameters: JobParameters,
    context: Context,
) -> tuple[AppDetail, dict[str, pl.DataFrame]]:
    """Make the detail of one application, and its tables by name. ``rules``: in force, and of the scenario."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    app = apps.apps[app_id]
    revision = (app_id, times, apps.revisions[app_id])
    facts = memo.value("spark facts", revision, lambda: _Facts(app))
    context.check()
    scenario = Scenario(
        parameters.executors, parameters.executor_cores, parameters.executor_mb, parameters.shuffle_partitions
    )
    mine = verdicts.heuristics.filter(pl.col("job_id") == app_id)
    found, _ = memo.value("spark insights", (*revision, rules[0].key), lambda: judged(facts, rules[0]))
    detail = _detail(facts, found, mine, rules, scenario, (*revision, verdicts.version, parameters))
    metrics: list[Metric] | None = None
    if detail.prediction is not None:
        now, then = detail.before, detail.prediction.numbers
        metrics = [
            ("used", now.used_mb_s, then.used_mb_s, units.mb_seconds),
            ("wasted", now.wasted_mb_s, then.wasted_mb_s, units.mb_seconds),
            ("true cost", now.cost_mb_s, then.cost_mb_s, units.mb_seconds),
            ("run time", now.runtime_ms, then.runtime_ms, units.duration),
        ]
    frame = OpenJob(
        app_id, apps.apps, partial(_input_bytes, apps), lambda name: apps.apps[name].properties, _errors(app)
    )
    return detail, tables_of(frame, verdicts, detail.verdicts, metrics, parameters.compare, context) | facts.tables | {
        INSIGHTS.name: insights_frame(found)
    }


class _Facts(Facts):
    """Parts of an application that do not depend on parameters, and their tables."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.waves = waves(app, self.held.slots)
        self.tables = {
            STAGES.name: _stages(app, self.stages, self.held),
            EXECUTORS.name: _executors(app, self.held),
            SQL.name: _sql(app, self.plans),
            PLAN.name: _plans(self.plans),
            SCALE.name: _scale(self.schedule, self.held),
            SPARK_TASK_LIST.name: SPARK_TASK_LIST.frame(
                app.tasks.with_columns(pl.when(pl.col("getting_ms") > 0).then("getting_ms").alias("getting_ms")).select(
                    SPARK_TASK_LIST.schema.names()
                )
            ),
        }  # fmt: skip


def _detail(
    facts: _Facts,
    insights: tuple[Insight, ...],
    verdicts: pl.DataFrame,
    rules: tuple[SparkRules, SparkRules],
    scenario: Scenario,
    stamp: tuple[Any, ...],
) -> AppDetail:
    app = facts.app
    prediction = predict(app, scenario, rules[1]) if scenario != Scenario() or rules[1] is not rules[0] else None
    by_name = {rule.name: rule for rule in rules[0].rules}

    def words(name: str, level: int) -> tuple[decision.Why | None, str, decision.Outlook | None]:
        rule = by_name.get(name)
        if rule is None:
            return None, "", None
        why = decision.explain_tree(name, "", tree_of(rule, [app]), level)
        outlook = None if app.ended else decision.Outlook(name, level, *surely(rule, app, level))
        return why, rule.heuristic.advise(level, app), outlook

    made = verdicts_in_full(verdicts, words, prediction.levels if prediction is not None else {})
    return AppDetail(
        stamp, app, facts.held, made, insights, numbers(app, facts.held), scenario, facts.waves, prediction
    )


def _stages(app: App, tasks: dict[tuple[int, int], StageTasks], held: Resources) -> pl.DataFrame:
    rows = []
    for stage in app.stages:
        sums, found = stage.sums, tasks.get(stage.key)
        took = (
            stage.finish_ms - stage.submit_ms if stage.finish_ms is not None and stage.submit_ms is not None else None
        )
        cpu_ms = None if stage.outside else sums["cpu_ns"] // 1_000_000
        rows.append(
            (
                stage.stage, stage.attempt, stage.name, stage.status, ", ".join(map(str, stage.jobs)), stage.tasks,
                stage.completed_tasks, stage.failed_tasks, stage.killed_tasks, stage.active_tasks, stage.submit_ms, took,
                sums["run_ms"], cpu_ms, sums["gc_ms"], found.median_ms if found else None,
                found.longest_ms if found else None, stage.tasks / held.slots if held.slots else None,
                100 * found.longest_ms / took if found and took else None, found.cause if found else "", sums["input_bytes"],
                sums["output_bytes"], stage.shuffle_read_bytes, sums["shuffle_write_bytes"], sums["memory_spilled"],
                sums["disk_spilled"], sums["fetch_wait_ms"], stage.failure or "",
            )
        )  # fmt: skip
    return of_rows(STAGES, rows)


def _executors(app: App, held: Resources) -> pl.DataFrame:
    of, busy = {one.executor.name: one for one in held.held}, busy_ms(app)
    rows = []
    for e in sorted(app.executors, key=lambda e: (e.add_ms or 0, e.name)):
        one = of.get(e.name)
        life = one.life_ms if one else None
        room = one.slots * one.life_ms if one else 0
        rows.append(
            (
                e.name, e.host, e.active, e.cores, e.add_ms, e.remove_ms, life,
                100 * e.task_ms / room if room else None, None if life is None else max(0, life - busy.get(e.name, 0)),
                e.completed_tasks + e.failed_tasks, e.failed_tasks,
                e.duration_ms, e.gc_ms, e.input_bytes, e.shuffle_read, e.shuffle_write, e.max_memory, e.memory_used,
                e.peaks["heap"] or None, e.reason or "",
            )
        )  # fmt: skip
    return of_rows(EXECUTORS, rows)


def _sql(app: App, plans: dict[int, list[PlanRow]]) -> pl.DataFrame:
    jobs: dict[int, list[int]] = {}
    for job in reversed(app.jobs):
        if job.execution is not None:
            jobs.setdefault(job.execution, []).append(job.number)
    rows = []
    for one in app.sql:
        nodes = plans[one.number]
        own = own_times(nodes)
        longest = max(range(len(nodes)), key=own.__getitem__, default=None)
        widest, largest = (max(nodes, key=key, default=None) for key in (lambda n: n.rows or 0, lambda n: n.bytes or 0))
        scans = [node for node in nodes if node.name.startswith("Scan")]
        took = one.end_ms - one.start_ms if one.end_ms is not None and one.start_ms is not None else None
        state = "RUNNING" if one.end_ms is None else "FAILED" if one.error else "SUCCEEDED"
        rows.append(
            (
                one.number, one.root, one.description, state, one.start_ms, took,
                ", ".join(map(str, jobs.get(one.number, ()))), len(nodes),
                *((nodes[longest].name, own[longest]) if longest is not None and own[longest] else ("", None)),
                *((widest.name, widest.rows) if widest and widest.rows else ("", None)),
                *((largest.name, largest.bytes) if largest and largest.bytes else ("", None)),
                sum(node.rows or 0 for node in scans), sum(node.metrics.get("number of files read", 0) for node in scans),
                sum(node.metrics.get("size of files read", 0) for node in scans), one.error or "",
            )
        )  # fmt: skip
    return of_rows(SQL, rows)


def _plans(plans: dict[int, list[PlanRow]]) -> pl.DataFrame:
    rows = []
    for number, nodes in plans.items():
        own = own_times(nodes)
        whole = sum(own)
        for place, (node, ms, marks) in enumerate(zip(nodes, own, costly(nodes), strict=True)):
            share = 100 * ms / whole if whole else None
            rows.append(
                (number, place, node.depth, node.name, node.time_ms or None, node.rows, node.bytes, share, marks, node.text,
                 json.dumps(node.metrics))
            )  # fmt: skip
    return of_rows(PLAN, rows)


def _scale(plan: Schedule, held: Resources) -> pl.DataFrame:
    if not plan.groups or not plan.executors:
        return SCALE.empty()
    now, ideal = plan.executors, plan.ideal()
    base = plan.time_ms(now)
    each = max((one.cores for one in held.held), default=1)
    rows = []
    for count in sorted({max(1, now * share // 100) for share in SHARES} | {now, ideal}):
        ms = base if count == now else plan.time_ms(count)
        whole = ms * count * plan.slots_each
        mark = ", ".join(word for word, one in (("now", now), ("ideal", ideal)) if one == count)
        rows.append(
            (count, 100 * count / now, ms, 100 * (ms - base) / base if base else None,
             100 * (plan.run_ms / whole) if whole else 0.0, count * each * ms / 3.6e6, mark)
        )  # fmt: skip
    return of_rows(SCALE, rows)


def _errors(app: App) -> list[Told]:
    """Return the errors of its tasks, stages, jobs and queries."""
    told = failed_tasks(app).select(pl.coalesce("trace", "error").alias("told"), "stage_id").drop_nulls("told")
    of_tasks = told.group_by("told", maintain_order=True).agg(pl.len(), pl.col("stage_id").first())
    return [
        *((error, number, f"stage {stage}") for error, number, stage in of_tasks.iter_rows()),
        *((one.failure or "", 0, f"stage {one.stage}") for one in app.stages),
        *((job.error or "", 0, f"job {job.number}") for job in app.jobs),
        *((one.error or "", 0, f"query {one.number}") for one in app.sql),
    ]


def _input_bytes(apps: Apps, wanted: Sequence[str]) -> dict[str, int | None]:
    return {name: sum(stage.sums["input_bytes"] for stage in apps.apps[name].stages) for name in wanted}
