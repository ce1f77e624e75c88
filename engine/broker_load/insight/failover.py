"""Failover: who leads when brokers die, and the load of the survivors.

New leaders follow Kafka's own rule: the current one if it lives; else the first living in-sync replica in assignment
order (none in sync and ELR known: the first living eligible one); else, only where unclean election is on, the first
living replica; else the partition is leaderless. See "Failover" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.goals import over_capacity, usage
from engine.broker_load.cruise_control.replica_loads import Loads
from engine.broker_load.insight.data_quality import tightest
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, Topology, across, any_of, first_of
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.whatif import ROLLING


class Election(msgspec.Struct, frozen=True, eq=False):
    """Outcome for partitions ``rows`` [K] with a replica on a failed broker: ``old`` and ``new`` leader index (-1: none),
    ``moved`` (the old leader failed), ``unclean``: only an out-of-sync replica can lead (it does if that is allowed),
    ``in_sync`` replicas left, ``under`` min.insync.replicas, and ``under_before``."""

    rows: Longs
    old: Ints
    new: Ints
    moved: Flags
    unclean: Flags
    in_sync: Ints
    under: Flags
    under_before: Flags


class Aftermath(msgspec.Struct, frozen=True, eq=False):
    """Broker sums after the failure, by Cruise Control's move of leadership, and physical network out before and after [B]."""

    failed: Flags
    election: Election
    sums: BrokerSums
    physical_before: Floats
    physical: Floats


def _next_leaders(
    topology: Topology, rows: Longs, gone: Flags, parameters: BrokerLoadParameters
) -> tuple[Ints, Flags, Flags, Flags]:
    """Choose the next leader [K] of partitions ``rows`` when the replicas ``gone`` [K, R] are.

    Also returns flags [K]: an eligible replica lives (else the chosen one is unclean), any replica lives, and unclean
    election is allowed.
    """
    here, in_sync = topology.replicas[rows], topology.isr[rows] & ~gone
    living = topology.held[rows] & topology.alive[here] & ~topology.offline[rows] & ~gone
    eligible = np.where((~any_of(in_sync) & topology.elr_known[rows])[:, None], topology.elr[rows], in_sync) & living
    clean, some = any_of(eligible), any_of(living)
    topic_unclean = topology.unclean[rows]
    allowed = np.where(topic_unclean >= 0, topic_unclean == 1, parameters.unclean_leader_election)
    position = np.where(clean, first_of(eligible), first_of(living))
    return (here[np.arange(len(rows)), position] if len(rows) else np.empty(0, np.int32)), clean, some, allowed


def elect(topology: Topology, failed: Flags, parameters: BrokerLoadParameters) -> Election:
    """Run the election for every partition with a replica on a ``failed`` [B] broker."""
    hit = topology.spread(failed)
    rows = np.flatnonzero(any_of(hit))
    chosen, clean, some, allowed = _next_leaders(topology, rows, hit[rows], parameters)
    old = topology.leader[rows]
    keeps = (old >= 0) & np.append(~failed & topology.alive, False)[old]
    unclean = ~keeps & ~clean & some
    new = np.where(keeps, old, np.where(clean | (unclean & allowed), chosen, -1)).astype(np.int32)
    need = topology.min_in_sync(parameters.min_insync_replicas)[rows]
    # An unclean leader is alone in sync again.
    left = across(topology.isr[rows] & ~hit[rows]) + topology.hidden[rows]
    left = np.where(unclean & allowed, np.maximum(left, 1), left).astype(np.int32)
    return Election(rows, old, new, ~keeps & (old >= 0), unclean, left, left < need, topology.in_sync[rows] < need)


def _dead_followers(topology: Topology, rows: Longs, leader: Ints, dead: Flags) -> Ints:
    """Return the number [K] of replicas of ``rows`` that no longer fetch from ``leader``."""
    here, held = topology.replicas[rows], topology.held[rows]
    return across(held & (dead[here] | topology.offline[rows]) & (here != leader[:, None]))


def physical_out(cluster: Cluster) -> Floats:
    """Return network out [B] without the fetches of dead or offline followers."""
    topology = cluster.topology
    rows = np.flatnonzero(any_of(topology.offline_replicas & topology.held) & (topology.leader >= 0))
    out = cluster.sums.nw_out.copy()
    if len(rows):
        lost = _dead_followers(topology, rows, topology.leader[rows], ~topology.alive) * cluster.loads.follower_in[rows]
        out -= np.bincount(topology.leader[rows], weights=lost, minlength=topology.brokers)
    return np.maximum(out, 0.0)


