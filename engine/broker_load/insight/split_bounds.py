"""Bound what a partition may really carry where its topic's rates are split evenly over the partitions a broker leads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.broker_load.model.topology import Floats, Ints, Topology


def partitions_sharing(topology: Topology) -> Ints:
    """Return over how many partitions [P] the rates of a partition's leader are split evenly: what one of them takes may be
    anything from nothing to all of it."""
    group, _, _, count = topology.groups
    return np.where(group >= 0, count[np.maximum(group, 0)] if len(count) else 1, 1).astype(np.int32)


def bounds(values: Mapping[str, Floats], many: Ints) -> dict[str, Floats]:
    """Return lower and upper bounds of ``values`` split over ``many``: 0 to all of it, by names with _low and _high."""
    found = {}
    for name, value in values.items():
        found[name.format("_low")] = np.where(many > 1, 0.0, value)
        found[name.format("_high")] = value * many
    return found
