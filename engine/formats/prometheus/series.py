"""Series in any form that Prometheus and its relatives hand out: recognised by content, read to one shape."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import Problem, Source, clean, fold
from engine.formats import json_text
from engine.formats.delimited import BOM, header_fields
from engine.formats.prometheus import answers, text
from engine.formats.timestamps import utc_text

FAMILIES = re.compile(
    r"(?i)^(?:kafka_|node_cpu|node_uname|process_cpu_seconds|java_lang_operatingsystem|container_cpu_usage|container_spec_cpu|"
    r"kube_pod_container_resource_limits|kubelet_volume_stats|redpanda_|vectorized_|kminion_|pg_stat_|ccp_pg_stat|pgwatch_|mysql_perf_schema|"
    r"pyroscope_|cortex_|loki_|tempo_)"
)
"""Prefixes of the metric names that views read; a test checks every view."""
MOST_AHEAD_MS = 3_600_000  # milliseconds that a sample may be later than its file, since clocks differ
_ENDINGS = (".json", ".jsonl", ".prom", ".om")
"""Name endings of saved answers: a page of HTML under such a name is a mistake."""
_HTML = re.compile(rb"^\s*<(?:!doctype\s+html|html|head|script|title|body|h1|a\s+href)", re.IGNORECASE)
_WORDS = re.compile(rb"^[A-Za-z0-9][^\n{}\[\]\"<>=,]*[A-Za-z][^\n{}\[\]\"<>=]*\s*$")
"""A line of words, as in a server's refusal: ``404 page not found``, ``no org id``."""
_SHORT = 2_000  # maximum bytes of a refusal
_FEW_KEYS = 5  # maximum keys of a refusal in JSON: a message, a code, a request id
_PROMTOOL = re.compile(rb"^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\{[^\n]*\} =>(?: |\s*\n)")
_GRAFANA = re.compile(rb'^(?:\xef\xbb\xbf)?"?Time"?,"?[^\n{]*\{[^\n]*=')


class SeriesFile(msgspec.Struct, frozen=True):
    """One file of series.

    ``series`` has a row for each, or (of tables, and of texts up to ``text.LARGE``) for each sample: ``metric`` (its name), one
    text column per asked label (null where it lacks it), ``line`` (1-based, null in JSON) and ``labels`` (all of them as text).
    ``points`` are in file order: ``series`` (row of ``series``), ``value`` (NaN and infinities as written), ``time_ms`` (null
    where the file gives none). ``cut``: the end is missing. ``answer``: a server's answer or export rather than an exposition.
    """

    series: pl.DataFrame
    points: pl.DataFrame
    problems: tuple[Problem, ...]
    cut: bool = False
    answer: bool = False

    @property
    def samples(self) -> pl.DataFrame:
        """``series`` by point, with ``value`` and ``time_ms``."""
        if self.points.height == self.series.height and not self.answer:
            return self.series.hstack(self.points.select("value", "time_ms"))
        return self.series[self.points["series"]].hstack(self.points.select("value", "time_ms"))


def looks_like(name: str, head: bytes) -> bool:
    """Return whether a file called ``name`` that begins with ``head`` holds series, or was meant to."""
    return answers.looks_like(head) or _is_table(head) or text.looks_like(head) or _instead(name, head) is not None


def read(source: Source, data: bytes, labels: Sequence[str], names: str) -> SeriesFile:
    """Read the series of a file whose names match ``names`` (regular expression in Rust's syntax).

    ``exported_x``, the server's name for a target's own label ``x``, counts as ``x``. Takes linear time; of a large answer only
    the points are held.
    """
    head = data[:8192]
    path = source.path
    if answers.looks_like(head):
        return _later(source, _of_answer(path, data, labels, names))
    if _is_table(head):
        return _later(source, _of_table(path, data, labels, names))
    if not text.looks_like(head):
        misfit = _instead(source.name, head)
        return _nothing(labels, [Problem.at(path, *misfit)] if misfit else [])
    return _later(source, _of_text(path, data, labels, names))


def is_text(data: bytes) -> bool:
    """Return whether a file of series is text with one sample per line, not an answer or an export."""
    head = data[:8192]
    return text.looks_like(head) and not answers.looks_like(head)


def host_of(instance: str) -> str:
    """Strip the port from an ``instance`` label."""
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdecimal() else instance


_OF_SERVER = r'(?:^|,)\s*(?:prometheus_replica|replica|__replica__|prometheus|monitor)\s*=\s*"[^"]*"'


