"""Parse Prometheus text exposition (0.0.4) and OpenMetrics 1.0 text to a frame, column-wise.

Source: the "Exposition formats" page of the Prometheus documentation and the OpenMetrics 1.0 specification. Also
accepts what real exporters write: label lists ending in ``,}``, spaces around names, CRLF line ends, and names inside the braces
(``{__name__="x", a="b"}`` of ``promtool tsdb dump``, quoted names of Prometheus 3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import polars as pl

from engine.core.reading import Problem, clean, decode

_PAIR = r'[^\S\n]*(?:[a-zA-Z_][a-zA-Z0-9_.]*|"(?:[^"\\]|\\.)*")[^\S\n]*=[^\S\n]*"(?:[^"\\]|\\.)*"[^\S\n]*'
_SAMPLE = (
    r"^[^\S\n]*(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:.]*)[^\S\n]*"
    r'(?:\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"[^\S\n]*(?P<text>[^\s{}\"]+)(?:[^\S\n]+(?P<stamp>[-+0-9.eE]+))?[^\S\n]*(?:#.*)?$"
)
_LABELS = r"^[^\S\n]*(?:" + _PAIR + r"(?:," + _PAIR + r")*,?[^\S\n]*)?$"
_SIMPLE = r'^[a-zA-Z_:][a-zA-Z0-9_:.]*(?:\{[^{}#]*\})? [^\s{}"#]+(?: [-+0-9.eE]+)?$'
_NAME_LABEL = r'[{,]\s*__name__\s*=\s*"([a-zA-Z_:][a-zA-Z0-9_:.]*)"'
_QUOTED_NAME = r'^\s*\{\s*"((?:[^"\\]|\\.)*)"\s*(?:,|\})'
_QUOTED_FIRST = r'^\s*\{\s*"(?:[^"\\]|\\.)*"\s*,?'
_IDENTIFIER = r"^[a-zA-Z_:][a-zA-Z0-9_:.]*$"
_QUICK, _NAMED, _READABLE, _PLAIN, _ODD = " quick", " named", " readable", " plain", " odd"
"""Temporary columns, with names that no label can have."""
_UNCLEAN = r"[\\]|[^ -~]"
_NUMBER = r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
_SPECIAL = {"nan": float("nan"), "+inf": float("inf"), "inf": float("inf"), "-inf": float("-inf")}
_VALUE = rb"[-+]?(?:\.?[0-9]|(?i:nan|inf)\b)"
_HEAD = re.compile(
    rb"^\s*(?:#\s*(?:HELP|TYPE|UNIT)\s+[a-zA-Z_:]|[a-zA-Z_:][a-zA-Z0-9_:.]*(?:\s*\{[^\n]*\})?\s+"
    + _VALUE
    + rb'|\{(?:__name__=)?"[^\n]*\}\s+'
    + _VALUE
    + rb")"
)


class Scrape(msgspec.Struct, frozen=True):
    """One parsed exposition.

    ``samples`` has the columns ``metric`` (its name), one text column per asked label (null where a series lacks
    it), ``value`` (Float64; NaN and infinities as written), ``time_ms`` (Int64, the sample's own timestamp, mostly
    null), ``line`` (UInt32, 1-based) and ``labels`` (the raw text between the braces, ``""`` without any). Rows are in
    file order. ``cut``: the text does not end with a line end (or,
    in OpenMetrics, lacks ``# EOF``): the last, possibly shortened line is left out.
    """

    samples: pl.DataFrame
    problems: tuple[Problem, ...]
    cut: bool


AT_ONCE: Any = {"engine": "in-memory", "optimizations": pl.QueryOptFlags.none()}
"""How queries over a file's lines are collected: as written, since to look for a better plan takes longer than a small file."""


def looks_like(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is a text exposition, judged by its first two lines."""
    lines = [line for line in head.split(b"\n")[:40] if line.strip()][:2]
    cgroup = head.startswith((b"usage_usec ", b"user ", b"nr_periods "))  # cpu.stat of a control group is written alike
    return bool(lines) and not cgroup and all(_HEAD.match(line) for line in lines)


LARGE = 16 << 20  # bytes of text that are parsed at once


def parts(path: str, data: bytes, labels: Sequence[str] = (), names: str | None = None) -> Iterator[Scrape]:
    """Parse the text exposition ``data`` of file ``path``; yield the samples of about LARGE bytes at a time.

    ``names``: regular expression that a metric name must contain (Rust ``regex`` syntax); other samples are not
    returned. Label values are unescaped and cleaned. Lines that are no sample become problems of kind
    ``bad-line``, one per reason with the first line number and a count.
    """
    openmetrics = data[-64:].rstrip().endswith(b"# EOF")
    if len(data) <= LARGE:
        yield _parse(path, data, labels, names, openmetrics)
        return
    begin, before = 0, 0
    while begin < len(data):
        end = data.find(b"\n", begin + LARGE) + 1 or len(data)
        part = _parse(path, data[begin:end], labels, names, openmetrics)
        moved = [msgspec.structs.replace(one, line=one.line + before) if one.line else one for one in part.problems]
        yield Scrape(part.samples.with_columns((pl.col("line") + before).cast(pl.UInt32)), tuple(moved), part.cut)
        before += data.count(b"\n", begin, end)
        begin = end


def _parse(path: str, data: bytes, labels: Sequence[str], names: str | None, openmetrics: bool) -> Scrape:
    text = decode(data).replace("\r\n", "\n")
    problems: list[Problem] = []
    lines = text.split("\n")
    cut = lines[-1].strip() not in ("", "# EOF")
    if cut:
        problems.append(Problem.at(path, "cut-file", "the last line has no line end and is left out", line=len(lines)))
    if cut or lines[-1] == "":
        lines.pop()

    # Every query costs 0.1 ms however small its frame, and making its expressions as much: many short scrapes are read at a
    # start, so what is the same for each is made once.
    whole = pl.DataFrame({"raw": pl.Series("raw", lines, dtype=pl.String)}).lazy().with_row_index("line", offset=1)
    whole = whole.filter(_HOLDS_A_SAMPLE)
    frame = (
        (_names_outside(whole) if "\n{" in text or text.startswith("{") else whole)
        .with_columns(
            _IS_SIMPLE,
            (pl.lit(value=True) if names is None else pl.col("raw").str.contains(names)).alias(_NAMED),
        )
        .collect(**AT_ONCE)
    )
    if not frame[_NAMED].all():
        # A line whose name part does not match is dropped unread, unless it is no sample line at all.
        odd = frame.filter(~pl.col(_NAMED) & ~pl.col("raw").str.contains(_SAMPLE))
        problems += _bad(path, odd, "not a sample line")
        frame = frame.filter(_NAMED)
    # Most lines are name{labels} value: cutting at the braces is several times cheaper than a regular expression with
    # groups. The others (brackets or # inside, timestamps, spaces) take the full grammar.
    parts = _cut(frame.lazy().filter(_QUICK))
    if not frame[_QUICK].all():
        slow = (
            frame.lazy().filter(~pl.col(_QUICK)).with_columns(pl.col("raw").str.extract_groups(_SAMPLE).alias("parts"))
            .unnest("parts").collect(**AT_ONCE)
        )  # fmt: skip
        unread = slow["metric"].is_null()
        problems += _bad(path, slow.filter(unread), "not a sample line")
        slow = slow.filter(~unread).with_columns(pl.col("labels").fill_null(""))
        parts = pl.concat([parts, slow.lazy()]).sort("line")
    # An exporter has few of the labels asked for, and an absent one would cost as much as a present one.
    present = tuple(name for name in labels if name in text)
    samples = _read(parts, present, names)
    if samples["stamp"].null_count() < samples.height:
        seconds = (
            openmetrics
            or samples.select(
                (pl.col("stamp").str.contains(".", literal=True) & _TIME.is_between(1e9, 1e11)).any()
            ).item()
        )
        scaled = (_TIME * (1000.0 if seconds else 1.0)).round().cast(pl.Int64, strict=False)
        samples = samples.with_columns(pl.when(_TIME.is_between(-9e15, 9e15)).then(scaled).alias("time_ms"))
    if samples["value"].null_count():
        special = pl.col("text").str.to_lowercase().replace_strict(_SPECIAL, default=None, return_dtype=pl.Float64)
        samples = samples.with_columns(pl.coalesce("value", special))
        problems += _bad(path, samples.filter(pl.col("value").is_null()), "the value is not a number")
        samples = samples.filter(pl.col("value").is_not_null())
    if not samples[_READABLE].all():
        problems += _bad(path, samples.filter(~samples[_READABLE]), "the labels cannot be read")
        samples = samples.filter(_READABLE)
    return Scrape(_checked(samples, present).select(_columns(tuple(labels), present)), tuple(problems), cut)


@lru_cache(32)
def _columns(labels: tuple[str, ...], present: tuple[str, ...]) -> list[pl.Expr]:
    found = [pl.col(name) if name in present else pl.lit(None, pl.String).alias(name) for name in labels]
    return [pl.col("metric"), *found, pl.col("value", "time_ms", "line", "labels")]


_TIME = pl.col("stamp").cast(
    pl.Float64, strict=False
)  # seconds in OpenMetrics, also without its last line, else milliseconds


def _read(parts: pl.LazyFrame, labels: tuple[str, ...], names: str | None) -> pl.DataFrame:
    """Make the columns of ``Scrape.samples``, but for its times, from lines cut into metric, labels, text and stamp.

    Values that are not finite numbers are null; ``_READABLE``: whether the labels can be read, ``_PLAIN``: whether cutting is
    enough, ``_ODD``: whether a value may need cleaning.
    """
    if names is not None:
        parts = parts.filter(pl.col("metric").str.contains(names))
    return parts.select(_values(labels)).collect(**AT_ONCE)


@lru_cache(32)
def _values(labels: tuple[str, ...]) -> list[pl.Expr]:
    label = pl.col("labels")
    plain = (label.str.count_matches('="', literal=True) * 2 == label.str.count_matches('"', literal=True)) & (
        ~label.str.contains(r"[\\\s]")
    )
    return [
        pl.col("metric"),
        *(
            pl.concat_str(pl.lit(","), pl.col("labels"))
            .str.splitn(f',{name}="', 2)
            .struct.field("field_1")
            .str.splitn('"', 2)
            .struct.field("field_0")
            .alias(name)
            for name in labels
        ),
        pl.when(pl.col("text").str.contains(_NUMBER))
        .then(pl.col("text").cast(pl.Float64, strict=False))
        .alias("value"),
        pl.lit(None, pl.Int64).alias("time_ms"),
        pl.col("line", "labels", "raw", "text", "stamp"),
        (label.str.contains(_UNCLEAN) | (label.str.len_bytes() > 4096)).alias(_ODD),
        label.str.contains(_LABELS).alias(_READABLE),
        plain.alias(_PLAIN),
    ]


def _bad(path: str, rows: pl.DataFrame, reason: str) -> list[Problem]:
    return [
        Problem.at(path, "bad-line", f"{reason}: {raw[:120]}", line=line, count=rows.height)
        for raw, line in rows.select("raw", "line").head(1).iter_rows()
    ]


_RAW = pl.col("raw")
_HOLDS_A_SAMPLE, _IS_SIMPLE = _RAW.str.contains(r"^\s*[^\s#]"), _RAW.str.contains(_SIMPLE).alias(_QUICK)
_BARE = _RAW.str.splitn(" ", 2).struct
_NAME_AND_REST = (
    pl.when(_RAW.str.contains("{", literal=True))
    .then(_RAW.str.splitn("{", 2))
    .otherwise(pl.struct(_BARE.field("field_0"), pl.concat_str(pl.lit("} "), _BARE.field("field_1")).alias("field_1")))
    .struct.rename_fields(["metric", "rest"])
    .alias("parts")
)
_LABELS_AND_TEXT = pl.col("rest").str.splitn("} ", 2).struct.rename_fields(["labels", "text"]).alias("parts")
_TEXT_AND_STAMP = pl.col("text").str.splitn(" ", 2).struct.rename_fields(["text", "stamp"]).alias("parts")


def _cut(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Cut lines of the plain shape ``name{labels} value`` or ``name value`` into metric, labels and text."""
    return (
        rows.with_columns(_NAME_AND_REST).unnest("parts")
        .with_columns(_LABELS_AND_TEXT).drop("rest").unnest("parts")
        .with_columns(_TEXT_AND_STAMP).drop("text").unnest("parts")
    )  # fmt: skip


def _names_outside(lines: pl.LazyFrame) -> pl.LazyFrame:
    """Move names from inside the braces to the front. Drops lines whose name is not an identifier: no reader knows them."""
    raw = pl.col("raw")
    inside = raw.str.starts_with("{")
    quoted = raw.str.extract(_QUOTED_NAME, 1)
    name = pl.coalesce(raw.str.extract(_NAME_LABEL, 1), quoted)
    rest = pl.when(quoted.is_not_null()).then(raw.str.replace(_QUOTED_FIRST, "{")).otherwise(raw)
    # A blank behind a comma prevents the quick way; without escapes it is not part of a value.
    rest = pl.when(rest.str.contains("\\", literal=True)).then(rest).otherwise(
        rest.str.replace_all('", ', '",', literal=True)
    )  # fmt: skip
    foreign = inside & quoted.is_not_null() & ~quoted.str.contains(_IDENTIFIER)
    return lines.filter(~foreign.fill_null(False)).with_columns(
        pl.when(inside & name.is_not_null()).then(pl.concat_str(name, rest)).otherwise(raw).alias("raw")
    )


def _checked(samples: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Read the labels of rows that are not ``_PLAIN`` by the full grammar, and clean odd values."""
    plain = samples[_PLAIN]
    if not plain.all():
        some, rows = samples["labels"].filter(~plain), (~plain).arg_true()
        for name in names:
            sure = r"^(?:" + _PAIR + r",)*?\s*" + re.escape(name) + r'\s*=\s*"((?:[^"\\]|\\.)*)"'
            samples = samples.with_columns(samples[name].scatter(rows, some.str.extract(sure, 1)))
    for name in names if samples[_ODD].any() else ():
        odd = samples[name].str.contains(_UNCLEAN) | (samples[name].str.len_chars() > 4096)
        if odd.any():
            tidy = {
                text: clean(re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text))
                for text in samples[name].filter(odd).unique().to_list()
            }
            samples = samples.with_columns(pl.col(name).replace(tidy))
    return samples
