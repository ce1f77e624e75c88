"""Result tables of what-if: reassignment, preferred election, demotion and failure, one on top of the other, and more brokers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control import goals
from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster, broker_columns, load_columns
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover, scenarios
from engine.broker_load.insight.data_quality import breaches
from engine.broker_load.insight.failover import Aftermath
from engine.broker_load.insight.scenarios import Reassignment
from engine.broker_load.model.topology import Flags, Floats, Ints, Topology
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.reading.fields import text_of
from engine.broker_load.reading.kafka_tools import read_election, read_plan
from engine.broker_load.result import single_losses
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables import inputs as input_tables
from engine.broker_load.tables import whatif
from engine.core.parameters import Attachment
from engine.core.reading import Problem
from engine.core.tables import Table
from engine.core.units import plural
from engine.core.view import Finding, Headline, Inputs, Level

_OUTCOME = ("moved", "leaderless", "under_min_isr", "over", "newly_over", "survivable")
"""Columns of a failure that the summary repeats as ``failover_...``."""


def add_what_if(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, builder: ResultBuilder
) -> Cluster:
    """Add the tables of the what-if that ``parameters`` ask for; return the cluster after it.

    A reassignment comes first, then a preferred election, demotion, and failure; ``cluster`` is the one before.
    """
    after = _reassign(model, cluster, inputs, parameters, builder)
    moved = {} if after is None else dict(zip(after.rows.tolist(), after.moved_mb.tolist(), strict=True))
    now = cluster if after is None else after.cluster
    asks = parameters.reassignment is not None or parameters.apply_plan
    steps = [] if after is None or not asks else ["the reassignment is applied"]
    if after is not None and parameters.elect not in (None, "all"):
        steps.append("preferred leaders are elected")
    if parameters.elect == "all":
        now = failover.lead(now, *failover.preferred(now.topology))
        steps.append("preferred leaders are elected")
    if parameters.demote:
        marked = _select(now.topology, "demote", parameters.demote, builder)
        now = failover.demote(now, marked)
        stay = int(np.append(marked, False)[now.topology.leader].sum())
        if stay:
            rest = (
                "has no other live replica and keeps its" if stay == 1 else "have no other live replica and keep their"
            )
            builder.notes.append(f"demote: {plural(stay, 'partition')} {rest} leader")
        names = ", ".join(map(str, now.topology.ids[marked].tolist()))
        steps.append(f"{names or 'none'} {'is' if marked.sum() == 1 else 'are'} demoted")
    if now is not cluster:
        _scenario(cluster, now, parameters, moved, " and ".join(steps), builder)
    if parameters.add_brokers:
        _added_brokers(now, parameters, builder)
    if parameters.fail:
        now = _fail(cluster, now, parameters, builder)
    return now


def _select(topology: Topology, option: str, words: tuple[str, ...], builder: ResultBuilder) -> Flags:
    """Return flags [B] of the brokers that ``words`` of an ``option`` name; unknown words are a problem and a finding."""
    marked, unknown = failover.select(topology, words)
    for word in unknown:
        builder.notes.append(f"{option}: no broker, rack or host is called {word!r}")
        builder.problems.append(
            Problem.at(f"-o {option}", "bad-option", f"{word!r} is no broker, rack:NAME or host:NAME")
        )
        builder.findings.append(Finding("moderate", f"{option}={word}", "no broker, rack or host has this name"))
    return marked


def _scenario(
    cluster: Cluster, after: Cluster, parameters: BrokerLoadParameters, moved: dict[int, float], what: str,
    builder: ResultBuilder,
) -> None:  # fmt: skip
    """Add the tables and the outcome of the placement ``after``; ``moved``: MB to copy by partition, of those reassigned."""
    old, new = cluster.topology, after.topology
    changed = (old.leader >= 0) & (old.ids_of(old.leader) != new.ids_of(new.leader))
    both = zip(old.replica_lists.to_list(), new.replica_lists.to_list(), strict=True)
    other = [row for row, (before, after_) in enumerate(both) if before != after_]
    rows = np.unique(np.array([*np.flatnonzero(changed).tolist(), *other, *moved], np.int64))
    states = broker_states(cluster, after, failover.select(new, parameters.demote)[0], "DEMOTED")
    builder.frames["scenario_brokers"] = broker_rows(
        whatif.SCENARIO_BROKERS, cluster, after, after.sums, new.alive, states, parameters
    )
    builder.frames["scenario_moves"] = whatif.SCENARIO_MOVES.frame(
        {
            "topic": old.topic_names.gather(rows),
            "partition": old.partition[rows],
            "old_leader": old.ids_of(old.leader[rows]),
            "new_leader": new.ids_of(new.leader[rows]),
            "replicas": old.replica_lists.gather(rows),
            "new_replicas": new.replica_lists.gather(rows),
            "moved_mb": np.array([moved.get(row, 0.0) for row in rows.tolist()]),
        }
    )
    over = int(np.logical_or.reduce([goals.over_capacity(after, name, parameters) for name in RESOURCES]).sum())
    before = int(np.logical_or.reduce([goals.over_capacity(cluster, name, parameters) for name in RESOURCES]).sum())
    copied = sum(moved.values())
    text = f"{plural(int(changed.sum()), 'leader')} {'moves' if changed.sum() == 1 else 'move'}"
    known = after.topology.brokers > 0 and not after.missing
    judged = f"{before} → {over} over capacity" if known or over else "load unknown"
    basis = "no data is copied" if not copied else f"{copied:,.0f} MB are copied"
    level: Level = "severe" if over else "ok" if known else ""
    _outcome(Headline(f"if {what}", f"{text}, {judged}", basis, level), builder)


def _outcome(told: Headline, builder: ResultBuilder) -> None:
    """Make ``told`` the outcome, before all other numbers: a narrow screen shows no more."""
    builder.outcome = told
    builder.headline.insert(0, told)


def _added_brokers(cluster: Cluster, parameters: BrokerLoadParameters, builder: ResultBuilder) -> None:
    """Add what more brokers could do at best: they hold nothing until partitions are moved."""
    rows = scenarios.expansion_bounds(cluster, parameters.add_brokers)
    columns = {name: [row[name] for row in rows] for name in whatif.ADD_BROKERS.schema}
    builder.frames["add_brokers"] = whatif.ADD_BROKERS.frame(columns)
    words = ", ".join(
        f"{row['resource']} {row['highest_before_pct']:.1f} → {row['least_highest_after_pct']:.1f}%" for row in rows
    )
    label = f"if {plural(parameters.add_brokers, 'broker')} join" + ("s" if parameters.add_brokers == 1 else "")
    text = f"fullest broker at best: {words}" if words else "what they relieve is unknown"
    _outcome(Headline(label, text, "after moving partitions to them" if words else cluster.missing), builder)


def _fail(cluster: Cluster, now: Cluster, parameters: BrokerLoadParameters, builder: ResultBuilder) -> Cluster:
    """Add tables and headline of the failure of the brokers in ``parameters.fail``; return the cluster without them."""
    topology = now.topology
    failed = _select(topology, "fail", parameters.fail, builder)
    aftermath = failover.after(now, failed, parameters)
    election = aftermath.election
    led = election.moved & np.append(aftermath.failed, False)[election.old]
    rows = election.rows[led]
    new = topology.ids_of(election.new[led])
    builder.frames["failover_leaders"] = whatif.FAILOVER_LEADERS.frame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "old_leader": topology.ids_of(election.old[led]),
            "new_leader": pl.Series("n", new, dtype=pl.Int32).set(pl.Series(new < 0), None),
            "unclean": election.unclean[led],
            "under_min_isr": election.under[led],
        }
    )
    builder.frames["failover_brokers"] = broker_rows(
        whatif.FAILOVER_BROKERS, cluster, now, aftermath.sums, topology.alive & ~failed,
        broker_states(cluster, now, failed, "FAILED"), parameters, aftermath.physical,
    )  # fmt: skip
    builder.frames["failover_min_isr"] = _min_isr(
        topology, aftermath, topology.min_in_sync(parameters.min_insync_replicas)
    )
    ids = [int(i) for i in topology.ids[failed].tolist()]
    names = ", ".join(map(str, ids)) or "none"
    outcome = single_losses.outcome(now, aftermath, names, parameters)
    builder.summary |= {"failed_brokers": ids}
    builder.summary |= {f"failover_{n}": outcome[n] for n in _OUTCOME}
    dead = [int(i) for i in topology.ids[failed & ~topology.alive].tolist()]
    if dead:
        builder.notes.append(f"fail: already dead: {', '.join(map(str, dead))}")
    _tell(outcome, names, len(ids), bool(ids) and dead == ids, builder)
    return failover.without(now, aftermath)


def _tell(outcome: dict[str, Any], names: str, count: int, dead: bool, builder: ResultBuilder) -> None:
    """Add summary, finding and headline of the failure of the ``count`` brokers ``names``; ``dead``: all are dead already."""
    under = outcome["under_min_isr"]
    basis = f"{plural(outcome['moved'], 'leader')} {'moves' if outcome['moved'] == 1 else 'move'}"
    basis += "" if under else ", 0 under min ISR"
    builder.summary["failover"] = f"{single_losses.in_words(outcome)}; {basis}"
    level = single_losses.level(outcome)
    known = outcome["survivable"] is not None or outcome["over"]
    text = f"{outcome['leaderless']} leaderless, " + (f"{under} under min ISR, " if under else "")
    text += f"{outcome['unsure']} unknown, " if outcome["unsure"] else ""
    text += single_losses.over(outcome) if known else "load unknown"
    if dead:
        builder.summary["failover"] = text = "already dead"
        basis, level = "nothing more changes", "moderate"
    elif level in ("moderate", "severe"):
        why = "not survivable: " if outcome["survivable"] is False else "producers with acks=all stop: "
        builder.findings.append(Finding(level, f"failure of {names}", why + single_losses.in_words(outcome)))
    _outcome(Headline(f"if {names} fail" + ("" if count > 1 else "s"), text, basis, level), builder)


def broker_states(cluster: Cluster, after: Cluster, marked: Flags, word: str) -> list[str]:
    """Return the states of the brokers ``after`` a what-if: ``word`` where ``marked``, NEW where ``cluster`` has none."""
    each = zip(after.states, marked.tolist(), (cluster.topology.index_of(after.topology.ids) < 0).tolist(), strict=True)
    return [
        word if hit and (state != "DEAD" or word == "FAILED") else "NEW" if new else state for state, hit, new in each
    ]


def broker_rows(
    table: Table, cluster: Cluster, after: Cluster, sums: BrokerSums, survivors: Flags, states: list[str],
    parameters: BrokerLoadParameters, physical: Floats | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Return every broker with its load ``after`` a what-if and, in the columns ending in ``_before``, in ``cluster``."""
    columns = broker_columns(after, sums)
    columns |= {"state": states, "nw_out_physical_kbs": physical}
    columns["breaches"] = breaches(after, sums, survivors, survivors, parameters)
    was = pl.DataFrame({"broker": cluster.topology.ids} | load_columns(cluster, cluster.sums))
    was = was.with_columns(nw_out_physical_kbs=pl.Series(failover.physical_out(cluster)))
    was = was.rename({name: name + "_before" for name in was.columns if name != "broker"})
    was = was.select(name for name in was.columns if name in table.schema)
    rows = pl.DataFrame(
        columns, schema_overrides={"broker": pl.Int32}
    )  # a table without brokers has no types of its own
    both = rows.join(was, on="broker", how="left", maintain_order="left")
    return table.frame(both.select(name for name in both.columns if name in table.schema))


