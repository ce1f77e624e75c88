"""Result tables of what-if: failures, restarts, demotion, reassignment, more brokers."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from engine.broker_load.tables.columns import (
    BROKER,
    IDS,
    KBS,
    LOAD,
    PARTITION,
    TOPIC,
    WHO,
    flag,
    integer,
    number,
    text,
)
from engine.core.tables import Column, Table

SCENARIO_MOVES = Table(
    "scenario_moves",
    "What the reassignment, preferred election or demotion changes.",
    (
        TOPIC,
        PARTITION,
        Column("old_leader", pl.Int32, "Leader before.", kind="id", width=10, grow=10),
        Column("new_leader", pl.Int32, "Leader after.", kind="id", width=10, grow=10),
        Column("replicas", IDS, "Replicas before."),
        Column("new_replicas", IDS, "Replicas after."),
        number("moved_mb", "Data that has to move.", "MB"),
    ),
    title="partitions that change",
    key=("topic", "partition"),
)

ADD_BROKERS = Table(
    "add_brokers",
    "Bounds after adding brokers of the typical capacity, which no placement can beat.",
    (
        text("resource", "CPU, disk, network in or network out.", width=8, priority=0, grow=8),
        number("average_before_pct", "Utilisation of the cluster now.", "%", "percent", title="average"),
        number("average_after_pct", "Utilisation of the cluster with the new brokers.", "%",
            "percent", title="then"),
        number("highest_before_pct", "Utilisation of the fullest broker now.", "%", "percent", title="fullest"),
        number("least_highest_after_pct", "Lowest possible utilisation of the fullest broker.", "%", "percent",
            title="at best then"),
        text("bound", "What sets that bound.", width=40),
    ),
    title="bounds with more brokers",
    key=("resource",),
)  # fmt: skip

FAILOVER_LEADERS = Table(
    "failover_leaders",
    "New leaders of the partitions that a failed broker led.",
    (
        TOPIC,
        PARTITION,
        Column("old_leader", pl.Int32, "Failed leader.", kind="id", width=10),
        Column("new_leader", pl.Int32, "New leader; null: leaderless.", kind="id", width=10),
        flag("unclean", "Only an out-of-sync replica could lead: data would be lost."),
        flag("under_min_isr", "Too few in-sync replicas are left for acks=all."),
    ),
    title="new leaders",
    key=("topic", "partition"),
)

FAILOVER_MIN_ISR = Table(
    "failover_min_isr",
    "All partitions that fall under their min.insync.replicas.",
    (
        TOPIC,
        PARTITION,
        Column("leader", pl.Int32, "Leader afterwards; null: leaderless.", kind="id"),
        integer("in_sync", "In-sync replicas left."),
        integer("min_isr", "Fewest in-sync replicas with which the topic takes writes (min.insync.replicas)."),
        flag("before", "It was below before the failure."),
    ),
    title="partitions under min.insync.replicas",
    key=("topic", "partition"),
)

_AFTER = {"cpu_pct", "disk_mb", "disk_pct", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs",
          "leaders", "replicas"}  # fmt: skip
_KEPT = {"cpu_pct", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs", "leaders"}


def _after(column: Column) -> Column:
    if column.name not in _KEPT:
        return replace(column, **_ON_SCREEN.get(column.name, {}))
    meaning = column.meaning + " For a failed broker: of its replicas, as followers; the screen shows a dash."
    return replace(column, meaning=meaning, **_ON_SCREEN.get(column.name, {}))


def _before(column: Column) -> Column:
    meaning = column.meaning.rstrip(".") + ", before."
    return Column(
        column.name + "_before", column.dtype, meaning, column.unit, column.kind, column.header + " was", priority=9
    )


_ON_SCREEN: dict[str, dict[str, Any]] = {
    "state": {"width": 7, "priority": 0},
    "cpu_pct": {"width": 18, "grow": 40},
    "disk_pct": {"width": 11, "priority": 1, "grow": 0},
    "nw_out_kbs": {"width": 13, "grow": 0, "priority": 0},
    "leaders": {"width": 9, "priority": 1},
    "leader_nw_in_kbs": {"width": 13, "priority": 2, "grow": 0},
    "pnw_out_kbs": {"priority": 4},
}
"""Columns that show before and after in one cell are wider; what a failure does not change comes last."""


_WAS = tuple(_before(column) for column in LOAD if column.name in _AFTER)
SCENARIO_BROKERS = Table(
    "scenario_brokers",
    "Broker loads after the reassignment, preferred election or demotion, and before it in the columns ending in _before.",
    (
        *(replace(column, **_ON_SCREEN.get(column.name, {})) for column in (*WHO, *LOAD)),
        *_WAS,
        text("breaches", "Capacity thresholds broken.", width=10, priority=0, grow=40),
    ),
    title="brokers after the change",
    key=("broker",),
    order=("broker",),
)

FAILOVER_BROKERS = Table(
    "failover_brokers",
    "Broker loads after the failure, and before it in the columns ending in _before.",
    (
        *(_after(column) for column in (*WHO, *LOAD)),
        number("nw_out_physical_kbs", "Network out without the fetches of failed followers.", KBS, title="phys. out",
            width=13, priority=2),
        *_WAS,
        number("nw_out_physical_kbs_before", "Network out before.", KBS, hidden=True),
        text("breaches", "Capacity thresholds broken after the failure.", width=10, priority=0, grow=40),
    ),
    title="brokers after the failure",
    key=("broker",),
    order=("broker",),
)  # fmt: skip

FAILURES = Table(
    "failures",
    "Effect of each single failure, worst first.",
    (
        text("failure", "Broker or rack that fails.", priority=0),
        integer("moved", "Partitions whose leader moves.", priority=0),
        integer("leaderless", "Partitions without a leader.", priority=0),
        integer("unclean", "Leaderless partitions that an out-of-sync replica could lead.", priority=2),
        integer("under_min_isr", "Partitions under min.insync.replicas that were not before.", priority=0),
        integer("over", "Survivors that are over a capacity threshold.", title="over capacity", width=13, priority=0),
        integer(
            "newly_over",
            "Survivors newly over a capacity threshold.",
            title="of it new",
            width=9,
            priority=1,
        ),
        text("worst", "Resource and broker nearest to or furthest over its threshold.", width=20, priority=1),
        number(
            "headroom_pct",
            "Distance of that resource to its threshold; negative: over it.",
            "%",
            "percent",
            title="headroom",
            priority=0,
        ),
        flag("survivable", "No partition is without a leader and no survivor over a capacity threshold.", hidden=True),
    ),
    title="single failures",
    key=("failure",),
)

ROLLING = Table(
    "rolling_restart",
    "Rolling restart: CPU of each survivor while each broker is down.",
    (
        Column("down", pl.Int32, "Broker that is down.", kind="id", priority=0),
        BROKER,
        number("cpu_pct", "CPU of the survivor meanwhile.", "%", "percent", priority=0),
        number("nw_out_kbs", "Network out of the survivor meanwhile.", KBS),
        integer("leaders", "Leaders on the survivor meanwhile."),
        flag("cpu_over", "CPU of its host is over the capacity threshold meanwhile."),
        flag("nw_out_over", "Network out of its host is over the capacity threshold meanwhile."),
    ),
    key=("down", "broker"),
)