def copies(series: pl.DataFrame, place: Sequence[str], file: SeriesFile) -> tuple[pl.Series, pl.DataFrame]:
    """Choose among series that measure the same thing (equal columns ``place``) but differ in other labels, as when two servers
    scrape one target.

    ``series``: some of the file's series, with their ``row`` in it. Returns which to keep (those with the most samples, else
    the first), and those left out without a label that names a server.
    """
    counts = np.bincount(file.points["series"].to_numpy(), minlength=file.series.height)
    counted = series.select(*place, "labels", "row", pl.Series("points", counts[series["row"].to_numpy()]))
    whole = pl.col("points").sum().over(*place, "labels")
    best = pl.col("labels").sort_by(whole, "row", descending=[True, False]).first().over(place)
    kept = counted.select(pl.col("labels") == best).to_series()
    others = series.filter(~kept)
    return kept, others.filter(~others["labels"].str.contains(_OF_SERVER))


def _of_text(path: str, data: bytes, labels: Sequence[str], names: str) -> SeriesFile:
    """Return the series of a text; labels of a large one are held once per series, not per sample."""
    wanted = (*labels, *(f"exported_{name}" for name in labels)) if b"exported_" in data else labels
    found, values = list[pl.DataFrame](), list[pl.DataFrame]()
    problems, count, cut = list[Problem](), 0, False
    for scrape in text.parts(path, data, wanted, names):
        samples = scrape.samples
        if wanted is not labels:
            samples = samples.with_columns(pl.coalesce(f"exported_{name}", name).alias(name) for name in labels)
        series = samples[["metric", *labels, "line", "labels"]]
        number = pl.int_range(count, count + samples.height, dtype=pl.UInt32, eager=True).alias("series")
        if len(data) > text.LARGE:
            series, number = _once(series, count)
        found.append(series)
        values.append(pl.DataFrame([number, samples["value"], samples["time_ms"]]))
        problems += scrape.problems
        count, cut = count + series.height, scrape.cut
    if len(found) == 1:
        return SeriesFile(found[0], values[0], tuple(problems), cut)
    series, number = _once(pl.concat(found), 0)
    every = pl.concat(values)
    return SeriesFile(series, every.with_columns(number.gather(every["series"]).alias("series")), fold(problems), cut)


