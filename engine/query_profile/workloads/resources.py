"""Align the resource series of hosts with the intervals of workloads, and choose the y of each workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import Problem
from engine.formats.timestamps import name_run, utc_text
from engine.query_profile.reading.cpu_readers import CGROUP
from engine.query_profile.workloads.workload import MIXED, Origin, Workload, depth

PREFERENCE = (
    "process",
    "cgroup",
    "pidstat",
    "pidstat-u",
    "cadvisor",
    "node_exporter",
    "procstat",
    "mpstat",
    "sadf",
    "vmstat",
    "docker",
)
"""Sources, best first: database process, its container, its host; counters before percent, fine before rounded percent,
momentary samples last."""

OF_A_HOST = ("node_exporter", "procstat", "mpstat", "sadf", "vmstat")
"""Sources that count the CPU of every program of a host."""

COVERED = 0.999
"""Share of all time whose CPU the server must have counted by class for its counters to replace the model."""
MOST = 1.1  # if more of the measured CPU than this is counted, it was measured on another server

PER_CORE = ("docker", "pidstat-u")  # sources whose percentages are of one core

CPU = "cpu_us"  # name of the default resource: user and system time together

NEAR = 0.02  # distance, as a share of the interval, within which a sample counts as taken at the same instant

NEAR_MS = 20  # the same in milliseconds, for short intervals

APART = 1.5  # largest distance of samples, in interval lengths, for interpolation

GAP = 1.5  # distance of percentages, in stretches, from which on there is a gap

UNSTEADY = ("iowait_us", "idle_us")  # counters that Linux may set back a little

MOST_RETURNS = 2  # number of falls with immediate return from which on a series mixes several hosts' counters


class Series(msgspec.Struct, frozen=True):
    """One resource of one source: ``used`` (N,) microseconds since the first sample at ``at_ms`` (N,), growing.

    ``folder`` of its files, ``stem``: what their names share; ``machine``: another name of the host; ``fell`` (N,): the counter
    was smaller than before (restart), or there is a gap, in the step that ends here; ``cores``: NaN if unknown; ``guessed``:
    the number of cores is unknown and percentages were taken as of one core; ``mixed``: counters of several hosts seem to
    alternate.
    """

    source: str
    host: str
    folder: str
    stem: str
    cores: float
    guessed: bool
    machine: str = ""
    name: str = ""
    at_ms: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    used: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(0))
    fell: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(0, bool))
    mixed: bool = False

    @property
    def label(self) -> str:
        """Folder and common name of its files."""
        return f"{self.folder}/{self.stem}"


def collect_series(frame: pl.DataFrame) -> list[Series]:
    """Collect all series of the ``host`` table with a ``folder`` column, user and system time also as their sum.

    They are sorted by preference and label. Percentages of a source that does not say how many cores there are (vmstat,
    sadf -d) take the number from the nearest other sources, if those agree.
    """
    series: list[Series] = []
    if not frame.height:
        return []
    known_cores = (
        frame.filter(pl.col("cores").is_not_null()).select("folder", "cores").unique().sort("folder", "cores").rows()
    )
    by = ("source", "host", "folder")
    for (source, host, folder), part in _one_after_another(frame).group_by(by, maintain_order=True):
        for (stem,), rows in part.group_by("run", maintain_order=True):
            cores = rows["cores"].drop_nulls()
            count = float(cores.median()) if len(cores) else float("nan")  # type: ignore[arg-type]
            percent = bool(rows["seconds"].is_not_null().any())
            if percent and np.isnan(count):
                count = _nearest_cores(str(folder), known_cores)
            guessed = percent and bool(np.isnan(count)) and source not in PER_CORE
            machine = rows["machine"].drop_nulls()
            one = Series(
                str(source), str(host), str(folder), str(stem), count, guessed, machine[0] if len(machine) else ""
            )
            series.extend(_named(one, rows))
    order = {name: i for i, name in enumerate(PREFERENCE)}
    return sorted(series, key=lambda s: (order.get(s.source, 99), s.label, s.host, s.name))


def _one_after_another(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort ``frame`` by time and add a ``run`` column. Files of one source in one folder whose names differ only in a date or
    number form one run, named after the first, if each begins after the one before ends."""
    by = ["source", "host", "folder", "series"]
    spans = frame.group_by(by).agg(pl.col("at_ms").min().alias("from"), pl.col("at_ms").max().alias("to"))
    ends: dict[tuple[str, ...], list[list[Any]]] = {}
    runs = []
    for source, host, folder, series, start, end in spans.sort("from", *by).rows():
        open_runs = ends.setdefault((source, host, folder, name_run(series)), [])
        run = next((run for run in open_runs if run[1] < start), None)
        if run is None:
            run = [series, end]
            open_runs.append(run)
        run[1] = end
        runs.append((source, host, folder, series, run[0]))
    named = pl.DataFrame(runs, schema=[*by, "run"], orient="row")
    return frame.join(named, on=by, maintain_order="left").sort("at_ms", maintain_order=True)


