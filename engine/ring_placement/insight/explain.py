"""One key, step by step: hashes, policy, ranges, shard, and every candidate with what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from engine.ring_placement.pyroscope.hashing import fingerprint, hex16, parse_hash, xxh64
from engine.ring_placement.pyroscope.keys import FINGERPRINT, SPREAD, Keys
from engine.ring_placement.pyroscope.limits import Limits, Policy, Rule, policy
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import TRIES, candidate_positions

UNKNOWN_SERVICE = "unknown_service"
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')


class BadKey(ValueError):
    """A key that cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key to explain: ``print`` is its fingerprint, None where none was given."""

    tenant: str
    dataset: str
    labels: tuple[tuple[str, str], ...] = ()
    print: int | None = None


def parse_key(text: str) -> Key:
    """``TENANT/DATASET``, ``TENANT/DATASET@FINGERPRINT`` or ``TENANT{name="value",…}``.

    A label set is completed and sorted by name as the distributor does before it hashes. Raises BadKey.
    """
    if "{" in text and text.rstrip().endswith("}"):
        tenant, inside = text.rstrip()[:-1].split("{", 1)
        labels: list[tuple[str, str]] = []
        at = 0
        while at < len(inside.rstrip()):
            found = _LABEL.match(inside, at)
            if found is None:
                raise BadKey(f'label set: expected name="value" at {inside[at : at + 20]!r}')
            labels.append((found[1], re.sub(r"\\(.)", r"\1", found[2])))
            at = found.end()
        if not any(name == "service_name" for name, _ in labels):
            labels.append(("service_name", UNKNOWN_SERVICE))
        labels.sort(key=lambda pair: pair[0].encode())
        dataset = next(value for name, value in labels if name == "service_name")
        return Key(tenant.strip().rstrip("/"), dataset, tuple(labels), fingerprint(labels))
    tenant, slash, rest = text.partition("/")
    if not slash:
        return Key(text.strip(), "")
    dataset, sign, digits = rest.rpartition("@")
    if sign and (value := parse_hash(digits)) is not None:
        return Key(tenant, dataset, (), value)
    return Key(tenant, rest)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One distinct instance in walk order. ``attempt``: its number among the tries, 0 if it is not tried; ``level``:
    dataset, tenant or ring; ``fate``: what becomes of it in the scenario."""

    instance: str
    state: str
    zone: str
    shard: int
    level: str
    attempt: int
    fate: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole way of one key. ``steps``: (what, name, value, note) in order; ``targets``: regime letter, shard ID,
    instance ("" where it is rejected) and a note."""

    key: Key
    policy: Policy
    steps: tuple[tuple[str, str, str, str], ...]
    candidates: tuple[Candidate, ...]
    targets: tuple[tuple[str, int, str, str], ...]
    shard: int
    owner: str


def one_key(key: Key, chosen: Policy, limit: int) -> Keys:
    """Keys that hold just this one, with weight 1."""
    one = np.ones(1, dtype=np.int64)
    known = key.print is not None
    return Keys(
        (key.tenant,),
        np.zeros(1, dtype=np.int32),
        np.array([xxh64(key.tenant)], dtype=np.uint64),
        np.array([xxh64(key.dataset)], dtype=np.uint64),
        one * chosen.tenant_limit,
        one * chosen.dataset_limit,
        np.zeros(1, dtype=bool),
        np.zeros(1, dtype=np.int32),
        np.array([FINGERPRINT if known else SPREAD], dtype=np.uint8),
        np.array([key.print or 0], dtype=np.uint64),
        one,
        limit=limit,
    )


def _tried(tries: int) -> str:
    return f"after {tries} {'try' if tries == 1 else 'tries'}"


def explain(
    key: Key,
    ring: Ring,
    down: frozenset[str],
    rules: dict[tuple[str, str], Rule],
    overrides: dict[str, Limits],
    default: Limits,
    tenant_limit: int | None = None,
    dataset_limit: int | None = None,
) -> Explanation:
    """Explain ``key`` on ``ring`` with ``down`` failing. The limits given replace the configured ones (what-if)."""
    chosen = policy(key.tenant, key.dataset, rules, overrides, default)
    if tenant_limit is not None or dataset_limit is not None:
        chosen = replace(
            chosen,
            tenant_limit=chosen.tenant_limit if tenant_limit is None else tenant_limit,
            dataset_limit=chosen.dataset_limit if dataset_limit is None else dataset_limit,
            source="what-if",
        )
    keys = one_key(key, chosen, max(64, ring.total))
    total = ring.total
    steps: list[tuple[str, str, str, str]] = [
        ("hash", "tenant", hex16(int(keys.tenant_hash[0])), f"XXH64 of {key.tenant!r}"),
        ("hash", "dataset", hex16(int(keys.name_hash[0])), f"XXH64 of {key.dataset!r}"),
    ]
    if key.labels:
        shown = ", ".join(f'{n}="{v}"' for n, v in key.labels)
        steps.append(("hash", "labels", shown, "service_name added if missing, sorted by name"))
    if key.print is not None:
        steps.append(("hash", "fingerprint", hex16(key.print), "picks the shard within the dataset's range"))
    mode = "random shard per request" if chosen.spread else "shard by fingerprint"
    limits = f"tenant_shards {chosen.tenant_limit or 'unlimited'}, dataset_shards {chosen.dataset_limit}"
    steps.append(("policy", chosen.source, limits, mode))
    if total <= 0:
        reason = (
            "empty ring: upstream answers UNAVAILABLE" if not ring.members else "the healthy members have no tokens"
        )
        steps.append(("ring", "shards", "0", reason))
        return Explanation(key, chosen, tuple(steps), (), (("A", 0, "", reason),), 0, "")
    ranges = keys.ranges(total)
    a, ts = int(ranges.a[0]), int(ranges.tenant_size[0])
    c, ds = int(ranges.c[0]), int(ranges.dataset_size[0])
    steps.append(("ring", "shards", str(total), f"one per token of {len(ring.members)} healthy members"))
    steps.append(("range", "tenant", _span(a, ts, total), f"{ts} of {total} shards from jump(tenant, {total}) = {a}"))
    in_tenant = [((c - a + k) % ts + a) % total + 1 for k in range(min(ds, 12))]
    listed = " ".join(map(str, in_tenant)) + (" …" if ds > 12 else "")
    steps.append(("range", "dataset", listed, f"{ds} shards from place {c - a} of the tenant's, wrapping inside it"))
    offset = 0
    if key.print is not None and not chosen.spread:
        offset = key.print % ds
        steps.append(("pick", "offset", str(offset), f"fingerprint mod {ds}"))
    elif ds > 1:
        steps.append(("pick", "offset", "0", f"any of {ds}, each with the same share; the first one is followed here"))
    order = candidate_positions(total, a, a + ts, c, c + ds, offset)
    shard = order[0] + 1
    owner = ring.members[ring.owner[order[0]]]
    steps.append(("place", "shard", str(shard), "position + 1; stays on the request whoever stores it"))
    steps.append(("place", "owner", owner.id, f"state {owner.state}"))
    tenant_rest = ts - ds if ts - ds >= 2 else 0
    if ts - ds == 1:
        steps.append(("quirk", "tenant", "skipped", "a range with exactly one shard left is not tried"))
    if total - ts == 1:
        steps.append(("quirk", "ring", "skipped", "a range with exactly one shard left is not tried"))
    candidates, taker, tries = _walk(ring, order, ds, tenant_rest, down)
    for found in candidates:
        number = f"try {found.attempt}" if found.attempt else "not tried"
        note = f"{found.state}, zone {found.zone or '-'}, {found.level} range, shard {found.shard}: {found.fate}"
        steps.append(("candidate", found.instance, number, note))
    targets = [("A", shard, taker, _tried(tries) if taker else f"rejected {_tried(tries)}")]
    if down:
        after = ring.without(down)
        if after.total:
            moved = keys.ranges(after.total)
            pick = np.array([_offset(key, chosen, int(moved.dataset_size[0]))])
            position = int(moved.positions(np.zeros(1, dtype=np.int64), pick)[0])
            first = _storing(after, keys, key, chosen)
            note = "same shard ID" if position + 1 == shard else f"shard ID changes from {shard}"
            targets.append(("B", position + 1, first, note))
        else:
            targets.append(("B", 0, "", "empty ring: rejected"))
        targets.append(("C", shard, _first_active(ring, order), "exactly as before the failure"))
    for regime, at, instance, note in targets:
        steps.append(("regime", regime, f"{instance or 'rejected'} (shard {at})", note))
    return Explanation(key, chosen, tuple(steps), tuple(candidates), tuple(targets), shard, owner.id)


def _offset(key: Key, chosen: Policy, size: int) -> int:
    return key.print % int(size) if key.print is not None and not chosen.spread else 0


def _storing(ring: Ring, keys: Keys, key: Key, chosen: Policy) -> str:
    """The first ACTIVE instance of the key's walk on ``ring``, or "" where there is none."""
    ranges = keys.ranges(ring.total)
    a, ts = int(ranges.a[0]), int(ranges.tenant_size[0])
    c, ds = int(ranges.c[0]), int(ranges.dataset_size[0])
    return _first_active(ring, candidate_positions(ring.total, a, a + ts, c, c + ds, _offset(key, chosen, ds)))


