"""Survival: changes of order, leaders and places that relieve who takes over after a loss, and what each does to all losses.

Who takes over is the first in-sync replica in order, so that a change of order alone, which copies nothing, decides where a
dead broker's load goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.plan import candidates
from engine.broker_load.plan.candidates import NEAR, Candidates
from engine.broker_load.plan.problem import CARRIED, DISK, IN_SYNC, LIVING
from engine.broker_load.plan.search import Change, Search
from engine.broker_load.plan.state import State

MOST_CELLS = 4_000_000
"""Most pairs of a candidate and an event that are looked at at once."""


@dataclass(frozen=True, eq=False)
class Reordered:
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
    up = state.problem.survivors & (wanted & state.problem.counted)[:, None]

    def over(at: Longs | slice) -> Floats:
        return _over(state, state.sums[CARRIED][:, None, at] + state.gained[:, :, at], at)

    return np.where(up, state.columns("over drawn in", over), 0.0)


def _over(state: State, load: Floats, at: Ints | Longs | slice) -> Floats:
    """Return how far ``load`` [2, ..., M] of brokers ``at`` is over the thresholds, as a share of their capacity."""
    limit, share = (value[:, at].reshape(2, *([1] * (load.ndim - 2)), -1) for value in state.problem.carriable)
    over = np.minimum(np.maximum(load - limit, 0.0) * share, 1e3)
    return np.asarray(over[0] + over[1])


@dataclass
class Relief:
    """Changes that may help with losses ``wanted`` [E], by ``swaps`` too, and what each does to them."""

    search: Search
    wanted: Flags
    swaps: bool = False

    def offers(self, event: int, heir: int) -> Iterator[Reordered]:
        """Yield changes that may relieve ``heir`` in ``event``, the cheapest kind first: orders, leaderships, moves, swaps."""
        state, problem = self.search.state, self.search.problem
        rack = event - len(problem.alive)
        led = np.append(problem.racks == rack, False)[state.leader] if rack >= 0 else state.leader == event
        mine = np.flatnonzero(led & (state.next[:, int(rack >= 0)] == heir) & problem.movable)
        yield self._orders(mine, heir)
        away = candidates.leaderships(state, heir, away=True)
        bequeathed = [
            candidates.leaderships(state, broker, away=True) for broker in np.unique(state.leader[mine]).tolist()
        ]
        for made in bequeathed:
            yield self.placed(made.take(np.isin(made.row, mine)))
        yield self.placed(away)
        if self.search.free:
            return
        places = np.flatnonzero(problem.places).astype(np.int32)
        rows, positions = candidates.replicas_on(state, np.array([heir], np.int32))
        first = np.lexsort((problem.as_follower[rows, DISK], ~np.isin(rows, mine)))
        yield self.placed(candidates.moves(state, rows[first], positions[first], places))
        for column in CARRIED.tolist() if self.swaps else []:
            yield self.placed(candidates.leader_swaps(state, heir, column, 1))
            order = np.argsort(state.sums[column] * problem.even(state.sums)[column], kind="stable").astype(np.int32)
            near = order[(order != heir) & problem.places[order]][:NEAR]
            if len(near):
                yield self.placed(candidates.swaps(state, heir, near, column, 1))

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

    def placed(self, made: Candidates) -> Reordered:
        """Return the orders that changes of leadership or moves lead to."""
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
        rank = np.where(lists == leader[:, None], -1, np.arange(lists.shape[1]))
        order = np.argsort(rank, axis=1, kind="stable")
        lists, codes = np.take_along_axis(lists, order, 1), np.take_along_axis(codes, order, 1)
        return Reordered(made.row, lists, codes, leader, candidates.sizes(self.search.problem, made), made)

    def change_of(self, offer: Reordered) -> Floats:
        """Return the change [M] of how far survivors are over their thresholds, as if each offer stood alone."""
        problem = self.search.problem
        total = np.zeros(len(offer.row))
        other = None
        self.search.looked_at += len(total) * (1 if offer.made is None else len(problem.events))
        shift = np.zeros((2, len(offer.row)))
        source = target = offer.leader
        if offer.made is not None:
            shift, source, target = offer.made.load[:, CARRIED].T, offer.made.source, offer.made.target
            step = max(MOST_CELLS // len(problem.events), 1)
            for start in range(0, len(total), step):
                part = slice(start, start + step)
                for at, sign in ((source[part], -1), (target[part], 1)):
                    total[part] += self._column(at, sign * shift[:, part])
            if offer.made.back is not None and offer.made.others is not None:
                other = self.placed(offer.made.others.take(offer.made.back))
        for one in [offer] if other is None else [offer, other]:
            total += self._inherited(one, shift, source, target)
        return total

    def _inherited(self, offer: Reordered, shift: Floats, source: Ints, target: Ints) -> Floats:
        state, problem, brokers = self.search.state, self.search.problem, len(self.search.problem.alive)
        base, total = state.sums[CARRIED], np.zeros(len(offer.row))
        carried = problem.carried[offer.row].T
        heirs = state.heirs_of(offer.row, offer.lists, offer.codes, offer.leader)
        for leader, heir, sign in ((state.leader[offer.row], state.next[offer.row], -1), (offer.leader, heirs, 1)):
            for way, event in enumerate((leader, brokers + problem.racks[leader])):
                to = heir[:, way]
                moved = base[:, to] + shift * ((to == target).astype(np.int8) - (to == source))
                load = moved + state.gained[:, event, to]
                step_ = _over(state, load + sign * carried, to) - _over(state, load, to)
                total += np.where(self.wanted[event] & problem.counted[event] & (to >= 0), step_, 0.0)
        return total

    def _column(self, at: Ints, shift: Floats) -> Floats:
        """Return the change [M] over all wanted events if brokers ``at`` [M] get ``shift`` [2, M] more in each."""
        state, problem = self.search.state, self.search.problem
        up = problem.survivors & (self.wanted & problem.counted)[:, None]
        load = (state.sums[CARRIED][:, None] + state.gained)[:, :, at] + shift[:, None, :]
        return np.asarray((_over(state, load, at) * up[:, at]).sum(axis=0) - cells(state, self.wanted).sum(axis=0)[at])
