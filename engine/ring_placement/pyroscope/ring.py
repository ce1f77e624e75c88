"""The ring as the segment-writer distributor sees it: members, owners of shards, hashes of keys, subrings and candidates.

See ``docs/models/ring-placement.md``, "Subrings" and "Candidates". Symbols of subrings are Pyroscope's: a tenant owns positions
[a, b), a dataset [c, d) wrapped inside the tenant's range, both wrapped inside the ring of ``total`` shards. Positions are
0-based; a shard ID is the position plus one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
import polars as pl
import xxhash

from engine.ring_placement.pyroscope.prng import permutation

_FACTOR = np.uint64(2862933555777941757)  # multiplier of the jump hash's linear congruential generator
_BLOCK = 32768  # keys hashed at a time


def xxh64(text: str) -> int:
    """Hash the UTF-8 bytes of ``text`` with XXH64, seed 0. Returns an unsigned 64-bit number."""
    return xxhash.xxh64_intdigest(text.encode("utf-8", "surrogatepass"))


def xxh64_each(texts: Iterable[str]) -> np.ndarray:
    """Hash each text as ``xxh64`` does. Returns uint64."""
    return np.array([xxhash.xxh64_intdigest(t.encode("utf-8", "surrogatepass")) for t in texts], dtype=np.uint64)


def xxh64_column(texts: pl.Series) -> np.ndarray:
    """Hash each text of a column without nulls as ``xxh64`` does, from the column's own bytes. Returns uint64."""
    raw = texts.cast(pl.Binary).to_list()
    return np.fromiter(map(xxhash.xxh64_intdigest, raw), dtype=np.uint64, count=len(raw))


def series_fingerprint(labels: Sequence[tuple[str, str]]) -> int:
    """Compute a series fingerprint: XXH64 over name, 0xFF, value, 0xFF of all ``labels`` in the order given (not sorted)."""
    state = xxhash.xxh64()
    for name, value in labels:
        state.update(name.encode("utf-8", "surrogatepass") + b"\xff" + value.encode("utf-8", "surrogatepass") + b"\xff")
    return int(state.intdigest())


def hex16(value: int) -> str:
    """Format a 64-bit hash as 16 hex digits."""
    return f"{value & (2**64 - 1):016x}"


def parse_hash(text: str) -> int | None:
    """Parse a 64-bit hash of up to 16 hex digits, with or without ``0x``. Returns None for other texts."""
    digits = text.strip().lower().removeprefix("0x")
    if not 1 <= len(digits) <= 16 or any(d not in "0123456789abcdef" for d in digits):
        return None
    return int(digits, 16)