def _once(series: pl.DataFrame, offset: int) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct rows of ``series``, and for every row its number among them, from ``offset`` on."""
    whole = ["metric", "labels"]
    single = series.unique(whole, keep="first", maintain_order=True)
    numbers = single.select(*whole, pl.int_range(offset, offset + pl.len(), dtype=pl.UInt32).alias("series"))
    return single, series.select(whole).join(numbers, on=whole, how="left", maintain_order="left")["series"]


def _of_answer(path: str, data: bytes, labels: Sequence[str], names: str) -> SeriesFile:
    def wanted(found: Sequence[str]) -> set[str]:
        every = pl.Series("names", found, dtype=pl.String)
        return set(every.filter(every.str.contains(names)).to_list())

    answer = answers.read(path, data, wanted)
    columns = {
        name: [clean(value) if (value := metric.get(f"exported_{name}", metric.get(name))) else None
               for metric in answer.metrics]
        for name in labels
    }  # fmt: skip
    series = pl.DataFrame(
        {
            "metric": [metric.get("__name__", "") for metric in answer.metrics],
            **columns,
            "line": [None] * len(answer.metrics),
            "labels": [
                ",".join(f'{key}="{clean(value)}"' for key, value in sorted(metric.items()) if key != "__name__")
                for metric in answer.metrics
            ],
        },
        schema={"metric": pl.String, **dict.fromkeys(labels, pl.String), "line": pl.UInt32, "labels": pl.String},
    )
    problems = list(answer.problems)
    unknown = [name for name in answer.names if not FAMILIES.match(name)]
    if unknown and len(unknown) == len(answer.names):
        count, examples = sum(answer.names.values()), ", ".join(clean(name, 80) for name in unknown[:3])
        reason = (
            f"0 of {count} series are of use: {examples}; loadlens feeds VIEW --prometheus URL prints what to ask for"
        )
        problems.append(Problem.at(path, "no-known-series", reason))
    if answer.empty and not problems:
        reason = (
            "the answer holds no series: the server has none with these names and labels in that time (correct the query, or "
            "delete the file)"
        )
        problems.append(Problem.at(path, "empty-answer", reason))
    if problems:
        problems += [Problem.at(path, "server-info", f"the server says: {info}") for info in answer.infos]
    return SeriesFile(series, answer.points(), tuple(problems), answer.cut, answer=True)


def _of_table(path: str, data: bytes, labels: Sequence[str], names: str) -> SeriesFile:
    frame, problems = _read_table(path, data, labels)
    if frame.is_empty():
        return _nothing(labels, problems)
    frame = frame.filter(pl.col("metric").str.contains(names))
    points = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("series"), "value", "time_ms")
    return SeriesFile(frame.select("metric", *labels, "line", "labels"), points, tuple(problems))


def _nothing(labels: Sequence[str], problems: Sequence[Problem]) -> SeriesFile:
    schema = {"metric": pl.String, **dict.fromkeys(labels, pl.String), "line": pl.UInt32, "labels": pl.String}
    points = pl.DataFrame(schema={"series": pl.UInt32, "value": pl.Float64, "time_ms": pl.Int64})
    return SeriesFile(pl.DataFrame(schema=schema), points, tuple(problems))


def _later(source: Source, file: SeriesFile) -> SeriesFile:
    """Add a problem if samples are later than the file: some clock is wrong."""
    times = file.points["time_ms"]
    limit = source.mtime_ms + MOST_AHEAD_MS
    newest = times.max()
    if source.mtime_ms <= 0 or not isinstance(newest, int) or newest <= limit or newest > 253_402_300_799_999:
        return file
    reason = (
        f"samples up to {utc_text(newest)} are later than the file ({utc_text(source.mtime_ms)}): the clock of the server or "
        "of this machine is wrong"
    )
    problem = Problem.at(source.path, "future-time", reason, count=int((times > limit).sum()))
    return SeriesFile(file.series, file.points, (*file.problems, problem), file.cut, file.answer)


def _instead(name: str, head: bytes) -> tuple[str, str] | None:
    """Return kind and reason of the problem with a file that was meant to hold series but holds something else; None if it was
    not meant to."""
    refusal = _refusal(name, head)
    found = (
        (name.endswith(_ENDINGS) and _HTML.match(head) and b"ring" not in head.lower(), "html-page",
         "a page of HTML in place of an answer: a proxy's login page, or a wrong address (curl -f shows errors)"),
        (refusal, "error-answer",
         f"the server refused to answer: {refusal} (correct the address or log in; curl -f leaves no file of it)"),
        (name.endswith(".csv") and _BARE.match(head), "no-header", NO_HEADER),
        (_PROMTOOL.match(head), "other-form",
         "the text that promtool query prints for people: ask with -o json, or by curl"),
        (name.endswith(".csv") and _GRAFANA.match(head), "other-form",
         "a table of Grafana has no names of series: ask Prometheus itself (loadlens feeds VIEW --prometheus URL)"),
        (name == "meta.json" and b'"ulid"' in head and b'"minTime"' in head, "other-form",
         "a block of Prometheus' own files is not read: promtool tsdb dump FOLDER > series.txt writes its samples"),
    )  # fmt: skip
    return next(((kind, reason) for applies, kind, reason in found if applies), None)


def _refusal(name: str, head: bytes) -> str:
    """Return the saved words of a server or proxy that refused to answer; "" for other files."""
    if not name.endswith(_ENDINGS[:2]) or len(head) > _SHORT:
        return ""
    if _WORDS.match(head) and head.strip() not in (b"true", b"false", b"null"):
        return clean(head.decode("utf-8", "replace").strip(), 200)
    try:
        found = msgspec.json.decode(head, type=dict[str, str | int | float | bool | None])
    except json_text.ERRORS:
        return ""
    said = next((found[key] for key in ("error", "message") if isinstance(found.get(key), str)), "")
    return clean(str(said), 200) if len(found) <= _FEW_KEYS else ""


# --- CSV exports of VictoriaMetrics ----------------------------------------------------------------------------------


_VALUE, _TIME = "__value__", "__timestamp__"
_UNITS = {"unix_s": 1000.0, "unix_ms": 1.0, "unix_ns": 1e-6}
_BARE = re.compile(rb"(?m)^[a-zA-Z_:][a-zA-Z0-9_:.]*,(?:[^\n,]*,){1,40}[-+0-9.eENaInf]+,\d{10,19}\r?$")

NO_HEADER = (
    "a CSV export without the header line cannot be read: ask with a version that prints the header, or /api/v1/export"
)
"""Reason and cure for exports of older versions."""


def _is_table(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is an export with its header line."""
    fields = header_fields(head)
    return _VALUE in fields and "__name__" in fields


def _read_table(path: str, data: bytes, labels: Sequence[str]) -> tuple[pl.DataFrame, list[Problem]]:
    """Read an export. Returns a frame of ``metric``, the asked labels (null where empty or missing), ``value``, ``time_ms``,
    ``line`` and ``labels`` (all of them as text), and its problems."""
    data = data.removeprefix(BOM)
    header = header_fields(data[: data.find(b"\n") + 1 or None])
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
