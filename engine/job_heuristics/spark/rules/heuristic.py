"""The declaration of a Spark heuristic, judged by gates over measures with one value per application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.job_heuristics.dr_elephant.gates import Array, Branch, Gate, Tree
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule, Rules
from engine.job_heuristics.spark.model.app import App

SPARK = "spark"
"""Application type of Spark's heuristics in HeuristicConf.xml, and name of the type in lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkHeuristic(Heuristic):
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
