"""Changes that a plan could make next, many at once, and what each would do to the goals."""

from __future__ import annotations

import functools

import msgspec
import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.plan import limits
from engine.broker_load.plan.problem import CPU, DISK, IN_SYNC, LIVING, NW_IN, NW_OUT, Problem, legal
from engine.broker_load.plan.state import State

MOST = 40_000  # most candidates of one evaluation
NEAR = 6  # brokers with which replicas are swapped
FEW = 60  # replicas of each broker that swaps look at
CLOSE = 3_000  # candidates that are looked at closely, for their effect on every goal
BALANCED = np.array([CPU, NW_IN, NW_OUT, DISK])


class Candidates(msgspec.Struct, frozen=True, eq=False):
    """M changes of partitions ``row``: the replica at ``position`` goes to broker ``target``, or, where ``leads`` is set, takes
    the leadership. ``source``, ``target`` [M] brokers between which ``load`` [M, 8] goes. ``back`` [M]: place among the
    candidates ``others`` of the replica that comes back in a swap, -1 without one."""

    row: Ints
    position: Ints
    source: Ints
    target: Ints
    load: Floats
    leads: bool = False
    back: Longs | None = None
    others: Candidates | None = None

    def __len__(self) -> int:
        return len(self.row)

    def take(self, keep: Flags | Longs) -> Candidates:
        """Return the candidates ``keep``."""
        back = None if self.back is None else self.back[keep]
        columns = (self.row[keep], self.position[keep], self.source[keep], self.target[keep], self.load[keep])
        return Candidates(*columns, self.leads, back, self.others)

    def changes(self, state: State, one: int) -> list[tuple[int, list[int], int]]:
        """Return the new placement (partition, replicas, leader) of candidate ``one``, two for a swap."""
        row, position = int(self.row[one]), int(self.position[one])
        replicas = [broker for broker in state.lists[row].tolist() if broker >= 0]
        leader = int(state.leader[row])
        if self.leads:
            first = replicas.index(leader) if leader in replicas and position else position
            leader = replicas[position]  # already first: only a preferred election
            replicas[first], replicas[position] = replicas[position], replicas[first]
        else:
            leader = int(self.target[one]) if replicas[position] == leader else leader
            replicas[position] = int(self.target[one])
        first_led = [leader] + [broker for broker in replicas if broker != leader]
        more = [] if self.back is None or self.others is None else self.others.changes(state, int(self.back[one]))
        return [(row, first_led if leader >= 0 else replicas, leader), *more]


def leaderships(state: State, broker: int, away: bool) -> Candidates:
    """Return changes of leadership away from ``broker`` or to it: only in-sync living replicas lead."""
    problem = state.problem
    if away:
        rows = np.flatnonzero((state.leader == broker) & problem.movable)
    else:
        held = (state.lists == broker).any(axis=1)
        rows = np.flatnonzero(held & (state.leader >= 0) & (state.leader != broker) & problem.movable)
    return leads(state, rows, None if away else broker)


def leads(state: State, rows: Longs, broker: int | None = None) -> Candidates:
    """Return changes of leadership in partitions ``rows``, in their order, to any replica or that on ``broker``."""
    problem, lists = state.problem, state.lists[rows]
    fit = ((state.codes[rows] & (IN_SYNC | LIVING)) == (IN_SYNC | LIVING)) & (lists != state.leader[rows, None])
    fit &= problem.led_freely[rows, None]
    if broker is not None:
        fit &= lists == broker
    at, position = np.nonzero(fit)
    row = rows[at]
    load = problem.as_leader[row] - problem.as_follower[row]
    return Candidates(
        row.astype(np.int32), position.astype(np.int32), state.leader[row], lists[at, position], load, leads=True
    )


