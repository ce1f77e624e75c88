"""What the screen draws of one Spark application beyond tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.job_heuristics.dr_elephant import decision
from engine.job_heuristics.spark.insight.findings.insight import Insight
from engine.job_heuristics.spark.insight.resources import Resources
from engine.job_heuristics.spark.insight.whatif import Numbers, Prediction, Scenario
from engine.job_heuristics.spark.model.app import App


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
    """One application for the screen. ``stamp`` stands for everything it was made from, so that equal ones draw nothing.
    ``waves``: when the waves of each stage attempt began, epoch ms."""

    stamp: tuple[Any, ...]
    app: App = field(compare=False, repr=False)
    held: Resources = field(compare=False, repr=False)
    verdicts: tuple[AppVerdict, ...] = field(compare=False)
    insights: tuple[Insight, ...] = field(compare=False)
    before: Numbers = field(compare=False)
    scenario: Scenario = field(compare=False)
    waves: Mapping[tuple[int, int], tuple[int, ...]] = field(compare=False)
    prediction: Prediction | None = field(compare=False)

    @property
    def assumed(self) -> str:
        """What the prediction rests on, in words."""
        words = (
            "Predicted from its real tasks, in the order of their index, on other slots; the driver's own time stays."
        )
        return words if self.app.ended else f"{words} Of a running application only what has ended is in it."
