"""The typed tables of the broker load view: what its readers deliver and what its results show."""

from __future__ import annotations

import polars as pl

from engine.broker_load.metrics import SAMPLE
from engine.tables import Column, Kind, Table


def _text(name: str, meaning: str, **more: object) -> Column:
    return Column(name, pl.String, meaning, **more)  # type: ignore[arg-type]


def _int(name: str, meaning: str, kind: Kind = "count", **more: object) -> Column:
    return Column(name, pl.Int64, meaning, kind=kind, **more)  # type: ignore[arg-type]


def _num(name: str, meaning: str, unit: str = "", kind: Kind = "number", **more: object) -> Column:
    return Column(name, pl.Float64, meaning, unit, kind, **more)  # type: ignore[arg-type]


def _flag(name: str, meaning: str, **more: object) -> Column:
    return Column(name, pl.Boolean, meaning, kind="flag", **more)  # type: ignore[arg-type]


_TOPIC = _text("topic", "Topic name.", width=24, priority=0)
_PARTITION = Column("partition", pl.Int32, "Partition number.", kind="id", title="part", width=5, priority=0)
_BROKER = Column("broker", pl.Int32, "Broker id.", kind="id", width=6, priority=0)
_TIME = Column("time_ms", pl.Int64, "When it was so.", "epoch ms", "time_ms")
_IDS = pl.List(pl.Int32)
_NINE = (
    _num("cpu_usage", "CPU of the leader replica.", "cores"),
    _num("disk_usage", "Size of the partition.", "MB"),
    _num("leader_bytes_in", "Bytes in from producers.", "KB/s"),
    _num("leader_bytes_out", "Bytes out to consumers.", "KB/s"),
    _num("produce_rate", "Produce requests.", "1/s"),
    _num("fetch_rate", "Fetch requests.", "1/s"),
    _num("message_in_rate", "Messages in.", "1/s"),
    _num("replication_bytes_in_rate", "Topic-level replication bytes in (Kafka publishes none).", "KB/s"),
    _num("replication_bytes_out_rate", "Topic-level replication bytes out (Kafka publishes none).", "KB/s"),
)
assert tuple(c.name for c in _NINE) == SAMPLE

# ---------------------------------------------------------------- inputs

