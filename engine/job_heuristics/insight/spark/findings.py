"""All insights of an application, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    found: list[Insight] = []
    if not app.ended:
        found = [replace(one, certain=False) for one in found]
    return tuple(sorted(found, key=lambda one: -one.level))
