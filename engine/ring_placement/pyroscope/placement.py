"""Placement keys with their load, folded to (dataset, offset) groups, and where a ring places them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from engine.ring_placement.pyroscope.ring import Ring, Subrings, first_distinct, jump, subrings

SPREAD, FINGERPRINT, FIXED = 0, 1, 2
"""Kinds of key rows: spread evenly over the dataset's offsets, picked by fingerprint, or known to use one offset."""

_EXACT = 1 << 53  # sums below this are exact in double precision
_DENSE = 1 << 23  # most cells (dataset, offset) that are counted in one dense array


def weigh(index: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Sum ``weight`` by ``index`` into ``size`` cells, leaving out entries below 0. Returns exact int64 for integer weights,
    float64 for others."""
    if len(index) and index.min() < 0:
        keep = index >= 0
        index, weight = index[keep], weight[keep]
    if weight.dtype.kind == "f":
        return np.bincount(index, weights=weight, minlength=size)
    if not len(weight) or float(weight.sum(dtype=np.float64)) < _EXACT:
        return np.bincount(index, weights=weight, minlength=size).astype(np.int64)
    low = np.bincount(index, weights=weight & 0xFFFFFFFF, minlength=size).astype(np.int64)
    return low + (np.bincount(index, weights=weight >> 32, minlength=size).astype(np.int64) << 32)


def sum_cells(cell: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum ``weight`` by ``cell``. Returns the distinct cells, sorted, and their sums (exact for integers)."""
    if not len(cell):
        return cell, weight
    order = np.argsort(cell, kind="stable")
    cell, weight = cell[order], weight[order]
    starts = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    return cell[starts], np.add.reduceat(weight, starts)


def spread_evenly(
    datasets: np.ndarray, weight: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spread each row's ``weight`` evenly over the ``size[dataset]`` offsets of its dataset.

    Integers stay exact: each offset gets the quotient, the first ones one more for the remainder. Returns the dataset,
    offset and weight of each share.
    """
    count = size[datasets]
    if (count == 1).all():
        return datasets, np.zeros(len(datasets), dtype=np.int64), weight
    offsets = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    if weight.dtype.kind == "f":
        share = np.repeat(weight / count, count)
    else:
        share = np.repeat(weight // count, count) + (offsets < np.repeat(weight % count, count))
    return np.repeat(datasets, count), offsets, share


class Groups(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Load by (dataset, offset): ``datasets`` their index (int32), ``offsets`` (int64), ``weight`` (int64 or float64).

    Sorted by dataset and offset, one entry each.
    """

    datasets: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray

    @cached_property
    def total(self) -> Any:
        """Sum of all weights; exact for integers."""
        return self.weight.sum().item() if len(self.weight) else 0


class Keys(msgspec.Struct, frozen=True, eq=False):
    """All placement keys as arrays.

    Per dataset (a unique pair of tenant and name): ``tenant_of`` index into ``tenants``, ``name_hash`` (uint64), limits
    (int64; tenant limit 0 = none), ``round_robin`` whether each request picks a shard at random, ``pinned`` the shard
    position of a pseudo-dataset that stands for all of one tenant's data in one shard, else -1 (on a ring of
    ``pinned_total`` shards). Per tenant: ``tenant_hash`` (uint64). Per key row: ``row_dataset`` (int32), ``row_kind``
    (uint8), ``row_value`` (uint64: fingerprint or offset), ``row_weight`` (int64 or float64 bytes per second).
    """

    tenants: tuple[str, ...]
    tenant_of: np.ndarray
    tenant_hash: np.ndarray
    name_hash: np.ndarray
    tenant_limit: np.ndarray
    dataset_limit: np.ndarray
    round_robin: np.ndarray
    row_dataset: np.ndarray
    row_kind: np.ndarray
    row_value: np.ndarray
    row_weight: np.ndarray
    pinned: np.ndarray | None = None
    pinned_total: int = 0

    @property
    def size(self) -> int:
        """Number of datasets."""
        return len(self.tenant_of)

    def with_limits(self, tenant_limit: int | None, dataset_limit: int | None) -> Keys:
        """Return the same keys with one tenant limit and/or dataset limit for all datasets (None: unchanged)."""
        tenant_limits = self.tenant_limit if tenant_limit is None else np.full(self.size, tenant_limit, np.int64)
        dataset_limits = self.dataset_limit if dataset_limit is None else np.full(self.size, dataset_limit, np.int64)
        return msgspec.structs.replace(self, tenant_limit=tenant_limits, dataset_limit=dataset_limits)

    def ranges(self, total: int) -> Subrings:
        """Lay out the subrings of all datasets on a ring of ``total`` shards."""
        # Tenants are few, datasets many: one jump per tenant.
        starts = jump(self.tenant_hash, total)
        ranges = subrings(starts[self.tenant_of], self.name_hash, self.tenant_limit, self.dataset_limit, total)
        if self.pinned is not None and self.pinned_total > 0:
            at = np.flatnonzero(self.pinned >= 0)
            base = jump(self.tenant_hash, self.pinned_total)[self.tenant_of[at]]
            offset = (self.pinned[at] - base) % self.pinned_total
            ranges.tenant_size[at[offset >= ranges.tenant_size[at]]] = total
            ranges.c[at] = ranges.a[at] + offset % np.maximum(ranges.tenant_size[at], 1)
            ranges.dataset_size[at] = np.minimum(1, ranges.tenant_size[at])
        return ranges

    def fold(self, ranges: Subrings) -> Groups:
        """Fold the key rows to (dataset, offset) groups on ``ranges``.

        An even spread of an integer over n offsets gives each the quotient and the first ones the remainder, so that
        nothing is lost; where it divides, every offset has exactly 1/n.
        """
        if ranges.total <= 0:
            none = np.empty(0, dtype=np.int64)
            return Groups(none.astype(np.int32), none, self.row_weight[:0])
        size = np.maximum(ranges.dataset_size, 1)
        spread = self.row_kind == SPREAD
        if self.round_robin.any():
            spread |= self.round_robin[self.row_dataset] & (self.row_kind == FINGERPRINT)
        if not spread.any():
            return self._sum_groups(
                size, self.row_dataset, self._offsets(self.row_dataset, self.row_value, size), self.row_weight
            )
        at = np.flatnonzero(spread)
        datasets, offsets, weight = spread_evenly(self.row_dataset[at], self.row_weight[at], size)
        if len(at) < len(spread):
            one = np.flatnonzero(~spread)
            datasets = np.concatenate((datasets, self.row_dataset[one]))
            offsets = np.concatenate((offsets, self._offsets(self.row_dataset[one], self.row_value[one], size)))
            weight = np.concatenate((weight, self.row_weight[one]))
        return self._sum_groups(size, datasets, offsets, weight)

    @staticmethod
    def _offsets(datasets: np.ndarray, values: np.ndarray, size: np.ndarray) -> np.ndarray:
        offsets = np.zeros(len(datasets), dtype=np.int64)
        # Most datasets have one shard only: no division for them.
        at = np.flatnonzero((size > 1)[datasets])
        offsets[at] = values[at] % size[datasets[at]].astype(np.uint64)
        return offsets

    @staticmethod
    def _sum_groups(size: np.ndarray, datasets: np.ndarray, offsets: np.ndarray, weight: np.ndarray) -> Groups:
        start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size)))
        cells = int(start[-1])
        index = start[datasets]
        index += offsets
        if cells <= max(_DENSE, 4 * len(datasets)):
            present = np.flatnonzero(np.bincount(index, minlength=cells))
            summed = weigh(index, weight, cells)[present]
        else:
            present, inverse = np.unique(index, return_inverse=True)
            summed = weigh(inverse, weight, len(present))
        dataset = np.searchsorted(start, present, side="right") - 1
        return Groups(dataset.astype(np.int32), present - start[dataset], summed)


