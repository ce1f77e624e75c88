"""A result as Prometheus text, for the textfile collector of node_exporter: numbers go on to dashboards and alerts.

Sources: the OpenMetrics 1.0 specification (names, units, escapes, ``# EOF``) and node_exporter's page on its textfile collector,
which takes no times. Labels are few and bounded: never a partition, a query's text or a job; of long tables the first rows, and
the rest as ``other`` where they add up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from engine import __version__
from engine.core.exports import Gauge
from engine.core.reading import clean
from engine.core.view import LEVELS, Result, View

MOST = 20  # rows of a table, and findings, that get series of their own
OTHER = "other"  # value of the first label of the series that adds up the other rows


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def to_prometheus(view: View, result: Result, only: str | None = None) -> str:
    """Format the gauges that ``view`` declares (all, or those of table ``only``), findings, problems and the data's time."""
    families: list[tuple[str, str, list[tuple[Mapping[str, str], float]]]] = []
    gauges = [
        gauge for gauge in getattr(view, "gauges", ()) if gauge.table in result.names and only in (None, gauge.table)
    ]
    result = result.with_tables(gauge.table for gauge in gauges)
    for gauge in gauges:
        samples = list(_samples(gauge, result.tables[gauge.table]))
        families.append((f"loadlens_{gauge.name}", gauge.meaning, samples))
    families += _about(view, result)
    lines: list[str] = []
    for name, meaning, samples in families:
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_label_text(labels)} {_number(value)}" for labels, value in samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _samples(gauge: Gauge, frame: pl.DataFrame) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each series; labels that name several rows count once, as the first of them."""
    frame = _meant(gauge, frame)
    if frame.schema[gauge.column] == pl.Boolean or frame.schema[gauge.column].is_numeric():
        frame = frame.with_columns(pl.col(gauge.column).cast(pl.Float64))
    values = frame[gauge.column].to_list()
    texts = [frame[column].cast(pl.String).fill_null("").to_list() for column in gauge.labels.values()]
    seen: dict[tuple[str, ...], float] = {}
    rest, others = 0.0, 0
    for place, key in enumerate(zip(*texts, strict=True)):
        value = values[place]
        number = math.nan if value is None else float(value) * gauge.factor
        if gauge.each or len(seen) < MOST:
            seen.setdefault(tuple(clean(text, 200) for text in key), number)
        elif not math.isnan(number):
            rest, others = rest + number, others + 1
    for key, number in seen.items():
        if not math.isnan(number):  # what is unknown has no sample
            yield dict(zip(gauge.labels, key, strict=True)), number
    if others and gauge.adds:
        names = list(gauge.labels)
        labels = {name: OTHER if name == names[0] else "" for name in names}
        if tuple(labels.values()) not in seen:
            yield labels, rest


def _meant(gauge: Gauge, frame: pl.DataFrame) -> pl.DataFrame:
    if gauge.only is None:
        return frame
    column, wanted = gauge.only
    rank = pl.col(column).replace_strict(
        {name: n for n, name in enumerate(wanted)}, default=None, return_dtype=pl.Int64
    )
    ranked = frame.with_columns(rank.alias(" rank")).filter(pl.col(" rank").is_not_null())
    return ranked.filter(pl.col(" rank") == pl.col(" rank").min().over(next(iter(gauge.labels.values())))).drop(" rank")


def _about(view: View, result: Result) -> Iterable[tuple[str, str, list[tuple[Mapping[str, str], float]]]]:
    """Yield series of every view: findings by level, the worst of them by name, problems, the time of the data, the version."""
    of = {"view": view.name}
    counts = Counter(finding.level for finding in result.findings)
    levels = [level for level in LEVELS if level not in ("", "ok")]
    yield (
        "loadlens_findings",
        "Findings by level.",
        [({**of, "level": level}, float(counts[level])) for level in levels],
    )
    worst = sorted(result.findings, key=lambda finding: -LEVELS.index(finding.level))[:MOST]
    named = {(finding.level, clean(finding.subject, 200)): 1.0 for finding in worst}
    yield (
        "loadlens_finding_info", "The worst findings: what each is about.",
        [({**of, "level": level, "subject": subject}, one) for (level, subject), one in named.items()],
    )  # fmt: skip
    yield "loadlens_problems", "Problems in the input.", [(of, float(len(result.problems)))]
    if result.newest_ms is not None:
        yield "loadlens_data_timestamp_seconds", "When the newest input was written.", [(of, result.newest_ms / 1000)]
    yield "loadlens_build_info", "The program's version.", [({"version": __version__}, 1.0)]


def _label_text(labels: Mapping[str, str]) -> str:
    """Format labels; empty ones are none."""
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items() if value != ""]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
