"""Normalise rows so that they do not depend on the pieces in which a growing file was read."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def of_any_pieces(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the tables of one file with what depends on its pieces added up or left out.

    A matrix is as many rows as it has records; sums over what one reading saw are sums over all. Of a Spark application a
    reading gives only the tasks that it does not see end, the last plan of an execution, and the peaks of what it saw.
    """
    found = {name: _added(frame) for name, frame in frames.items()}
    if "spark_task_starts" in frames:
        found |= _spark(frames)
    return found


def _added(frame: pl.DataFrame) -> pl.DataFrame:
    lists = [column for column, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    if {"names", "values"} <= set(lists):
        records = []
        for row in frame.iter_rows(named=True):
            width = max(len(row["names"]), 1)
            records += [(*row["names"], *row["values"][at : at + width]) for at in range(0, len(row["values"]), width)]
        return pl.DataFrame({"record": [repr(record) for record in records]})
    if {"key", "calls", "time_us"} <= set(frame.columns):
        keys = [column for column, dtype in frame.schema.items() if not dtype.is_float()]
        return frame.group_by(keys).agg(pl.all().sum().round_sig_figs(9)).sort(keys)
    return frame


def _spark(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    ends, events, plans = frames["spark_task_ends"], frames["spark_events"], frames["spark_sql"]
    unknown, plan = pl.col("event") == "UNKNOWN", pl.col("event") == "PLAN"
    return {
        "spark_task_starts": frames["spark_task_starts"]
        .join(ends, on="task_id", how="anti").unique("task_id", keep="last").sort("seq"),
        "spark_task_ends": ends.drop("start_seq"),
        "spark_events": pl.concat(
            (
                events.filter(~unknown).sort("seq", maintain_order=True),
                events.filter(unknown).group_by("name").agg(pl.col("number").sum()).sort("name"),
            ),
            how="diagonal",
        ),
        "spark_sql": pl.concat(
            (plans.filter(~plan), plans.filter(plan).unique("execution", keep="last").sort("seq")), how="diagonal"
        ),
        "spark_peaks": frames["spark_peaks"].drop("seq").group_by("log", "executor").max().sort("executor"),
        "spark_sql_metrics": frames["spark_sql_metrics"].drop("seq").group_by("log", "accumulator").sum().sort("accumulator"),
    }  # fmt: skip
