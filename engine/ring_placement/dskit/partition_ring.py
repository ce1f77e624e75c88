"""Partition rings: the partition of a key, and a tenant's partitions.

Source: ``grafana/dskit/ring`` (``partition_ring.go``). See ``docs/models/dskit-rings.md``,
"Partition rings".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from engine.ring_placement.dskit.token_ring import NO_TOKENS, Owners, draws, gaps, seed_of

_, PENDING, ACTIVE, _, DELETED = range(5)
STATES = ("Unknown", "Pending", "Active", "Inactive", "Deleted")
"""Names of the states of a partition by number; a Deleted one is a tombstone."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """One partition. ``tokens`` (int64, sorted), ``changed_s``: last change of its state, epoch seconds; ``owners``: IDs of
    the instances that read it."""

    id: int
    state: int = ACTIVE
    tokens: np.ndarray = field(default_factory=lambda: NO_TOKENS)
    changed_s: int = 0
    locked: bool = False
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class PartitionRing:
    """Partitions in order of their IDs, their sorted tokens (int64), and the index of the partition of each token."""

    partitions: tuple[Partition, ...]
    tokens: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, partitions: tuple[Partition, ...]) -> PartitionRing:
        """Lay out a ring; a token of two partitions goes to the smaller ID."""
        ordered = tuple(sorted((p for p in partitions if p.state != DELETED), key=lambda p: p.id))
        tokens = np.concatenate([np.empty(0, dtype=np.int64), *(p.tokens for p in ordered)]).astype(np.int64)
        owner = np.repeat(np.arange(len(ordered), dtype=np.int32), [len(p.tokens) for p in ordered])
        tokens, first = np.unique(tokens, return_index=True)
        return cls(ordered, tokens, owner[first])

    @cached_property
    def ids(self) -> np.ndarray:
        """IDs of the partitions (int64)."""
        return np.array([p.id for p in self.partitions], dtype=np.int64)

    def owners_among(self, ids: Sequence[str]) -> list[np.ndarray]:
        """Return for each partition the positions in ``ids`` (int64) of those of its owners that are listed there."""
        number = {name: n for n, name in enumerate(ids)}
        return [np.array([number[o] for o in p.owners if o in number], dtype=np.int64) for p in self.partitions]

    @cached_property
    def states(self) -> np.ndarray:
        """State numbers of the partitions."""
        return np.array([p.state for p in self.partitions], dtype=np.int64)

    @cached_property
    def _owners(self) -> Owners:
        return Owners(self.owner)

    @cached_property
    def ownership(self) -> np.ndarray:
        """Keys between the tokens of each partition and the tokens before them (int64), whatever its state."""
        owned = np.zeros(len(self.partitions), dtype=np.int64)
        np.add.at(owned, self.owner, gaps(self.tokens))
        return owned

    def active_partitions(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """Return for each token the index of the partition that takes the keys below it, or -1 if none is Active.

        ``chosen``: indices of the partitions of a shard; None for all.
        """
        usable = self.states == ACTIVE
        if chosen is not None:
            inside = np.zeros(len(self.partitions), dtype=bool)
            inside[chosen] = True
            usable &= inside
        total = len(self.tokens)
        own = usable[self.owner] if total else np.empty(0, dtype=bool)
        if not own.any():
            return np.full(total, -1, dtype=np.int32)
        here = np.where(own, np.arange(total), 2 * total)
        following = np.minimum(np.minimum.accumulate(here[::-1])[::-1], np.argmax(own) + total) % total
        return self.owner[following]

    def search(self, keys: np.ndarray) -> np.ndarray:
        """Return for each key the position of the first token above it; behind the last token the first one."""
        found = np.searchsorted(self.tokens, keys, side="right")
        found[found == len(self.tokens)] = 0
        return found

    def shard(self, tenant: str, size: int, lookback_s: int = 0, now_s: int = 0) -> np.ndarray:
        """Choose the partitions (indices, ascending) of ``tenant``'s shard of ``size``; ``lookback_s`` 0 for writes."""
        total, since = len(self.tokens), now_s - lookback_s
        if size <= 0 or size >= len(self.partitions):
            size = len(self.partitions)
        within = [lookback_s > 0 and p.changed_s >= since for p in self.partitions]
        chosen: set[int] = set()
        excluded: set[int] = set()
        drawn = draws(seed_of(tenant), size)
        holders = len(self._owners.positions)
        # Once every partition with tokens is chosen or excluded, further rounds find nothing.
        while total and len(chosen) < size and len(chosen) + len(excluded) < holders:
            start = int(np.searchsorted(self.tokens, next(drawn), side="right"))
            for number in self._owners.walk(start, lambda n: n in chosen or n in excluded):
                partition = self.partitions[number]
                if partition.state == PENDING or not (partition.state == ACTIVE or within[number]):
                    excluded.add(number)
                elif within[number]:
                    chosen.add(number)
                    size += 1
                else:
                    chosen.add(number)
                    break
                if len(chosen) + len(excluded) == holders:
                    break
        return np.array(sorted(chosen), dtype=np.int64)
