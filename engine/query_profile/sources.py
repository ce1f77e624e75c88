"""From inputs to workloads: which files belong to one server, what each class did, and what the host used meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.problems import Problem
from engine.query_profile import deltas, hostseries
from engine.query_profile.hostcpu import utc_text
from engine.query_profile.snapshots import STEM
from engine.query_profile.tables import METRICS
from engine.query_profile.wlr import HUGE
from engine.query_profile.wlr_csv import DEFAULT_TARGET
from engine.query_profile.workload import ClassInfo, Workload, unique_names
from engine.view import Context

TITLES = {"wlr": "WLR CSV", "postgresql": "pg_stat_statements", "mysql": "statement digests"}
BUCKETS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_BUCKETS = 720
"""A log without a CPU series is cut into at most about this many intervals."""


@dataclass(frozen=True)
class Gathered:
    """All workloads found, best first, the resource series, and what is wrong with the input as a whole."""

    workloads: tuple[Workload, ...]
    series: tuple[hostseries.Series, ...]
    problems: tuple[Problem, ...]


def folder(info: FileInfo) -> str:
    """The folder of a file as text."""
    return str(PurePath(info.path).parent)


def label(info: FileInfo) -> str:
    """The file as an operator would name it."""
    return info.label if info.label not in ("", ".") else PurePath(info.path).name


def gather(inputs: Inputs, target: str, context: Context, without: tuple[str, int] = ("", 0)) -> Gathered:
    """Everything that ``inputs`` holds. ``target``: the column or series that is y (empty: the usual one);
    ``without``: base name and size of an upstream-style file that is to be predicted and so is not trained on."""
    problems: list[Problem] = []
    found = matrices(inputs, target, context, problems, without)
    host = inputs.table("host")
    folders = _column(host, inputs.files, folder)
    labelled = host.with_columns(pl.concat_str(folders, pl.lit("/"), pl.col("series")).alias("series"))
    series = hostseries.collect(labelled) if host.height else []
    for item in _told_apart([*_snapshots(inputs, context), *_logs(inputs, series, target)]):
        found.append(_lay(item, series, target, problems))
    found.sort(key=lambda w: (-int(np.isfinite(w.y).any()), -int(w.used.sum()), -w.x.size, w.label))
    return Gathered(tuple(found), tuple(series), tuple(problems))


def _told_apart(found: list[tuple[Workload, str]]) -> list[Workload]:
    """Workloads with the folder each lies in; where names are the same, as much of the folders' as tells them apart."""
    labels = [work.label for work, _ in found]
    out = []
    for i, (work, place) in enumerate(found):
        same = [k for k, name in enumerate(labels) if name == work.label]
        if len(same) > 1:
            depth = 1
            while depth < len(PurePath(place).parts) and any(
                PurePath(found[k][1]).parts[-depth:] == PurePath(place).parts[-depth:] for k in same if k != i
            ):
                depth += 1
            tail = "/".join(PurePath(place).parts[-depth:])
            twins = [k for k in same if found[k][1] == place]
            number = f" ({twins.index(i) + 1})" if len(twins) > 1 else ""
            work = replace(work, label=f"{work.label} in {tail}{number}")
        out.append(work)
    return out


def _column(frame: pl.DataFrame, files: Mapping[int, FileInfo], what: Callable[[FileInfo], str]) -> pl.Series:
    ids = frame[FILE].unique().to_list() if frame.height else []
    names = {i: what(files[i]) if i in files else "" for i in ids}
    return frame[FILE].replace_strict(names, return_dtype=pl.String).rename("name")


# --- upstream-style tables -------------------------------------------------------------------------------------------


