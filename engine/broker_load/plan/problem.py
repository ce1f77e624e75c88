"""What a plan starts from: loads of every partition as leader and as follower, where replicas may go, which losses count."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property

import msgspec
import numpy as np

from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.model.topology import Flags, Floats, Ints, across, any_of, first_of
from engine.broker_load.parameters import BrokerLoadParameters

CPU, NW_IN, NW_OUT, DISK, LEADER_IN, POTENTIAL, LEADERS, REPLICAS = range(8)
"""Rows of the sums per broker, the first four in the order of RESOURCES."""
CARRIED = np.array([CPU, NW_OUT])  # rows of the load that goes to an heir, beside the leader's network in
IN_SYNC, ELIGIBLE, LIVING = 1, 2, 4
"""What a replica is: in sync, in the ELR, on a living broker and directory; any sum of them."""
SLACK = 1e-4  # how far inside the limits plans stay, so that the rounding of sums does not decide
MOST_RACKS = 64  # most racks whose loss is computed, as in table ``failures``


class Problem(msgspec.Struct, frozen=True, eq=False, dict=True):
    """P partitions on B brokers today, as the plan sees them: drained brokers are dead.

    ``places`` [B] brokers that may receive a replica; ``movable`` [P] partitions that may change; ``as_leader``,
    ``as_follower`` [P, 8] load of a replica, by the rows above; ``cost_mb`` what every replica move costs beside its data.
    """

    cluster: Cluster
    parameters: BrokerLoadParameters
    places: Flags
    movable: Flags
    as_leader: Floats
    as_follower: Floats
    sized: bool
    cost_mb: float

    @cached_property
    def alive(self) -> Flags:
        """[B] brokers that live."""
        return self.cluster.topology.alive

    @cached_property
    def carried(self) -> Floats:
        """[P, 2] CPU and network out that go with the leadership of a partition."""
        return (self.as_leader - self.as_follower)[:, CARRIED]

    @cached_property
    def racks(self) -> Ints:
        """[B] index of the rack of each broker; unknown racks are hosts."""
        return self.cluster.topology.racks_index[1].astype(np.int32)

    @cached_property
    def rack_at(self) -> Ints:
        """[B + 1] ``racks``, and -1 for no broker, which comes last."""
        return np.append(self.racks, -1)

    @cached_property
    def live_racks(self) -> int:
        """Number of racks with a living broker."""
        return len(np.unique(self.racks[self.alive]))

    @cached_property
    def machine(self) -> Ints | None:
        """[B] index of each broker's machine, None where every broker has its own."""
        machines, index = self.cluster.topology.machines
        return None if machines == self.cluster.topology.brokers else index

    @cached_property
    def room(self) -> Floats:
        """[4, B] capacity of each broker; infinite where unknown, 0 on dead ones."""
        room = np.stack([self.cluster.capacity(name) for name in RESOURCES])
        return np.where(np.isnan(room), np.inf, room)

    @cached_property
    def carriable(self) -> Floats:
        """[2, 2, B] CPU and network out that each broker may carry after a loss, drawn in, and the inverses of its capacity.

        Without capacity no load is none, and any is much.
        """
        room = self.room[CARRIED]
        share = np.divide(1.0, room, out=np.full_like(room, 1e12), where=room > 0)
        return np.stack([self.thresholds[CARRIED, None] * (1 - SLACK) * room, share])

    @cached_property
    def thresholds(self) -> Floats:
        """[4] share of each capacity that may be used."""
        return np.array([self.parameters.capacity_threshold(name) for name in RESOURCES])

    @cached_property
    def events(self) -> Flags:
        """[E, B] brokers that die in each event: every broker, then every rack."""
        racks = int(self.racks.max(initial=-1)) + 1
        return np.vstack([np.eye(len(self.racks), dtype=np.bool_), self.racks == np.arange(racks)[:, None]])

    @cached_property
    def survivors(self) -> Flags:
        """[E, B] living brokers that are left in each event."""
        return self.alive & ~self.events

    @cached_property
    def counted(self) -> Flags:
        """[E] events that table ``failures`` shows: living brokers, and racks of several ones beside others."""
        brokers, lost = len(self.racks), (self.events & self.alive).sum(axis=1)
        racks = len(self.events) - brokers
        shown = (lost > 1) & (lost < self.alive.sum()) & (racks < brokers) & (racks <= MOST_RACKS)
        shown[:brokers] = self.alive
        return shown

    @cached_property
    def rack_wide(self) -> Flags:
        """[P] partitions with at most as many replicas as there are live racks: each must have a rack of its own."""
        return np.asarray(self.cluster.topology.count <= self.live_racks, np.bool_)

    @cached_property
    def led_freely(self) -> Flags:
        """[P] partitions whose leader may change: those of topics that need leaders on every broker keep theirs."""
        free, topology = np.ones(self.cluster.topology.size, np.bool_), self.cluster.topology
        with suppress(re.error):
            chosen = re.compile(self.parameters.topics_with_min_leaders_per_broker)
            free = ~np.array([bool(chosen.fullmatch(name)) for name in topology.topics], np.bool_)[topology.topic]
        return free

    def even(self, sums: Floats) -> Floats:
        """Return the inverse [8, B] of the load each broker would have if all were used alike; 0 where unknown."""
        share = sums[:4].sum(axis=1, keepdims=True) * self.room / self.room[:, self.alive].sum(axis=1, keepdims=True)
        inverse = np.zeros_like(sums)
        inverse[:4] = np.where(np.isfinite(share) & (share > 0), 1.0 / share, 0.0)
        return inverse

    @cached_property
    def unclean(self) -> Flags:
        """[P] whether an out-of-sync replica may lead."""
        value = self.cluster.topology.unclean
        return np.where(value >= 0, value == 1, self.parameters.unclean_leader_election)

    @cached_property
    def codes(self) -> Ints:
        """[P, R] what each replica is; 0 without one."""
        topology = self.cluster.topology
        living = topology.held & ~topology.offline_replicas
        return (IN_SYNC * topology.isr + ELIGIBLE * topology.elr + LIVING * living).astype(np.int32) * topology.held


