"""Plain CSV and Parquet: raw metrics, finished samples, broker observations, topology, broker lists.

The column names tell what a file is. ``a|b|c`` in a cell is a list of broker ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.reading.fields import LATEST_MS, MOST_REPLICAS, file_time, problems_at
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import BROKERS_IN, METRICS, OBSERVATIONS, SAMPLES_IN, TOPOLOGY
from engine.core.reading import Document, Log, Problem, Reading, Source, clean, decode, fold
from engine.core.tables import Parts, Table
from engine.formats import parquet

Read = Callable[[str], pl.Expr]  # reads a column of a file, called by its name


def _int(name: str, dtype: Any = pl.Int32) -> pl.Expr:
    return pl.col(name).cast(pl.String).str.strip_chars().cast(dtype, strict=False)


def _time(name: str) -> pl.Expr:
    return _int(name, pl.Int64)


def _float(name: str) -> pl.Expr:
    text = pl.col(name).cast(pl.String).str.strip_chars().str.replace(r"(?i)^([-+]?)infinity$", "${1}inf")
    return text.str.replace(r"^\+", "").cast(pl.Float64, strict=False)


def _percent(name: str) -> pl.Expr:
    return _float(name) * 100


def _text(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String).fill_null("")


def _named(name: str) -> pl.Expr:
    return pl.when(_text(name) != "").then(_text(name))


def _metric(name: str) -> pl.Expr:
    return _text(name).replace_strict(raw_metrics.ID, default=None, return_dtype=pl.UInt8)


def _alive(name: str) -> pl.Expr:
    words = dict.fromkeys(("true", "yes", "1", "alive", ""), True) | dict.fromkeys(("false", "no", "0", "dead"), False)
    return _text(name).str.strip_chars().str.to_lowercase().replace_strict(words, default=None, return_dtype=pl.Boolean)


def _leader(name: str) -> pl.Expr:
    return _text(name).str.strip_chars().replace("none", "-1").cast(pl.Int32, strict=False)


def _ids(name: str) -> pl.Expr:
    return (
        _text(name)
        .str.strip_chars("[] ")
        .str.replace_all(r"[;, ]+", "|")
        .str.split("|")
        .list.eval(pl.element().filter(pl.element() != "").cast(pl.Int32, strict=False))
    )


_ABSENT = {"counter": pl.lit(False), "alive": pl.lit(True), "offline": pl.lit([], pl.List(pl.Int32))}
"""Values of columns that a file does not have; others are null."""


class _Shape(msgspec.Struct, frozen=True):
    """One kind of table: the columns it ``needs``, whether it ``grows`` by appended rows, how each column is read and from which
    columns of the file (the first that is there; by default the one of the same name), and which rows are ``sane``."""

    table: Table
    needs: frozenset[str]
    grows: bool
    columns: dict[str, tuple[Read, *tuple[str, ...]]]
    sane: pl.Expr

    def make(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Turn the text columns of ``frame`` into declared rows plus a Boolean column ``_ok``; ``now``: the file's time."""
        absent = _ABSENT | ({"time_ms": pl.lit(now, pl.Int64)} if self.table is TOPOLOGY else {})
        made = []
        for name, dtype in self.table.schema.items():
            read, *names = self.columns.get(name, (_text, ""))
            there = [given for given in names or [name] if given in frame.columns]
            made.append((read(there[0]) if there else absent.get(name, pl.lit(None, dtype))).alias(name))
        return frame.select(made).with_columns(self.sane.fill_null(False).alias("_ok"))


def _all_known(*names: str) -> pl.Expr:
    return pl.all_horizontal(pl.col(*names).is_not_null())


