"""Result tables of the model, of the regression and of Cruise Control's own answers, and what the screen draws beyond tables."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import cluster_model, goals, regression
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster, broker_columns
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.cruise_control.regression import Training
from engine.broker_load.cruise_control.windows import EXTRAPOLATIONS
from engine.broker_load.insight import answer_differences, corrected_loads, data_quality, fitted_weights, rollup
from engine.broker_load.insight.answer_differences import MODEL, SHARED
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model import cluster_facts, ticks
from engine.broker_load.model.measured import Observations, cpu_trend
from engine.broker_load.model.topology import Floats, across, any_of
from engine.broker_load.parameters import BrokerLoadParameters, CpuWeights
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables import loads as tables
from engine.broker_load.tables import verdicts
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.inputs import ANSWER_GOALS
from engine.broker_load.tables.loads import BROKERS, DIRECTORIES, REPLICAS
from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.broker_load.tables.verdicts import DIFFERENCES
from engine.core.view import Context, Finding, Inputs


def add_model(
    inputs: Inputs,
    model: Model,
    cluster: Cluster,
    parameters: BrokerLoadParameters,
    frames: dict[str, pl.DataFrame],
    context: Context,
) -> list[Verdict]:
    """Add the tables of ``cluster`` to ``frames``; return the verdicts of the goals."""
    frames["brokers"] = _brokers(model, cluster, parameters)
    removed = (
        corrected_loads.removed(model.topology, cluster.loads, model.measured.cpu)
        if parameters.mode == "regression"
        else None
    )
    frames["replicas"] = _replicas(model, cluster, removed)
    context.check()
    frames["partitions"] = _partitions(model, cluster)
    frames["samples"] = _samples(model, parameters.max_rows)
    windows = _windows(model, parameters.max_rows)
    if windows is not None:
        frames["windows"] = windows
    context.check()
    decided = goals.verdicts(cluster, parameters)
    frames["goals"] = verdicts.GOALS.frame(
        {name: [getattr(verdict, name) for verdict in decided] for name in verdicts.GOALS.schema}
    )
    frames["balance"] = goals.table(cluster, parameters)
    statistics = cluster_model.statistics(cluster)
    frames["cluster_stats"] = verdicts.STATS.frame(
        {"statistic": list(statistics)}
        | {c.name: [values.get(c.name) for values in statistics.values()] for c in verdicts.STATS.columns[1:]}
    )
    frames["hosts"] = cluster_model.hosts(cluster)
    frames["racks"] = rollup.racks(cluster)
    frames["directories"] = rollup.table(inputs, model.topology, model.capacities, model.at_ms)
    reported = cluster_facts.topic_totals(cluster_facts.facts(inputs, model.at_ms))
    frames["topics"] = rollup.topics(cluster, reported)
    frames["broker_samples"] = _broker_samples(model, parameters.max_rows)
    frames["skipped"] = data_quality.skipped(model)
    frames["ledger"] = data_quality.ledger(inputs, model, parameters.interval_ms, context)
    context.check()
    _blank(frames, cluster)
    return decided


_OF_RESOURCE = {
    "CPU": ("cpu_", "gini_cpu", "top_share_cpu"),
    "NW_IN": ("nw_in_", "leader_nw_in_", "follower_nw_in_", "msg_in"),
    "NW_OUT": ("nw_out_", "pnw_out_"),
    "DISK": ("disk_mb", "disk_pct", "disk_share"),
}
"""Beginnings of the columns that hold the load of a resource."""
_KEPT = ("cpu_trend", "nw_in_cap_kbs", "nw_out_cap_kbs")


def _blank(frames: dict[str, pl.DataFrame], cluster: Cluster) -> None:
    """Set unknown loads to null: those of resources that no input tells, and those of brokers without series."""
    unknown = RESOURCES if cluster.lacking else tuple(cluster.unknown)
    if not unknown:
        return
    starts = tuple(start for resource in unknown for start in _OF_RESOURCE[resource])
    brokers, partitions = frames["brokers"], frames["partitions"]
    dark = brokers.filter(pl.col("broker").is_in(list(cluster.lacking)))
    led = partitions.filter(pl.col("leader").is_in(list(cluster.lacking)))
    name = pl.concat_str("topic", pl.lit("-"), "partition")
    where = {
        "brokers": pl.col("broker").is_in(list(cluster.lacking)),
        "hosts": pl.col("host").is_in(dark["host"].to_list()),
        "racks": pl.col("rack").is_in(dark["rack"].to_list()),
        "topics": pl.col("topic").is_in(led["topic"].unique().to_list()),
        "replicas": name.is_in(led.select(name).to_series().to_list()),
        "partitions": pl.col("leader").is_in(list(cluster.lacking)),
        "cluster_stats": pl.lit(True),
    }
    for table, rows in where.items():
        columns = [column for column in frames[table].schema if column.startswith(starts) and column not in _KEPT]
        gone = rows if cluster.lacking and not cluster.unknown else pl.lit(True)
        frames[table] = frames[table].with_columns(pl.when(~gone).then(column).alias(column) for column in columns)
    if cluster.lacking:  # the distance to a threshold is known only of a load that is over it already
        nearest = [
            pl.when(pl.col("headroom_pct") < 0).then(column).alias(column) for column in ("headroom_pct", "tightest")
        ]
        frames["brokers"] = frames["brokers"].with_columns(nearest)


def _brokers(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> pl.DataFrame:
    trend = cpu_trend(
        [one.runs if one is not None else () for one in model.used], model.topology, model.capacities.cores
    )
    measured, residual = data_quality.cpu_residuals(model, cluster)
    columns = broker_columns(cluster, cluster.sums)
    everyone = np.ones(cluster.topology.brokers, np.bool_)
    raw = {resource: cluster.sums.raw(resource) for resource in RESOURCES}
    tightest, headroom = data_quality.tightest(cluster, raw, everyone, parameters)
    columns |= {
        "headroom_pct": known("h", headroom),
        "tightest": tightest,
        "flags": data_quality.flags(model, cluster, parameters),
        "measured_cpu_pct": known("m", measured),
        "residual_cpu_pct": known("r", residual),
        "residual_reason": data_quality.residual_reasons(model, cluster, residual),
        "nw_in_cap_kbs": known("i", cluster.given("NW_IN")),
        "nw_out_cap_kbs": known("o", cluster.given("NW_OUT")),
        "disk_cap_mb": known("d", cluster.given("DISK")),
        "capacity_estimated": cluster.capacities.estimated,
        "source": ["model"] * cluster.topology.brokers,
        "cpu_trend": pl.Series("cpu_trend", trend, dtype=pl.List(pl.Float64)),
    }
    return tables.BROKERS.frame(columns)


def _replicas(model: Model, cluster: Cluster, removed: Floats | None) -> pl.DataFrame:
    """Return result table ``replicas``: by topic, partition, position."""
    topology, loads = cluster.topology, cluster.loads
    rows, position = np.nonzero(loads.held)
    held = loads.held

    def flat(value: Floats) -> Floats:
        picked = value[held]
        return np.where(np.isnan(picked), picked, np.maximum(picked, 0.0))

    sharing = corrected_loads.partitions_sharing(model)
    many, factor = sharing[rows], corrected_loads.factors(model, sharing)[rows]
    cpu, nw_in, nw_out = flat(loads.cpu), flat(loads.nw_in), flat(loads.nw_out)
    frame = pl.DataFrame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "broker": topology.ids[topology.replicas[held]],
            "position": position,
            "leader": loads.leads[held],
            "cpu_pct_cores": cpu,
            "disk_mb": flat(loads.disk),
            "nw_in_kbs": nw_in,
            "nw_out_kbs": nw_out,
            "split": many,
            **corrected_loads.bounds({"cpu{}": cpu, "nw_in{}_kbs": nw_in, "nw_out{}_kbs": nw_out}, many, factor),
            "offline": topology.offline_replicas[held],
            "source": pl.repeat("model", len(rows), eager=True),
            "cpu_removed_pct_cores": known("x", removed[held])
            if removed is not None
            else pl.repeat(None, len(rows), dtype=pl.Float64, eager=True),
        }
    )
    return tables.REPLICAS.frame(frame)


def _partitions(model: Model, cluster: Cluster) -> pl.DataFrame:
    """Return result table ``partitions`` by topic and partition; one without a known leader or replicas shows its samples."""
    topology, loads, values = model.topology, cluster.loads, model.values
    led = any_of(loads.leads)
    bare = ~any_of(topology.held) & (topology.leader < 0)

    def of_leader(value: Floats, sampled: Floats) -> Floats:
        picked = np.where(bare, sampled, across(np.where(loads.leads, value, 0.0)))
        return np.asarray(np.where(np.isnan(picked), picked, np.maximum(picked, 0.0)), np.float64)

    cpu = of_leader(loads.cpu, values.cpu)
    nw_in = of_leader(loads.nw_in, values.bytes_in + values.replication_in)
    nw_out = of_leader(loads.nw_out, values.bytes_out + values.replication_out)
    messages = np.where(led | bare, np.maximum(values.messages, 0.0), 0.0)
    many = corrected_loads.partitions_sharing(model)
    return tables.PARTITIONS.frame(
        {
            "topic": topology.topic_names,
            "partition": topology.partition,
            "valid": model.aggregate.valid,
            "leader": topology.ids_of(topology.leader),
            "replicas": topology.replica_lists,
            "isr": topology.partition_lists(topology.isr),
            "cpu_pct_cores": cpu,
            "disk_mb": of_leader(loads.disk, values.disk),
            "nw_in_kbs": nw_in,
            "nw_out_kbs": nw_out,
            "msg_in": messages,
            "msg_measured": known("x", np.full(topology.size, np.nan) if model.messages is None else model.messages),
            "split": many,
            **corrected_loads.bounds(
                {"cpu{}": cpu, "nw_in{}_kbs": nw_in, "nw_out{}_kbs": nw_out, "msg_in{}": messages},
                many,
                corrected_loads.factors(model, many),
            ),
        }
    )


def _samples(model: Model, limit: int) -> pl.DataFrame:
    """Return result table ``samples``: at most ``limit`` rows, of the newest sampling intervals."""
    parts: list[pl.DataFrame] = []
    left = limit
    for taken in reversed(model.samples):
        if taken.taken > left:
            break
        left -= taken.taken
        parts.append(taken.frame)
    parts.reverse()
    if model.finished is not None and len(model.finished.partition) <= left:
        topology, finished = model.topology, model.finished
        columns: dict[str, Any] = {
            "topic": topology.topic_names.gather(finished.partition),
            "partition": topology.partition[finished.partition],
            "leader": topology.ids_of(topology.leader[finished.partition]),
            "time_ms": finished.time_ms,
        }
        columns |= {name: finished.values[place] for place, name in enumerate(SAMPLE)}
        parts.append(tables.SAMPLES.frame(columns))
        return pl.concat(parts).sort("time_ms", "topic", "partition", maintain_order=True)
    # Rounds are in order of time, partitions by topic and number: no sort is needed.
    return pl.concat(parts) if parts else tables.SAMPLES.empty()


def _broker_samples(model: Model, limit: int) -> pl.DataFrame:
    """Return result table ``broker_samples``: at most ``limit`` rows, of the newest sampling intervals."""
    parts: list[pl.DataFrame] = []
    for one in reversed(list(model.traces.values())):
        rows = 0
        for count in reversed(one.broker_counts):
            limit -= count
            if limit < 0:
                break
            rows += count
        parts.append(one.broker_samples.tail(rows))
        if limit < 0:
            break
    return pl.concat([tables.BROKER_SAMPLES.empty(), *reversed(parts)])


def _windows(model: Model, limit: int) -> pl.DataFrame | None:
    """Return result table ``windows``; None if it would have more than ``limit`` rows."""
    total, topology = model.aggregate, model.topology
    if topology.size * len(total.windows) > limit:
        return None
    if not total.windows:
        return tables.WINDOWS.empty()
    names = pl.Series("extrapolation", list(EXTRAPOLATIONS), dtype=pl.String)
    parts = []
    series = {name: total.series(name) for name in SAMPLE}
    for place, end in enumerate(total.ends_ms()):
        states = total.states[place]
        codes = np.zeros(topology.size, np.int8) if states is None else states
        columns: dict[str, Any] = {
            "topic": topology.topic_names,
            "partition": topology.partition,
            "window_end_ms": np.full(topology.size, end, np.int64),
        }
        columns |= {name: values[place].astype(np.float64) for name, values in series.items()}
        columns["extrapolation"] = names.gather(codes)
        parts.append(pl.DataFrame(columns))
    frame = pl.concat(parts)
    order = np.argsort(np.tile(np.arange(topology.size), len(parts)), kind="stable")
    return tables.WINDOWS.frame(frame[order])


def add_regression(observations: Observations, training: Training, fit: Fit, mode: str, builder: ResultBuilder) -> None:
    """Add tables ``regression`` and ``regression_coverage`` and their summary values."""
    shown: Training | Fit = training if mode == "upstream" else fit
    verdict = fit.verdict
    if mode == "upstream" and observations.size and not training.trained:
        verdict = f"{verdict}; Cruise Control's training stands at {training.completeness:.0%}"
    builder.frames["regression"] = verdicts.REGRESSION.frame(
        {
            "symbol": ["a", "b", "c"],
            "coefficient": list(shown.coefficients),
            "low": list(shown.low),
            "high": list(shown.high),
            "completeness": [training.completeness] * 3,
            "trained": [training.trained] * 3,
            "verdict": [verdict] * 3,
            "name": [regression.NAMES[symbol] for symbol in "abc"],
            "upstream": list(training.coefficients),
            "fitted": list(fit.coefficients),
            "condition": [fit.condition] * 3,
            "held_out_error": [fit.held_out] * 3,
        }
    )
    buckets, numbers = regression.bucket_of(observations.cpu), sorted(training.counts)
    builder.frames["regression_coverage"] = verdicts.COVERAGE.frame(
        {
            "bucket_low": [number * regression.BUCKET for number in numbers],
            "observed": [training.counts[number] for number in numbers],
            "used": [int((fit.chosen & (buckets == number)).sum()) for number in numbers],
            "fill": [min(training.counts[number], regression.REQUIRED) / regression.REQUIRED for number in numbers],
        }
    )
    builder.summary |= {
        "regression_trained": training.trained,
        "regression_completeness": training.completeness,
        "regression_verdict": fit.verdict,
        "observations": observations.size,
    }


class Detail(msgspec.Struct, frozen=True):
    """Data for plots: observed and predicted CPU [N] in %, and which observations the fit used; the ends (epoch ms, oldest first)
    of all windows with samples, and of the windows in the brokers' trend."""

    observed: tuple[float, ...]
    predicted: tuple[float, ...]
    used: tuple[bool, ...]
    window_ends: tuple[int, ...]
    trend_ends: tuple[int, ...]


