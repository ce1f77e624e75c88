"""What-if: failures, demotion, reassignment, more brokers; and what every single failure would do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load import tables
from engine.broker_load.cruise_control import cluster, replica_loads
from engine.broker_load.cruise_control.cluster import HOST_RESOURCES, RESOURCES, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover
from engine.broker_load.model.topology import Broker, Floats, Ints, Topology, build
from engine.broker_load.parameters import BrokerLoadParameters, Thresholds
from engine.broker_load.reading.common import text_of
from engine.broker_load.reading.json_tools import read_plan
from engine.broker_load.result import model_tables
from engine.broker_load.result.result_builder import Draft
from engine.inputs import Inputs
from engine.problems import Problem
from engine.result import Finding, Headline

MATRIX_LIMIT = 250
"""Most brokers for which the rolling-restart matrix is made: it has their square in rows."""


def standing(
    model: Model,
    chosen: Cluster,
    parameters: BrokerLoadParameters,
    draft: Draft,
) -> None:
    """Tables ``failures`` (worst first) and ``rolling_restart``, and whether one failure cannot be survived."""
    topology, rules, thresholds = chosen.topology, parameters.rules(), parameters.thresholds()
    found = failover.singles(chosen, rules)
    room = failover.single_headroom(chosen, found, thresholds)
    rows = model_tables.failures(model, chosen, found, room)
    names, index = topology.racks_index
    sizes = np.bincount(index[topology.alive], minlength=len(names)) if topology.brokers else np.empty(0, np.int64)
    if len(names) < topology.brokers and len(names) <= 64:
        for place, name in enumerate(names):
            if 1 < sizes[place] < topology.alive.sum():
                rows.append(_rack(chosen, (index == place) & topology.alive, name, rules, thresholds))
    rows.sort(key=_badness)
    draft.frames["failures"] = tables.FAILURES.frame(
        {c.name: [r[c.name] for r in rows] for c in tables.FAILURES.columns}
    )
    if topology.brokers <= MATRIX_LIMIT:
        draft.frames["rolling_restart"] = _rolling(chosen, found, thresholds)
    single = [row for row in rows if str(row["failure"]).startswith("broker ")]
    lost = [row for row in single if row["leaderless"] or row["breaches"]]
    for row in lost:
        what = []
        if row["leaderless"]:
            what.append(_many(row["leaderless"], "partition") + " without a leader")
        if row["breaches"]:
            what.append(_many(row["breaches"], "capacity threshold") + f" newly broken, {row['worst']}")
        draft.findings.append(Finding("severe", f"loss of {row['failure']}", "not survivable: " + "; ".join(what)))
    percents = [float(row["headroom_pct"]) for row in single if row["headroom_pct"] is not None]  # type: ignore[arg-type]
    draft.summary["unsurvivable_single_failures"] = len(lost)
    draft.summary["n_plus_1_headroom_pct"] = min(percents) if percents else None
    if single:
        worst = rows[0]
        text = f"{len(lost)} of {len(single)} not survivable" if lost else "each survivable"
        draft.headline.append(
            Headline("single failure", text, f"worst: {worst['failure']}", "severe" if lost else "ok")
        )


def _many(count: object, noun: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _badness(row: dict[str, object]) -> tuple[float, ...]:
    percent = row["headroom_pct"]
    return (
        -float(row["leaderless"]),  # type: ignore[arg-type]
        -float(row["breaches"]),  # type: ignore[arg-type]
        -float(row["under_min_isr"]),  # type: ignore[arg-type]
        math.inf if percent is None else float(percent),  # type: ignore[arg-type]
        -float(row["moved"]),  # type: ignore[arg-type]
    )


def _rack(
    chosen: Cluster, failed: np.ndarray, name: str, rules: failover.Rules, thresholds: Thresholds
) -> dict[str, object]:
    found = failover.after(chosen, failed, rules)
    election = found.election
    led = election.moved
    room = failover.headroom(chosen, failed, {r: found.sums.of(r) for r in RESOURCES}, thresholds)
    return {
        "failure": f"rack {name}",
        "moved": int((led & (election.new >= 0)).sum()),
        "leaderless": int((led & (election.new < 0)).sum()),
        "unclean": int((led & election.unclean).sum()),
        "under_min_isr": int((election.under & ~election.under_before).sum()),
        "breaches": room.breaches,
        "worst": room.worst,
        "headroom_pct": room.percent,
    }


def _over(chosen: Cluster, resource: str, change: Floats, thresholds: Thresholds) -> np.ndarray:
    """[B, B] whether the host of each survivor (columns) is over its capacity threshold while each broker (rows) is
    down; ``change`` [B, B] is what the survivors gain."""
    topology = chosen.topology
    names, index = topology.hosts_index
    member = np.zeros((topology.brokers, len(names)))
    member[np.arange(topology.brokers), index] = 1.0
    up = topology.alive & ~np.eye(topology.brokers, dtype=np.bool_)
    load = np.where(up, np.maximum(chosen.sums.of(resource) + change, 0.0), 0.0) @ member
    room = np.where(up, chosen.capacity(resource), 0.0) @ member
    with np.errstate(invalid="ignore"):
        over = load > thresholds.capacity(resource) * room
    return np.asarray(over[:, index] & up)


def _rolling(chosen: Cluster, found: failover.Singles, thresholds: Thresholds) -> pl.DataFrame:
    topology = chosen.topology
    live = np.flatnonzero(topology.alive)
    down, other = np.meshgrid(live, live, indexing="ij")
    keep = down != other
    down, other = down[keep], other[keep]
    room = chosen.capacity("CPU")
    cpu = np.maximum(chosen.sums.of("CPU")[other] + found.cpu[down, other], 0.0)
    over = {name: _over(chosen, name, change, thresholds)[down, other] for name, change in (
        ("CPU", found.cpu), ("NW_OUT", found.out))}  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(room[other] > 0, 100.0 * cpu / room[other], np.nan)
    return tables.ROLLING.frame(
        pl.DataFrame(
            {
                "down": topology.ids[down],
                "broker": topology.ids[other],
                "cpu_pct": pl.Series("c", share).fill_nan(None),
                "nw_out_kbs": chosen.sums.of("NW_OUT")[other] + found.out[down, other],
                "leaders": chosen.sums.leaders[other] + found.gained[down, other],
                "cpu_over": over["CPU"],
                "nw_out_over": over["NW_OUT"],
            }
        )
    )


def add(
    model: Model,
    chosen: Cluster,
    inputs: Inputs,
    parameters: BrokerLoadParameters,
    draft: Draft,
) -> None:
    """Tables of the what-if that the parameters ask for."""
    if parameters.fail:
        _fail(model, chosen, parameters, draft)
    if parameters.demote:
        marked, unknown = failover.select(chosen.topology, parameters.demote)
        for word in unknown:
            draft.notes.append(f"demote: no broker, rack or host is called {word!r}")
            draft.problems.append(
                Problem.at("-o demote", "bad-option", f"{word!r} is no broker, rack:NAME or host:NAME")
            )
        rows, new, sums = failover.demote(chosen, marked)
        states = [
            "DEMOTED" if gone and state == "ALIVE" else state
            for gone, state in zip(marked.tolist(), chosen.states, strict=True)
        ]
        draft.frames["scenario_brokers"] = _scenario_brokers(chosen, sums, parameters.thresholds(), states)
        after, changed = _reordered(chosen.topology, marked, rows, new)
        draft.frames["scenario_moves"] = _moves(chosen.topology, changed, after.leader[changed], after, None)
        stay = int(np.append(marked, False)[chosen.topology.leader].sum()) - len(rows)
        draft.notes.append(
            f"demotion moves {len(rows)} leaders" + (f"; {stay} have no other live replica" if stay else "")
        )
    if parameters.reassignment is not None or parameters.apply_plan:
        _reassign(model, chosen, inputs, parameters, draft)
    if parameters.add_brokers:
        draft.frames["add_brokers"] = _add_brokers(chosen, parameters.add_brokers)


def _reordered(topology: Topology, demoted: np.ndarray, rows: np.ndarray, new: Ints) -> tuple[Topology, np.ndarray]:
    """The topology with the replicas of ``demoted`` [B] brokers at the end of each list and ``new`` leaders of ``rows``,
    and the partitions whose list or leader is another one, as upstream's demotion leaves them."""
    last = np.where(topology.held, topology.spread(demoted), 2)
    order = np.argsort(last, axis=1, kind="stable")
    replicas = np.take_along_axis(topology.replicas, order, axis=1)
    leader = topology.leader.copy()
    leader[rows] = new
    changed = np.flatnonzero((replicas != topology.replicas).any(axis=1) | (leader != topology.leader))
    return dataclasses.replace(topology, replicas=replicas, leader=leader), changed


