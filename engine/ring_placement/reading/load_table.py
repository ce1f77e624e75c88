"""Loads: plain tables ``tenant,dataset,bytes_per_s[,fingerprint]`` as CSV or Parquet, tenants or keys of token rings, and series
of Pyroscope's placement metrics or of dskit's rings (scrapes and Prometheus' answers)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from msgspec.structs import replace

from engine.core.reading import Document, Problem, Reading, Source, clean, fold
from engine.core.tables import Parts
from engine.formats import parquet
from engine.formats.prometheus import series as prometheus
from engine.ring_placement import tables
from engine.ring_placement.dskit.tokens import fnv1_each, parse_labels, series_bytes, text_bytes, trace_bytes
from engine.ring_placement.pyroscope.ring import xxh64
from engine.ring_placement.reading.document import SANE_RATE, unreadable

SENT = "pyroscope_segment_writer_client_sent_bytes_sum"
"""Counter: bytes of pushed profiles (perhaps compressed) by tenant, shard and address."""
INGEST = "pyroscope_segment_writer_segment_ingest_bytes_sum"
"""Counter: bytes of uncompressed profiles by tenant and shard, one series per scraped writer."""
SHARD_LIMIT = "pyroscope_adaptive_placement_dataset_shard_limit"  # gauge: shards of a dataset by its placement rule
USAGE = "pyroscope_adaptive_placement_dataset_shard_usage_bytes_per_second"
"""Gauge: bytes per second of a dataset, as encoded in segments."""
SHARD_USAGE = "pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second"
"""Gauge: the same by shard and owner (only with the breakdown switched on)."""

DSKIT = (
    "cortex_distributor_received_samples_total", "cortex_ingester_active_series",
    "cortex_ingester_memory_series_created_total", "cortex_ingester_memory_series_removed_total",
    "cortex_ingester_memory_series", "cortex_ingester_owned_series", "cortex_distributor_replication_factor",
    "loki_distributor_bytes_received_total", "loki_ingester_memory_streams", "tempo_distributor_bytes_received_total",
    "tempo_distributor_spans_received_total", "cortex_ring_members", "loki_ring_members", "tempo_ring_members",
    "loki_distributor_replication_factor",
)  # fmt: skip
"""Metrics of Mimir, Loki and Tempo: load by tenant, members by state, and the replication factor."""

_METRICS = (*DSKIT, SENT, INGEST, SHARD_LIMIT, USAGE, SHARD_USAGE, "pyroscope_ring_members",
            "pyroscope_distributor_replication_factor")  # fmt: skip
_LABELS = ("tenant", "dataset", "shard", "shard_id", "shard_owner", "addr", "instance", "pod", "load_balancing",
           "name", "state", "user")  # fmt: skip


class Metrics(Document):
    """A text exposition, or an answer of Prometheus, with the placement metrics."""

    id = "placement-metrics"
    title = "Prometheus text or answers with placement metrics of Pyroscope, or tenant and ring metrics of Mimir, Loki, Tempo"
    tables = (tables.METRICS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it holds any series: the placement metrics may come late in the file."""
        return prometheus.looks_like(name, head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per sample of a placement metric."""
        words = (b"pyroscope_", b"cortex_", b"loki_", b"tempo_")
        if prometheus.is_text(data) and not any(word in data for word in words):
            return Reading()
        file = prometheus.read(source, data, _LABELS, "^(?:" + "|".join(_METRICS) + ")")
        problems = list(file.problems)
        samples = file.samples.filter(pl.col("metric").is_in(list(_METRICS)))
        value = pl.col("value")
        sane = value.is_finite() & (value >= 0) & (value <= float(SANE_RATE))
        bad = samples.filter(~sane)
        if bad.height:
            reason = f"{bad['metric'][0]} has a value that is negative, not finite or impossible"
            problems.append(Problem.at(source.path, "bad-rate", reason, line=_line(bad), count=bad.height))
        shard_text = pl.coalesce("shard_id", "shard")
        # A server adds the labels of its target to every series; a count of members is by state.
        owner = pl.when(pl.col("metric").str.ends_with("_ring_members")).then("state")
        target = pl.coalesce("instance", "pod")
        rows = samples.filter(sane).select(
            "metric",
            pl.coalesce("tenant", "user").alias("tenant"),
            "dataset",
            shard_text.cast(pl.Int64, strict=False).alias("shard"),
            pl.coalesce(owner, "shard_owner", "addr", target, "state").alias("instance"),
            "value",
            "load_balancing",
            "time_ms",
            target.alias("target"),
            "line",
            shard_text.is_not_null().alias("has_shard"),
        )
        in_range = pl.col("shard").is_between(0, 2**31)
        odd = rows.filter(pl.col("has_shard") & (pl.col("shard").is_null() | ~in_range))
        if odd.height:
            problem = Problem.at(
                source.path, "bad-shard", "a shard label is not a shard ID", line=_line(odd), count=odd.height
            )
            problems.append(problem)
        rows = rows.filter(~pl.col("has_shard") | in_range)
        return Reading(
            {"metrics": rows.drop("line", "has_shard")}, problems, complete=final or not file.cut or not file.answer
        )


def _line(rows: pl.DataFrame) -> int | None:
    line = rows["line"][0]
    return None if line is None else int(line)


REQUIRED = ("tenant", "dataset", "bytes_per_s")  # columns that a load table must have
COLUMNS = (*REQUIRED, "fingerprint")  # columns that are read


class LoadTable(Document):
    """A plain table ``tenant,dataset,bytes_per_s[,fingerprint]``, CSV or Parquet."""

    id = "load-table"
    title = "CSV or Parquet table tenant,dataset,bytes_per_s[,fingerprint]"
    tables = (tables.LOADS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether its first line names the required columns, or it is a Parquet file that is not a block."""
        if head.startswith(b"PAR1"):
            return not name.endswith("block.bin")
        line = head.split(b"\n", 1)[0]
        return len(line) < 4096 and set(REQUIRED) <= set(_column_names(line))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per line, keys without a fingerprint added up by dataset."""
        if data.startswith(b"PAR1"):
            if not data.endswith(b"PAR1") and not source.path.endswith((".parquet", ".pq")):
                return Reading()  # a block under another name
            return read_parquet(source, data)
        return read_csv(source, data, final)


def _column_names(line: bytes) -> list[str]:
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").strip("\r\n")
    return [part.strip().strip('"').strip().lower() for part in text.split(",")]


BLOCK = 16 << 20  # bytes of a CSV parsed at a time: there may be millions of keys, but few datasets


def read_csv(source: Source, data: bytes, final: bool) -> Reading:
    """Read CSV bytes. A last line without its line end is used only if ``final`` (nothing will follow), with a problem.

    Keys without a fingerprint are added up to one row for each dataset, block by block.
    """
    problems: list[Problem] = []
    frames: list[pl.DataFrame] = []
    blank = pl.all_horizontal(pl.col(c).is_null() | (pl.col(c) == "") for c in COLUMNS)
    header, lines = data[: data.find(b"\n") + 1], 0
    for block in _blocks(data):
        found: list[Problem] = []
        texts = _texts(source, header + block if lines else block, final, COLUMNS, found)
        if texts is not None:
            if not set(REQUIRED) <= set(texts.columns):
                return Reading(problems=found, complete=False)
            frames.append(_typed(source, _load_columns(texts, 2).filter(~blank), found))
        problems += [replace(problem, line=(problem.line or 0) + max(lines - 1, 0)) for problem in found]
        lines += block.count(b"\n")
    return Reading({"loads": _together(frames) if frames else {}}, list(fold(problems)))


def _together(frames: list[pl.DataFrame]) -> Parts:
    """Return the LOADS rows of all parts of a file; rows without a fingerprint are added up by dataset across the parts."""
    keyed = (frame.filter(pl.col("fingerprint").is_not_null()) for frame in frames)
    spread = pl.concat(frame.filter(pl.col("fingerprint").is_null()) for frame in frames)
    parts = [*(frame for frame in keyed if frame.height), by_dataset(spread)]
    return Parts(sum(part.height for part in parts), tables.LOADS.schema.names(), lambda: parts)


def _blocks(data: bytes) -> Iterator[bytes]:
    """Cut ``data`` at line ends, unless it has quotes, which may contain line ends."""
    at = 0
    while b'"' not in data and len(data) - at > BLOCK:
        end = data.rfind(b"\n", at, at + BLOCK) + 1
        if end <= at:
            break
        yield data[at:end]
        at = end
    if at < len(data) or not at:
        yield data[at:]


def _texts(
    source: Source, data: bytes, final: bool, columns: tuple[str, ...], problems: list[Problem]
) -> pl.DataFrame | None:
    """Read those of ``columns`` that the header of a CSV names, as texts. Returns None if there is only a header."""
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if not data.endswith(b"\n"):
        last = data.rfind(b"\n") + 1
        if not final:
            data = data[:last]
        elif last == 0:
            problems.append(Problem.at(source.path, "no-rows", "the table has a header and nothing else", line=1))
            return None
        else:
            reason = "the last line has no line end: used, but it may be cut"
            problems.append(Problem.at(source.path, "cut-file", reason, line=data.count(b"\n") + 1))
    header = _column_names(data.split(b"\n", 1)[0])
    # Only the wanted columns: short lines below a long header would become rows of thousands of nulls.
    wanted = {name: header.index(name) for name in columns if name in header}
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            skip_rows=1,
            schema={f"column_{i}": pl.String for i in range(len(header))},
            columns=sorted(wanted.values()),
            encoding="utf8-lossy",
            raise_if_empty=False,
        )
        return frame.select(pl.col(f"column_{at}").alias(name) for name, at in wanted.items())
    except pl.exceptions.PolarsError:
        # Some line has too many fields or an open quote: find it.
        frame, bad_lines = _read_by_line(data, len(header), wanted)
        if bad_lines:
            reason = "a line has more fields than the header or an open quote and is left out"
            problems.append(Problem.at(source.path, "bad-line", reason, line=bad_lines[0], count=len(bad_lines)))
        return frame


def _load_columns(frame: pl.DataFrame, first: int) -> pl.DataFrame:
    """Select ``COLUMNS`` (null where the table lacks one) behind ``line``, the number of each row from ``first`` on."""
    missing = [pl.lit(None, pl.String).alias(name) for name in COLUMNS if name not in frame.columns]
    return frame.with_columns(missing).select(COLUMNS).with_row_index("line", offset=first)


def _read_by_line(data: bytes, width: int, wanted: Mapping[str, int]) -> tuple[pl.DataFrame, list[int]]:
    """Read the ``wanted`` columns (name to place) of CSV line by line; fields beyond a line's end are null.

    Returns the rows, and the 1-based numbers of unreadable lines, whose rows are all null.
    """
    columns: dict[str, list[str | None]] = {name: [] for name in wanted}
    wrong = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n")[1:], 2):
        parts: list[str] = []
        try:
            if line:
                parts = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
        except (csv.Error, StopIteration):
            wrong.append(number)
        if len(parts) > width:
            wrong.append(number)
            parts = []
        for name, at in wanted.items():
            columns[name].append(parts[at] if at < len(parts) else None)
    return pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String)), wrong


def read_parquet(source: Source, data: bytes) -> Reading:
    """Read Parquet bytes; a Parquet file without the required columns gives no rows."""
    try:
        parts = parquet.read(
            data,
            lambda names: set(REQUIRED) <= {name.strip().lower() for name in names},
            lambda frame, first: _parquet_rows(source, frame, first),
            keep=lambda name: name.strip().lower() in COLUMNS,
        )
    except parquet.Damaged as error:
        return unreadable(source, "bad-parquet", str(error))
    frames = [frame for frame, _ in parts or () if frame is not None]
    found = fold(problem for _, problems in parts or () for problem in problems)
    # Parquet has rows, not lines.
    problems = [replace(one, line=None, reason=f"{one.reason} (first in row {one.line})") for one in found]
    return Reading({"loads": _together(frames)} if frames else {}, problems)


def _parquet_rows(source: Source, frame: pl.DataFrame, first: int) -> tuple[pl.DataFrame | None, list[Problem]]:
    """Make rows of a part of a Parquet file that begins with row ``first``, and problems. Raises Damaged."""
    frame = frame.rename({c: c.strip().lower() for c in frame.columns if c.strip().lower() not in frame.columns})
    if not set(REQUIRED) <= set(frame.columns):
        return None, []
    frame = _load_columns(frame, first)
    if frame["fingerprint"].dtype.is_integer():
        # Signed columns hold the same 64 bits.
        column = pl.col("fingerprint")
        wide = column.cast(pl.UInt64, strict=False)
        if frame["fingerprint"].dtype == pl.Int64:
            wide = column.reinterpret(signed=False)
        frame = frame.with_columns(wide.alias("fingerprint"))
    elif frame["fingerprint"].dtype != pl.String:
        frame = frame.with_columns(pl.col("fingerprint").cast(pl.String, strict=False))
    try:
        frame = frame.with_columns(pl.col("tenant", "dataset").cast(pl.String))
    except pl.exceptions.PolarsError as error:
        raise parquet.Damaged(f"tenant and dataset must be texts: {error}") from None
    problems: list[Problem] = []
    return _typed(source, frame, problems), problems


KEY_COLUMNS = ("token", "series", "metric", "stream", "trace_id")
"""Columns with a key of a token ring: its token, or the text from which Mimir, Loki or Tempo computes it."""
WEIGHT_COLUMNS = ("bytes_per_s", "weight", "load")
"""Columns with the load of a key or tenant; the first one in the file counts, without any the load is 1."""
_LE = frozenset({"le"})  # the label that Mimir can ignore, so that the buckets of a histogram lie together
_LEFT_OUT = ": the row is left out"
_SYSTEMS = {"series": "mimir", "metric": "mimir", "stream": "loki", "trace_id": "tempo"}


class KeyTable(Document):
    """A plain CSV of tenants or keys of a token ring: ``tenant``, a key in one of ``KEY_COLUMNS``, and a load."""

    id = "key-table"
    title = "CSV table tenant,token|series|metric|stream|trace_id[,bytes_per_s], or tenant,bytes_per_s"
    tables = (tables.KEYS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether its first line names a tenant, and a key or a load, but no dataset."""
        line = head.split(b"\n", 1)[0]
        names = set(_column_names(line)) if len(line) < 4096 else set()
        return "tenant" in names and "dataset" not in names and bool(names & {*KEY_COLUMNS, *WEIGHT_COLUMNS})

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per line; lines without a usable key or load are skipped."""
        problems: list[Problem] = []
        frame = _texts(source, data, final, ("tenant", *KEY_COLUMNS, *WEIGHT_COLUMNS), problems)
        if frame is None or "tenant" not in frame.columns:
            return Reading(problems=problems, complete=frame is None)
        frame = frame.with_row_index("line", offset=2)
        keys = [name for name in KEY_COLUMNS if name in frame.columns]
        weight = next((name for name in WEIGHT_COLUMNS if name in frame.columns), "")
        # A row's key is in the first column that it fills.
        filled = [pl.when(pl.col(key).str.strip_chars() != "").then(pl.lit(key)) for key in keys]
        frame = frame.with_columns((pl.coalesce(filled) if keys else pl.lit("")).alias("key"))
        frame = frame.filter(pl.col("tenant").is_not_null() | pl.col("key").is_not_null() & (pl.col("key") != ""))
        load = pl.col(weight).str.strip_chars().cast(pl.Float64, strict=False) if weight else pl.lit(1.0)
        frame = frame.with_columns(load.alias("rate"), pl.col("tenant").fill_null(""))
        for right, reason in (
            (
                pl.col("rate").is_between(0, float(SANE_RATE)).fill_null(False),
                "the load is not a number, negative or impossible",
            ),
            (pl.col("key").is_not_null(), f"no key in {' or '.join(keys)}"),
        ):
            frame = _right_rows(source, frame, right, "bad-line", f"{reason}{_LEFT_OUT}", problems)
        parts = [_with_tokens(source, frame.filter(pl.col("key") == key), key, problems) for key in keys or [""]]
        frame = pl.concat(parts).sort("line")
        changed = {tenant: clean(tenant) for tenant in frame["tenant"].unique().to_list() if clean(tenant) != tenant}
        written = pl.col("tenant").is_in(list(changed)) if changed else pl.lit(False)
        rows = frame.select(
            pl.col("tenant").replace(changed) if changed else "tenant",
            pl.when(written).then("tenant").alias("tenant_written"),
            "token",
            "token_without_le",
            pl.col("rate").alias("weight"),
            pl.col("key").replace_strict(_SYSTEMS, default="", return_dtype=pl.String).alias("system"),
        )
        return Reading({"keys": tables.KEYS.frame(rows)}, problems)


def _with_tokens(source: Source, frame: pl.DataFrame, key: str, problems: list[Problem]) -> pl.DataFrame:
    """Return the rows whose key in the column ``key`` ("": none) can be read: line, tenant, key, rate and the tokens."""
    if key == "token":
        frame = frame.with_columns(pl.col("token").str.strip_chars().cast(pl.Int64, strict=False))
        right = pl.col("token").is_between(0, (1 << 32) - 1).fill_null(False)
        frame = _right_rows(source, frame, right, "bad-line", f"the token is not a 32-bit number{_LEFT_OUT}", problems)
    elif key:
        pairs = zip(frame["tenant"].to_list(), frame[key].to_list(), strict=True)
        hashed = [_key_bytes(key, tenant, text or "") for tenant, text in pairs]
        right = pl.lit(pl.Series([text is not None for text in hashed], dtype=pl.Boolean))
        frame = _right_rows(
            source, frame, right, "bad-line", f"the {key.replace('_', ' ')} cannot be read{_LEFT_OUT}", problems
        )
        frame = frame.with_columns(pl.Series("token", fnv1_each([text for text in hashed if text is not None])))
    else:
        frame = frame.with_columns(pl.lit(None, pl.Int64).alias("token"))
    frame = _with_tokens_without_le(frame) if key == "series" else frame.with_columns(
        pl.lit(None, pl.Int64).alias("token_without_le")
    )  # fmt: skip
    return frame.select("line", "tenant", "key", "rate", "token", "token_without_le")


def _right_rows(
    source: Source, frame: pl.DataFrame, right: pl.Expr, kind: str, reason: str, problems: list[Problem]
) -> pl.DataFrame:
    """Return the ``right`` rows; the others are a problem at the line of the first."""
    wrong = frame.filter(~right)
    if wrong.height:
        problems.append(Problem.at(source.path, kind, reason, line=int(wrong["line"][0]), count=wrong.height))
    return frame.filter(right)


def _key_bytes(column: str, tenant: str, text: str) -> bytes | None:
    """Return the bytes from which a key's token is computed, or None if the key cannot be read."""
    try:
        if column in ("stream", "metric"):
            return text_bytes(tenant, text)
        return trace_bytes(tenant, text.strip()) if column == "trace_id" else series_bytes(tenant, parse_labels(text))
    except ValueError:
        return None


def _with_tokens_without_le(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the token of each series without its label le, null where it has none."""
    has = frame.select(pl.col("series").str.contains("le", literal=True).fill_null(False)).to_series().to_list()
    texts: dict[int, bytes] = {}
    for at, (tenant, series) in enumerate(zip(frame["tenant"].to_list(), frame["series"].to_list(), strict=True)):
        labels = parse_labels(series) if has[at] else []
        if any(name in _LE for name, _ in labels):
            texts[at] = series_bytes(tenant, labels, _LE)
    tokens: list[int | None] = [None] * frame.height
    for at, token in zip(texts, fnv1_each(list(texts.values())).tolist(), strict=True):
        tokens[at] = token
    return frame.with_columns(pl.Series("token_without_le", tokens, dtype=pl.Int64))


def _typed(source: Source, frame: pl.DataFrame, problems: list[Problem]) -> pl.DataFrame:
    """Make LOADS rows of texts. Those without a sane rate are left out, wrong fingerprints dropped, each with a problem."""
    rate = pl.col("bytes_per_s")
    if frame["bytes_per_s"].dtype == pl.String:
        rate = rate.str.strip_chars()
    frame = frame.with_columns(rate.cast(pl.Float64, strict=False).alias("rate"))
    rate = pl.col("rate")
    for right, kind, reason in (
        (pl.any_horizontal(pl.col("tenant", "dataset", "rate").is_not_null()), "bad-line", "a line lacks its fields"),
        (rate.is_finite().fill_null(False), "bad-rate", f"bytes_per_s is not a finite number{_LEFT_OUT}"),
        (rate >= 0, "negative-rate", f"bytes_per_s is negative{_LEFT_OUT}"),
        (rate <= float(SANE_RATE), "bad-rate", f"bytes_per_s is beyond 2^53{_LEFT_OUT}"),
    ):
        frame = _right_rows(source, frame, right, kind, reason, problems)
    if frame["fingerprint"].dtype == pl.String:
        digits = pl.col("fingerprint").str.strip_chars().str.to_lowercase().str.strip_prefix("0x")
        frame = frame.with_columns(digits.alias("digits"))
        present = pl.col("digits").is_not_null() & (pl.col("digits") != "")
        right = present & pl.col("digits").str.contains(r"^[0-9a-f]{1,16}$")
        reason = "a fingerprint is not up to 16 hex digits: that load is spread over its dataset's shards"
        _right_rows(source, frame, ~present | right, "bad-fingerprint", reason, problems)
        padded = pl.col("digits").str.zfill(16)
        high = padded.str.slice(0, 8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
        low = padded.str.slice(8, 8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
        value = high * pl.lit(1 << 32, pl.UInt64) + low
        frame = frame.with_columns(pl.when(right).then(value).alias("fingerprint")).drop("digits")
    columns = [
        *_cleaned(frame["tenant"].fill_null(""), "tenant"),
        *_cleaned(frame["dataset"].fill_null(""), "dataset"),
    ]
    out = pl.DataFrame([*columns, frame["rate"].alias("bytes_per_s"), frame["fingerprint"].cast(pl.UInt64)])
    return tables.LOADS.frame(by_dataset(out))


def by_dataset(rows: pl.DataFrame) -> pl.DataFrame:
    """Add up the rows without a fingerprint by dataset: they are spread over its shards, however many they are."""
    spread = rows.filter(pl.col("fingerprint").is_null())
    if spread.is_empty():
        return rows
    whole = spread.group_by(["tenant", "tenant_hash", "dataset", "dataset_hash"], maintain_order=True).agg(
        pl.col("bytes_per_s").sum(), pl.col("fingerprint").first()
    )
    return pl.concat([rows.filter(pl.col("fingerprint").is_not_null()), whole.select(rows.columns)])


def _cleaned(texts: pl.Series, name: str) -> list[pl.Series]:
    """Clean ``texts`` for a terminal. Returns them, and the XXH64 (uint64) of each text that had to be changed, null for
    the others: placement hashes the bytes as written."""
    odd = texts.str.contains(r"[^ -~]") | (texts.str.len_bytes() > 4096)
    hashes = pl.Series(f"{name}_hash", [None], dtype=pl.UInt64).new_from_index(0, len(texts))
    shown = texts
    if odd.any():
        changed = {text: clean(text) for text in texts.filter(odd).unique().to_list() if clean(text) != text}
        if changed:
            shown = texts.replace(changed)
            hashes = texts.replace_strict({text: xxh64(text) for text in changed}, default=None, return_dtype=pl.UInt64)
    return [shown.alias(name), hashes.alias(f"{name}_hash")]
