"""Cruise Control's answers beside the model: their loads, and numbers that contradict each other or the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import polars as pl

from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.loads import REPLICAS
from engine.core.view import Inputs

Difference = tuple[str, str, str, float, float, str]
"""Answer, subject, value, number given, number derived, and what it is derived from."""
Check = tuple[tuple[str, str, str], float | None, float | None, str, float]
"""Answer, subject and value; number given, number derived, what it is derived from, and the absolute tolerance."""
MODEL = "the model"  # basis of differences between an answer and the model
_PRINTED = 0.006  # absolute tolerance: slightly more than half of the last decimal that the Python client prints
_BOUNDS = (
    ("pnw_out_kbs", max, "nw_out_kbs", "at least network out"),
    ("leaders", min, "replicas", "at most the replicas"),
)
_RELATIVE = 1e-4  # relative tolerance: answers are in single precision and printed with few digits
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
    if not answers.height:
        return []
    shown = one_per_broker(answers)
    checks = itertools.chain(
        _rederived(answers),
        _hosts(answers, inputs.table("answer_hosts")),
        _directories(shown, directories(inputs, shown)),
        _against_model(shown, ours) if ours is not None else (),
        _against_records(answers, records) if records.height else (),
    )
    return sorted(
        (*place, float(stated), float(derived), basis)
        for place, stated, derived, basis, absolute in checks
        if stated is not None and derived is not None and _differ(stated, derived, absolute)
    )


def _differ(stated: float, derived: float, absolute: float) -> bool:
    """Return whether two numbers differ by more than ``absolute`` and the relative tolerance."""
    if math.isnan(stated) and math.isnan(derived):
        return False
    return not abs(stated - derived) <= absolute + _RELATIVE * max(abs(stated), abs(derived))


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


def _rederived(answers: pl.DataFrame) -> Iterator[Check]:
    """Check percentages against loads and capacities, and that potential network out is never below network out."""
    for row in answers.iter_rows(named=True):
        answer, subject = row["answer"], f"broker {row['broker']}"
        if row["disk_cap_mb"] and row["disk_mb"] is not None and row["state"] != "DEAD":
            derived = 100.0 * row["disk_mb"] / row["disk_cap_mb"]
            yield (answer, subject, "disk_pct"), row["disk_pct"], derived, "disk and its capacity", _PRINTED
        for value, bound, of, basis in _BOUNDS:
            if row[value] is not None and row[of] is not None:
                yield (answer, subject, value), row[value], bound(row[value], row[of]), basis, _PRINTED


def _hosts(answers: pl.DataFrame, hosts: pl.DataFrame) -> Iterator[Check]:
    """Check that a host's numbers, also the CPU percentage, are the sums of its brokers'."""
    values = ("cpu_pct", "disk_mb", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "leaders", "replicas")
    place = ["file", "answer", "host"]
    sums = answers.group_by(place, maintain_order=True).agg(
        pl.len().alias("_brokers"),
        *(pl.when(pl.col(v).null_count() == 0).then(pl.col(v).sum().cast(pl.Float64)).alias(f"_{v}") for v in values),
    )
    both = hosts.unique(place, keep="first", maintain_order=True).join(sums, on=place, maintain_order="left")
    for row in both.iter_rows(named=True):
        slack, subject = _PRINTED * (row["_brokers"] + 1), f"host {row['host']}"
        for value in values:
            yield (str(row["answer"]), subject, value), row[value], row[f"_{value}"], "sum of its brokers", slack


def _against_records(answers: pl.DataFrame, records: pl.DataFrame) -> Iterator[Check]:
    """Compare leader counts of ``load`` with ``partition_load``, if its records cover all leaders."""
    load = one_per_broker(answers.filter(pl.col("answer") == "load"))
    if not load.height or load["leaders"].null_count() or records.height < int(load["leaders"].sum()):
        return
    counts = records.unique(["topic", "partition"]).group_by("leader").agg(pl.len(), pl.col("nw_in").sum())
    by = {leader: (count, into) for leader, count, into in counts.iter_rows()}
    for row in load.iter_rows(named=True):
        count, into = by.get(row["broker"], (0, 0.0))
        subject = f"broker {row['broker']}"
        yield ("load", subject, "leaders"), row["leaders"], count, "partition_load", _PRINTED
        yield ("load", subject, "leader_nw_in_kbs"), row["leader_nw_in_kbs"], into, "partition_load", 0.1


def _against_model(shown: pl.DataFrame, ours: pl.DataFrame) -> Iterator[Check]:
    """Compare every shared number of a broker with the model's."""
    model = {row["broker"]: row for row in ours.iter_rows(named=True)}
    for row in shown.iter_rows(named=True):
        answer, subject, mine = row["answer"], f"broker {row['broker']}", model.get(row["broker"], {})
        yield (answer, subject, "broker"), 1.0, float(bool(mine)), MODEL, _PRINTED
        for value in SHARED if mine else ():
            yield (answer, subject, value), row[value], mine[value], MODEL, _PRINTED


def _directories(shown: pl.DataFrame, rows: pl.DataFrame) -> Iterator[Check]:
    """Check that a broker's disk is the sum of its directories', unless one of them is dead."""
    sums = rows.group_by("broker").agg(pl.col("disk_mb").sum(), pl.col("error").is_not_null().any().alias("dead"))
    total = {broker: disk for broker, disk, dead in sums.iter_rows() if not dead}
    for row in shown.iter_rows(named=True):
        place = (row["answer"], f"broker {row['broker']}", "disk_mb")
        yield place, row["disk_mb"], total.get(row["broker"]), "sum of its directories", 1.0


def replicas(records: pl.DataFrame, weights: CpuWeights) -> pl.DataFrame:
    """Return leaders as given by the answer (source upstream) and followers by Cruise Control's rule (source derived)."""
    into, out = pl.col("nw_in"), pl.col("nw_out")
    share = (
        pl.when((into == 0) & (out == 0)).then(0.0).otherwise(weights.c * into / (weights.a * into + weights.b * out))
    )
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
    return REPLICAS.frame(both.sort(["topic", "partition", "source", "broker"], descending=[False, False, True, False]))