def _nearest_cores(folder: str, known_cores: list[tuple[str, float]]) -> float:
    """Return the cores stated by the sources nearest to ``folder``; NaN if they differ or there are none."""
    deepest = max((depth(folder, other) for other, _ in known_cores), default=0)
    counts = {cores for other, cores in known_cores if depth(folder, other) == deepest}
    return counts.pop() if len(counts) == 1 else float("nan")


def _named(one: Series, rows: pl.DataFrame) -> list[Series]:
    """Build the series of one source: ``one`` with the times and use of each name in ``rows``."""
    named: dict[str, Series] = {}
    for (name,), part in rows.group_by("name", maintain_order=True):
        part = (
            # One file per process: a server is all of them.
            part.group_by("at_ms", maintain_order=True).agg(pl.col("value").sum(), pl.col("seconds").first())
            if one.source == "pidstat"
            else part.unique("at_ms", keep="last", maintain_order=True)
        )
        at = part["at_ms"].to_numpy()
        value = part["value"].to_numpy().astype(float)
        seconds = part["seconds"].to_numpy().astype(float)
        mixed = False
        if np.isnan(seconds).all():
            step = np.diff(value, prepend=value[:1])
            fell = step < 0
            used = np.cumsum(np.maximum(step, 0))
            mixed = name not in UNSTEADY and _returns(value) >= MOST_RETURNS
        else:
            # percent of all CPUs in the stretch that ends here; prepend the start of the first stretch
            width = np.where(seconds > 0, seconds, np.diff(at, prepend=at[:1]) / 1000)
            amount = value / 100 * (1 if np.isnan(one.cores) or one.source in PER_CORE else one.cores) * width * 1e6
            at = np.r_[at[0] - round(width[0] * 1000), at]
            used = np.r_[0.0, np.cumsum(amount)]
            fell = np.r_[False, (np.diff(at) / 1000 > width * GAP + 0.001)]
        named[str(name)] = msgspec.structs.replace(one, name=str(name), at_ms=at, used=used, fell=fell, mixed=mixed)
    user, system = named.get("user_us"), named.get("system_us")
    if user and system and np.array_equal(user.at_ms, system.at_ms):
        named[CPU] = msgspec.structs.replace(
            user, name=CPU, used=user.used + system.used, fell=user.fell | system.fell,
            mixed=user.mixed or system.mixed,
        )  # fmt: skip
    elif (
        user and not system and CPU not in named and one.source != CGROUP
    ):  # a group's files tell both, or one is missing
        named[CPU] = msgspec.structs.replace(user, name=CPU)
    return list(named.values())


