"""Survival: the search for an order of replicas, leaders and places with which every single loss can be carried.

Who takes over is the first in-sync replica in order, so that a change of order alone, which copies nothing, decides where a
dead broker's load goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.plan import candidates
from engine.broker_load.plan.candidates import Candidates
from engine.broker_load.plan.limits import HARD, SLACK
from engine.broker_load.plan.problem import CARRIED, DISK, IN_SYNC, LIVING
from engine.broker_load.plan.search import EPSILON, Change, Search
from engine.broker_load.plan.state import State

SOFT = 0.1
"""What a goal missed by a mean load costs, as a share of a broker's capacity over a threshold."""
MOST_LOST = 3
"""Most losses that are mended again after one change."""
MOST_LOOKED_AT, ATTEMPT = 12_000_000, 4_000
"""Most pairs of a candidate and an event that a search looks at, some seconds, after which it keeps what it has; and the pairs
that take as long as one attempt."""
PATIENCE = 12
"""Most heirs that cannot be relieved while all losses are mended together."""
RETRIES = 3
"""How often losses that could not be mended are tried again, after others were."""
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


def survive(search: Search, racks: bool, reachable: Flags, careful: bool = False, together: bool = False) -> None:
    """Mend every single broker loss of the events ``reachable`` [E], then every rack loss if ``racks``.

    At the expense of no goal where that is possible; else, unless ``careful``, of no hard goal. ``together``: relieve heirs of
    all losses to the end, also where some losses stay.
    """
    brokers = len(search.problem.alive)
    search.repair, search.risk = lambda: _repair(search), lambda made: _risk(search, made)
    for way in (0, 1)[: 2 if racks else 1]:
        mine = reachable & ((np.arange(len(reachable)) >= brokers) == bool(way))
        _mend(search, mine, "SurviveRack" if way else "SurviveBroker", careful, together)
        search.guard()


def _cells(state: State, wanted: Flags) -> Floats:
    """Return how far each survivor [E, B] is over its CPU or network-out threshold, drawn in, in the ``wanted`` events."""
    problem = state.problem
    up = problem.alive & ~problem.events & (wanted & problem.counted)[:, None]
    return np.where(up, _over(state, state.sums[CARRIED][:, None, :] + state.gained, slice(None)), 0.0)


