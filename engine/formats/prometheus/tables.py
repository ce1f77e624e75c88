"""VictoriaMetrics' CSV export: the header line names labels, the value and the unit of the time.

Source: "How to export CSV data" of the VictoriaMetrics documentation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from engine.core.reading import Problem, clean
from engine.formats.delimited import BOM, header_fields

_VALUE, _TIME = "__value__", "__timestamp__"
_UNITS = {"unix_s": 1000.0, "unix_ms": 1.0, "unix_ns": 1e-6}
_BARE = re.compile(rb"^[a-zA-Z_:][a-zA-Z0-9_:.]*,(?:[^\n,]*,){1,40}[-+0-9.eENaInf]+,\d{10,19}\r?$")

NO_HEADER = (
    "a CSV export without the header line cannot be read: ask with a version that prints the header, or /api/v1/export"
)
"""Reason and cure for exports of older versions."""


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is an export with its header line."""
    fields = header_fields(head)
    return _VALUE in fields and "__name__" in fields


def lacks_header(head: bytes) -> bool:
    """Return whether ``head`` begins like an export without its header line: a name, labels, a value and a time."""
    first = head.split(b"\n", 1)[0]
    return len(first) < 4096 and bool(_BARE.match(first))


def read(path: str, data: bytes, labels: Sequence[str]) -> tuple[pl.DataFrame, list[Problem]]:
    """Read an export. Returns a frame of ``metric``, the asked labels (null where empty or missing), ``value``, ``time_ms``,
    ``line`` and ``labels`` (all of them as text), and its problems."""
    data = data.removeprefix(BOM)
    header = header_fields(data)
    timed = next((name for name in header if name.partition(":")[0] == _TIME), "")
    columns = {f"column_{place}": pl.String for place in range(len(header))}
    problems: list[Problem] = []
    try:
        table = pl.read_csv(data, has_header=False, skip_rows=1, schema=columns, encoding="utf8-lossy",
                            truncate_ragged_lines=True, raise_if_empty=False)  # fmt: skip
    except pl.exceptions.PolarsError as error:
        problem = Problem.at(path, "bad-record", f"no CSV: {str(error).splitlines()[0]}")
        return pl.DataFrame(schema={"metric": pl.String}), [problem]
    names = list(dict.fromkeys(header))
    table = table.select(pl.col(f"column_{header.index(name)}").alias(name) for name in names)
    unit = timed.partition(":")[2]
    time = pl.lit(None, pl.Float64)
    if unit in _UNITS:
        time = pl.col(timed).cast(pl.Float64, strict=False) * _UNITS[unit]
    elif unit == "rfc3339":
        time = pl.col(timed).str.to_datetime(time_unit="ms", time_zone="UTC", strict=False).dt.epoch("ms")
    kept = [name for name in names if name not in ("__name__", _VALUE, timed)]
    special = pl.col(_VALUE).str.to_lowercase().replace_strict(
        {"nan": float("nan"), "inf": float("inf"), "+inf": float("inf"), "-inf": float("-inf")}, default=None,
        return_dtype=pl.Float64,
    )  # fmt: skip
    frame = table.with_row_index("line", offset=2).select(
        pl.col("__name__").alias("metric"),
        *(
            pl.when(pl.col(name) != "").then(pl.col(name)).alias(name)
            if name in kept
            else pl.lit(None, pl.String).alias(name)
            for name in labels
        ),
        pl.coalesce(pl.col(_VALUE).cast(pl.Float64, strict=False), special).alias("value"),
        pl.when(time.is_between(-9e15, 9e15)).then(time.round()).cast(pl.Int64, strict=False).alias("time_ms"),
        pl.col("line").cast(pl.UInt32),
        pl.concat_str([pl.col(name).fill_null("") for name in kept] or [pl.lit("")], separator=",").alias("labels"),
    )
    wrong = frame["metric"].is_null() | frame["value"].is_null() | (frame["time_ms"].is_null() & bool(timed))
    if wrong.any():
        first = frame.filter(wrong)
        reason = "a row without a name, or whose value or time cannot be read"
        problems.append(Problem.at(path, "bad-record", reason, line=int(first["line"][0]), count=first.height))
    return _cleaned(frame.filter(~wrong), labels), problems


def _cleaned(frame: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    for name in labels:
        odd = frame[name].filter(frame[name].str.contains(r"[^ -~]") | (frame[name].str.len_chars() > 4096))
        if odd.len():
            frame = frame.with_columns(pl.col(name).replace({text: clean(text) for text in odd.unique().to_list()}))
    return frame
