"""Cruise Control's answers beside the model: their loads, and numbers that contradict each other or the model."""

from __future__ import annotations

import math

import polars as pl

from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.loads import REPLICAS
from engine.core.view import Inputs

Difference = tuple[str, str, str, float, float, str]
"""Answer, subject, value, number given, number derived, and what it is derived from."""
MODEL = "the model"
"""Basis of differences between an answer and the model."""
_PRINTED = 0.006
"""Absolute tolerance: slightly more than half of the last decimal that the Python client prints."""
_RELATIVE = 1e-4
"""Relative tolerance: answers are in single precision and printed with few digits."""
_ORDER = {"load": 0, "loadBeforeOptimization": 1, "loadAfterOptimization": 2, "kafka_cluster_state": 3}
"""Preference of the answers that describe a broker, lowest first."""
SHARED = (
    "cores", "cpu_pct", "disk_mb", "disk_pct", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs",
    "leaders", "replicas",
)  # fmt: skip
"""Columns that broker rows of answers and of the model have in common."""


def find(inputs: Inputs, ours: pl.DataFrame | None) -> list[Difference]:
    """Return all differences, sorted; ``ours`` are the model's rows of result table ``brokers``, None without loads."""
    answers, records = inputs.table("answer_brokers"), inputs.table("answer_partitions")
    out: list[Difference] = []
    if answers.height:
        shown = one_per_broker(answers)
        _rederive(answers, out)
        _hosts(answers, inputs.table("answer_hosts"), out)
        _directories(shown, directories(inputs, shown), out)
        if ours is not None:
            _against_model(shown, ours, out)
        if records.height:
            _against_records(answers, records, out)
    return sorted(out)


def one_per_broker(answers: pl.DataFrame) -> pl.DataFrame:
    """Return one row per broker: from ``load``, else from the load before, else after optimisation; the last file read wins."""
    rank = pl.col("answer").replace_strict(_ORDER, default=9, return_dtype=pl.Int32)
    return (
        answers.with_row_index("_row")
        .with_columns(rank.alias("_rank"))
        .sort("broker", "_rank", "_row", descending=[False, False, True])
        .unique("broker", keep="first", maintain_order=True)
    )


def directories(inputs: Inputs, shown: pl.DataFrame) -> pl.DataFrame:
    """Return the log directories of the answers ``shown`` (as ``one_per_broker`` chooses them)."""
    rows = inputs.table("answer_dirs")
    return rows.join(shown.select("broker", "answer", "file"), on=["broker", "answer", "file"], maintain_order="left")


def _compare(
    out: list[Difference],
    place: tuple[str, str, str],
    stated: float | None,
    derived: float | None,
    basis: str,
    absolute: float = _PRINTED,
) -> None:
    """Add a difference to ``out`` unless the numbers agree within ``absolute`` and the relative tolerance."""
    if stated is None or derived is None or (math.isnan(stated) and math.isnan(derived)):
        return
    if not abs(stated - derived) <= absolute + _RELATIVE * max(abs(stated), abs(derived)):
        out.append((*place, float(stated), float(derived), basis))


def _rederive(answers: pl.DataFrame, out: list[Difference]) -> None:
    """Check percentages against loads and capacities, and that potential network out is never below network out."""
    for row in answers.iter_rows(named=True):
        subject = f"broker {row['broker']}"
        if row["disk_cap_mb"] and row["disk_mb"] is not None and row["state"] != "DEAD":
            derived = 100.0 * row["disk_mb"] / row["disk_cap_mb"]
            _compare(out, (row["answer"], subject, "disk_pct"), row["disk_pct"], derived, "disk and its capacity")
        if row["nw_out_kbs"] is not None and row["pnw_out_kbs"] is not None and row["pnw_out_kbs"] < row["nw_out_kbs"] * (
            1 - _RELATIVE) - _PRINTED:  # fmt: skip
            _compare(
                out,
                (row["answer"], subject, "pnw_out_kbs"),
                row["pnw_out_kbs"],
                row["nw_out_kbs"],
                "at least network out",
            )
        if row["leaders"] is not None and row["replicas"] is not None and row["leaders"] > row["replicas"]:
            _compare(out, (row["answer"], subject, "leaders"), row["leaders"], row["replicas"], "at most the replicas")