def _returns(value: np.ndarray) -> int:
    """Count how often a counter (N,) falls and is back in the next sample, or was high for one sample only. After a restart it
    would begin near 0, so these are two alternating counters."""
    fall = np.flatnonzero(np.diff(value) < 0) + 1
    drop = value[fall - 1] - value[fall]
    over = np.r_[value[1:], np.nan][fall] - value[fall - 1]
    under = value[fall] - np.r_[np.nan, np.nan, value[:-2]][fall]
    return int((((over >= 0) & (over < drop)) | ((under >= 0) & (under < drop))).sum())


def use_between(series: Series, start_ms: np.ndarray, end_ms: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Compute the use in each interval: (T,) microseconds, or NaN and a reason if the series has no samples for it.

    Samples (nearly) at the ends of the interval are used directly; otherwise the counter is interpolated between the
    samples around them, if these are close enough.
    """
    at, used, count = series.at_ms, series.used, len(start_ms)
    if len(at) < 2:
        return np.full(count, np.nan), ["no CPU samples"] * count
    length = end_ms - start_ms
    falls = np.cumsum(series.fell)

    def counter(instant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the counter at each instant (NaN if unknown) and its falls up to the sample used."""
        behind = np.searchsorted(at, instant)
        left, right = np.maximum(behind - 1, 0), np.minimum(behind, len(at) - 1)
        near = np.where(instant - at[left] <= at[right] - instant, left, right)
        hit = np.abs(at[near] - instant) <= np.maximum(NEAR * length, NEAR_MS)
        between = (left < right) & (behind < len(at)) & (at[right] - at[left] <= APART * length)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (instant - at[left]) / (at[right] - at[left])
            value = np.where(between, used[left] + share * (used[right] - used[left]), np.nan)
        return np.where(hit, used[near], value), falls[np.where(hit, near, right)]

    (first, falls_before), (last, falls_after) = counter(start_ms), counter(end_ms)
    y = last - first
    words = ["no time, so no CPU", "", "no CPU sample at its ends", "the CPU counter fell or has a gap"]
    reasons = np.select([start_ms < 0, length <= 0, np.isnan(y), falls_before != falls_after], words, "")
    y[(length <= 0) | (reasons != "")] = np.nan
    return y, reasons.tolist()


ENOUGH = 0.9  # share of the intervals covered by the best series that another one must cover to be preferred to it


def of_single_hosts(series: Sequence[Series], problems: list[Problem]) -> list[Series]:
    """Return the series of a single host each; the others become problems."""
    mixed = {one.label: one.source for one in series if one.mixed}
    reason = "counters of several hosts take turns in files of one name; they are not used"
    problems += [Problem.at(label, "several-hosts", f"{source}: {reason}") for label, source in mixed.items()]
    return [one for one in series if one.label not in mixed]


def belonging(series: Iterable[Series], origin: Origin, origins: Sequence[Origin]) -> list[Series]:
    """Return the series that are not nearer to another of ``origins`` than to ``origin``."""
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

    Among its series that cover its intervals best, the preferred kind is used; without any, the CPU that the server itself
    counted by class.
    """
    if work.returns:
        reason = (
            f"{MIXED}: {work.returns} times a snapshot goes on from an earlier one than its predecessor; nothing is "
            "attributed (keep the files of each server under a name or in a folder of its own)"
        )
        problems.append(Problem.at(work.label, "several-hosts", reason))
    y_name = target or CPU
    near = belonging(series, origin, origins)
    work = msgspec.structs.replace(work, resources=tuple(sorted({s.name for s in near})))
    named = [s for s in near if s.name == y_name]
    aligned = [(s, *use_between(s, work.start_ms, work.end_ms)) for s in named] if len(work.y) else []
    most = max((int(np.isfinite(y).sum()) for _, y, _ in aligned), default=0)
    if most == 0 and y_name in work.metrics and (target or work.metrics[y_name].any()):
        return work.with_y(work.metrics[y_name].sum(axis=1), y_name, OWN)
    if most == 0:
        problems.extend(_why_not(work, target, series, near, named))
        return work
    good = [item for item in aligned if int(np.isfinite(item[1]).sum()) >= ENOUGH * most]
    order = {name: i for i, name in enumerate(PREFERENCE)}
    chosen, y, reasons = min(good, key=lambda item: (order.get(item[0].source, 99), item[0].label))
    problems.extend(_doubts(work, chosen, y, named, good))
    joined = tuple("; ".join(r for r in (a, b) if r) for a, b in zip(work.reasons, reasons, strict=True))
    cores = chosen.cores
    if np.isnan(cores) and chosen.source != CGROUP:  # whose limit is not the host's
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
    notes += _throttled(chosen, near)
    own, known = work.metrics.get(y_name), np.isfinite(y)
    if own is not None and work.counted >= COVERED and own[known].sum() > MOST * y[known].sum():
        reason = (
            f"{where} has less CPU ({y[known].sum() / 1e6:,.1f} s) than the server counted for its statements "
            f"({own[known].sum() / 1e6:,.1f} s): it is another server's, and not used"
        )
        problems.append(Problem.at(work.label, "other-server", reason))
        return work.with_y(own.sum(axis=1), y_name, OWN)
    return msgspec.structs.replace(
        work.with_y(y, y_name, where), reasons=joined, cores=cores, notes=notes, shared=chosen.source in OF_A_HOST
    )


THROTTLED = 0.05  # share of the time from which on the throttling of a control group is told


def _throttled(chosen: Series, near: Sequence[Series]) -> tuple[str, ...]:
    """Word how long a control group was given no CPU though it asked for some."""
    same = (s for s in near if (s.label, s.source, s.name) == (chosen.label, chosen.source, "throttled_us"))
    shares = [
        float(s.used[-1]) / float(s.at_ms[-1] - s.at_ms[0]) / 1000 for s in same if len(set(s.at_ms.tolist())) > 1
    ]
    return tuple(
        f"the control group was throttled for {share * 100:.0f}% of the time: its CPU limit is full, and time is partly waiting"
        for share in shares[:1]
        if share > THROTTLED
    )


OWN = "the classes' own counters"  # ``y_source`` of a resource that the server counted by class


def _why_not(
    work: Workload, target: str, series: Sequence[Series], near: Sequence[Series], named: Sequence[Series]
) -> list[Problem]:
    """Explain why no series gives ``work`` its resource."""
    if not named and target and near:
        names = ", ".join(sorted({s.name for s in near} | work.metrics.keys()))
        return [Problem.at(work.label, "missing-target", f"no series {target!r}; there are {names}")]
    if not named and series and not near:
        reason = f"the CPU series that were found ({series[0].label}, …) lie nearer to another source"
        return [Problem.at(work.label, "no-cpu", reason)]
    if not named or not len(work.y) or work.start_ms.min() < 0:
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
    """Return doubts about ``chosen`` (its use ``y``) among the series of its name and those as good."""
    hosts = sorted({s.host for s in named if s.host})
    alike = [s for s, other, _ in good if s.source == chosen.source and not np.array_equal(other, y, equal_nan=True)]
    names = ", ".join(s.stem for s in (chosen, *alike[:3]))
    doubts = (
        (
            len(hosts) > 1,
            "several-hosts",
            f"CPU series of several hosts ({', '.join(hosts[:4])}): only {chosen.host or chosen.label!r} is used, "
            "since an estimate over mixed hosts means nothing",
        ),
        (
            len(hosts) < 2 and alike,
            "several-hosts",
            f"{len(alike) + 1} series of kind {chosen.source} ({names}): only {chosen.stem!r} is used",
        ),
        (
            chosen.guessed,
            "unknown-cores",
            f"{chosen.source} gives percent of all cores but not how many there are: counted as one core, so all CPU "
            "times are too small by that number (a copy of /proc/stat beside it tells)",
        ),
    )
    return [Problem.at(work.label, kind, reason) for there, kind, reason in doubts if there]