class Placement(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Keys placed on a ring: its subrings, the folded groups, and each group's first distinct ACTIVE instances in the order
    in which a client tries them (``candidates``: int32 of shape (groups, depth), -1 where the list ends)."""

    ring: Ring
    keys: Keys
    ranges: Subrings
    groups: Groups
    candidates: np.ndarray

    @property
    def receivers(self) -> np.ndarray:
        """The instance that receives each group (int32), -1 where no instance may."""
        return self.candidates[:, 0]

    @cached_property
    def parts(self) -> np.ndarray:
        """Groups per dataset (int64)."""
        return np.bincount(self.groups.datasets, minlength=self.keys.size)

    @cached_property
    def positions(self) -> np.ndarray:
        """Shard position of each group (int64)."""
        return self.ranges.positions(self.groups.datasets, self.groups.offsets)

    @cached_property
    def loads(self) -> np.ndarray:
        """Bytes per second of each ring member."""
        return weigh(self.receivers, self.groups.weight, len(self.ring.members))

    @cached_property
    def shard_loads(self) -> np.ndarray:
        """Bytes per second under each shard ID, whoever stores them."""
        return weigh(self.positions, self.groups.weight, self.ring.total)

    @cached_property
    def rejected(self) -> Any:
        """Bytes per second that no instance receives."""
        if self.ring.total <= 0:
            return self.keys.row_weight.sum().item() if len(self.keys.row_weight) else 0
        return self.groups.weight[self.receivers < 0].sum().item()


def place(ring: Ring, keys: Keys, depth: int, like: Placement | None = None) -> Placement:
    """Place ``keys`` on ``ring`` with ``depth`` candidates for each group.

    ``like``: a placement of the same keys; its folded groups are reused if all datasets have as many shards.
    """
    ranges = keys.ranges(ring.total)
    if (
        like is not None
        and like.keys.row_weight is keys.row_weight
        and like.keys.round_robin is keys.round_robin
        and like.ranges.total > 0
        and ranges.total > 0
        and np.array_equal(like.ranges.dataset_size, ranges.dataset_size)
    ):
        groups = like.groups
    else:
        groups = keys.fold(ranges)
    candidates = first_distinct(ranges, groups.datasets, groups.offsets, ring.owner, ring.active, depth)
    return Placement(ring, keys, ranges, groups, candidates)
