"""What the screen draws of one Spark application beyond tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.job_heuristics.insight import decision
from engine.job_heuristics.insight.spark.findings.insight import Insight
from engine.job_heuristics.insight.spark.resources import Resources
from engine.job_heuristics.insight.spark.whatif import Numbers, Prediction, Scenario
from engine.job_heuristics.model.spark.app import App


@dataclass(frozen=True, slots=True)
class AppVerdict:
    """One verdict: severity, Dr. Elephant's labels and values, why, what to do, and the level (0-4) under the what-if
    scenario, None without one."""

    heuristic: str
    severity: str
    details: tuple[tuple[str, str], ...]
    why: decision.Why | None
    advice: str
    predicted: int | None
    status: str


@dataclass(frozen=True, slots=True)
class AppDetail:
    """One application for the screen. ``stamp`` stands for everything it was made from, so that equal ones draw nothing."""

    stamp: tuple[Any, ...]
    app: App = field(compare=False, repr=False)
    held: Resources = field(compare=False, repr=False)
    verdicts: tuple[AppVerdict, ...] = field(compare=False)
    insights: tuple[Insight, ...] = field(compare=False)
    before: Numbers = field(compare=False)
    scenario: Scenario = field(compare=False)
    prediction: Prediction | None = field(compare=False)
