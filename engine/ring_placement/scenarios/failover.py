"""The effect of a failure in the three regimes (transient, left, returned), exact per node, dataset and tenant; and the members
that an operator names, adds or removes.

See ``docs/models/ring-placement.md``, "Three regimes of a failure" and "Totals of a scenario".
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from engine.ring_placement.pyroscope.placement import Placement, place, sum_cells, weigh
from engine.ring_placement.pyroscope.ring import NUM_TOKENS, Member, Ring
from engine.ring_placement.scenarios.strategy import Layout, Outcome

_NO_GROUPS = np.empty(0, dtype=np.int64)


def member_mask(ring: Layout, ids: Iterable[str]) -> np.ndarray:
    """Return for each ring member whether it is among ``ids`` (bool)."""
    chosen = frozenset(ids)
    return np.array([i in chosen for i in ring.ids], dtype=bool)


def reroute(placement: Placement, down: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Send the groups whose receiver is down to their next candidates (regime A).

    ``down``: bool per ring member; failed members still look ACTIVE to clients, so each costs a try. Returns the indices
    of these groups, the members that take them (-1: rejected), and the tries made.
    """
    candidates = placement.candidates
    flags = np.append(down, False)  # the last entry answers for -1
    hit = np.flatnonzero(flags[placement.receivers])
    target = np.full(len(hit), -1, dtype=np.int32)
    tries = np.ones(len(hit), dtype=np.int32)
    open_ = np.arange(len(hit))
    for column in range(1, candidates.shape[1]):
        candidate = candidates[hit[open_], column]
        listed = candidate >= 0
        open_, candidate = open_[listed], candidate[listed]
        if not len(open_):
            break
        tries[open_] += 1
        up = ~down[candidate]
        target[open_[up]] = candidate[up]
        open_ = open_[~up]
    return hit, target, tries


def count_touched(placement: Placement, down: np.ndarray) -> tuple[int, int, int]:
    """Count the datasets with a part that a member in ``down`` receives, those with all parts there, and the tenants with
    such a dataset."""
    counts = np.bincount(
        placement.groups.datasets[np.append(down, False)[placement.receivers]], minlength=placement.keys.size
    )
    some = counts > 0
    fully = some & (counts == placement.parts)
    tenants = np.zeros(len(placement.keys.tenants), dtype=bool)
    tenants[placement.keys.tenant_of[some]] = True
    return int(some.sum()), int(fully.sum()), int(tenants.sum())


def _mean_tries(placement: Placement, hit: np.ndarray = _NO_GROUPS, tries: np.ndarray = _NO_GROUPS) -> float:
    """Return the attempts per request, weighted by load (by group without load). ``tries`` of the groups ``hit``; other groups
    take one, or none if no instance may receive them."""
    weight = placement.groups.weight.astype(np.float64)
    if not weight.any():
        weight = np.ones(len(weight))
    if not len(weight):
        return 1.0 if placement.ring.total > 0 else 0.0
    return float(1.0 + (((tries - 1) * weight[hit]).sum() - weight[placement.receivers < 0].sum()) / weight.sum())


def fail_members(placement: Placement, down: np.ndarray) -> tuple[Outcome, Placement]:
    """Compute regime A. Returns the outcome and the placement after it: each group at the instance that takes it."""
    weight = placement.groups.weight
    hit, target, tries = reroute(placement, down)
    moved = weight[hit]
    after = placement.loads.copy()
    after[down] = 0
    after = after + weigh(target, moved, len(after))
    lost = moved[target < 0].sum().item()
    total = moved.sum().item()
    datasets, fully, tenants = count_touched(placement, down)
    outcome = Outcome(
        placement.ring.ids,
        placement.loads,
        after,
        rejected_before=placement.rejected,
        rejected_bytes=placement.rejected + lost,
        rerouted_bytes=total - lost,
        moved_bytes=total,
        datasets_touched=datasets,
        datasets_fully_on_down=fully,
        tenants_touched=tenants,
        mean_tries=_mean_tries(placement, hit, tries),
        shards=placement.ring.total,
    )
    if not len(hit):
        return outcome, placement
    receivers = placement.receivers.copy()
    receivers[hit] = target
    left = replace(placement, candidates=receivers.reshape(-1, 1))
    # Same groups on the same ring: these cached values still hold.
    for name in ("positions", "parts", "shard_loads"):
        if name in placement.__dict__:
            left.__dict__[name] = placement.__dict__[name]
    return outcome, left


