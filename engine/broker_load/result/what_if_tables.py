"""Result tables of failures and what-if: every single failure, the brokers that fail, demotion, reassignment, more brokers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster, broker_columns, load_columns
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover, scenarios
from engine.broker_load.insight.data_quality import breaches
from engine.broker_load.insight.failover import Aftermath
from engine.broker_load.model.topology import Floats, Ints, Longs, Topology
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.reading.fields import text_of
from engine.broker_load.reading.kafka_tools import read_plan
from engine.broker_load.result.result_builder import ResultBuilder, plural
from engine.broker_load.tables import inputs as input_tables
from engine.broker_load.tables import whatif
from engine.core.reading import Problem
from engine.core.view import Finding, Headline, Inputs, Level

_OUTCOME = ("moved", "leaderless", "under_min_isr", "over", "newly_over", "survivable")
"""Columns of a failure that the summary repeats as ``failover_...``."""
BROKER_LIMIT = 3000
"""Most brokers for which every single failure is computed: arrays grow with their square."""
MATRIX_LIMIT = 250
"""Most brokers for which the rolling-restart matrix is computed: its rows grow with their square."""


def add_single_failures(cluster: Cluster, parameters: BrokerLoadParameters, builder: ResultBuilder) -> None:
    """Add tables ``failures`` (worst first) and ``rolling_restart``, and whether one failure cannot be survived."""
    topology = cluster.topology
    builder.summary |= {
        "unsurvivable_single_failures": None, "n_plus_1_headroom_pct": None, "worst_single_failure": None,
    }  # fmt: skip
    if topology.brokers > BROKER_LIMIT:
        builder.notes.append(f"single failures are left out: there are more than {BROKER_LIMIT} brokers")
        return
    failures = failover.singles(cluster, parameters)
    room = failover.single_headroom(cluster, failures, parameters)
    rows = [
        {
            "failure": f"broker {topology.ids[index]}",
            "moved": int(failures.moved[index]),
            "leaderless": int(failures.leaderless[index]),
            "unclean": int(failures.unclean[index]),
            "under_min_isr": int(failures.under[index]),
            **_capacity(room[index], int(failures.leaderless[index])),
        }
        for index in np.flatnonzero(topology.alive).tolist()
    ]
    names, index = topology.racks_index
    sizes = np.bincount(index[topology.alive], minlength=len(names)) if topology.brokers else np.empty(0, np.int64)
    if len(names) < topology.brokers and len(names) <= 64:
        for place, name in enumerate(names):
            if 1 < sizes[place] < topology.alive.sum():
                aftermath = failover.after(cluster, (index == place) & topology.alive, parameters)
                rows.append(_outcome(cluster, aftermath, f"rack {name}", parameters))
    rows.sort(key=_badness)
    builder.frames["failures"] = whatif.FAILURES.frame(
        {name: [r[name] for r in rows] for name in whatif.FAILURES.schema}
    )
    if topology.brokers <= MATRIX_LIMIT:
        builder.frames["rolling_restart"] = failover.rolling(cluster, failures, parameters)
    single = [row for row in rows if str(row["failure"]).startswith("broker ")]
    lost = [row for row in single if not row["survivable"]]
    builder.findings.extend(
        Finding(
            "severe", f"loss of {row['failure']}", "not survivable: " + _in_words(row), ("failures", (row["failure"],))
        )
        for row in lost
    )
    stops = [row for row in single if row["survivable"] and row["under_min_isr"]]
    if stops:
        most = max(stops, key=lambda row: row["under_min_isr"])
        text = f"{len(stops)} of {len(single)} single failures would stop producers with acks=all, most: "
        text += f"{most['failure']}, {_under(most)}"
        builder.findings.append(Finding("moderate", "min.insync.replicas", text, ("failures", (most["failure"],))))
    percents = [row["headroom_pct"] for row in single if row["headroom_pct"] is not None]
    builder.summary["unsurvivable_single_failures"] = len(lost)
    builder.summary["n_plus_1_headroom_pct"] = min(percents) if percents else None
    if single:
        worst = rows[0]
        text = f"{len(lost)} of {len(single)} not survivable" if lost else "each survivable"
        if stops and not lost:
            text = f"{len(stops)} of {len(single)} under min ISR"
        builder.summary["worst_single_failure"] = f"{worst['failure']}: {_in_words(worst)}"
        builder.headline.append(
            Headline("single failure", text, f"worst: {worst['failure']}", _level(not lost, len(stops)))
        )


def _badness(row: dict[str, Any]) -> tuple[float, ...]:
    room = math.inf if row["headroom_pct"] is None else row["headroom_pct"]
    return -row["leaderless"], -row["over"], -row["newly_over"], -row["under_min_isr"], room, -row["moved"]


def _level(survivable: bool, under: int) -> Level:
    """Return the level of a failure; with partitions ``under`` min.insync.replicas, producers with acks=all stop."""
    return "severe" if not survivable else "moderate" if under else "ok"


def _in_words(row: dict[str, Any]) -> str:
    """Describe a failure: partitions without a leader or enough in-sync replicas, brokers over capacity, and the headroom."""
    words = [plural(row["leaderless"], "partition") + " without a leader"] if row["leaderless"] else []
    words += [_under(row)] if row["under_min_isr"] else []
    words.append(_over(row))
    if row["worst"]:
        words.append(f"headroom {row['headroom_pct']:.1f} % ({row['worst']})")
    return "; ".join(words)


def _under(row: dict[str, Any]) -> str:
    return plural(row["under_min_isr"], "partition") + " under min ISR"


def _over(row: dict[str, Any]) -> str:
    return f"{row['over']} over capacity" + (f" ({row['newly_over']} new)" if row["over"] else "")


def _outcome(cluster: Cluster, aftermath: Aftermath, name: str, parameters: BrokerLoadParameters) -> dict[str, Any]:
    """Return the row of result table ``failures`` for the failure called ``name``."""
    election, sums = aftermath.election, aftermath.sums
    room = failover.headroom(cluster, aftermath.failed, {r: sums.raw(r) for r in RESOURCES}, parameters)
    return {
        "failure": name,
        "moved": int((election.moved & (election.new >= 0)).sum()),
        "leaderless": int((election.moved & (election.new < 0)).sum()),
        "unclean": int((election.moved & election.unclean).sum()),
        "under_min_isr": int((election.under & ~election.under_before).sum()),
        **_capacity(room, int((election.moved & (election.new < 0)).sum())),
    }


def _capacity(room: failover.Headroom, leaderless: int) -> dict[str, Any]:
    """Return the columns on capacity of a failure's row, and whether it can be survived."""
    return {
        "over": room.over,
        "newly_over": room.newly_over,
        "worst": room.worst,
        "headroom_pct": room.percent,
        "survivable": room.survivable(leaderless),
    }


