"""What-if: other tokens, limits, numbers of nodes, a zone's own ring, failing sets, and cascades."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.ring_placement.pyroscope.keys import Placement
from engine.ring_placement.pyroscope.ring import NUM_TOKENS, Member, Ring
from engine.ring_placement.scenarios.failover import Outcome, transient

PER_CORE = 8_000_000
"""Bytes per second (uncompressed profiles) one core takes: upstream's rule of thumb of 8 MB/s."""

_ORDINAL = re.compile(r"^(.*?)(\d+)$", re.DOTALL)


def fail_set(wanted: Sequence[str], members: Sequence[Member]) -> tuple[list[str], list[str]]:
    """Member IDs (in ring order) that ``wanted`` names, each an ID or ``zone:NAME``; and what names nothing.

    An ID is found with other zero-padding too, so that a scenario survives that what-if.
    """
    ids = {m.id for m in members}
    numbered = {parts[:2]: m.id for m in members if (parts := ordinal(m.id))}
    zones: dict[str, list[str]] = {}
    for m in members:
        zones.setdefault(m.zone, []).append(m.id)
    chosen: set[str] = set()
    unknown = []
    for item in wanted:
        if item in ids:
            chosen.add(item)
        elif item.startswith("zone:") and item[5:] in zones:
            chosen.update(zones[item[5:]])
        elif (parts := ordinal(item)) and parts[:2] in numbered:
            chosen.add(numbered[parts[:2]])
        else:
            unknown.append(item)
    return [m.id for m in members if m.id in chosen], unknown


def ordinal(name: str) -> tuple[str, int, int] | None:
    """Prefix, number and number of digits of an ID such as ``segment-writer-12``."""
    found = _ORDINAL.match(name)
    return (found[1], int(found[2]), len(found[2])) if found and len(found[2]) <= 15 else None


def padded(members: Sequence[Member], width: int) -> list[Member]:
    """The members with ordinals zero-padded to ``width`` digits; IDs without one stay."""
    out = []
    for m in members:
        parts = ordinal(m.id)
        out.append(replace(m, id=f"{parts[0]}{parts[1]:0{width}d}") if parts else m)
    return out


def _family(members: Sequence[Member]) -> tuple[str, int]:
    """The most common prefix and its highest ordinal; ("node-", -1) where no ID ends in a number."""
    parts = [p for p in (ordinal(m.id) for m in members) if p]
    if not parts:
        return "node-", -1
    prefix = Counter(p[0] for p in parts).most_common(1)[0][0]
    return prefix, max(p[1] for p in parts if p[0] == prefix)


def scaled(members: Sequence[Member], size: int, width: int = 0, others: Sequence[Member] = ()) -> list[Member]:
    """``members`` (placed ones) grown or shrunk to ``size``: the highest ordinals go first, new ones continue the count
    (padded to ``width`` digits), take the usual token count and keep zones level. The IDs of ``others`` (not healthy, or
    of another zone) are taken too."""
    have = list(members)
    if size < len(have):

        def last(m: Member) -> tuple[int, bytes]:
            parts = ordinal(m.id)
            return (parts[1] if parts else -1, m.id.encode("utf-8", "surrogatepass"))

        gone = {m.id for m in sorted(have, key=last, reverse=True)[: len(have) - size]}
        return [m for m in have if m.id not in gone]
    prefix, highest = _family([*have, *others])
    tokens = Counter(m.tokens for m in have if m.tokens).most_common(1)
    zones = Counter(dict.fromkeys(sorted({m.zone for m in have}), 0))
    zones.update(m.zone for m in have)
    taken = {m.id for m in (*have, *others)}
    while len(have) < size:
        highest += 1
        name = f"{prefix}{highest:0{width}d}" if width else f"{prefix}{highest}"
        if name in taken:
            continue
        zone = min(zones, key=lambda z: (zones[z], z)) if zones else ""
        zones[zone] += 1
        have.append(Member(name, "ACTIVE", zone, tokens[0][0] if tokens else NUM_TOKENS))
    return have


def best_next_id(members: Sequence[Member], others: Sequence[Member] = ()) -> tuple[str, int, str, int]:
    """The ID of one more node that disturbs least, and the plain next one, each with the number of shards whose owner
    changes: (best, changed, plain, changed). The best one is the smallest number that sorts behind all others.
    ``others``: members that take no part, whose IDs are not free."""
    placed = [m for m in members if m.placed]
    prefix, highest = _family([*placed, *others])
    plain = f"{prefix}{highest + 1}"
    last = max((m.id for m in (*placed, *others)), key=lambda i: i.encode("utf-8", "surrogatepass"), default="")
    parts = ordinal(last)
    if parts is None or parts[0] != prefix:
        best = f"{last}-0" if last >= plain else plain
    else:
        digits = f"{parts[1]:0{parts[2]}d}"
        following = f"{parts[1] + 1:0{parts[2]}d}"
        best = f"{prefix}{following}" if len(following) == len(digits) else f"{prefix}{digits}0"
    tokens = Counter(m.tokens for m in placed if m.tokens).most_common(1)
    count = tokens[0][0] if tokens else NUM_TOKENS

    def changed(name: str) -> int:
        before = Ring.of(placed)
        after = Ring.of([*placed, Member(name, tokens=count)])
        shared = min(before.total, after.total)
        old = np.array(before.ids, dtype=object)[before.owner[:shared]] if before.total else np.empty(0)
        new = np.array(after.ids, dtype=object)[after.owner[:shared]] if after.total else np.empty(0)
        return int((old != new).sum())

    return best, changed(best), plain, changed(plain)


def spread(loads: np.ndarray) -> tuple[float, float]:
    """Max over mean and coefficient of variation (population) of node loads; 1 and 0 where there is no load."""
    if not len(loads):
        return 1.0, 0.0
    mean = float(loads.mean())
    return (float(loads.max()) / mean, float(loads.std()) / mean) if mean > 0 else (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a cascade: who fails in it, and what the rest then carries at most."""

    fails: tuple[str, ...]
    rejected_bytes: float
    worst_load: float


def cascade(
    placement: Placement, down: np.ndarray, capacity: np.ndarray, factor: float
) -> tuple[np.ndarray, Outcome, tuple[Round, ...]]:
    """Nodes above capacity × ``factor`` fail next, all at once, until nothing changes (regime A throughout; upstream has
    no protection against this). ``capacity``: per ring member, inf where unknown."""
    down = down.copy()
    rounds: list[Round] = []
    outcome = transient(placement, down)
    while True:
        over = ~down & (outcome.after > capacity * factor)
        if not over.any():
            return down, outcome, tuple(rounds)
        down |= over
        outcome = transient(placement, down)
        alive = outcome.after[~down]
        rounds.append(
            Round(
                tuple(placement.ring.ids[i] for i in np.flatnonzero(over)),
                outcome.rejected_bytes,
                alive.max().item() if len(alive) else 0,
            )
        )