def replicas_on(state: State, brokers: Ints) -> tuple[Longs, Longs]:
    """Return partitions and positions of the replicas on ``brokers`` that may move, none beside an offline one."""
    chosen = np.zeros(len(state.problem.alive) + 1, np.bool_)
    chosen[brokers] = True
    rows, positions = np.nonzero(chosen[state.lists] & (state.problem.movable & (state.offline == 0))[:, None])
    return rows, positions


def loads_at(state: State, rows: Longs, positions: Longs) -> Floats:
    """Return the load [M, 8] of replicas."""
    leads = (state.lists[rows, positions] == state.leader[rows])[:, None]
    return np.where(leads, state.problem.as_leader[rows], state.problem.as_follower[rows])


def moves(state: State, rows: Longs, positions: Longs, targets: Ints) -> Candidates:
    """Return every legal move of the given replicas to ``targets``."""
    problem = state.problem
    count = max(MOST // max(len(targets), 1), 1)
    rows, positions = rows[:count], positions[:count]
    row, target = np.repeat(rows, len(targets)), np.tile(targets, len(rows))
    position = np.repeat(positions, len(targets))
    fits = legal(problem, state.lists[row], row.astype(np.int32), position.astype(np.int32), target)
    fits &= problem.led_freely[row] | (state.lists[row, position] != state.leader[row])
    row, position, target = row[fits], position[fits], target[fits]
    load = loads_at(state, row, position)
    return Candidates(
        row.astype(np.int32), position.astype(np.int32), state.lists[row, position], target.astype(np.int32), load
    )


def swaps(state: State, broker: int, others: Ints, column: int, sign: int) -> Candidates:
    """Return swaps of replicas on ``broker`` with those on ``others``.

    ``sign`` 1: the sum ``column`` of ``broker`` must fall; -1: it must rise.
    """
    mine = moves(state, *_heaviest(state, broker, column, sign), others)
    theirs = [_heaviest(state, other, column, -sign) for other in others.tolist()]
    rows, positions = (np.concatenate(each) for each in zip(*theirs, strict=True))
    return _pairs(mine, moves(state, rows, positions, np.array([broker], np.int32)), others, column, sign)


def leader_swaps(state: State, broker: int, column: int, sign: int) -> Candidates:
    """Return swaps of leaderships between ``broker`` and others, which copy nothing; as ``swaps``."""
    mine, back = leaderships(state, broker, away=True), leaderships(state, broker, away=False)
    return _pairs(mine, back, np.intersect1d(mine.target, back.source), column, sign)


def _pairs(mine: Candidates, back: Candidates, others: Ints, column: int, sign: int) -> Candidates:
    """Return pairs of a candidate of ``mine`` to one of the ``others`` and one of ``back`` from it."""
    left, right = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for other in others.tolist():
        here, there = np.flatnonzero(mine.target == other), np.flatnonzero(back.source == other)
        here = here[_spread(sign * mine.load[here, column])]
        there = there[_spread(-sign * back.load[there, column])]
        left.append(np.repeat(here, len(there)))
        right.append(np.tile(there, len(here)))
    first, second = np.concatenate(left), np.concatenate(right)
    load = mine.load[first] - back.load[second]
    keep = (sign * load[:, column] > 0) & (mine.row[first] != back.row[second])
    return msgspec.structs.replace(mine.take(first[keep]), load=load[keep], back=second[keep], others=back)


def _spread(load: Floats) -> Longs:
    """Return places of a few of the loads, spread over all, so that pairs differ by any amount."""
    return np.argsort(-load, kind="stable")[_few(len(load))]


@functools.lru_cache(maxsize=4096)
def _few(count: int) -> Longs:
    return np.unique(np.linspace(0, max(count - 1, 0), min(FEW, count)).astype(np.int64))


def joined(parts: list[Candidates]) -> Candidates:
    """Return the candidates of all parts, which are of one kind and no swaps."""
    row, position, source, target, load = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("row", "position", "source", "target", "load")
    )
    return Candidates(row, position, source, target, load, parts[0].leads)


