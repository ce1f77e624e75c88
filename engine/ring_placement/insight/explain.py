"""One key, or one tenant, step by step, on either kind of ring; and a tenant's shard at other sizes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.units import plural
from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.dskit.replicas import replica_sets
from engine.ring_placement.dskit.token_ring import SPACE, ShardRing, first_above, seed_of
from engine.ring_placement.dskit.tokens import fnv1, parse_labels, series_bytes, text_bytes
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS, Policy, policy_of
from engine.ring_placement.pyroscope.ring import (
    TRIES,
    Ring,
    candidate_positions,
    hex16,
    jump,
    parse_hash,
    series_fingerprint,
    subrings,
    xxh64,
)
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.replica_sweeps import PairSums
from engine.ring_placement.scenarios.scenario_state import ReplicatedScenario, SegmentScenario, replicated_ring

UNKNOWN_SERVICE = "unknown_service"  # value of the label ``service_name`` that the distributor adds if it is missing
MAX_CANDIDATES = 64  # most candidates listed of one key
Step = tuple[str, str, str, str]  # one row of the table ``explain``: what, name, value, note
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')


class BadKey(ValueError):
    """Raised for a text that is not a key; the message says why."""


class Key(msgspec.Struct, frozen=True):
    """A key to explain; ``fingerprint`` is None if not given."""

    tenant: str
    dataset: str
    labels: tuple[tuple[str, str], ...] = ()
    fingerprint: int | None = None


def parse_key(text: str) -> Key:
    """Parse ``TENANT/DATASET``, ``TENANT/DATASET@FINGERPRINT`` or ``TENANT{name="value",…}``.

    A label set is completed and sorted by name as the distributor does before it hashes. Raises BadKey.
    """
    if "{" in text and text.rstrip().endswith("}"):
        tenant, inside = text.rstrip()[:-1].split("{", 1)
        labels: list[tuple[str, str]] = []
        at = 0
        while at < len(inside.rstrip()):
            match = _LABEL.match(inside, at)
            if match is None:
                raise BadKey(f'label set: expected name="value" at {inside[at : at + 20]!r}')
            labels.append((match[1], re.sub(r"\\(.)", r"\1", match[2])))
            at = match.end()
        if not any(name == "service_name" for name, _ in labels):
            labels.append(("service_name", UNKNOWN_SERVICE))
        labels.sort(key=lambda pair: pair[0].encode())
        dataset = next(value for name, value in labels if name == "service_name")
        return Key(tenant.strip().rstrip("/"), dataset, tuple(labels), series_fingerprint(labels))
    tenant, slash, rest = text.partition("/")
    if not slash:
        return Key(text.strip(), "")
    dataset, sign, digits = rest.rpartition("@")
    if sign and (value := parse_hash(digits)) is not None:
        return Key(tenant, dataset, (), value)
    return Key(tenant, rest)


class _Walk(msgspec.Struct, frozen=True):
    """The ranges of one key on a ring of ``total`` shards, and its walk over shard positions.

    ``a``: start of the tenant's range and ``tenant_size`` its length, ``c`` and ``dataset_size`` those of the dataset's;
    ``offset`` within it; ``order``: positions in the order in which they are tried.
    """

    total: int
    a: int
    tenant_size: int
    c: int
    dataset_size: int
    offset: int
    order: list[int]

    @classmethod
    def of(cls, ring: Ring, key: Key, policy: Policy) -> _Walk:
        one = np.ones(1, dtype=np.int64)
        tenant, dataset = (np.array([xxh64(name)], dtype=np.uint64) for name in (key.tenant, key.dataset))
        ranges = subrings(
            jump(tenant, ring.total), dataset, one * policy.tenant_limit, one * policy.dataset_limit, ring.total
        )
        a, tenant_size = int(ranges.a[0]), int(ranges.tenant_size[0])
        c, size = int(ranges.c[0]), int(ranges.dataset_size[0])
        offset = key.fingerprint % size if key.fingerprint is not None and not policy.round_robin else 0
        order = candidate_positions(ring.total, a, a + tenant_size, c, c + size, offset)
        return cls(ring.total, a, tenant_size, c, size, offset, order)

    def level(self, step: int) -> str:
        """Name the range that step ``step`` (0-based) of the walk is in."""
        rest = self.tenant_size - self.dataset_size
        tenant_end = self.dataset_size + (rest if rest >= 2 else 0)
        return "dataset" if step < self.dataset_size else "tenant" if step < tenant_end else "ring"


def explain_segments(text: str, s: SegmentScenario, p: RingParameters, context: Context) -> tuple[list[Step], None]:
    """Explain where the key ``text`` goes on a ring of segment writers. Returns the steps in order. Raises BadKey."""
    key, cluster = parse_key(text), s.live.cluster
    policy = policy_of(key.tenant, key.dataset, cluster.rules, cluster.limits, DEFAULTS)
    policy = policy.with_limits(p.tenant_shards, p.dataset_shards)
    return _key_steps(key, s.planned.ring, frozenset(s.down), policy), None


def _key_steps(key: Key, ring: Ring, down: frozenset[str], policy: Policy) -> list[Step]:
    labels = ", ".join(f'{name}="{value}"' for name, value in key.labels)
    limits = f"tenant_shards {policy.tenant_limit or 'unlimited'}, dataset_shards {policy.dataset_limit}"
    prints = [] if key.fingerprint is None else [hex16(key.fingerprint)]
    steps = [
        ("hash", "tenant", hex16(xxh64(key.tenant)), f"XXH64 of {key.tenant!r}"),
        ("hash", "dataset", hex16(xxh64(key.dataset)), f"XXH64 of {key.dataset!r}"),
        *([("hash", "labels", labels, "service_name added if missing, sorted by name")] if labels else []),
        *(("hash", "fingerprint", value, "picks the shard within the dataset's range") for value in prints),
        ("policy", policy.source, limits, "random shard per request" if policy.round_robin else "shard by fingerprint"),
    ]
    if ring.total <= 0:
        unusable = "the healthy members have no tokens" if ring.members else "empty ring: Pyroscope answers UNAVAILABLE"
        return [*steps, ("ring", "shards", "0", unusable)]
    walk = _Walk.of(ring, key, policy)
    candidates, taker, tries = _candidate_steps(ring, walk, down)
    steps += [*_range_steps(key, ring, walk, policy), *candidates]
    shard = walk.order[0] + 1
    attempts = f"after {tries} {'try' if tries == 1 else 'tries'}"
    steps.append(_regime_step("A", taker, shard, attempts if taker else f"rejected {attempts}"))
    if down:
        steps.append(_step_without(ring.without(down), key, policy, shard))
        steps.append(_regime_step("C", _first_active(ring, walk.order), shard, "exactly as before the failure"))
    return steps


def _range_steps(key: Key, ring: Ring, walk: _Walk, policy: Policy) -> list[Step]:
    """List the ranges of the key, its offset, and the shard and owner it is placed at."""
    total, a, ts, c, ds = walk.total, walk.a, walk.tenant_size, walk.c, walk.dataset_size
    shards = " ".join(str(((c - a + k) % ts + a) % total + 1) for k in range(min(ds, 12)))
    owner = ring.members[ring.owner[walk.order[0]]]
    pick: list[Step] = []
    if key.fingerprint is not None and not policy.round_robin:
        pick = [("pick", "offset", str(walk.offset), f"fingerprint mod {ds}")]
    elif ds > 1:
        pick = [("pick", "offset", "0", f"any of {ds}, with equal shares; this follows the first one")]
    return [
        ("ring", "shards", str(total), f"one per token of {plural(len(ring.members), 'healthy member')}"),
        ("range", "tenant", _span(a, ts, total), f"{ts} of {total} shards from jump(tenant, {total}) = {a}"),
        ("range", "dataset", shards + (" …" if ds > 12 else ""),
         f"{ds} shards from place {c - a} of the tenant's, wrapping inside it"),
        *pick,
        ("place", "shard", str(walk.order[0] + 1), "position + 1; the request keeps it, whichever node stores it"),
        ("place", "owner", owner.id, f"state {owner.state}"),
        *(("quirk", name, "skipped", "a range with exactly one shard left is not tried")
          for name, rest in (("tenant", ts - ds), ("ring", total - ts)) if rest == 1),
    ]  # fmt: skip


def _regime_step(letter: str, instance: str, shard: int, note: str) -> Step:
    """Describe where the key goes in one regime; ``instance`` is "" if it is rejected."""
    return "regime", letter, f"{instance or 'rejected'} (shard {shard})", note


def _step_without(ring: Ring, key: Key, policy: Policy, shard: int) -> Step:
    """Describe where the key goes on the smaller ``ring`` of regime B; ``shard`` is its shard ID before."""
    if not ring.total:
        return _regime_step("B", "", 0, "empty ring: rejected")
    walk = _Walk.of(ring, key, policy)
    later = walk.order[0] + 1
    note = "same shard ID" if later == shard else f"shard ID changes from {shard}"
    return _regime_step("B", _first_active(ring, walk.order), later, note)


def _first_active(ring: Ring, order: list[int]) -> str:
    return next((ring.ids[ring.owner[p]] for p in order if ring.active[ring.owner[p]]), "")


def _candidate_steps(ring: Ring, walk: _Walk, down: frozenset[str]) -> tuple[list[Step], str, int]:
    """List the distinct instances of a walk with the fate of each.

    Returns the steps, the instance that stores the data ("" if rejected), and the tries made.
    """
    steps: dict[str, Step] = {}
    tries, taker = 0, ""
    for number, position in enumerate(walk.order):
        member = ring.members[ring.owner[position]]
        if member.id in steps:
            continue
        attempt = "not tried"
        if member.state != "ACTIVE":
            fate = f"skipped: {member.state} members receive nothing"
        elif taker:
            fate = "not needed"
        elif tries >= TRIES:
            fate = f"not tried: a client tries {TRIES} distinct instances"
        else:
            tries += 1
            attempt = f"try {tries}"
            fate = "down: the request fails" if member.id in down else "stores the data"
            taker = "" if member.id in down else member.id
        where = f"zone {member.zone or '-'}, {walk.level(number)} range, shard {position + 1}"
        steps[member.id] = ("candidate", member.id, attempt, f"{member.state}, {where}: {fate}")
        if len(steps) >= MAX_CANDIDATES:
            break
    return list(steps.values()), taker, tries


def _span(start: int, size: int, total: int) -> str:
    return f"{start + 1}..{(start + size - 1) % total + 1}" + (" (wrapping)" if start + size > total else "")


MAX_LISTED = 24  # members of a shard that are listed
MAX_SIZES = 40  # shard sizes that are tried


class Asked(msgspec.Struct, frozen=True):
    """A tenant, or one of its keys: ``token`` (None for the whole tenant) and what it is computed from."""

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
        raise BadKey(f"{digits[:40]!r} is not a 32-bit token")
    return Asked(tenant, int(digits), "as given")


def explain_replicas(
    text: str, s: ReplicatedScenario, p: RingParameters, context: Context
) -> tuple[list[Step], pl.DataFrame]:
    """Explain where the shard of the tenant in ``text`` is, and the replicas of its key. Returns the steps in order, and table
    ``sizes``. Raises BadKey."""
    asked = parse_asked(text, replicated_ring(s.live).without_le)
    return _asked_steps(asked, s, p), _sizes_table(asked, s, p, context)


def _asked_steps(asked: Asked, s: ReplicatedScenario, p: RingParameters) -> list[Step]:
    """Explain where the tenant's shard is, and the replicas of its key, in the scenario."""
    after, strategy = s.after, replicated_ring(s.live)
    ring = after.ring
    steps: list[Step] = []
    number, size = _sized(asked, s, after, p)
    what = f"shard size {size}" if size else "no shard: the whole ring"
    steps.append(("tenant", asked.tenant, what, "known" if number is not None else "in no file: default size"))
    if after.partitions is not None:
        return steps + _partition_steps(asked, s, size)
    drawn = ShardRing(ring.tokens, strategy.now_s)
    lookback_s = strategy.lookback_s
    chosen = drawn.shard(asked.tenant, size)
    reads = drawn.everyone if lookback_s is None else drawn.shard(asked.tenant, size, lookback_s)
    if size:
        for zone in ring.tokens.zones if strategy.settings.zone_aware else ("",):
            note = f"seed of the draws in {zone or 'the ring'}"
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
    if number is not None:
        lost, reads_ok = after.lost_share[after.rows.shard_of[number]], after.reads_ok[after.rows.read_of[number]]
        steps += [
            ("outcome", "writes", f"{lost:.2%} lost", "share of the tenant's key space without quorum"),
            ("outcome", "queries", "succeed" if reads_ok else "fail", "whether enough zones or members answer"),
        ]
    return steps


