"""Declare the tables of the run comparison: input tables of its readers, and result tables."""

from __future__ import annotations

import polars as pl

from engine.core.tables import Column, Table

MEASUREMENTS = Table(
    "measurements",
    "One measured value per row, of any tool",
    (
        Column("series", pl.String, "identity of what was measured, see engine.run_comparison.reading.series"),
        Column("value", pl.Float64, "the number as written, in the unit of the series; null where the file says null"),
        Column("count", pl.Int64, "requests behind the value; null: none given; -2^63: given, but not an integer"),
        Column("refused", pl.Boolean, "perf-tests' benchmark tool refuses the file that holds the value"),
        Column("run", pl.String, "run the value belongs to, where the file holds several; else null"),
        Column("time_ms", pl.Int64, "time of the value, where the file has one", "ms", "time_ms"),
    ),
)

RUN_FACTS = Table(
    "run_facts",
    "What files say about a whole run",
    (
        Column(
            "fact",
            pl.String,
            "started, finished, report, direction or note; what perf-tests' benchmark tool reads (upstream-start, "
            "upstream-success) and why it does not (refused-started, refused-finished); no-values: a report of its without any",
        ),
        Column("time_ms", pl.Int64, "start, end or report time", "ms", "time_ms"),
        Column("result", pl.String, "result as written, direction, start in epoch seconds or reason"),
    ),
)

_KEY = (
    Column(
        "test", pl.String, "test the metric belongs to; the report's name where the benchmark tool does not read it"
    ),
    Column("verb", pl.String, "API verb, benchmark or phase"),
    Column("resource", pl.String, "resource, pod/container or similar"),
    Column(
        "subresource", pl.String, "part of the resource that is asked for: log of pods, status of nodes", priority=3
    ),
    Column("scope", pl.String, "scope of the request", priority=3),
    Column("bucket", pl.String, "percentile or other statistic", priority=0),
    Column("unit", pl.String, "unit of the means", priority=2),
)

_METRIC_ORDER = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "kind", "metric")

METRICS = Table(
    "metrics",
    "One row per metric: both sides, the chosen mode's answer and why",
    (
        *_KEY,
        Column("n_left", pl.Int64, "values on the left", kind="count", priority=1),
        Column("n_right", pl.Int64, "values on the right", kind="count", priority=1),
        Column("mean_left", pl.Float64, "mean of the left values", kind="number", priority=1),
        Column("mean_right", pl.Float64, "mean of the right values", kind="number", priority=1),
        Column(
            "median_left", pl.Float64, "median of the left values, in the statistical mode", kind="number", priority=4
        ),
        Column("median_right", pl.Float64, "median of the right values", kind="number", priority=4),
        Column(
            "ratio",
            pl.Float64,
            "upstream and published mode: mean left / mean right; statistical mode: Hodges-Lehmann ratio right / left",
            kind="ratio",
            priority=0,
        ),
        Column("p_value", pl.Float64, "KS (upstream scheme ks) or Mann-Whitney (statistical mode)", kind="number"),
        Column("matched", pl.Boolean, "the ratio (or p) lies within the mode's limits", kind="flag", priority=0),
        Column("similarity", pl.Float64, "similarity score of published mode, 0 to 1", kind="number"),
        Column("ratio_low", pl.Float64, "lower bound of the ratio, confidence 1 - 2 alpha", kind="ratio"),
        Column("ratio_high", pl.Float64, "upper bound of the ratio, confidence 1 - 2 alpha", kind="ratio"),
        Column(
            "q_value", pl.Float64, "Mann-Whitney p adjusted over the comparison (Benjamini-Hochberg)", kind="number"
        ),
        Column(
            "verdict",
            pl.String,
            "different, equivalent (marked on screen if changed inside the margin), undecided or missing",
            priority=0,
        ),
        Column("changed", pl.Boolean, "the shift is significant, be it inside the margin or not", kind="flag"),
        Column("effect", pl.String, "worse, better or empty, by the direction of the metric", priority=1),
        Column(
            "regression",
            pl.Boolean,
            "it counts as a regression: different, and worse by at least worse-by",
            kind="flag",
            priority=4,
        ),
        Column("muted", pl.Boolean, "option mute names it: shown, never counted", kind="flag", priority=4),
        Column("direction", pl.String, "lower or higher is better", priority=4),
        Column("runs_needed", pl.Int64, "further runs per side for a decision", kind="count", priority=2),
        Column(
            "spread_p", pl.Float64, "Kolmogorov-Smirnov p, sensitive to spread and shape", kind="number", priority=4
        ),
        Column("spread_q", pl.Float64, "the same adjusted over the comparison", kind="number", priority=4),
        Column("cliffs_delta", pl.Float64, "P(left > right) - P(left < right)", kind="number", priority=4),
        Column("runs_left", pl.Int64, "runs behind the left values", kind="count", priority=4),
        Column("runs_right", pl.Int64, "runs behind the right values", kind="count", priority=4),
        Column(
            "upstream_matched",
            pl.Boolean,
            "whether the benchmark tool's scheme matches the same metric",
            kind="flag",
            title="benchmark tool",
            priority=3,
        ),
        Column(
            "disagree",
            pl.Boolean,
            "the benchmark tool's answer and the statistical verdict differ",
            kind="flag",
            priority=2,
        ),
        Column(
            "pooled",
            pl.Boolean,
            "the benchmark tool's pool of several metrics: shown, never counted",
            kind="flag",
            priority=4,
        ),
        Column("kind", pl.String, "kind of report", priority=4),
        Column("metric", pl.String, "further labels", priority=3),
        Column("evidence", pl.Float64, "size times evidence: |ln ratio| times -log10 q", kind="number", priority=5),
        Column("row", pl.Int64, "number of the metric in the detail of the result", kind="id", hidden=True, priority=9),
    ),
    key=_METRIC_ORDER,
    order=_METRIC_ORDER,
)