def loads_of(cluster: Cluster) -> tuple[Floats, Floats]:
    """Return the load [P, 8] of each partition's leader, and of a follower listed after it."""
    loads = cluster.loads
    led = any_of(loads.leads)
    row = np.arange(len(led))
    place = first_of(loads.leads)

    size, arriving = loads.disk[row, first_of(loads.held)], loads.nw_in[row, first_of(loads.held)]
    cpu, out, one = np.where(led, loads.cpu[row, place], 0.0), loads.potential, any_of(loads.held).astype(np.float64)
    none = np.zeros(len(led))
    lead = np.stack([cpu, arriving, out, size, arriving, out, one, one], axis=1)
    return lead, np.stack([loads.demoted, arriving, none, size, none, out, none, one], axis=1)


def legal(problem: Problem, lists: Ints, rows: Ints, position: Ints, target: Ints) -> Flags:
    """Return flags [M]: the replica at ``position`` of ``lists`` [M, R] of partitions ``rows`` may go to broker ``target``.

    No broker holds two replicas; a replica gets a rack of its own where there are enough; and never are there fewer racks
    than before.
    """
    other = lists >= 0
    each = np.arange(len(lists))
    other[each, position] = False
    racks = np.where(other, problem.rack_at[lists], -2)
    shared = any_of(racks == problem.racks[target][:, None])
    spare = any_of(racks == problem.racks[lists[each, position]][:, None]) & ~problem.rack_wide[rows]
    fits = problem.places[target] & ~any_of(lists == target[:, None]) & (~shared | spare)
    return np.asarray(fits & problem.movable[rows], np.bool_)


def broken_racks(problem: Problem, lists: Ints) -> Flags:
    """Return flags [M]: two replicas of ``lists`` [M, R] share a rack."""
    racks = np.where(lists >= 0, problem.rack_at[lists], -np.arange(1, lists.shape[1] + 1))
    return np.asarray(
        across((racks[:, :, None] == racks[:, None, :]).reshape(len(lists), -1)) > lists.shape[1], np.bool_
    )


def heirs(problem: Problem, rows: Ints, lists: Ints, codes: Ints, gone: Flags) -> Ints:
    """Return who leads [M] partitions ``rows`` next when the replicas ``gone`` [M, R] of ``lists`` are: -1 without one.

    Kafka's rule, as in ``failover``: the first living in-sync replica in order; else an eligible one; else, if allowed, any.
    """
    if not len(rows):
        return np.empty(0, np.int32)
    each, left = np.arange(len(rows)), np.where(gone | (lists < 0), 0, codes)
    clean = (left & (IN_SYNC | LIVING)) == (IN_SYNC | LIVING)
    lost = problem.cluster.topology.elr_known[rows] & ~any_of((left & IN_SYNC) > 0)
    if lost.any():
        clean = np.where(lost[:, None], (left & (ELIGIBLE | LIVING)) == (ELIGIBLE | LIVING), clean)
    place = first_of(clean)
    takes = clean[each, place]
    anyone = ~takes & problem.unclean[rows]
    if anyone.any():
        living = (left & LIVING) > 0
        place = np.where(anyone, first_of(living), place)
        takes |= anyone & any_of(living)
    return np.where(takes, lists[each, place], -1).astype(np.int32)
