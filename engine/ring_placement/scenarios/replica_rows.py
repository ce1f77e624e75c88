"""Load placed on a ring with replicas: the replica sets of all tenants as one table of rows, so that any failing set is one
pass over arrays.

A tenant's shard is a ring of its own; tenants with the same members share it. A row is one replica set of one shard, with the
number of keys that have it and the load on them. See ``docs/models/dskit-rings.md``, "What a failure does".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from engine.ring_placement.dskit.replicas import PartitionRing, replica_sets
from engine.ring_placement.dskit.token_ring import SPACE, Operation, ShardRing, TokenRing, first_above, gaps
from engine.ring_placement.pyroscope.ring import Listed

_FOLDED = 60_000  # most runs of tokens of a shard up to which equal replica sets are folded to one row
_DENSE = 30_000_000  # most cells of a matrix of shards or tenants by members

Check = Callable[[], None]
Indices = np.ndarray


class Tenants(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Tenants in order of their names, with shard sizes (0: none) and loads (before replication, without that of single
    keys); ``key_tenant`` (index), ``key_token`` and ``key_weight`` of single keys, by tenant."""

    names: tuple[str, ...]
    seeds: tuple[str, ...]
    sizes: np.ndarray
    loads: np.ndarray
    key_tenant: np.ndarray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    key_token: np.ndarray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    key_weight: np.ndarray = msgspec.field(default_factory=lambda: np.empty(0, dtype=np.float64))

    @cached_property
    def total(self) -> np.ndarray:
        """Load of each tenant, single keys included."""
        return self.loads + np.bincount(self.key_tenant, self.key_weight, len(self.names))


