"""The tables of one Tez application (option job), and what the screen draws of it beyond tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from engine.core.view import Context
from engine.job_heuristics.dr_elephant import decision
from engine.job_heuristics.dr_elephant.advice import (
    granted,
    insights_frame,
)
from engine.job_heuristics.dr_elephant.decision import OpenJob, tables_of, verdicts_in_full
from engine.job_heuristics.dr_elephant.judged import JudgedJobs
from engine.job_heuristics.dr_elephant.sides import subject_of, totals
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import INSIGHTS, SEVERITIES, of_rows
from engine.job_heuristics.tez import tables
from engine.job_heuristics.tez.advice import SETTINGS
from engine.job_heuristics.tez.insight import InDepth, Vertex, in_depth
from engine.job_heuristics.tez.judging import errors_of, failure_of, fetch_error, unit_of
from engine.job_heuristics.tez.model import App, Apps
from engine.job_heuristics.tez.rules import TezRules, Unit, judge_units, true_mb

MOST_IN_DEPTH = 100
"""DAGs of an application that are looked into, the newest first; a session of Hive may run thousands."""


@dataclass(frozen=True, slots=True)
class TezDetail:
    """One application for the screen. Equal ``stamp`` values mean equal contents, so that nothing is redrawn.
    ``dags``: the newest first; ``prediction`` is always None: no what-if is modelled."""

    stamp: tuple[Any, ...]
    app: App = field(compare=False, repr=False)
    dags: tuple[InDepth, ...] = field(compare=False, repr=False)
    verdicts: tuple[decision.VerdictDetail, ...] = field(compare=False)
    prediction: None = None


def of_app(
    apps: Apps, verdicts: JudgedJobs, rules: TezRules, app_id: str, parameters: JobParameters, context: Context
) -> tuple[TezDetail, dict[str, pl.DataFrame]]:
    """Make the detail of one application, and its tables by name."""
    app = apps.apps[app_id]
    revision = (app_id, "now" if context.at_ms is None else "past", apps.revisions[app_id])
    dags, facts = context.memo.value("tez facts", (*revision, rules.key), lambda: _facts(app, rules, context))
    jobs = judge_units([unit_of(app, fetch_error(app), own=False)], rules)[0]
    mine = verdicts.heuristics.filter(pl.col("job_id") == app_id)

    def words(name: str, level: int) -> tuple[decision.Why | None, str, decision.Outlook | None]:
        rule = next((rule for rule in rules.rules if rule.name == name), None)
        if rule is None:
            return None, "", None
        subject = subject_of(rule, jobs)
        explained = not rule.heuristic.averages or subject["n"][0] > 0
        why = decision.explain_tree(name, rule.heuristic.side, rule.tree(subject), level, explained=bool(explained))
        return why, rule.heuristic.advice if level else "", None

    full = verdicts_in_full(mine, words, {})
    errors = [told for dag in app.dags[:MOST_IN_DEPTH] for told in errors_of(app, dag)]
    frame = OpenJob(
        app_id,
        apps.apps,
        lambda names: {name: int(apps.apps[name].tasks["input_bytes"].sum() or 0) for name in names},
        lambda name: apps.apps[name].conf,
        errors,
    )
    detail = TezDetail((*revision, verdicts.version, parameters), app, dags, full)
    return detail, tables_of(frame, verdicts, full, None, parameters.compare, context) | facts


def _facts(app: App, rules: TezRules, context: Context) -> tuple[tuple[InDepth, ...], dict[str, pl.DataFrame]]:
    """Return each DAG in depth, and the tables that do not depend on other applications."""
    found = []
    for dag in app.dags[:MOST_IN_DEPTH]:
        context.check()
        found.append(_allowed(app, in_depth(app, dag)))
    insights = sorted((one for each in found for one in each.insights), key=lambda one: -one.level)
    unique = {(one.topic, one.subject): one for one in reversed(insights)}
    return tuple(found), {
        tables.DAGS.name: _dags(app, found, rules),
        tables.VERTICES.name: of_rows(
            tables.VERTICES, [_vertex(app, each, v) for each in found for v in each.vertices]
        ),
        tables.TASK_LIST.name: _task_list(app),
        INSIGHTS.name: insights_frame(reversed(unique.values())),
    }


def _allowed(app: App, found: InDepth) -> InDepth:
    """Keep in a DAG's insights only settings that would change something. With several DAGs the subjects name it."""
    of = f", DAG {found.dag.number}" if len(app.dags) > 1 else ""
    answers = granted([one.wish for one in found.insights], SETTINGS, app.conf, app)
    insights = [
        replace(one.answered(answer), subject=f"{one.subject}{of}")
        for one, answer in zip(found.insights, answers, strict=True)
    ]
    return replace(found, insights=tuple(insights))