_TIMELY = pl.col("time_ms").is_between(0, LATEST_MS)
_PLACED = (pl.col("topic") != "") & (pl.col("partition") >= 0)
_FINITE = pl.all_horizontal(pl.col("cpu", "bytes_in", "bytes_out", "follower_in").is_finite().fill_null(False))
_OF_TOPIC = pl.when(pl.col("metric").is_in(list(raw_metrics.TOPIC))).then(pl.col("topic").is_not_null())
_IN_SCOPE = _OF_TOPIC.when(pl.col("metric") == raw_metrics.SIZE).then(
    pl.col("topic").is_not_null() & (pl.col("partition") >= 0).fill_null(False)
)
_SANE_LISTS = (
    pl.all_horizontal(
        pl.col(name).list.eval(pl.element().is_null()).list.any().not_() for name in ("replicas", "isr", "offline")
    )
    & pl.col("replicas").list.len().is_between(1, MOST_REPLICAS)
    & (pl.col("replicas").list.n_unique() == pl.col("replicas").list.len())
    & (pl.col("isr").list.set_difference("replicas").list.len() == 0)
    & ((pl.col("leader") < 0) | pl.col("replicas").list.contains(pl.col("leader")))
)
_METRICS: dict[str, tuple[Read, *tuple[str, ...]]] = {
    "time_ms": (_time,), "metric": (_metric,), "broker": (_int,), "topic": (_named,), "partition": (_int,), "value": (_float,),
}  # fmt: skip
_SAMPLES: dict[str, tuple[Read, *tuple[str, ...]]] = {
    "topic": (_text,), "partition": (_int,), "leader": (_int, "leader", "leader_broker"),
    "time_ms": (_time, "time_ms", "sample_time_ms"), **dict.fromkeys(raw_metrics.SAMPLE, (_float,)),
}  # fmt: skip
_SHAPES = (
    _Shape(
        METRICS, frozenset({"time_ms", "metric", "broker", "topic", "partition", "value"}), True, _METRICS,
        _all_known("time_ms", "metric", "broker", "value") & _TIMELY & (pl.col("broker") >= 0) & _IN_SCOPE.otherwise(True),
    ),
    *(
        _Shape(
            SAMPLES_IN, frozenset({"topic", "partition", time, *raw_metrics.SAMPLE}), True, _SAMPLES,
            _all_known("partition", "time_ms", *raw_metrics.SAMPLE) & _TIMELY & _PLACED,
        )
        for time in ("time_ms", "sample_time_ms")
    ),
    _Shape(
        OBSERVATIONS, frozenset({"cpu", "leader_bytes_in_kb", "leader_bytes_out_kb", "follower_bytes_in_kb"}), True,
        {
            "time_ms": (_time,), "broker": (_int,), "cpu": (_float,), "bytes_in": (_float, "leader_bytes_in_kb"),
            "bytes_out": (_float, "leader_bytes_out_kb"), "follower_in": (_float, "follower_bytes_in_kb"),
        },
        (pl.col("time_ms").is_null() | _TIMELY) & _FINITE,
    ),
    _Shape(
        OBSERVATIONS,
        frozenset({
            "broker", "host", "version", "sample_time_ms", "cpu_usage", "leader_bytes_in", "leader_bytes_out",
            "replication_bytes_in_rate",
        }),
        True,
        {
            "time_ms": (_time, "time_ms", "sample_time_ms"), "broker": (_int,), "cpu": (_percent, "cpu_usage"),
            "bytes_in": (_float, "leader_bytes_in"), "bytes_out": (_float, "leader_bytes_out"),
            "follower_in": (_float, "replication_bytes_in_rate"),
        },
        _TIMELY & _FINITE,
    ),
    _Shape(
        TOPOLOGY, frozenset({"topic", "partition", "leader", "replicas"}), False,
        {
            "time_ms": (_time,), "topic": (_text,), "partition": (_int,), "leader": (_leader,), "replicas": (_ids,),
            "isr": (_ids, "isr", "replicas"), "offline": (_ids,), "elr": (_ids,), "min_isr": (_int,),
        },
        _PLACED & _TIMELY & _SANE_LISTS,
    ),
    _Shape(
        BROKERS_IN, frozenset({"broker", "host"}), False,
        {"broker": (_int,), "host": (_text,), "rack": (_text,), "alive": (_alive,)},
        pl.col("broker").is_between(0, 2**31 - 1) & pl.col("alive").is_not_null(),
    ),
)  # fmt: skip