RUNS = Table(
    "runs",
    "One row per run found",
    (
        Column("job", pl.String, "job folder", priority=0),
        Column("run", pl.String, "run folder, or the file that is the run", priority=0, width=19),
        Column("number", pl.Int64, "run number where the folder is one; 64-bit", kind="id", hidden=True, priority=5),
        Column("time_ms", pl.Int64, "start of the run, else its end, its report or its files", "ms", "time_ms", "time"),
        Column("result", pl.String, "result as written; unfinished; empty where runs have none", priority=0),
        Column("side", pl.String, "left, right or empty", priority=0),
        Column("order", pl.Int64, "place on its side, newest first; null when not compared", kind="count", hidden=True),
        Column("files", pl.Int64, "report files read", kind="count"),
        Column("values", pl.Int64, "values read", kind="count"),
        Column("problems", pl.Int64, "things wrong in its files", kind="count"),
        Column(
            "influence", pl.Float64, "change of the matched share when this run is left out", kind="number", priority=2
        ),
        Column(
            "badness",
            pl.Float64,
            "how far its metrics lie from those of its side: the median, in robust standard deviations",
            kind="number",
            title="off by",
            priority=2,
        ),
        Column("outliers", pl.Float64, "share of its metrics beyond 3.5 robust deviations", kind="number", priority=3),
        Column("bad", pl.Boolean, "one bad run: it stands out in most metrics", kind="flag", priority=2),
    ),
    key=("job", "run"),
    order=("job", "-number", "run"),
)

MISSING = Table(
    "missing",
    "Metrics that one side lacks: listed, never counted as matched outside upstream mode",
    (
        *_KEY,
        Column("kind", pl.String, "kind of report", priority=4),
        Column("metric", pl.String, "further labels", priority=3),
        Column("side", pl.String, "the side that lacks it", priority=0),
        Column("n", pl.Int64, "values on the other side", kind="count"),
    ),
    key=_METRIC_ORDER,
    order=_METRIC_ORDER,
)

CHANGE_POINTS = Table(
    "change_points",
    "Where a metric's level changes along the common time axis of both sides, and along the runs of each job alone",
    (
        *_KEY,
        Column("metric", pl.String, "further labels", priority=3),
        Column("along", pl.String, "both sides, or the job whose runs alone are looked at", priority=1),
        Column("index", pl.Int64, "first point of the new level", kind="count", priority=0),
        Column("job", pl.String, "job of that run", priority=1),
        Column("run", pl.String, "first run of the new level", priority=0),
        Column("time_ms", pl.Int64, "time of that run", "ms", "time_ms", "time"),
        Column("mean_before", pl.Float64, "mean of the level before", kind="number"),
        Column("mean_after", pl.Float64, "mean of the level after", kind="number"),
        Column("change", pl.Float64, "relative change", kind="ratio", priority=0),
        Column("p_value", pl.Float64, "Student's t between the levels", kind="number"),
        Column("inside", pl.String, "side within which the level changes; between: it changes with the side"),
    ),
    key=("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric", "along", "index"),
    order=("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric", "along", "index"),
)

GROUPS = Table(
    "groups",
    "Verdicts by one label: a cause that metrics share shows as a group",
    (
        Column("by", pl.String, "the label", priority=2),
        Column("group", pl.String, "its value", priority=0),
        Column("metrics", pl.Int64, "metrics of the group", kind="count"),
        Column("different", pl.Int64, "of them different", kind="count", priority=0),
        Column("worse", pl.Int64, "of the different ones, for the worse", kind="count", priority=0),
        Column("equivalent", pl.Int64, "of them equivalent", kind="count"),
        Column("undecided", pl.Int64, "of them undecided", kind="count"),
        Column("missing", pl.Int64, "of them on one side only", kind="count"),
        Column("share", pl.Float64, "share matched, of those on both sides", kind="number", priority=1),
        Column("ratio", pl.Float64, "median ratio, as in the metrics table", kind="ratio", priority=1),
    ),
    key=("by", "group"),
    order=("-worse", "-different", "-metrics", "group"),
)