def add_failure(cluster: Cluster, parameters: BrokerLoadParameters, builder: ResultBuilder) -> None:
    """Add tables and headline of the failure of the brokers in ``parameters.fail``."""
    failed, unknown = failover.select(cluster.topology, parameters.fail)
    for word in unknown:
        builder.notes.append(f"fail: no broker, rack or host is called {word!r}")
        builder.problems.append(Problem.at("-o fail", "bad-option", f"{word!r} is no broker, rack:NAME or host:NAME"))
        builder.findings.append(Finding("moderate", f"fail={word}", "no broker, rack or host has this name"))
    aftermath = failover.after(cluster, failed, parameters)
    builder.frames["failover_leaders"] = _leaders(cluster.topology, aftermath)
    builder.frames["failover_brokers"] = _brokers(cluster, aftermath, parameters)
    builder.frames["failover_min_isr"] = _min_isr(
        cluster.topology, aftermath, cluster.topology.min_in_sync(parameters.min_insync_replicas)
    )
    ids = [int(i) for i in cluster.topology.ids[failed].tolist()]
    names = ", ".join(map(str, ids)) or "none"
    outcome = _outcome(cluster, aftermath, names, parameters)
    builder.summary |= {"failed_brokers": ids}
    builder.summary |= {f"failover_{n}": outcome[n] for n in _OUTCOME}
    dead = [int(i) for i in cluster.topology.ids[failed & ~cluster.topology.alive].tolist()]
    if dead:
        builder.notes.append(f"fail: already dead: {', '.join(map(str, dead))}")
    _tell(outcome, names, len(ids), bool(ids) and dead == ids, builder)