def _sized(
    asked: Asked, s: ReplicatedScenario, placement: ReplicatedPlacement, p: RingParameters
) -> tuple[int | None, int]:
    """Return the tenant's number, None if no file names it, and the size of its shard."""
    if asked.tenant in placement.tenants.names:
        number = placement.tenants.names.index(asked.tenant)
        return number, int(placement.tenants.sizes[number])
    strategy = replicated_ring(s.live)
    default = strategy.tenant_shards if placement.partitions is None else strategy.partition_shards
    return None, default if p.tenant_shards is None else p.tenant_shards


def _replica_steps(asked: Asked, s: ReplicatedScenario, chosen: np.ndarray) -> list[Step]:
    """List the replicas of the key in walk order, and its quorum."""
    after, strategy = s.after, replicated_ring(s.live)
    assert asked.token is not None
    steps: list[Step] = [("key", "token", str(asked.token), asked.basis)]
    subring = after.ring.tokens.subring(chosen)
    if not len(subring.tokens):
        return [*steps, ("ring", "tokens", "0", "empty ring: the write fails")]
    at = first_above(subring.tokens, np.array([asked.token]))
    sets = replica_sets(subring, strategy.writing, at)
    above = f"the first of {plural(len(subring.tokens), 'token')} above the key"
    steps.append(("ring", "first token", str(int(subring.tokens[at[0]])), above))
    alive = 0
    for k in (int(chosen[local]) for local in sets.members[0].tolist() if local >= 0):
        m, takes = after.ring.members[k], bool(after.alive[k])
        alive += takes
        idle = "down in the scenario" if after.failed[k] else f"{m.state}: takes no write"
        steps.append(("replica", m.id, m.zone or "-", "takes the write" if takes else idle))
    needed = int(sets.needed[0])
    come = f"{needed} answers needed, {alive} can come"
    if alive < needed:
        return [*steps, ("quorum", "write", "fails", come)]
    return [*steps, ("quorum", "write", "succeeds", f"{come}, {alive - needed} more may fail")]


