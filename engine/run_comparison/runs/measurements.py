"""Encode the measured values of each file as arrays, convert their units, number their metrics, and tell which way is better."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.incremental import Memo, Partials
from engine.core.view import FILE, Inputs
from engine.run_comparison.parameters import DirectionRule, parse_direction_rules
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Direction, Series
from engine.run_comparison.words import VERB_IS_QUANTITY


class Unit(NamedTuple):
    """A canonical unit and the factor that converts a written value to it."""

    name: str
    factor: float


_MS_PER_UNIT = {
    "ns": 1e-6, "nanoseconds": 1e-6, "nanosecond": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "microseconds": 1e-3,
    "ms": 1.0, "msec": 1.0, "milliseconds": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "second": 1e3, "seconds": 1e3,
    "min": 6e4, "minutes": 6e4, "m": 6e4, "h": 3.6e6, "hours": 3.6e6,
}  # fmt: skip
_BYTES_PER_UNIT = {
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "kbytes": 1e3, "kib": 1024.0, "mb": 1e6, "mbytes": 1e6,
    "mib": 1048576.0, "gb": 1e9, "gbytes": 1e9, "gib": 1073741824.0,
}  # fmt: skip
_PERCENT = frozenset({"%", "percent", "percentage", "pct"})
_COUNTS = {"": "", "count": "count", "counts": "count", "#": "count"}


def canonical_unit(written: str) -> Unit:
    """Return the canonical unit of a written one: ms for durations, bytes for sizes, s for times per operation.

    Times per operation follow benchstat. An unknown unit is returned unchanged with factor 1.
    """
    text = written.strip()
    lower = text.lower()
    if lower in _MS_PER_UNIT and text != "M":
        return Unit("ms", _MS_PER_UNIT[lower])
    if lower in _BYTES_PER_UNIT:
        return Unit("bytes", _BYTES_PER_UNIT[lower])
    if lower in _PERCENT:
        return Unit("%", 1.0)
    if lower in _COUNTS:
        return Unit(_COUNTS[lower], 1.0)
    head, slash, rest = text.partition("/")
    if slash:
        if rest in ("s", "sec", "second") and head.lower() in _BYTES_PER_UNIT:
            return Unit("B/s", _BYTES_PER_UNIT[head.lower()])
        if head in ("ns", "us", "µs", "μs", "ms", "s", "sec"):
            return Unit("sec/" + rest, _MS_PER_UNIT[head] * 1e-3)
        if head.endswith("-ns"):
            return Unit(head[:-2] + "sec/" + rest, 1e-9)
        if rest in ("s", "sec", "second"):
            return Unit(head + "/s", 1.0)
        if head in ("ops", "op") and rest in _MS_PER_UNIT:
            return Unit("ops/s", 1e3 / _MS_PER_UNIT[rest])
    return Unit(text[:-3] + "-sec", 1e-9) if text.endswith("-ns") else Unit(text, 1.0)


def is_time(unit: str) -> bool:
    """Whether a canonical unit is one of durations, or of times per operation."""
    return unit == "ms" or unit.startswith("sec/") or unit.endswith("-sec")


Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
NO_COUNT = np.iinfo(np.int64).max  # request count of values without one: passes every minimum


class MetricKey(Series):
    """Identity of a metric outside upstream mode: a series with its unit converted."""

    __slots__ = ()


def own_name(key: MetricKey) -> tuple[str, str, str, str, str, str]:
    """Return the name of a metric as its report has it: test, verb, resource, subresource, scope, bucket."""
    verb, resource = key.verb, key.resource
    if key.metric and not resource:
        resource = key.metric
    elif key.metric and not verb:
        verb = key.metric
    return key.report or key.kind, verb, resource, key.subresource, key.scope, key.bucket


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """Values of one run in one file, in file order: series codes, values (NaN: null), and request counts.

    ``run`` names the run where the file holds several, else None. ``refused``: Go's decoder refuses the file.
    """

    file: int
    run: str | None
    time_ms: int | None
    codes: Codes
    values: Floats
    counts: Ints
    refused: bool

    @property
    def nbytes(self) -> int:
        """Bytes of memory that its values take."""
        return self.codes.nbytes + self.values.nbytes + self.counts.nbytes

    def reduced(self) -> Chunk:
        """Return the chunk with its run and time, but without values."""
        return msgspec.structs.replace(
            self, codes=self.codes[:0].copy(), values=self.values[:0].copy(), counts=self.counts[:0].copy()
        )


class SeriesTable:
    """Codes of all series, and their metrics. Codes and metric numbers never change.

    ``series[code]``: the series; ``keys[number]``: the metric; ``key_of[code]``: number of the metric of a series;
    ``factors[code]``: converts a written value into the metric's unit.
    """

    def __init__(self) -> None:
        self.series: list[Series] = []
        self.keys: list[MetricKey] = []
        self.key_of: Codes = np.zeros(0, dtype=np.int32)
        self.factors: Floats = np.zeros(0)
        self._codes: dict[str, int] = {}
        self._numbers: dict[MetricKey, int] = {}

    def codes(self, texts: list[str]) -> Codes:
        """Return the code of each packed series in ``texts``; a new series gets the next code."""
        new = [text for text in texts if text not in self._codes]
        if new:
            units = []
            numbers = []
            for text in new:
                series = Series.unpack(text)
                unit = canonical_unit(series.unit)
                key = MetricKey(*series[:7], unit.name if series.bucket == series.unit else series.bucket, unit.name)
                self._codes[text] = len(self.series)
                self.series.append(series)
                if key not in self._numbers:
                    self._numbers[key] = len(self.keys)
                    self.keys.append(key)
                numbers.append(self._numbers[key])
                units.append(unit.factor)
            self.key_of = np.concatenate([self.key_of, np.array(numbers, dtype=np.int32)])
            self.factors = np.concatenate([self.factors, np.array(units)])
        return np.array([self._codes[text] for text in texts], dtype=np.int32)


class Measurements:
    """Chunks of each file by its id (``of_file``), and the ``table`` that their series codes refer to."""

    def __init__(self) -> None:
        self.table = SeriesTable()
        self.of_file: Partials[int, tuple[Chunk, ...]] = Partials()

    def _encode(self, inputs: Inputs, files: Collection[int]) -> dict[int, tuple[Chunk, ...]]:
        """Encode the rows of ``files``; a file without rows has no chunks."""
        chunks: dict[int, list[Chunk]] = {file: [] for file in files}
        for batch in inputs.batches(files):
            frame = inputs.of("measurements", batch)
            for chunk in self._chunks(frame) if frame.height else ():
                chunks[chunk.file].append(chunk)
        return {file: tuple(each) for file, each in chunks.items()}

    def _chunks(self, frame: pl.DataFrame) -> list[Chunk]:
        packed = frame.get_column("series").cast(pl.Categorical)
        physical = packed.to_physical().to_numpy()
        unique = packed.unique()
        code_of = np.zeros(int(physical.max()) + 1, dtype=np.int32)
        code_of[unique.to_physical().to_numpy()] = self.table.codes(unique.cast(pl.String).to_list())
        codes = code_of[physical]
        values = frame.get_column("value").fill_null(float("nan")).to_numpy()
        counts = frame.get_column("count").fill_null(NO_COUNT).to_numpy()
        refused = frame.get_column("refused").fill_null(False).to_numpy()
        files = frame.get_column(FILE).to_numpy()
        runs = frame.get_column("run")
        starts = np.flatnonzero(np.concatenate([[True], files[1:] != files[:-1]]))
        several = runs.null_count() < runs.len()
        chunks = []
        for start, end in zip(starts.tolist(), np.concatenate([starts[1:], [files.size]]).tolist(), strict=True):
            pieces: list[tuple[str | None, int | None, slice | Ints]] = [(None, None, slice(start, end))]
            if several and runs[start] is not None:
                groups = frame.slice(start, end - start).select("run", "time_ms").with_row_index("at")
                by_run = groups.group_by("run", maintain_order=True).agg(pl.col("time_ms").min(), pl.col("at"))
                pieces = [(run, time_ms, np.array(at, np.int64) + start) for run, time_ms, at in by_run.iter_rows()]
            chunks += [
                Chunk(int(files[start]), run, time_ms, codes[at], values[at], counts[at], bool(refused[at][0]))
                for run, time_ms, at in pieces
            ]
        return chunks


def read_measurements(inputs: Inputs, memo: Memo, most: int) -> Measurements:
    """Return the measurements of all files; only changed files are encoded. ``most``: runs of each job whose values ``find_runs``
    keeps."""
    measurements = memo.state("measurements", Measurements)
    versions = {file: info.version for file, info in inputs.files.items()}
    measurements.of_file.update(versions, lambda files: measurements._encode(inputs, files), key=most)
    return measurements


_RATE_UNIT = re.compile(r"(/s|/sec|pps|iops|ops)$", re.IGNORECASE)
_TROUBLE = re.compile(
    r"lost|loss|error|fail|restart|blocked|unavailab|drop|reject|timeout|retr(y|ies|ans)|gc\.alloc", re.IGNORECASE
)
"""Quantities that are better when lower, even per second."""
_HIGHER_NAME = re.compile(
    r"(?:through|good)put|availab|per.second|events.per|bandwidth|iops|\bbw\b|ops\b|(?<![a-z])[qrt]ps(?![a-z])|success|checks"
    r"|hit.?rat(?:e|io)|cache.?hits?(?![a-z])|transactions|processed|completed",
    re.IGNORECASE,
)
_LOWER_NAME = re.compile(
    r"latency|duration|lost|loss|error|fail|restart|wait|blocked|unavailab|jitter|time\b|gc\.alloc", re.IGNORECASE
)


def better_direction(name: str, unit: str, quantity: str = "") -> str:
    """Return ``lower`` or ``higher``: the better direction of a metric by its unit and name.

    A rate is better when higher, unless its ``quantity`` is failures; names of benchmarks, requests and files do not matter.
    Times and what an operation takes are better when lower, whatever the benchmark's name. Without such a unit, words in
    the whole ``name`` decide. Latencies and everything unknown are better when lower.
    """
    if is_time(unit) or unit.endswith("/op"):
        return "lower"
    if _RATE_UNIT.search(unit):
        return "lower" if _TROUBLE.search(f"{quantity} {unit}") else "higher"
    return "higher" if _HIGHER_NAME.search(name) and not _LOWER_NAME.search(name) else "lower"


def _by_rule(name: str, rules: Sequence[DirectionRule]) -> str:
    """Return the direction of the first matching rule of the operator, empty without a match."""
    lowered = name.lower()
    fitting = (
        rule.better for rule in rules if fnmatchcase(lowered, rule.pattern) or fnmatchcase(lowered, f"*{rule.pattern}*")
    )
    return next(fitting, "")


def _further_name(key: MetricKey) -> str:
    """Return ``metric`` if it is part of the name (``availability``), not labels (``path=/retries``)."""
    return "" if "=" in key.metric else key.metric


def _quantity(key: MetricKey) -> str:
    """Return the quantity that a metric counts, in its tool's words and without the names of benchmarks."""
    secondary = key.verb.partition(":")[2] if key.kind == "jmh" else ""  # of the benchmark before the colon
    verb = key.verb if key.kind in VERB_IS_QUANTITY else secondary
    return " ".join((verb, key.resource, _further_name(key), key.bucket))


def directions_of(keys: Sequence[MetricKey], stated: Iterable[Direction], rules: Sequence[str]) -> list[str]:
    """Return ``lower`` or ``higher`` for each metric: by the operator's ``rules``, else as its own tool ``stated`` in a
    file, else by its kind of report or its unit and name."""
    by_unit, by_verb = {}, {}
    for direction in stated:
        if direction.field == "unit":
            by_unit[direction.kind, canonical_unit(direction.name).name] = direction.better
        else:
            by_verb[direction.kind, direction.name] = direction.better
    parsed = parse_direction_rules(rules)
    directions = []
    for key in keys:
        kind = BY_NAME.get(key.kind)
        begin = (key.kind, key.report, key.verb, key.resource)
        directions.append(
            _by_rule(" ".join((*begin, key.metric, key.bucket)), parsed)
            or by_unit.get((key.kind, key.unit))
            or by_verb.get((key.kind, key.verb))
            or (kind.better if kind else "")
            or better_direction(" ".join((*begin, _further_name(key), key.bucket)), key.unit, _quantity(key))
        )
    return directions