def _hosts(answers: pl.DataFrame, hosts: pl.DataFrame, out: list[Difference]) -> None:
    """Check that a host's numbers, also the CPU percentage, are the sums of its brokers'."""
    values = ("cpu_pct", "disk_mb", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "leaders", "replicas")
    place = ["file", "answer", "host"]
    sums = answers.group_by(place, maintain_order=True).agg(
        pl.len().alias("_brokers"),
        *(pl.when(pl.col(v).null_count() == 0).then(pl.col(v).sum().cast(pl.Float64)).alias(f"_{v}") for v in values),
    )
    both = hosts.unique(place, keep="first", maintain_order=True).join(sums, on=place, maintain_order="left")
    for row in both.iter_rows(named=True):
        slack = _PRINTED * (row["_brokers"] + 1)
        for value in values:
            subject = (str(row["answer"]), f"host {row['host']}", value)
            _compare(out, subject, row[value], row[f"_{value}"], "sum of its brokers", slack)


def _against_records(answers: pl.DataFrame, records: pl.DataFrame, out: list[Difference]) -> None:
    """Compare leader counts of ``load`` with ``partition_load``, if its records cover all leaders."""
    load = one_per_broker(answers.filter(pl.col("answer") == "load"))
    if not load.height or load["leaders"].null_count() or records.height < int(load["leaders"].sum()):
        return
    counts = records.unique(["topic", "partition"]).group_by("leader").agg(pl.len(), pl.col("nw_in").sum())
    by = {leader: (count, into) for leader, count, into in counts.iter_rows()}
    for row in load.iter_rows(named=True):
        count, into = by.get(row["broker"], (0, 0.0))
        subject = f"broker {row['broker']}"
        _compare(out, ("load", subject, "leaders"), row["leaders"], count, "partition_load")
        _compare(out, ("load", subject, "leader_nw_in_kbs"), row["leader_nw_in_kbs"], into, "partition_load", 0.1)


def _against_model(shown: pl.DataFrame, ours: pl.DataFrame, out: list[Difference]) -> None:
    """Compare every shared number of a broker with the model's."""
    model = {row["broker"]: row for row in ours.iter_rows(named=True)}
    for row in shown.iter_rows(named=True):
        mine = model.get(row["broker"])
        if mine is None:
            out.append((row["answer"], f"broker {row['broker']}", "broker", 1.0, 0.0, MODEL))
            continue
        for value in SHARED:
            _compare(out, (row["answer"], f"broker {row['broker']}", value), row[value], mine[value], MODEL)


def _directories(shown: pl.DataFrame, rows: pl.DataFrame, out: list[Difference]) -> None:
    """Check that a broker's disk is the sum of its directories', unless one of them is dead."""
    sums = rows.group_by("broker").agg(pl.col("disk_mb").sum(), pl.col("error").is_not_null().any().alias("dead"))
    total = {broker: disk for broker, disk, dead in sums.iter_rows() if not dead}
    for row in shown.iter_rows(named=True):
        if row["broker"] in total:
            place = (row["answer"], f"broker {row['broker']}", "disk_mb")
            _compare(out, place, row["disk_mb"], total[row["broker"]], "sum of its directories", 1.0)


def replicas(records: pl.DataFrame, weights: CpuWeights) -> pl.DataFrame:
    """Return leaders as given by the answer (source upstream) and followers by Cruise Control's rule (source derived)."""
    into, out = pl.col("nw_in"), pl.col("nw_out")
    ratio = weights.c * into / (weights.a * into + weights.b * out)
    share = pl.when((into == 0) & (out == 0)).then(0.0).otherwise(ratio)
    last = records.unique(["topic", "partition"], keep="last", maintain_order=True)
    leaders = last.with_columns(
        pl.col("leader").alias("broker"), pl.lit(True).alias("leader"), pl.lit("upstream").alias("source")
    )
    followers = last.explode("followers", empty_as_null=False).with_columns(
        pl.col("followers").alias("broker"),
        pl.lit(False).alias("leader"),
        pl.col("cpu") * share,
        pl.lit(0.0).alias("nw_out"),
        pl.lit("derived").alias("source"),
    )
    ours = {"cpu": "cpu_pct_cores", "disk": "disk_mb", "nw_in": "nw_in_kbs", "nw_out": "nw_out_kbs"}
    columns = ["topic", "partition", "broker", "leader", *ours, "source"]
    both = pl.concat([leaders.select(columns), followers.select(columns)]).rename(ours)
    order = ["topic", "partition", "source", "broker"]
    return REPLICAS.frame(both.sort(order, descending=[False, False, True, False]))