def _shape(columns: list[str]) -> _Shape | None:
    names = set(columns)
    for shape in _SHAPES:
        if shape.needs <= names:
            # Wider tables with a host are something else (an answer, an export) unless they have rack or alive.
            plain = names <= {"broker", "host", "rack", "alive", "port"}
            typical = names & {"rack", "alive"} and not names & {"state", "cpu_pct", "cpu_usage"}
            if shape.table is BROKERS_IN and not (plain or typical):
                continue
            return shape
    return None


def _header(line: bytes) -> list[str]:
    return [part.strip().strip('"').lower() for part in decode(line).lstrip("\ufeff").strip().split(",")]


def _tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """Clean text columns, at a cost only for odd values."""
    for name, dtype in frame.schema.items():
        if dtype == pl.String:
            odd = frame[name].str.contains(r"[^ -~]") | (frame[name].str.len_chars() > 4096)
            if odd.fill_null(False).any():
                values = frame[name].filter(odd.fill_null(False)).unique().to_list()
                frame = frame.with_columns(pl.col(name).replace({value: clean(value) for value in values}))
    return frame


def _rows(source: Source, shape: _Shape, frame: pl.DataFrame, lines: pl.Series) -> tuple[pl.DataFrame, list[Problem]]:
    """Return rows of the table of ``shape``; unusable ones become a problem."""
    made = shape.make(frame, file_time(source))
    reason = f"rows that are not {shape.table.name}: a value is missing, of the wrong type or out of range"
    problems = problems_at(source, "bad-record", reason, lines.alias("line").to_frame().filter(~made["_ok"]))
    return _tidy(made.filter("_ok").drop("_ok")), problems


class CsvRows(Log):
    """CSV of raw metrics, samples, observations, topology or brokers."""

    id = "csv"
    title = "CSV: raw metrics, samples, broker observations, topology, broker list"
    tables: tuple[Table, ...] = (METRICS, SAMPLES_IN, OBSERVATIONS, TOPOLOGY, BROKERS_IN)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by the column names in the first line."""
        first = head.split(b"\n", 1)[0]
        return b"," in first and len(first) < 4096 and _shape(_header(first)) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new complete lines to rows.

        A last line without a line end is not used, since its number may be cut. Topology and broker lists end in words: there
        a whole last line is used when nothing will follow.
        """
        end, size = data.rfind(b"\n") + 1, len(data)
        columns = list(state["columns"]) if state is not None else _header(data.split(b"\n", 1)[0])
        done = int(state["lines"]) if state is not None else 0
        shape, problems = _shape(columns), list[Problem]()
        headed = end > 0 or state is not None
        if final and headed and shape is not None and not shape.grows and data[end:].count(b",") == len(columns) - 1:
            reason = "the last line has no line end and is used, but may be cut"
            problems.append(Problem.at(source.path, "cut-file", reason, line=data.count(b"\n") + 1 + done))
            data += b"\n"
            end = len(data)
        body = data[:end]
        if state is None:
            first, _, body = body.partition(b"\n")
            done = 1
            if not first:
                return Reading(consumed=0)
        if shape is None or len(set(columns)) != len(columns):
            return Reading(problems=[Problem.at(source.path, "bad-record", "column names occur twice", line=1)])
        raw, count = _lines(body, done + 1)
        quoted = raw["raw"].str.contains('"', literal=True)
        ragged = ~quoted & (raw["raw"].str.count_matches(",", literal=True) != len(columns) - 1)
        problems += problems_at(
            source, "bad-record", f"lines without exactly {len(columns)} fields", raw.filter(ragged)
        )
        raw = raw.filter(~ragged)
        frame, numbers = _split(raw, columns)
        rows, odd = _rows(source, shape, frame, numbers)
        if numbers.len() < raw.height:
            reason = "lines with unbalanced quotes"
            problems.append(Problem.at(source.path, "bad-record", reason, count=raw.height - numbers.len()))
        reading = Reading({shape.table.name: rows}, [*problems, *odd])
        if final and data[end:].strip():
            reason = "the last line has no line end and is left out"
            reading.problems.append(Problem.at(source.path, "cut-file", reason, line=done + count + 1))
        reading.consumed = min(end, size)
        reading.state = {"columns": columns, "lines": done + count}
        return reading


