"""Cruise Control's own answers beside the model: shown, re-derived, differences flagged."""

from __future__ import annotations

import math

import polars as pl

from engine.broker_load import tables
from engine.broker_load.cruise_control.cluster import Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.parameters import Weights
from engine.broker_load.result.result_builder import Draft
from engine.inputs import Inputs
from engine.result import Finding

_PRINTED = 0.006
"""Half of the last decimal that the Python client prints, and a little."""
_RELATIVE = 1e-4
_ORDER = {"load": 0, "loadBeforeOptimization": 1, "loadAfterOptimization": 2, "kafka_cluster_state": 3}
_SHARED = (
    "cores", "cpu_pct", "disk_mb", "disk_pct", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs",
    "leaders", "replicas",
)  # fmt: skip


def add(
    inputs: Inputs,
    built: Model | None,
    chosen: Cluster | None,
    draft: Draft,
    weights: Weights,
) -> None:
    """Add upstream's rows to ``brokers`` and ``replicas``, and the table of differences."""
    given = inputs.table("answer_brokers")
    records = inputs.table("answer_partitions")
    differences: list[tuple[str, str, str, float, float, str]] = []
    if given.height:
        shown = _chosen(given)
        ours = draft.frames.get("brokers", tables.BROKERS.empty())
        rows = tables.BROKERS.frame(
            shown.select(
                "broker", "host", "rack", "state", *_SHARED, "nw_in_cap_kbs", "nw_out_cap_kbs", "disk_cap_mb",
                pl.lit("upstream").alias("source"),
            )
        )  # fmt: skip
        draft.frames["brokers"] = tables.BROKERS.sorted(pl.concat([ours, rows]))
        _rederive(given, differences)
        _hosts(given, inputs.table("answer_hosts"), differences)
        _directories(inputs.table("answer_dirs"), shown, draft.frames, differences)
        if built is not None and chosen is not None and (built.rounds or built.finished is not None):
            _against_model(shown, ours, differences)
    if records.height:
        draft.frames["replicas"] = pl.concat(
            [draft.frames.get("replicas", tables.REPLICAS.empty()), _replicas(records, weights)]
        )
        if given.height:
            _against_records(given, records, differences)
    if given.height or records.height:
        differences.sort()
        draft.frames["answer_differences"] = tables.DIFFERENCES.frame(
            pl.DataFrame(
                differences,
                schema={
                    "answer": pl.String, "subject": pl.String, "value": pl.String, "given": pl.Float64,
                    "derived": pl.Float64, "basis": pl.String,
                },
                orient="row",
            )
        )  # fmt: skip
        draft.notes.append(
            f"Cruise Control answers are shown as source upstream; {len(differences)} of their numbers differ"
        )
        internal = [d for d in differences if d[5] != "the model"]
        if internal:
            draft.findings.append(
                Finding("moderate", "upstream answer", f"{len(internal)} numbers contradict its own others")
            )
    goals = inputs.table("answer_goals")
    if goals.height:
        draft.frames["answer_goals"] = tables.ANSWER_GOALS.frame(goals.select(list(tables.ANSWER_GOALS.schema)))


def _chosen(given: pl.DataFrame) -> pl.DataFrame:
    """One row per broker: of ``load`` if there is one, else of the state before, else after optimisation; the last
    file read wins."""
    rank = pl.col("answer").replace_strict(_ORDER, default=9, return_dtype=pl.Int32)
    return (
        given.with_row_index("_row")
        .with_columns(rank.alias("_rank"))
        .sort("broker", "_rank", "_row", descending=[False, False, True])
        .unique("broker", keep="first", maintain_order=True)
    )


def _note(
    out: list[tuple[str, str, str, float, float, str]],
    place: tuple[str, str, str],
    given: float | None,
    derived: float | None,
    basis: str,
    absolute: float = _PRINTED,
) -> None:
    if given is None or derived is None or (math.isnan(given) and math.isnan(derived)):
        return
    if not abs(given - derived) <= absolute + _RELATIVE * max(abs(given), abs(derived)):
        out.append((*place, float(given), float(derived), basis))


def _rederive(given: pl.DataFrame, out: list[tuple[str, str, str, float, float, str]]) -> None:
    """Percentages from loads and capacities; potential network out is never below network out."""
    for row in given.iter_rows(named=True):
        subject = f"broker {row['broker']}"
        if row["disk_cap_mb"] and row["disk_mb"] is not None and row["state"] != "DEAD":
            derived = 100.0 * row["disk_mb"] / row["disk_cap_mb"]
            _note(out, (row["answer"], subject, "disk_pct"), row["disk_pct"], derived, "disk and its capacity")
        if row["nw_out_kbs"] is not None and row["pnw_out_kbs"] is not None and row["pnw_out_kbs"] < row["nw_out_kbs"] * (
            1 - _RELATIVE) - _PRINTED:  # fmt: skip
            _note(
                out,
                (row["answer"], subject, "pnw_out_kbs"),
                row["pnw_out_kbs"],
                row["nw_out_kbs"],
                "at least network out",
            )
        if row["leaders"] is not None and row["replicas"] is not None and row["leaders"] > row["replicas"]:
            _note(out, (row["answer"], subject, "leaders"), row["leaders"], row["replicas"], "at most the replicas")


