"""Placement keys and their load: many (tenant, dataset[, fingerprint]) rows folded to (dataset, offset) groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.ring_placement.pyroscope.hashing import jump
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import Subrings, first_distinct

SPREAD, FINGERPRINT, FIXED = 0, 1, 2
"""Kinds of key rows: spread evenly over the dataset's offsets, picked by fingerprint, or known to use one offset."""

_FACTOR = np.uint64(2862933555777941757)
_EXACT = 1 << 53
_DENSE = 1 << 23


class JumpTable:
    """The jump hash of many keys for *every* number of buckets up to ``limit``: the chain of buckets each key visits.

    A key moves about ln(limit) times in all, so that another number of buckets costs a lookup, not a new hash.
    """

    def __init__(self, keys: np.ndarray, limit: int) -> None:
        self._keys = keys
        self.limit = limit
        self._rounds: list[tuple[np.ndarray, np.ndarray]] = []
        where = np.arange(len(keys), dtype=np.int32)
        state, bucket = keys.astype(np.uint64), np.zeros(len(keys), dtype=np.int64)
        # Blocks would save cache misses, but the chain has to be kept per round; keys shrink quickly anyway.
        while len(where) and limit > 0:
            state = state * _FACTOR + np.uint64(1)
            scale = 2147483648.0 / ((state >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
            bucket = ((bucket + 1).astype(np.float64) * scale).astype(np.int64)
            going = np.flatnonzero(bucket < limit)
            where, state, bucket = where[going], state[going], bucket[going]
            if len(where):
                self._rounds.append((where, bucket.astype(np.int32)))

    def at(self, buckets: int | np.ndarray) -> np.ndarray:
        """Bucket (int64) of every key for ``buckets`` (one number, or one per key); -1 for none."""
        counts = np.asarray(buckets, dtype=np.int64)
        if counts.ndim and counts.size and (counts == counts[0]).all():
            counts = counts[0]
        if counts.size and counts.max() > self.limit:
            return jump(self._keys, counts)
        out = np.where(counts > 0, 0, -1) * np.ones(len(self._keys), dtype=np.int64)
        for where, bucket in self._rounds:
            fits = bucket < (counts[where] if counts.ndim else counts)
            out[where[fits]] = bucket[fits]
        return out


def weigh(index: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Sum of ``weight`` by ``index`` (entries below 0 are left out), as int64 exactly where the weights are integers."""
    if len(index) and index.min() < 0:
        keep = index >= 0
        index, weight = index[keep], weight[keep]
    if weight.dtype.kind == "f":
        return np.bincount(index, weights=weight, minlength=size)
    if not len(weight) or float(weight.sum(dtype=np.float64)) < _EXACT:
        return np.bincount(index, weights=weight, minlength=size).astype(np.int64)
    low = np.bincount(index, weights=weight & 0xFFFFFFFF, minlength=size).astype(np.int64)
    high = np.bincount(index, weights=weight >> 32, minlength=size).astype(np.int64)
    return low + (high << 32)


@dataclass(frozen=True, eq=False)
class Groups:
    """Load by (dataset, offset): ``rows`` dataset index (int32), ``offsets`` (int64), ``weight`` (int64 or float64).

    Sorted by dataset and offset, one entry each.
    """

    rows: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray

    @cached_property
    def total(self) -> Any:
        """Sum of all weights, exact for integers."""
        return self.weight.sum().item() if len(self.weight) else 0


@dataclass(frozen=True, eq=False)
class Keys:
    """All keys. Per dataset (a unique pair of tenant and name): ``tenant_of`` index into ``tenants``,
    hashes (uint64), limits (int64; tenant limit 0 = none), ``spread`` whether its strategy is random per request,
    ``pinned`` the shard position of a pseudo-dataset that stands for all of one tenant's data in one shard, else -1.
    Per key row: ``row_dataset`` (int32), ``row_kind`` (uint8), ``row_value`` (uint64: fingerprint or offset),
    ``row_weight`` (int64 or float64 bytes per second). ``limit``: the most shards the jump tables are laid out for.
    ``shared``: what was worked out from the columns, kept by copies with other limits.
    """

    tenants: tuple[str, ...]
    tenant_of: np.ndarray
    tenant_hash: np.ndarray
    name_hash: np.ndarray
    tenant_limit: np.ndarray
    dataset_limit: np.ndarray
    spread: np.ndarray
    row_dataset: np.ndarray
    row_kind: np.ndarray
    row_value: np.ndarray
    row_weight: np.ndarray
    limit: int = 1024
    pinned: np.ndarray | None = None
    pinned_total: int = 0
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Number of datasets."""
        return len(self.tenant_of)

    @cached_property
    def _tenant_jump(self) -> JumpTable:
        if "tenant" not in self.shared:
            self.shared["tenant"] = JumpTable(self.tenant_hash, self.limit)
        return self.shared["tenant"]  # type: ignore[no-any-return]

    @cached_property
    def _name_jump(self) -> JumpTable:
        if "name" not in self.shared:
            self.shared["name"] = JumpTable(self.name_hash, self.limit)
        return self.shared["name"]  # type: ignore[no-any-return]

    def with_limits(self, tenant_limit: int | None, dataset_limit: int | None) -> Keys:
        """The same keys with one tenant limit and/or dataset limit for all of them."""
        return replace(
            self,
            tenant_limit=self.tenant_limit if tenant_limit is None else np.full(self.size, tenant_limit, np.int64),
            dataset_limit=self.dataset_limit if dataset_limit is None else np.full(self.size, dataset_limit, np.int64),
        )

    def ranges(self, total: int) -> Subrings:
        """Subrings of all datasets on a ring of ``total`` shards."""
        limits = self.tenant_limit
        tenant_size = np.where((limits <= 0) | (limits > total), total, limits)
        dataset_size = np.minimum(tenant_size, np.maximum(1, self.dataset_limit))
        # Tenants are few, datasets many: one jump per tenant.
        a = self._tenant_jump.at(total)[self.tenant_of]
        c = a + self._name_jump.at(tenant_size)
        if self.pinned is not None and self.pinned_total > 0:
            at = np.flatnonzero(self.pinned >= 0)
            base = self._tenant_jump.at(self.pinned_total)[self.tenant_of[at]]
            place = (self.pinned[at] - base) % self.pinned_total
            outside = place >= tenant_size[at]
            tenant_size[at[outside]] = total
            c[at] = a[at] + place % np.maximum(tenant_size[at], 1)
            dataset_size[at] = np.minimum(1, tenant_size[at])
        return Subrings(total, a, tenant_size, c, dataset_size)

    def fold(self, ranges: Subrings) -> Groups:
        """Key rows folded to (dataset, offset) groups on ``ranges``.

        An even spread of an integer over n offsets gives each the quotient and the first ones the remainder, so that
        nothing is lost; where it divides, every offset has exactly 1/n.
        """
        if ranges.total <= 0:
            none = np.empty(0, dtype=np.int64)
            return Groups(none.astype(np.int32), none, self.row_weight[:0])
        size = np.maximum(ranges.dataset_size, 1)
        spread = self.row_kind == SPREAD
        if self.spread.any():
            spread |= self.spread[self.row_dataset] & (self.row_kind == FINGERPRINT)
        if not spread.any():
            return self._dense(
                size, self.row_dataset, self._offsets(self.row_dataset, self.row_value, size), self.row_weight
            )
        at = np.flatnonzero(spread)
        rows, weight = self.row_dataset[at], self.row_weight[at]
        many = size[rows]
        if (many == 1).all():
            flat_rows, flat_offsets, flat_weight = rows, np.zeros(len(rows), dtype=np.int64), weight
        else:
            flat_rows = np.repeat(rows, many)
            flat_offsets = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            if weight.dtype.kind == "f":
                flat_weight = np.repeat(weight / many, many)
            else:
                flat_weight = np.repeat(weight // many, many) + (flat_offsets < np.repeat(weight % many, many))
        if len(at) < len(spread):
            one = np.flatnonzero(~spread)
            offsets = self._offsets(self.row_dataset[one], self.row_value[one], size)
            flat_rows = np.concatenate((flat_rows, self.row_dataset[one]))
            flat_offsets = np.concatenate((flat_offsets, offsets))
            flat_weight = np.concatenate((flat_weight, self.row_weight[one]))
        return self._dense(size, flat_rows, flat_offsets, flat_weight)

    @staticmethod
    def _offsets(rows: np.ndarray, values: np.ndarray, size: np.ndarray) -> np.ndarray:
        offsets = np.zeros(len(rows), dtype=np.int64)
        # Most datasets have one shard only: no division for them.
        at = np.flatnonzero((size > 1)[rows])
        offsets[at] = values[at] % size[rows[at]].astype(np.uint64)
        return offsets

    @staticmethod
    def _dense(size: np.ndarray, rows: np.ndarray, offsets: np.ndarray, weight: np.ndarray) -> Groups:
        start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size)))
        cells = int(start[-1])
        index = start[rows] + offsets
        if cells <= max(_DENSE, 4 * len(rows)):
            present = np.flatnonzero(np.bincount(index, minlength=cells))
            summed = weigh(index, weight, cells)[present]
        else:
            present, inverse = np.unique(index, return_inverse=True)
            summed = weigh(inverse, weight, len(present))
        dataset = np.searchsorted(start, present, side="right") - 1
        return Groups(dataset.astype(np.int32), present - start[dataset], summed)


@dataclass(frozen=True, eq=False)
class Placement:
    """Keys placed on a ring: its subrings, the folded groups and each group's first distinct ACTIVE instances
    (``chain``, int32 of shape (groups, depth), -1 where the list ends)."""

    ring: Ring
    keys: Keys
    ranges: Subrings
    groups: Groups
    chain: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """The instance that receives each group, -1 where no instance may."""
        return self.chain[:, 0]

    @cached_property
    def parts(self) -> np.ndarray:
        """Groups per dataset (int64)."""
        return np.bincount(self.groups.rows, minlength=self.keys.size)

    @cached_property
    def positions(self) -> np.ndarray:
        """Shard position of each group (int64)."""
        return self.ranges.positions(self.groups.rows, self.groups.offsets)

    @cached_property
    def loads(self) -> np.ndarray:
        """Bytes per second of each ring member."""
        return weigh(self.first, self.groups.weight, len(self.ring.members))

    @cached_property
    def rejected(self) -> Any:
        """Bytes per second that no instance may receive."""
        if self.ring.total <= 0:
            return self.keys.row_weight.sum().item() if len(self.keys.row_weight) else 0
        return self.groups.weight[self.first < 0].sum().item()


def place(ring: Ring, keys: Keys, depth: int, like: Placement | None = None) -> Placement:
    """Place ``keys`` on ``ring`` with ``depth`` candidates each. ``like``: a placement of the same keys whose fold is
    used again where the sizes of the datasets' ranges are the same."""
    ranges = keys.ranges(ring.total)
    if (
        like is not None
        and like.keys.row_weight is keys.row_weight
        and like.keys.spread is keys.spread
        and like.ranges.total > 0
        and ranges.total > 0
        and np.array_equal(like.ranges.dataset_size, ranges.dataset_size)
    ):
        groups = like.groups
    else:
        groups = keys.fold(ranges)
    chain = first_distinct(ranges, groups.rows, groups.offsets, ring.owner, ring.active, depth)
    return Placement(ring, keys, ranges, groups, chain)
