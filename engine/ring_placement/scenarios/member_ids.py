"""Members by name: those an operator names, scaling out and in, zero-padded IDs, the best next ID."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine.ring_placement.pyroscope.ring import NUM_TOKENS, Member, Ring
from engine.ring_placement.scenarios.failover import all_members, changed_owners

_ORDINAL = re.compile(r"^((?:.*\D)?)(\d+)$", re.DOTALL)


def named_members(wanted: Sequence[str], members: Sequence[Member]) -> tuple[list[str], list[str]]:
    """Look up the members that ``wanted`` names, each an ID or ``zone:NAME``.

    Returns their IDs in ring order, and unknown names. An ID is also found with other zero-padding, so that a scenario survives
    that what-if.
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
    """Split an ID such as ``segment-writer-12``. Returns prefix, number and digits of the number, or None without one."""
    match = _ORDINAL.match(name)
    return (match[1], int(match[2]), len(match[2])) if match and len(match[2]) <= 15 else None


def pad_ids(members: Sequence[Member], width: int) -> list[Member]:
    """Zero-pad the members' ordinals to ``width`` digits; IDs without an ordinal stay."""
    return [replace(m, id=f"{parts[0]}{parts[1]:0{width}d}") if (parts := ordinal(m.id)) else m for m in members]


def _common_prefix(members: Sequence[Member]) -> tuple[str, int]:
    """Return the most common prefix and its highest ordinal; ("node-", -1) where no ID ends in a number."""
    parts = [p for p in (ordinal(m.id) for m in members) if p]
    if not parts:
        return "node-", -1
    prefix = Counter(p[0] for p in parts).most_common(1)[0][0]
    return prefix, max(p[1] for p in parts if p[0] == prefix)


def scale_members(members: Sequence[Member], size: int, width: int = 0, others: Sequence[Member] = ()) -> list[Member]:
    """Grow or shrink ``members`` (placed ones) to ``size``.

    The highest ordinals leave first. New members continue the count (padded to ``width`` digits), get the usual number of
    tokens and keep zones level. IDs of ``others`` (not healthy, or of another zone) are taken too.
    """
    have = list(members)
    if size < len(have):

        def last(m: Member) -> tuple[int, str]:
            parts = ordinal(m.id)
            return (parts[1] if parts else -1, m.id)

        gone = {m.id for m in sorted(have, key=last, reverse=True)[: len(have) - size]}
        return [m for m in have if m.id not in gone]
    prefix, highest = _common_prefix([*have, *others])
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
    """Find the ID of one more node that moves the fewest shards: the smallest number that sorts behind all others.

    ``others``: members outside the layout, whose IDs are taken. Returns the best ID and the number of shards whose owner
    changes, then the same for the plain next ID.
    """
    placed = [m for m in members if m.placed]
    prefix, highest = _common_prefix([*placed, *others])
    plain = f"{prefix}{highest + 1}"
    last = max((m.id for m in (*placed, *others)), default="")
    parts = ordinal(last)
    if parts is None or parts[0] != prefix:
        best = f"{last}-0" if last >= plain else plain
    else:
        digits = f"{parts[1]:0{parts[2]}d}"
        following = f"{parts[1] + 1:0{parts[2]}d}"
        best = f"{prefix}{following}" if len(following) == len(digits) else f"{prefix}{digits}0"
    tokens = Counter(m.tokens for m in placed if m.tokens).most_common(1)
    count = tokens[0][0] if tokens else NUM_TOKENS

    before = Ring.of(placed)

    def shards_changed(name: str) -> int:
        after = Ring.of([*placed, Member(name, tokens=count)])
        _, old, new = all_members(before, after)
        return changed_owners(before, after, old, new)

    return best, shards_changed(best), plain, shards_changed(plain)