def after(cluster: Cluster, failed: Flags, parameters: BrokerLoadParameters) -> Aftermath:
    """Return loads after ``failed`` [B] brokers die.

    Leadership moves as in Cruise Control: the failed broker keeps its row and its replicas, as followers; leaderless
    partitions stay where they were.
    """
    topology, loads, total = cluster.topology, cluster.loads, cluster.sums
    election = elect(topology, failed, parameters)
    physical_before = physical_out(cluster)
    brokers = topology.brokers
    pick = election.moved & (election.new >= 0)
    rows, old, new = election.rows[pick], election.old[pick], election.new[pick]
    sums = _shift(total, brokers, old, new, _moved(cluster, rows))
    # Physically: no follower fetches for a dead replica, and a dead broker sends nothing.
    dead = failed | ~topology.alive
    led = topology.leader[election.rows] >= 0
    rows, old, new = election.rows[led], topology.leader[election.rows[led]], election.new[led]
    full, flow = across(np.where(loads.leads[rows], loads.nw_out[rows], 0.0)), loads.follower_in[rows]
    physical = physical_before.copy()
    np.subtract.at(physical, old, full - _dead_followers(topology, rows, old, ~topology.alive) * flow)
    stays = new >= 0
    np.add.at(physical, new[stays], (full - _dead_followers(topology, rows, new, dead) * flow)[stays])
    return Aftermath(failed, election, sums, physical_before, np.where(dead, 0.0, np.maximum(physical, 0.0)))


def _moved(cluster: Cluster, rows: Longs) -> tuple[Floats, Floats, Floats]:
    """Return CPU, network out and leader network in that move with the leadership of ``rows``."""
    loads = cluster.loads
    lead = loads.leads[rows]
    cpu = across(np.where(lead, loads.cpu[rows], 0.0)) - loads.demoted[rows]
    return cpu, across(np.where(lead, loads.nw_out[rows], 0.0)), across(np.where(lead, loads.nw_in[rows], 0.0))


def _shift(total: BrokerSums, brokers: int, old: Ints, new: Ints, moved: tuple[Floats, Floats, Floats]) -> BrokerSums:
    cpu, out, arriving = moved

    def carry(value: Floats | Ints, amount: Floats | None) -> Floats:
        left, came = (np.bincount(brokers_of, weights=amount, minlength=brokers) for brokers_of in (old, new))
        return np.asarray(value - left + came)

    return msgspec.structs.replace(
        total,
        cpu=carry(total.cpu, cpu),
        nw_out=carry(total.nw_out, out),
        leader_nw_in=carry(total.leader_nw_in, arriving),
        leaders=carry(total.leaders, None).astype(np.int32),
    )


def lead(cluster: Cluster, rows: Longs, new: Ints) -> Cluster:
    """Return the cluster after brokers ``new`` [K] lead the partitions ``rows`` [K], as Cruise Control moves leadership: the old
    leader keeps a follower's CPU, the rest of it and the network out go along."""
    topology, loads = cluster.topology, cluster.loads
    was, now = first_of(loads.leads[rows]), first_of(topology.replicas[rows] == new[:, None])
    leader, cpu, out, leads = topology.leader.copy(), loads.cpu.copy(), loads.nw_out.copy(), loads.leads.copy()
    more, _, _ = moved = _moved(cluster, rows)
    leader[rows] = new
    cpu[rows, was] -= more
    cpu[rows, now] += more
    out[rows, was], out[rows, now] = 0.0, out[rows, was]
    leads[rows, was], leads[rows, now] = False, True
    return msgspec.structs.replace(
        cluster,
        topology=msgspec.structs.replace(topology, leader=leader),
        loads=msgspec.structs.replace(loads, cpu=cpu, nw_out=out, leads=leads),
        sums=_shift(cluster.sums, topology.brokers, topology.leader[rows], new, moved),
    )


def without(cluster: Cluster, aftermath: Aftermath) -> Cluster:
    """Return the cluster in which the brokers of ``aftermath`` are dead and their partitions led as it says."""
    election, topology = aftermath.election, cluster.topology
    pick = election.moved & (election.new >= 0)
    after = lead(cluster, election.rows[pick], election.new[pick])
    leader = after.topology.leader.copy()
    leader[election.rows] = election.new
    isr = topology.isr & ~topology.spread(aftermath.failed)
    unclean = election.rows[pick & election.unclean]
    isr[unclean] = topology.replicas[unclean] == leader[unclean][:, None]
    alive = topology.alive & ~aftermath.failed
    return msgspec.structs.replace(
        after, topology=msgspec.structs.replace(after.topology, leader=leader, isr=isr, alive=alive)
    )


