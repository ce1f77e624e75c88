"""A placement that changes one partition at a time, and its sums, goals and losses, all kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, across, tally
from engine.broker_load.plan import limits
from engine.broker_load.plan.limits import Limits
from engine.broker_load.plan.problem import (
    CARRIED,
    CPU,
    DISK,
    ELIGIBLE,
    IN_SYNC,
    LEADER_IN,
    LIVING,
    NW_IN,
    NW_OUT,
    SLACK,
    Problem,
    broken_racks,
    heirs,
)


class Placed(NamedTuple):
    """A partition's replicas in order (-1 beyond the last), its leader, what each replica is, and each one's CPU."""

    row: int
    replicas: Ints
    leader: int
    codes: Ints
    cpu: Floats


@dataclass(frozen=True, slots=True)
class Survival:
    """What every event does: ``over`` [E, B] how far survivors are over a threshold, as shares of capacity; ``headroom`` [E, B]
    the least distance to one (infinite for the dead); ``leaderless`` [E] partitions."""

    over: Floats
    headroom: Floats
    leaderless: Ints

    @property
    def survived(self) -> Flags:
        """[E] events that leave no partition without a leader and no survivor over a threshold."""
        return np.asarray((self.leaderless == 0) & (self.over.max(axis=1, initial=0.0) <= 1e-9), np.bool_)


class State:
    """A placement of P partitions on B brokers.

    ``sums`` [8, B]; ``gained`` [2, E, B] CPU and network out that brokers gain in each event; ``topics`` [T, B] replicas;
    ``next`` [P, 2] heir if the leader's broker or rack dies.
    """

    def __init__(self, problem: Problem, slack: float = SLACK) -> None:
        self.problem, self.slack = problem, slack
        topology, loads = problem.cluster.topology, problem.cluster.loads
        self.lists = topology.replicas.astype(np.int32)
        self.leader = topology.leader.astype(np.int32)
        self.codes = problem.codes.copy()
        self.cpu = np.where(loads.held, loads.cpu, 0.0)
        self.offline = across(topology.offline_replicas & loads.held)
        self.broken = broken_racks(problem, self.lists) & (self.leader >= 0)
        self._true: tuple[Floats, Limits] | None = None
        self._add_up(topology.topic)
        self._inherit()
        self.bounds: Limits = limits.limits(problem, self.sums, slack, rescued=True)

    def _add_up(self, topic: Ints) -> None:
        problem, brokers = self.problem, len(self.problem.alive)
        held = self.problem.cluster.loads.held
        rows, places = np.nonzero(held)
        at = self.lists[rows, places]
        leads = (at == self.leader[rows])[:, None]
        each = np.where(leads, problem.as_leader[rows], problem.as_follower[rows])
        each[:, CPU] = self.cpu[rows, places]
        self.sums = np.stack([tally(at, each[:, column], brokers) for column in range(each.shape[1])])
        kinds = len(problem.cluster.topology.topics)
        pairs = topic[rows].astype(np.int64) * brokers + at
        self.topics = np.bincount(pairs, minlength=kinds * brokers).reshape(kinds, brokers).astype(np.float64)
        low, high = limits.topic_limits(problem, self.topics)
        present = problem.cluster.model_topics
        self.topic_low, self.topic_high = np.where(present, low, -np.inf), np.where(present, high, np.inf)
        self.topic_excess = self._topic_excess(slice(None))

    def _topic_excess(self, topic: int | slice) -> Floats:
        counts, low, high = self.topics[topic], np.asarray(self.topic_low[topic]), np.asarray(self.topic_high[topic])
        beyond = np.maximum(counts - high[..., None], 0.0) + np.maximum(low[..., None] - counts, 0.0)
        return np.asarray((beyond * self.problem.alive).sum(axis=-1))

    def _inherit(self) -> None:
        """Compute from scratch who leads next in every event."""
        problem, brokers = self.problem, len(self.problem.alive)
        self.gained = np.zeros((2, *problem.events.shape))
        self.leaderless = np.zeros(len(problem.events), np.int32)
        self.next = np.full((len(self.leader), 2), -1, np.int32)
        led = np.flatnonzero((self.leader >= 0) & np.append(problem.alive, False)[self.leader]).astype(np.int32)
        self.next[led] = self.heirs_of(led, self.lists[led], self.codes[led], self.leader[led])
        carried = problem.carried
        for way, event in enumerate((self.leader[led], brokers + problem.racks[self.leader[led]])):
            takes = self.next[led, way] >= 0
            cell = event[takes].astype(np.int64) * brokers + self.next[led[takes], way]
            for resource in range(2):
                gained = tally(cell, carried[led[takes], resource], problem.events.size)
                self.gained[resource] += gained.reshape(problem.events.shape)
            self.leaderless += np.bincount(event[~takes], minlength=len(problem.events)).astype(np.int32)
        for row in np.flatnonzero((self.leader >= 0) & ~np.append(problem.alive, False)[self.leader]).tolist():
            self._bequeath(row, 1)

    def heirs_of(self, rows: Ints, lists: Ints, codes: Ints, leader: Ints) -> Ints:
        """Return who leads [M, 2] partitions ``rows``, placed as ``lists`` [M, R], when the leader's broker or rack dies."""
        racks = self.problem.racks
        gone = (lists == leader[:, None], np.append(racks, -1)[lists] == racks[leader][:, None])
        return np.stack([heirs(self.problem, rows, lists, codes, one) for one in gone], axis=1)

    def _bequeath(self, row: int, sign: int) -> None:
        """Add (or take back, ``sign`` -1) what one partition's loss of its leader gives to its heirs."""
        problem, leader = self.problem, int(self.leader[row])
        if leader < 0:
            return
        brokers, racks = len(problem.alive), problem.racks
        events = [(leader, 0), (brokers + int(racks[leader]), 1)]
        held = [broker for broker in self.lists[row].tolist() if broker >= 0]
        if problem.alive[leader]:
            if sign > 0:
                neighbours = {broker for broker in held if racks[broker] == racks[leader]}
                self.next[row] = self._heir(row, {leader}), self._heir(row, neighbours)
            heir = [(event, int(self.next[row, way])) for event, way in events]
        else:  # a dead leader's partition gets a new one in every event that touches it
            heir = [(leader, self._heir(row, {leader}))]
            for rack in sorted({int(racks[broker]) for broker in held}):
                heir.append((brokers + rack, self._heir(row, {broker for broker in held if racks[broker] == rack})))
        carried = problem.carried[row]
        for event, broker in heir:
            if broker < 0:
                self.leaderless[event] += sign
            else:
                self.gained[:, event, broker] += sign * carried

    def _heir(self, row: int, gone: set[int]) -> int:
        """Return who leads one partition next if the brokers ``gone`` die, -1 without one; as ``heirs``, of one partition."""
        pairs = zip(self.lists[row].tolist(), self.codes[row].tolist(), strict=True)
        left = [(broker, code) for broker, code in pairs if broker >= 0 and broker not in gone]
        lost = not any(code & IN_SYNC for _, code in left) and self.problem.cluster.topology.elr_known[row]
        living = [(broker, code) for broker, code in left if code & LIVING]
        clean = [broker for broker, code in living if code & (ELIGIBLE if lost else IN_SYNC)]
        if clean or not (living and self.problem.unclean[row]):
            return clean[0] if clean else -1
        return living[0][0]

    # -- changes --------------------------------------------------------------------------------------------------------

    def placed(self, row: int) -> Placed:
        """Return how partition ``row`` is placed now."""
        return Placed(row, self.lists[row].copy(), int(self.leader[row]), self.codes[row].copy(), self.cpu[row].copy())

    def place(self, row: int, replicas: Sequence[int], leader: int) -> Placed:
        """Give partition ``row`` these replicas and this leader; return how it was placed before.

        A new replica is in sync at the end of its copy, and then so are all living ones.
        """
        before = self.placed(row)
        known = dict(zip(before.replicas.tolist(), before.codes.tolist(), strict=True))
        codes = [known.get(broker, IN_SYNC | LIVING) for broker in replicas]
        if any(broker not in known for broker in replicas):
            codes = [code | IN_SYNC if code & LIVING else code for code in codes]
        lists, flags, cpu = before.replicas.copy(), before.codes.copy(), before.cpu.copy()
        lists[: len(replicas)], flags[: len(replicas)] = replicas, codes
        cpu[: len(replicas)] = self.problem.as_follower[row, CPU]
        cpu[: len(replicas)][lists[: len(replicas)] == leader] = self.problem.as_leader[row, CPU]
        self.restore(Placed(row, lists, leader, flags, cpu))
        return before

    def restore(self, placed: Placed) -> None:
        """Place a partition as ``placed`` says."""
        row = placed.row
        self._count(row, -1)
        self._bequeath(row, -1)
        self.lists[row], self.leader[row], self.codes[row], self.cpu[row] = placed[1:]
        self._count(row, 1)
        self._bequeath(row, 1)

    def _count(self, row: int, sign: int) -> None:
        """Add partition ``row`` to the sums and counts, or take it away."""
        held = self.lists[row] >= 0
        brokers = self.lists[row, held]
        leads = (brokers == self.leader[row])[:, None]
        each = np.where(leads, self.problem.as_leader[row], self.problem.as_follower[row])
        each[:, CPU] = self.cpu[row, held]
        self.sums[:, brokers] += sign * each.T
        topic = int(self.problem.cluster.topology.topic[row])
        self.topics[topic, brokers] += sign
        if sign > 0:
            self.topic_excess[topic] = self._topic_excess(topic)
            living = (self.codes[row, held] & LIVING) > 0
            self.offline[row] = int((~living).sum())
            racks = self.problem.racks[brokers]
            self.broken[row] = len(set(racks.tolist())) < len(racks)

    # -- judgement --------------------------------------------------------------------------------------------------------

    def hosts(self) -> Floats:
        """Return the sums of each broker's machine; the sums themselves where no machine is shared."""
        return limits.by_host(self.problem, self.sums)

    def excess(self) -> Floats:
        """Return how far each broker is outside each band [13, B], in mean loads."""
        return limits.excess(self.bounds, slice(None), self.sums, self.hosts()) / self.bounds.scale[:, None]

    def totals(self, excess: Floats | None = None) -> Floats:
        """Return how far the cluster is outside each of the 16 goals, within the limits drawn in."""
        total = np.zeros(limits.GOALS)
        total[limits.PLACE] = (self.excess() if excess is None else excess).sum(axis=1)
        total[limits.RACK] = self.broken.sum()
        total[limits.TOPIC] = self.topic_excess.sum()
        return total

    def offenders(self, undecided: Flags) -> Longs:
        """Return how many brokers, partitions or topics break each of the 16 goals, judged by the true limits.

        ``undecided`` [16] goals count none.
        """
        totals = self.sums.sum(axis=1)
        totals[LEADER_IN] = self.sums[LEADER_IN, self.problem.alive].sum()
        if self._true is None or (np.abs(totals - self._true[0]) > 1e-12 * np.abs(totals)).any():
            self._true = totals, limits.limits(self.problem, self.sums)
        bounds = self._true[1]
        count = np.zeros(limits.GOALS, np.int64)
        count[limits.PLACE] = limits.outside(bounds, self.sums, self.hosts()).sum(axis=1)
        count[limits.RACK] = self.broken.sum()
        count[limits.TOPIC] = (self.topic_excess > 0).sum()
        return np.where(undecided, 0, count)

    def survival(self) -> Survival:
        """Return what every event would do to the survivors."""
        problem = self.problem
        up = problem.alive & ~problem.events & problem.counted[:, None]
        over, most = np.zeros(up.shape), np.full(up.shape, -np.inf)
        for row in (CPU, NW_IN, NW_OUT, DISK):
            load, room = self.sums[row], problem.room[row]
            if row in CARRIED:
                load = load + self.gained[0 if row == CPU else 1]
            share = load / room
            if problem.machine is not None and row != DISK:
                load, room = (limits.by_host(problem, np.where(up, value, 0.0)) for value in (load, room))
                share = np.maximum(load / room, share) if row == CPU else load / room
            beyond = share - problem.thresholds[row]
            over += np.fmax(beyond, 0.0)
            most = np.maximum(most, np.where(np.isfinite(beyond), beyond, -np.inf))
        over = np.minimum(np.where(up, over, 0.0), 1e6)  # infinite where a broker has no capacity
        return Survival(over, np.where(up, -most, np.inf), self.leaderless.copy())
