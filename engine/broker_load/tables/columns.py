"""Columns that several tables of the broker load view share, and short ways to declare one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.core.tables import Column, Kind

if TYPE_CHECKING:
    import numpy as np


def text(name: str, meaning: str, **more: object) -> Column:
    """Return a column of text."""
    return Column(name, pl.String, meaning, **more)  # type: ignore[arg-type]


def integer(name: str, meaning: str, kind: Kind = "count", **more: object) -> Column:
    """Return a column of whole numbers."""
    return Column(name, pl.Int64, meaning, kind=kind, **more)  # type: ignore[arg-type]


def number(name: str, meaning: str, unit: str = "", kind: Kind = "number", **more: object) -> Column:
    """Return a column of numbers."""
    return Column(name, pl.Float64, meaning, unit, kind, **more)  # type: ignore[arg-type]


def flag(name: str, meaning: str, **more: object) -> Column:
    """Return a column of yes or no."""
    return Column(name, pl.Boolean, meaning, kind="flag", **more)  # type: ignore[arg-type]


def known(name: str, value: np.ndarray) -> pl.Series:
    """Return a series with NaN, which means unknown, as null."""
    return pl.Series(name, value, dtype=pl.Float64, nan_to_null=True)


TOPIC = text("topic", "Topic name.", width=24, priority=0)
PARTITION = Column("partition", pl.Int32, "Partition number.", kind="id", title="part", width=5, priority=0, grow=5)
BROKER = Column("broker", pl.Int32, "Broker id.", kind="id", width=6, priority=0, grow=6)
TIME = Column("time_ms", pl.Int64, "Time of the observation.", "epoch ms", "time_ms")
IDS = pl.List(pl.Int32)
NINE = (
    number("cpu_usage", "CPU of the leader replica.", "cores"),
    number("disk_usage", "Size of the partition.", "MB"),
    number("leader_bytes_in", "Bytes in from producers.", "KB/s"),
    number("leader_bytes_out", "Bytes out to consumers.", "KB/s"),
    number("produce_rate", "Produce requests.", "1/s"),
    number("fetch_rate", "Fetch requests.", "1/s"),
    number("message_in_rate", "Messages in.", "1/s"),
    number("replication_bytes_in_rate", "Topic-level replication bytes in (Kafka publishes none).", "KB/s"),
    number("replication_bytes_out_rate", "Topic-level replication bytes out (Kafka publishes none).", "KB/s"),
)

assert tuple(c.name for c in NINE) == SAMPLE

KBS = "KB/s"
LOAD = (
    number("cores", "Cores; 0 on a dead broker (Cruise Control: NumCore).", "", "count", width=5, priority=7),
    number(
        "cpu_pct",
        "CPU, share of the broker's cores (Cruise Control: CpuPct).",
        "%",
        "percent",
        title="cpu %",
        width=8,
        priority=0,
        grow=22,
    ),
    number("cpu_pct_cores", "CPU, 100 is one core.", "% of one core", title="cpu % core", width=10, priority=9),
    number("disk_mb", "Disk: sum over the replicas (Cruise Control: DiskMB).", "MB", title="disk MB", priority=5),
    number(
        "disk_pct",
        "Disk, share of the capacity (Cruise Control: DiskPct).",
        "%",
        "percent",
        title="disk %",
        width=8,
        priority=0,
        grow=22,
    ),
    number(
        "leader_nw_in_kbs",
        "Network in of the leader replicas (Cruise Control: LeaderNwInRate).",
        KBS,
        title="led in KB/s",
        width=11,
        priority=1,
        grow=22,
    ),
    number(
        "follower_nw_in_kbs",
        "Network in of the follower replicas (Cruise Control: FollowerNwInRate).",
        KBS,
        title="fol. in KB/s",
        width=12,
        priority=4,
    ),
    number(
        "nw_out_kbs", "Network out (Cruise Control: NwOutRate).", KBS, title="out KB/s", width=8, priority=1, grow=22
    ),
    number(
        "pnw_out_kbs",
        "Network out if it led all its replicas (Cruise Control: PnwOutRate).",
        KBS,
        title="pot. out KB/s",
        width=13,
        priority=4,
        grow=22,
    ),
    integer("leaders", "Leader replicas.", title="leads", width=6, priority=2),
    integer("replicas", "How many replicas it holds.", title="repl", width=6, priority=8),
)
"""Load columns that several tables share."""

WHO = (
    BROKER,
    text("host", "Host name.", width=16, priority=5),
    text("rack", "The rack, or availability zone, it is in.", width=8, priority=6),
    text("state", "ALIVE, DEAD, BAD_DISKS; FAILED in a simulation.", width=9, priority=3),
)
