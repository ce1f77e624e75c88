"""One tenant or key of a ring with replicas, step by step; and the tenant's shard at other sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.dskit.keys import fnv1, parse_labels, series_bytes, text_bytes
from engine.ring_placement.dskit.replicas import replica_sets
from engine.ring_placement.dskit.shuffle_shards import ShardRing, seed_of
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight.explain import BadKey, Step
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import ReplicatedScenario, replicated_ring

MAX_LISTED = 24
"""Members of a shard that are listed."""
MAX_SIZES = 40
"""Shard sizes that are tried."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A tenant, and the token of one of its keys (None: the tenant as a whole) with what it is computed from."""

    tenant: str
    token: int | None = None
    basis: str = ""


def parse_asked(text: str, without_le: bool = False) -> Asked:
    """Parse ``TENANT``, ``TENANT@TOKEN``, ``TENANT/name{...}`` (a series) or ``TENANT{...}`` (series, or stream without a
    name; ``without_le``: whether series are placed without that label). Raises BadKey."""
    text = text.strip()
    if not text:
        raise BadKey('expected TENANT, TENANT@TOKEN or TENANT/series{label="value"}')
    if "{" in text:
        head, brace, rest = text.partition("{")
        tenant, slash, name = head.partition("/")
        try:
            labels = parse_labels(name + brace + rest)
        except ValueError as error:
            raise BadKey(str(error)) from error
        if (slash and name) or any(label == "__name__" for label, _ in labels):
            left_out = frozenset({"le"} if without_le else ())
            but = " but le" if without_le else ""
            token = fnv1(series_bytes(tenant, labels, left_out))
            return Asked(tenant, token, f"FNV-1 of tenant, label names and values{but} (Mimir)")
        return Asked(tenant, fnv1(text_bytes(tenant, brace + rest)), "FNV-1 of tenant and stream as written (Loki)")
    tenant, sign, digits = text.rpartition("@")
    if not sign:
        return Asked(text)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) < SPACE):
        raise BadKey(f"{digits[:40]!r} is no 32-bit token")
    return Asked(tenant, int(digits), "as given")


def explain(asked: Asked, s: ReplicatedScenario, p: RingParameters) -> list[Step]:
    """Explain where the tenant's shard is, and the replicas of its key, in the scenario."""
    after, strategy = s.after, replicated_ring(s.live)
    ring = after.ring
    steps: list[Step] = []
    number = {name: k for k, name in enumerate(after.tenants.names)}.get(asked.tenant)
    default = strategy.tenant_shards if after.partitions is None else strategy.partition_shards
    size = _size_of(after, number, p, default)
    what = f"shard size {size}" if size else "no shard: the whole ring"
    steps.append(
        ("tenant", asked.tenant, what, "known" if number is not None else "not named by any file: as by default")
    )
    if after.partitions is not None:
        return steps + _partition_steps(asked, s, size)
    drawn = ShardRing(ring.tokens, strategy.now_s)
    chosen, reads = drawn.shard(asked.tenant, size), drawn.shard(asked.tenant, size, strategy.lookback_s)
    if size:
        zones = ring.tokens.zones if strategy.zone_aware else ("",)
        for zone in zones:
            note = f"first draws place its members in {zone or 'the ring'}"
            steps.append(("seed", zone or "ring", str(seed_of(asked.tenant, zone)), note))
    for k in chosen[:MAX_LISTED].tolist() if size else ():
        m = ring.members[k]
        fate = (
            "down in the scenario"
            if after.failed[k]
            else "takes writes"
            if ring.active[k]
            else f"{m.state}: takes no writes"
        )
        steps.append(("shard", m.id, m.zone or "-", fate))
    extra = sorted(set(reads.tolist()) - set(chosen.tolist()))
    if extra:
        names = ", ".join(ring.ids[k] for k in extra[:5])
        steps.append(
            ("reads", "lookback", names, f"queries also ask these {len(extra)}: they may hold data of the lookback")
        )
    if asked.token is not None:
        steps += _replica_steps(asked, s, chosen)
    lost = after.lost_share[after.rows.shard_of[number]] if number is not None else None
    if lost is not None and number is not None:
        reads_ok = bool(after.reads_ok[after.rows.read_of[number]])
        steps.append(("outcome", "writes", f"{lost:.2%} lost", "share of the tenant's key space without quorum"))
        steps.append(
            ("outcome", "queries", "succeed" if reads_ok else "fail", "whether enough zones or members answer")
        )
    return steps


def _size_of(after: ReplicatedPlacement, number: int | None, p: RingParameters, default: int) -> int:
    if number is not None:
        return int(after.tenants.sizes[number])
    return default if p.tenant_shards is None else p.tenant_shards


