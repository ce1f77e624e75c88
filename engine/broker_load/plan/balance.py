"""The part of a search that mends losses, alone or together with the soft goals that are missed.

Each change lowers a weighted sum of all that is missed. Where none does, what is missed weighs more from then on, so that the
search gets out of where it is stuck; the best placement on the way counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Longs
from engine.broker_load.plan import candidates
from engine.broker_load.plan.candidates import Candidates
from engine.broker_load.plan.limits import GOALS, HARD, PLACE, TOPIC
from engine.broker_load.plan.search import EPSILON, Search
from engine.broker_load.plan.survive import Relief, Reordered, cells, short

MOST_LOOKED_AT, MOST_BALANCED, EACH = 12_000_000, 3_000_000, 200
"""Most pairs of a candidate and an event that are looked at for losses, some seconds, and for losses and goals together; and as
many for each pair of partitions: where there are few, everything is soon tried."""
ATTEMPT = 4_000  # pairs that take as long as one attempt, or as the start of one evaluation
ROUNDS = 12  # most times in a row that weights are raised and nothing better is found
TRIES = 6  # candidates of one evaluation that are tried for each that may be taken
RAISED = (3.0, 1.5)  # factors of the weights of missed goals: if nothing has changed, and if something has
SOFT = 0.1
"""What a goal missed by a mean load weighs while only losses are mended, beside a broker's capacity over a threshold."""
RETRIES = 3  # how often losses that could not be mended are tried again, after others were
PATIENCE = 12  # most heirs that cannot be relieved while all losses are mended together


def survive(search: Search, racks: bool, reachable: Flags, careful: bool = False, together: bool = False) -> None:
    """Mend every single broker loss among the events ``reachable`` [E], then every rack loss if ``racks``.

    No goal gets worse where that is possible; else soft goals may, unless ``careful``. ``together``: relieve the heirs of all
    losses to the end, even if some losses remain.
    """
    brokers = np.arange(len(reachable)) < len(search.problem.alive)
    search.looked_at = 0
    for mine in (brokers, ~brokers)[: 1 + racks]:
        _mend(search, reachable & mine, careful, together)
        search.guard()


def _mend(search: Search, wanted: Flags, careful: bool, together: bool) -> None:
    """Mend the losses ``wanted``: all together, the worst cell first; where that fails or survivors are short of room, one after
    the other, the worst first, and what is changed for one that cannot be mended is taken back."""
    start, patience = search.mark(), wanted.size * wanted.size if together else PATIENCE
    if together or not short(search.state, wanted).any():
        settled = Balance(search, wanted, careful=True).settle(patience)
        settled = settled or (not careful and Balance(search, wanted).settle(patience))
        if settled or together or search.looked_at > MOST_LOOKED_AT:
            return
        search.back_to(start)
    for _ in range(RETRIES):
        kept, left = len(search.journal), wanted & ~short(search.state, wanted)
        while (over := cells(search.state, left).sum(axis=1)).max(initial=0.0) > EPSILON:
            focus, start = np.arange(len(left)) == np.argmax(over), search.mark()
            if not Balance(search, left, careful=careful, focus=focus).settle():
                search.back_to(start)
                left &= ~focus
        if search.looked_at > MOST_LOOKED_AT or len(search.journal) == kept or (left == wanted).all():
            return


Judged = tuple[Longs, Reordered, Floats, Floats]
"""Offers that may lower the sum: which ones ([M], ascending), where they lead, by how much they lower it [M], and the change
[16, M] of each goal."""