def _over(state: State, load: Floats, at: object) -> Floats:
    """Return how far ``load`` [2, ..., M] of brokers ``at`` is over the thresholds, as a share of their capacity."""
    problem = state.problem
    room, limit = problem.room[CARRIED][:, at], problem.thresholds[CARRIED] * (1 - SLACK)
    shape = (2, *([1] * (load.ndim - 2)), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = load / room.reshape(shape) - limit.reshape(2, *([1] * (load.ndim - 1)))
    share = np.minimum(np.fmax(share, 0.0), 1e3)  # no load without capacity is none, any load is much
    return np.asarray(share[0] + share[1])


def _mend(search: Search, wanted: Flags, reason: str, careful: bool, together: bool) -> None:
    """Mend the losses ``wanted``: all together, the worst cell first; where that fails, one after the other, the worst first,
    and what is changed for one that cannot be mended is taken back."""
    start = search.mark()
    goal = _Goal(search, wanted, reason, careful=True)
    events, patience = np.flatnonzero(wanted), wanted.size * wanted.size if together else PATIENCE
    if goal.settle(events, patience):
        return
    goal.careful = careful
    if goal.spent or (not careful and goal.settle(events, patience)) or goal.spent or together:
        return
    search.back_to(start)
    for _ in range(RETRIES):
        kept, goal.wanted = len(search.journal), wanted.copy()
        while (left := _cells(search.state, goal.wanted).sum(axis=1)).max(initial=0.0) > EPSILON:
            event = int(np.argmax(left))
            start = search.mark()
            if not goal.settle(np.array([event])):
                search.back_to(start)
                goal.wanted[event] = False
        if goal.spent or len(search.journal) == kept or (goal.wanted == wanted).all():
            return


def _risk(search: Search, made: Candidates) -> Floats:
    """Return how much further [M] survivors get over their thresholds in the losses that are survived; 0 for swaps (unknown)."""
    goal = _Goal(search, search.kept, "", careful=True)
    return np.zeros(len(made)) if made.back is not None else goal.change_of(goal.placed(made))


def _repair(search: Search) -> bool:
    """Survive what was survived before the last change again, by other orders of followers alone; return whether that works."""
    lost = np.flatnonzero(search.kept & ~search.survived())
    if len(lost) > MOST_LOST:
        return False
    search.guarded = False
    try:
        reason = "SurviveRack" if lost[0] >= len(search.problem.alive) else "SurviveBroker"
        return _Goal(search, search.kept, reason, careful=True, orders=True).settle(lost)
    finally:
        search.guarded = True


@dataclass
class _Goal:
    """What is to be mended: losses ``wanted`` [E], by ``orders`` of followers alone; now the cell of ``event`` and ``heir``,
    without harm to the goals ``held``."""

    search: Search
    wanted: Flags
    reason: str
    careful: bool
    orders: bool = False
    event: int = -1
    heir: int = -1
    held: Flags = field(default_factory=HARD.copy)

    @property
    def spent(self) -> bool:
        """Whether enough was looked at."""
        return self.search.looked_at > MOST_LOOKED_AT

    def settle(self, events: Longs, patience: int = 0) -> bool:
        """Relieve the heirs in ``events``, the worst first; return whether none has too much in the end.

        Give up at more than ``patience`` heirs that cannot be relieved: what is done for others may help them.
        """
        stuck = set[tuple[int, int]]()
        while True:
            self.search.check()
            over = _cells(self.search.state, self.wanted)[events]
            settled = bool(over.max(initial=0.0) <= EPSILON)
            for cell in stuck:
                over[cell] = 0.0
            if over.max(initial=0.0) <= EPSILON or self.spent:
                return settled
            place, self.heir = (int(one) for one in np.unravel_index(int(np.argmax(over)), over.shape))
            self.event = int(events[place])
            if not self._relieve():
                stuck.add((place, self.heir))
                if len(stuck) > patience:
                    return False

    def _relieve(self) -> bool:
        """Make some changes that relieve the heir, at the expense of no goal if that is possible; return whether any was made."""
        rack, judged = self.event - len(self.search.problem.alive), list[tuple[Reordered, Floats]]()
        self.held = HARD | self.search.chased
        for offer in self.offers(max(rack, -1)):
            judged.append((offer, -self.change_of(offer)))
            if self.take(*judged[-1]):
                return True
        self.held = HARD
        return not self.careful and any(self.take(*one) for one in judged)

    def offers(self, rack: int) -> Iterator[Reordered]:
        """Yield changes that may relieve the heir: orders, leaderships, moves."""
        state, problem = self.search.state, self.search.problem
        led = np.append(problem.racks == rack, False)[state.leader] if rack >= 0 else state.leader == self.event
        mine = np.flatnonzero(led & (state.next[:, int(rack >= 0)] == self.heir) & problem.movable)
        yield self._orders(mine)
        if self.orders:
            return
        away = candidates.leaderships(state, self.heir, away=True)
        bequeathed = [
            candidates.leaderships(state, broker, away=True) for broker in np.unique(state.leader[mine]).tolist()
        ]
        for made in bequeathed:
            yield self.placed(made.take(np.isin(made.row, mine)))
        yield self.placed(away)
        if self.search.free:
            return
        places = np.flatnonzero(problem.places).astype(np.int32)
        rows, positions = candidates.replicas_on(state, np.array([self.heir], np.int32))
        first = np.lexsort((problem.as_follower[rows, DISK], ~np.isin(rows, mine)))
        yield self.placed(candidates.moves(state, rows[first], positions[first], places))

    def _orders(self, rows: Longs) -> Reordered:
        """Return every way to let another follower come first."""
        state = self.search.state
        lists = state.lists[rows]
        fit = ((state.codes[rows] & (IN_SYNC | LIVING)) == (IN_SYNC | LIVING)) & (lists != state.leader[rows, None])
        at, position = np.nonzero(fit & (lists != self.heir))
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

    def take(self, offer: Reordered, gain: Floats) -> bool:
        """Make the best of the offers by their ``gain`` [M], as long as the heir needs them; return whether any was made."""
        search, state = self.search, self.search.state
        fit = np.flatnonzero(gain > EPSILON)
        if not len(fit):
            return False
        value = gain - SOFT * self._soft(offer)
        score = np.where(value > 0, value / offer.cost, value * offer.cost)[fit]
        made_one, changed = False, set[int]()
        for one in fit[np.lexsort((offer.leader[fit], offer.row[fit], -score))][: 4 * search.at_once].tolist():
            row = int(offer.row[one])
            if row in changed or (offer.made is not None and not search.still(offer.made, one)):
                continue
            if self._attempt(offer.change(state, one)):
                changed.add(row)
                made_one = True
                if _cells(state, self.wanted)[self.event, self.heir] <= EPSILON or len(changed) >= search.at_once:
                    break
        return made_one

    def _soft(self, offer: Reordered) -> Floats:
        """Return how much further [M] the goals are missed with each offer."""
        if offer.made is None:
            return np.zeros(len(offer.row))
        change, _ = candidates.effect(self.search.state, offer.made, self.search.state.excess())
        return np.asarray(change[self.search.chased].sum(axis=0))

    def _attempt(self, changes: list[Change]) -> bool:
        search, state = self.search, self.search.state
        search.looked_at += ATTEMPT
        before = float(_cells(state, self.wanted).sum())

        def fine(totals: Floats) -> bool:
            kept = bool((totals <= search.now + EPSILON)[self.held].all())
            return kept and float(_cells(state, self.wanted).sum()) < before - EPSILON

        return search.attempt(changes, self.reason, fine)

    def change_of(self, offer: Reordered) -> Floats:
        """Return the change [M] of how far survivors are over their thresholds, as if each offer stood alone."""
        state, problem, brokers = self.search.state, self.search.problem, len(self.search.problem.alive)
        total = np.zeros(len(offer.row))
        self.search.looked_at += len(total) * (1 if offer.made is None else len(problem.events))
        base = state.sums[CARRIED]
        shift = np.zeros((2, len(offer.row)))
        source = target = offer.leader
        if offer.made is not None:
            shift, source, target = offer.made.load[:, CARRIED].T, offer.made.source, offer.made.target
            step = max(MOST_CELLS // len(problem.events), 1)
            for start in range(0, len(total), step):
                part = slice(start, start + step)
                for at, sign in ((source[part], -1), (target[part], 1)):
                    total[part] += self._column(at, sign * shift[:, part])
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
        up = problem.alive & ~problem.events & (self.wanted & problem.counted)[:, None]
        load = state.sums[CARRIED][:, None, at] + state.gained[:, :, at]
        change = _over(state, load + shift[:, None, :], at) - _over(state, load, at)
        return np.asarray((change * up[:, at]).sum(axis=0))
