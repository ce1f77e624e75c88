"""Cascades: overloaded nodes fail next, until nothing changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.failover import Outcome, transient_outcome


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a cascade: the members that fail in it, and the totals after it (bytes per second)."""

    fails: tuple[str, ...]
    rejected_bytes: float
    worst_load: float


def cascade(
    placement: Placement, down: np.ndarray, capacity: np.ndarray, factor: float
) -> tuple[np.ndarray, Outcome, tuple[Round, ...]]:
    """Let nodes above capacity × ``factor`` fail too, all at once, until nothing changes (regime A throughout; Pyroscope has
    no protection against this).

    ``down``: bool per ring member; ``capacity``: bytes per second per ring member, inf where unknown. Returns who is down
    at the end, the outcome, and the rounds.
    """
    down = down.copy()
    rounds: list[Round] = []
    outcome = transient_outcome(placement, down)
    while True:
        over = ~down & (outcome.after > capacity * factor)
        if not over.any():
            return down, outcome, tuple(rounds)
        down |= over
        outcome = transient_outcome(placement, down)
        alive = outcome.after[~down]
        rounds.append(
            Round(
                tuple(placement.ring.ids[i] for i in np.flatnonzero(over)),
                outcome.rejected_bytes,
                alive.max().item() if len(alive) else 0,
            )
        )
