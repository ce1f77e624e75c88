"""All insights of an application, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.job_heuristics.insight.spark import in_memory, in_plans, in_stages, in_time
from engine.job_heuristics.insight.spark.insight import Insight
from engine.job_heuristics.insight.spark.resources import Resources
from engine.job_heuristics.insight.spark.schedule import Schedule
from engine.job_heuristics.insight.spark.skew import StageTasks
from engine.job_heuristics.insight.spark.sql import PlanRow
from engine.job_heuristics.model.spark.app import App


def insights(
    app: App,
    held: Resources,
    plan: Schedule,
    stages: Mapping[tuple[int, int], StageTasks],
    plans: Mapping[int, list[PlanRow]],
) -> tuple[Insight, ...]:
    """Return the insights of an application; those of one that runs may still change."""
    found = [
        *in_time.insights(app, held, plan),
        *in_memory.insights(app, held),
        *in_stages.insights(app, held, stages),
        *in_plans.insights(app, plans),
    ]
    if not app.ended:
        found = [replace(one, certain=False) for one in found]
    found.sort(key=lambda one: -one.level)
    worst: dict[tuple[str, str], Insight] = {}
    for one in found:
        worst.setdefault((one.topic, one.subject), one)  # of several in one plan the worst
    return tuple(worst.values())