class Rows(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Replica sets of all shards. Shard 0 is the whole ring.

    ``shards``: the members (of a partition ring: partitions) of each shard that is written to, ``shard_of`` each tenant's;
    ``reads``, ``read_of``: the same for queries. Per row: ``shard``, ``members`` (int32, -1 behind the last), ``length``
    in keys, ``needed`` answers. ``key_row``: the row of each
    single key; ``count`` of the ring's members. ``partition``: index per row, of partition rings.
    """

    shards: tuple[Indices, ...]
    shard_of: np.ndarray
    reads: tuple[Indices, ...]
    read_of: np.ndarray
    shard: np.ndarray
    members: np.ndarray
    length: np.ndarray
    needed: np.ndarray
    key_row: np.ndarray
    count: int
    partition: np.ndarray | None = None

    @cached_property
    def _columns(self) -> tuple[np.ndarray, ...]:
        """Members column by column (contiguous), with the number of members in place of -1, so that they can be counted."""
        return tuple(np.ascontiguousarray(column) for column in np.where(self.members < 0, self.count, self.members).T)

    @cached_property
    def keys_of_shard(self) -> np.ndarray:
        """Keys of each shard that have a row (float64): all of them, or 0 for a shard without tokens."""
        return np.bincount(self.shard, self.length, len(self.shards))

    def live(self, alive: np.ndarray) -> np.ndarray:
        """Count the members of each row that are ``alive`` (bool per member)."""
        flags = np.append(alive, False).astype(np.int8)
        live = np.zeros(len(self.members), dtype=np.int16)
        for column in self._columns:
            live += flags[column]
        return live

    def by_member(self, weight: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Sum ``weight`` per row by the members that are ``alive``."""
        counted = [np.bincount(column, weight, len(alive) + 1)[:-1] for column in self._columns]
        return np.where(alive, sum(counted, np.zeros(len(alive))), 0.0)

    @cached_property
    def shares(self) -> np.ndarray | None:
        """Share of each shard's keys that each member holds (shards, members); None if that is too many cells."""
        count = self.count
        if len(self.shards) * count > _DENSE:
            return None
        out = np.zeros(len(self.shards) * count)
        for column in self.members.T:
            at = np.flatnonzero(column >= 0)
            out += np.bincount(self.shard[at] * count + column[at], self.length[at], len(out))
        return out.reshape(len(self.shards), count) / SPACE


def token_rows(
    ring: TokenRing, tenants: Tenants, operation: Operation, lookback_s: int | None, now_s: int, check: Check
) -> Rows:
    """Lay out the shards of all tenants on a token ring. ``lookback_s`` None: queries ask the whole ring."""
    drawn = ShardRing(ring, now_s)
    built = _Built(tenants, drawn.shard, (drawn.everyone, drawn.everyone), lookback_s, check)
    for number, members in enumerate(built.shards):
        if number % 64 == 0:
            check()
        subring = ring.subring(members)
        # Neighbouring tokens of one instance have one set.
        begins = np.append(True, subring.owner[1:] != subring.owner[:-1])[: len(subring.tokens)]
        starts, run = np.flatnonzero(begins), np.cumsum(begins) - 1
        sets = replica_sets(subring, operation, starts)
        global_members = np.append(members, -1)[sets.members].astype(np.int32)
        length = np.bincount(run, subring.lengths, len(starts)).astype(np.int64)
        needed = sets.needed
        if 0 < len(starts) <= _FOLDED and global_members.shape[1]:
            global_members, length, needed, row_of_set = _folded(global_members, length, needed)
            run = row_of_set[run]
        built.add(number, subring.tokens, global_members, length, needed, run)
    return built.rows(len(ring.instances))


def partition_rows(
    ring: PartitionRing,
    owners: Sequence[Indices],
    count: int,
    tenants: Tenants,
    lookback_s: int | None,
    now_s: int,
    check: Check,
) -> Rows:
    """Lay out the shards of all tenants on a ring of partitions; ``owners``: the members, of ``count``, that own each
    partition. ``lookback_s`` None: queries ask all partitions."""

    def shard(seed: str, size: int, lookback_s: int = 0) -> Indices:
        return ring.shard(seed, size, lookback_s, now_s)

    whole = (np.arange(len(ring.partitions)), shard("", 0, lookback_s or 0))
    built = _Built(tenants, shard, whole, lookback_s, check)
    width = max((len(indices) for indices in owners), default=0)
    # A key without an Active partition has no owner; any owner holds all that is written to its partition.
    owned = np.full((len(owners) + 1, max(width, 1)), -1, dtype=np.int32)
    for number, indices in enumerate(owners):
        owned[number, : len(indices)] = indices
    partitions: list[np.ndarray] = []
    for number, members in enumerate(built.shards):
        found, inverse = np.unique(ring.active_partitions(members), return_inverse=True)
        length = np.bincount(inverse, gaps(ring.tokens), len(found)).astype(np.int64)
        partitions.append(found)
        built.add(number, ring.tokens, owned[found], length, np.where(found < 0, 1, 0), inverse)
    return built.rows(count, np.concatenate(partitions))


def _numbered(shards: Iterable[Indices]) -> tuple[tuple[Indices, ...], np.ndarray]:
    """Return the distinct ``shards`` in order of appearance, and the number of each one."""
    numbers: dict[bytes, int] = {}
    of = [numbers.setdefault(members.tobytes(), len(numbers)) for members in shards]
    return tuple(np.frombuffer(members, dtype=np.int64) for members in numbers), np.array(of, dtype=np.int64)


class _Built:
    """The shards of all tenants, for which rows are collected one by one, and the row of each single key."""

    def __init__(
        self,
        tenants: Tenants,
        shard: Callable[..., Indices],
        whole: tuple[Indices, Indices],
        lookback_s: int | None,
        check: Check,
    ) -> None:
        """``shard`` returns the members of a tenant's by seed, size and lookback; ``whole``: those of the whole ring, that is
        written to and that is read."""
        written, read = [whole[0]], [whole[1]]
        for number, (seed, size) in enumerate(zip(tenants.seeds, tenants.sizes.tolist(), strict=True)):
            if number % 64 == 0:
                check()
            written.append(shard(seed, size))
            asked = shard(seed, size, lookback_s) if lookback_s else written[-1]
            read.append(whole[1] if lookback_s is None else asked)
        (self.shards, self._shard_of), (self._reads, self._read_of) = _numbered(written), _numbered(read)
        shard_of = self._shard_of = self._shard_of[1:]
        self._tenants = tenants
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self._count = 0
        self._key_row = np.full(len(tenants.key_token), -1, dtype=np.int64)
        key_shard = shard_of[tenants.key_tenant] if len(tenants.key_tenant) else np.empty(0, dtype=np.int64)
        self._key_order = np.argsort(key_shard, kind="stable")
        self._key_shard = key_shard[self._key_order]

    def add(
        self,
        shard: int,
        tokens: np.ndarray,
        members: np.ndarray,
        length: np.ndarray,
        needed: np.ndarray,
        row_of_token: np.ndarray,
    ) -> None:
        """Add the sets of a shard, to which ``row_of_token`` refers."""
        low, high = np.searchsorted(self._key_shard, (shard, shard + 1))
        if low < high and len(tokens):
            keys = self._key_order[low:high]
            self._key_row[keys] = self._count + row_of_token[first_above(tokens, self._tenants.key_token[keys])]
        self._parts.append((np.full(len(members), shard, dtype=np.int64), members, length, needed))
        self._count += len(members)

    def rows(self, count: int, partition: np.ndarray | None = None) -> Rows:
        """Put all shards together."""
        members = np.full((self._count, max((part[1].shape[1] for part in self._parts), default=0)), -1, dtype=np.int32)
        at = 0
        for _, part, _, _ in self._parts:
            members[at : at + len(part), : part.shape[1]] = part
            at += len(part)
        shard, length, needed = (np.concatenate([part[k] for part in self._parts]) for k in (0, 2, 3))
        return Rows(self.shards, self._shard_of, self._reads, self._read_of[1:], shard, members,
                    length.astype(np.int64), needed.astype(np.int16), self._key_row, count, partition)  # fmt: skip


def _folded(
    members: np.ndarray, length: np.ndarray, needed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fold equal sets to one each. Returns members, lengths, needed answers, and the row of each set."""
    base = int(members.max()) + 2
    if float(base) ** members.shape[1] >= 2**62:
        return members, length, needed, np.arange(len(members))
    code = np.zeros(len(members), dtype=np.int64)
    for column in members.T:
        code = code * base + column + 1
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return members[first], np.bincount(inverse, length, len(first)).astype(np.int64), needed[first], inverse


class Queries(msgspec.Struct, frozen=True, eq=False):
    """What queries of each shard need, as flat arrays: ``shard`` and ``member`` of each entry, and the ``group`` (shard and
    zone, of ``zone_count`` zones) that fails with it. Per shard: the number of its ``zones`` (0 without zone awareness),
    its ``size``, and whether it has any token."""

    shard: np.ndarray
    member: np.ndarray
    group: np.ndarray
    zone_count: int
    zones: np.ndarray
    size: np.ndarray
    has_tokens: np.ndarray
    replication: int

    @classmethod
    def of(cls, ring: TokenRing, reads: Sequence[Indices]) -> Queries:
        """Flatten the shards that are read."""
        size = np.array([len(members) for members in reads], dtype=np.int64)
        shard = np.repeat(np.arange(len(reads)), size)
        member = np.concatenate([np.empty(0, dtype=np.int64), *reads]).astype(np.int64)
        count = max(len(ring.zones), 1)
        group = shard * count + ring.zone_of[member] if len(member) else shard
        used = np.bincount(group, minlength=len(reads) * count).reshape(len(reads), count) > 0
        zones = used.sum(axis=1) if ring.zone_aware else np.zeros(len(reads), dtype=np.int64)
        has_tokens = np.bincount(shard, np.bincount(ring.owner, minlength=len(ring.instances))[member], len(reads)) > 0
        return cls(shard, member, group, count, zones, size, has_tokens, ring.replication)

    def failing_groups(self, alive: np.ndarray) -> np.ndarray:
        """Return the groups with a member that is not ``alive`` (bool per member)."""
        return np.unique(self.group[~alive[self.member] if len(self.member) else np.empty(0, dtype=bool)])

    def spare(self, alive: np.ndarray) -> np.ndarray:
        """Return how many more zones, or members, of each shard may fail while the members ``alive`` (bool) are healthy;
        negative where queries fail."""
        count = len(self.size)
        failing = np.bincount(self.failing_groups(alive) // self.zone_count, minlength=count)
        by_zone = np.minimum(self.zones, self.replication) // 2 - failing
        healthy = np.bincount(self.shard, alive[self.member], count).astype(np.int64)
        by_member = healthy - (np.maximum(self.size, self.replication) - self.replication // 2)
        return np.where(self.has_tokens, np.where(self.zones > 0, by_zone, by_member), -1)


class Registered(Listed, frozen=True, eq=False):
    """The members of a ring with replicas: all that are registered, whatever their health.
    ``active``: those that take writes; ``reading``: those that answer queries."""

    tokens: TokenRing
    active: np.ndarray
    reading: np.ndarray

    @property
    def total(self) -> int:
        """Number of tokens."""
        return len(self.tokens.tokens)


class ReplicatedPlacement(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Load placed on a ring with replicas. ``rows``: the replica sets of all shards; ``partitions``: None for a token ring;
    ``failed``: members (bool) that fail in a scenario."""

    ring: Registered
    rows: Rows
    tenants: Tenants
    partitions: PartitionRing | None
    failed: np.ndarray

    @cached_property
    def queries(self) -> Queries:
        """What queries of the token ring need."""
        return Queries.of(self.ring.tokens, self.rows.reads)

    @cached_property
    def weight(self) -> np.ndarray:
        """Load on each row (float64), before replication."""
        rows, tenants = self.rows, self.tenants
        by_shard = np.bincount(rows.shard_of, tenants.loads, len(rows.shards))
        placed = rows.key_row >= 0
        keys = np.bincount(rows.key_row[placed], tenants.key_weight[placed], len(rows.length))
        return by_shard[rows.shard] * (rows.length / SPACE) + keys

    @cached_property
    def alive(self) -> np.ndarray:
        """Members (bool) that take writes and are not failed."""
        return self.ring.active & ~self.failed

    @cached_property
    def spare(self) -> np.ndarray:
        """How many more members of each row may fail before writes of its keys do; negative where they fail."""
        return self.rows.live(self.alive) - self.rows.needed

    @cached_property
    def lost(self) -> np.ndarray:
        """Rows (bool) whose keys cannot be written."""
        return self.spare < 0 if self.partitions is None else self.rows.needed > 0

    @cached_property
    def loads(self) -> np.ndarray:
        """Load of each member, every replica counted."""
        return self.rows.by_member(self.weight, self.alive)

    @cached_property
    def rejected(self) -> Any:
        """Load that cannot be written."""
        empty = self.rows.keys_of_shard == 0
        nowhere = float(self.tenants.total[empty[self.rows.shard_of]].sum()) if empty.any() else 0.0
        return float(self.weight[self.lost].sum()) + nowhere

    @cached_property
    def share(self) -> np.ndarray:
        """Share of all keys that each member holds (1 = all of them)."""
        return self.rows.by_member(
            np.where((self.rows.shard == 0) & ~self.lost, self.rows.length / SPACE, 0.0), self.alive
        )

    @cached_property
    def lost_share(self) -> np.ndarray:
        """Share of the keys of each shard that cannot be written; 1 for a shard without tokens."""
        rows, lost = self.rows, self.lost
        gone = np.bincount(rows.shard[lost], rows.length[lost], len(rows.shards))
        return np.where(rows.keys_of_shard > 0, gone / np.maximum(rows.keys_of_shard, 1), 1.0)

    @cached_property
    def answering_owners(self) -> list[list[str]]:
        """IDs of the owners that answer for each partition."""
        assert self.partitions is not None
        answering = {m.id for m, ok in zip(self.ring.members, self.ring.reading & ~self.failed, strict=True) if ok}
        return [[o for o in p.owners if o in answering] for p in self.partitions.partitions]

    @cached_property
    def partition_readers(self) -> np.ndarray:
        """Number of owners that answer for each partition."""
        return np.array([len(owners) for owners in self.answering_owners], dtype=np.int64)

    @cached_property
    def reads_ok(self) -> np.ndarray:
        """Whether queries of each shard that is read succeed (bool)."""
        if self.partitions is None:
            return self.queries.spare(self.ring.reading & ~self.failed) >= 0
        readers = self.partition_readers
        return np.array([len(chosen) > 0 and bool((readers[chosen] > 0).all()) for chosen in self.rows.reads])

    @property
    def tenants_write_lost(self) -> int:
        """Number of tenants that lose some writes."""
        return int((self.lost_share > 0)[self.rows.shard_of].sum())

    @property
    def tenants_read_lost(self) -> int:
        """Number of tenants whose queries fail."""
        return int((~self.reads_ok)[self.rows.read_of].sum())

    @property
    def losses(self) -> tuple[float, int, int, bool]:
        """Return the share of all keys that cannot be written; how many tenants lose writes, and queries, where "no shard" (the
        keys and queries of the whole ring) counts as one more; and whether queries of the whole ring succeed."""
        share, reads_ok = float(self.lost_share[0]), bool(self.reads_ok[0])
        return share, self.tenants_write_lost + (share > 0), self.tenants_read_lost + (not reads_ok), reads_ok

    def outcome_totals(self) -> dict[str, Any]:
        """Return the totals that belong to this placement alone."""
        return {
            "rejected_bytes": self.rejected,
            "shards": self.ring.total,
            "write_lost_share": float(self.lost_share[0]),
            "reads_ok": bool(self.reads_ok[0]),
        }

    def with_failed(self, failed: np.ndarray) -> ReplicatedPlacement:
        """Return the placement while the members ``failed`` (bool) are down: the sets stay."""
        if not failed.any() and not self.failed.any():
            return self
        after = msgspec.structs.replace(self, failed=failed)
        for name in ("weight",) if self.partitions is not None else ("queries", "weight"):
            after.__dict__[name] = getattr(self, name)
        return after