def _hosts(given: pl.DataFrame, hosts: pl.DataFrame, out: list[tuple[str, str, str, float, float, str]]) -> None:
    """A host's numbers are the sums of its brokers', also of the CPU percentage."""
    for (file, answer, name), part in hosts.partition_by(
        ["file", "answer", "host"], as_dict=True, maintain_order=True
    ).items():
        brokers = given.filter((pl.col("file") == file) & (pl.col("answer") == answer) & (pl.col("host") == name))
        if not brokers.height:
            continue
        row = part.row(0, named=True)
        for value in (
            "cpu_pct",
            "disk_mb",
            "leader_nw_in_kbs",
            "follower_nw_in_kbs",
            "nw_out_kbs",
            "leaders",
            "replicas",
        ):
            if brokers[value].null_count() == 0:
                slack = _PRINTED * (brokers.height + 1)
                total = float(brokers[value].sum())
                _note(out, (str(answer), f"host {name}", value), row[value], total, "sum of its brokers", slack)


def _directories(
    given: pl.DataFrame,
    shown: pl.DataFrame,
    frames: dict[str, pl.DataFrame],
    out: list[tuple[str, str, str, float, float, str]],
) -> None:
    """Log directories of the answers shown, and whether a broker's disk is the sum of its directories'."""
    rows = given.join(shown.select("broker", "answer", "file"), on=["broker", "answer", "file"], maintain_order="left")
    if not rows.height:
        return
    names = [name for name in tables.DIRECTORIES.schema if name in rows.columns]
    found = tables.DIRECTORIES.frame(rows.select(*names, pl.lit("upstream").alias("source")))
    every = pl.concat([frames.get("directories", tables.DIRECTORIES.empty()), found])
    frames["directories"] = tables.DIRECTORIES.sorted(every)
    sums = rows.group_by("broker").agg(pl.col("disk_mb").sum(), pl.col("error").is_not_null().any().alias("dead"))
    total = {broker: disk for broker, disk, dead in sums.iter_rows() if not dead}
    for row in shown.iter_rows(named=True):
        if row["broker"] in total:
            place = (row["answer"], f"broker {row['broker']}", "disk_mb")
            _note(out, place, row["disk_mb"], total[row["broker"]], "sum of its directories", 1.0)


def _against_records(
    given: pl.DataFrame, records: pl.DataFrame, out: list[tuple[str, str, str, float, float, str]]
) -> None:
    """Leader counts of ``load`` against a full ``partition_load``: only where the records cover all leaders."""
    load = _chosen(given.filter(pl.col("answer") == "load"))
    if not load.height or load["leaders"].null_count() or records.height < int(load["leaders"].sum()):
        return
    counts = records.unique(["topic", "partition"]).group_by("leader").agg(pl.len(), pl.col("nw_in").sum())
    by = {leader: (count, into) for leader, count, into in counts.iter_rows()}
    for row in load.iter_rows(named=True):
        count, into = by.get(row["broker"], (0, 0.0))
        subject = f"broker {row['broker']}"
        _note(out, ("load", subject, "leaders"), row["leaders"], count, "partition_load")
        _note(out, ("load", subject, "leader_nw_in_kbs"), row["leader_nw_in_kbs"], into, "partition_load", 0.1)


def _against_model(shown: pl.DataFrame, ours: pl.DataFrame, out: list[tuple[str, str, str, float, float, str]]) -> None:
    """Every shared number of a broker against the model's."""
    model = {row["broker"]: row for row in ours.iter_rows(named=True)}
    for row in shown.iter_rows(named=True):
        mine = model.get(row["broker"])
        if mine is None:
            out.append((row["answer"], f"broker {row['broker']}", "broker", 1.0, 0.0, "the model"))
            continue
        for value in _SHARED:
            _note(out, (row["answer"], f"broker {row['broker']}", value), row[value], mine[value], "the model")


def _replicas(records: pl.DataFrame, weights: Weights) -> pl.DataFrame:
    """Leaders as the answer gives them (source upstream); their followers derived by upstream's rule (source derived)."""
    last = records.unique(["topic", "partition"], keep="last", maintain_order=True)
    leaders = last.select(
        "topic",
        "partition",
        pl.col("leader").alias("broker"),
        pl.lit(True).alias("leader"),
        pl.col("cpu").alias("cpu_pct_cores"),
        pl.col("disk").alias("disk_mb"),
        pl.col("nw_in").alias("nw_in_kbs"),
        pl.col("nw_out").alias("nw_out_kbs"),
        pl.lit("upstream").alias("source"),
    )
    into, out = pl.col("nw_in"), pl.col("nw_out")
    share = (
        pl.when((into == 0) & (out == 0)).then(0.0).otherwise(weights.c * into / (weights.a * into + weights.b * out))
    )
    followers = (
        last.with_columns((pl.col("cpu") * share).alias("_cpu"))
        .explode("followers", empty_as_null=False)
        .select(
            "topic",
            "partition",
            pl.col("followers").alias("broker"),
            pl.lit(False).alias("leader"),
            pl.col("_cpu").alias("cpu_pct_cores"),
            pl.col("disk").alias("disk_mb"),
            pl.col("nw_in").alias("nw_in_kbs"),
            pl.lit(0.0).alias("nw_out_kbs"),
            pl.lit("derived").alias("source"),
        )
    )
    both = pl.concat([leaders, followers]).sort(
        "topic", "partition", "source", "broker", descending=[False, False, True, False]
    )
    return tables.REPLICAS.frame(both)