def _reassign(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, builder: ResultBuilder
) -> Reassignment | None:
    """Return the placement that a reassignment asks for; None without one."""
    elect = parameters.elect if isinstance(parameters.elect, Attachment) else None
    if parameters.reassignment is not None:
        rows, problems = read_plan(parameters.reassignment.name, text_of(parameters.reassignment.data))
        builder.problems.extend(problems)
        plan = input_tables.PLANS.frame(rows)
    elif parameters.apply_plan:
        plan = inputs.table("plans")
    elif elect is not None:
        plan = input_tables.PLANS.empty()
    else:
        return None
    plan = plan.filter(pl.col("plan") == "proposed").unique(["topic", "partition"], keep="last", maintain_order=True)
    topology = cluster.topology
    here = pl.DataFrame({"topic": topology.topic_names, "partition": topology.partition, "p": np.arange(topology.size)})
    known = plan.join(here, on=["topic", "partition"], how="inner", maintain_order="left")
    if known.height < plan.height:
        builder.notes.append(f"reassignment: {plural(plan.height - known.height, 'partition')} not in this cluster")
    elected = known["p"].to_list() if parameters.elect == "plan" else []
    if elect is not None:
        elected = _elected(elect, topology, builder)
    if not known.height and not elected:
        builder.notes.append("reassignment: nothing to apply")
        return None
    planned = dict(zip(known["p"].to_list(), known["replicas"].to_list(), strict=True))
    estimate, weights = parameters.allow_capacity_estimation, parameters.cpu_weights
    done = scenarios.reassign(model, cluster, planned, inputs.table("capacity"), estimate, weights, elected)
    builder.notes.extend(
        f"reassignment: broker {number} is not known; its capacity is the default entry's, if any"
        for number in done.new_brokers
    )
    builder.notes.append("the loads of a reassignment are computed as in Cruise Control")
    return done


def _elected(elect: Attachment, topology: Topology, builder: ResultBuilder) -> list[int]:
    """Return the partitions that an election JSON names; those that the cluster does not have are a note."""
    named, problems = read_election(elect.name, text_of(elect.data))
    builder.problems.extend(problems)
    pairs = zip(topology.topic_names.to_list(), topology.partition.tolist(), strict=True)
    found = [row for row, pair in enumerate(pairs) if pair in named]
    if len(found) < len(named):
        builder.notes.append(f"elect: {plural(len(named) - len(found), 'partition')} not in this cluster")
    return found


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