def takeover_flows(before: Placement, after: Placement, lost: Iterable[str]) -> list[tuple[str, str, Any]]:
    """List the load that moves off the ``lost`` members: (lost, taker or "" if rejected, bytes per second), the largest first.

    Empty if the two placements do not consist of the same groups.
    """
    down = member_mask(before.ring, lost)
    if before.groups is not after.groups or not down.any() or after.ring.total <= 0:
        return []
    at = np.flatnonzero(np.append(down, False)[before.receivers])
    width = len(after.ring.members) + 1
    cell = before.receivers[at].astype(np.int64) * width + after.receivers[at] + 1
    sums = weigh(cell, before.groups.weight[at], len(before.ring.members) * width)
    flows = [
        (before.ring.ids[c // width], after.ring.ids[c % width - 1] if c % width else "", sums[c].item())
        for c in np.flatnonzero(sums).tolist()
    ]
    return sorted(flows, key=lambda flow: (-flow[2], flow[0], flow[1]))


def shard_sets_changed(before: Placement, after: Placement) -> np.ndarray:
    """Return for each dataset whether the set of shard IDs of its range differs (bool)."""
    old, new = before.ranges, after.ranges
    if old.total == 0 or new.total == 0:
        return np.full(before.keys.size, old.total != new.total)
    changed: np.ndarray = old.dataset_size != new.dataset_size
    # An equal start, tenant range and size gives an equal set only if the ring's size did not change the wrapping:
    # compare the sets themselves.
    equal = np.flatnonzero(~changed)
    for block in np.array_split(equal, max(1, int(old.dataset_size[equal].sum()) // 4_000_000 + 1)):
        size = old.dataset_size[block]
        rows = np.repeat(block, size)
        offsets = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        span = max(old.total, new.total)
        mine = np.sort(rows * span + old.positions(rows, offsets))
        changed[np.unique(rows[mine != np.sort(rows * span + new.positions(rows, offsets))])] = True
    return changed


def all_members(before: Layout, after: Layout) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return the IDs of both rings in byte order, and the index of each member of the first and of the second ring."""
    ids = sorted({*before.ids, *after.ids})
    at = {name: i for i, name in enumerate(ids)}
    return (
        tuple(ids),
        np.array([at[i] for i in before.ids], dtype=np.int64),
        np.array([at[i] for i in after.ids], dtype=np.int64),
    )


def moved_load(before: Placement, after: Placement, old: np.ndarray, new: np.ndarray, nodes: int) -> Any:
    """Sum the decrease in load over datasets and nodes. ``old`` and ``new`` map ring members to common node indices below
    ``nodes``."""
    from_node = np.append(old, -1)[before.receivers]
    to_node = np.append(new, -1)[after.receivers]
    if before.groups is not after.groups:
        return _net_decrease(before.groups.datasets, from_node, before.groups.weight,
                       after.groups.datasets, to_node, after.groups.weight, nodes)  # fmt: skip
    rows, weight = before.groups.datasets, before.groups.weight
    # Where a dataset has one group only, its load moves as a whole; the others are netted node by node.
    alone = before.parts[rows] == 1
    differs = from_node != to_node
    plain = weight[alone & differs & (from_node >= 0)].sum().item()
    rest = np.flatnonzero(~alone)
    if not len(rest):
        return plain
    touched_rows = np.zeros(before.keys.size, dtype=bool)
    touched_rows[rows[rest[differs[rest]]]] = True
    rest = rest[touched_rows[rows[rest]]]
    return plain + _net_decrease(
        rows[rest], from_node[rest], weight[rest], rows[rest], to_node[rest], weight[rest], nodes
    )


def _net_decrease(rows1: np.ndarray, at1: np.ndarray, w1: np.ndarray,
            rows2: np.ndarray, at2: np.ndarray, w2: np.ndarray, nodes: int) -> Any:  # fmt: skip
    keep1, keep2 = at1 >= 0, at2 >= 0
    cell = np.concatenate((rows1[keep1].astype(np.int64) * nodes + at1[keep1],
                           rows2[keep2].astype(np.int64) * nodes + at2[keep2]))  # fmt: skip
    _, net = sum_cells(cell, np.concatenate((w1[keep1], -w2[keep2])))
    return net[net > 0].sum().item()


def changed_owners(before: Ring, after: Ring, old: np.ndarray, new: np.ndarray) -> int:
    """Count the shard IDs that exist before and after and change their owner."""
    shared = min(before.total, after.total)
    return int((old[before.owner[:shared]] != new[after.owner[:shared]]).sum())


def relayout_outcome(before: Placement, after: Placement, gone: frozenset[str] = frozenset()) -> Outcome:
    """Compute the effect of a new layout (regime B, a scale step, other tokens or limits).

    ``gone``: the members whose loss causes it; what they received has to move.
    """
    ids, old, new = all_members(before.ring, after.ring)
    loads = np.zeros(len(ids), dtype=before.loads.dtype)
    loads[old] = before.loads
    later = np.zeros(len(ids), dtype=after.loads.dtype)
    later[new] = after.loads
    moved = moved_load(before, after, old, new, len(ids))
    down = member_mask(before.ring, gone)
    on_gone = before.loads[down].sum().item()
    datasets, fully, tenants = count_touched(before, down)
    # Load of lost members that no instance receives now.
    lost = max(0, after.rejected - before.rejected)
    return Outcome(
        ids,
        loads,
        later,
        rejected_before=before.rejected,
        rejected_bytes=after.rejected,
        rerouted_bytes=max(0, on_gone - lost),
        moved_bytes=moved,
        needless_moved_bytes=moved - on_gone,
        shards_with_changed_owner=changed_owners(before.ring, after.ring, old, new),
        datasets_with_changed_shard_set=int(shard_sets_changed(before, after).sum()),
        datasets_touched=datasets,
        datasets_fully_on_down=fully,
        tenants_touched=tenants,
        mean_tries=_mean_tries(after),
        shards=after.ring.total,
    )


def place_without(placement: Placement, gone: Iterable[str]) -> Placement:
    """Place the same keys on the ring laid out without the members ``gone``, with one candidate for each group."""
    return place(placement.ring.without(frozenset(gone)), placement.keys, 1, like=placement)


def remove_members(placement: Placement, gone: Iterable[str]) -> tuple[Outcome, Placement]:
    """Compute regime B. Returns the outcome of losing the members ``gone``, and the placement without them."""
    lost = frozenset(gone)
    after = place_without(placement, lost)
    return relayout_outcome(placement, after, lost), after


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
    return [
        dataclasses.replace(m, id=f"{parts[0]}{parts[1]:0{width}d}") if (parts := ordinal(m.id)) else m for m in members
    ]


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
        kept = {name for _, name in sorted(((ordinal(m.id) or ("", -1, 0))[1], m.id) for m in have)[:size]}
        return [m for m in have if m.id in kept]
    prefix, highest = _common_prefix([*have, *others])
    tokens = Counter(m.tokens for m in have if m.tokens).most_common(1)
    zones = Counter(m.zone for m in have)
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