def _heaviest(state: State, broker: int, column: int, sign: int) -> tuple[Longs, Longs]:
    """Return some replicas on ``broker``, spread over all by their load in ``column``, so that pairs differ by any amount."""
    rows, positions = replicas_on(state, np.array([broker], np.int32))
    chosen = _spread(sign * loads_at(state, rows, positions)[:, column])
    return rows[chosen], positions[chosen]


def promising(state: State, made: Candidates, place: int) -> Candidates:
    """Return the candidates that mend band ``place`` most per MB; all if they are few or if brokers share machines."""
    if len(made) <= CLOSE or state.problem.machine is not None:
        return made
    column = limits.COLUMN[place]
    load, gain = made.load[:, column], np.zeros(len(made))
    for at, sign in ((made.source, -1), (made.target, 1)):
        now = state.sums[column][at]
        low, high = state.bounds.low[place][at], state.bounds.high[place][at]
        for value, step in ((now, 1), (now + sign * load, -1)):
            gain += step * (np.maximum(value - high, 0.0) + np.maximum(low - value, 0.0))
    best = np.argpartition(-(gain / sizes(state.problem, made)), CLOSE)[:CLOSE]
    return made.take(np.sort(best[gain[best] > 0]))


def effect(state: State, made: Candidates) -> Floats:
    """Return the change [16, M] of how far the cluster is outside each goal.

    Racks are left out: no candidate makes them worse.
    """
    count, at = len(made), np.concatenate([made.source, made.target])
    load = np.concatenate([-made.load.T, made.load.T], axis=1)
    then = hosts = state.sums[:, at] + load
    if state.problem.machine is not None:
        apart = state.problem.machine[made.source] != state.problem.machine[made.target]
        hosts = limits.by_host(state.problem, state.sums)[:, at] + load * np.tile(apart, 2)
    outside = limits.excess(state.bounds, at, then, hosts) / state.bounds.scale[:, None] - state.excess()[:, at]
    change = np.zeros((limits.GOALS, count))
    change[limits.PLACE] = outside[:, :count] + outside[:, count:]
    if not made.leads:
        change[limits.TOPIC] = _topic_change(state, made.row, made.source, made.target)
        if made.back is not None and made.others is not None:
            back = made.others.take(made.back)
            change[limits.TOPIC] += _topic_change(state, back.row, back.source, back.target)
    return change


def distance(state: State, made: Candidates) -> Floats:
    """Return the change [M] of the distance from an even load."""
    total, even = np.zeros(len(made)), state.problem.even(state.sums)[BALANCED]
    for at, sign in ((made.source, -1), (made.target, 1)):
        now, off = state.sums[:, at], even[:, at]
        then = now + sign * made.load.T
        total += (((then - now)[BALANCED] * off) * ((then + now)[BALANCED] * off - 2.0)).sum(axis=0)
    return total


def _topic_change(state: State, row: Ints, source: Ints, target: Ints) -> Floats:
    topic = state.problem.cluster.topology.topic[row]
    low, high, alive = state.topic_low[topic], state.topic_high[topic], state.problem.alive
    total = np.zeros(len(row))
    for at, step in ((source, -1), (target, 1)):
        count = state.topics[topic, at]
        outside = np.maximum(count + step - high, 0.0) + np.maximum(low - count - step, 0.0)
        total += (outside - np.maximum(count - high, 0.0) - np.maximum(low - count, 0.0)) * alive[at]
    return total


def sizes(problem: Problem, made: Candidates) -> Floats:
    """Return what each candidate costs in MB: its data, and something for every change."""
    if made.leads:
        return np.full(len(made), problem.cost_mb * (1 if made.back is None else 2))
    cost = problem.as_follower[made.row, DISK] + 3 * problem.cost_mb
    if made.back is not None and made.others is not None:
        cost = cost + problem.as_follower[made.others.row[made.back], DISK] + 3 * problem.cost_mb
    return np.asarray(cost)