class Growing:
    """Rows of one file, kept across appends: new chunks are copied behind the old ones, the rest is not touched."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.buffer = np.empty((0, len(names)))
        self.lines = np.empty(0, np.int64)
        self.count = 0
        self.chunks = 0

    def take(self, chunks: pl.DataFrame) -> None:
        """Copy the chunks that are new."""
        for i in range(self.chunks, chunks.height):
            values = chunks["values"][i].to_numpy()
            rows = values.reshape(-1, len(self.names))
            end = self.count + len(rows)
            if not self.count:  # the first chunk stays where it is: most files are read once, whole
                self.buffer, self.lines, self.count = rows, chunks["lines"][i].to_numpy(), end
                continue
            if end > len(self.buffer) or not self.buffer.flags.writeable:
                size = max(end, len(self.buffer) * 2) if self.count else end
                buffer, lines = np.empty((size, len(self.names))), np.empty(size, np.int64)
                buffer[: self.count], lines[: self.count] = self.buffer[: self.count], self.lines[: self.count]
                self.buffer, self.lines = buffer, lines
            self.buffer[self.count : end] = rows
            self.lines[self.count : end] = chunks["lines"][i].to_numpy()
            self.count = end
        self.chunks = chunks.height

    @property
    def values(self) -> np.ndarray:
        """All rows so far (rows, columns)."""
        return self.buffer[: self.count]


def matrices(
    inputs: Inputs, target: str, context: Context, problems: list[Problem], without: tuple[str, int] = ("", 0)
) -> list[Workload]:
    """Workloads of the upstream-style tables: files of one folder are parts of one, in order of their names; a file
    of calls beside one of times (same header, same y) gives its call counts."""
    frame = inputs.table("matrix")
    if not frame.height:
        return []
    wanted = target or DEFAULT_TARGET
    parts: dict[str, list[tuple[str, int, Growing]]] = {}
    cache: dict[int, Growing] = context.memo.setdefault("matrix", {})
    for (file,), chunks in frame.group_by(FILE, maintain_order=True):
        info = inputs.files.get(int(file))
        if info is None or not chunks.height:
            continue
        rows = cache.get(info.id)
        if rows is None or rows.chunks > chunks.height:
            rows = cache[info.id] = Growing(chunks["names"][0].to_list())
        rows.take(chunks)
        name = label(info)
        if wanted not in rows.names:
            problems.append(
                Problem.at(
                    info.path,
                    "missing-target",
                    f"no column {wanted!r}: nothing can be attributed (columns: {', '.join(rows.names[:6])}"
                    f"{', …' if len(rows.names) > 6 else ''}); choose another with -o target=",
                    line=1,
                )
            )
            continue
        if without == (PurePath(info.path).name, info.size):
            continue
        parts.setdefault(folder(info), []).append((name, info.id, rows))
    for gone in set(cache) - set(inputs.files):
        del cache[gone]
    found = []
    for files in parts.values():
        files.sort(key=lambda item: item[0])
        times, calls = _pair(files, wanted)
        found.append(_matrix(times, calls, wanted))
    return found


def _pair(
    files: list[tuple[str, int, Growing]], target: str
) -> tuple[list[tuple[str, int, Growing]], dict[int, Growing]]:
    """Files of times, and for some of them (by id) the file of calls that belongs to them."""
    counts = [f for f in files if "call" in PurePath(f[0]).name.lower() or "count" in PurePath(f[0]).name.lower()]
    times = [f for f in files if f not in counts]
    calls: dict[int, Growing] = {}
    for _, _, count in counts:
        for _, time_id, time in times:
            if time_id not in calls and time.names == count.names and time.count == count.count:
                j = time.names.index(target)
                if np.array_equal(time.values[:, j], count.values[:, j], equal_nan=True):
                    calls[time_id] = count
                    break
    if not times or len(calls) < len(counts):
        return files, {}
    return times, calls


def _matrix(files: list[tuple[str, int, Growing]], calls: dict[int, Growing], target: str) -> Workload:
    skip = {target, DEFAULT_TARGET}
    names: dict[str, int] = {}
    for _, _, rows in files:
        for name in rows.names:
            if name not in skip:
                names.setdefault(name, len(names))
    if len(files) == 1:
        rows = files[0][2]
        place = [i for i, name in enumerate(rows.names) if name not in skip]
        x = _without(rows.values, place)
        y = rows.values[:, rows.names.index(target)]
        counted = _without(calls[files[0][1]].values, place) if calls else None
        lines = rows.lines[: rows.count]
    else:
        total = sum(rows.count for _, _, rows in files)
        x, y, lines = np.zeros((total, len(names))), np.zeros(total), np.zeros(total, np.int64)
        counted = np.zeros((total, len(names))) if len(calls) == len(files) else None
        start = 0
        for _, identity, rows in files:
            end = start + rows.count
            here = [i for i, name in enumerate(rows.names) if name not in skip]
            there = [names[rows.names[i]] for i in here]
            x[start:end, there] = rows.values[:, here]
            y[start:end] = rows.values[:, rows.names.index(target)]
            lines[start:end] = rows.lines[: rows.count]
            if counted is not None:
                counted[start:end, there] = calls[identity].values[:, here]
            start = end
    with np.errstate(invalid="ignore", over="ignore"):
        total_x = x.sum(axis=1)
    finite = (np.abs(total_x) < HUGE) & (np.abs(y) < HUGE)
    reasons = np.full(len(y), "", dtype=object)
    reasons[total_x == 0] = "no query time in this interval"
    reasons[y == 0] = f"{target} is 0"
    reasons[~finite] = "a value is not finite, or too large for any time"
    metrics = {"time_us": x}
    if counted is not None:
        metrics["calls"] = counted
    return Workload(
        ", ".join(name for name, _, _ in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else ""),
        "wlr",
        tuple(ClassInfo(name) for name in names),
        metrics,
        y,
        np.full(len(y), -1, np.int64),
        np.full(len(y), -1, np.int64),
        np.full(len(y), np.nan),
        tuple(reasons.tolist()),
        y_name=target,
        y_source="the same table",
        plain=True,
        lines=lines,
    )


def _without(values: np.ndarray, place: list[int]) -> np.ndarray:
    """The columns ``place`` of ``values``; without copying where they are one stretch."""
    if place and place[-1] - place[0] + 1 == len(place):
        return values[:, place[0] : place[-1] + 1]
    return np.ascontiguousarray(values[:, place])


# --- snapshots -------------------------------------------------------------------------------------------------------


def _snapshots(inputs: Inputs, context: Context) -> list[tuple[Workload, str]]:
    frame = inputs.table("snapshots")
    if not frame.height:
        return []
    keyed = frame.with_columns(_column(frame, inputs.files, folder).rename("folder"))
    by = ("system", "folder", "series")
    first = keyed.row(0, named=True)
    if all((keyed[name] == first[name]).all() for name in by):  # as usual: nothing needs to be copied
        groups = {(str(first[by[0]]), str(first[by[1]]), str(first[by[2]])): keyed}
    else:
        groups = {(str(s), str(f), str(n)): part for (s, f, n), part in keyed.group_by(by, maintain_order=True)}
    # File names that differ are other servers, unless each holds one snapshot only: then the name is its moment.
    merged: dict[tuple[str, str, str], list[pl.DataFrame]] = {}
    for (system, place, series), part in groups.items():
        alone = series.startswith(STEM) and part.select(FILE, "part").n_unique() == 1
        merged.setdefault((system, place, "" if alone else series), []).append(part)
    for (system, place, series), rows in list(merged.items()):
        others = [k for k in merged if k[:2] == (system, place) and k[2].startswith(STEM)]
        if series == "" and len(rows) == 1 and len(others) == 1:
            merged[others[0]] += merged.pop((system, place, series))
    infos = _snapshot_info(inputs)
    found = []
    for (system, place, series), rows in merged.items():
        context.check()
        part = pl.concat(rows) if len(rows) > 1 else rows[0]
        run = _run(part, _asker(infos, place), context.memo.setdefault("runs", {}), (system, place, series))
        names = sorted({label(inputs.files[i]) for i in part[FILE].unique().to_list() if i in inputs.files})
        name = series.removeprefix(STEM) or (names[0] if len(names) == 1 else PurePath(place).name)
        found.append((deltas.workload(f"{TITLES.get(system, system)}: {name}", system, run), place))
    return found


def _run(part: pl.DataFrame, ask: deltas.Asker, memo: dict[Any, Any], key: tuple[str, str, str]) -> deltas.Run:
    """The intervals of one server's snapshots. Those up to the last but one are kept in ``memo``: as long as they are what
    they were, the next snapshot costs no more than itself."""
    part = _moments(part)
    heads = part.group_by("moment").agg(pl.col(FILE).first(), pl.col("part").first(), pl.len(), pl.col("at_ms").first())
    rows = heads.sort("moment").select(FILE, "part", "len", "at_ms").rows()
    moments = [(*row, *ask(row[-1])) for row in rows]
    known: tuple[Any, ...] = ()
    run = deltas.Run()
    if key in memo and memo[key][0] == tuple(moments[: len(memo[key][0])]):
        known, run = memo[key]
    last = len(moments) - 1
    run = run.copy()
    if len(known) < last:
        deltas.snapshots(part.filter(pl.col("moment").is_between(len(known), last - 1)), run, ask)
        memo[key] = (tuple(moments[:last]), run)
        run = run.copy()
    deltas.snapshots(part.filter(pl.col("moment") >= max(len(known), last)), run, ask)
    return run


def _moments(part: pl.DataFrame) -> pl.DataFrame:
    """Rows with a ``moment`` that numbers the snapshots: by time where all have one, else in file order."""
    heads = part.group_by(FILE, "part", maintain_order=True).agg(
        pl.col("at_ms").first().alias("at"), pl.col("at_ms").is_null().any().alias("unknown")
    )
    if not heads["unknown"].any() and heads.filter(pl.col("part") > 0).height == 0:
        heads = heads.sort("at", maintain_order=True)
    return part.join(
        heads.with_row_index("moment").select(FILE, "part", "moment"), on=[FILE, "part"], maintain_order="left"
    )


def _snapshot_info(inputs: Inputs) -> dict[str, list[tuple[int, float | None, int | None]]]:
    frame = inputs.table("snapshot_info")
    found: dict[str, list[tuple[int, float | None, int | None]]] = {}
    for place, at, dealloc, reset in zip(
        _column(frame, inputs.files, folder),
        frame["at_ms"].to_list(),
        frame["dealloc"].to_list(),
        frame["reset_ms"].to_list(),
        strict=True,
    ):
        found.setdefault(place, []).append((at, dealloc, reset))
    return {place: sorted(rows, key=lambda row: row[0]) for place, rows in found.items()}


def _asker(infos: dict[str, list[tuple[int, float | None, int | None]]], place: str) -> Any:
    """Evictions and last reset at a moment, from the info file in the nearest folder above or beside."""
    near = [p for p in infos if p == place or PurePath(place).is_relative_to(p) or PurePath(p).is_relative_to(place)]
    rows = infos[max(near, key=lambda p: (p == place, len(p)))] if near else []
    times = np.array([row[0] for row in rows], np.int64)

    def ask(at_ms: int | None) -> tuple[float | None, int | None]:
        if at_ms is None or not len(times):
            return None, None
        i = int(np.argmin(np.abs(times - at_ms)))
        return (rows[i][1], rows[i][2]) if abs(int(times[i]) - at_ms) <= 2000 else (None, None)

    return ask


# --- logs ------------------------------------------------------------------------------------------------------------


def _logs(inputs: Inputs, series: list[hostseries.Series], target: str) -> list[tuple[Workload, str]]:
    frame = inputs.table("interval_classes")
    if not frame.height:
        return []
    keyed = frame.with_columns(_column(frame, inputs.files, folder).rename("folder"))
    found = []
    for (system, place), part in keyed.group_by("system", "folder", maintain_order=True):
        names = sorted({label(inputs.files[i]) for i in part[FILE].unique().to_list() if i in inputs.files})
        title = names[0] if len(names) == 1 else f"{PurePath(str(place)).name} ({len(names)} files)"
        edges = _edges(part, series, target) if system == "slow-log" else None
        found.append((_log(part, f"{system}: {title}", str(system), edges), str(place)))
    return found


def _edges(part: pl.DataFrame, series: list[hostseries.Series], target: str) -> np.ndarray | None:
    """Ends of the intervals that a log is cut into: the instants of the CPU samples that lie in it, or round times."""
    low, high = part["start_ms"].min(), part["end_ms"].max()
    if low is None or high is None:
        return None
    first, last = int(low), int(high)  # type: ignore[arg-type]
    for candidate in series:
        if candidate.name == (target or hostseries.CPU):
            inside = candidate.at_ms[(candidate.at_ms >= first - 1000) & (candidate.at_ms <= last + 1000)]
            if len(inside) >= 3 and np.median(np.diff(inside)) >= 900:
                return inside
    seconds = (last - first) / 1000
    step = next((s for s in BUCKETS_S if seconds / s <= MOST_BUCKETS), BUCKETS_S[-1]) * 1000
    count = min(int((last - 1 - first // step * step) // step + 1), 1_000_000)
    return first // step * step + step * np.arange(count + 1)


def _log(part: pl.DataFrame, name: str, system: str, edges: np.ndarray | None) -> Workload:
    classes: dict[str, int] = {}
    infos: list[ClassInfo] = []
    index = np.empty(part.height, np.int64)
    rows = part.select("key", "queryid", "query", "user", "database").rows()
    for i, (key, queryid, query, user, database) in enumerate(rows):
        found = classes.get(key)
        if found is None:
            found = classes[key] = len(infos)
            infos.append(ClassInfo(queryid, queryid, query, user, database))
        index[i] = found
    if edges is not None and len(edges) > 1:
        end = part["end_ms"].to_numpy()
        known = part["end_ms"].is_not_null().to_numpy()
        interval = np.searchsorted(edges, np.where(known, end, -1), side="left") - 1
        inside = known & (interval >= 0) & (interval < len(edges) - 1)
        count = len(edges) - 1
        start_ms, end_ms = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    else:
        files = part[FILE].to_numpy()
        order = part.group_by(FILE, maintain_order=True).agg(pl.col("start_ms").min(), pl.col("end_ms").max())
        order = order.sort("start_ms", FILE, nulls_last=True)
        number = {file: i for i, file in enumerate(order[FILE].to_list())}
        interval = np.array([number[file] for file in files.tolist()], np.int64)
        inside = np.ones(len(interval), bool)
        count = order.height
        start_ms = order["start_ms"].fill_null(-1).to_numpy().astype(np.int64)
        end_ms = order["end_ms"].fill_null(-1).to_numpy().astype(np.int64)
    metrics: dict[str, np.ndarray] = {}
    for metric, _ in METRICS:
        values = part[metric].to_numpy().astype(float)
        fine = np.isfinite(values) & inside
        if fine.any():
            table = np.zeros((count, len(infos)))
            np.add.at(table, (interval[fine], index[fine]), values[fine])
            metrics[metric] = table
    metrics.setdefault("time_us", np.zeros((count, len(infos))))
    more = [(info.user, info.database, info.query[:24]) for info in infos]
    names = unique_names([info.name for info in infos], more)
    seconds = np.where(start_ms >= 0, (end_ms - start_ms) / 1000, np.nan)
    outside = int((~inside).sum())
    return Workload(
        name,
        system,
        tuple(replace(info, name=unique) for info, unique in zip(infos, names, strict=True)),
        metrics,
        np.full(count, np.nan),
        start_ms,
        end_ms,
        seconds,
        ("",) * count,
        notes=(f"{outside} log entries lie outside the CPU samples",) if outside else (),
    )


# --- what the host used ----------------------------------------------------------------------------------------------


def _lay(work: Workload, series: list[hostseries.Series], target: str, problems: list[Problem]) -> Workload:
    """``work`` with the resource that covers most of its intervals; ties by kind and nearness in the folders."""
    wanted = target or hostseries.CPU
    if wanted in work.metrics and (target or work.metrics[wanted].any()):
        y = work.metrics[wanted].sum(axis=1)
        return work.with_y(y, wanted, "the classes' own counters")
    named = [s for s in series if s.name == wanted]
    if target and not named and series:
        known = ", ".join(sorted({s.name for s in series}))
        problems.append(Problem.at(work.label, "missing-target", f"no series {target!r}; there are {known}"))
    if not named or not len(work.y):
        return work
    laid = [(s, *hostseries.between(s, work.start_ms, work.end_ms)) for s in named]
    most = max(int(np.isfinite(y).sum()) for _, y, _ in laid)
    if most == 0:
        first, last = work.start_ms.min(), work.end_ms.max()
        if first >= 0:
            problems.append(
                Problem.at(
                    work.label,
                    "no-cpu",
                    f"no CPU sample lies between {utc_text(int(first))} and {utc_text(int(last))}: nothing to attribute",
                )
            )
        return work
    good = [item for item in laid if int(np.isfinite(item[1]).sum()) >= 0.9 * most]
    order = {name: i for i, name in enumerate(hostseries.PREFERENCE)}
    chosen, y, reasons = min(good, key=lambda item: (order.get(item[0].source, 99), item[0].label))
    hosts = sorted({s.host for s in named if s.host})
    if len(hosts) > 1:
        problems.append(
            Problem.at(
                work.label,
                "several-hosts",
                f"CPU series of several hosts ({', '.join(hosts[:4])}): only {chosen.host or chosen.label!r} is used, "
                "since an estimate over mixed hosts means nothing",
            )
        )
    joined = tuple("; ".join(r for r in (a, b) if r) for a, b in zip(work.reasons, reasons, strict=True))
    cores = chosen.cores
    if np.isnan(cores):
        cores = next((s.cores for s in series if not np.isnan(s.cores)), float("nan"))
    if chosen.guessed:
        problems.append(
            Problem.at(
                work.label,
                "unknown-cores",
                f"{chosen.source} gives percent of all cores but not how many there are: counted as one core, so all CPU "
                "times are too small by that number (a copy of /proc/stat beside it tells)",
            )
        )
    where = chosen.source + (f" of {chosen.host}" if chosen.host else "")
    return replace(work.with_y(y, wanted, where), reasons=joined, cores=cores)
