"""The search for a better placement, without random numbers: what must move, racks, the goals in order, and what can stay.

Each step takes the change that mends most per MB and harms no goal of a higher priority. See "Plans" in
docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Longs
from engine.broker_load.plan import candidates, limits
from engine.broker_load.plan.candidates import Candidates
from engine.broker_load.plan.limits import COLUMN, HARD, PLACE, RACK, TOPIC
from engine.broker_load.plan.problem import CPU, DISK, LEADER_IN, LEADERS, LIVING, NW_OUT, Problem
from engine.broker_load.plan.state import Placed, State

AT_ONCE, PER = 48, 2_000
"""Most changes taken of one evaluation, each checked again before it is kept, and the replicas per each such change: one
at a time is best, and slow in a large cluster."""
PASSES = 3
TRIES = 8  # further changes tried per evaluation if some of them may make a loss not survivable
EPSILON = 1e-9
LED = (CPU, NW_OUT, LEADERS, LEADER_IN)  # sums that a change of leadership alone moves

Change = tuple[int, list[int], int]  # a partition, its replicas in order, and its leader
Mark = tuple[int, Floats, Flags]  # how many changes there were, ``now`` and ``kept`` then


@dataclass
class Search:
    """A state that is being mended. ``chased`` [16] goals that can be met; ``guarded`` whether nothing that is survived may be
    lost; ``free`` whether nothing may be copied."""

    state: State
    chased: Flags
    check: Callable[[], None] = lambda: None
    guarded: bool = False
    free: bool = False

    def __post_init__(self) -> None:
        self.now = self.state.totals()
        self.at_once = int(np.clip((self.state.lists >= 0).sum() // PER, 1, AT_ONCE))
        self.kept = self.survived()
        self.journal: list[tuple[Placed, str]] = []
        self.looked_at = 0

    @property
    def problem(self) -> Problem:
        """What is being mended."""
        return self.state.problem

    def guard(self) -> None:
        """Let no later change lose what is survived now."""
        self.guarded, self.kept = True, self.survived()

    def survived(self) -> Flags:
        """Return the losses [E] that are survived."""
        return self.state.survived() & self.problem.counted

    def _safe(self) -> bool:
        """Return whether, where guarded, every loss is still survived; note those that are now too."""
        if self.guarded:
            survived = self.survived()
            if (self.kept & ~survived).any():
                return False
            self.kept = survived
        return True

    # -- changes ----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return where the search is, to go back to it."""
        return len(self.journal), self.now, self.kept

    def back_to(self, mark: Mark) -> None:
        """Undo every change since ``mark``."""
        for placed, _ in reversed(self.journal[mark[0] :]):
            self.state.restore(placed)
        del self.journal[mark[0] :]
        _, self.now, self.kept = mark

    def changed(self) -> dict[int, tuple[Placed, str]]:
        """Return how each changed partition was placed at first, and why it changed first."""
        first = {placed.row: (placed, reason) for placed, reason in reversed(self.journal)}
        now = self.state
        return {
            row: (placed, reason)
            for row, (placed, reason) in first.items()
            if placed.leader != now.leader[row] or (placed.replicas != now.lists[row]).any()
        }

    def attempt(self, changes: list[Change], reason: str, fine: Callable[[Floats], bool]) -> bool:
        """Make the changes if the totals [16] afterwards are ``fine`` and, where guarded, every loss stays survived."""
        start = self.mark()
        self.journal += [(self.state.place(*change), reason) for change in changes]
        totals = self.state.totals()
        if fine(totals):
            self.now = totals
            if self._safe():
                return True
        self.back_to(start)
        return False

    def _ranked(self, made: Candidates) -> tuple[Floats, Floats, Longs]:
        """Return how far hard and soft goals [M] (with the balance) are missed more with each candidate, and the candidates, best
        first."""
        change, distance = candidates.effect(self.state, made), candidates.distance(self.state, made)
        hard = np.maximum(change[HARD], 0.0).sum(axis=0)
        soft = change[self.chased & ~HARD].sum(axis=0) + 0.05 * distance
        return hard, soft, np.lexsort((made.target, soft, hard))

    # -- what must move ---------------------------------------------------------------------------------------------------

    def rescue(self, drained: Flags) -> None:
        """Give every replica that is offline or on a drained broker a new place, the largest first."""
        problem, state = self.problem, self.state
        rows = np.flatnonzero((state.offline > 0) & problem.movable)
        for row in rows[np.argsort(-problem.as_follower[rows, DISK], kind="stable")].tolist():
            self.check()
            for _ in range(int(state.offline[row])):
                gone = np.flatnonzero((state.lists[row] >= 0) & ((state.codes[row] & LIVING) == 0))
                if not self._rescue(row, int(gone[0]), "drain" if drained[state.lists[row, gone[0]]] else "offline"):
                    break

    def _rescue(self, row: int, position: int, reason: str) -> bool:
        """Move one replica; if it leads, another one may lead instead."""
        state, targets = self.state, np.flatnonzero(self.problem.places).astype(np.int32)
        options: list[tuple[tuple[float, float], list[Change]]] = []
        leader, held = int(state.leader[row]), int(state.lists[row, position])
        leads: list[Change | None] = [None]
        if leader == held:
            mine = candidates.leads(state, np.array([row]))
            leads += [mine.changes(state, one)[0] for one in range(len(mine))]
        for change in leads:
            placed = None if change is None else state.place(*change)
            place = int(np.flatnonzero(state.lists[row] == held)[0])
            made = candidates.moves(state, np.array([row]), np.array([place]), targets)
            if len(made):
                hard, soft, order = self._ranked(made)
                best = int(order[0])
                options.append(((float(hard[best]), float(soft[best])), made.changes(state, best)))
            if placed is not None:
                state.restore(placed)
        if not options:
            return False
        return self.attempt(min(options, key=lambda option: option[0])[1], reason, lambda totals: True)

    def spread(self) -> None:
        """Give each partition with two replicas in one rack a rack of its own for each: a follower moves.

        Some partitions are looked at together, as long as few of all replicas move at once.
        """
        problem, state = self.problem, self.state
        targets = np.flatnonzero(problem.places).astype(np.int32)
        fit = np.flatnonzero(state.broken & problem.movable & problem.rack_wide & (state.offline == 0))
        fit = fit[: len(fit) * self.chased[RACK]]
        while len(fit):
            self.check()
            rows, later = fit[: self.at_once], fit[self.at_once :]
            racks = problem.rack_at[state.lists[rows]]
            shared = (racks[:, :, None] == racks[:, None, :]).sum(axis=2) > 1
            at, position = np.nonzero(shared & (racks >= 0) & (state.lists[rows] != state.leader[rows, None]))
            made = candidates.moves(state, rows[at], position, targets)
            again, order = [], self._ranked(made)[2]
            rows, first = np.unique(made.row[order], return_index=True)
            for row, one in zip(rows.tolist(), order[first].tolist(), strict=True):
                if self.attempt(made.changes(state, one), "RackAwareGoal", lambda totals: self._no_worse(totals, HARD)):
                    again += [row] if state.broken[row] else []
            fit = np.concatenate([np.array(again, np.int64), later])

    def _no_worse(self, totals: Floats, which: Flags) -> bool:
        return bool((totals[which] <= self.now[which] + EPSILON).all())

    # -- goals ------------------------------------------------------------------------------------------------------------

    def mend(self, names: list[str], only: Flags) -> None:
        """Mend the goals ``only`` [16] in their order, at most a few times over."""
        for _ in range(PASSES):
            start = self.now.copy()
            for goal in np.flatnonzero(only & self.chased).tolist():
                if goal != RACK:
                    self._goal(goal, names[goal])
            if (np.abs(self.now - start) <= EPSILON).all() or not self.now[only & self.chased].any():
                return

    def _goal(self, goal: int, name: str) -> None:
        stuck: set[tuple[int, int]] = set()
        while True:
            self.check()
            excess = self.by_broker(goal)
            for topic, broker in stuck:
                excess[topic, broker] = 0.0
            if excess.max(initial=0.0) <= EPSILON:
                return
            topic, broker = (int(place) for place in np.unravel_index(int(np.argmax(excess)), excess.shape))
            if not any(self._take(made, goal, name, topic, broker) for made in self.offers(goal, topic, broker)):
                stuck.add((topic, broker))

    def by_broker(self, goal: int) -> Floats:
        """Return how far each broker is outside a goal: [1, B], or [T, B] for the goal on topics."""
        state = self.state
        if goal != TOPIC:
            return state.excess()[goal == PLACE]
        return state.outside_topics()

    def offers(self, goal: int, topic: int, broker: int) -> Iterator[Candidates]:
        """Yield changes that may help ``broker``, the cheapest kind first: leaderships, moves, swaps."""
        state, problem = self.state, self.problem
        me = np.array([broker], np.int32)
        if goal == TOPIC:
            if self.free:
                return
            over = bool(state.topics[topic, broker] > state.topic_high[topic])
            rows, positions = candidates.replicas_on(
                state, me if over else np.flatnonzero(state.topics[topic] > 0).astype(np.int32)
            )
            mine = (problem.cluster.topology.topic[rows] == topic) & (over | (state.lists[rows, positions] != broker))
            yield candidates.moves(
                state, rows[mine], positions[mine], np.flatnonzero(problem.places).astype(np.int32) if over else me
            )
            return
        place = int(np.flatnonzero(goal == PLACE)[0])
        column = int(COLUMN[place])
        over = bool(state.sums[column, broker] > state.bounds.high[place, broker])
        if column in LED:
            yield candidates.leaderships(state, broker, away=over)
            if column != LEADERS:
                yield candidates.leader_swaps(state, broker, column, 1 if over else -1)
        if self.free:
            return
        full = state.sums[column] * problem.even(state.sums)[min(column, 3)] if column < 4 else state.sums[column]
        order = np.argsort(full if over else -full, kind="stable").astype(np.int32)
        others = order[(order != broker) & problem.alive[order]]
        if over:
            rows, positions = candidates.replicas_on(state, me)
            targets = others[problem.places[others]]
        else:
            rows, positions = candidates.replicas_on(state, others)
            targets = me[problem.places[me]]
            rank = np.argsort(np.argsort(-full, kind="stable"))[state.lists[rows, positions]]
            best = np.argsort(rank, kind="stable")
            rows, positions = rows[best], positions[best]
        matters = candidates.loads_at(state, rows, positions)[:, column] > 0
        rows, positions = rows[matters], positions[matters]
        yield candidates.moves(state, rows, positions, targets[: max(candidates.MOST // max(len(rows), 1), 8)])
        near = others[problem.places[others]][: candidates.NEAR]
        if len(near) and problem.places[broker]:
            yield candidates.swaps(state, broker, near, column, 1 if over else -1)

    def _take(self, made: Candidates, goal: int, name: str, topic: int, broker: int) -> bool:
        """Make the best of the candidates, as long as ``broker`` needs them; return whether any was made."""
        if goal != TOPIC:
            made = candidates.promising(self.state, made, int(np.flatnonzero(goal == PLACE)[0]))
        if not len(made):
            return False
        change, distance = candidates.effect(self.state, made), candidates.distance(self.state, made)
        held = HARD | ((np.arange(limits.GOALS) < goal) & self.chased)
        gain = -change[goal]
        fit = np.flatnonzero((gain > EPSILON) & (change[held] <= EPSILON).all(axis=0))
        value = 3 * gain - change[~held & self.chased & (np.arange(limits.GOALS) != goal)].sum(axis=0) - 0.05 * distance
        cost = candidates.sizes(self.problem, made)
        score = np.where(value > 0, value / cost, value * cost)[fit]
        made_now = 0
        order = fit[np.lexsort((made.target[fit], made.row[fit], -score))]
        _, first = np.unique(made.row[order], return_index=True)  # the best of each partition
        for one in order[np.sort(first)][: self.at_once + TRIES * self.guarded].tolist():
            if self.still(made, one):
                made_now += self.attempt(
                    made.changes(self.state, one),
                    name,
                    lambda totals: bool(totals[goal] < self.now[goal] - EPSILON) and self._no_worse(totals, held),
                )
            if made_now and (made_now == self.at_once or self.by_broker(goal)[topic, broker] <= EPSILON):
                break
        return made_now > 0

    def still(self, made: Candidates, one: int) -> bool:
        """Return whether a candidate's replicas are still where they were when it was found, and its targets free."""
        row, position = int(made.row[one]), int(made.position[one])
        here = self.state.lists[row].tolist()
        if made.leads:
            fresh = here[position] == made.target[one] and self.state.leader[row] == made.source[one]
        else:
            fresh = here[position] == made.source[one] and int(made.target[one]) not in here
        if made.back is not None and made.others is not None:
            fresh = fresh and self.still(made.others, int(made.back[one]))
        return bool(fresh)

    # -- what can stay ----------------------------------------------------------------------------------------------------

    def take_back(self, strict: bool = True) -> None:
        """Put changed partitions back where they were, the dearest first, if nothing becomes worse.

        Not ``strict``: what a goal misses may grow if it is missed anyway, but no broker may leave its limits.
        """
        state, changed = self.state, self.changed()
        moved = {row: self.copied(placed) for row, (placed, _) in changed.items()}
        for row in sorted(moved, key=lambda row: (-moved[row], row)):
            self.check()
            first, reason = changed[row]
            if self._had_to(first):
                continue
            offline, offenders = int(state.offline[row]), np.zeros(0) if strict else self._missed()
            start = self.mark()
            self.journal.append((state.placed(row), reason))
            state.restore(first)
            totals = state.totals()
            kept = state.offline[row] <= offline and totals[RACK] <= self.now[RACK]
            if strict or not kept:
                kept = kept and self._no_worse(totals, self.chased | HARD)
            else:
                kept = self._no_worse(totals, HARD) and bool((self._missed() <= offenders)[self.chased].all())
            self.now = totals
            if not (kept and self._safe()):
                self.back_to(start)

    def _had_to(self, placed: Placed) -> bool:
        """Return whether a replica was offline or two in one rack, so that the old place cannot be right."""
        held = placed.replicas >= 0
        racks = self.problem.racks[placed.replicas[held]].tolist()
        dead = bool(((placed.codes[held] & LIVING) == 0).any())
        return dead or (len(set(racks)) < len(racks) and not self.state.broken[placed.row])

    def _missed(self) -> Floats:
        """Return how many brokers or topics are outside each of the 16 goals."""
        count = np.zeros(limits.GOALS)
        count[PLACE] = (self.state.excess() > EPSILON).sum(axis=1)
        count[TOPIC] = (self.state.topic_excess > EPSILON).sum()
        return count

    def copied(self, placed: Placed) -> float:
        """Return how many MB are copied from how a partition was ``placed`` to how it is now."""
        new = set(self.state.lists[placed.row].tolist()) - set(placed.replicas.tolist())
        return len(new) * max(float(self.problem.as_follower[placed.row, DISK]), 0.0)