def _replica_steps(asked: Asked, s: ReplicatedScenario, chosen: np.ndarray) -> list[Step]:
    """List the replicas of the key in walk order, and what its quorum says."""
    after, strategy = s.after, replicated_ring(s.live)
    assert asked.token is not None
    steps: list[Step] = [("key", "token", str(asked.token), asked.basis)]
    subring = after.ring.tokens.subring(chosen)
    if not len(subring.tokens):
        return [*steps, ("ring", "tokens", "0", "empty ring: the write fails")]
    at = subring.search(np.array([asked.token]))
    sets = replica_sets(subring, strategy.writing, at)
    first = int(subring.tokens[at[0]])
    steps.append(("ring", "first token", str(first), f"the first of {len(subring.tokens)} tokens above the key"))
    alive = 0
    for local in sets.members[0].tolist():
        if local < 0:
            continue
        k = int(chosen[local])
        m = after.ring.members[k]
        takes = bool(after.alive[k])
        alive += takes
        fate = (
            "takes the write" if takes else "down in the scenario" if after.failed[k] else f"{m.state}: takes no write"
        )
        steps.append(("replica", m.id, m.zone or "-", fate))
    needed = int(sets.needed[0])
    verdict = "succeeds" if alive >= needed else "fails"
    may = f", {alive - needed} more may fail" if alive >= needed else ""
    return [*steps, ("quorum", "write", verdict, f"{needed} answers needed, {alive} can come{may}")]


def _partition_steps(asked: Asked, s: ReplicatedScenario, size: int) -> list[Step]:
    """List the tenant's partitions with owners, and the partition of its key."""
    after, strategy = s.after, replicated_ring(s.live)
    ring = after.partitions
    assert ring is not None
    steps: list[Step] = []
    chosen = ring.shard(asked.tenant, size, 0, strategy.now_s)
    readers = after.partition_readers
    for k in ring.shard(asked.tenant, size, strategy.lookback_s, strategy.now_s)[:MAX_LISTED].tolist():
        p = ring.partitions[k]
        written = "written and read" if k in set(chosen.tolist()) else "read only (lookback)"
        fate = f"{readers[k]} of its owners answer" if readers[k] else "no owner answers: the query fails"
        steps.append(("partition", str(p.id), ", ".join(p.owners), f"{written}; {fate}"))
    if asked.token is not None:
        steps.append(("key", "token", str(asked.token), asked.basis))
        active = ring.active_partitions(chosen)
        at = int(active[ring.search(np.array([asked.token]))[0]]) if len(active) else -1
        what = f"partition {ring.partitions[at].id}" if at >= 0 else "none"
        steps.append(
            ("place", "partition", what, "the first Active one from the key on" if at >= 0 else "no Active partition")
        )
    return steps


def sizes_table(asked: Asked, s: ReplicatedScenario, p: RingParameters, context: Context) -> pl.DataFrame:
    """Build table ``sizes``: the tenant's shard at each size on the planned ring, and what its worst pair loses."""
    planned, strategy = s.planned, replicated_ring(s.live)
    ring = planned.ring.tokens
    if planned.partitions is not None or not len(ring.tokens):
        return tables.SIZES.empty()
    number = {name: k for k, name in enumerate(planned.tenants.names)}.get(asked.tenant)
    configured = _size_of(planned, number, p, strategy.tenant_shards)
    step = max(len(ring.zones), 1) if strategy.zone_aware else 1
    largest = len(ring.instances)
    sizes = sorted({*range(step, largest + 1, step)})
    if len(sizes) > MAX_SIZES:
        picked = np.unique(np.round(np.geomspace(1, len(sizes), MAX_SIZES)).astype(np.int64)) - 1
        sizes = [sizes[k] for k in picked.tolist()]
    sizes = sorted({*sizes, *([configured] if 0 < configured <= largest else [])})
    drawn = ShardRing(ring, strategy.now_s)
    rows: list[tuple[Any, ...]] = []
    for size in sizes:
        context.check()
        chosen = drawn.shard(asked.tenant, size)
        subring = ring.subring(chosen)
        sets = replica_sets(subring, strategy.writing)
        healthy = np.ones(len(chosen), dtype=bool)
        spare = sets.live(healthy) - sets.needed
        lost, pair = _worst_pair(sets.members, subring.lengths, spare, len(chosen))
        owned = subring.ownership
        spread = float(owned.max() / owned.mean()) if len(owned) and owned.mean() > 0 else 1.0
        names = [subring.ids[k] for k in pair]
        rows.append((size, len(chosen), lost, names, spread, lost <= p.safe_loss, size == configured))
    return tables.SIZES.frame(columns_of(tables.SIZES, rows))


def _worst_pair(members: np.ndarray, length: np.ndarray, spare: np.ndarray, count: int) -> tuple[float, list[int]]:
    """Return the largest share of keys that two members lose together, all healthy before, and these two."""
    single = np.zeros(count)
    both = np.zeros(count * count)
    weight = length / SPACE
    for critical, sign in ((0, -1.0), (1, 1.0)):
        at = np.flatnonzero(spare == critical)
        own = members[at]
        for k, column in enumerate(own.T):
            here = column >= 0
            if critical == 0:
                single += np.bincount(column[here], weight[at][here], count)
            for other in own.T[k + 1 :]:
                two = here & (other >= 0)
                both += sign * np.bincount(
                    column[two].astype(np.int64) * count + other[two], weight[at][two], count * count
                )
    matrix = both.reshape(count, count)
    lost = single[:, None] + single[None, :] + matrix + matrix.T + float(weight[spare < 0].sum())
    np.fill_diagonal(lost, -1.0)
    if count < 2:
        return float(single.sum()), list(range(count))
    worst = int(lost.argmax())
    return max(float(lost.ravel()[worst]), 0.0), sorted((worst // count, worst % count))
