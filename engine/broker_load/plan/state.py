"""A placement that changes one partition at a time, and its sums, goals and losses, all kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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


class State:
    """A placement of P partitions on B brokers.

    ``sums`` [8, B]; ``gained`` [2, E, B] CPU and network out that brokers gain in each event; ``topics`` [T, B] replicas;
    ``next`` [P, 2] heir if the leader's broker or rack dies.
    """

    def __init__(self, problem: Problem, slack: float = SLACK) -> None:
        self.problem, self.rack_of = problem, problem.racks.tolist()
        topology, loads = problem.cluster.topology, problem.cluster.loads
        self.lists = topology.replicas.astype(np.int32)
        self.leader = topology.leader.astype(np.int32)
        self.codes = problem.codes.copy()
        self.cpu = np.where(loads.held, loads.cpu, 0.0)
        self.offline = across(topology.offline_replicas & loads.held)
        self.offline_sum = int(self.offline.sum())
        self.broken = broken_racks(problem, self.lists) & (self.leader >= 0)
        self._true: tuple[Floats, Limits] | None = None
        self.clock = 0
        self._changed = np.zeros(len(problem.alive), np.int64)
        self._kept: dict[str, tuple[int, npt.NDArray[Any]]] = {}
        self._add_up(topology.topic)
        self._inherit()
        self.bounds: Limits = limits.limits(problem, self.sums, slack, rescued=True)

    def _add_up(self, topic: Ints) -> None:
        problem, brokers = self.problem, len(self.problem.alive)
        rows, places = np.nonzero(self.problem.cluster.loads.held)
        at = self.lists[rows, places]
        each = np.where((at == self.leader[rows])[:, None], problem.as_leader[rows], problem.as_follower[rows])
        each[:, CPU] = self.cpu[rows, places]
        self.sums = np.stack([tally(at, each[:, column], brokers) for column in range(each.shape[1])])
        kinds = len(problem.cluster.topology.topics)
        pairs = topic[rows].astype(np.int64) * brokers + at
        self.topics = np.bincount(pairs, minlength=kinds * brokers).reshape(kinds, brokers).astype(np.float64)
        low, high = limits.topic_limits(problem, self.topics)
        present = problem.cluster.model_topics
        self.topic_low, self.topic_high = np.where(present, low, -np.inf), np.where(present, high, np.inf)
        self.topic_excess = self.outside_topics().sum(axis=1)

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
        gone = np.concatenate([
            lists == leader[:, None], self.problem.rack_at[lists] == self.problem.racks[leader][:, None]
        ])  # fmt: skip
        twice = np.tile(lists, (2, 1)), np.tile(codes, (2, 1))
        return heirs(self.problem, np.tile(rows, 2), *twice, gone).reshape(2, -1).T

    def _bequeath(self, row: int, sign: int) -> None:
        """Add (``sign`` 1) or take back (-1) the load that a partition's next leaders get when its leader is lost."""
        problem, leader = self.problem, int(self.leader[row])
        if leader < 0:
            return
        rack_of, brokers = self.rack_of, len(problem.alive)
        events, lives = [leader, brokers + rack_of[leader]], problem.alive[leader]
        if sign > 0 or not lives:
            every = zip(self.lists[row].tolist(), self.codes[row].tolist(), strict=True)
            held = [(broker, code) for broker, code in every if broker >= 0]
            if not lives:  # it gets a new one in every event that touches it
                events[1:] = [brokers + rack for rack in sorted({rack_of[broker] for broker, _ in held})]
            to = [self._heir(row, [one for one in held if one[0] != leader])]
            to += [self._heir(row, [one for one in held if rack_of[one[0]] != event - brokers]) for event in events[1:]]
            if lives:
                self.next[row] = to
        else:
            to = self.next[row].tolist()
        carried = sign * problem.carried[row]
        for event, heir in zip(events, to, strict=True):
            if heir < 0:
                self.leaderless[event] += sign
            else:
                self.gained[:, event, heir] += carried

    def _heir(self, row: int, left: list[tuple[int, int]]) -> int:
        """Return which of the brokers ``left`` (each with the code of its replica) leads one partition next; -1 if none can.

        Does the same as ``heirs``, for one partition.
        """
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
        row, here = placed.row, self.lists[placed.row].tolist()
        self._count(row, -1)
        self._bequeath(row, -1)
        self.lists[row], self.leader[row], self.codes[row], self.cpu[row] = placed[1:]
        self._count(row, 1)
        self._bequeath(row, 1)
        there = self.lists[row].tolist()
        living = ((self.codes[row] & LIVING) > 0).tolist()
        offline = sum(broker >= 0 and not lives for broker, lives in zip(there, living, strict=True))
        self.offline_sum += offline - int(self.offline[row])
        self.offline[row] = offline
        if here != there:
            self._move(row, set(here) - {-1}, set(there) - {-1})
        self.clock += 1
        self._changed[[*here, *there]] = self.clock

    def _count(self, row: int, sign: int) -> None:
        """Add partition ``row`` to the sums, or take it away."""
        problem, leader = self.problem, self.leader[row]
        for place, broker in enumerate(self.lists[row].tolist()):
            if broker >= 0:
                load = sign * (problem.as_leader if broker == leader else problem.as_follower)[row]
                load[CPU] = sign * self.cpu[row, place]
                self.sums[:, broker] += load

    def _move(self, row: int, here: set[int], there: set[int]) -> None:
        """Count the replicas of partition ``row`` on other brokers than before."""
        problem, topic = self.problem, int(self.problem.cluster.topology.topic[row])
        low, high = float(self.topic_low[topic]), float(self.topic_high[topic])
        for broker in here ^ there:
            before = float(self.topics[topic, broker])
            after = self.topics[topic, broker] = before + (1.0 if broker in there else -1.0)
            if problem.alive[broker]:
                self.topic_excess[topic] += max(after - high, 0.0) + max(low - after, 0.0)
                self.topic_excess[topic] -= max(before - high, 0.0) + max(low - before, 0.0)
        self.broken[row] = len({self.rack_of[broker] for broker in there}) < len(there)

    # -- judgement --------------------------------------------------------------------------------------------------------

    def columns(self, name: str, compute: Callable[[Longs], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the values [..., B] that ``compute`` gives for all brokers; it is called again only for those that have changed.

        The array is shared: do not write to it.
        """
        clock, value = self._kept.get(name, (-1, np.empty(0)))
        if clock < 0 or (clock < self.clock and self.problem.machine is not None):
            value = compute(np.arange(len(self._changed)))
        elif clock < self.clock:
            at = np.flatnonzero(self._changed > clock)
            value[..., at] = compute(at)
        self._kept[name] = self.clock, value
        return value

    def excess(self) -> Floats:
        """Return how far each broker is outside each band [13, B], in mean loads; not to be written to."""

        def excess(at: Longs) -> Floats:
            sums = self.sums[:, at]
            return limits.excess(self.bounds, at, sums, limits.by_host(self.problem, sums)) / self.bounds.scale[:, None]

        return self.columns("excess", excess)

    def outside_topics(self) -> Floats:
        """Return how far each broker is outside the limits of each topic [T, B]."""
        low, high = self.topic_low[:, None], self.topic_high[:, None]
        return (np.maximum(self.topics - high, 0.0) + np.maximum(low - self.topics, 0.0)) * self.problem.alive

    def totals(self) -> Floats:
        """Return how far the cluster is outside each of the 16 goals, within the limits drawn in."""
        total = np.zeros(limits.GOALS)
        total[limits.PLACE] = self.excess().sum(axis=1)
        total[limits.RACK] = np.count_nonzero(self.broken)
        total[limits.TOPIC] = self.topic_excess.sum()
        return total

    def true_bounds(self) -> Limits:
        """Return the true limits, the same object as before if no sum over all brokers has changed."""
        totals = self.sums.sum(axis=1)
        totals[LEADER_IN] = self.sums[LEADER_IN, self.problem.alive].sum()
        if self._true is None or (np.abs(totals - self._true[0]) > 1e-12 * np.abs(totals)).any():
            self._true = totals, limits.limits(self.problem, self.sums)
        return self._true[1]

    def survived(self) -> Flags:
        """Return the events [E] that leave no partition without a leader and no survivor over a threshold."""

        def over(at: Longs) -> Flags:
            return strain(self.problem, at, self.sums[:, at], self.gained[:, :, at])[0] > 1e-9

        return np.asarray((self.leaderless == 0) & ~self.columns("over", over).any(axis=1), np.bool_)


def strain(problem: Problem, at: Longs, sums: Floats, gained: Floats) -> tuple[Floats, Floats]:
    """Return how far each event puts brokers ``at`` over a threshold [E, M], as shares of capacity, and the least distance to
    one (infinite for the dead).

    ``sums`` [8, M] and ``gained`` [2, E, M] of these brokers; all of them where machines are shared.
    """
    up = (problem.survivors & problem.counted[:, None])[:, at]
    over, most = np.zeros(up.shape), np.full(up.shape, -np.inf)
    for row in (CPU, NW_IN, NW_OUT, DISK):
        load, room = sums[row], problem.room[row, at]
        if row in CARRIED:
            load = load + gained[0 if row == CPU else 1]
        share = load / room
        if problem.machine is not None and row != DISK:
            load, room = (limits.by_host(problem, np.where(up, value, 0.0)) for value in (load, room))
            share = np.maximum(load / room, share) if row == CPU else load / room
        beyond = share - problem.thresholds[row]
        over += np.fmax(beyond, 0.0)
        most = np.maximum(most, np.where(np.isfinite(beyond), beyond, -np.inf))
    # Over is infinite where a broker has no capacity.
    return np.minimum(np.where(up, over, 0.0), 1e6), np.where(up, -most, np.inf)
