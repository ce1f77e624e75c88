"""One result for jobs of fleet results and jobs whose histories are among the inputs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import polars as pl

from engine.core import units
from engine.core.incremental import Memo
from engine.core.reading import Problem, fold
from engine.core.tables import Table
from engine.core.view import Context, Inputs, MadeLater, NoInput, Result, View
from engine.job_heuristics.dr_elephant import history
from engine.job_heuristics.dr_elephant.judged import worst_first
from engine.job_heuristics.fleet.documents import OwnHistories, own_histories
from engine.job_heuristics.fleet.stored_jobs import (
    MOST_ADVISED,
    AllJobs,
    FleetResult,
    StoredJobs,
    in_listed_order,
    slim,
    stored_jobs,
)
from engine.job_heuristics.fleet.tables import PER_JOB
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result.all_jobs import Detail, StoredJob, find_job
from engine.job_heuristics.tables import HISTORY, JOBS, LISTING, RECOMMENDATIONS, ROLLUP
from engine.output.report import settings

OfHistories = Callable[[Inputs, JobParameters, Context], Result]
"""Computes the result of histories alone. Raises NoInput."""
DECIDING = ("mode", "heuristic-conf", "block-size", "queue-limit", "headroom", "price-gb-h", "price-vcore-h")
"""Options that determine the contents of a fleet result; the others concern one job."""


def with_stored(
    view: View,
    inputs: Inputs,
    results: tuple[FleetResult, ...],
    parameters: JobParameters,
    context: Context,
    of_histories: OfHistories,
) -> Result:
    """Return one result for the jobs in ``results`` and in the histories of ``inputs``; for a job in both its
    histories count.

    Sums come from the combined job list; per-job tables are read on demand. Raises NoInput.
    """
    stored = _read(results, context)
    local: Result | None = None
    with contextlib.suppress(NoInput):
        local = of_histories(inputs, msgspec.structs.replace(parameters, job=None, compare=None), context)
    if local is None and not stored.listing.height:
        raise NoInput("the fleet results hold no job")
    own: Detail | None = local.detail if local is not None else None
    versions = (results, own.versions if own is not None else None)
    every = context.memo.value("fleet results and histories", versions, lambda: _all_jobs(own, stored))
    job = find_job(every.listing["job_id"], parameters.job) if parameters.job else None
    chosen: StoredJob | None = None
    if job is not None and own is not None and own.has(job):
        local = of_histories(inputs, msgspec.structs.replace(parameters, job=job), context)
    elif job is not None:
        watched = frozenset(info.path.removesuffix(info.label) for info in inputs.files.values())
        chosen = _stored_job(view, stored, every.listing, job, parameters, context, of_histories, watched)
    base = local or Result(view.name, {}, {}, newest_ms=inputs.newest_ms, at_ms=context.at_ms, problems=inputs.problems)
    shown = chosen.result if chosen is not None else base
    later: dict[str, MadeLater] = {table.name: partial(_table, table, local, stored) for table in PER_JOB}
    focus = dict.fromkeys(later, ("job_id", job)) if job is not None else {}
    later[ROLLUP.name] = lambda: (every.rollup, ())
    of_job = {} if shown is None else {name: frame for name, frame in shown.tables.items() if name not in later}
    if chosen is not None:
        of_job[HISTORY.name] = _runs(every.listing, of_job.get(HISTORY.name), chosen.job_id)
    detail = Detail(
        (versions, parameters), own.heuristics if own is not None else (), every.listing, LISTING,
        shown.detail.opened if shown is not None and shown.detail is not None else None,
        versions, own.per_job if own is not None else {}, stored, chosen,
    )  # fmt: skip
    return dataclasses.replace(
        base,
        summary=every.summary,
        tables=of_job,
        later=later,
        findings=worst_first((*base.findings, *stored.findings)),
        notes=(*base.notes, *_notes(stored, chosen, parameters, context)),
        problems=fold([*base.problems, *stored.problems, *(chosen.problems if chosen is not None else ())]),
        detail=detail,
        focus=focus,
    )


def _read(results: tuple[FleetResult, ...], context: Context) -> StoredJobs:
    """Return the jobs of ``results``, cached until one of them changes."""

    def check(done: float) -> None:
        context.check()
        context.progress(done, f"reading {len(results):,} fleet result{'s' if len(results) > 1 else ''}")

    return context.memo.value("fleet results", results, lambda: stored_jobs(results, check))


def _all_jobs(own: Detail | None, stored: StoredJobs) -> AllJobs:
    if own is None:
        return stored.every
    rest = stored.listing.join(own.listing.select("job_id"), on="job_id", how="anti", maintain_order="left")
    return AllJobs(in_listed_order([slim(own.listing, -1), rest]))


def _table(table: Table, local: Result | None, stored: StoredJobs) -> tuple[pl.DataFrame, Sequence[Problem]]:
    """Return a table of all jobs in the order of JOBS, and problems of its files. Raises TooLarge."""
    frame, problems = stored.table(table)
    if local is None:
        return frame, problems
    rest = frame.join(local.tables[JOBS.name].select("job_id"), on="job_id", how="anti", maintain_order="left")
    rows = pl.concat([local.table(table.name), rest])
    return JOBS.sorted(rows) if table is JOBS else rows, problems


def _stored_job(
    view: View,
    stored: StoredJobs,
    listing: pl.DataFrame,
    job: str,
    parameters: JobParameters,
    context: Context,
    of_histories: OfHistories,
    watched: frozenset[str],
) -> StoredJob:
    """Return one job of a fleet result: computed from its histories if they are reachable, else from the tables.

    ``watched``: the folders that are watched.
    """
    jobs = (job,) if parameters.compare is None else (job, parameters.compare)
    wanted = (jobs, parameters.histories, watched, stored.results)

    def read() -> tuple[OwnHistories, Memo, list[Problem]]:
        found = [stored.paths(each) for each in jobs]
        paths = [path for of_job, _ in found for path in of_job]
        problems = [problem for _, of_job in found for problem in of_job]
        return own_histories(view, paths, parameters.histories, watched), Memo(), problems

    own, memo, problems = context.memo.value("own histories", wanted, read)
    result, why = None, own.why
    if own.inputs is not None:
        try:
            alone = msgspec.structs.replace(context, memo=memo, at_ms=None)
            result = of_histories(own.inputs, msgspec.structs.replace(parameters, job=job), alone)
        except NoInput as error:
            why = f"its histories cannot be used: {error}"
    if result is None:
        read_rows = {table.name: stored.rows(table, job) for table in PER_JOB}
        problems = [*problems, *(problem for _, of_table in read_rows.values() for problem in of_table)]
        return StoredJob(job, {name: frame for name, (frame, _) in read_rows.items()}, why, None, tuple(problems))
    rows = {table.name: result.table(table.name).filter(pl.col("job_id") == job) for table in PER_JOB}
    missing = (
        Problem.at(path, "unreadable", "this file of a fleet result is not reachable here") for path in own.missing
    )
    return StoredJob(job, rows, why, result, (*problems, *missing, *result.problems))


def _runs(listing: pl.DataFrame, own: pl.DataFrame | None, job: str) -> pl.DataFrame:
    """Return HISTORY rows of a job among all listed jobs; input sizes are known only for the job itself."""
    return history.history(listing, (HISTORY.empty() if own is None else own).select("job_id", "input_bytes"), job)


def _notes(
    stored: StoredJobs, chosen: StoredJob | None, parameters: JobParameters, context: Context
) -> tuple[str, ...]:
    """Return notes on where jobs come from and which options do not affect them."""
    results, in_force = stored.results, settings(parameters)
    newest = max(result.at_ms for result in results)
    many = f"{len(results):,} fleet results, the newest" if len(results) > 1 else "a fleet result,"
    other = sorted({key for result in results for key in DECIDING if result.parameters.get(key) != in_force[key]})
    advised = sum(result.rows.get(RECOMMENDATIONS.name, 0) for result in results)
    why = chosen.why if chosen is not None else ""
    told = (
        (True, f"{units.plural(stored.listing.height, 'job')} of {many} computed at {units.moment(newest)}."),
        (
            other,
            f"Fleet results were computed with other options: {', '.join(other)}. Their numbers are based on these.",
        ),
        (context.at_ms is not None, "Fleet results have no history: their jobs are shown as computed."),
        (advised > MOST_ADVISED, f"Recommendations of fleet results are the {MOST_ADVISED:,} that save most."),
        (why, f"{chosen and chosen.job_id}: {why}. Showing what the fleet result holds."),
    )
    return tuple(words for so, words in told if so)
