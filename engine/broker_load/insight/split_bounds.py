"""Split a topic's rates over the partitions that a broker leads, evenly or by counted messages, with bounds on each partition.

See "Messages by partition" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np

from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model.topology import Floats, Ints, tally


def by_messages(model: Model) -> Model:
    """Return the model with each leader's rates of a topic split by the growth of the partitions' logs.

    Only where exporters report all of these partitions and one has grown; the same model if that holds nowhere.
    """
    topology, rates = model.topology, model.messages
    if rates is None:
        return model
    group, leaders, _, _ = topology.groups
    led = group >= 0
    of_group = group[led]
    whole = tally(of_group, np.nan_to_num(rates[led], nan=-np.inf), len(leaders))
    known = led.copy()
    known[led] = (whole > 0)[of_group]
    if not known.any():
        return model
    shares = np.full(topology.size, np.nan)
    shares[known] = rates[known] / whole[group[known]]

    def shared(value: Floats) -> Floats:
        total = tally(of_group, value[led], len(leaders))
        out = value.copy()
        out[known] = total[group[known]] * shares[known]
        return out

    parts = {part.name: getattr(model.values, part.name) for part in fields(model.values)}
    values = replace(model.values, **{name: shared(value) for name, value in parts.items() if name != "disk"})
    return replace(model, values=values, shares=shares)


def partitions_sharing(model: Model) -> Ints:
    """Return the number of partitions [P] that share their leader's rates: each may carry anything from nothing to all of them.

    With rates split by messages, only partitions that took messages count; the others carry nothing.
    """
    group, leaders, _, count = model.topology.groups
    many = np.where(group >= 0, count[np.maximum(group, 0)] if len(count) else 1, 1).astype(np.int32)
    if model.shares is None:
        return many
    known, grown = ~np.isnan(model.shares), np.nan_to_num(model.shares) > 0
    growing = np.bincount(group[grown], minlength=len(leaders))
    return np.where(grown, growing[np.maximum(group, 0)], np.where(known, 1, many)).astype(np.int32)


def factors(model: Model, many: Ints) -> Floats:
    """Return the factor [P] from a partition's rate to the total that is split; ``many``: see ``partitions_sharing``."""
    if model.shares is None:
        return many.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.where(model.shares > 0, 1.0 / model.shares, many)


def bounds(values: Mapping[str, Floats], many: Ints, factor: Floats) -> dict[str, Floats]:
    """Return bounds of ``values`` split over ``many`` partitions, 0 to the total, by names with _low and _high."""
    found = {}
    for name, value in values.items():
        found[name.format("_low")] = np.where(many > 1, 0.0, value)
        found[name.format("_high")] = value * factor
    return found