METRICS = Table(
    "metrics",
    "Raw metrics in the units Kafka reports: bytes/s, bytes, fraction 0-1, 1/s, ms, seconds for counters of CPU.",
    (
        _TIME,
        _text("host", "Host the scrape came from; null where the broker id is known."),
        _BROKER,
        Column("metric", pl.UInt8, "Id of the raw metric (see metrics.py).", kind="id"),
        _text("topic", "Topic as reported; null in broker scope."),
        _PARTITION,
        _num("value", "Value as reported."),
        _flag("counter", "A running total: its increase per second counts."),
    ),
)
TOPOLOGY = Table(
    "topology",
    "Where the replicas of each partition are and who leads.",
    (
        _TIME,
        _TOPIC,
        _PARTITION,
        Column("leader", pl.Int32, "Broker id of the leader, -1 without one."),
        Column("replicas", _IDS, "Broker ids in assignment order."),
        Column("isr", _IDS, "Broker ids in sync."),
        Column("offline", _IDS, "Broker ids whose replica is offline."),
        Column("elr", _IDS, "Eligible leader replicas; null where the cluster does not know them."),
        Column("min_isr", pl.Int32, "min.insync.replicas of the topic, null where not said."),
        Column("unclean", pl.Boolean, "unclean.leader.election.enable of the topic, null where not said."),
        _text("topic_id", "Id of the topic, null where not said."),
    ),
)
BROKERS_IN = Table(
    "broker_list",
    "Brokers by id: host, rack, whether alive.",
    (
        _BROKER,
        _text("host", "Host name."),
        _text("rack", "Rack, empty without one."),
        _flag("alive", "Whether it was alive."),
    ),
)
CAPACITY = Table(
    "capacity",
    "Capacities of capacity.json, one row per broker; -1 is the default.",
    (
        _BROKER,
        _num("disk_mb", "Disk.", "MB"),
        _num("cpu", "CPU capacity as given; 100 where cores are given.", "%"),
        _num("cores", "Cores; 1 where only a CPU figure is given."),
        _num("nw_in_kbs", "Network in.", "KB/s"),
        _num("nw_out_kbs", "Network out.", "KB/s"),
        _text("log_dirs", "Log directories and their MB as JSON; null unless JBOD."),
        _text("doc", "Comment of the entry."),
    ),
)
LOG_DIRS = Table(
    "log_dirs",
    "Log directories of each broker and their errors.",
    (_TIME, _BROKER, _text("log_dir", "Directory."), _text("error", "Name of the error, null if none.")),
)
SIZES = Table(
    "log_dir_sizes",
    "Size of each replica as kafka-log-dirs reports it.",
    (
        _TIME,
        _BROKER,
        _text("log_dir", "Directory."),
        _TOPIC,
        _PARTITION,
        Column("size", pl.Int64, "Bytes.", "B", "bytes"),
        Column("lag", pl.Int64, "Offset lag."),
    ),
)
SAMPLES_IN = Table(
    "finished_samples",
    "Finished partition samples in arrival order (CSV or sample-store records).",
    (_TOPIC, _PARTITION, Column("leader", pl.Int32, "Broker id of the leader, null unknown."), _TIME, *_NINE),
)
OBSERVATIONS = Table(
    "observations",
    "Broker observations for the regression, in order of arrival.",
    (
        _TIME,
        _BROKER,
        _num("cpu", "CPU utilisation.", "%"),
        _num("bytes_in", "Leader bytes in.", "KB/s"),
        _num("bytes_out", "Leader bytes out.", "KB/s"),
        _num("follower_in", "Replication bytes in.", "KB/s"),
    ),
)
PLANS = Table(
    "plans",
    "Reassignments: planned replica lists.",
    (_text("plan", "Caption: current, proposed or the file's own."), _TOPIC, _PARTITION, Column("replicas", _IDS, "")),
)
ANSWER_BROKERS = Table(
    "answer_brokers",
    "Broker rows of Cruise Control answers.",
    (
        _text("answer", "Which part of which answer."),
        _BROKER,
        _text("host", ""),
        _text("rack", ""),
        _text("state", ""),
        _num("cores", ""),
        _num("cpu_pct", "", "%"),
        _num("disk_mb", "", "MB"),
        _num("disk_pct", "", "%"),
        _num("disk_cap_mb", "", "MB"),
        _num("nw_in_cap_kbs", "", "KB/s"),
        _num("nw_out_cap_kbs", "", "KB/s"),
        _num("leader_nw_in_kbs", "", "KB/s"),
        _num("follower_nw_in_kbs", "", "KB/s"),
        _num("nw_out_kbs", "", "KB/s"),
        _num("pnw_out_kbs", "", "KB/s"),
        _int("leaders", ""),
        _int("replicas", ""),
    ),
)
ANSWER_PARTITIONS = Table(
    "answer_partitions",
    "Leader rows of partition_load answers.",
    (
        _TOPIC,
        _PARTITION,
        Column("leader", pl.Int32, ""),
        Column("followers", _IDS, ""),
        _num("cpu", "", "%"),
        _num("disk", "", "MB"),
        _num("nw_in", "", "KB/s"),
        _num("nw_out", "", "KB/s"),
        _num("msg_in", "", "1/s"),
    ),
)
ANSWER_HOSTS = Table(
    "answer_hosts",
    "Host sums of load answers, to check them against their brokers.",
    tuple(c for c in ANSWER_BROKERS.columns if c.name not in {"broker", "state"}),
)
ANSWER_GOALS = Table(
    "answer_goals",
    "Goal results of optimisation answers.",
    (
        _text("goal", ""),
        _text("status", "NO-ACTION, FIXED or VIOLATED."),
        _num("score_before", "Balancedness before."),
        _num("score_after", "Balancedness after."),
        _text("provision", "Provision status."),
    ),
)
INPUTS = (
    METRICS,
    TOPOLOGY,
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
    ANSWER_GOALS,
)
"""All input tables."""

