"""What the host used meanwhile: which resource series go with a workload, and the best of them as its y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from engine.formats.timestamps import utc_text
from engine.problems import Problem
from engine.query_profile.reading.server_names import Home
from engine.query_profile.workloads import alignment, deltas
from engine.query_profile.workloads.alignment import Series
from engine.query_profile.workloads.workload import Workload

ENOUGH = 0.9
"""A series that covers this share of the intervals that the best one covers is as good as that one."""


def unmixed(series: Iterable[Series], problems: list[Problem]) -> list[Series]:
    """The series that are of one host each; the others become problems."""
    clear, mixed = [], {}
    for one in series:
        if one.mixed:
            mixed[one.label] = one
        else:
            clear.append(one)
    clear = [one for one in clear if one.label not in mixed]
    for label, one in mixed.items():
        reason = f"{one.source}: counters of several hosts take turns in files of one name; they are not used"
        problems.append(Problem.at(label, "several-hosts", reason))
    return clear


def belonging(series: Iterable[Series], home: Home, homes: Sequence[Home]) -> list[Series]:
    """The series that lie no nearer to another of ``homes`` than to ``home``."""
    return [one for one in series if all(_nearness(one, other) <= _nearness(one, home) for other in homes)]


def _nearness(one: Series, home: Home) -> tuple[int, bool]:
    return max(home.nearness(Home(one.folder, name)) for name in (one.stem, one.host))


def lay(
    work: Workload, home: Home, homes: Sequence[Home], series: Sequence[Series], target: str, problems: list[Problem]
) -> Workload:
    """``work`` with the resource ``target`` (empty: CPU) of its host: of the series that belong to it and cover its
    intervals best the preferred kind. Without any, what the server itself counted by class."""
    if work.returns:
        reason = (
            f"{deltas.MIXED}: {work.returns} times a snapshot goes on from an earlier one than its predecessor; nothing is "
            "attributed (keep the files of each server under a name or in a folder of its own)"
        )
        problems.append(Problem.at(work.label, "several-hosts", reason))
    wanted = target or alignment.CPU
    near = belonging(series, home, homes)
    work = replace(work, resources=tuple(sorted({s.name for s in near})))
    named = [s for s in near if s.name == wanted]
    laid = [(s, *alignment.between(s, work.start_ms, work.end_ms)) for s in named] if len(work.y) else []
    most = max((int(np.isfinite(y).sum()) for _, y, _ in laid), default=0)
    if most == 0:
        if wanted in work.metrics and (target or work.metrics[wanted].any()):
            return work.with_y(work.metrics[wanted].sum(axis=1), wanted, OWN)
        problems.extend(_why_not(work, target, series, near, named))
        return work
    good = [item for item in laid if int(np.isfinite(item[1]).sum()) >= ENOUGH * most]
    order = {name: i for i, name in enumerate(alignment.PREFERENCE)}
    chosen, y, reasons = min(good, key=lambda item: (order.get(item[0].source, 99), item[0].label))
    problems.extend(_doubts(work, chosen, y, named, good))
    joined = tuple("; ".join(r for r in (a, b) if r) for a, b in zip(work.reasons, reasons, strict=True))
    cores = chosen.cores
    if np.isnan(cores):
        cores = next((s.cores for s in near if not np.isnan(s.cores)), float("nan"))
    where = chosen.source + (f" of {chosen.host}" if chosen.host else "")
    rivals = [
        h for h in homes if h != home and h.system == home.system and _nearness(chosen, h) == _nearness(chosen, home)
    ]
    notes = work.notes
    if rivals and home.system:
        notes += (
            f"the CPU of {chosen.stem} may as well be that of {', '.join(h.name or h.folder for h in rivals[:3])}: it is "
            "right for one of them only, unless each server's files have a name or a folder of their own",
        )
    return replace(work.with_y(y, wanted, where), reasons=joined, cores=cores, notes=notes)


OWN = "the classes' own counters"
"""``y_source`` of a resource that the server itself counted by class."""


def _why_not(
    work: Workload, target: str, series: Sequence[Series], near: Sequence[Series], named: Sequence[Series]
) -> list[Problem]:
    """Why no series gives ``work`` its resource."""
    if not named:
        if target and near:
            known = ", ".join(sorted({s.name for s in near} | work.metrics.keys()))
            return [Problem.at(work.label, "missing-target", f"no series {target!r}; there are {known}")]
        if series and not near:
            reason = f"the CPU series that were found ({series[0].label}, …) lie nearer to another source"
            return [Problem.at(work.label, "no-cpu", reason)]
        return []
    if not len(work.y) or work.start_ms.min() < 0:
        return []
    first, last = int(work.start_ms.min()), int(work.end_ms.max())
    begin, end = min(int(s.at_ms[0]) for s in named), max(int(s.at_ms[-1]) for s in named)
    reason = (
        f"no CPU sample lies between {utc_text(first)} and {utc_text(last)}: nothing to attribute "
        f"(samples from {utc_text(begin)} to {utc_text(end)}, all taken as UTC where no zone is known)"
    )
    return [Problem.at(work.label, "no-cpu", reason)]


def _doubts(
    work: Workload,
    chosen: Series,
    y: np.ndarray,
    named: Sequence[Series],
    good: Sequence[tuple[Series, np.ndarray, list[str]]],
) -> list[Problem]:
    """What may be wrong with the series ``chosen`` among those that are ``named`` alike and are as ``good``."""
    found = []
    hosts = sorted({s.host for s in named if s.host})
    if len(hosts) > 1:
        reason = (
            f"CPU series of several hosts ({', '.join(hosts[:4])}): only {chosen.host or chosen.label!r} is used, "
            "since an estimate over mixed hosts means nothing"
        )
        found.append(Problem.at(work.label, "several-hosts", reason))
    else:
        alike = [
            s for s, other, _ in good if s.source == chosen.source and not np.array_equal(other, y, equal_nan=True)
        ]
        if alike:
            names = ", ".join(s.stem for s in (chosen, *alike[:3]))
            reason = f"{len(alike) + 1} series of kind {chosen.source} ({names}): only {chosen.stem!r} is used"
            found.append(Problem.at(work.label, "several-hosts", reason))
    if chosen.guessed:
        reason = (
            f"{chosen.source} gives percent of all cores but not how many there are: counted as one core, so all CPU "
            "times are too small by that number (a copy of /proc/stat beside it tells)"
        )
        found.append(Problem.at(work.label, "unknown-cores", reason))
    return found
