"""Share a topic's rates out over the partitions that a broker leads: evenly, or by the messages that exporters count in each; and
bound what a partition may really carry.

See "Messages by partition" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np

from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model.topology import Floats, Ints, tally


def by_messages(model: Model) -> Model:
    """Return the model with the rates of each topic and leader shared out by the growth of its partitions' logs, where exporters
    report that of all of them and one has grown; the same model where they do so of none."""
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
    """Return over how many partitions [P] the rates of a partition's leader are shared out: what one of them takes may be
    anything from nothing to all of it. Of those by messages only partitions that took some count, and the others take none."""
    group, leaders, _, count = model.topology.groups
    many = np.where(group >= 0, count[np.maximum(group, 0)] if len(count) else 1, 1).astype(np.int32)
    if model.shares is None:
        return many
    known, grown = ~np.isnan(model.shares), np.nan_to_num(model.shares) > 0
    growing = np.bincount(group[grown], minlength=len(leaders))
    return np.where(grown, growing[np.maximum(group, 0)], np.where(known, 1, many)).astype(np.int32)


def factors(model: Model, many: Ints) -> Floats:
    """Return how many times a partition's rate [P] all of what is shared out is; ``many``: see ``partitions_sharing``."""
    if model.shares is None:
        return many.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.where(model.shares > 0, 1.0 / model.shares, many)


def bounds(values: Mapping[str, Floats], many: Ints, factor: Floats) -> dict[str, Floats]:
    """Return lower and upper bounds of ``values`` shared with ``many``: 0 to all of it, by names with _low and _high."""
    found = {}
    for name, value in values.items():
        found[name.format("_low")] = np.where(many > 1, 0.0, value)
        found[name.format("_high")] = value * factor
    return found
