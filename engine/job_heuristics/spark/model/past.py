"""A log as it was at a moment."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from engine.job_heuristics.spark.tables.input import SPARK_TASK_STARTS

_TIMES = {
    "spark_events": "time_ms", "spark_jobs": "time_ms", "spark_executors": "time_ms", "spark_task_starts": "launch_ms",
    "spark_task_ends": "finish_ms", "spark_sql": "time_ms",
}  # fmt: skip
"""Column that says when a row was written, by input table."""


def until(frames: Mapping[str, pl.DataFrame], at_ms: int) -> dict[str, pl.DataFrame]:
    """Return the rows in front of the first event later than ``at_ms``; tasks that end later run."""
    later = [
        frame.filter(pl.col(_TIMES[name]) > at_ms)["seq"].min() for name, frame in frames.items() if name in _TIMES
    ]
    stages = frames["spark_stages"]
    for word, column in (("SUBMITTED", "submit_ms"), ("COMPLETED", "complete_ms")):
        later.append(stages.filter((pl.col("event") == word) & (pl.col(column) > at_ms))["seq"].min())
    places = [place for place in later if isinstance(place, int)]
    if not places:
        return dict(frames)
    end = min(places)
    ends = frames["spark_task_ends"]
    open_tasks = ends.filter((pl.col("start_seq") < end) & (pl.col("seq") >= end)).with_columns(seq=pl.col("start_seq"))
    kept = {name: frame.filter(pl.col("seq") < end) for name, frame in frames.items()}
    columns = [name for name in SPARK_TASK_STARTS.schema.names() if name != "log"]
    kept["spark_task_starts"] = pl.concat([kept["spark_task_starts"].select(columns), open_tasks.select(columns)]).sort(
        "seq"
    )
    return kept
