"""The measurements as arrays per file, kept between computations: one arriving run costs only its own rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.inputs import FILE, Inputs
from engine.run_comparison.reading.series import Series

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
NO_COUNT = np.iinfo(np.int64).max
"""Stands for a value without a request count, so that every minimum lets it pass."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The values of one run in one file, in file order: series codes, raw values (NaN: null), request counts."""

    file: int
    run: str | None
    time_ms: int | None
    codes: Codes
    values: Floats
    counts: Ints
    refused: bool


@dataclass
class Measurements:
    """All chunks, and the series that their codes mean. ``version`` is that of the inputs they were made from."""

    version: int = -1
    texts: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    code_of: dict[str, int] = field(default_factory=dict)
    by_file: dict[int, tuple[int, tuple[Chunk, ...]]] = field(default_factory=dict)
    keyed: Any = None
    """Table of ``samples.metric_keys``, which grows with the series."""


def measurements(inputs: Inputs, memo: dict[Any, Any]) -> Measurements:
    """The inputs' measurements; only files that changed since the last call are encoded again."""
    kept: Measurements = memo.setdefault("measurements", Measurements())
    if kept.version == inputs.version:
        return kept
    files = inputs.files
    touched = inputs.touched(kept.version, kept.by_file)
    for gone in touched - files.keys():
        kept.by_file.pop(gone, None)
    changed = [i for i in touched if i in files and kept.by_file.get(i, (-1, ()))[0] != files[i].version]
    frame = None
    if kept.version >= 0 and not any(kept.by_file.get(i, (0, ()))[1] for i in changed):
        frame = inputs.added("measurements", kept.version)  # the rows of new files, without a look at all others
    if frame is None:
        some = kept.by_file and len(changed) < len(files)
        frame = inputs.of("measurements", frozenset(changed)) if some else inputs.table("measurements")
    for file in changed:
        kept.by_file[file] = (inputs.files[file].version, ())
    if frame.height:
        _encode(kept, frame, inputs)
    kept.version = inputs.version
    return kept


def _encode(kept: Measurements, frame: pl.DataFrame, inputs: Inputs) -> None:
    packed = frame.get_column("series").cast(pl.Categorical)
    physical = packed.to_physical().to_numpy()
    unique = packed.unique()
    known = np.zeros(int(physical.max()) + 1, dtype=np.int32)
    for text, number in zip(unique.cast(pl.String).to_list(), unique.to_physical().to_list(), strict=True):
        code = kept.code_of.get(text)
        if code is None:
            code = kept.code_of[text] = len(kept.texts)
            kept.texts.append(text)
            kept.series.append(Series.unpack(text))
        known[number] = code
    codes = known[physical]
    values = frame.get_column("value").fill_null(float("nan")).to_numpy()
    counts = frame.get_column("count").fill_null(NO_COUNT).to_numpy()
    refused = frame.get_column("refused").fill_null(False).to_numpy()
    files = frame.get_column(FILE).to_numpy()
    runs = frame.get_column("run")
    starts = np.flatnonzero(np.concatenate([[True], files[1:] != files[:-1]]))
    ends = np.concatenate([starts[1:], [files.size]])
    inner = runs.null_count() < runs.len()
    found: dict[int, list[Chunk]] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        file = int(files[start])
        if file not in inputs.files:
            continue
        pieces: list[tuple[str | None, int | None, Any]] = [(None, None, slice(start, end))]
        if inner and runs[start] is not None:
            pieces = _by_run(frame.slice(start, end - start), start)
        for run, stamp, rows in pieces:
            found.setdefault(file, []).append(
                Chunk(file, run, stamp, codes[rows], values[rows], counts[rows], bool(refused[rows][0]))
            )
    for file, chunks in found.items():
        kept.by_file[file] = (inputs.files[file].version, tuple(chunks))


def _by_run(rows: pl.DataFrame, offset: int) -> list[tuple[str | None, int | None, Any]]:
    groups = (
        rows.select("run", "time_ms")
        .with_row_index("at")
        .group_by("run", maintain_order=True)
        .agg(pl.col("time_ms").min(), pl.col("at"))
    )
    return [(run, stamp, np.array(at, dtype=np.int64) + offset) for run, stamp, at in groups.iter_rows()]
