"""All result tables of the model, in the order in which they are made."""

from __future__ import annotations

import polars as pl

from engine.broker_load.cruise_control import balance, broker_stats, cluster_model, goals
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import corrected_loads, data_quality, log_directories, rollup
from engine.broker_load.model import cluster_facts
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.result import broker_tables, partition_tables
from engine.broker_load.tables import verdicts
from engine.core.inputs import Inputs
from engine.core.view import Context


def add(
    inputs: Inputs,
    model: Model,
    cluster: Cluster,
    parameters: BrokerLoadParameters,
    frames: dict[str, pl.DataFrame],
    context: Context,
) -> list[Verdict]:
    """Add to ``frames`` what the model tells of ``cluster``; returns the verdicts of the goals."""
    frames["brokers"] = broker_tables.brokers(model, cluster, parameters)
    removed = None
    if parameters.mode == "regression":
        removed = corrected_loads.removed(model.topology, cluster.loads, model.measured.cpu)
    frames["replicas"] = partition_tables.replicas(model, cluster, removed)
    context.check()
    frames["partitions"] = partition_tables.partitions(model, cluster)
    frames["samples"] = partition_tables.samples(model, parameters.max_rows)
    windows = partition_tables.windows(model, parameters.max_rows)
    if windows is not None:
        frames["windows"] = windows
    context.check()
    decided = goals.verdicts(cluster, parameters)
    frames["goals"] = verdicts.GOALS.frame(
        {name: [getattr(verdict, name) for verdict in decided] for name in verdicts.GOALS.schema}
    )
    frames["balance"] = balance.table(cluster, parameters)
    statistics = cluster_model.statistics(cluster)
    frames["cluster_stats"] = verdicts.STATS.frame(
        {"statistic": list(statistics)}
        | {c.name: [values.get(c.name) for values in statistics.values()] for c in verdicts.STATS.columns[1:]}
    )
    frames["hosts"] = broker_stats.hosts(cluster)
    frames["racks"] = rollup.racks(cluster)
    frames["directories"] = log_directories.table(inputs, model.topology, model.capacities, model.at_ms)
    reported = cluster_facts.topic_totals(cluster_facts.facts(inputs, model.at_ms))
    frames["topics"] = rollup.topics(cluster, reported)
    frames["broker_samples"] = partition_tables.broker_samples(model, parameters.max_rows)
    frames["skipped"] = data_quality.skipped(model)
    frames["ledger"] = data_quality.ledger(inputs, model, parameters.interval_ms, context)
    context.check()
    return decided