def demote(cluster: Cluster, demoted: Flags) -> Cluster:
    """Demote brokers as Cruise Control does: they go to the end of each replica list, and the first living, online replica in
    list order that is not demoted leads; partitions without another one keep their leader."""
    topology = cluster.topology
    rows = np.flatnonzero(np.append(demoted, False)[topology.leader])
    here = topology.replicas[rows]
    fit = topology.held[rows] & topology.alive[here] & ~topology.offline[rows] & ~demoted[here]
    rows, here, fit = rows[any_of(fit)], here[any_of(fit)], fit[any_of(fit)]
    new = here[np.arange(len(rows)), first_of(fit)] if len(rows) else np.empty(0, np.int32)
    after = lead(cluster, rows, new.astype(np.int32))
    order = np.argsort(np.where(topology.held, topology.spread(demoted), 2), axis=1, kind="stable")

    def sorted_(part: Topology | Loads, names: Iterable[str]) -> dict[str, Any]:
        return {name: np.take_along_axis(getattr(part, name), order, axis=1) for name in names}

    return msgspec.structs.replace(
        after,
        topology=msgspec.structs.replace(
            after.topology,
            **sorted_(after.topology, ("replicas", "isr", "elr", "offline", "adding", "removing", "observers")),
        ),
        loads=msgspec.structs.replace(
            after.loads, **sorted_(after.loads, ("cpu", "disk", "nw_in", "nw_out", "held", "leads"))
        ),
    )


def preferred(topology: Topology) -> tuple[Longs, Ints]:
    """Return the partitions [K] that a preferred leader election moves, and their new leaders: the first replicas of their lists
    that are in sync and alive but do not lead."""
    first = topology.replicas[:, 0]
    fit = topology.isr[:, 0] & ~topology.offline_replicas[:, 0] & (first >= 0)
    rows = np.flatnonzero(fit & (topology.leader >= 0) & (topology.leader != first))
    return rows, first[rows]


class SingleFailures(msgspec.Struct, frozen=True, eq=False):
    """Every single-broker failure at once. Counts [B] by the broker that fails: ``moved``, ``leaderless``, ``unclean``,
    ``under``, ``unsure`` (only a replica that nothing places may lead). ``cpu``, ``out`` [B, B] CPU and network out that
    survivors (columns) gain when a broker (row) fails; ``gained`` [B, B] leaders."""

    moved: Ints
    leaderless: Ints
    unclean: Ints
    under: Ints
    unsure: Ints
    cpu: Floats
    out: Floats
    gained: Ints


def singles(cluster: Cluster, parameters: BrokerLoadParameters) -> SingleFailures:
    """Return the outcome of every single-broker failure in one pass: a partition's next leader depends only on its leader."""
    topology = cluster.topology
    brokers = topology.brokers
    rows = np.flatnonzero(topology.leader >= 0)
    here, leader = topology.replicas[rows], topology.leader[rows]
    new, clean, some, allowed = _next_leaders(topology, rows, here == leader[:, None], parameters)
    takes, hides = clean | (some & allowed), topology.hidden[rows] > 0
    cpu, out, _ = _moved(cluster, rows[takes])
    pair = leader[takes].astype(np.int64) * brokers + new[takes]
    square = (brokers, brokers)

    def matrix(weights: npt.NDArray[np.generic] | None) -> npt.NDArray[np.float64]:
        return np.bincount(pair, weights=weights, minlength=brokers * brokers).reshape(square).astype(np.float64)

    need = topology.min_in_sync(parameters.min_insync_replicas)[rows]
    size = topology.in_sync[rows]
    touched = topology.isr[rows] & ((size >= need) & (size - 1 < need))[:, None]
    return SingleFailures(
        moved=np.bincount(leader[takes], minlength=brokers).astype(np.int32),
        leaderless=np.bincount(leader[~takes & ~hides], minlength=brokers).astype(np.int32),
        unclean=np.bincount(leader[~clean & some], minlength=brokers).astype(np.int32),
        under=np.bincount(here[touched], minlength=brokers).astype(np.int32),
        unsure=np.bincount(leader[~takes & hides], minlength=brokers).astype(np.int32),
        cpu=matrix(cpu),
        out=matrix(out),
        gained=matrix(None).astype(np.int32),
    )


def headroom(
    cluster: Cluster,
    failed: Flags,
    after_sums: dict[str, Floats],
    leaderless: int,
    unsure: int,
    parameters: BrokerLoadParameters,
) -> dict[str, Any]:
    """Return the columns on capacity of a failure that leaves partitions ``leaderless``, or may (``unsure``): survivors' loads
    ``after_sums`` (by resource) compared with the capacity thresholds.

    How many survivors are over a threshold, and over one that they were not over before; the one nearest to (or furthest over)
    one, in words, and its distance in % of the capacity; whether the failure can be survived (None: not all loads and capacities
    are known).
    """
    topology = cluster.topology
    survivors = topology.alive & ~failed
    now = {name: usage(cluster, name, after_sums[name], survivors, parameters) for name in RESOURCES}
    every = [found.over for found in now.values()]
    new = [found.over & ~over_capacity(cluster, name, parameters) for name, found in now.items()]
    over, newly_over = (int(np.logical_or.reduce(flags).sum()) for flags in (every, new))
    known = not (cluster.lacking or any(np.isnan(found.share[survivors]).any() for found in now.values()))
    row: dict[str, Any] = {"over": over, "newly_over": newly_over, "worst": "", "headroom_pct": None}
    row["survivable"] = False if leaderless or over else True if known and not unsure else None
    row["unsure"] = unsure
    tightest_of, room = tightest(cluster, after_sums, survivors, parameters)
    if not np.isnan(room).all() and (over or not cluster.lacking):
        place = int(np.nanargmin(room))
        row |= {"worst": f"{tightest_of[place]} of broker {topology.ids[place]}", "headroom_pct": float(room[place])}
    return row


