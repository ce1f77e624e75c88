"""The frame of an open job, of every kind: its verdicts in full, its other runs, its changed configuration, its what-if.

A kind of job calls ``verdicts_in_full`` with what it can say about each verdict, and ``tables_of`` with an ``OpenJob`` that
says where its facts come from. Only what is particular to the kind (stages, phases, attempts) is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from engine.core.view import Context
from engine.job_heuristics.dr_elephant import decision, history
from engine.job_heuristics.dr_elephant.decision import Outlook, VerdictDetail, Why
from engine.job_heuristics.dr_elephant.display import labels
from engine.job_heuristics.dr_elephant.errors import Told, errors_frame
from engine.job_heuristics.dr_elephant.judged import JudgedFleet
from engine.job_heuristics.tables import CONF_CHANGES, ERRORS, EXPLAINED, HISTORY, SEVERITIES, WHAT_IF

Explain = Callable[[str, int], tuple[Why | None, str, Outlook | None]]
"""Says why a verdict (its name, severity 0-4) is so, what to do, and how it may end while the job runs."""
Metric = tuple[str, float | None, float | None, Callable[[float], str]]
"""A metric of the what-if table: name, now, predicted, and how to write it."""


def verdicts_in_full(rows: pl.DataFrame, explain: Explain, predicted: Mapping[str, int]) -> tuple[VerdictDetail, ...]:
    """Return the verdicts of one job (its HEURISTICS rows); ``predicted``: severities 0-4 by name under the scenario."""
    made = []
    for name, severity, score, details in rows.select("heuristic", "severity", "score", "details").iter_rows():
        level = SEVERITIES.index(severity) if severity in SEVERITIES else 0
        why, advice, outlook = explain(name, level)
        made.append(
            VerdictDetail(name, severity, int(score or 0), labels(details), why, outlook, advice, predicted.get(name))
        )
    return tuple(made)


@dataclass(frozen=True, slots=True)
class OpenJob:
    """One open job and the others of its kind, ``known`` by id. ``input_bytes`` gives the bytes that jobs read,
    ``configuration`` the properties of a job; ``errors`` are those of the open one."""

    job_id: str
    known: Container[str]
    input_bytes: Callable[[Sequence[str]], Mapping[str, int | None]]
    configuration: Callable[[str], Mapping[str, str | None]]
    errors: Sequence[Told]


def tables_of(
    job: OpenJob,
    fleet: JudgedFleet,
    verdicts: Sequence[VerdictDetail],
    metrics: Sequence[Metric] | None,
    compare: str | None,
    context: Context,
) -> dict[str, pl.DataFrame]:
    """Return the tables that every open job has, by name: EXPLAINED, ERRORS, HISTORY, CONF_CHANGES, and WHAT_IF if
    ``metrics`` are predicted. ``compare``: the run whose configuration is compared, None: the run before."""
    times = "now" if context.at_ms is None else "past"
    key = (job.job_id, times, fleet.version)
    runs = context.memo.value("runs like job", key, lambda: _runs(job, fleet.jobs))
    other = compare or history.run_before(runs, job.job_id)
    changes = CONF_CHANGES.empty()
    if other and other != job.job_id and other in job.known:
        changes = history.conf_changes(job.configuration(other), job.configuration(job.job_id), other)
    tables = {
        EXPLAINED.name: decision.explained(job.job_id, verdicts),
        ERRORS.name: errors_frame(job.job_id, job.errors),
        HISTORY.name: runs,
        CONF_CHANGES.name: changes,
    }
    if metrics is not None:
        tables[WHAT_IF.name] = decision.what_if(metrics, verdicts)
    return tables


def _runs(job: OpenJob, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return HISTORY rows: earlier and later runs of the same job, by the stem of its name. ``jobs``: JOBS rows."""
    alike = history.runs_like(jobs, job.job_id)
    names = [name for name in alike["job_id"].to_list() if name in job.known]
    sizes = job.input_bytes(names)
    inputs = pl.DataFrame(
        {"job_id": names, "input_bytes": [sizes.get(name) for name in names]},
        {"job_id": pl.String, "input_bytes": pl.Int64},
    )
    return history.history(alike.filter(pl.col("job_id").is_in(names)), inputs, job.job_id)
