"""From inputs to workloads: which files belong to one server, what each class did, and what the host used meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from engine.formats.timestamps import name_instant_ms
from engine.inputs import FILE, FileInfo, Inputs
from engine.problems import Problem
from engine.query_profile.reading.server_names import Home, folder, label, of_files
from engine.query_profile.reading.snapshots import STEM
from engine.query_profile.workloads import alignment, deltas, log_workloads, matrices, resources
from engine.query_profile.workloads.workload import Workload
from engine.view import Context

TITLES = {"wlr": "WLR CSV", "postgresql": "pg_stat_statements", "mysql": "statement digests"}


@dataclass(frozen=True)
class Gathered:
    """All workloads found, best first, and what is wrong with the input as a whole."""

    workloads: tuple[Workload, ...]
    problems: tuple[Problem, ...]


def gather(inputs: Inputs, target: str, context: Context, without: tuple[str, int] = ("", 0)) -> Gathered:
    """Everything that ``inputs`` holds. ``target``: the column or series that is y (empty: the usual one);
    ``without``: base name and size of an upstream-style file that is to be predicted and so is not trained on."""
    problems: list[Problem] = []
    found = matrices.workloads(inputs, target, context, problems, without)
    host = inputs.table("host")
    series = alignment.collect(host.with_columns(of_files(host, inputs.files, folder).rename("folder")))
    series = resources.unmixed(series, problems)
    snapshots, groups = _snapshots(inputs, context), _logs(inputs)
    homes = [*(home for _, home in snapshots), *(group.home for group in groups)]
    made = [(group.workload(resources.belonging(series, group.home, homes), target), group.home) for group in groups]
    for work, home in _told_apart([*snapshots, *made]):
        found.append(resources.lay(work, home, homes, series, target, problems))
    found.sort(key=lambda w: (-int(np.isfinite(w.y).any()), -int(w.used.sum()), -w.x.size, w.label))
    return Gathered(tuple(found), tuple(problems))


def _told_apart(found: list[tuple[Workload, Home]]) -> list[tuple[Workload, Home]]:
    """Workloads and where they live; where names are the same, as much of the folders' as tells them apart."""
    labels = [work.label for work, _ in found]
    out = []
    for i, (work, home) in enumerate(found):
        same = [k for k, name in enumerate(labels) if name == work.label]
        if len(same) > 1:
            parts = PurePath(home.folder).parts
            length = 1
            while length < len(parts) and any(
                PurePath(found[k][1].folder).parts[-length:] == parts[-length:] for k in same if k != i
            ):
                length += 1
            twins = [k for k in same if found[k][1].folder == home.folder]
            number = f" ({twins.index(i) + 1})" if len(twins) > 1 else ""
            work = replace(work, label=f"{work.label} in {'/'.join(parts[-length:])}{number}")
        out.append((work, home))
    return out


# --- snapshots -------------------------------------------------------------------------------------------------------


def _snapshots(inputs: Inputs, context: Context) -> list[tuple[Workload, Home]]:
    frame = inputs.table("snapshots")
    if not frame.height:
        return []
    keyed = frame.with_columns(of_files(frame, inputs.files, folder).rename("folder"))
    by = ("system", "folder", "series")
    first = keyed.row(0, named=True)
    if all((keyed[name] == first[name]).all() for name in by):  # as usual: nothing needs to be copied
        groups = {(str(first[by[0]]), str(first[by[1]]), str(first[by[2]])): keyed}
    else:
        groups = {(str(s), str(f), str(n)): part for (s, f, n), part in keyed.group_by(by, maintain_order=True)}
    # File names that differ are other servers, unless each holds one snapshot only: then the name stands for its moment.
    merged: dict[tuple[str, str, str], list[pl.DataFrame]] = {}
    loose: dict[tuple[str, str], dict[tuple[bool, ...], list[str]]] = {}
    for (system, place, series), part in groups.items():
        alone = series.startswith(STEM) and part.select(FILE, "part").n_unique() == 1
        if alone and not _says_when(inputs.files.get(int(part[FILE][0]))):
            columns = tuple(part["counters"][0].is_finite().to_list())
            loose.setdefault((system, place), {}).setdefault(columns, []).append(series)
        else:
            merged[system, place, series] = [part]
    for (system, place), alike in loose.items():
        for names in alike.values():  # of one version: another has other columns, and so is another server
            name = "" if len(alike) == 1 else names[0]
            merged[system, place, name] = [groups[system, place, series] for series in names]
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
        work = deltas.workload(f"{TITLES.get(system, system)}: {name}", system, run)
        found.append((work, Home(place, series.removeprefix(STEM), system)))
    return found


def _says_when(info: FileInfo | None) -> bool:
    return info is not None and name_instant_ms(PurePath(info.path).name) is not None


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
        of_files(frame, inputs.files, folder),
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


@dataclass(frozen=True)
class _Log:
    """Entries of one kind of log in one folder."""

    rows: pl.DataFrame
    title: str
    system: str
    home: Home

    def workload(self, series: Sequence[alignment.Series], target: str) -> Workload:
        """Its intervals, cut at the samples of one of ``series`` where they go with it."""
        ends = log_workloads.edges(self.rows, series, target) if self.system == "slow-log" else None
        return log_workloads.workload(self.rows, f"{self.system}: {self.title}", self.system, ends)


def _logs(inputs: Inputs) -> list[_Log]:
    frame = inputs.table("interval_classes")
    if not frame.height:
        return []
    keyed = frame.with_columns(of_files(frame, inputs.files, folder).rename("folder"))
    found = []
    for (system, place), part in keyed.group_by("system", "folder", maintain_order=True):
        names = sorted({label(inputs.files[i]) for i in part[FILE].unique().to_list() if i in inputs.files})
        title = names[0] if len(names) == 1 else f"{PurePath(str(place)).name} ({len(names)} files)"
        found.append(_Log(part, title, str(system), Home(str(place), str(part["series"][0]).removeprefix(STEM))))
    return found