def jump(keys: np.ndarray, buckets: np.ndarray | int) -> np.ndarray:
    """Choose a bucket for each of ``keys`` (uint64) out of ``buckets`` (one number, or one per key) by the jump consistent
    hash (Lamping and Veach 2014).

    Returns int64 buckets; -1 without buckets. Works in blocks that stay in the processor's cache and
    drops finished keys after every round.
    """
    out = np.full(len(keys), -1, dtype=np.int64)
    counts = np.broadcast_to(np.asarray(buckets, dtype=np.int64), (len(keys),))
    for start in range(0, len(keys), _BLOCK):
        where = np.flatnonzero(counts[start : start + _BLOCK] > 0) + start
        state, limit = keys[where].astype(np.uint64), counts[where]
        bucket = np.zeros(len(where), dtype=np.int64)
        while len(where):
            out[where] = bucket
            state = state * _FACTOR + np.uint64(1)
            scale = 2147483648.0 / ((state >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
            bucket = ((bucket + 1).astype(np.float64) * scale).astype(np.int64)
            going = np.flatnonzero(bucket < limit)
            where, state, limit, bucket = where[going], state[going], limit[going], bucket[going]
    return out


PLACED_STATES = ("ACTIVE", "LEAVING", "PENDING", "JOINING")
"""States whose tokens count in the layout of shards. Only ACTIVE members receive data."""

KNOWN_STATES = (*PLACED_STATES, "LEFT", "UNHEALTHY")  # all states a ring file may show

NUM_TOKENS = 4  # Pyroscope's default number of tokens of a segment writer


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One ring member. ``state`` as shown (UNHEALTHY once its heartbeat is too old), ``tokens`` their number,
    ``heartbeat_s`` and ``registered_s`` in epoch seconds (None where the file says nothing). ``values``: the tokens
    themselves, sorted (int64; None where the file gives their number only), ``read_only_s`` and the state
    ``written`` in the file where the heartbeat hides it, ``owned``: the share of keys that its page prints (None in other
    files): these matter to token rings only."""

    id: str
    state: str = "ACTIVE"
    zone: str = ""
    tokens: int = NUM_TOKENS
    address: str = ""
    heartbeat_s: int | None = None
    registered_s: int | None = None
    read_only: bool = False
    read_only_s: int = 0
    written: str = ""
    values: np.ndarray | None = dataclasses.field(default=None, compare=False, repr=False)
    owned: float | None = None

    @property
    def placed(self) -> bool:
        """Whether the member's tokens take part in the layout of shards."""
        return self.state in PLACED_STATES

    @property
    def out(self) -> bool:
        """Whether it is registered but takes no data: neither ACTIVE nor a tombstone (LEFT)."""
        return self.state not in ("ACTIVE", "LEFT")

    @property
    def is_tombstone(self) -> bool:
        """Whether it has left, so that its ID is free. A minute later its heartbeat makes it UNHEALTHY."""
        return "LEFT" in (self.state, self.written)

    def at(self, now_ns: int, timeout_s: float) -> Member:
        """Return the member as seen at ``now_ns``: UNHEALTHY if its heartbeat is more than ``timeout_s`` old.

        Without a heartbeat the state of the file stands; a timeout of 0 switches the rule off.
        """
        if self.heartbeat_s is None or timeout_s <= 0 or self.state not in KNOWN_STATES:
            return self
        if now_ns - self.heartbeat_s * 1_000_000_000 > timeout_s * 1_000_000_000:
            return dataclasses.replace(self, state="UNHEALTHY", written=self.state)
        return self


def in_byte_order(members: Iterable[Member]) -> list[Member]:
    """Sort members by the bytes of their IDs, as the ring does: code points sort as their UTF-8 bytes do."""
    return sorted(members, key=lambda m: m.id)


class Listed(msgspec.Struct, frozen=True, eq=False, dict=True):
    """``members`` in byte order of their IDs."""

    members: tuple[Member, ...]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """IDs in ring order."""
        return tuple(m.id for m in self.members)

    def names(self, index: np.ndarray) -> pl.Series:
        """Return the IDs of the members at ``index``, null where it is negative."""
        at = np.where(index < 0, len(self.members), index).astype(np.uint32)
        return pl.Series([*self.ids, None], dtype=pl.String).gather(pl.Series(at))


class Ring(Listed, frozen=True, eq=False, dict=True):
    """The layout: healthy members in byte order of their IDs, and which of them owns each shard.

    ``owner``: index into ``members`` of each shard position (int32, S entries); the shard ID is the position plus one.
    See ``docs/models/ring-placement.md``, "From ring to shards".
    """

    owner: np.ndarray

    @classmethod
    def of(cls, members: Iterable[Member]) -> Ring:
        """Lay out the ring of the ``members`` that are placed. It may be empty; S is 0 without tokens."""
        placed = [m for m in in_byte_order(members) if m.placed]
        owner_of_token = np.repeat(
            np.arange(len(placed), dtype=np.int32), np.array([m.tokens for m in placed], dtype=np.int64)
        )
        return cls(tuple(placed), owner_of_token[permutation(len(owner_of_token))])

    @property
    def total(self) -> int:
        """S, the number of shards."""
        return len(self.owner)

    @cached_property
    def active(self) -> np.ndarray:
        """Per member, whether it may receive data (bool)."""
        return np.array([m.state == "ACTIVE" for m in self.members], dtype=bool)

    def without(self, gone: frozenset[str]) -> Ring:
        """Lay out the ring without the members ``gone``."""
        return Ring.of(m for m in self.members if m.id not in gone)


TRIES = 6  # most distinct instances that a client tries for one request
LONGEST_WALK = 256
"""Most positions of a key that are visited one by one. A walk past a member with nearly all shards may be as long as the ring:
beyond, each member's next shard is looked up."""
_CELLS = 1 << 20  # keys times members looked up at a time: bounds the memory


class Subrings(msgspec.Struct, frozen=True, eq=False):
    """Ranges of many datasets on a ring of ``total`` shards; all arrays int64, one entry per dataset.

    ``a``: start of the tenant's range, ``tenant_size`` its length, ``c``: start of the dataset's range (not wrapped),
    ``dataset_size`` its length.
    """

    total: int
    a: np.ndarray
    tenant_size: np.ndarray
    c: np.ndarray
    dataset_size: np.ndarray

    def positions(self, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the shard position of each (dataset index, offset within the dataset's range)."""
        a = self.a[rows]
        return ((self.c[rows] + offsets - a) % self.tenant_size[rows] + a) % max(self.total, 1)

    def offsets_of(self, rows: np.ndarray, shards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Invert ``positions``: the offset of each shard ID within its dataset's range, and whether it lies in it (bool)."""
        in_tenant = (shards - 1 - self.a[rows]) % self.total
        offset = (in_tenant - (self.c[rows] - self.a[rows])) % np.maximum(self.tenant_size[rows], 1)
        exists = (shards >= 1) & (shards <= self.total)
        return offset, exists & (in_tenant < self.tenant_size[rows]) & (offset < self.dataset_size[rows])


def subrings(
    a: np.ndarray, dataset_hash: np.ndarray, tenant_limit: np.ndarray, dataset_limit: np.ndarray, total: int
) -> Subrings:
    """Lay out the ranges of datasets on a ring of ``total`` shards.

    ``a``: start of each dataset's tenant range, ``jump(tenant hash, total)``; ``dataset_hash`` (uint64); limits int64, tenant
    limit 0 = none. The dataset's offset is a jump over the *tenant's* size even when its own range is longer than one shard.
    """
    tenant_size = np.where((tenant_limit <= 0) | (tenant_limit > total), total, tenant_limit).astype(np.int64)
    dataset_size = np.minimum(tenant_size, np.maximum(1, dataset_limit)).astype(np.int64)
    return Subrings(total, a, tenant_size, a + jump(dataset_hash, tenant_size), dataset_size)


def levels(total: int, tenant_size: np.ndarray, dataset_size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the candidates that the rest of the tenant's range and the rest of the ring add, per dataset.

    A level with exactly one position left is skipped, as in Pyroscope.
    """
    rest_of_tenant = tenant_size - dataset_size
    rest_of_ring = total - tenant_size
    return np.where(rest_of_tenant >= 2, rest_of_tenant, 0), np.where(rest_of_ring >= 2, rest_of_ring, 0)


def candidate_positions(total: int, a: int, b: int, c: int, d: int, offset: int) -> list[int]:
    """List all shard positions of one key in the order in which they are tried.

    ``a``, ``b``: the tenant's range, ``c``, ``d``: the dataset's, ``offset`` of the key within it. A level with exactly one
    position left is skipped.
    """
    tenant_size, dataset_size = b - a, d - c
    if min(total, tenant_size, dataset_size) <= 0:
        return []
    order = [((c + (offset + k) % dataset_size - a) % tenant_size + a) % total for k in range(dataset_size)]
    if tenant_size - dataset_size >= 2:
        order += [((d - a + k) % tenant_size + a) % total for k in range(tenant_size - dataset_size)]
    if total - tenant_size >= 2:
        order += [(b + k) % total for k in range(total - tenant_size)]
    return order


def first_distinct(
    ranges: Subrings, rows: np.ndarray, offsets: np.ndarray, owner: np.ndarray, usable: np.ndarray, depth: int = TRIES
) -> np.ndarray:
    """Find the first ``depth`` distinct usable instances of each (dataset index, offset), in walk order.

    ``owner``: instance index of each shard position; ``usable``: per instance, whether it may receive data (state
    ACTIVE). Returns int32 of shape (len(rows), depth), -1 where the list ends earlier.
    """
    out = np.full((len(rows), depth), -1, dtype=np.int32)
    total = ranges.total
    if total <= 0 or not len(rows):
        return out
    reachable = len(np.unique(owner[usable[owner]])) if len(owner) else 0
    if reachable == 0:
        return out
    depth_here = min(depth, reachable)
    here = np.arange(len(rows))
    a, ts = ranges.a[rows], ranges.tenant_size[rows]
    c, ds = ranges.c[rows] - a, ranges.dataset_size[rows]
    more_tenant, more_ring = levels(total, ts, ds)
    length = ds + more_tenant + more_ring
    off = offsets.astype(np.int64)
    # Everything below in int32: positions stay below 2 * total, and half the memory is half the time.
    small: list[np.ndarray] = [x.astype(np.int32) for x in (a, ts, c % ts, ds, off, more_tenant, length)]
    a, ts, c, ds, off, more_tenant, length = small
    filled = np.zeros(len(rows), dtype=np.int32)
    step = 0
    k: np.ndarray
    position: np.ndarray
    everyone = bool(usable.all())
    owner32 = owner.astype(np.int32)
    while len(here):
        inside = off + step
        if step == 0:
            k = c + off
            k -= np.where(k >= ts, ts, 0)
            position = k + a
        else:
            in_dataset = step < ds
            k = np.where(in_dataset, c + np.where(inside >= ds, inside - ds, inside), c + step)
            # c < ts and the added part < ts, so one subtraction wraps.
            k -= np.where(k >= ts, ts, 0)
            position = k + a
            np.copyto(position, a + ts + (step - ds - more_tenant), where=(step - ds >= more_tenant) & ~in_dataset)
        position -= np.where(position >= total, total, 0)
        position -= np.where(position >= total, total, 0)
        node = owner32[position]
        fresh = np.ones(len(here), dtype=bool) if everyone else usable[node]
        for column in range(min(step, depth_here)):
            fresh &= out[here, column] != node
        take = np.flatnonzero(fresh)
        out[here[take], filled[take]] = node[take]
        filled[take] += 1
        step += 1
        keep = np.flatnonzero((filled < depth_here) & (step < length))
        if step == LONGEST_WALK and len(keep):
            left = here[keep]
            out[left] = _by_member(ranges, rows[left], offsets[left].astype(np.int64), owner, usable, depth)
            break
        if len(keep) < len(here):
            here, a, ts, c, ds, off = here[keep], a[keep], ts[keep], c[keep], ds[keep], off[keep]
            more_tenant, length, filled = more_tenant[keep], length[keep], filled[keep]
    return out


def _by_member(
    ranges: Subrings, rows: np.ndarray, offsets: np.ndarray, owner: np.ndarray, usable: np.ndarray, depth: int
) -> np.ndarray:
    """Find what ``first_distinct`` does by looking up where each member is met first, whatever lies between.

    Time grows with keys times members, not with the shards.
    """
    counts = np.bincount(owner, minlength=len(usable))
    of_member = np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
    members = np.flatnonzero(usable & (counts > 0))
    out = np.full((len(rows), depth), -1, dtype=np.int32)
    chunk = max(1, _CELLS // max(1, len(members)))
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        spans = _spans(ranges, rows[part], offsets[part])
        met = np.stack([_first_met(of_member[member], spans, ranges.total) for member in members], axis=1)
        nearest = np.argsort(met, axis=1)[:, :depth]
        found = np.take_along_axis(met, nearest, axis=1) < _NEVER
        out[part, : nearest.shape[1]] = np.where(found, members[nearest], -1)
    return out


_NEVER = np.iinfo(np.int64).max


def _spans(ranges: Subrings, rows: np.ndarray, offsets: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut the walk of each key into runs of positions, (start, length) in walk order, on a ring laid out twice in a row."""
    a, tenant, dataset = ranges.a[rows], ranges.tenant_size[rows], ranges.dataset_size[rows]
    c = ranges.c[rows] - a
    more_tenant, more_ring = levels(ranges.total, tenant, dataset)
    spans = []
    for start, length in ((c + offsets, dataset - offsets), (c, offsets), (c + dataset, more_tenant)):
        start = start % tenant
        unwrapped = np.minimum(length, tenant - start)
        spans += [(a + start, unwrapped), (a, length - unwrapped)]
    return [*spans, (a + tenant, more_ring)]


def _first_met(own: np.ndarray, spans: list[tuple[np.ndarray, np.ndarray]], total: int) -> np.ndarray:
    """Return after how many positions each walk meets one of ``own`` (ascending), ``_NEVER`` where it does not."""
    own = np.concatenate([own, own + total, [2 * total + 1]])
    met = np.full(len(spans[0][0]), _NEVER)
    walked = np.zeros(len(met), dtype=np.int64)
    for start, length in spans:
        ahead = own[np.searchsorted(own, start)] - start
        np.copyto(met, walked + ahead, where=(ahead < length) & (met == _NEVER))
        walked += length
    return met