def detail_of(
    inputs: Inputs,
    context: Context,
    model: Model | None,
    observations: Observations,
    fit: Fit,
    parameters: BrokerLoadParameters,
) -> Detail:
    """Return the detail of a result; ``model`` is None without topology and samples."""
    return Detail(
        tuple(observations.cpu.tolist()),
        tuple(fitted_weights.predict(observations, fit.coefficients).tolist()),
        tuple(bool(used) for used in fit.chosen.tolist()),
        _window_ends(inputs, context, parameters) if model is not None else (),
        tuple(window.index * model.aggregate.window_ms for window in reversed(model.aggregate.windows))
        if model
        else (),
    )


def _window_ends(inputs: Inputs, context: Context, parameters: BrokerLoadParameters) -> tuple[int, ...]:
    """Return the ends (epoch ms) of all windows with samples, also after the moment looked at."""
    window = parameters.window_ms
    # A round is as old as its newest tick; the first tick of running totals alone gives no round.
    rated = ticks.of(inputs, context).filter(~pl.col("counter") | (pl.col("time_ms") > pl.col("time_ms").min()))
    newest = rated.group_by(pl.col("time_ms") // parameters.interval_ms).agg(pl.col("time_ms").max().alias("newest"))
    times = [newest["newest"], inputs.table("finished_samples")["time_ms"]]
    return tuple(sorted({(moment // window + 1) * window for part in times for moment in part.unique().to_list()}))


def add_answers(inputs: Inputs, has_loads: bool, builder: ResultBuilder, weights: CpuWeights) -> None:
    """Add the answers' rows to ``brokers``, ``replicas`` and ``directories``, and the table of differences.

    ``has_loads``: the model has loads to compare the answers with.
    """
    answers, records, frames = inputs.table("answer_brokers"), inputs.table("answer_partitions"), builder.frames
    ours = frames.get("brokers", BROKERS.empty())
    if answers.height:
        shown = answer_differences.one_per_broker(answers)
        capacities = ("nw_in_cap_kbs", "nw_out_cap_kbs", "disk_cap_mb")
        source = pl.lit("upstream").alias("source")
        shown = shown.with_columns(
            pl.when(pl.col("disk_pct") >= 0).then("disk_pct")
        )  # -1 is Cruise Control's "unknown"
        rows = BROKERS.frame(shown.select("broker", "host", "rack", "state", *SHARED, *capacities, source))
        frames["brokers"] = BROKERS.sorted(pl.concat([ours, rows]))
        dirs = answer_differences.directories(inputs, shown)
        if dirs.height:
            names = [name for name in DIRECTORIES.schema if name in dirs.columns]
            every = [frames.get("directories", DIRECTORIES.empty()), DIRECTORIES.frame(dirs.select(*names, source))]
            frames["directories"] = DIRECTORIES.sorted(pl.concat(every))
    if records.height:
        frames["replicas"] = pl.concat(
            [frames.get("replicas", REPLICAS.empty()), answer_differences.replicas(records, weights)]
        )
    if answers.height or records.height:
        differences = answer_differences.find(inputs, ours if has_loads else None)
        frames["answer_differences"] = DIFFERENCES.frame(
            pl.DataFrame(differences, schema=DIFFERENCES.schema, orient="row")
        )
        builder.notes.append(
            f"Cruise Control answers are shown as source upstream; {len(differences)} of their numbers differ"
        )
        internal = [difference for difference in differences if difference[5] != MODEL]
        if internal:
            builder.findings.append(
                Finding("moderate", "Cruise Control answer", f"{len(internal)} numbers contradict its own others")
            )
    goals = inputs.table("answer_goals")
    if goals.height:
        frames["answer_goals"] = ANSWER_GOALS.frame(goals.select(list(ANSWER_GOALS.schema)))