def _lines(body: bytes, first: int) -> tuple[pl.DataFrame, int]:
    """Return the lines of ``body`` that are not blank, numbered from ``first`` on, and the number of all lines.

    Empty lines are dropped first: a small packed file may hold hundreds of millions.
    """
    numbers: pl.Series | None = None
    if body.startswith(b"\n") or b"\n\n" in body:
        data = np.frombuffer(body, np.uint8)
        ends = data == ord("\n")
        empty = ends & np.append(True, ends[:-1])[: len(ends)]
        count = int(np.count_nonzero(ends))
        numbers = pl.Series("line", np.cumsum(ends, dtype=np.uint32)[ends & ~empty] + np.uint32(first - 1))
        body = data[~empty].tobytes()
    text = decode(body).replace("\r\n", "\n") if b"\r" in body else decode(body)
    lines = pl.Series("raw", [text[:-1]] if text else [], dtype=pl.String).str.split("\n").explode()
    if numbers is None:
        count = lines.len()
        numbers = pl.int_range(first, first + count, dtype=pl.UInt32, eager=True).alias("line")
    return pl.DataFrame([numbers, lines]).filter(pl.col("raw").str.strip_chars() != ""), count


def _split(raw: pl.DataFrame, columns: list[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Split lines into text columns; also return the numbers of the lines that could be split."""
    if not raw["raw"].str.contains('"', literal=True).any():
        parts = raw.select(pl.col("raw").str.splitn(",", len(columns)).struct.rename_fields(columns).alias("p"))
        return parts.unnest("p"), raw["line"]
    import csv

    numbers, values = [], []
    for number, line in zip(raw["line"].to_list(), raw["raw"].to_list(), strict=True):
        try:
            fields = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
        except (csv.Error, StopIteration):
            continue
        if len(fields) == len(columns):
            numbers.append(number)
            values.append(fields)
    frame = pl.DataFrame(values, schema=dict.fromkeys(columns, pl.String), orient="row")
    return frame, pl.Series("line", numbers, dtype=pl.UInt32)


class ParquetRows(Document):
    """The same tables as Parquet."""

    id = "parquet"
    title = "Parquet with the same columns as the CSV files"
    tables: tuple[Table, ...] = (METRICS, SAMPLES_IN, OBSERVATIONS, TOPOLOGY, BROKERS_IN)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by the magic bytes; whether the columns are ours shows when it is read."""
        return head[:4] == b"PAR1" and name != "block.bin"  # Pyroscope's blocks only begin like Parquet

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one file to rows; Parquet with other columns, such as Pyroscope's blocks, gives no rows and no problem."""
        if not data.endswith(b"PAR1") and not source.path.endswith((".parquet", ".pq")):
            return Reading(consumed=len(data))
        try:
            parts = parquet.read(
                data,
                lambda names: _shape([name.lower() for name in names]) is not None,
                lambda frame, first: _part(source, frame, first),
            )
        except parquet.Damaged as error:
            reason = f"not a readable Parquet file: {error}"
            return Reading(problems=[Problem.at(source.path, "unreadable", reason)], complete=False)
        if parts is None:
            return Reading(consumed=len(data))
        frames = [frame for _, frame, _ in parts]
        rows = Parts(sum(frame.height for frame in frames), frames[0].columns, lambda: frames)
        return Reading(
            {parts[0][0].name: rows}, list(fold(problem for _, _, found in parts for problem in found)), len(data)
        )


def _part(source: Source, frame: pl.DataFrame, first: int) -> tuple[Table, pl.DataFrame, list[Problem]]:
    """Return the table, rows and problems of a part of a Parquet file that begins with row ``first``."""
    frame = frame.rename({name: name.lower() for name in frame.columns})
    shape = _shape(frame.columns)
    assert shape is not None
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    frame = frame.with_columns(pl.col(name).list.eval(pl.element().cast(pl.String)).list.join("|") for name in lists)
    return shape.table, *_rows(
        source, shape, frame, pl.int_range(first, first + frame.height, dtype=pl.UInt32, eager=True)
    )
