"""Result tables of the model: loads of brokers, replicas, partitions, topics and disks."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from engine.broker_load.tables.columns import (
    BROKER,
    IDS,
    KBS,
    LOAD,
    NINE,
    PARTITION,
    TIME,
    TOPIC,
    WHO,
    flag,
    integer,
    number,
    text,
)
from engine.core.tables import Column, Table

SPLIT = integer(
    "split", "Partitions that share the rates of the topic's leader: the true value is 0 to this many times the one shown.",
    title="split", width=5, priority=1,
)  # fmt: skip

BROKERS = Table(
    "brokers",
    "Load of each broker.",
    (
        *WHO,
        number("headroom_pct", "Distance of the fullest resource to its capacity threshold, in % of the capacity; negative: "
            "over it.", "%", "percent", title="headroom", width=8, priority=0),
        text("tightest", "The resource nearest to (or furthest over) its threshold.", title="of", width=6, priority=2),
        *LOAD,
        text("flags", "Warnings: broken thresholds, no metrics.", width=10, priority=0, grow=30),
        number("measured_cpu_pct", "CPU as measured, mean over the windows.", "%", "percent", title="measured", width=8,
            priority=4),
        number("residual_cpu_pct", "Modelled minus measured CPU; near 0 the model fits.", "%", "percent", title="off by",
            width=6, priority=3),
        text("residual_reason", "Why the model differs from the measurement.", hidden=True),
        number("nw_in_cap_kbs", "Network-in capacity.", KBS, hidden=True),
        number("nw_out_cap_kbs", "Network-out capacity.", KBS, hidden=True),
        number("disk_cap_mb", "Disk capacity.", "MB", hidden=True),
        flag("capacity_estimated", "The capacity is the default entry's or assumed.", hidden=True),
        text("source", "model; upstream: read from an answer of Cruise Control; reported by kafka-log-dirs; measured by scrapes.",
             hidden=True),
        Column("cpu_trend", pl.List(pl.Float64), "CPU by window, oldest first.", "%", "spark", "trend", 6, 1, grow=16),
    ),
    key=("broker", "source"),
    order=("broker", "source"),
)  # fmt: skip

REPLICAS = Table(
    "replicas",
    "Load of each replica.",
    (
        replace(TOPIC, width=20, grow=40),
        PARTITION,
        BROKER,
        integer("position", "Position in the assignment; 0 is the preferred leader.", title="pos", width=4, priority=3),
        flag("leader", "Whether it leads.", width=6, priority=0),
        number("cpu_pct_cores", "CPU, 100 is one core.", "% of a core", title="cpu", width=10, priority=0, grow=60),
        number("disk_mb", "Space that it takes on disk.", "MB", title="disk MB", priority=2),
        number("nw_in_kbs", "Network in.", KBS, title="in", width=8, priority=1),
        number("nw_out_kbs", "Network out.", KBS, title="out", width=8, priority=1),
        SPLIT,
        number("cpu_low", "Least CPU: 0 if the topic's rate is split over several partitions.", hidden=True),
        number("cpu_high", "Most CPU: all of the topic's on this broker.", hidden=True),
        number("nw_in_low_kbs", "Least network in.", KBS, hidden=True),
        number("nw_in_high_kbs", "Most network in: the topic's total on the leading broker.", KBS, hidden=True),
        number("nw_out_low_kbs", "Least network out.", KBS, hidden=True),
        number("nw_out_high_kbs", "Most network out: the topic's total on the leading broker.", KBS, hidden=True),
        flag("offline", "The replica is offline.", hidden=True),
        text("source", "model; upstream: read from an answer of Cruise Control; reported by kafka-log-dirs; measured by scrapes.",
             hidden=True),
        number("cpu_removed_pct_cores", "Part of the measured CPU that removing the replica's traffic frees.",
             "% of a core", hidden=True),
    ),
    key=("topic", "partition", "broker", "source"),
)  # fmt: skip

PARTITIONS = Table(
    "partitions",
    "Partitions: whether their windows are valid, their leader, replicas and in-sync replicas.",
    (
        replace(TOPIC, width=16, grow=40),
        PARTITION,
        flag("valid", "All windows valid and not too many extrapolated.", width=5),
        text("state", "What is wrong with its replicas now, worst first: without leader, under min ISR, with offline "
            "replica, under-replicated, reassigning, not led by its first replica.", width=14, priority=1),
        Column("leader", pl.Int32, "Broker id of the leader, -1 without one.", kind="id", width=6, priority=0, grow=6),
        Column("replicas", IDS, "Broker ids in assignment order.", priority=2),
        Column("isr", IDS, "Broker ids in sync.", priority=2),
        number("cpu_pct_cores", "Leader CPU, 100 is one core.", "% of a core", title="cpu", width=12, priority=0, grow=60),
        number("disk_mb", "Space that its leader takes on disk.", "MB", title="disk MB"),
        number("nw_in_kbs", "Network in of the leader.", KBS, title="in", priority=0),
        number("nw_out_kbs", "Network out of the leader.", KBS, title="out", priority=0),
        number("msg_in", "Messages in.", "1/s", title="msg in"),
        number("msg_measured", "Messages in, by the growth of the partition's log as exporters of the cluster report it.",
            "1/s", title="msg meas.", hidden=True),
        SPLIT,
        number("cpu_low", "Least CPU.", "% of a core", hidden=True),
        number("cpu_high", "Most CPU: all of the topic's on its leader.", "% of a core", hidden=True),
        number("nw_in_low_kbs", "Least network in.", KBS, hidden=True),
        number("nw_in_high_kbs", "Most network in: the topic's total on its leader.", KBS, hidden=True),
        number("nw_out_low_kbs", "Least network out.", KBS, hidden=True),
        number("nw_out_high_kbs", "Most network out: the topic's total on its leader.", KBS, hidden=True),
        number("msg_in_low", "Fewest messages in.", "1/s", hidden=True),
        number("msg_in_high", "Most messages in: the topic's total on its leader.", "1/s", hidden=True),
    ),
    key=("topic", "partition"),
)  # fmt: skip

SAMPLES = Table(
    "samples",
    "Partition samples: the leader's values, one row per partition and sampling interval.",
    (TOPIC, PARTITION, Column("leader", pl.Int32, "Broker id of the leader."), TIME, *NINE),
    key=("topic", "partition", "time_ms"),
)

BROKER_SAMPLES = Table(
    "broker_samples",
    "Broker samples of the newest sampling intervals, with Cruise Control's record version.",
    (BROKER, text("host", "Host name."), integer("version", "4 or 5."), TIME, *NINE),
    key=("broker", "time_ms"),
)

WINDOWS = Table(
    "windows",
    "Values of each partition in each window and how they were extrapolated; newest window first.",
    (
        TOPIC,
        PARTITION,
        Column("window_end_ms", pl.Int64, "End of the window.", "epoch ms", "time_ms"),
        *NINE,
        text("extrapolation", "NONE, AVG_AVAILABLE, AVG_ADJACENT, FORCED_INSUFFICIENT, NO_VALID_EXTRAPOLATION."),
    ),
    key=("topic", "partition", "window_end_ms"),
)

HOSTS = Table(
    "hosts",
    "Sums of the brokers on each host, as Cruise Control shows them (percentages add up too).",
    (text("host", "Host name.", priority=0), text("rack", "The rack, or availability zone, it is in."), *LOAD),
    key=("host",),
    order=("host",),
)

RACKS = Table(
    "racks",
    "Sums of the brokers in each rack; percentages are of the rack's live capacity.",
    (
        text("rack", "The rack, or availability zone, it is in.", priority=0),
        integer("brokers", "How many brokers are there.", width=7),
        *LOAD,
    ),
    key=("rack",),
    order=("rack",),
)

TOPICS = Table(
    "topics",
    "Sums over the replicas of each topic, and how unevenly its partitions share its CPU.",
    (
        TOPIC,
        integer("partitions", "How many partitions it has.", title="parts", width=6, priority=1),
        integer("replicas", "How many replicas it holds.", title="repl", width=6, priority=3),
        number("cpu_share_pct", "Share of the CPU of all topics.", "%", "percent", title="cpu %", width=10, priority=0,
            grow=30),
        number("nw_in_share_pct", "Share of the network in of all topics.", "%", "percent", title="in %", width=10,
            priority=0, grow=30),
        number("nw_out_share_pct", "Share of the network out of all topics.", "%", "percent", title="out %", width=10,
            priority=0, grow=30),
        number("disk_share_pct", "Share of the disk of all topics.", "%", "percent", title="disk %", width=10, priority=0,
            grow=30),
        number("cpu_pct_cores", "CPU of all its replicas, 100 is one core.", "% of a core", title="cpu % core", width=10,
            priority=3),
        number("nw_in_kbs", "Network in of all its replicas.", KBS, title="in KB/s", priority=3),
        number("nw_out_kbs", "Network out of its leaders.", KBS, title="out KB/s", priority=3),
        number("disk_mb", "Disk of all its replicas.", "MB", title="disk MB", priority=3),
        number("gini_cpu", "Gini coefficient of leader CPU over partitions: 0 is even.", title="skew",
            priority=2),
        number("top_share_cpu", "Share of the costliest partition in leaders' CPU.", title="top part",
            priority=3),
        number("reported_mb", "Size of all its replicas as kminion reports it.", "MB",
            title="kminion MB", hidden=True),
    ),
    key=("topic",),
    order=("-cpu_share_pct", "-nw_out_share_pct", "-disk_share_pct", "topic"),
)  # fmt: skip

DIRECTORIES = Table(
    "directories",
    "Load of each log directory (JBOD), from kafka-log-dirs and capacity.json.",
    (
        BROKER,
        text("log_dir", "The directory of the data.", width=16, priority=0),
        integer("replicas", "Replicas in it; null where no report lists it."),
        number("disk_mb", "Size of its replicas; null where unknown or offline.", "MB", title="disk MB", priority=0),
        number("capacity_mb",
            "Capacity from capacity.json, the volume's, or the broker's if it has one directory; null if unknown.", "MB",
            title="capacity MB"),
        number("disk_pct", "Share of the capacity.", "%", "percent", title="disk %", width=12, priority=0, grow=24),
        text("error", "Name of the error if it is offline, else null."),
        integer("leaders", "Leader replicas in it, where an answer has them.", hidden=True),
        text("source", "reported by kafka-log-dirs, kminion or the kubelet, or upstream: read from an answer of Cruise Control.",
            hidden=True),
    ),
    key=("broker", "log_dir", "source"),
    order=("broker", "log_dir", "source"),
)  # fmt: skip
