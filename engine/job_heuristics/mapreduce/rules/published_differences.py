"""Where Dr. Elephant's published description gives another metric or severity than its code, and why."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.rules import metrics
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceRules
from engine.job_heuristics.mapreduce.rules.jobs import Jobs
from engine.job_heuristics.mapreduce.rules.verdict_tables import blocks_of, sides_of
from engine.job_heuristics.mapreduce.rules.verdicts import verdicts
from engine.job_heuristics.tables.result import DIFFERENCES, SEVERITIES

METRIC_DIFFERENCES = {
    "used_mb_s": "the published description counts exact times, Dr. Elephant whole seconds of each task",
    "wasted_mb_s": "the published description counts container - peak of each task, Dr. Elephant container - 1.5 x the "
    "side's largest peak",
    "wait_ms": "the published description's ideal start is the launch and the slow-start share of maps, and waits may be "
    "negative; Dr. Elephant's is submission and the last map, floored at 0",
}
"""Why a metric differs between the published description and Dr. Elephant's code."""


def differences(model: Model, rules: MapReduceRules) -> pl.DataFrame:
    """Judge the jobs of ``model`` both ways; return DIFFERENCES rows, by job in the model's order, metrics before heuristics."""
    jobs, properties = model.jobs, model.properties
    sides = sides_of(jobs, model.arrays[0], properties, published=True)
    code, described = (
        Jobs(jobs, sides, properties, blocks_of(jobs, properties, rules.block_size, published=mode))
        for mode in (False, True)
    )
    by_code = verdicts(rules, code)
    by_description = verdicts(rules, described, published=True, by_code=by_code)
    counted = {mode: metrics.compute(jobs, sides, published=mode) for mode in (False, True)}
    parts: list[tuple[list[int], str, list[str], list[str], str]] = []
    for name, reason in METRIC_DIFFERENCES.items():
        one, two = counted[False][name], counted[True][name]
        at = [j for j, (x, y) in enumerate(zip(one, two, strict=True)) if x != y]
        parts.append((at, name, [str(one[j]) for j in at], [str(two[j]) for j in at], reason))
    by_rule = {id(rule): verdict for rule, verdict in by_description}
    for rule, verdict in by_code:
        other = by_rule.get(id(rule))
        if other is verdict:
            continue
        ours = np.where(verdict.given, verdict.severity, -1)
        theirs = np.where(other.given, other.severity, -1) if other is not None else np.full(jobs.height, -1)
        where = np.flatnonzero(ours != theirs)
        reason = rule.heuristic.difference
        parts.append((where.tolist(), rule.name, _severity_words(ours[where]), _severity_words(theirs[where]), reason))
    names = jobs["job_id"].to_list()
    rows = sorted(
        (j, order, what, a, b, reason)
        for order, (at, what, code, described, reason) in enumerate(parts)
        for j, a, b in zip(at, code, described, strict=True)
    )
    return DIFFERENCES.frame(
        {
            "job_id": [names[row[0]] for row in rows],
            "what": [row[2] for row in rows],
            "upstream": [row[3] for row in rows],
            "published": [row[4] for row in rows],
            "reason": [row[5] for row in rows],
        }
    )


def _severity_words(severity: Array) -> list[str]:
    return ["-" if value < 0 else SEVERITIES[value] for value in severity.tolist()]
