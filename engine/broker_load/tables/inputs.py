"""Input tables of the broker load view: what its readers deliver."""

from __future__ import annotations

import polars as pl

from engine.broker_load.tables.columns import BROKER, IDS, NINE, PARTITION, TIME, TOPIC, flag, integer, number, text
from engine.core.tables import Column, Table

CLUSTER = Column(
    "cluster", pl.UInt8, "Number of the cluster in the file (see clusters); null or 0: no label names it.", kind="id"
)
METRICS = Table(
    "metrics",
    "Raw metrics in the units Kafka reports: bytes/s, bytes, fraction 0-1, 1/s, ms, seconds for counters of CPU.",
    (
        TIME,
        text("host", "Host the scrape came from; null where the broker id is known."),
        BROKER,
        Column("metric", pl.UInt8, "Id of the raw metric (see raw_metrics.py).", kind="id"),
        text("topic", "Topic as reported; null in broker scope."),
        PARTITION,
        number("value", "Value as reported."),
        flag("counter", "A running total: its increase per second counts."),
        CLUSTER,
    ),
    seldom=True,
)
FACTS = Table(
    "cluster_facts",
    "Facts that exporters of a whole cluster report: a value and how long it held.",
    (
        TIME,
        Column("last_ms", pl.Int64, "When it last held.", "epoch ms", "time_ms"),
        text("host", "Exporter, or the broker that reports it about itself."),
        Column("fact", pl.UInt8, "Id of the fact (see raw_metrics.py).", kind="id"),
        BROKER,
        TOPIC,
        PARTITION,
        number("value", "Value as reported."),
        CLUSTER,
    ),
)
CLUSTERS = Table(
    "clusters",
    "Clusters that labels of a file's series name.",
    (
        Column("cluster", pl.UInt8, "Number in the file, from 1.", kind="id"),
        text("name", "Name as the label has it."),
        integer("brokers", "Brokers with series of that label; 0 if only machines have it."),
    ),
)
MACHINES = Table(
    "machines",
    "Names of the machines of hosts.",
    (text("host", "Host of the series: a pod, or an address."), text("machine", "Name of its machine.")),
)
TOPOLOGY = Table(
    "topology",
    "Replicas and leader of each partition.",
    (
        TIME,
        TOPIC,
        PARTITION,
        Column("leader", pl.Int32, "Broker id of the leader, -1 without one."),
        Column("replicas", IDS, "Broker ids in assignment order."),
        Column("isr", IDS, "Broker ids in sync."),
        Column("offline", IDS, "Broker ids whose replica is offline."),
        Column("elr", IDS, "Eligible leader replicas; null if the cluster does not report them."),
        Column("min_isr", pl.Int32, "min.insync.replicas of the topic, null where unknown."),
        Column("unclean", pl.Boolean, "unclean.leader.election.enable of the topic, null where unknown."),
        text("topic_id", "Id of the topic, empty where unknown, null where its head line is missing, too."),
        Column("adding", IDS, "Broker ids that a reassignment adds, null without one."),
        Column("removing", IDS, "Broker ids that a reassignment removes, null without one."),
        Column(
            "observers", IDS, "Broker ids of Confluent's observers, which are not in sync by design; null without any."
        ),
        Column("hidden", pl.Int32, "Further replicas that are, or may be, in sync on brokers that nothing names."),
        Column("short", pl.Boolean, "Whether fewer replicas are in sync than there are, as counts of exporters say."),
    ),
)
REASSIGNING = Table(
    "reassigning",
    "Partitions that a reassignment moves, as kafka-reassign-partitions --list and --verify say.",
    (
        TIME,
        TOPIC,
        PARTITION,
        Column("all_replicas", IDS, "Broker ids of all replicas meanwhile; null where unknown."),
        Column("to", IDS, "Broker ids that it adds; null where unknown."),
        Column("off", IDS, "Broker ids that it removes; null where unknown."),
    ),
)
BROKERS_IN = Table(
    "broker_list",
    "Brokers by id: host, rack, whether alive.",
    (
        BROKER,
        text("host", "Host name."),
        text("rack", "Rack, empty without one."),
        flag("alive", "Whether it was alive."),
        CLUSTER,
    ),
)
CAPACITY = Table(
    "capacity",
    "Capacities of capacity.json, one row per broker; -1 is the default.",
    (
        BROKER,
        number("disk_mb", "Space that it takes on disk.", "MB"),
        number("cpu", "CPU capacity as given; 100 where cores are given.", "%"),
        number("cores", "Cores; null where only a CPU figure is given."),
        number("nw_in_kbs", "Network in.", "KB/s"),
        number("nw_out_kbs", "Network out.", "KB/s"),
        text("log_dirs", "Log directories and their MB as JSON; null unless JBOD."),
        text("doc", "Comment of the entry."),
    ),
)
LOG_DIRS = Table(
    "log_dirs",
    "Log directories of each broker and their errors.",
    (TIME, BROKER, text("log_dir", "The directory of the data."), text("error", "Name of the error, null if none.")),
)
SIZES = Table(
    "log_dir_sizes",
    "Size of each replica as kafka-log-dirs reports it.",
    (
        TIME,
        BROKER,
        text("log_dir", "The directory of the data."),
        TOPIC,
        PARTITION,
        Column("size", pl.Int64, "Bytes.", "B", "bytes"),
        Column("lag", pl.Int64, "Offset lag."),
    ),
)
SAMPLES_IN = Table(
    "finished_samples",
    "Finished partition samples in arrival order.",
    (TOPIC, PARTITION, Column("leader", pl.Int32, "Broker id of the leader, null unknown."), TIME, *NINE),
)
OBSERVATIONS = Table(
    "observations",
    "Broker observations for the regression, in order of arrival.",
    (
        TIME,
        BROKER,
        number("cpu", "CPU utilisation.", "%"),
        number("bytes_in", "Leader bytes in.", "KB/s"),
        number("bytes_out", "Leader bytes out.", "KB/s"),
        number("follower_in", "Replication bytes in.", "KB/s"),
    ),
)
PLANS = Table(
    "plans",
    "Reassignments: planned replica lists.",
    (text("plan", "Caption: current, proposed or the file's own."), TOPIC, PARTITION, Column("replicas", IDS, "")),
)
ANSWER_BROKERS = Table(
    "answer_brokers",
    "Broker rows of Cruise Control answers.",
    (
        text("answer", "Which part of which answer."),
        BROKER,
        text("host", ""),
        text("rack", ""),
        text("state", ""),
        number("cores", ""),
        *(number(name, "", "%" if name.endswith("pct") else "MB" if name.startswith("disk") else "KB/s") for name in (
            "cpu_pct", "disk_mb", "disk_pct", "disk_cap_mb", "nw_in_cap_kbs", "nw_out_cap_kbs", "leader_nw_in_kbs",
            "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs")),
        integer("leaders", ""),
        integer("replicas", ""),
    ),
)  # fmt: skip
ANSWER_PARTITIONS = Table(
    "answer_partitions",
    "Leader rows of partition_load answers.",
    (
        TOPIC,
        PARTITION,
        Column("leader", pl.Int32, ""),
        Column("followers", IDS, ""),
        number("cpu", "", "%"),
        number("disk", "", "MB"),
        number("nw_in", "", "KB/s"),
        number("nw_out", "", "KB/s"),
        number("msg_in", "", "1/s"),
    ),
)
ANSWER_HOSTS = Table(
    "answer_hosts",
    "Host sums of load answers, to check them against their brokers.",
    tuple(c for c in ANSWER_BROKERS.columns if c.name not in {"broker", "state"}),
)
ANSWER_DIRS = Table(
    "answer_dirs",
    "Log directories in load answers (populate_disk_info).",
    (
        text("answer", "Which part of which answer."),
        BROKER,
        text("log_dir", "The directory of the data."),
        number("disk_mb", "Size of its replicas; null on a dead directory.", "MB"),
        number("disk_pct", "Share of its capacity.", "%"),
        integer("leaders", "Leader replicas in it."),
        integer("replicas", "Replicas in it."),
        text("error", "DEAD on a dead directory, else null."),
    ),
)
ANSWER_GOALS = Table(
    "answer_goals",
    "Goal results of optimisation answers.",
    (
        text("goal", "The goal by its name in Cruise Control."),
        text("status", "NO-ACTION, FIXED or VIOLATED."),
        number("score_before", "Balancedness before."),
        number("score_after", "Balancedness after."),
        text("provision", "Provision status."),
    ),
)
INPUTS = (
    METRICS,
    FACTS,
    CLUSTERS,
    MACHINES,
    TOPOLOGY,
    REASSIGNING,
    BROKERS_IN,
    CAPACITY,
    LOG_DIRS,
    SIZES,
    SAMPLES_IN,
    OBSERVATIONS,
    PLANS,
    ANSWER_BROKERS,
    ANSWER_PARTITIONS,
    ANSWER_HOSTS,
    ANSWER_DIRS,
    ANSWER_GOALS,
)
"""All input tables."""