def _partition_steps(asked: Asked, s: ReplicatedScenario, size: int) -> list[Step]:
    """List the tenant's partitions with owners, and the partition of its key."""
    after, strategy = s.after, replicated_ring(s.live)
    ring = after.partitions
    assert ring is not None
    steps: list[Step] = []
    chosen = ring.shard(asked.tenant, size, 0, strategy.now_s)
    readers, lookback_s = after.partition_readers, strategy.lookback_s
    read = ring.shard(asked.tenant, size if lookback_s is not None else 0, lookback_s or 0, strategy.now_s)
    for k in read[:MAX_LISTED].tolist():
        p = ring.partitions[k]
        written = "written and read" if k in chosen else "read only (lookback)"
        fate = f"{readers[k]} of its owners answer" if readers[k] else "no owner answers: the query fails"
        steps.append(("partition", str(p.id), ", ".join(p.owners), f"{written}; {fate}"))
    if asked.token is not None:
        steps.append(("key", "token", str(asked.token), asked.basis))
        active = ring.active_partitions(chosen)
        at = int(active[first_above(ring.tokens, np.array([asked.token]))[0]]) if len(active) else -1
        what = f"partition {ring.partitions[at].id}" if at >= 0 else "none"
        steps.append(
            ("place", "partition", what, "the first Active one from the key on" if at >= 0 else "no Active partition")
        )
    return steps


