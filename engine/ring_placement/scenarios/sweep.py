"""Sweeps: the totals of many scenarios at once, exact, mostly from joint histograms instead of scenario by scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.ring_placement.pyroscope.keys import Placement, place, weigh
from engine.ring_placement.scenarios.failover import (
    Outcome,
    left,
    shard_sets_changed,
    transient,
)

Step = Callable[[float], None]
"""Told the fraction done between pieces; may raise to stop."""


@dataclass
class Sweep:
    """Scenarios and their totals, one list entry each. ``down``: indices into ``ids``; ``loads``: bytes per second after,
    per ring member, one row per scenario (None where it is too large to keep)."""

    ids: tuple[str, ...]
    regime: str
    down: list[tuple[int, ...]] = field(default_factory=list)
    rejected: list[float] = field(default_factory=list)
    rerouted: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    needless: list[float] = field(default_factory=list)
    owners_changed: list[int] = field(default_factory=list)
    sets_changed: list[int] = field(default_factory=list)
    datasets: list[int] = field(default_factory=list)
    fully: list[int] = field(default_factory=list)
    tenants: list[int] = field(default_factory=list)
    worst: list[int] = field(default_factory=list)
    worst_load: list[float] = field(default_factory=list)
    max_over_mean: list[float] = field(default_factory=list)
    variation: list[float] = field(default_factory=list)
    over: list[int] = field(default_factory=list)

    def add(self, down: tuple[int, ...], after: np.ndarray, survivors: np.ndarray, capacity: np.ndarray | None) -> None:
        """Record loads (per ring member) of a scenario; the totals are appended by the caller."""
        self.down.append(down)
        alive = after[survivors]
        if len(alive):
            at = int(np.argmax(alive))
            self.worst.append(int(np.flatnonzero(survivors)[at]))
            self.worst_load.append(alive[at].item())
            mean = float(alive.mean())
            self.max_over_mean.append(float(alive[at]) / mean if mean > 0 else 1.0)
            self.variation.append(float(alive.std()) / mean if mean > 0 else 0.0)
        else:
            self.worst.append(-1)
            self.worst_load.append(0)
            self.max_over_mean.append(1.0)
            self.variation.append(0.0)
        self.over.append(int((alive > capacity[survivors]).sum()) if capacity is not None else -1)

    def totals(self, outcome: Outcome) -> None:
        """Append the totals of one outcome."""
        self.rejected.append(outcome.rejected_bytes)
        self.rerouted.append(outcome.rerouted_bytes)
        self.moved.append(outcome.moved_bytes)
        self.needless.append(outcome.needless_moved_bytes)
        self.owners_changed.append(outcome.shards_with_changed_owner)
        self.sets_changed.append(outcome.datasets_with_changed_shard_set)
        self.datasets.append(outcome.datasets_touched)
        self.fully.append(outcome.datasets_fully_on_down)
        self.tenants.append(outcome.tenants_touched)

    def order(self) -> np.ndarray:
        """Scenario numbers from worst to best: rejected, then the hottest node, then movement, then as listed."""
        return np.lexsort(
            (np.arange(len(self.down)), -np.array(self.moved, dtype=np.float64),
             -np.array(self.worst_load, dtype=np.float64), -np.array(self.rejected, dtype=np.float64))
        )  # fmt: skip


def scenarios(
    placement: Placement, downs: Sequence[tuple[int, ...]], regime: str, capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Any list of scenarios, one by one."""
    ring = placement.ring
    sweep = Sweep(ring.ids, regime)
    takes = taking(placement)
    index = {name: i for i, name in enumerate(ring.ids)}
    for number, down in enumerate(downs):
        step(number / max(1, len(downs)))
        flags = np.zeros(len(ring.members), dtype=bool)
        flags[list(down)] = True
        if regime == "transient":
            outcome = transient(placement, flags)
            after = outcome.after
        else:
            outcome, later = left(placement, [ring.ids[i] for i in down])
            after = np.zeros(len(ring.members), dtype=outcome.after.dtype)
            for name, load in zip(later.ring.ids, later.loads, strict=True):
                after[index[name]] = load
        sweep.add(down, after, takes & ~flags, capacity)
        sweep.totals(outcome)
    return sweep


