"""One key, step by step: hashes, limits, ranges, shard, and every candidate with what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from engine.ring_placement.pyroscope.hashing import hex16, jump, parse_hash, series_fingerprint, xxh64
from engine.ring_placement.pyroscope.limits import Policy
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import TRIES, candidate_positions, subrings

UNKNOWN_SERVICE = "unknown_service"
"""Value of the label ``service_name`` that the distributor adds where there is none."""
MAX_CANDIDATES = 64
"""Most candidates listed of one key."""
Step = tuple[str, str, str, str]
"""One row of the table ``explain``: what, name, value, note."""
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')


class BadKey(ValueError):
    """Raised for a text that is no key; the message says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key to explain; ``fingerprint`` is None where none was given."""

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


@dataclass(frozen=True, slots=True)
class _Walk:
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
        start = jump(tenant, ring.total)
        ranges = subrings(start, dataset, one * policy.tenant_limit, one * policy.dataset_limit, ring.total)
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


def explain(key: Key, ring: Ring, down: frozenset[str], policy: Policy) -> list[Step]:
    """Explain where ``key`` goes on ``ring`` under ``policy``, with the members ``down`` failing. Returns the steps in order."""
    steps = _hash_steps(key, policy)
    if ring.total <= 0:
        empty = not ring.members
        reason = "empty ring: Pyroscope answers UNAVAILABLE" if empty else "the healthy members have no tokens"
        return [*steps, ("ring", "shards", "0", reason)]
    walk = _Walk.of(ring, key, policy)
    steps += _range_steps(key, ring, walk, policy)
    candidates, taker, tries = _candidate_steps(ring, walk, down)
    steps += candidates
    shard = walk.order[0] + 1
    attempts = f"after {tries} {'try' if tries == 1 else 'tries'}"
    steps.append(_regime_step("A", taker, shard, attempts if taker else f"rejected {attempts}"))
    if down:
        steps.append(_step_without(ring.without(down), key, policy, shard))
        steps.append(_regime_step("C", _first_active(ring, walk.order), shard, "exactly as before the failure"))
    return steps


def _hash_steps(key: Key, policy: Policy) -> list[Step]:
    """List the hashes of the key, and the limits in force."""
    steps: list[Step] = [
        ("hash", "tenant", hex16(xxh64(key.tenant)), f"XXH64 of {key.tenant!r}"),
        ("hash", "dataset", hex16(xxh64(key.dataset)), f"XXH64 of {key.dataset!r}"),
    ]
    if key.labels:
        labels = ", ".join(f'{name}="{value}"' for name, value in key.labels)
        steps.append(("hash", "labels", labels, "service_name added if missing, sorted by name"))
    if key.fingerprint is not None:
        steps.append(("hash", "fingerprint", hex16(key.fingerprint), "picks the shard within the dataset's range"))
    strategy = "random shard per request" if policy.round_robin else "shard by fingerprint"
    limits = f"tenant_shards {policy.tenant_limit or 'unlimited'}, dataset_shards {policy.dataset_limit}"
    return [*steps, ("policy", policy.source, limits, strategy)]


def _range_steps(key: Key, ring: Ring, walk: _Walk, policy: Policy) -> list[Step]:
    """List the ranges of the key, its offset, and the shard and owner it is placed at."""
    total, a, ts, c, ds = walk.total, walk.a, walk.tenant_size, walk.c, walk.dataset_size
    shards = [((c - a + k) % ts + a) % total + 1 for k in range(min(ds, 12))]
    listed = " ".join(map(str, shards)) + (" …" if ds > 12 else "")
    steps: list[Step] = [
        ("ring", "shards", str(total), f"one per token of {len(ring.members)} healthy members"),
        ("range", "tenant", _span(a, ts, total), f"{ts} of {total} shards from jump(tenant, {total}) = {a}"),
        ("range", "dataset", listed, f"{ds} shards from place {c - a} of the tenant's, wrapping inside it"),
    ]
    if key.fingerprint is not None and not policy.round_robin:
        steps.append(("pick", "offset", str(walk.offset), f"fingerprint mod {ds}"))
    elif ds > 1:
        steps.append(("pick", "offset", "0", f"any of {ds}, each with the same share; the first one is followed here"))
    owner = ring.members[ring.owner[walk.order[0]]]
    steps += [
        ("place", "shard", str(walk.order[0] + 1), "position + 1; stays on the request whoever stores it"),
        ("place", "owner", owner.id, f"state {owner.state}"),
    ]
    for name, rest in (("tenant", ts - ds), ("ring", total - ts)):
        if rest == 1:
            steps.append(("quirk", name, "skipped", "a range with exactly one shard left is not tried"))
    return steps


def _regime_step(letter: str, instance: str, shard: int, note: str) -> Step:
    """Describe where the key goes in one regime; ``instance`` is "" where it is rejected."""
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
    """Return the first ACTIVE instance of a walk, or "" where there is none."""
    return next((ring.ids[ring.owner[p]] for p in order if ring.active[ring.owner[p]]), "")


def _candidate_steps(ring: Ring, walk: _Walk, down: frozenset[str]) -> tuple[list[Step], str, int]:
    """List the distinct instances of a walk with what becomes of each.

    Returns them, the instance that stores the data ("" if none does), and the tries made.
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
    """Format a range of shard IDs."""
    end = (start + size - 1) % total
    return f"{start + 1}..{end + 1}" + (" (wrapping)" if start + size > total else "")
