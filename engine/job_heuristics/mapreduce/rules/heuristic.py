"""The declaration of a MapReduce heuristic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.job_heuristics.dr_elephant.heuristic import Rule, Rules
from engine.job_heuristics.dr_elephant.sides import SideHeuristic
from engine.job_heuristics.mapreduce.model.model import Job


@dataclass(frozen=True, kw_only=True, eq=False)
class MapReduceHeuristic(SideHeuristic):
    """A heuristic of MapReduce jobs. ``advice``: what to do, from the severity and the job."""

    application: str = "mapreduce"
    advice: Callable[[int, Job], str]


MapReduceRule = Rule[MapReduceHeuristic]
MapReduceRules = Rules[MapReduceHeuristic]
