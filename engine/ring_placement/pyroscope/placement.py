"""Keys placed on a ring: who receives each group of load, and who is next in line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.ring_placement.pyroscope.keys import Groups, Keys, weigh
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import Subrings, first_distinct


@dataclass(frozen=True, eq=False)
class Placement:
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

    ``like``: a placement of the same keys, whose folded groups are used again where all datasets have as many shards.
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
