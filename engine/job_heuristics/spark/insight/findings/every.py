"""All insights of an application, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.job_heuristics.spark.insight.findings import memory, plans, stages, timing
from engine.job_heuristics.spark.insight.findings.insight import GROWS, PROVISIONAL, Insight
from engine.job_heuristics.spark.insight.resources import Resources
from engine.job_heuristics.spark.insight.schedule import Schedule
from engine.job_heuristics.spark.insight.skew import StageTasks
from engine.job_heuristics.spark.insight.sql import PlanRow
from engine.job_heuristics.spark.model.app import App

GROWING = frozenset({"failed attempts", "speculation", "lost executors", "stage retries", "spill", "evicted blocks"})
"""Topics whose number can only grow while an application runs."""


def insights(
    app: App,
    held: Resources,
    plan: Schedule,
    tasks: Mapping[tuple[int, int], StageTasks],
    executions: Mapping[int, list[PlanRow]],
) -> tuple[Insight, ...]:
    """Return the insights of an application; of a running one with what may still change."""
    found = [
        *timing.insights(app, held, plan, tasks),
        *memory.insights(app, held, tasks),
        *memory.cache_insights(app),
        *stages.insights(app, held, tasks),
        *stages.locality_insights(app, held),
        *plans.insights(app, executions),
    ]
    if not app.ended:
        settled = _settled(app)
        found = [one if one.subject in settled else so_far(one) for one in found]
    found.sort(key=lambda one: -one.level)
    worst: dict[tuple[str, str], Insight] = {}
    for one in found:
        worst.setdefault((one.topic, one.subject), one)  # the worst per plan, or over attempts of a stage
    return tuple(worst.values())


def _settled(app: App) -> frozenset[str]:
    """Return the final subjects of a running application: ended stages and executions."""
    open_stages = {stage.stage for stage in app.stages if stage.status in ("ACTIVE", "PENDING")}
    ended = {f"stage {stage.stage}" for stage in app.stages if stage.stage not in open_stages}
    return frozenset(ended | {f"sql {one.number}" for one in app.sql if one.end_ms is not None})


def so_far(one: Insight) -> Insight:
    """Mark an insight as provisional."""
    status = GROWS if one.topic in GROWING else PROVISIONAL
    return replace(one, status=status, reason=f"So far: {one.reason}")