def _sizes_table(asked: Asked, s: ReplicatedScenario, p: RingParameters, context: Context) -> pl.DataFrame:
    """Build table ``sizes``: the tenant's shard at each size on the planned ring, and what its worst pair loses."""
    planned, strategy = s.planned, replicated_ring(s.live)
    ring = planned.ring.tokens
    if planned.partitions is not None or not len(ring.tokens):
        return tables.SIZES.empty()
    configured = _sized(asked, s, planned, p)[1]
    step = max(len(ring.zones), 1) if strategy.settings.zone_aware else 1
    largest = len(ring.instances)
    sizes = [*range(step, largest + 1, step)]
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
        spare = (sets.members >= 0).sum(axis=1) - sets.needed
        lost, pair = _worst_pair(PairSums(sets.members, spare, subring.lengths / SPACE, healthy), len(chosen))
        owned = subring.ownership
        spread = float(owned.max() / owned.mean()) if len(owned) and owned.mean() > 0 else 1.0
        rows.append(
            (size, len(chosen), lost, [subring.ids[k] for k in pair], spread, lost <= p.safe_loss, size == configured)
        )
    return tables.SIZES.frame(columns_of(tables.SIZES, rows))


def _worst_pair(sums: PairSums, count: int) -> tuple[float, list[int]]:
    """Return the largest share of keys that two of ``count`` members lose together, and these two."""
    if count < 2:
        return float(sums.single.sum()), list(range(count))
    lost = sums.matrix()
    np.fill_diagonal(lost, -1.0)
    worst = int(lost.argmax())
    return max(float(lost.ravel()[worst]), 0.0), sorted((worst // count, worst % count))