def _first_active(ring: Ring, order: list[int]) -> str:
    return next((ring.ids[ring.owner[p]] for p in order if ring.active[ring.owner[p]]), "")


def _walk(
    ring: Ring, order: list[int], ds: int, tenant_rest: int, down: frozenset[str]
) -> tuple[list[Candidate], str, int]:
    seen: set[int] = set()
    out: list[Candidate] = []
    tries, taker = 0, ""
    for place_in_walk, position in enumerate(order):
        node = int(ring.owner[position])
        if node in seen:
            continue
        seen.add(node)
        member = ring.members[node]
        level = "dataset" if place_in_walk < ds else "tenant" if place_in_walk < ds + tenant_rest else "ring"
        attempt = 0
        if member.state != "ACTIVE":
            fate = f"skipped: {member.state} members receive nothing"
        elif taker:
            fate = "not needed"
        elif tries >= TRIES:
            fate = f"not tried: a client tries {TRIES} distinct instances"
        else:
            tries += 1
            attempt = tries
            if member.id in down:
                fate = "down: the request fails"
            else:
                fate, taker = "stores the data", member.id
        out.append(Candidate(member.id, member.state, member.zone, position + 1, level, attempt, fate))
        if len(out) >= 64:
            break
    return out, taker, tries


def _span(start: int, size: int, total: int) -> str:
    end = (start + size - 1) % total
    return f"{start + 1}..{end + 1}" + (" (wrapping)" if start + size > total else "")