def _dags(app: App, found: Sequence[InDepth], rules: TezRules) -> pl.DataFrame:
    """Return DAGS rows, each judged by itself."""
    if not app.dags:
        return tables.DAGS.empty()
    units = []
    for dag in app.dags:
        tasks = app.tasks.filter((pl.col("dag") == dag.number) & pl.col("total_ms").is_not_null())
        state = "RUNNING" if dag.state != "SUCCEEDED" else dag.state  # what ended of one that failed is judged, too
        units.append(Unit(dag.dag_id, app, state, tasks, dag.facts["start_ms"], own=True))
    jobs, made, _, counted = judge_units(units, rules)
    worst, score = totals(jobs, made)
    bad = app.attempts.filter(pl.col("status").is_in(["FAILED", "KILLED"]))
    rows = []
    for k, (dag, unit) in enumerate(zip(app.dags, units, strict=True)):
        facts, of = dag.facts, pl.col("dag") == dag.number
        start, end, sent = facts["start_ms"], facts["end_ms"], facts["order_ms"]
        failed = bad.filter(of)
        why = failure_of(app, dag)
        level = worst[k] if unit.tasks.height else None
        names = [name for name, _ in groupby(step.vertex for step in (found[k].path if k < len(found) else ()))]
        rows.append(
            (
                dag.dag_id, dag.number, dag.name or None, dag.state, None if level is None else SEVERITIES[level],
                None if level is None else score[k], start, end - start if start is not None and end is not None else None,
                max(0, start - sent) if start is not None and sent is not None else None,
                app.vertices.filter(of).height, app.tasks.filter(of).height, failed.height,
                counted["used_mb_s"][k] if level is not None else None, counted["wasted_mb_s"][k] if level is not None else None,
                facts["user"] or app.facts["am_user"], facts["queue"], facts["caller"], " → ".join(names), why,
            )
        )  # fmt: skip
    return of_rows(tables.DAGS, rows)


def _vertex(app: App, found: InDepth, vertex: Vertex) -> tuple[Any, ...]:
    took, data = vertex.took, vertex.data
    known = vertex.tasks["physical_bytes"].drop_nulls().to_numpy()
    waits = (vertex.tasks["allocated_ms"] - vertex.tasks["created_ms"]).drop_nulls().to_numpy()
    begun, ended = vertex.start_ms, vertex.end_ms
    waits_for = ", ".join(f"{a} ({how.lower().replace('_', ' ')})" for a, how in vertex.inputs)
    return (
        found.dag.number, vertex.wave, vertex.name, waits_for,
        vertex.state, vertex.planned, len(took), ended - begun if begun is not None and ended is not None else None,
        vertex.critical_ms if found.path else None, int(np.median(waits)) if len(waits) else None,
        int(np.median(took)) if len(took) else None, int(took.max()) if len(took) else None,
        int(data.sum()) or None, int(data.max(initial=0)) or None,
        100 * float(known.mean()) / (true_mb(app, "map") * 2**20) if len(known) else None,
    )  # fmt: skip


def _task_list(app: App) -> pl.DataFrame:
    made: Mapping[str, pl.Expr] = {
        "vertex": pl.col("vertex_name").fill_null(pl.format("vertex {}", "vertex")),
        "state": pl.col("status").fill_null("RUNNING"),
        "ms": pl.col("total_ms"),
        "wait_ms": pl.col("allocated_ms") - pl.col("created_ms"),
    }
    return tables.TASK_LIST.frame(app.tasks.with_columns(**made).select(tables.TASK_LIST.schema.names()))
