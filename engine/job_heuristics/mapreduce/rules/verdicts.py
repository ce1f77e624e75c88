"""The verdicts of all heuristics in force on some jobs, and the rows they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceRule, MapReduceRules, verdict
from engine.job_heuristics.mapreduce.rules.jobs import Jobs, Verdict
from engine.job_heuristics.tables.result import HEURISTICS, SEVERITIES

NO_DATA = "No Data Received"
"""Name of Dr. Elephant's pseudo result for a job without tasks."""
NO_DATA_ADVICE = "No task ran: check whether the input path holds data and whether filters leave any."
_NO_DATA_DETAILS = '{"No Data Received":""}'

Verdicts = list[tuple[MapReduceRule, Verdict]]


def verdicts(
    rules: MapReduceRules, jobs: Jobs, *, published: bool = False, by_code: Verdicts | None = None
) -> Verdicts:
    """Return the verdicts of all rules in force, in their order, by Dr. Elephant's code or the ``published`` description.

    ``by_code``: the verdicts of the same jobs by the code; where both give the same one it is taken over.
    """
    by_rule = {id(rule): made for rule, made in by_code or ()}
    return [
        (rule, by_rule[id(rule)])
        if rule.heuristic.same_in_both and id(rule) in by_rule
        else (rule, verdict(rule, jobs, published=published))
        for rule in rules.rules
        if rule.heuristic.in_published or not published
    ]


def idle(jobs: Jobs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which jobs get the pseudo result instead of verdicts: they succeeded without a task."""
    without: np.ndarray[tuple[int], np.dtype[np.bool_]] = jobs.empty & (jobs.state == "SUCCEEDED")
    return without


def rows(jobs: Jobs, made: Sequence[tuple[MapReduceRule, Verdict]]) -> pl.DataFrame:
    """Return HEURISTICS rows: jobs in their order, heuristics in the order of ``made``."""
    without_data = idle(jobs)
    at = np.flatnonzero(without_data)
    zero = np.zeros(len(at), np.int64)
    parts = [(at, NO_DATA, zero + 1, zero, [_NO_DATA_DETAILS] * len(at))]
    for rule, each in made:
        at = np.flatnonzero(each.given & ~without_data)
        texts = each.details.texts(at) if len(at) else []
        parts.append((at, rule.name, each.severity[at], each.score[at], texts))
    job = np.concatenate([part[0] for part in parts])
    order = np.argsort(job, kind="stable")
    kinds = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    severity, score = (np.concatenate([part[k] for part in parts]).astype(np.int64)[order] for k in (2, 3))
    details = [text for part in parts for text in part[4]]
    frame = pl.DataFrame(
        {
            "job_id": jobs.frame["job_id"].gather(job[order]),
            "heuristic": pl.Series([part[1] for part in parts]).gather(kinds[order]),
            "severity": pl.Series(SEVERITIES).gather(severity),
            "score": score,
            "details": pl.Series(details, dtype=pl.String).gather(order),
        }
    )
    return HEURISTICS.frame(frame)
