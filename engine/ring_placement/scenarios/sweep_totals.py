"""The totals of many scenarios, and what they say together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from engine.ring_placement.pyroscope.placement import Placement

Step = Callable[[float], None]
"""Called between pieces of long work with the fraction done (0-1); may raise to stop."""


def imbalance(loads: np.ndarray) -> tuple[float, float]:
    """Compute max over mean and coefficient of variation (population) of node loads; 1 and 0 where there is no load."""
    if not len(loads):
        return 1.0, 0.0
    mean = float(loads.mean())
    return (float(loads.max()) / mean, float(loads.std()) / mean) if mean > 0 else (1.0, 0.0)


@dataclass
class Sweep:
    """Scenarios and their totals: every list has one entry per scenario, in the same order.

    ``down``: who fails, as indices into ``ids``. ``TOTALS`` as in ``strategy.Outcome``, loads in bytes per second.
    ``worst``: the member with the largest load afterwards (-1: none is left) and its ``worst_load``;
    ``nodes_over_capacity``: -1 where no capacity is given. The last three lists are empty for segment writers: the share of
    all keys that cannot be written, and how many tenants lose some writes, or queries.
    """

    ids: tuple[str, ...]
    down: list[tuple[int, ...]] = field(default_factory=list)
    rejected_bytes: list[float] = field(default_factory=list)
    rerouted_bytes: list[float] = field(default_factory=list)
    moved_bytes: list[float] = field(default_factory=list)
    needless_moved_bytes: list[float] = field(default_factory=list)
    shards_with_changed_owner: list[int] = field(default_factory=list)
    datasets_with_changed_shard_set: list[int] = field(default_factory=list)
    datasets_touched: list[int] = field(default_factory=list)
    datasets_fully_on_down: list[int] = field(default_factory=list)
    tenants_touched: list[int] = field(default_factory=list)
    max_over_mean: list[float] = field(default_factory=list)
    coefficient_of_variation: list[float] = field(default_factory=list)
    worst: list[int] = field(default_factory=list)
    worst_load: list[float] = field(default_factory=list)
    nodes_over_capacity: list[int] = field(default_factory=list)
    write_lost_share: list[float] = field(default_factory=list)
    tenants_write_lost: list[int] = field(default_factory=list)
    tenants_read_lost: list[int] = field(default_factory=list)

    def add_loads(
        self, down: tuple[int, ...], after: np.ndarray, survivors: np.ndarray, capacity: np.ndarray | None
    ) -> None:
        """Append who fails in a scenario and what its loads ``after`` (per ring member) show.

        ``survivors``: bool per ring member, who takes data afterwards.
        """
        self.down.append(down)
        alive = after[survivors]
        hottest = int(np.flatnonzero(survivors)[np.argmax(alive)]) if len(alive) else -1
        ratio, variation = imbalance(alive)
        self.worst.append(hottest)
        self.worst_load.append(after[hottest].item() if hottest >= 0 else 0)
        self.max_over_mean.append(ratio)
        self.coefficient_of_variation.append(variation)
        self.nodes_over_capacity.append(int((alive > capacity[survivors]).sum()) if capacity is not None else -1)

    def order(self) -> np.ndarray:
        """Return scenario numbers from worst to best: by rejected load, then the hottest node, then movement, then as listed."""
        keys = [np.arange(len(self.down)), -np.array(self.moved_bytes, dtype=np.float64),
                -np.array(self.worst_load, dtype=np.float64)]  # fmt: skip
        if self.write_lost_share:
            keys += [-np.array(self.write_lost_share), -np.array(self.tenants_write_lost) - self.tenants_read_lost]
        return np.lexsort([*keys, -np.array(self.rejected_bytes, dtype=np.float64)])


def receiving_members(placement: Placement) -> np.ndarray:
    """Return for each ring member whether it is ACTIVE and has a shard (bool)."""
    receives: np.ndarray = placement.ring.active & np.array([m.tokens > 0 for m in placement.ring.members], dtype=bool)
    return receives


def worst_case(sweep: Sweep, receives: np.ndarray) -> float | None:
    """Compute the capacity per node that survives every scenario of ``sweep`` (regime A): the hottest survivor's load in
    the worst one.

    ``receives`` as ``receiving_members`` returns it. Returns None where no scenario both hits a node that takes data and
    leaves one.
    """
    loads = [
        load
        for down, load, worst in zip(sweep.down, sweep.worst_load, sweep.worst, strict=True)
        if worst >= 0 and receives[list(down)].any()
    ]
    return max(loads, default=None)