def _fail(
    model: Model,
    chosen: Cluster,
    parameters: BrokerLoadParameters,
    draft: Draft,
) -> None:
    failed, unknown = failover.select(chosen.topology, parameters.fail)
    for word in unknown:
        draft.notes.append(f"fail: no broker, rack or host is called {word!r}")
        draft.problems.append(Problem.at("-o fail", "bad-option", f"{word!r} is no broker, rack:NAME or host:NAME"))
        draft.findings.append(Finding("moderate", f"fail={word}", "no broker, rack or host is called so"))
    rules, thresholds = parameters.rules(), parameters.thresholds()
    found = failover.after(chosen, failed, rules)
    words = model_tables.breaches(chosen, found, thresholds)
    draft.frames["failover_leaders"] = model_tables.failover_leaders(model, found)
    draft.frames["failover_brokers"] = model_tables.failover_brokers(chosen, found, words)
    draft.frames["failover_min_isr"] = model_tables.failover_min_isr(
        model, found, chosen.topology.min_in_sync(rules.min_isr)
    )
    election = found.election
    leaderless = int((election.moved & (election.new < 0)).sum())
    moved = int((election.moved & (election.new >= 0)).sum())
    under = int((election.under & ~election.under_before).sum())
    room = failover.headroom(chosen, failed, {r: found.sums.of(r) for r in RESOURCES}, thresholds)
    draft.summary |= {
        "failed_brokers": [int(i) for i in chosen.topology.ids[failed].tolist()],
        "failover_moved": moved,
        "failover_leaderless": leaderless,
        "failover_under_min_isr": under,
        "failover_breaches": room.breaches,
    }
    names = ", ".join(str(i) for i in chosen.topology.ids[failed].tolist()) or "none"
    level = "severe" if leaderless or room.breaches else "ok"
    text = f"{moved} leaders move, {leaderless} leaderless, {under} under min ISR"
    # First, as what was just asked: a narrow screen shows the first entries only.
    draft.headline.insert(0, Headline(f"if {names} fail", text, f"{room.breaches} breaches", level))  # type: ignore[arg-type]
    if leaderless or room.breaches:
        broken = _many(room.breaches, "capacity threshold")
        detail = f"{_many(leaderless, 'partition')} without a leader, {broken} newly broken"
        draft.findings.append(Finding("severe", f"failure of {names}", detail))