def single_headroom(
    cluster: Cluster, failures: SingleFailures, parameters: BrokerLoadParameters
) -> list[dict[str, Any]]:
    """Return what ``headroom`` does of every single-broker failure [B]."""
    before = {name: cluster.sums.raw(name) for name in RESOURCES}
    out = []
    for down, (leaderless, unsure) in enumerate(
        zip(failures.leaderless.tolist(), failures.unsure.tolist(), strict=True)
    ):
        failed = np.arange(cluster.topology.brokers) == down
        gained = {"CPU": before["CPU"] + failures.cpu[down], "NW_OUT": before["NW_OUT"] + failures.out[down]}
        out.append(headroom(cluster, failed, before | gained, leaderless, unsure, parameters))
    return out


def over_while_down(cluster: Cluster, resource: str, change: Floats, parameters: BrokerLoadParameters) -> Flags:
    """Return flags [B, B]: the host of a survivor (column) is over its capacity threshold while a broker (row) is down.

    ``change`` [B, B]: what survivors gain.
    """
    topology = cluster.topology
    machines, index = topology.machines
    member = np.zeros((topology.brokers, machines))
    member[np.arange(topology.brokers), index] = 1.0
    up = topology.alive & ~np.eye(topology.brokers, dtype=np.bool_)
    load = np.where(up, cluster.sums.raw(resource) + change, 0.0) @ member
    room = np.where(up, cluster.capacity(resource), 0.0) @ member
    with np.errstate(invalid="ignore"):
        over = load > parameters.capacity_threshold(resource) * room
    return np.asarray(over[:, index] & up)


def rolling(cluster: Cluster, failures: SingleFailures, parameters: BrokerLoadParameters) -> pl.DataFrame:
    """Return result table ``rolling_restart``: every live broker's load while each other live one is down.

    CPU is at least 0: a measured load may be less than what leaves it.
    """
    ids, live = cluster.topology.ids, np.flatnonzero(cluster.topology.alive)
    down, other = (one.ravel() for one in np.meshgrid(live, live, indexing="ij"))
    down, other = down[down != other], other[down != other]
    cpu = np.maximum(cluster.sums.of("CPU")[other] + failures.cpu[down, other], 0.0)
    room = cluster.capacity("CPU")[other]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(room > 0, 100.0 * cpu / room, np.nan)
    return ROLLING.frame(
        {
            "down": ids[down],
            "broker": ids[other],
            "cpu_pct": known("cpu_pct", share),
            "nw_out_kbs": cluster.sums.of("NW_OUT")[other] + failures.out[down, other],
            "leaders": cluster.sums.leaders[other] + failures.gained[down, other],
            "cpu_over": over_while_down(cluster, "CPU", failures.cpu, parameters)[down, other],
            "nw_out_over": over_while_down(cluster, "NW_OUT", failures.out, parameters)[down, other],
        }
    )


def select(topology: Topology, words: tuple[str, ...]) -> tuple[Flags, list[str]]:
    """Return flags [B] of brokers named by ``words`` (ids, ``rack:NAME`` or ``host:NAME``), and the words that match no broker.

    A rack or host is found by its full name, else by the part after its last ``-``, ``_``, ``.`` or ``/``.
    """
    chosen = np.zeros(topology.brokers, np.bool_)
    unknown = []
    for word in words:
        kind, _, name = word.partition(":")
        names = {"rack": topology.racks, "host": topology.hosts}.get(kind, ()) if name else ()
        hits = [index for index, value in enumerate(names) if value == name] or [
            index for index, value in enumerate(names)
            if len(value) > len(name) and value.endswith(name) and value[-len(name) - 1] in "-_./"
        ]  # fmt: skip
        number = word.removeprefix("broker:")
        if number.isascii() and number.isdecimal() and len(number) < 10:
            hits = [index for index in topology.index_of([int(number)]).tolist() if index >= 0]
        if hits:
            chosen[hits] = True
        else:
            unknown.append(word)
    return chosen, unknown
