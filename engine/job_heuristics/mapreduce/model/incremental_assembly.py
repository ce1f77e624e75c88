"""The incremental model: only jobs whose files changed are assembled again.

Two steps of ``Partials``: which jobs each file names (by the file's version), then one assembled part per job (by the
versions of all files that concern it). The result equals ``assembly.assemble`` over all files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from engine.core.incremental import Partials
from engine.core.inputs import FILE, Inputs
from engine.core.view import Context
from engine.job_heuristics.mapreduce.model.assembly import assemble
from engine.job_heuristics.mapreduce.model.file_choice import EVENT_TABLES, Events, id_in_name, rows_of
from engine.job_heuristics.mapreduce.model.model import JobPart, Model


@dataclass(frozen=True, slots=True)
class NamedJobs:
    """Job ids that one file names: in its events, in configurations that it holds, and in its file name."""

    in_events: frozenset[str]
    in_conf: frozenset[str]
    in_name: str | None


def current_model(inputs: Inputs, context: Context) -> Model:
    """Return the model of all jobs in ``inputs`` as of ``context.at_ms`` (later events do not exist)."""
    times = "now" if context.at_ms is None else "past"
    memo = context.memo
    return memo.value(
        f"job model {times}", (inputs.version, context.at_ms), lambda: _updated_model(inputs, context, times)
    )


def _updated_model(inputs: Inputs, context: Context, times: str) -> Model:
    """Assemble the jobs whose files changed, and return the model of all. Parts of ``now`` and ``past`` are kept
    apart, so that looking back does not evict the present."""
    versions = {number: info.version for number, info in inputs.files.items()}
    files_of = context.memo.state("files by job", FilesByJob).update(inputs, versions)
    parts: Partials[str, JobPart | None] = context.memo.state(f"job parts {times}", Partials)

    def compute(jobs: Collection[str]) -> Mapping[str, JobPart | None]:
        files = inputs.files if len(jobs) == len(files_of) else {file for job in jobs for file in files_of[job]}
        fresh = assemble(Events(inputs, files, context.at_ms))
        return {job: fresh.get(job) for job in jobs}

    stamps = {job: tuple((file, versions[file]) for file in files) for job, files in files_of.items()}
    parts.update(stamps, compute, key=context.at_ms)
    return Model({job: part for job, part in parts.items() if part is not None}, parts.revisions)


class FilesByJob:
    """Which files each job depends on. A growing file usually names the same jobs; then nothing is recomputed."""

    def __init__(self) -> None:
        self._named: Partials[int, NamedJobs] = Partials()
        self._files_of: dict[str, list[int]] = {}

    def update(self, inputs: Inputs, versions: Mapping[int, int]) -> dict[str, list[int]]:
        """Return the files of each job, by the files' ``versions``."""
        renamed = False

        def compute(files: Collection[int]) -> dict[int, NamedJobs]:
            nonlocal renamed
            fresh = _named_jobs(inputs, files)
            renamed = any(self._named.get(file) != fresh[file] for file in files)
            return fresh

        delta = self._named.update(versions, compute)
        if renamed or delta.removed:
            self._files_of = _files_by_job(self._named)
        return self._files_of


def _named_jobs(inputs: Inputs, files: Collection[int]) -> dict[int, NamedJobs]:
    """Read which jobs each of ``files`` names."""
    in_events = _ids_by_file(inputs, EVENT_TABLES, files)
    in_conf = _ids_by_file(inputs, ("conf",), files)
    return {
        file: NamedJobs(frozenset(in_events[file]), frozenset(in_conf[file]), id_in_name(inputs.files[file]))
        for file in files
    }


def _ids_by_file(inputs: Inputs, tables: Iterable[str], files: Collection[int]) -> dict[int, set[str]]:
    """Job ids in the rows of ``tables``, by file."""
    ids: dict[int, set[str]] = defaultdict(set)
    pairs = pl.concat([rows_of(inputs, name, files)[["job_id", FILE]] for name in tables])
    for job, file in pairs.unique().iter_rows():
        if job is not None:
            ids[file].add(job)
    return ids


def _files_by_job(named: Mapping[int, NamedJobs]) -> dict[str, list[int]]:
    """Return the sorted files of each job: those that name it, and those that name another id carried by its
    history's file name (its configuration may be stored under that id)."""
    by_id: dict[str, list[int]] = defaultdict(list)
    files_of: dict[str, list[int]] = {}
    aliases: list[tuple[str, str]] = []
    for file in sorted(named):
        ids = named[file]
        for job in ids.in_events:
            files_of[job] = by_id[job]
            by_id[job].append(file)
            if ids.in_name is not None and ids.in_name != job:
                aliases.append((job, ids.in_name))
        for job in ids.in_conf - ids.in_events:
            by_id[job].append(file)
    for job, alias in aliases:
        files_of[job] = sorted({*files_of[job], *by_id.get(alias, ())})
    return files_of