# ---------------------------------------------------------------- results

_KBS = "KB/s"
_LOAD = (
    _num("cores", "Cores; 0 on a dead broker.", width=5, priority=4),
    _num("cpu_pct", "CPU, share of the broker's cores.", "%", "percent", title="cpu %", width=16, priority=0),
    _num("disk_mb", "Disk: sum over the replicas.", "MB", title="disk MB", priority=3),
    _num("disk_pct", "Disk, share of the capacity.", "%", "percent", title="disk %", width=16, priority=0),
    _num("leader_nw_in_kbs", "Network in of the leader replicas.", _KBS, title="leader in", priority=1),
    _num("follower_nw_in_kbs", "Network in of the follower replicas.", _KBS, title="follower in", priority=2),
    _num("nw_out_kbs", "Network out.", _KBS, title="out", priority=1),
    _num("pnw_out_kbs", "Network out if it led all it holds.", _KBS, title="potential out", priority=2),
    _int("leaders", "Leader replicas.", title="lead", width=6, priority=1),
    _int("replicas", "Replicas.", title="repl", width=6, priority=1),
)
_WHO = (
    _BROKER,
    _text("host", "Host name.", width=16, priority=2),
    _text("rack", "Rack.", width=8, priority=3),
    _text("state", "ALIVE, DEAD, BAD_DISKS; FAILED in a simulation.", width=9, priority=1),
)
BROKERS = Table(
    "brokers",
    "Load of each broker.",
    (
        *_WHO,
        *_LOAD,
        _text("flags", "What to look at: thresholds broken, estimated capacity, no metrics.", width=18, priority=2),
        _num(
            "measured_cpu_pct", "CPU as measured, mean over the windows.", "%", "percent", title="measured", priority=2
        ),
        _num("residual_cpu_pct", "Modelled minus measured CPU.", "%", "percent", title="residual", priority=1),
        _text("residual_reason", "Why the model differs from the measurement.", hidden=True),
        _num("nw_in_cap_kbs", "Network-in capacity.", _KBS, hidden=True),
        _num("nw_out_cap_kbs", "Network-out capacity.", _KBS, hidden=True),
        _num("disk_cap_mb", "Disk capacity.", "MB", hidden=True),
        _flag("capacity_estimated", "The capacity is the default entry's or assumed.", hidden=True),
        _text("source", "model, or upstream where read from an answer.", hidden=True),
        Column("cpu_trend", pl.List(pl.Float64), "CPU by window, oldest first.", "%", "spark", "trend", priority=3),
    ),
    key=("broker", "source"),
    order=("broker", "source"),
)
REPLICAS = Table(
    "replicas",
    "Load of each replica.",
    (
        _TOPIC,
        _PARTITION,
        _BROKER,
        _int("position", "Position in the assignment; 0 is the preferred leader.", title="pos", width=4, priority=2),
        _flag("leader", "Whether it leads.", width=6, priority=0),
        _num("cpu_pct_cores", "CPU, 100 is one core.", "% of a core", title="cpu", width=18, priority=0),
        _num("disk_mb", "Disk.", "MB", priority=1),
        _num("nw_in_kbs", "Network in.", _KBS, title="in", priority=1),
        _num("nw_out_kbs", "Network out.", _KBS, title="out", priority=1),
        _num("cpu_low", "Least CPU: 0 where the topic's rate is split evenly over several leaders.", hidden=True),
        _num("cpu_high", "Most CPU: all of the topic's on this broker.", hidden=True),
        _num("nw_in_low_kbs", "Least network in.", _KBS, hidden=True),
        _num("nw_in_high_kbs", "Most network in: the topic's total on the leading broker.", _KBS, hidden=True),
        _num("nw_out_low_kbs", "Least network out.", _KBS, hidden=True),
        _num("nw_out_high_kbs", "Most network out: the topic's total on the leading broker.", _KBS, hidden=True),
        _flag("offline", "The replica is offline.", hidden=True),
        _text("source", "model, or upstream where read from an answer.", hidden=True),
        _num("cpu_removed_pct_cores", "CPU that the fitted model frees when the partition's traffic is removed.",
             "% of a core", hidden=True),
    ),
    key=("topic", "partition", "broker", "source"),
)  # fmt: skip
SAMPLES = Table(
    "samples",
    "Partition samples: the leader's values, one row per partition and sampling interval.",
    (_TOPIC, _PARTITION, Column("leader", pl.Int32, "Broker id of the leader."), _TIME, *_NINE),
    key=("topic", "partition", "time_ms"),
)
BROKER_SAMPLES = Table(
    "broker_samples",
    "Broker samples of the newest sampling intervals, with upstream's record version.",
    (_BROKER, _text("host", "Host name."), _int("version", "4 or 5."), _TIME, *_NINE),
    key=("broker", "time_ms"),
)
SCENARIO_BROKERS = Table(
    "scenario_brokers",
    "Broker loads after the demotion or reassignment.",
    (*_WHO, *_LOAD, _text("breaches", "Capacity thresholds broken.", width=24)),
    key=("broker",),
    order=("broker",),
)
SCENARIO_MOVES = Table(
    "scenario_moves",
    "What the demotion or reassignment changes.",
    (
        _TOPIC,
        _PARTITION,
        Column("old_leader", pl.Int32, "Leader before.", kind="id"),
        Column("new_leader", pl.Int32, "Leader after.", kind="id"),
        Column("replicas", _IDS, "Replicas before."),
        Column("new_replicas", _IDS, "Replicas after."),
        _num("moved_mb", "Data that has to move.", "MB"),
    ),
    key=("topic", "partition"),
)
ADD_BROKERS = Table(
    "add_brokers",
    "Bounds after adding brokers of the typical capacity: what no placement can beat.",
    (
        _text("resource", "Resource.", priority=0),
        _num("average_before_pct", "Utilisation of the cluster now.", "%", "percent"),
        _num(
            "average_after_pct",
            "Utilisation with the new brokers: no broker can be below it everywhere.",
            "%",
            "percent",
        ),
        _num("highest_before_pct", "Utilisation of the fullest broker now.", "%", "percent"),
        _num("least_highest_after_pct", "Lowest possible utilisation of the fullest broker.", "%", "percent"),
        _text("bound", "What sets that bound.", width=40),
    ),
    key=("resource",),
)
WINDOWS = Table(
    "windows",
    "Values of each partition in each window and how they were extrapolated; newest window first.",
    (
        _TOPIC,
        _PARTITION,
        Column("window_end_ms", pl.Int64, "End of the window.", "epoch ms", "time_ms"),
        *_NINE,
        _text("extrapolation", "NONE, AVG_AVAILABLE, AVG_ADJACENT, FORCED_INSUFFICIENT, NO_VALID_EXTRAPOLATION."),
    ),
    key=("topic", "partition", "window_end_ms"),
)
PARTITIONS = Table(
    "partitions",
    "Partitions: whether their windows are valid, their leader, replicas and in-sync replicas.",
    (
        _TOPIC,
        _PARTITION,
        _flag("valid", "All windows valid and not too many extrapolated.", width=5),
        Column("leader", pl.Int32, "Broker id of the leader, -1 without one.", kind="id"),
        Column("replicas", _IDS, "Broker ids in assignment order."),
        Column("isr", _IDS, "Broker ids in sync."),
        _num("cpu_pct_cores", "Leader CPU, 100 is one core.", "% of a core", title="cpu", width=18, priority=0),
        _num("disk_mb", "Size.", "MB", title="disk MB"),
        _num("nw_in_kbs", "Network in of the leader.", _KBS, title="in"),
        _num("nw_out_kbs", "Network out of the leader.", _KBS, title="out"),
        _num("msg_in", "Messages in.", "1/s"),
    ),
    key=("topic", "partition"),
)
GOALS = Table(
    "goals",
    "Cruise Control's goals that a load snapshot can decide.",
    (
        _text("goal", "Goal, upstream's name.", width=36, priority=0),
        _flag("hard", "Hard goals may not be given up.", priority=1),
        _flag("violated", "Whether the load breaks it.", priority=0),
        _text("detail", "Limit, offender and by how much.", width=60, priority=0),
        _int("offenders", "How many brokers, hosts, partitions or topics break it.", hidden=True),
    ),
    key=("goal",),
)
BALANCE = Table(
    "balance",
    "Per resource: cluster load, capacity and the limits a balanced broker keeps (fractions of capacity).",
    (
        _text("resource", "Resource.", width=16, priority=0),
        _num("cluster_load", "Load of the cluster.", title="load", priority=0),
        _num("cluster_capacity_alive", "Capacity of the alive brokers.", title="capacity"),
        _num("avg_utilization", "Load over capacity.", title="average"),
        _num("lower_threshold", "Lower balance limit.", title="lower"),
        _num("upper_threshold", "Upper balance limit.", title="upper"),
        _int(
            "balanced_brokers",
            "Brokers within the limits; for potential out: below the capacity limit.",
            title="balanced",
        ),
        _text(
            "brokers_over_capacity_threshold",
            "Brokers above the capacity threshold, separated by |.",
            title="over capacity",
        ),
        _flag("low_utilization", "The cluster is under the low-utilisation threshold.", title="low use"),
    ),
    key=("resource",),
)
STATS = Table(
    "cluster_stats",
    "Cluster statistics as upstream computes them; host values for CPU and network.",
    (
        _text("statistic", "AVG, MAX, MIN, STD.", priority=0),
        _num("cpu", "", "% of a core"),
        _num("nw_in_kbs", "", _KBS),
        _num("nw_out_kbs", "", _KBS),
        _num("disk_mb", "", "MB"),
        _num("pnw_out_kbs", "", _KBS),
        _num("replicas", ""),
        _num("leaders", ""),
        _num("topic_replicas", ""),
    ),
    key=("statistic",),
)
HOSTS = Table(
    "hosts",
    "Sums of the brokers on each host, as upstream shows them (percentages add up too).",
    (_text("host", "Host name.", priority=0), _text("rack", "Rack."), *_LOAD),
    key=("host",),
    order=("host",),
)
FAILOVER_LEADERS = Table(
    "failover_leaders",
    "Who takes over each partition that a failed broker led.",
    (
        _TOPIC,
        _PARTITION,
        Column("old_leader", pl.Int32, "Failed leader.", kind="id", width=10),
        Column("new_leader", pl.Int32, "New leader; null: leaderless.", kind="id", width=10),
        _flag("unclean", "Only an out-of-sync replica could lead: data would be lost."),
        _flag("under_min_isr", "Too few in-sync replicas are left for acks=all."),
    ),
    key=("topic", "partition"),
)
FAILOVER_MIN_ISR = Table(
    "failover_min_isr",
    "All partitions that fall under their min.insync.replicas.",
    (
        _TOPIC,
        _PARTITION,
        Column("leader", pl.Int32, "Leader afterwards; null: leaderless.", kind="id"),
        _int("in_sync", "In-sync replicas left."),
        _int("min_isr", "min.insync.replicas."),
        _flag("before", "It was under it already."),
    ),
    key=("topic", "partition"),
)
_AFTER = {"cpu_pct", "disk_mb", "disk_pct", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs", "pnw_out_kbs",
          "leaders", "replicas"}  # fmt: skip


