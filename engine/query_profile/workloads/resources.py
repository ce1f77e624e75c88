"""Choose the resource series that goes with a workload, as its y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from engine.core.problems import Problem
from engine.formats.timestamps import utc_text
from engine.query_profile.workloads import alignment, deltas
from engine.query_profile.workloads.alignment import Series
from engine.query_profile.workloads.server_names import Origin
from engine.query_profile.workloads.workload import Workload

ENOUGH = 0.9
"""Share of the intervals covered by the best series that another one must cover to be preferred to it."""


def of_single_hosts(series: Sequence[Series], problems: list[Problem]) -> list[Series]:
    """Return the series that are of one host each; the others become problems."""
    mixed = {one.label: one for one in series if one.mixed}
    for label, one in mixed.items():
        reason = f"{one.source}: counters of several hosts take turns in files of one name; they are not used"
        problems.append(Problem.at(label, "several-hosts", reason))
    return [one for one in series if one.label not in mixed]


def belonging(series: Iterable[Series], origin: Origin, origins: Sequence[Origin]) -> list[Series]:
    """Return the series that are no nearer to another of ``origins`` than to ``origin``."""
    return [one for one in series if all(_nearness(one, other) <= _nearness(one, origin) for other in origins)]


def _nearness(one: Series, origin: Origin) -> tuple[int, int]:
    return max(origin.nearness(Origin(one.folder, name)) for name in (one.stem, one.host, one.machine))


def with_resource(
    work: Workload,
    origin: Origin,
    origins: Sequence[Origin],
    series: Sequence[Series],
    target: str,
    problems: list[Problem],
) -> Workload:
    """Give ``work`` the resource ``target`` (empty: CPU) of its host as y.

    Of the series that belong to it and cover its intervals best the preferred kind is used; without any, what the server
    itself counted by class.
    """
    if work.returns:
        reason = (
            f"{deltas.MIXED}: {work.returns} times a snapshot goes on from an earlier one than its predecessor; nothing is "
            "attributed (keep the files of each server under a name or in a folder of its own)"
        )
        problems.append(Problem.at(work.label, "several-hosts", reason))
    y_name = target or alignment.CPU
    near = belonging(series, origin, origins)
    work = replace(work, resources=tuple(sorted({s.name for s in near})))
    named = [s for s in near if s.name == y_name]
    aligned = [(s, *alignment.use_between(s, work.start_ms, work.end_ms)) for s in named] if len(work.y) else []
    most = max((int(np.isfinite(y).sum()) for _, y, _ in aligned), default=0)
    if most == 0:
        if y_name in work.metrics and (target or work.metrics[y_name].any()):
            return work.with_y(work.metrics[y_name].sum(axis=1), y_name, OWN)
        problems.extend(_why_not(work, target, series, near, named))
        return work
    good = [item for item in aligned if int(np.isfinite(item[1]).sum()) >= ENOUGH * most]
    order = {name: i for i, name in enumerate(alignment.PREFERENCE)}
    chosen, y, reasons = min(good, key=lambda item: (order.get(item[0].source, 99), item[0].label))
    problems.extend(_doubts(work, chosen, y, named, good))
    joined = tuple("; ".join(r for r in (a, b) if r) for a, b in zip(work.reasons, reasons, strict=True))
    cores = chosen.cores
    if np.isnan(cores):
        cores = next((s.cores for s in near if not np.isnan(s.cores)), float("nan"))
    where = chosen.source + (f" of {chosen.host}" if chosen.host else "")
    rivals = [
        other
        for other in origins
        if other != origin and other.system == origin.system and _nearness(chosen, other) == _nearness(chosen, origin)
    ]
    notes = work.notes
    if rivals and origin.system:
        notes += (
            f"the CPU of {chosen.stem} may as well be that of {', '.join(other.name or other.folder for other in rivals[:3])}: "
            "it is right for one of them only, unless each server's files have a name or a folder of their own",
        )
    return replace(work.with_y(y, y_name, where), reasons=joined, cores=cores, notes=notes)


OWN = "the classes' own counters"
"""``y_source`` of a resource that the server itself counted by class."""


def _why_not(
    work: Workload, target: str, series: Sequence[Series], near: Sequence[Series], named: Sequence[Series]
) -> list[Problem]:
    """Explain why no series gives ``work`` its resource."""
    if not named:
        if target and near:
            names = ", ".join(sorted({s.name for s in near} | work.metrics.keys()))
            return [Problem.at(work.label, "missing-target", f"no series {target!r}; there are {names}")]
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
    """Report what may be wrong with ``chosen`` (its use ``y``) among the series of its name and those as good as it."""
    doubts = []
    hosts = sorted({s.host for s in named if s.host})
    if len(hosts) > 1:
        reason = (
            f"CPU series of several hosts ({', '.join(hosts[:4])}): only {chosen.host or chosen.label!r} is used, "
            "since an estimate over mixed hosts means nothing"
        )
        doubts.append(Problem.at(work.label, "several-hosts", reason))
    else:
        alike = [
            s for s, other, _ in good if s.source == chosen.source and not np.array_equal(other, y, equal_nan=True)
        ]
        if alike:
            names = ", ".join(s.stem for s in (chosen, *alike[:3]))
            reason = f"{len(alike) + 1} series of kind {chosen.source} ({names}): only {chosen.stem!r} is used"
            doubts.append(Problem.at(work.label, "several-hosts", reason))
    if chosen.guessed:
        reason = (
            f"{chosen.source} gives percent of all cores but not how many there are: counted as one core, so all CPU "
            "times are too small by that number (a copy of /proc/stat beside it tells)"
        )
        doubts.append(Problem.at(work.label, "unknown-cores", reason))
    return doubts
