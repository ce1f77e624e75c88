"""Turn WLR CSVs into workloads: join the files of one folder, pair calls with times."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import polars as pl

from engine.core.incremental import Partials
from engine.core.reading import Problem
from engine.core.view import FILE, Context, Inputs
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET, WlrCsv
from engine.query_profile.wlr.regression import HUGE, TINY
from engine.query_profile.workloads.workload import ClassInfo, Workload, folder, label

SAME_CLASSES = 0.25
"""Share of common classes from which on two files belong to one server."""


@dataclass(frozen=True)
class Matrix:
    """One file: ``values`` (rows, columns) of the columns ``names``."""

    names: list[str]
    values: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """Return the column (rows,) called ``name``. Raises ValueError."""
        return self.values[:, self.names.index(name)]


@dataclass(frozen=True)
class File:
    """A matrix, the label of its file, and the matching counts of calls (from another file), if any."""

    label: str
    matrix: Matrix
    calls: Matrix | None = None


def workloads(
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
        for group_names, group in groups:
            if len(names & group_names) >= SAME_CLASSES * min(len(names), len(group_names)):
                group_names |= names
                group.append(file)
                break
        else:
            groups.append((names, [file]))
    return [group for _, group in groups]


def _with_calls(files: list[File], target: str) -> list[File]:
    """Pair files of times with their files of calls; pair none if a file of calls has no partner."""
    counts = [f for f in files if any(word in PurePath(f.label).name.lower() for word in ("call", "count"))]
    paired = [f for f in files if f not in counts]
    for count in counts:
        of = next((i for i, time in enumerate(paired) if time.calls is None and _same_y(time, count, target)), None)
        if of is None:
            return files
        paired[of] = File(paired[of].label, paired[of].matrix, count.matrix)
    return paired


def _same_y(one: File, other: File, target: str) -> bool:
    """Tell whether two files have the same header and the same y."""
    return (
        one.matrix.names == other.matrix.names
        and len(one.matrix.values) == len(other.matrix.values)
        and np.array_equal(one.matrix.column(target), other.matrix.column(target), equal_nan=True)
    )


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
    sound = (size < HUGE) & (called < HUGE) & (np.abs(y) < HUGE)
    reasons = np.full(len(y), "", dtype=object)
    reasons[np.abs(total) < TINY] = "no query time in this interval"
    reasons[np.abs(y) < TINY] = f"{target} is 0"
    reasons[~sound] = "a value is not finite, or too large for any time"
    return Workload(
        ", ".join(file.label for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else ""),
        "wlr",
        tuple(ClassInfo(name) for name in names),
        metrics,
        y,
        np.full(len(y), -1, np.int64),
        np.full(len(y), -1, np.int64),
        tuple(reasons.tolist()),
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
