"""Survival: changes of order, leaders and places that relieve who takes over after a loss, and what each does to all losses.

Who takes over is the first in-sync replica in order, so that a change of order alone, which copies nothing, decides where a
dead broker's load goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.plan import candidates
from engine.broker_load.plan.candidates import NEAR, Candidates
from engine.broker_load.plan.problem import CARRIED, DISK, IN_SYNC, LIVING
from engine.broker_load.plan.search import EPSILON, Change, Search
from engine.broker_load.plan.state import State

MOST_CELLS = 4_000_000  # most pairs of a candidate and an event that are computed together


class Reordered(msgspec.Struct, frozen=True, eq=False):
    """M new orders ``lists`` [M, R] with ``codes`` [M, R] and ``leader`` [M] of partitions ``row``; ``made`` the move of load
    that goes with them, None where only followers change places; ``cost`` [M] MB."""

    row: Ints
    lists: Ints
    codes: Ints
    leader: Ints
    cost: Floats
    made: Candidates | None = None

    def change(self, state: State, one: int) -> list[Change]:
        """Return the new placement of candidate ``one``."""
        if self.made is not None:
            return self.made.changes(state, one)
        return [
            (int(self.row[one]), [broker for broker in self.lists[one].tolist() if broker >= 0], int(self.leader[one]))
        ]


def cells(state: State, wanted: Flags) -> Floats:
    """Return how far each survivor [E, B] is over its CPU or network-out threshold, drawn in, in the ``wanted`` events."""

    def over(at: Longs) -> Floats:
        return _over(state, _loads(state)[:, :, at], at[None])

    up = state.problem.survivors & (wanted & state.problem.counted)[:, None]
    return np.where(up, state.columns("over drawn in", over), 0.0)


def short(state: State, wanted: Flags) -> Flags:
    """Return the ``wanted`` losses of single brokers [E] after which all survivors together have more CPU or network out than
    they may carry, whoever leads."""
    problem = state.problem
    up = problem.survivors & (wanted & problem.counted & (np.arange(len(wanted)) < len(problem.alive)))[:, None]
    return np.asarray((np.where(up, _loads(state) - problem.carriable[0][:, None], 0.0).sum(axis=2) > 0).any(axis=0))


def _loads(state: State) -> Floats:
    """Return CPU and network out [2, E, B] of each broker in every event."""
    return state.columns("loads", lambda at: state.sums[CARRIED][:, None, at] + state.gained[:, :, at])


def _over(state: State, load: Floats, at: Ints | Longs) -> Floats:
    """Return how far ``load`` [2, K, M] of brokers ``at`` [K, M] (or [1, M]) is over the thresholds, as a share of capacity."""
    limit, share = state.problem.carriable[:, :, at]
    over = np.minimum(np.maximum(load - limit, 0.0) * share, 1e3)
    return np.asarray(over[0] + over[1])


@dataclass
class Relief:
    """Changes that may help with losses ``wanted`` [E], by ``swaps`` too, and what each does to them."""

    search: Search
    wanted: Flags
    swaps: bool = False

    def __post_init__(self) -> None:
        self.up = self.search.problem.survivors & (self.wanted & self.search.problem.counted)[:, None]

    def offers(self, event: int, heir: int) -> Iterator[tuple[Reordered | Candidates, list[int]]]:
        """Yield changes that may relieve ``heir`` in ``event``, the cheapest kind first: orders, leaderships, moves, swaps; and
        where each part of them ends that is to be tried before the next."""
        state, problem = self.search.state, self.search.problem
        rack = event - len(problem.alive)
        led = np.append(problem.racks == rack, False)[state.leader] if rack >= 0 else state.leader == event
        mine = np.flatnonzero(led & (state.next[:, int(rack >= 0)] == heir) & problem.movable)
        orders = self._orders(mine, heir)
        yield orders, [len(orders.row)]
        leaders = state.leader[mine]
        given = candidates.leads(state, mine[np.argsort(leaders, kind="stable")])
        away = candidates.joined([given, candidates.leaderships(state, heir, away=True)])
        yield away, [*np.searchsorted(given.source, np.unique(leaders), side="right").tolist(), len(away)]
        if self.search.free:
            return
        places = np.flatnonzero(problem.places).astype(np.int32)
        rows, positions = candidates.replicas_on(state, np.array([heir], np.int32))
        first = np.lexsort((problem.as_follower[rows, DISK], ~np.isin(rows, mine)))
        made = candidates.moves(state, rows[first], positions[first], places)
        yield made, [len(made)]
        for column in CARRIED.tolist() if self.swaps else []:
            made = candidates.leader_swaps(state, heir, column, 1)
            yield made, [len(made)]
            order = np.argsort(state.sums[column] * problem.even(state.sums)[column], kind="stable").astype(np.int32)
            near = order[(order != heir) & problem.places[order]][:NEAR]
            if len(near):
                made = candidates.swaps(state, heir, near, column, 1)
                yield made, [len(made)]

    def _orders(self, rows: Longs, heir: int) -> Reordered:
        """Return every way to let another follower come first."""
        state = self.search.state
        lists = state.lists[rows]
        fit = ((state.codes[rows] & (IN_SYNC | LIVING)) == (IN_SYNC | LIVING)) & (lists != state.leader[rows, None])
        at, position = np.nonzero(fit & (lists != heir))
        row = rows[at].astype(np.int32)
        # The leader comes first, then the chosen follower, then the others in their order.
        rank = np.where(lists[at] == state.leader[row, None], -2, np.arange(lists.shape[1]))
        rank[np.arange(len(row)), position] = -1
        rank[lists[at] < 0] = lists.shape[1]
        order = np.argsort(rank, axis=1, kind="stable")
        made = Reordered(row, np.take_along_axis(lists[at], order, 1), np.take_along_axis(state.codes[row], order, 1),
                         state.leader[row], np.full(len(row), 0.01 * self.search.problem.cost_mb))  # fmt: skip
        return made

    def placed(self, made: Candidates, whole: Candidates) -> Reordered:
        """Return the orders that changes of leadership or moves lead to, as parts of the changes ``whole``."""
        state = self.search.state
        lists, codes, leader = state.lists[made.row].copy(), state.codes[made.row].copy(), state.leader[made.row].copy()
        each = np.arange(len(made))
        if made.leads:
            first = np.where(made.position > 0, np.argmax(lists == leader[:, None], axis=1), 0)
            leader = made.target.copy()
            for value in (lists, codes):
                value[each, first], value[each, made.position] = value[each, made.position], value[each, first].copy()
        else:
            leader = np.where(made.source == leader, made.target, leader)
            lists[each, made.position], codes[each, made.position] = made.target, IN_SYNC | LIVING
        order = np.argsort(np.where(lists == leader[:, None], -1, np.arange(lists.shape[1])), axis=1, kind="stable")
        lists, codes = np.take_along_axis(lists, order, 1), np.take_along_axis(codes, order, 1)
        return Reordered(made.row, lists, codes, leader, candidates.sizes(self.search.problem, whole), whole)

    def judged(self, made: Candidates, weight: float, loss: Floats) -> tuple[Longs, Reordered, Floats]:
        """Return which candidates may lower the sum, where they lead, and by how much each would lower it alone.

        ``weight``: of the load by which survivors exceed their thresholds; ``loss`` [M]: what a candidate makes worse elsewhere.
        """
        state, count, both, parts = self.search.state, len(made), made, 1
        if made.back is not None and made.others is not None:  # of swaps, what comes back follows
            both, parts = candidates.joined([made, made.others.take(made.back)]), 2
        shift = made.load[:, CARRIED].T
        over = self._columns(np.concatenate([made.source, made.target]), np.concatenate([-shift, shift], axis=1))
        over = over[:count] + over[count:]
        gone = self._steps(both.row, state.leader[both.row], state.next[both.row], -1, made)
        near = np.flatnonzero(-weight * (over + gone.reshape(2 * parts, count).sum(axis=0)) - loss > -EPSILON * weight)
        few = made.take(near)
        each = (near + count * np.arange(parts)[:, None]).ravel()
        offer = self.placed(both.take(each), few)
        over = over[near]
        for part in self.inherited(offer, gone[:, each], few).reshape(parts, len(near)):
            over = over + part
        return near, offer, -weight * over - loss[near]

    def inherited(self, offer: Reordered, gone: Floats | None = None, made: Candidates | None = None) -> Floats:
        """Return the change [M] of how far heirs are over their thresholds with the loads ``made`` moved; ``gone`` [2, M]:
        that of those who inherit no more."""
        state = self.search.state
        if gone is None:
            gone = self._steps(offer.row, state.leader[offer.row], state.next[offer.row], -1, made)
        heirs = state.heirs_of(offer.row, offer.lists, offer.codes, offer.leader)
        return np.concatenate([gone, self._steps(offer.row, offer.leader, heirs, 1, made)]).sum(axis=0)

    def _steps(self, rows: Ints, leader: Ints, heirs: Ints, sign: int, made: Candidates | None) -> Floats:
        """Return the change [2, M] of the load by which ``heirs`` [M, 2] exceed their thresholds.

        With ``sign`` 1 they take over what ``leader`` leaves in partitions ``rows``, with -1 they no longer do. The loads of
        ``made`` are moved as well; it may have fewer rows.
        """
        state, problem, to = self.search.state, self.search.problem, heirs.T
        event = np.stack([leader, len(problem.alive) + problem.racks[leader]])
        load = state.sums[CARRIED][:, to]
        if made is not None:
            place = np.arange(len(rows)) % max(len(made), 1)
            shift, source, target = made.load[place][:, CARRIED].T, made.source[place], made.target[place]
            load = load + shift[:, None] * ((to == target).astype(np.int8) - (to == source))
        load = load + state.gained[:, event, to]
        step = _over(state, load + sign * problem.carried[rows].T[:, None], to) - _over(state, load, to)
        return np.where(self.wanted[event] & problem.counted[event] & (to >= 0), step, 0.0)

    def _columns(self, at: Ints, shift: Floats) -> Floats:
        """Return the change [M] over all wanted events if brokers ``at`` [M] get ``shift`` [2, M] more in each."""
        state, loads = self.search.state, _loads(self.search.state)
        total = 0.0 - cells(state, self.wanted).sum(axis=0)[at]
        peak = np.where(self.up, loads, -np.inf).max(axis=1)
        busy = np.flatnonzero((peak[:, at] + shift > state.problem.carriable[0][:, at]).any(axis=0))
        most = max(MOST_CELLS // len(self.up), 1)
        for part in (busy[start : start + most] for start in range(0, len(busy), most)):
            here = at[part]
            over = _over(state, loads[:, :, here] + shift[:, None, part], here[None])
            total[part] += (over * self.up[:, here]).sum(axis=0)
        return total