def _scenario_brokers(
    shown: Cluster, sums: cluster.BrokerSums, thresholds: Thresholds, states: Sequence[str]
) -> pl.DataFrame:
    topology = shown.topology
    columns: dict[str, Any] = {
        "broker": topology.ids, "host": list(topology.hosts), "rack": list(topology.racks), "state": list(states)
    }  # fmt: skip
    columns |= model_tables.load_columns(shown, sums)
    words: list[list[str]] = [[] for _ in range(topology.brokers)]
    for resource in RESOURCES:
        room, load = shown.capacity(resource), sums.of(resource)
        if resource in HOST_RESOURCES:
            room, load = shown.by_host(room), shown.by_host(load)
        with np.errstate(invalid="ignore", divide="ignore"):
            over = topology.alive & (load > thresholds.capacity(resource) * room)
        for index in np.flatnonzero(over).tolist():
            words[index].append(f"{resource} {100 * load[index] / room[index]:.1f}%")
    columns["breaches"] = [", ".join(w) for w in words]
    return tables.SCENARIO_BROKERS.frame(pl.DataFrame(columns))


def _moves(
    topology: Topology, rows: np.ndarray, new: Ints, after: Topology, moved_mb: np.ndarray | None
) -> pl.DataFrame:
    return tables.SCENARIO_MOVES.frame(
        pl.DataFrame(
            {
                "topic": topology.topic_names.gather(rows),
                "partition": topology.partition[rows],
                "old_leader": topology.ids_of(topology.leader[rows]),
                "new_leader": after.ids_of(new),
                "replicas": topology.replica_lists.gather(rows),
                "new_replicas": after.replica_lists.gather(rows),
                "moved_mb": moved_mb if moved_mb is not None else np.zeros(len(rows)),
            }
        )
    )


