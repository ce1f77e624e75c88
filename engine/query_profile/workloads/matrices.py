"""Upstream-style tables to workloads: rows kept across appends, files of one folder joined, calls put beside times."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np
import polars as pl

from engine.inputs import FILE, Inputs
from engine.problems import Problem
from engine.query_profile.reading.server_names import folder, label
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET
from engine.query_profile.wlr.regression import HUGE
from engine.query_profile.workloads.workload import ClassInfo, Workload
from engine.view import Context

SAME_CLASSES = 0.25
"""Tables that have this share of their classes in common are of one server."""


class Growing:
    """Rows of one file, kept across appends: new chunks are copied behind the old ones, the rest is not touched."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.buffer = np.empty((0, len(names)))
        self.count = 0
        self.chunks = 0

    def take(self, chunks: pl.DataFrame) -> None:
        """Copy the chunks that are new."""
        for i in range(self.chunks, chunks.height):
            values = chunks["values"][i].to_numpy()
            rows = values.reshape(-1, len(self.names))
            end = self.count + len(rows)
            if not self.count:  # the first chunk stays where it is: most files are read once, whole
                self.buffer, self.count = rows, end
                continue
            if end > len(self.buffer) or not self.buffer.flags.writeable:
                size = max(end, len(self.buffer) * 2)
                buffer = np.empty((size, len(self.names)))
                buffer[: self.count] = self.buffer[: self.count]
                self.buffer = buffer
            self.buffer[self.count : end] = rows
            self.count = end
        self.chunks = chunks.height

    @property
    def values(self) -> np.ndarray:
        """All rows so far (rows, columns)."""
        return self.buffer[: self.count]


def workloads(
    inputs: Inputs, target: str, context: Context, problems: list[Problem], without: tuple[str, int] = ("", 0)
) -> list[Workload]:
    """Workloads of the upstream-style tables: files of one folder are parts of one, in order of their names, if their
    classes are mostly the same; a file of calls beside one of times (same header, same y) gives its call counts."""
    frame = inputs.table("matrix")
    if not frame.height:
        return []
    wanted = target or DEFAULT_TARGET
    parts: dict[str, list[tuple[str, int, Growing]]] = {}
    cache: dict[int, Growing] = context.memo.setdefault("matrix", {})
    files = frame[FILE].unique(maintain_order=True).to_list()
    for file in files:
        # of one file, as usual, nothing is copied
        chunks = frame if len(files) == 1 else frame.filter(pl.col(FILE) == file)
        info = inputs.files.get(file)
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
        for alike in _alike(files, {wanted, DEFAULT_TARGET}):
            times, calls = _pair(alike, wanted)
            found.append(_matrix(times, calls, wanted))
    return found


def _alike(files: list[tuple[str, int, Growing]], targets: set[str]) -> list[list[tuple[str, int, Growing]]]:
    """Files whose columns (but ``targets``) are mostly the same: tables of other classes come from another server."""
    groups: list[tuple[set[str], list[tuple[str, int, Growing]]]] = []
    for file in files:
        names = set(file[2].names) - targets
        for known, group in groups:
            if len(names & known) >= SAME_CLASSES * min(len(names), len(known)):
                known |= names
                group.append(file)
                break
        else:
            groups.append((names, [file]))
    return [group for _, group in groups]


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
        x = _columns(rows.values, place)
        y = rows.values[:, rows.names.index(target)]
        counted = _columns(calls[files[0][1]].values, place) if calls else None
    else:
        total = sum(rows.count for _, _, rows in files)
        x, y = np.zeros((total, len(names))), np.zeros(total)
        counted = np.zeros((total, len(names))) if len(calls) == len(files) else None
        start = 0
        for _, identity, rows in files:
            end = start + rows.count
            here = [i for i, name in enumerate(rows.names) if name not in skip]
            there = [names[rows.names[i]] for i in here]
            x[start:end, there] = rows.values[:, here]
            y[start:end] = rows.values[:, rows.names.index(target)]
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
    )


def _columns(values: np.ndarray, place: list[int]) -> np.ndarray:
    """The columns ``place`` of ``values``; without copying where they are one stretch."""
    if place and place[-1] - place[0] + 1 == len(place):
        return values[:, place[0] : place[-1] + 1]
    return np.ascontiguousarray(values[:, place])