def _before(column: Column) -> Column:
    return Column(
        column.name + "_before",
        column.dtype,
        column.meaning.rstrip(".") + ", before.",
        column.unit,
        column.kind,
        column.header + " was",
        column.width,
        column.priority + 1,
    )


FAILOVER_BROKERS = Table(
    "failover_brokers",
    "Broker loads after the failure, and before it in the columns ending in _before.",
    (
        *_WHO,
        *_LOAD,
        _num("nw_out_physical_kbs", "Network out without the fetches of failed followers.", _KBS, title="out physical"),
        *(_before(c) for c in _LOAD if c.name in _AFTER),
        _num("nw_out_physical_kbs_before", "Network out before.", _KBS, hidden=True),
        _text("breaches", "Capacity thresholds broken after the failure.", width=24, priority=0),
    ),
    key=("broker",),
    order=("broker",),
)
FAILURES = Table(
    "failures",
    "What each single failure does, worst first.",
    (
        _text("failure", "Broker or rack that fails.", priority=0),
        _int("moved", "Partitions whose leader moves.", priority=0),
        _int("leaderless", "Partitions without a leader.", priority=0),
        _int("unclean", "Leaderless ones an out-of-sync replica could take.", priority=2),
        _int("under_min_isr", "Partitions under min.insync.replicas that were not before.", priority=0),
        _int("breaches", "Capacity thresholds newly broken on survivors.", priority=0),
        _text("worst", "Resource and broker nearest to or furthest over its threshold.", width=30, priority=1),
        _num("headroom_pct", "Distance of that one to its threshold; negative: over it.", "%", "percent", priority=0),
    ),
    key=("failure",),
)
ROLLING = Table(
    "rolling_restart",
    "Rolling restart: CPU of each survivor while each broker is down.",
    (
        Column("down", pl.Int32, "Broker that is down.", kind="id", priority=0),
        _BROKER,
        _num("cpu_pct", "CPU meanwhile.", "%", "percent", priority=0),
        _num("nw_out_kbs", "Network out meanwhile.", _KBS),
        _int("leaders", "Leaders meanwhile."),
    ),
    key=("down", "broker"),
)
REGRESSION = Table(
    "regression",
    "CPU weights from the broker history: % CPU per KB/s.",
    (
        _text("symbol", "a: leader bytes in, b: leader bytes out, c: follower bytes in.", priority=0),
        _num("coefficient", "Fitted weight; null where the data do not give one.", "% per KB/s", priority=0),
        _num("low", "Lower end of the 95 % confidence interval."),
        _num("high", "Upper end of the 95 % confidence interval."),
        _num("completeness", "Share of the training data upstream asks for."),
        _flag("trained", "Whether upstream's own training would be complete."),
        _text("verdict", "What the data allow to say.", width=60, priority=0),
        _text("name", "Upstream's name of the coefficient.", priority=4),
        _num("upstream", "Coefficient of upstream's own regression.", priority=2),
        _num("fitted", "Non-negative fit on evenly chosen samples.", priority=0),
        _num("condition", "Condition number of the scaled design."),
        _num("held_out_error", "Root mean square error on samples not used for the fit.", "%"),
    ),
    key=("symbol",),
)
COVERAGE = Table(
    "regression_coverage",
    "How far the broker history covers CPU buckets.",
    (
        _num("bucket_low", "Lower end of the bucket.", "%", "percent", priority=0),
        _int("observed", "Observations in it.", priority=0),
        _int("used", "Observations chosen for the fit.", priority=0),
        _num("fill", "Share of upstream's required samples.", priority=0),
    ),
    key=("bucket_low",),
)
SKIPPED = Table(
    "skipped",
    "Partitions without a sample and the rule that left them out.",
    (_TOPIC, _PARTITION, _BROKER, _text("rule", "Rule.", width=30, priority=0)),
    key=("topic", "partition"),
)
LEDGER = Table(
    "ledger",
    "Data quality: what was odd in the inputs.",
    (
        _text("kind", "What kind of oddity.", width=24, priority=0),
        _text("subject", "Broker, topic, host or file.", width=24, priority=0),
        _int("count", "How often."),
        _text("detail", "In words.", width=60, priority=0),
    ),
    key=("kind", "subject"),
)
DIRECTORIES = Table(
    "directories",
    "Load of each log directory (JBOD), from kafka-log-dirs and capacity.json.",
    (
        _BROKER,
        _text("log_dir", "Directory."),
        _int("replicas", "Replicas in it; null where no report lists it."),
        _num("disk_mb", "What they take; null where unknown or offline.", "MB"),
        _num("capacity_mb", "Capacity from capacity.json; null where it names none.", "MB"),
        _num("disk_pct", "Share of the capacity.", "%", "percent"),
        _text("error", "Name of the error if it is offline, else null."),
    ),
    key=("broker", "log_dir"),
    order=("broker", "log_dir"),
)
RACKS = Table(
    "racks",
    "Sums of the brokers in each rack; percentages are of the rack's live capacity.",
    (_text("rack", "Rack.", priority=0), _int("brokers", "Brokers.", width=7), *_LOAD),
    key=("rack",),
    order=("rack",),
)
TOPICS = Table(
    "topics",
    "Sums over the replicas of each topic, and how unevenly its partitions share its CPU.",
    (
        _TOPIC,
        _int("partitions", "Partitions.", title="parts", width=6, priority=1),
        _int("replicas", "Replicas.", title="repl", width=6, priority=3),
        _num(
            "cpu_pct_cores",
            "CPU of all its replicas, 100 is one core.",
            "% of a core",
            title="cpu",
            width=18,
            priority=0,
        ),
        _num("disk_mb", "Disk of all its replicas.", "MB", title="disk MB", width=18, priority=1),
        _num("nw_in_kbs", "Network in of all its replicas.", _KBS, title="in", priority=1),
        _num("nw_out_kbs", "Network out of its leaders.", _KBS, title="out", priority=1),
        _num(
            "gini_cpu",
            "Gini coefficient of leader CPU over partitions: 0 is even.",
            kind="ratio",
            title="skew",
            priority=2,
        ),
        _num(
            "top_share_cpu",
            "Share of the costliest partition in leaders' CPU.",
            kind="ratio",
            title="top part",
            priority=3,
        ),
    ),
    key=("topic",),
    order=("topic",),
)
DIFFERENCES = Table(
    "answer_differences",
    "Numbers of Cruise Control answers that do not follow from their own other numbers or from the model.",
    (
        _text("answer", "Which answer.", priority=0),
        _text("subject", "Broker, host or partition.", priority=0),
        _text("value", "Which number.", priority=0),
        _num("given", "As the answer says."),
        _num("derived", "As derived."),
        _text("basis", "What it was derived from.", width=30),
    ),
    key=("answer", "subject", "value", "basis"),
)
RESULTS = (
    BROKERS,
    REPLICAS,
    PARTITIONS,
    SAMPLES,
    WINDOWS,
    GOALS,
    BALANCE,
    STATS,
    DIRECTORIES,
    HOSTS,
    RACKS,
    TOPICS,
    BROKER_SAMPLES,
    FAILURES,
    FAILOVER_LEADERS,
    FAILOVER_BROKERS,
    FAILOVER_MIN_ISR,
    ROLLING,
    SCENARIO_BROKERS,
    SCENARIO_MOVES,
    ADD_BROKERS,
    REGRESSION,
    COVERAGE,
    SKIPPED,
    LEDGER,
    DIFFERENCES,
    ANSWER_GOALS,
)
"""All result tables, the main one first."""