def _presence(placement: Placement) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Unique (dataset, first instance) and (tenant, first instance) pairs, as four index arrays; instance -1 is kept
    for datasets (a part nobody takes) and left out for tenants."""
    width = len(placement.ring.members) + 1
    cell = _unique(placement.groups.rows.astype(np.int64) * width + placement.first + 1)
    datasets, nodes = cell // width, cell % width - 1
    pairs = placement.keys.tenant_of[datasets].astype(np.int64) * width + nodes + 1
    size = len(placement.keys.tenants) * width
    if size <= 1 << 25:
        seen = np.zeros(size, dtype=bool)
        seen[pairs] = True
        tenant = np.flatnonzero(seen)
    else:
        tenant = _unique(pairs)
    tenants, at = tenant // width, tenant % width - 1
    keep = at >= 0
    return datasets, nodes, tenants[keep], at[keep]


def _unique(values: np.ndarray) -> np.ndarray:
    """Sorted distinct values; sorting beats hashing here."""
    if not len(values):
        return values
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def every_node(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Every single member of the ring fails in turn."""
    downs = [(i,) for i in range(len(placement.ring.members))]
    if not placement.ring.total or not len(placement.groups.rows):
        return scenarios(placement, downs, regime, capacity, step)
    if regime == "transient":
        return _nodes_transient(placement, capacity)
    if _regular(placement):
        return _regular_left(placement, downs, capacity, step)
    return scenarios(placement, downs, regime, capacity, step)


