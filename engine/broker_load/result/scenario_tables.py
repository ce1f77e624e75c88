"""Result tables of scenarios: demotion, reassignment, more brokers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.broker_stats import load_columns
from engine.broker_load.cruise_control.cluster_model import BrokerSums, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover, scenarios
from engine.broker_load.insight.broker_checks import breaches
from engine.broker_load.model.topology import Floats, Longs, Topology
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.reading.fields import text_of
from engine.broker_load.reading.kafka_json import read_plan
from engine.broker_load.result import failure_tables
from engine.broker_load.result.broker_tables import who
from engine.broker_load.result.result_builder import ResultBuilder, plural
from engine.broker_load.tables import inputs as input_tables
from engine.broker_load.tables import whatif
from engine.core.inputs import Inputs
from engine.core.problems import Problem


def add(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, builder: ResultBuilder
) -> None:
    """Add the tables of the what-if that ``parameters`` ask for."""
    if parameters.fail:
        failure_tables.add_failure(cluster, parameters, builder)
    if parameters.demote:
        _demote(cluster, parameters, builder)
    if parameters.reassignment is not None or parameters.apply_plan:
        _reassign(model, cluster, inputs, parameters, builder)
    if parameters.add_brokers:
        rows = scenarios.expansion_bounds(cluster, parameters.add_brokers)
        columns = {name: [row[name] for row in rows] for name in whatif.ADD_BROKERS.schema}
        builder.frames["add_brokers"] = whatif.ADD_BROKERS.frame(columns)


def _demote(cluster: Cluster, parameters: BrokerLoadParameters, builder: ResultBuilder) -> None:
    topology = cluster.topology
    marked, unknown = failover.select(topology, parameters.demote)
    for word in unknown:
        builder.notes.append(f"demote: no broker, rack or host is called {word!r}")
        builder.problems.append(Problem.at("-o demote", "bad-option", f"{word!r} is no broker, rack:NAME or host:NAME"))
    rows, new, sums = failover.demote(cluster, marked)
    states = [
        "DEMOTED" if gone and state == "ALIVE" else state
        for gone, state in zip(marked.tolist(), cluster.states, strict=True)
    ]
    after, changed = scenarios.demoted(topology, marked, rows, new)
    builder.frames["scenario_brokers"] = _brokers(cluster, sums, parameters, states)
    builder.frames["scenario_moves"] = _moves(topology, changed, after, np.zeros(len(changed)))
    stay = int(np.append(marked, False)[topology.leader].sum()) - len(rows)
    builder.notes.append(
        f"demotion moves {len(rows)} leaders" + (f"; {stay} have no other live replica" if stay else "")
    )


def _reassign(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, builder: ResultBuilder
) -> None:
    if parameters.reassignment is not None:
        rows, problems = read_plan(parameters.reassignment.name, text_of(parameters.reassignment.data))
        builder.problems.extend(problems)
        plan = input_tables.PLANS.frame(rows)
    else:
        plan = inputs.table("plans")
    plan = plan.filter(pl.col("plan") == "proposed").unique(["topic", "partition"], keep="last", maintain_order=True)
    topology = cluster.topology
    here = pl.DataFrame({"topic": topology.topic_names, "partition": topology.partition, "p": np.arange(topology.size)})
    known = plan.join(here, on=["topic", "partition"], how="inner", maintain_order="left")
    if known.height < plan.height:
        builder.notes.append(f"reassignment: {plural(plan.height - known.height, 'partition')} not in this cluster")
    if not known.height:
        builder.notes.append("reassignment: nothing to apply")
        return
    planned = dict(zip(known["p"].to_list(), known["replicas"].to_list(), strict=True))
    estimate, weights = parameters.allow_capacity_estimation, parameters.cpu_weights
    done = scenarios.reassign(model, cluster, planned, inputs.table("capacity"), estimate, weights)
    builder.notes.extend(
        f"reassignment: broker {number} is not known; its capacity is the default entry's, if any"
        for number in done.new_brokers
    )
    moved = done.cluster
    builder.frames["scenario_brokers"] = _brokers(moved, moved.sums, parameters, moved.states)
    builder.frames["scenario_moves"] = _moves(topology, done.rows, moved.topology, done.moved_mb)
    moved_mb = sum(done.moved_mb.tolist())
    builder.notes.append(
        f"reassignment of {plural(len(planned), 'partition')} moves {moved_mb:,.0f} MB; loads as in Cruise Control"
    )


def _brokers(
    cluster: Cluster, sums: BrokerSums, parameters: BrokerLoadParameters, states: Sequence[str]
) -> pl.DataFrame:
    everyone = np.ones(cluster.topology.brokers, np.bool_)
    columns = who(cluster) | load_columns(cluster, sums)
    columns["state"] = list(states)
    columns["breaches"] = breaches(cluster, sums, everyone, cluster.topology.alive, parameters)
    return whatif.SCENARIO_BROKERS.frame(columns)


def _moves(topology: Topology, rows: Longs, after: Topology, moved_mb: Floats) -> pl.DataFrame:
    return whatif.SCENARIO_MOVES.frame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "old_leader": topology.ids_of(topology.leader[rows]),
            "new_leader": after.ids_of(after.leader[rows]),
            "replicas": topology.replica_lists.gather(rows),
            "new_replicas": after.replica_lists.gather(rows),
            "moved_mb": moved_mb,
        }
    )
