"""Find the workloads in the files: joined WLR CSVs, snapshots and logs of each server, and its host's resource use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

import msgspec
import numpy as np
import polars as pl

from engine.core import units
from engine.core.incremental import Partials
from engine.core.reading import Problem
from engine.core.view import FILE, Context, FileInfo, Inputs, UnknownName
from engine.formats.timestamps import name_instant_ms
from engine.query_profile.reading.collected_rows import STEM
from engine.query_profile.reading.exporter_series import MYSQL, POSTGRES
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.reading.mysql import PtQueryDigest
from engine.query_profile.reading.pgss import KCACHE, PgStatMonitor
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET, WlrCsv
from engine.query_profile.tables import SNAPSHOTS
from engine.query_profile.wlr.regression import HUGE, TINY
from engine.query_profile.workloads import deltas, resources
from engine.query_profile.workloads.deltas import Interval, Statistics
from engine.query_profile.workloads.workload import (
    NOTE,
    ClassInfo,
    Origin,
    Snapshot,
    Workload,
    depth,
    fingerprint,
    folder,
    in_time,
    label,
    of_files,
    taken,
    with_cpu,
)

SAME_CLASSES = 0.25  # share of common classes from which on two files belong to one server


class Matrix(msgspec.Struct, frozen=True):
    """One file: ``values`` (rows, columns) of the columns ``names``."""

    names: list[str]
    values: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """Return the column (rows,) called ``name``. Raises ValueError."""
        return self.values[:, self.names.index(name)]


class File(msgspec.Struct, frozen=True):
    """A matrix, the label of its file, and the matching counts of calls (from another file), if any."""

    label: str
    matrix: Matrix
    calls: Matrix | None = None


def matrix_workloads(
    inputs: Inputs, target: str, context: Context, problems: list[Problem], without: tuple[str, int] = ("", 0)
) -> list[Workload]:
    """Build the workloads of the WLR CSVs.

    Files of one folder form one workload, in order of their names, if their classes mostly agree. A file of calls with the
    header and y of a file of times gives its call counts. ``without``: see ``sources.find_sources``.
    """
    y_name = target or DEFAULT_TARGET
    matrices: Partials[int, Matrix | None] = context.memo.state("matrices", Partials)
    matrices.update(
        {number: inputs.stamp([number]) for number, info in inputs.files.items() if info.kind == WlrCsv.id},
        lambda files: _read(inputs.of("matrix", frozenset(files)), files),
    )
    by_folder: dict[str, list[File]] = {}
    for number, matrix in matrices.items():
        if matrix is None:
            continue
        info = inputs.files[number]
        if y_name not in matrix.names:
            names = ", ".join(matrix.names[:6]) + (", …" if len(matrix.names) > 6 else "")
            reason = (
                f"no column {y_name!r}: nothing can be attributed (columns: {names}); choose another with -o target="
            )
            problems.append(Problem.at(info.path, "missing-target", reason, line=1))
        elif without != (PurePath(info.path).name, info.size):
            by_folder.setdefault(folder(info), []).append(File(label(info), matrix))
    return [
        _joined(_with_calls(alike, y_name), y_name)
        for files in by_folder.values()
        for alike in _alike(sorted(files, key=lambda file: file.label), {y_name, DEFAULT_TARGET})
    ]


def _read(frame: pl.DataFrame, files: Collection[int]) -> dict[int, Matrix | None]:
    """Join the blocks of each of ``files``; None for one without a header yet."""
    matrices: dict[int, Matrix | None] = dict.fromkeys(files)
    for (number,), blocks in frame.group_by(FILE, maintain_order=True):
        names = blocks["names"][0].to_list()
        values = [block.to_numpy().reshape(-1, len(names)) for block in blocks["values"]]
        matrices[int(number)] = Matrix(names, values[0] if len(values) == 1 else np.concatenate(values))
    return matrices


def _alike(files: list[File], targets: set[str]) -> list[list[File]]:
    """Group files whose columns (except ``targets``) mostly agree: other classes come from another server."""
    groups: list[tuple[set[str], list[File]]] = []
    for file in files:
        names = set(file.matrix.names) - targets
        group = next((g for g in groups if len(names & g[0]) >= SAME_CLASSES * min(len(names), len(g[0]))), None)
        if group is None:
            group = (set(), [])
            groups.append(group)
        group[0].update(names)
        group[1].append(file)
    return [group for _, group in groups]


def _with_calls(files: list[File], target: str) -> list[File]:
    """Pair files of times with their files of calls; pair none if a file of calls has no partner."""
    counts = [f for f in files if any(word in PurePath(f.label).name.lower() for word in ("call", "count"))]
    paired = [f for f in files if f not in counts]
    for count in counts:
        own = count.matrix.column(target)
        of = next(
            (i for i, time in enumerate(paired) if time.calls is None and time.matrix.names == count.matrix.names
             and np.array_equal(time.matrix.column(target), own, equal_nan=True)), None
        )  # fmt: skip
        if of is None:
            return files
        paired[of] = msgspec.structs.replace(paired[of], calls=count.matrix)
    return paired


def _joined(files: list[File], target: str) -> Workload:
    """Join files of one server, one after another, into a workload."""
    targets = {target, DEFAULT_TARGET}
    names = {name: None for file in files for name in file.matrix.names if name not in targets}
    place = {name: j for j, name in enumerate(names)}
    matrices = [file.matrix for file in files]
    x = _classes(matrices, place)
    y = np.concatenate([matrix.column(target) for matrix in matrices])
    metrics = {"time_us": x}
    calls = [file.calls for file in files if file.calls is not None]
    if len(calls) == len(files):
        metrics["calls"] = _classes(calls, place)
    with np.errstate(invalid="ignore", over="ignore"):
        total = x.sum(axis=1)
        size = total if x.min(initial=0.0) >= 0 else np.abs(x).sum(axis=1)
        called = np.abs(metrics["calls"]).sum(axis=1) if "calls" in metrics else size
    odd = [~((size < HUGE) & (called < HUGE) & (np.abs(y) < HUGE)), np.abs(y) < TINY, np.abs(total) < TINY]
    words = ["a value is not finite, or too large for any time", f"{target} is 0", "no query time in this interval"]
    return Workload(
        units.named([file.label for file in files], 3),
        "wlr",
        tuple(ClassInfo(name) for name in names),
        metrics,
        y,
        np.full(len(y), -1, np.int64),
        np.full(len(y), -1, np.int64),
        tuple(np.select(odd, words, "").tolist()),
        y_name=target,
        y_source="the same table",
        is_table=True,
    )


def _classes(matrices: list[Matrix], place: dict[str, int]) -> np.ndarray:
    """Return the columns of all classes (rows of all files, classes), without copying if one file has them side by side."""
    first = matrices[0]
    own = [i for i, name in enumerate(first.names) if name in place]
    if len(matrices) == 1 and own and own[-1] - own[0] + 1 == len(own):
        return first.values[:, own[0] : own[-1] + 1]
    table = np.zeros((sum(len(matrix.values) for matrix in matrices), len(place)))
    start = 0
    for matrix in matrices:
        end = start + len(matrix.values)
        own = [i for i, name in enumerate(matrix.names) if name in place]
        table[start:end, [place[matrix.names[i]] for i in own]] = matrix.values[:, own]
        start = end
    return table


TITLES = {"postgresql": "pg_stat_statements", "mysql": "statement digests", POSTGRES: POSTGRES, MYSQL: MYSQL}
"""Names of the sources of snapshots on screen, by system."""

SNAPSHOT_KINDS = frozenset(kind.id for kind in KINDS if SNAPSHOTS in kind.tables)

SAME_MOMENT_MS = 2000  # distance within which a row of pg_stat_statements_info belongs to a snapshot


class Sources(msgspec.Struct, frozen=True):
    """All workloads found, best first, and problems of the input as a whole."""

    workloads: tuple[Workload, ...]
    problems: tuple[Problem, ...]

    def choose(self, text: str) -> tuple[Workload, list[str]]:
        """Return the best workload whose label contains ``text``, and notes on it and on the others. Raises UnknownName."""
        wanted = text.lower()
        matching = [w for w in self.workloads if wanted in w.label.lower()]
        matching.sort(key=lambda w: w.label.lower() != wanted)  # the name itself before longer ones
        if not matching:
            raise UnknownName(f"no source called {text!r}; there are: {'; '.join(w.label for w in self.workloads[:6])}")
        work = matching[0]
        others = [w.label for w in self.workloads if w is not work]
        if not others:
            return work, [*work.notes]
        told = (
            f"{work.label} is shown; {units.plural(len(others), 'other source')} "
            f"({', '.join(others[:3])}{', …' if len(others) > 3 else ''}) {'are' if len(others) > 1 else 'is'} not mixed in: "
            "one server at a time (choose with source=)"
        )
        return work, [*work.notes, told]


def find_sources(
    inputs: Inputs, target: str, context: Context, without: tuple[str, int] = ("", 0), most: int = 20_000
) -> Sources:
    """Find every workload in ``inputs``. ``target``: the column or series that is y (empty: the usual one); ``without``:
    base name and size of a WLR CSV that is to be predicted and so is not trained on; ``most``: newest intervals of each that
    are looked at."""
    problems: list[Problem] = []
    workloads = matrix_workloads(inputs, target, context, problems, without)
    host = inputs.table("host")
    series = resources.collect_series(host.with_columns(of_files(host, inputs.files, folder).rename("folder")))
    series = resources.of_single_hosts(series, problems)
    snapshots, logs = _snapshot_workloads(inputs, context, most), _logs(inputs)
    origins = [*(origin for _, origin in snapshots), *(log.origin for log in logs)]
    memory = context.memory // MEMORY_SHARE
    cut = [(log.workload(resources.belonging(series, log.origin, origins), target, memory), log.origin) for log in logs]
    workloads += [
        resources.with_resource(work, origin, origins, series, target, problems)
        for work, origin in _distinguished([*snapshots, *cut])
    ]
    workloads = [_newest(work, most) for work in workloads]
    workloads.sort(key=lambda w: (-int(np.isfinite(w.y).any()), -int(w.used.sum()), -w.x.size, w.label))
    return Sources(tuple(workloads), tuple(problems))


def _newest(work: Workload, most: int) -> Workload:
    """Return the newest ``most`` intervals of ``work``, with a note if there are others."""
    count = len(work.y)
    note = deltas.left_out(count - most, count, "max-intervals")
    return (
        work
        if count <= most
        else msgspec.structs.replace(work.rows(np.arange(count - most, count)), notes=(*work.notes, note))
    )


def _distinguished(workloads: list[tuple[Workload, Origin]]) -> list[tuple[Workload, Origin]]:
    """Extend equal labels by the last folders of their origin until they differ."""
    out = []
    for i, (work, origin) in enumerate(workloads):
        same = [k for k, (other, _) in enumerate(workloads) if other.label == work.label]
        if len(same) > 1:
            parts = PurePath(origin.folder).parts
            others = [PurePath(workloads[k][1].folder).parts for k in same if k != i]
            length = 1
            while length < len(parts) and any(other[-length:] == parts[-length:] for other in others):
                length += 1
            twins = [k for k in same if workloads[k][1].folder == origin.folder]
            number = f" ({twins.index(i) + 1})" if len(twins) > 1 else ""
            work = msgspec.structs.replace(work, label=f"{work.label} in {'/'.join(parts[-length:])}{number}")
        out.append((work, origin))
    return out


# --- snapshots -------------------------------------------------------------------------------------------------------

Server = tuple[str, str, str]  # system, folder and series of the snapshots of one server


MEMORY_SHARE = 4  # intervals of one server may take this fraction of the memory (1/4)


def _snapshot_workloads(inputs: Inputs, context: Context, most: int) -> list[tuple[Workload, Origin]]:
    """Build the workload of each server whose counters were taken as snapshots, of its newest ``most`` intervals.

    Only new files and new pairs of neighbouring snapshots are computed; only the times of older files are kept.
    """
    by_file: Partials[int, list[Snapshot]] = context.memo.state("snapshots", Partials)
    by_file.update(
        {number: inputs.stamp([number]) for number, info in inputs.files.items() if info.kind in SNAPSHOT_KINDS},
        lambda files: {
            file: made
            for batch in inputs.batches(files)
            for file, made in taken(inputs.of("snapshots", batch), batch).items()
        },
        key=most,
    )
    runs = {
        server: in_time(run) if server[0] in (POSTGRES, MYSQL) else _in_order(run)
        for server, run in _servers(by_file, inputs.files).items()
    }
    lengths = {server: len(run) - 1 for server, run in runs.items()}
    runs = {
        server: deltas.newest(run, most, context.memory // MEMORY_SHARE) if run else run for server, run in runs.items()
    }
    _drop_old(by_file, runs)
    statistics = _statistics(inputs)
    counted = {server: run for server, run in runs.items() if server[0] == KCACHE}
    runs = {
        server: with_cpu(run, _nearest_counted(counted, server)) if server[0] in _POSTGRES else run
        for server, run in runs.items()
        if run and server[0] != KCACHE
    }
    pairs: dict[tuple[int, int, str], tuple[Snapshot, Snapshot, Statistics, Statistics]] = {}
    stamps: dict[tuple[int, int, str], tuple[object, ...]] = {}
    for (_, place, _), run in runs.items():
        ask = _nearest(statistics, place)
        # Classes carried along in a cut list may come from any earlier file.
        carried = tuple(sorted({(one.file, by_file.revisions[one.file]) for one in run if run[0].listed}))
        for before, after in pairwise(run):
            pairs[after.key] = (before, after, ask(before.at_ms), ask(after.at_ms))
            stamps[after.key] = (before.key, by_file.revisions[before.file], by_file.revisions[after.file],
                                 ask(before.at_ms), ask(after.at_ms), carried,
                                 *(fingerprint(one) for one in (before, after) if counted))  # fmt: skip
    intervals: Partials[tuple[int, int, str], Interval] = context.memo.state("intervals", Partials)
    intervals.update(stamps, lambda keys: {key: deltas.difference(*pairs[key]) for key in keys})
    workloads = []
    for server, run in runs.items():
        context.check()
        system, place, series = server
        files = sorted({label(inputs.files[snapshot.file]) for snapshot in run})
        name = series.removeprefix(STEM) or (files[0] if len(files) == 1 else PurePath(place).name)
        between = [intervals[snapshot.key] for snapshot in run[1:]]
        work = deltas.workload(f"{TITLES.get(system, system)}: {name}", run, between)
        notes = [*work.notes, *[NOTE] * run[0].listed]
        if gone := lengths[server] - len(between):
            notes.append(
                deltas.left_out(gone, lengths[server], "max-intervals" if len(between) == most else "memory-mb")
            )
        workloads.append(
            (msgspec.structs.replace(work, notes=(*notes,)), Origin(place, series.removeprefix(STEM), system))
        )
    return workloads


def _drop_old(by_file: Partials[int, list[Snapshot]], runs: Mapping[Server, Sequence[Snapshot]]) -> None:
    """Reduce the snapshots of files that no run uses. Cut lists still need their earlier files."""
    needed = {one.file for run in runs.values() for one in run}
    listed = {run[0].system for run in runs.values() if run and run[0].listed}
    for file, found in by_file.items():
        if file not in needed and not any(one.system in listed or one.is_reduced for one in found):
            by_file.reduce(file, [one.reduced() for one in found])


def _servers(by_file: Mapping[int, list[Snapshot]], files: Mapping[int, FileInfo]) -> dict[Server, list[Snapshot]]:
    """Group snapshots by server. Different file names mean different servers, unless each file holds one snapshot: then the
    name stands for its time."""
    groups: dict[Server, list[Snapshot]] = {}
    for number, snapshot in ((number, one) for number, snapshots in by_file.items() for one in snapshots):
        groups.setdefault((snapshot.system, folder(files[number]), snapshot.series), []).append(snapshot)
    servers: dict[Server, list[Snapshot]] = {}
    loose: dict[tuple[str, str], dict[tuple[bool, ...], list[str]]] = {}
    for (system, place, series), run in groups.items():
        timed = name_instant_ms(PurePath(files[run[0].file].path).name) is not None
        if series.startswith(STEM) and len(run) == 1 and not timed:
            columns = tuple(np.isfinite(run[0].counters[0]).tolist())
            loose.setdefault((system, place), {}).setdefault(columns, []).append(series)
        else:
            servers[system, place, series] = run
    for (system, place), alike in loose.items():
        for names in alike.values():  # different columns mean another version, so another server
            name = "" if len(alike) == 1 else names[0]
            servers[system, place, name] = [one for series in names for one in groups[system, place, series]]
    for (system, place, series), run in list(servers.items()):
        others = [key for key in servers if key[:2] == (system, place) and key[2].startswith(STEM)]
        if series == "" and len(run) == 1 and len(others) == 1:
            servers[others[0]] += servers.pop((system, place, series))
    return servers


_POSTGRES = ("postgresql", POSTGRES)


def _nearest_counted(counted: Mapping[Server, list[Snapshot]], server: Server) -> list[Snapshot]:
    """Return the snapshots of pg_stat_kcache of the same host if they name it, else those of the nearest folder; empty if
    several are equally near."""
    _, place, host = server
    same = [one for (_, _, other), run in counted.items() if other == host for one in run]
    deepest = max((depth(folder, place) for _, folder, _ in counted), default=0)
    nearest = [run for (_, folder, _), run in counted.items() if depth(folder, place) == deepest]
    return same if same and not host.startswith(STEM) else nearest[0] if len(nearest) == 1 else []


def _in_order(run: list[Snapshot]) -> list[Snapshot]:
    """Sort snapshots by time if all have one, else keep file order."""
    if all(snapshot.at_ms is not None and snapshot.part == 0 for snapshot in run):
        return sorted(run, key=lambda snapshot: snapshot.at_ms or 0)
    return run


def _statistics(inputs: Inputs) -> dict[str, list[tuple[int, Statistics]]]:
    """Return the rows of ``snapshot_info`` (moment, statistics) by folder, in order of time."""
    frame = inputs.table("snapshot_info")
    rows = frame.select(of_files(frame, inputs.files, folder), "at_ms", "dealloc", "reset_ms").sort(
        "at_ms", maintain_order=True
    )
    by_folder: dict[str, list[tuple[int, Statistics]]] = {}
    for place, at_ms, *told in rows.rows():
        by_folder.setdefault(place, []).append((at_ms, Statistics(*told)))
    return by_folder


def _nearest(by_folder: dict[str, list[tuple[int, Statistics]]], place: str) -> Callable[[int | None], Statistics]:
    """Return a lookup of a moment in the info file nearest to ``place``, above or below it."""
    near = [p for p in by_folder if PurePath(place).is_relative_to(p) or PurePath(p).is_relative_to(place)]
    rows = by_folder[max(near, key=lambda p: (p == place, len(p)))] if near else []
    times = np.array([at_ms for at_ms, _ in rows], np.int64)

    def ask(at_ms: int | None) -> Statistics:
        if at_ms is None or not len(times):
            return Statistics()
        i = int(np.argmin(np.abs(times - at_ms)))
        return rows[i][1] if abs(int(times[i]) - at_ms) <= SAME_MOMENT_MS else Statistics()

    return ask


# --- logs ------------------------------------------------------------------------------------------------------------


class _Log(msgspec.Struct, frozen=True):
    """Entries of one kind of log in one folder."""

    rows: pl.DataFrame
    title: str
    system: str
    origin: Origin

    def workload(self, series: Sequence[resources.Series], target: str, memory: int) -> Workload:
        """Cut the log into intervals at the samples of one of ``series`` (or at round times), using at most ``memory`` bytes."""
        rows, ends = self.rows, None
        if self.system == PgStatMonitor.id:  # exports repeat buckets: the last state, with most calls, counts
            rows = rows.sort("calls", maintain_order=True).unique(["key", "start_ms"], keep="last", maintain_order=True)
            ends = np.unique(np.r_[rows["start_ms"].to_numpy(), rows["end_ms"].to_numpy()])
        elif self.system != PtQueryDigest.id:
            ends = deltas.edges(rows, series, target)
        return deltas.log_workload(rows, f"{self.system}: {self.title}", self.system, ends, memory)


def _logs(inputs: Inputs) -> list[_Log]:
    frame = inputs.table("interval_classes")
    if not frame.height:
        return []
    keyed = frame.with_columns(of_files(frame, inputs.files, folder).rename("folder"))
    logs = []
    for (system, place), part in keyed.group_by("system", "folder", maintain_order=True):
        names = sorted({label(inputs.files[i]) for i in part[FILE].unique().to_list() if i in inputs.files})
        title = names[0] if len(names) == 1 else f"{PurePath(str(place)).name} ({len(names)} files)"
        logs.append(_Log(part, title, str(system), Origin(str(place), str(part["series"][0]).removeprefix(STEM))))
    return logs