def every_pair(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Every pair of members fails at once."""
    n = len(placement.ring.members)
    downs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    if not placement.ring.total or not len(placement.groups.rows):
        return scenarios(placement, downs, regime, capacity, step)
    if regime == "transient":
        return _pairs_transient(placement, capacity, step)
    if _regular(placement) and n > 2:
        return _regular_left(placement, downs, capacity, step)
    return scenarios(placement, downs, regime, capacity, step)


def taking(placement: Placement) -> np.ndarray:
    """Bool per ring member: whether it is ACTIVE and has a shard."""
    takes: np.ndarray = placement.ring.active & np.array([m.tokens > 0 for m in placement.ring.members], dtype=bool)
    return takes


def _nodes_transient(placement: Placement, capacity: np.ndarray | None) -> Sweep:
    """One pass: the joint histogram of (first, second) candidates answers every single failure."""
    n = len(placement.ring.members)
    sweep = Sweep(placement.ring.ids, "transient")
    chain, weight = placement.chain, placement.groups.weight
    second = chain[:, 1] if chain.shape[1] > 1 else np.full(len(chain), -1)
    has = chain[:, 0] >= 0
    cell = chain[has, 0].astype(np.int64) * (n + 1) + np.where(second[has] < 0, n, second[has])
    joint = weigh(cell, weight[has], n * (n + 1)).reshape(n, n + 1)
    loads, rejected, takes = placement.loads, placement.rejected, taking(placement)
    datasets, nodes, _, at = _presence(placement)
    kinds = np.bincount(datasets, minlength=placement.keys.size)
    real = nodes >= 0
    touched_by = np.bincount(nodes[real], minlength=n)
    fully_by = np.bincount(nodes[real & (kinds[datasets] == 1)], minlength=n)
    tenants_by = np.bincount(at, minlength=n)
    for i in range(n):
        after = loads + joint[i, :n]
        after[i] = 0
        survivors = takes.copy()
        survivors[i] = False
        sweep.add((i,), after, survivors, capacity)
        sweep.rejected.append(rejected + joint[i, n].item())
        sweep.rerouted.append(joint[i, :n].sum().item())
        sweep.moved.append(loads[i].item())
        sweep.needless.append(0)
        sweep.owners_changed.append(0)
        sweep.sets_changed.append(0)
    sweep.datasets, sweep.fully, sweep.tenants = touched_by.tolist(), fully_by.tolist(), tenants_by.tolist()
    return sweep


def _together(rows: np.ndarray, nodes: np.ndarray, count: int, n: int) -> np.ndarray:
    """For each pair of nodes, how many of ``count`` rows have both (n x n, exact)."""
    out = np.zeros((n, n), dtype=np.float64)
    order = np.argsort(rows, kind="stable")
    rows, nodes = rows[order], nodes[order]
    block = max(1, 8_000_000 // max(n, 1))
    for start in range(0, count, block):
        low, high = np.searchsorted(rows, (start, start + block))
        if low == high:
            continue
        dense = np.zeros((min(block, count - start), n), dtype=np.float32)
        dense[rows[low:high] - start, nodes[low:high]] = 1
        # Products of 0 and 1 stay exact in single precision up to 2^24 rows, and a block is smaller than that.
        out += dense.T @ dense
    return out.astype(np.int64)


def _pairs_transient(placement: Placement, capacity: np.ndarray | None, step: Step) -> Sweep:
    """All pairs from the histograms of (first, second) and (first, second, third) candidates."""
    n = len(placement.ring.members)
    sweep = Sweep(placement.ring.ids, "transient")
    chain, weight = placement.chain, placement.groups.weight
    depth = chain.shape[1]
    has = chain[:, 0] >= 0
    first = chain[has, 0].astype(np.int64)
    second = chain[has, 1].astype(np.int64) if depth > 1 else np.full(len(first), -1)
    third = chain[has, 2].astype(np.int64) if depth > 2 else np.full(len(first), -1)
    weight = weight[has]
    second, third = np.where(second < 0, n, second), np.where(third < 0, n, third)
    width = n + 1
    joint = weigh(first * width + second, weight, n * width).reshape(n, width)
    loads, rejected, takes = placement.loads, placement.rejected, taking(placement)
    by_first = np.argsort(first, kind="stable")
    first_at = np.searchsorted(first[by_first], np.arange(n + 1))
    by_second = np.argsort(second, kind="stable")
    second_at = np.searchsorted(second[by_second], np.arange(n + 2))
    datasets, nodes, tenants, at = _presence(placement)
    size = placement.keys.size
    kinds = np.bincount(datasets, minlength=size)
    real = nodes >= 0
    touched_by = np.bincount(nodes[real], minlength=n)
    fully_by = np.bincount(nodes[real & (kinds[datasets] == 1)], minlength=n)
    both = _together(datasets[real], nodes[real], size, n)
    two = np.zeros((n, n), dtype=np.int64)
    wholly = real & (kinds[datasets] == 2)
    # A dataset on exactly two instances appears as two neighbours in the sorted pairs; one may be "nobody".
    mates = datasets[wholly]
    if len(mates):
        same = np.flatnonzero(mates[1:] == mates[:-1])
        pair_nodes = nodes[wholly]
        np.add.at(two, (pair_nodes[same], pair_nodes[same + 1]), 1)
    tenants_by = np.bincount(at, minlength=n)
    tenants_both = _together(tenants, at, len(placement.keys.tenants), n)
    columns = np.arange(n)
    for i in range(n - 1):
        step(i / n)
        mine = by_first[first_at[i] : first_at[i + 1]]
        third_mine = weigh(second[mine] * width + third[mine], weight[mine], width * width).reshape(width, width)[:n]
        theirs = by_second[second_at[i] : second_at[i + 1]]
        third_theirs = weigh(first[theirs] * width + third[theirs], weight[theirs], n * width).reshape(n, width)
        js = columns[i + 1 :]
        # What i held goes to its second choice, unless that is j: then to the third; and the same for j.
        lost_i = np.broadcast_to(joint[i], (len(js), width)).copy()
        lost_i[np.arange(len(js)), js] = 0
        lost_j = joint[js].copy()
        lost_j[:, i] = 0
        gain = lost_i + lost_j + third_mine[js] + third_theirs[js]
        after = loads[None, :] + gain[:, :n]
        rerouted = gain[:, :n].sum(axis=1)
        lost = gain[:, n]
        for k, j in enumerate(js.tolist()):
            row = after[k]
            row[i] = row[j] = 0
            survivors = takes.copy()
            survivors[i] = survivors[j] = False
            sweep.add((i, j), row, survivors, capacity)
        sweep.rejected.extend((rejected + lost).tolist())
        sweep.rerouted.extend(rerouted.tolist())
        sweep.moved.extend((loads[i] + loads[js]).tolist())
        sweep.datasets.extend((touched_by[i] + touched_by[js] - both[i, js]).tolist())
        sweep.fully.extend((fully_by[i] + fully_by[js] + two[i, js] + two[js, i]).tolist())
        sweep.tenants.extend((tenants_by[i] + tenants_by[js] - tenants_both[i, js]).tolist())
    count = len(sweep.down)
    sweep.needless, sweep.owners_changed, sweep.sets_changed = [0] * count, [0] * count, [0] * count
    return sweep


def _regular(placement: Placement) -> bool:
    """Whether any k departures leave the same layout up to names: equal tokens, all members ACTIVE."""
    members = placement.ring.members
    return bool(placement.ring.active.all()) and len({m.tokens for m in members}) == 1 and members[0].tokens > 0


def _regular_left(
    placement: Placement, downs: Sequence[tuple[int, ...]], capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Regime B for many sets of one size k where tokens are equal: the keys are placed once on the smaller ring, whose
    owners are the survivors by rank; survivor number q is node q + (how many of the failed come before it).

    Load that stays is the sum over (dataset, q) of the smaller of before and after, and depends on the failed ones only
    through that shift: k + 1 prefix sums over q give every set's movement.
    """
    ring, keys = placement.ring, placement.keys
    n, k = len(ring.members), len(downs[0])
    sweep = Sweep(ring.ids, "left")
    if n - k < 1:
        return scenarios(placement, downs, "left", capacity, step)
    later = place(ring.without(ring.ids[n - k :]), keys, 1, like=placement)
    ranks = n - k
    # Loads by (dataset, node) before and by (dataset, rank) after.
    before_cells, before_weight = _cells(placement.groups.rows, placement.first, placement.groups.weight, n)
    after_cells, after_weight = _cells(later.groups.rows, later.first, later.groups.weight, n)
    rank = after_cells % n
    stays = []
    for shift in range(k + 1):
        wanted = after_cells + shift
        at = np.searchsorted(before_cells, wanted)
        at_safe = np.minimum(at, max(0, len(before_cells) - 1))
        match = (at < len(before_cells)) & (before_cells[at_safe] == wanted) & (rank + shift < n)
        kept = np.where(match, np.minimum(after_weight, before_weight[at_safe]), 0)
        stays.append(np.concatenate(([0], np.cumsum(weigh(rank, kept, ranks)))))
    by_rank = later.loads
    total = placement.groups.total - placement.rejected
    sets_changed = int(shard_sets_changed(placement, later).sum())
    shared = min(ring.total, later.ring.total)
    # Shards whose owner stays, by the rank of their later owner and the shift that makes both equal.
    shift_needed = ring.owner[:shared].astype(np.int64) - later.ring.owner[:shared]
    same = [
        np.concatenate(([0], np.cumsum(np.bincount(later.ring.owner[:shared][shift_needed == s], minlength=ranks))))
        for s in range(k + 1)
    ]
    datasets, nodes, tenants, at_node = _presence(placement)
    size = keys.size
    kinds = np.bincount(datasets, minlength=size)
    touched_by = np.bincount(nodes, minlength=n)
    fully_by = np.bincount(nodes[kinds[datasets] == 1], minlength=n)
    tenants_by = np.bincount(at_node, minlength=n)
    if k == 2:
        both = _together(datasets, nodes, size, n)
        tenants_both = _together(tenants, at_node, len(keys.tenants), n)
        two = np.zeros((n, n), dtype=np.int64)
        exactly = kinds[datasets] == 2
        mates, pair_nodes = datasets[exactly], nodes[exactly]
        same_row = np.flatnonzero(mates[1:] == mates[:-1]) if len(mates) else np.empty(0, dtype=np.int64)
        np.add.at(two, (pair_nodes[same_row], pair_nodes[same_row + 1]), 1)
    loads = placement.loads
    peak = int(np.argmax(by_rank))
    mean = float(by_rank.mean())
    ratio = float(by_rank[peak]) / mean if mean > 0 else 1.0
    variation = float(by_rank.std()) / mean if mean > 0 else 0.0
    for number, down in enumerate(downs):
        if number % 2048 == 0:
            step(number / len(downs))
        # Ranks below down[0] are not shifted, those between down[s-1]-(s-1) and down[s]-s by s.
        edges = [0, *(d - s for s, d in enumerate(down)), ranks]
        stay = sum((stays[s][edges[s + 1]] - stays[s][edges[s]]).item() for s in range(k + 1))
        kept_owners = sum(int(same[s][edges[s + 1]] - same[s][edges[s]]) for s in range(k + 1))
        on_gone = sum(loads[d].item() for d in down)
        moved = total - stay
        sweep.down.append(down)
        sweep.worst.append(peak + sum(peak >= d - s for s, d in enumerate(down)))
        sweep.worst_load.append(by_rank[peak].item())
        sweep.max_over_mean.append(ratio)
        sweep.variation.append(variation)
        if capacity is None:
            sweep.over.append(-1)
        else:
            alive = np.delete(capacity, list(down))
            sweep.over.append(int((by_rank > alive).sum()))
        sweep.rejected.append(later.rejected)
        sweep.rerouted.append(on_gone - max(0, later.rejected - placement.rejected))
        sweep.moved.append(moved)
        sweep.needless.append(moved - on_gone)
        sweep.owners_changed.append(shared - kept_owners)
        sweep.sets_changed.append(sets_changed)
        i = down[0]
        if k == 1:
            sweep.datasets.append(int(touched_by[i]))
            sweep.fully.append(int(fully_by[i]))
            sweep.tenants.append(int(tenants_by[i]))
        else:
            j = down[1]
            sweep.datasets.append(int(touched_by[i] + touched_by[j] - both[i, j]))
            sweep.fully.append(int(fully_by[i] + fully_by[j] + two[i, j]))
            sweep.tenants.append(int(tenants_by[i] + tenants_by[j] - tenants_both[i, j]))
    return sweep


def _cells(rows: np.ndarray, nodes: np.ndarray, weight: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted unique cells dataset * n + node and their weights, parts nobody takes left out."""
    keep = nodes >= 0
    cell = rows[keep].astype(np.int64) * n + nodes[keep]
    value = weight[keep]
    if not len(cell):
        return cell, value
    order = np.argsort(cell, kind="stable")
    cell, value = cell[order], value[order]
    starts = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    return cell[starts], np.add.reduceat(value, starts)


def random_sets(n: int, k: int, draws: int, seed: int) -> Iterator[tuple[int, ...]]:
    """``draws`` random sets of ``k`` of ``n`` members (each draw without repeats), from a fixed seed."""
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(draws):
        yield tuple(sorted(generator.choice(n, size=min(k, n), replace=False).tolist()))


def worst_case(sweep: Sweep, takes: np.ndarray) -> float | None:
    """The capacity per node that survives every scenario of ``sweep`` (regime A): the hottest survivor's load in the worst
    one. None where no scenario both hits a node that takes data and leaves one. ``takes``: bool per ring member."""
    found = None
    for down, load, worst in zip(sweep.down, sweep.worst_load, sweep.worst, strict=True):
        if worst >= 0 and takes[list(down)].any():
            found = load if found is None else max(found, load)
    return found