@dataclass
class Balance:
    """Mend the losses ``wanted`` [E] (``focus``: of these), and the soft goals ``mended`` [16],
    called ``names``.

    No hard goal gets worse; if it can be, or where ``careful`` is set, no goal that is chased, but for the mended ones.
    """

    search: Search
    wanted: Flags
    names: list[str] = field(default_factory=list)
    mended: Flags = field(default_factory=lambda: np.zeros(GOALS, np.bool_))
    careful: bool = False
    focus: Flags | bool = True

    def __post_init__(self) -> None:
        self.relief = Relief(self.search, self.wanted, bool(self.mended.any()))
        self.weight = np.append(np.where(self.mended, 1.0, 0.0), 1.0)
        self.beside = SOFT * (self.search.chased & ~HARD & ~self.mended)
        self.weight[TOPIC] /= max(self.search.state.bounds.scale[0], 1.0)  # a replica of a topic counts as any replica
        self.unit = self.weight.copy()

    def run(self, part: float = 1.0) -> None:
        """Mend what can be mended, then return to the best placement found on the way; spend ``part`` of the time."""
        search, since = self.search, 0
        most = int(min(MOST_BALANCED, EACH * len(search.state.lists) ** 2) * part)
        search.looked_at = 0
        best, mark = self.worth(), search.mark()
        while since < ROUNDS and best[:2] != (0, 0) and search.looked_at < most:
            changed = self.descend(most)
            now, since = self.worth(), since + 1
            if now < best:
                best, mark, since = now, search.mark(), 0
            self.weight[self.missed() > EPSILON] *= RAISED[changed]
            self.weight /= self.weight[self.unit > 0].min()
        search.back_to(mark)

    def settle(self, patience: int = MOST_LOOKED_AT) -> bool:
        """Mend the losses; give up at more than ``patience`` heirs that cannot be relieved. Return whether all are mended."""
        self.descend(MOST_LOOKED_AT, patience)
        return float(self._where().max(initial=0.0)) <= EPSILON

    def worth(self) -> tuple[int, int, float]:
        """Return how bad the placement is: goals and losses of brokers missed, losses of racks, and by how much in all."""
        brokers, missed = len(self.search.problem.alive), self.missed()
        lost = cells(self.search.state, self.wanted).max(axis=1, initial=0.0) > EPSILON
        goals = int((missed[:-1] > EPSILON).sum())
        return goals + int(lost[:brokers].sum()), int(lost[brokers:].sum()), float(self.unit @ missed)

    def missed(self) -> Floats:
        """Return how far each goal to mend is missed, and last all losses [17]."""
        return np.append(np.where(self.mended, self.search.now, 0.0), cells(self.search.state, self.wanted).sum())

    def descend(self, most: int, patience: int = MOST_LOOKED_AT) -> bool:
        """Lower the sum until no change does, or more than ``patience`` times none does; return whether anything changed."""
        stuck, fresh, changed = set[tuple[int, int]](), False, False
        while self.search.looked_at < most and len(stuck) <= patience:
            self.search.check()
            missed = self._where()
            for cell in stuck:
                missed[cell] = 0.0
            if missed.max(initial=0.0) > EPSILON:
                place, broker = (int(one) for one in np.unravel_index(int(np.argmax(missed)), missed.shape))
                if self._relieve(place, broker):
                    fresh = changed = True
                else:
                    stuck.add((place, broker))
            elif fresh and self.mended.any():  # changes made meanwhile may help where nothing did before
                stuck, fresh = set(), False
            else:
                break
        return changed

    def _where(self) -> Floats:
        """Return how far each survivor [E, B] is over its thresholds; and outside each band [13, B] and topic [T, B] to mend."""
        lost = cells(self.search.state, self.wanted & self.focus) * self.weight[-1]
        if not self.mended.any():
            return lost
        soft = (self.weight[:-1] * self.mended)[:, None]
        bands, topics = self.search.state.excess() * soft[PLACE], self.search.by_broker(TOPIC) * soft[TOPIC]
        return np.concatenate([lost, bands, topics])

    def _offers(self, place: int, broker: int) -> Iterator[tuple[Reordered | Candidates, list[int], str]]:
        """Yield candidates that may help ``broker`` with the goal or loss in row ``place``, the cheapest kind first.

        With them come the places where their parts end, and the reason for the change.
        """
        search, brokers = self.search, len(self.search.problem.alive)
        band = place - len(self.wanted)
        if band < 0:
            for offer, ends in self.relief.offers(place, broker):
                yield offer, ends, "SurviveRack" if place >= brokers else "SurviveBroker"
            return
        goal = int(PLACE[band]) if band < len(PLACE) else TOPIC
        for made in search.offers(goal, max(band - len(PLACE), 0), broker):
            few = candidates.promising(search.state, made, band) if goal != TOPIC else made
            yield few, [len(few)], self.names[goal]

    def _relieve(self, place: int, broker: int) -> bool:
        """Make some changes for ``broker`` in row ``place``, at the expense of no goal if possible; return whether any was
        made."""
        judged, every = list[tuple[Judged, slice, str]](), self.search.chased & ~self.mended
        for offer, ends, name in self._offers(place, broker):
            all_of_it = self._judged(offer, HARD | every if self.careful else HARD)
            for start, end in itertools.pairwise([0, *ends]):
                part = slice(*np.searchsorted(all_of_it[0], (start, end)).tolist())
                cells = 1 if isinstance(offer, Reordered) else len(self.wanted)
                self.search.looked_at += ATTEMPT + (end - start) * cells
                judged.append((all_of_it, part, name))
                if self._take(place, broker, *judged[-1], HARD | every):
                    return True
        return (
            not self.careful
            and bool(every[~HARD].any())
            and any(self._take(place, broker, *one, HARD) for one in judged)
        )

    def _judged(self, offer: Reordered | Candidates, held: Flags) -> Judged:
        """Return which offers may lower the sum and harm no goal ``held``, by how much, and the change [16, M] of each goal."""
        if isinstance(offer, Reordered):
            gain = -self.weight[-1] * self.relief.inherited(offer)
            return np.arange(len(gain)), offer, gain, np.zeros((GOALS, len(gain)))
        change = candidates.effect(self.search.state, offer)
        fit = np.flatnonzero((change[held] <= EPSILON).all(axis=0))
        near, placed, gain = self.relief.judged(
            offer.take(fit), float(self.weight[-1]), (self.weight[:-1] @ change)[fit]
        )
        return fit[near], placed, gain, change[:, fit[near]]

    def _take(self, place: int, broker: int, judged: Judged, part: slice, name: str, held: Flags) -> bool:
        """Make the best offers that lower the sum and harm no goal ``held``, as long as the broker needs them; return whether any
        was made."""
        search, (_, offer, gains, changes) = self.search, judged
        gain, change = gains[part], changes[:, part]
        fit = np.flatnonzero((gain > EPSILON) & (change[held] <= EPSILON).all(axis=0))
        if not len(fit):
            return False
        value = gain - self.beside @ change
        cost, leader, rows = offer.cost[part], offer.leader[part], offer.row[part]
        score = np.where(value > 0, value / cost, value * cost)[fit]
        taken = set[int]()
        for one in fit[np.lexsort((leader[fit], rows[fit], -score))][: TRIES * search.at_once].tolist():
            one += part.start
            row, before = int(offer.row[one]), self._sum(search.now)

            def fine(totals: Floats, before: float = before) -> bool:
                return bool((totals <= search.now + EPSILON)[held].all()) and self._sum(totals) < before - EPSILON

            if row in taken or (offer.made is not None and not search.still(offer.made, one)):
                continue
            search.looked_at += ATTEMPT
            if search.attempt(offer.change(search.state, one), name, fine):
                taken.add(row)
                if len(taken) >= search.at_once or self._where()[place, broker] <= EPSILON:
                    break
        return bool(taken)

    def _sum(self, totals: Floats) -> float:
        return float(self.weight[:-1] @ totals + self.weight[-1] * cells(self.search.state, self.wanted).sum())
