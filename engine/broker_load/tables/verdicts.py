"""Result tables of judgement: goals, balance, statistics, regression, data quality."""

from __future__ import annotations

from engine.broker_load.tables.columns import BROKER, KBS, PARTITION, TOPIC, flag, integer, number, text
from engine.core.tables import Table

GOALS = Table(
    "goals",
    "Cruise Control's goals that a load snapshot can decide.",
    (
        text("goal", "Goal, Cruise Control's name.", width=32, priority=0, grow=36),
        flag("hard", "Hard goals must hold.", width=4, priority=1),
        flag("violated", "Whether the load breaks it.", title="viol", width=4, priority=0),
        text("detail", "Limit, offender and by how much.", width=30, priority=0, grow=90),
        integer("offenders", "How many brokers, hosts, partitions or topics break it.", hidden=True),
    ),
    key=("goal",),
)

BALANCE = Table(
    "balance",
    "Per resource: cluster load, capacity and balance limits (fractions of capacity).",
    (
        text("resource", "CPU, disk, network in or network out.", width=16, priority=0),
        number("cluster_load", "Load of the cluster.", title="load", priority=0),
        number("cluster_capacity_alive", "Capacity of the alive brokers.", title="capacity"),
        number("avg_utilization", "Load over capacity.", title="average"),
        number("lower_threshold", "Lower balance limit.", title="lower"),
        number("upper_threshold", "Upper balance limit.", title="upper"),
        integer("balanced_brokers", "Brokers within the limits; for potential out: below the capacity limit.",
            title="balanced"),
        text("brokers_over_capacity_threshold", "Brokers above the capacity threshold, separated by |.",
            title="over capacity"),
        flag("low_utilization", "The cluster is under the low-utilisation threshold.", title="low use"),
    ),
    key=("resource",),
)  # fmt: skip

STATS = Table(
    "cluster_stats",
    "Cluster statistics as Cruise Control computes them; host values for CPU and network.",
    (
        text("statistic", "AVG, MAX, MIN, STD.", priority=0),
        number("cpu", "CPU of a host.", "% of a core"),
        number("nw_in_kbs", "Bytes that a host receives.", KBS),
        number("nw_out_kbs", "Bytes that a host sends.", KBS),
        number("disk_mb", "Disk of a broker.", "MB"),
        number("pnw_out_kbs", "Bytes that a host would send if it led every partition that it holds.", KBS),
        number("replicas", "Replicas of a broker."),
        number("leaders", "Leaders of a broker."),
        number("topic_replicas", "Replicas of one topic on a broker."),
    ),
    key=("statistic",),
)

REGRESSION = Table(
    "regression",
    "CPU weights from the broker history: % CPU per KB/s.",
    (
        text("symbol", "a: leader bytes in, b: leader bytes out, c: follower bytes in.", width=6, priority=0, grow=6),
        number("coefficient", "Fitted weight; null if the data do not determine it.", "% per KB/s", priority=0),
        number("low", "Lower end of the 95% confidence interval.", width=10),
        number("high", "Upper end of the 95% confidence interval.", width=10),
        number("completeness", "Share of the training data Cruise Control asks for.", priority=4),
        flag("trained", "Whether Cruise Control's own training would be complete.", priority=4),
        text("verdict", "What the data allow to conclude.", width=60, priority=6),
        text("name", "Cruise Control's name of the coefficient.", priority=4),
        number("upstream", "Coefficient of Cruise Control's own regression.", title="Cruise Control", priority=2),
        number("fitted", "Non-negative fit on evenly chosen samples.", priority=0),
        number("condition", "Condition number of the scaled design.", priority=3),
        number("held_out_error", "Root mean square error on samples not used for the fit.", "%", priority=3),
    ),
    key=("symbol",),
)

COVERAGE = Table(
    "regression_coverage",
    "How far the broker history covers CPU buckets.",
    (
        number("bucket_low", "Lower end of the bucket.", "%", "percent", priority=0),
        integer("observed", "Observations in it.", priority=0),
        integer("used", "Observations chosen for the fit.", priority=0),
        number("fill", "Share of the samples Cruise Control requires.", priority=0),
    ),
    key=("bucket_low",),
)

SKIPPED = Table(
    "skipped",
    "Partitions without a sample and the rule that leaves them out.",
    (TOPIC, PARTITION, BROKER, text("rule", "The rule of Cruise Control that left it out.", width=30, priority=0)),
    key=("topic", "partition"),
)

LEDGER = Table(
    "ledger",
    "Data quality: oddities of the inputs.",
    (
        text("kind", "What kind of oddity.", width=24, priority=0),
        text("subject", "Broker, topic, host or file.", width=24, priority=0),
        integer("count", "How often."),
        text("detail", "In words.", width=60, priority=0),
    ),
    key=("kind", "subject"),
)

DIFFERENCES = Table(
    "answer_differences",
    "Numbers of Cruise Control answers that contradict their other numbers or the model.",
    (
        text("answer", "Which answer.", priority=0),
        text("subject", "Broker, host or partition.", priority=0),
        text("value", "Which number.", priority=0),
        number("given", "As the answer gives it."),
        number("derived", "As derived."),
        text("basis", "What it was derived from.", width=30),
    ),
    key=("answer", "subject", "value", "basis"),
)
