"""What is wrong with the replicas of partitions at the moment looked at, whatever their load."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.broker_load.model.topology import Flags, Topology, any_of
from engine.core.units import named
from engine.core.view import Finding, Headline, Level

_STATES: dict[str, tuple[str, Level, str]] = {
    "without leader": (
        "partitions without a leader", "critical", "no client can read or write them: bring back a broker that was in sync",
    ),
    "under min ISR": (
        "partitions under min.insync.replicas", "critical", "producers with acks=all fail: bring the missing replicas back",
    ),
    "with offline replica": ("offline replicas", "severe", "restart their brokers or mend their disks"),
    "under-replicated": (
        "under-replicated partitions", "severe", "see whether their brokers are up, and their disks and network keep pace",
    ),
    "reassigning": (
        "partitions being reassigned", "moderate", "an added replica counts only once it is in sync "
        "(kafka-reassign-partitions --verify)",
    ),
    "not led by its first replica": (
        "partitions not led by their first replica", "moderate",
        "run kafka-leader-election --election-type preferred; elect=all shows what that changes",
    ),
}  # fmt: skip
"""States of a partition, worst first: what a finding calls them, its level, and what to do."""
_NAMED = 3  # most partitions that a finding names


def states(topology: Topology, min_in_sync: int) -> dict[str, Flags]:
    """Return for each state the flags [P] of the partitions in it; ``min_in_sync`` where a topic does not set it.

    A replica that a reassignment adds is not missed before it is in sync, and an observer never.
    """
    led, moving = topology.leader >= 0, topology.moving
    first = topology.replicas[:, 0] if topology.size else topology.leader
    found = (
        ~led & any_of(topology.held),
        led & (topology.in_sync < topology.min_in_sync(min_in_sync)),
        any_of(topology.offline_replicas),
        led & (any_of(missing(topology)) | topology.short),
        moving,
        led & ~moving & (first >= 0) & (topology.leader != first),
    )
    return dict(zip(_STATES, found, strict=True))


def missing(topology: Topology) -> Flags:
    """Return flags [P, R] of the replicas that should be in sync and are not."""
    return topology.held & ~(topology.adding | topology.observers | topology.isr)


def findings(topology: Topology, found: dict[str, Flags]) -> list[Finding]:
    """Return a finding for each state that partitions are in, worst first: how many, which, on which brokers, what to do."""
    told = []
    where = {"with offline replica": ("on", topology.offline_replicas), "reassigning": ("to", topology.adding)}
    for name, flags in found.items():
        rows = np.flatnonzero(flags)
        if not rows.size:
            continue
        subject, level, advice = _STATES[name]
        names = [f"{topology.topics[topology.topic[row]]}-{topology.partition[row]}" for row in rows[:_NAMED].tolist()]
        text = f"{rows.size:,} of {topology.size:,}: {named(names, _NAMED, rows.size)}"
        how, places = where.get(name, ("out of sync:", missing(topology)))
        brokers = topology.ids[np.unique(topology.replicas[rows][places[rows]])].tolist()
        if brokers and name != "not led by its first replica":
            text += f"; {how} broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
        if name == "under min ISR" and not brokers:
            advice = "producers with acks=all fail: it is more than there are replicas: lower it, or add replicas"
        eligible = topology.ids[np.unique(topology.replicas[rows][topology.elr[rows]])].tolist()
        if name == "without leader" and eligible:
            advice = "no client can read or write them: bring back one that may lead without loss (ELR): "
            advice += f"broker{'s' if len(eligible) > 1 else ''} {named(eligible, 6)}"
        row = rows[0]
        key = ("partitions", (topology.topics[topology.topic[row]], int(topology.partition[row])))
        told.append(Finding(level, subject, f"{text}; {advice}", key))
    return told


def listed(rows: pl.DataFrame) -> list[Finding]:
    """Return a finding on the rows of input table ``reassigning``, used where no topology is known."""
    names = [
        f"{topic}-{partition}"
        for topic, partition in rows.select("topic", "partition").unique().sort(pl.all()).iter_rows()
    ]
    subject, level, advice = _STATES["reassigning"]
    to = ", ".join(map(str, rows["to"].drop_nulls().explode(empty_as_null=False).unique().sort().to_list()))
    where = f"; to broker{'s' if ',' in to else ''} {to}" if to else ""
    return [Finding(level, subject, f"{named(names, _NAMED, len(names))}{where}; {advice}")] if names else []


def headline(found: dict[str, Flags]) -> list[Headline]:
    """Return one number on the states that are more than moderate; none if there are none."""
    bad = [(name, int(flags.sum())) for name, flags in found.items() if flags.any() and _STATES[name][1] != "moderate"]
    if not bad:
        return []
    text = ", ".join(f"{count:,} {name}" for name, count in bad[:2])
    return [
        Headline("partitions", text, ", ".join(f"{count:,} {name}" for name, count in bad[2:]), _STATES[bad[0][0]][1])
    ]