def _reassign(
    model: Model,
    chosen: Cluster,
    inputs: Inputs,
    parameters: BrokerLoadParameters,
    draft: Draft,
) -> None:
    """Loads after the replicas lie as planned: the leader stays if it keeps a replica, else the first one leads."""
    if parameters.reassignment is not None:
        rows, found = read_plan(parameters.reassignment.name, text_of(parameters.reassignment.data))
        draft.problems.extend(found)
        plan = tables.PLANS.frame(rows)
    else:
        plan = inputs.table("plans")
    plan = plan.filter(pl.col("plan") == "proposed").unique(["topic", "partition"], keep="last", maintain_order=True)
    topology = chosen.topology
    here = pl.DataFrame({"topic": topology.topic_names, "partition": topology.partition, "p": np.arange(topology.size)})
    known = plan.join(here, on=["topic", "partition"], how="inner", maintain_order="left")
    if known.height < plan.height:
        draft.notes.append(f"reassignment: {_many(plan.height - known.height, 'partition')} not in this cluster")
    if not known.height:
        draft.notes.append("reassignment: nothing to apply")
        return
    planned = dict(zip(known["p"].to_list(), known["replicas"].to_list(), strict=True))
    lists = topology.replica_lists.to_list()
    leaders = topology.ids_of(topology.leader).tolist()
    sizes = np.where(chosen.loads.leads, chosen.loads.disk, 0.0).sum(axis=1)
    moved_mb = []
    order = sorted(planned)
    for p in order:
        moved_mb.append(sizes[p] * len(set(planned[p]) - set(lists[p])))
        lists[p] = planned[p]
        if leaders[p] not in planned[p] and leaders[p] >= 0:
            leaders[p] = planned[p][0]
    brokers = {
        int(i): Broker(topology.hosts[k], topology.racks[k], bool(topology.alive[k]), True)
        for k, i in enumerate(topology.ids.tolist())
    }
    for new in sorted({b for p in order for b in planned[p]} - set(brokers)):
        brokers[new] = Broker(f"broker-{new}", "", True, True)
        draft.notes.append(f"reassignment: broker {new} is not known; its capacity is the default entry's, if any")
    none = pl.Series("e", [[]] * topology.size, dtype=pl.List(pl.Int32))
    after = build(
        pl.DataFrame(
            {
                "topic": topology.topic_names,
                "partition": topology.partition,
                "leader": pl.Series("leader", leaders, dtype=pl.Int32),
                "replicas": pl.Series("replicas", lists, dtype=pl.List(pl.Int32)),
                "isr": pl.Series("isr", lists, dtype=pl.List(pl.Int32)),
                "offline": none,
                "elr": pl.Series("elr", [None] * topology.size, dtype=pl.List(pl.Int32)),
                "min_isr": topology.min_isr,
                "unclean": pl.Series("unclean", [None] * topology.size, dtype=pl.Boolean),
            }
        ),
        brokers,
    )
    from engine.broker_load.model import broker_capacity

    capacities = broker_capacity.resolve(inputs.table("capacity"), after, parameters.allow_capacity_estimation)
    if not chosen.capacities.file:
        where = after.index_of(topology.ids)
        cores = capacities.cores.copy()
        cores[where] = chosen.capacities.cores
        capacities = dataclasses.replace(capacities, cores=cores, cpu=cores * 100.0)
    loads = replica_loads.as_upstream(after, model.values, parameters.settings().weights)
    shown = Cluster(after, capacities, loads, cluster.sums(after, loads, True))
    rows_moved = np.array(order, np.int64)
    draft.frames["scenario_brokers"] = _scenario_brokers(shown, shown.sums, parameters.thresholds(), shown.states)
    draft.frames["scenario_moves"] = _moves(topology, rows_moved, after.leader[rows_moved], after, np.array(moved_mb))
    draft.notes.append(
        f"reassignment of {_many(len(order), 'partition')} moves {sum(moved_mb):,.0f} MB; loads as upstream"
    )


def _add_brokers(chosen: Cluster, count: int) -> pl.DataFrame:
    """Bounds after adding ``count`` brokers of the median capacity: the total spread perfectly, or the largest single
    replica, whichever is more."""
    topology = chosen.topology
    alive = topology.alive
    rows: dict[str, list[object]] = {column.name: [] for column in tables.ADD_BROKERS.columns}
    value_of = {
        "CPU": chosen.loads.cpu,
        "NW_IN": chosen.loads.nw_in,
        "NW_OUT": chosen.loads.nw_out,
        "DISK": chosen.loads.disk,
    }
    for resource in RESOURCES:
        capacity = chosen.capacity(resource)[alive]
        total, whole = chosen.total(resource), float(capacity.sum())
        if not whole > 0 or math.isnan(whole):
            continue
        typical = float(np.median(capacity))
        load = chosen.sums.of(resource)[alive]
        after = total / (whole + count * typical)
        biggest = float(np.nanmax(value_of[resource], initial=0.0)) / float(max(capacity.max(), typical))
        rows["resource"].append(resource)
        rows["average_before_pct"].append(100 * total / whole)
        rows["average_after_pct"].append(100 * after)
        rows["highest_before_pct"].append(100 * float(np.max(load / capacity)))
        rows["least_highest_after_pct"].append(100 * max(after, biggest))
        rows["bound"].append("the largest single replica" if biggest > after else "the cluster's total load")
    return tables.ADD_BROKERS.frame(rows)
