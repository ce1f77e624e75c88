"""The model kept up to date: only jobs whose files changed are assembled again, and of a history that grows only the tasks
that grew.

What is kept lies in ``Context.memo``; the outcome is that of ``assembly.build`` over everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.job_heuristics.model.assembly import Built, Events, build, names_in
from engine.job_heuristics.model.changes import Changes
from engine.job_heuristics.model.grown import Grown, Refused
from engine.job_heuristics.model.job_facts import EVENT_TABLES
from engine.job_heuristics.model.model import Model
from engine.tables import Rows, height_of
from engine.view import Context


def assemble(inputs: Inputs, context: Context) -> Model:
    """The model of all jobs in ``inputs`` as of ``context.at_ms`` (later events do not exist). Pure.

    ``context.memo`` keeps the last one: only jobs whose files changed are assembled again.
    """
    return assembled(inputs, context)[0]


def assembled(inputs: Inputs, context: Context) -> tuple[Model, Changes]:
    """The model, and which jobs changed with its last generations."""
    memo: dict[str, Any] = context.memo.setdefault(("job-model", context.at_ms is None), {})
    model, touched = _assembled(inputs, context, memo)
    if touched is None or touched:
        generation = memo["generation"] = memo.get("generation", 0) + 1
        log: dict[int, frozenset[str] | None] = memo.setdefault("log", {})
        log[generation] = touched
        log.pop(generation - _GENERATIONS, None)
    return model, Changes(memo["generation"], memo["log"])


_GENERATIONS = 16
"""For how many generations it is remembered what changed."""


def _assembled(inputs: Inputs, context: Context, memo: dict[str, Any]) -> tuple[Model, frozenset[str] | None]:
    """The model, and which jobs changed since the last call (None: all, empty: none)."""
    now = inputs.files
    known: Mapping[int, FileInfo] = memo.get("files", {})
    if known and memo["at"] == context.at_ms:
        if memo["version"] == inputs.version:
            return memo["built"].model, frozenset()
        changed, gone = _difference(known, inputs, memo["version"])
        if len(changed) + len(gone) <= len(now) // 2 or (len(changed) == 1 and not gone):
            touched: set[str] = set()
            built: Built = memo["built"]
            if changed or gone:
                grown = _grown(inputs, memo, changed) if not gone and context.at_ms is None else None
                built, touched = grown or _again(inputs, context, built, changed, gone)
                if grown is None:
                    for job in touched:
                        memo["grown"].pop(job, None)
            memo.update(files=now, version=inputs.version, built=built)
            return built.model, frozenset(touched)
    built = build(Events(inputs, None, context.at_ms))
    memo.update(at=context.at_ms, files=now, version=inputs.version, built=built, grown={}, refused={})
    return built.model, None


def _difference(known: Mapping[int, FileInfo], inputs: Inputs, version: int) -> tuple[set[int], set[int]]:
    """Files that are new or have another version, and files that are gone, since ``known`` was that of ``version``."""
    now = inputs.files
    touched = inputs.touched(version, known)
    changed = {i for i in touched if i in now and (i not in known or known[i].version != now[i].version)}
    return changed, {i for i in touched if i in known and i not in now}


_MOST_GROWN = 64
"""So many growing jobs are followed task by task."""
_WAIT = 8
"""A job that could not be followed is tried again after so many changes."""


def _grown(inputs: Inputs, memo: dict[str, Any], changed: set[int]) -> tuple[Built, set[str]] | None:
    """The model after nothing but some histories grew, each of one job that is in no other file; None if that is not so,
    or a job cannot be followed that way."""
    old: Built = memo["built"]
    if len(changed) > _MOST_GROWN // 4:
        return None
    jobs = {file: job for file in sorted(changed) if (job := old.alone(file)) and inputs.files[file].kind == "jhist"}
    if len(jobs) < len(changed):
        return None
    rows: dict[str, Rows] = {}
    added_to = inputs.added_plain if len(changed) == 1 else inputs.added_firm
    for name in (*EVENT_TABLES, "conf"):
        added = added_to(name, memo["version"])
        if added is None or (name == "conf" and height_of(added)):
            return None
        rows[name] = added
    cuts = _cuts(inputs, changed)
    if cuts is None:
        return None
    followed: dict[str, Grown] = memo["grown"]
    refused: dict[str, int] = memo["refused"]
    model = old.model
    touched: set[str] = set()
    for file, job in jobs.items():
        if refused.get(job, 0) > 0:
            refused[job] -= 1
            return None
        mine = rows
        if len(changed) > 1:
            of_file = pl.col(FILE) == file
            mine = {n: added.filter(of_file) for n, added in rows.items() if isinstance(added, pl.DataFrame)}
        try:
            one = followed.pop(job, None) or _follow(
                inputs, job, file, model, {name: height_of(mine[name]) for name in EVENT_TABLES}
            )
            step = one.apply(mine, inputs.files[file], cuts.get(file))
        except Refused:
            refused[job] = _WAIT
            return None
        followed[job] = one
        model = model.grown(step.row, step.tasks, step.attempts, step.arrays)
        touched.add(job)
    while len(followed) > _MOST_GROWN:
        del followed[next(iter(followed))]
    return Built(model, old.files, old.confs, old.names, old.jobs), touched


def _cuts(inputs: Inputs, files: set[int]) -> dict[int, str] | None:
    """Of those ``files`` that end within a record: what upstream would say of that. None if anything else is known of
    the last records of ``files`` but that they are cut."""
    for name in (*EVENT_TABLES[1:], "conf"):
        last = inputs.provisional(name)
        if last.height and not files.isdisjoint(last[FILE].to_list()):
            return None
    found: dict[int, str] = {}
    for file, event, broken in inputs.provisional("job_events")[[FILE, "event", "broken"]].iter_rows():
        if file in files:
            if event != "CUT" or broken is None:
                return None
            found[file] = broken
    return found


def prepare(inputs: Inputs, context: Context) -> bool:
    """Do a piece of work ahead: tidy up a running job, or begin to follow one before it grows, the file that changed last
    first. False if there is none left, or the model in ``context.memo`` is not that of ``inputs``."""
    memo: dict[str, Any] = context.memo.get(("job-model", context.at_ms is None), {})
    if context.at_ms is not None or memo.get("version") != inputs.version or memo.get("files") is not inputs.files:
        return False
    built: Built = memo["built"]
    if memo.get("prepared") is not built:
        runs = built.model.jobs.filter(pl.col("state") == "RUNNING")["job_id"].to_list()
        held = {file for job in runs for file in built.files.get(job, ()) if built.alone(file) == job}
        files = [file for file in held if inputs.files[file].kind == "jhist"]
        newest = sorted(files, key=lambda file: (inputs.files[file].mtime_ms, file))[-_MOST_GROWN // 2 :]
        memo.update(prepared=built, candidates=newest)
    followed: dict[str, Grown] = memo["grown"]
    if any(one.tidy() for one in followed.values()):
        return True
    candidates: list[int] = memo["candidates"]
    while candidates and len(followed) < _MOST_GROWN:
        file = candidates.pop()
        job = built.alone(file)
        assert job is not None
        tried = memo.setdefault("tried", {})
        version = inputs.files[file].version
        if job in followed or memo["refused"].get(job, 0) > 0 or tried.get(file) == version:
            continue
        tried[file] = version
        if _cuts(inputs, {file}) is None:
            continue
        with contextlib.suppress(Refused):
            followed[job] = _follow(inputs, job, file, built.model, dict.fromkeys(EVENT_TABLES, 0))
        return True
    return False


def _follow(inputs: Inputs, job: str, file: int, model: Model, new: Mapping[str, int]) -> Grown:
    """Begin to follow a job as ``model`` has it: by the firm events of its file but the ``new`` last ones (how many, by
    table)."""
    events = {}
    for name in EVENT_TABLES:
        loose = inputs.provisional(name)[FILE].to_list().count(file)
        mine = inputs.of(name, {file})  # its provisional rows are its last ones
        events[name] = mine.head(mine.height - loose - new[name])
    return Grown(job, file, model.job(job), events)


def _again(
    inputs: Inputs, context: Context, old: Built, changed: set[int], gone: Iterable[int]
) -> tuple[Built, set[str]]:
    """Assemble only the jobs that changed or gone files mention, over all files that mention those jobs."""
    moved = changed | set(gone)
    touched = set().union(*(old.jobs.get(file, ()) for file in moved))
    read: set[int] | None = None  # nothing to read is an answer too: all files of a job may be gone
    while True:
        for name in list(touched):
            touched |= old.names.get(name, set())
        wanted = _mentioning(inputs, old, changed, touched)
        if read is not None and wanted <= read:
            break
        # What is new in the changed files may name further jobs: then once more.
        read = wanted
        events = Events(inputs, read, context.at_ms)
        for frame in (events.jobs, events.task_starts, events.task_ends, events.attempt_starts, events.attempt_ends):
            touched.update(_ids(frame))
        touched.update(_ids(events.conf))
    part = build(events)
    files, confs = _merged(old.files, part.files, touched), _merged(old.confs, part.confs, touched)
    names = {**old.names, **{n: j | old.names.get(n, set()) for n, j in part.names.items()}}
    model = old.model.replaced(touched, part.model.only(frozenset(touched)))
    return Built(model, files, confs, names, _moved(old, files, confs, touched)), touched


def _moved(
    old: Built, files: Mapping[str, set[int]], confs: Mapping[str, set[int]], touched: set[str]
) -> dict[int, set[str]]:
    """``Built.jobs`` when nothing changed but what is known of ``touched`` jobs."""
    held = (old.files, old.confs, files, confs)
    places = set().union(*(each.get(job, ()) for each in held for job in touched))
    jobs = old.jobs.copy()
    for file in places:
        mentioned = jobs.pop(file, set()) - touched
        mentioned |= {job for job in touched if file in files.get(job, ()) or file in confs.get(job, ())}
        if mentioned:
            jobs[file] = mentioned
    return jobs


def _ids(frame: pl.DataFrame) -> Iterable[str]:
    return (job for job in frame["job_id"].unique().to_list() if job is not None)


def _mentioning(inputs: Inputs, old: Built, changed: set[int], touched: set[str]) -> set[int]:
    """All files that hold something of ``touched`` jobs, and the changed ones."""
    wanted = set(changed)
    for job in touched:
        wanted |= old.files.get(job, set()) | old.confs.get(job, set())
        for name in names_in(inputs.files, old.files.get(job, set())):
            wanted |= old.confs.get(name, set())
    for name in names_in(inputs.files, changed):
        wanted |= old.confs.get(name, set())
    return wanted & inputs.files.keys()


def _merged(old: dict[str, set[int]], new: dict[str, set[int]], touched: set[str]) -> dict[str, set[int]]:
    merged = old.copy()
    for job in touched:
        merged.pop(job, None)
    merged.update({job: files for job, files in new.items() if job in touched})
    return merged