def _tell(outcome: dict[str, Any], names: str, count: int, dead: bool, builder: ResultBuilder) -> None:
    """Add summary, finding and headline of the failure of the ``count`` brokers ``names``; ``dead``: all are dead already."""
    under = outcome["under_min_isr"]
    basis = f"{outcome['moved']} leaders move" + ("" if under else ", 0 under min ISR")
    builder.summary["failover"] = f"{_in_words(outcome)}; {basis}"
    level = _level(outcome["survivable"], under)
    text = f"{outcome['leaderless']} leaderless, " + (f"{under} under min ISR, " if under else "") + _over(outcome)
    if dead:
        builder.summary["failover"] = text = "already dead"
        basis, level = "nothing more changes", "moderate"
    elif level != "ok":
        why = "producers with acks=all stop: " if outcome["survivable"] else "not survivable: "
        builder.findings.append(Finding(level, f"failure of {names}", why + _in_words(outcome)))
    builder.outcome = Headline(f"if {names} fail" + ("" if count > 1 else "s"), text, basis, level)
    builder.headline.insert(0, builder.outcome)  # first: a narrow screen shows no more


def _leaders(topology: Topology, aftermath: Aftermath) -> pl.DataFrame:
    """Return result table ``failover_leaders``: every partition a failed broker led."""
    election = aftermath.election
    led = election.moved & np.append(aftermath.failed, False)[election.old]
    rows = election.rows[led]
    new = topology.ids_of(election.new[led])
    return whatif.FAILOVER_LEADERS.frame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "old_leader": topology.ids_of(election.old[led]),
            "new_leader": pl.Series("n", new, dtype=pl.Int32).set(pl.Series(new < 0), None),
            "unclean": election.unclean[led],
            "under_min_isr": election.under[led],
        }
    )


def _min_isr(topology: Topology, aftermath: Aftermath, need: Ints) -> pl.DataFrame:
    """Return result table ``failover_min_isr``."""
    election = aftermath.election
    rows = election.rows[election.under]
    new = topology.ids_of(election.new[election.under])
    return whatif.FAILOVER_MIN_ISR.frame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "leader": pl.Series("n", new, dtype=pl.Int32).set(pl.Series(new < 0), None),
            "in_sync": election.in_sync[election.under],
            "min_isr": need[rows],
            "before": election.under_before[election.under],
        }
    )


def _brokers(cluster: Cluster, aftermath: Aftermath, parameters: BrokerLoadParameters) -> pl.DataFrame:
    """Return result table ``failover_brokers``: every broker, the failed ones too, after and before."""
    columns, before = broker_columns(cluster, aftermath.sums), load_columns(cluster, cluster.sums)
    columns["state"] = [
        "FAILED" if gone else state for gone, state in zip(aftermath.failed.tolist(), cluster.states, strict=True)
    ]
    columns["nw_out_physical_kbs"] = aftermath.physical
    columns["nw_out_physical_kbs_before"] = aftermath.physical_before
    columns |= {
        name + "_before": series
        for name, series in before.items()
        if name + "_before" in whatif.FAILOVER_BROKERS.schema
    }
    survivors = cluster.topology.alive & ~aftermath.failed
    columns["breaches"] = breaches(cluster, aftermath.sums, survivors, survivors, parameters)
    return whatif.FAILOVER_BROKERS.frame(columns)


def add_what_if(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, builder: ResultBuilder
) -> None:
    """Add the tables of the what-if that ``parameters`` ask for."""
    if parameters.fail:
        add_failure(cluster, parameters, builder)
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
    builder.frames["scenario_brokers"] = _scenario_brokers(cluster, sums, parameters, states)
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
    builder.frames["scenario_brokers"] = _scenario_brokers(moved, moved.sums, parameters, moved.states)
    builder.frames["scenario_moves"] = _moves(topology, done.rows, moved.topology, done.moved_mb)
    moved_mb = sum(done.moved_mb.tolist())
    builder.notes.append(
        f"reassignment of {plural(len(planned), 'partition')} moves {moved_mb:,.0f} MB; loads as in Cruise Control"
    )


def _scenario_brokers(
    cluster: Cluster, sums: BrokerSums, parameters: BrokerLoadParameters, states: Sequence[str]
) -> pl.DataFrame:
    everyone = np.ones(cluster.topology.brokers, np.bool_)
    columns = broker_columns(cluster, sums)
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
