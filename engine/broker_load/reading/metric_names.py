"""Names of exporters' series: the raw metric, its scope, and whether it is a running total.

Sources: the rules that ship with the JMX exporter (0.x and 1.x), Strimzi, koperator, Bitnami's and Confluent's charts; the metric
references of MSK, Redpanda and cAdvisor. Counters are recognised by name, since types and endings differ between JMX exporter
0.x and 1.x.
"""

from __future__ import annotations

import re

import polars as pl

from engine.broker_load.tables import raw_metrics

LABELS = (
    "name", "topic", "partition", "request", "mode", "cpu", "instance", "id", "broker_id", "pod", "kubernetes_pod_name",
    "statefulset_kubernetes_io_pod_name", "container", "resource", "shard", "redpanda_topic", "redpanda_request",
    "address", "rack_id", "cluster", "kafka_cluster", "strimzi_io_cluster", "topic_name", "partition_id",
    "replication_factor", "redpanda_partition", "node", "node_name", "nodename", "persistentvolumeclaim",
)  # fmt: skip
"""Labels that identify a series."""

PODS = ("pod", "kubernetes_pod_name", "statefulset_kubernetes_io_pod_name")
"""Labels that name the pod a series was scraped from; ``instance`` is only its address then."""

CLUSTERS = ("strimzi_io_cluster", "kafka_cluster", "cluster")  # labels that name the cluster

NAMES = (
    r"(?i)^(?:kafka_server_brokertopicmetrics_|kafka_log_log_(?:value|size)\b|node_cpu(?:_seconds_total)?\b|"
    r"process_cpu_seconds_total\b|java_lang_operatingsystem_processcpuload\b|kafka_server_app_info|"
    r"kafka_network_requestmetrics_|kafka_network_requestchannel_value\b|kafka_log_logflushstats_|"
    r"kafka_server_kafkarequesthandlerpool_oneminuterate\b|container_cpu_usage_seconds_total\b|"
    r"container_spec_cpu_(?:quota|period)\b|kube_pod_container_resource_limits\b|redpanda_kafka_request_bytes_total\b|"
    r"redpanda_cpu_busy_seconds_total\b|vectorized_storage_log_partition_size\b|kminion_kafka_broker_info\b|"
    r"kafka_broker_info\b|kafka_topic_partition_(?:leader|replicas|in_sync_replica|current_offset)\b|"
    r"kafka_cluster_partition_(?:value|replicascount|insyncreplicascount)\b|redpanda_kafka_max_offset\b|"
    r"kminion_kafka_topic_info\b|kminion_kafka_topic_partition_high_water_mark\b|"
    r"kminion_kafka_(?:broker|topic)_log_dir_size_total_bytes\b|node_uname_info\b|"
    r"kubelet_volume_stats_(?:used|capacity)_bytes\b)"
)
"""Names, or beginnings of names, of the series that are read."""
ANY = re.compile(NAMES.replace(r"(?i)^", "").encode(), re.IGNORECASE)  # finds such a name anywhere in a file

NODE_CPU = ("node_cpu_seconds_total", "node_cpu")
MACHINE_INFO = "node_uname_info"
MACHINES = ("nodename", "node_name", "node")
"""Labels that name the machine: node_exporter's own, and those of Kubernetes' targets."""
BROKER_INFO = ("kafka_broker_info", "kminion_kafka_broker_info")
TOPIC_INFO = "kminion_kafka_topic_info"

FACTS = pl.DataFrame(
    [
        ("kafka_topic_partition_leader", "", raw_metrics.LEADER),
        ("kafka_topic_partition_replicas", "", raw_metrics.REPLICAS),
        ("kafka_topic_partition_in_sync_replica", "", raw_metrics.IN_SYNC),
        ("kafka_topic_partition_current_offset", "", raw_metrics.END_OFFSET),
        (TOPIC_INFO, "", raw_metrics.REPLICAS),
        ("kminion_kafka_topic_partition_high_water_mark", "", raw_metrics.END_OFFSET),
        ("kminion_kafka_topic_log_dir_size_total_bytes", "", raw_metrics.TOPIC_BYTES),
        ("kminion_kafka_broker_log_dir_size_total_bytes", "", raw_metrics.BROKER_BYTES),
        ("kubelet_volume_stats_used_bytes", "", raw_metrics.VOLUME_BYTES),
        ("kubelet_volume_stats_capacity_bytes", "", raw_metrics.VOLUME_CAPACITY),
        ("redpanda_kafka_max_offset", "", raw_metrics.END_OFFSET),
        ("kafka_cluster_partition_replicascount", "", raw_metrics.LEADS),
        ("kafka_cluster_partition_value", "replicascount", raw_metrics.LEADS),
        ("kafka_cluster_partition_insyncreplicascount", "", raw_metrics.IN_SYNC),
        ("kafka_cluster_partition_value", "insyncreplicascount", raw_metrics.IN_SYNC),
    ],
    schema={"series": pl.String, "kind": pl.String, "fact": pl.UInt8},
    orient="row",
)
"""Facts that kafka_exporter, kminion and the kubelet report about a cluster, and each broker about the partitions it leads
(Kafka's gauges of a partition are 0 on followers); by series and name label, both in lower case."""
GONE_MS = 600_000
"""A broker or partition is gone if exporters have not reported it for this long while they reported others."""
OF_BROKERS = ("kafka_cluster_", "redpanda_")  # prefixes of facts that brokers themselves report

_BROKERS = r"(?i)kafka|redpanda|broker"
_OTHERS = r"(?i)exporter|operator|connect|mirror|bridge|zookeeper|ui|cruise|init|sidecar"


def of_broker(container: pl.Expr) -> pl.Expr:
    """Select containers and volume claims of brokers. A container without a name, or called POD, is the sum of its pod."""
    return (container.str.contains(_BROKERS) & ~container.str.contains(_OTHERS)).fill_null(False)


CONTAINERS = (
    "container_cpu_usage_seconds_total", "container_spec_cpu_quota", "container_spec_cpu_period",
    "kube_pod_container_resource_limits",
)  # fmt: skip
"""Series of containers of any kind."""

_STEMS = (
    "bytesin",
    "bytesout",
    "replicationbytesin",
    "replicationbytesout",
    "totalproducerequests",
    "totalfetchrequests",
    "messagesin",
)
_REQUESTS = {"produce": "PRODUCE", "fetchconsumer": "CONSUMER_FETCH", "fetchfollower": "FOLLOWER_FETCH"}
_WAITS = {"requestqueuetimems": "REQUEST_QUEUE_TIME_MS", "localtimems": "LOCAL_TIME_MS", "totaltimems": "TOTAL_TIME_MS"}
_HOW = {"max": "MAX", "mean": "MEAN", "50thpercentile": "50TH", "999thpercentile": "999TH"}
_NONE = 255
ONE_MINUTE, COUNTED, FIVE_MINUTES = range(3)
"""Sources of a rate, the preferred one first: Cruise Control asks for one-minute rates."""

_Row = tuple[str, str, str, int, int, bool, int]


def _traffic() -> list[_Row]:
    """Return the meters of BrokerTopicMetrics under all their names."""
    rows: list[_Row] = []
    base = "kafka_server_brokertopicmetrics_"
    endings = ("", "_total", "_count", "_count_total", "persec", "persec_total", "persec_count", "persec_count_total")
    for position, stem in enumerate(_STEMS):
        both = raw_metrics.TOTALS[position], raw_metrics.TOPIC[position]
        counted = ((base + ending, stem + "persec") for ending in ("count", "count_total"))
        rows += [(series, kind, "", *both, True, COUNTED) for series, kind in counted]
        rows += [(base + stem + ending, "", "", *both, True, COUNTED) for ending in endings]
        for rate, rank in (("oneminuterate", ONE_MINUTE), ("fiveminuterate", FIVE_MINUTES)):
            rows.append((base + rate, stem + "persec", "", *both, False, rank))
            rows += [(f"{base}{stem}{middle}_{rate}", "", "", *both, False, rank) for middle in ("", "persec")]
    asked = {"produce": raw_metrics.IN, "consume": raw_metrics.OUT, "follower_consume": raw_metrics.REPL_OUT}
    return rows + [
        (
            "redpanda_kafka_request_bytes_total",
            "",
            request,
            raw_metrics.TOTALS[at],
            raw_metrics.TOPIC[at],
            True,
            COUNTED,
        )
        for request, at in asked.items()
    ]


def _requests() -> list[_Row]:
    """Return the request and queue metrics of broker samples."""
    rows: list[_Row] = []

    def add(series: str, kind: str, request: str, metric: str) -> None:
        rows.append((series, kind, request, raw_metrics.ID[metric], _NONE, False, ONE_MINUTE))

    for request, who in _REQUESTS.items():
        add("kafka_network_requestmetrics_oneminuterate", "requestspersec", request, f"BROKER_{who}_REQUEST_RATE")
        for wait, what in _WAITS.items():
            for series, how in _HOW.items():
                add(f"kafka_network_requestmetrics_{series}", wait, request, f"BROKER_{who}_{what}_{how}")
    for queue in ("request", "response"):
        add("kafka_network_requestchannel_value", f"{queue}queuesize", "", f"BROKER_{queue.upper()}_QUEUE_SIZE")
    add("kafka_log_logflushstats_oneminuterate", "logflushrateandtimems", "", "BROKER_LOG_FLUSH_RATE")
    for series, how in _HOW.items():
        add(f"kafka_log_logflushstats_{series}", "logflushrateandtimems", "", f"BROKER_LOG_FLUSH_TIME_MS_{how}")
    pool = "kafka_server_kafkarequesthandlerpool_oneminuterate"
    add(pool, "requesthandleravgidlepercent", "", "BROKER_REQUEST_HANDLER_AVG_IDLE_PERCENT")
    return rows


def _known() -> pl.DataFrame:
    cpu = (
        ("process_cpu_seconds_total", raw_metrics.PROCESS_CPU_SECONDS, True),
        ("redpanda_cpu_busy_seconds_total", raw_metrics.PROCESS_CPU_SECONDS, True),
        ("java_lang_operatingsystem_processcpuload", raw_metrics.PROCESS_LOAD, False),
        ("container_cpu_usage_seconds_total", raw_metrics.CONTAINER_CPU_SECONDS, True),
        ("container_spec_cpu_quota", raw_metrics.CONTAINER_QUOTA, False),
        ("container_spec_cpu_period", raw_metrics.CONTAINER_PERIOD, False),
        ("kube_pod_container_resource_limits", raw_metrics.CONTAINER_CORES, False),
    )
    sizes = (("kafka_log_log_value", "size"), ("kafka_log_log_size", ""), ("vectorized_storage_log_partition_size", ""))
    rows = [
        *_traffic(), *_requests(),
        *((name, kind, "", _NONE, raw_metrics.SIZE, False, ONE_MINUTE) for name, kind in sizes),
        *((name, "", "", metric, _NONE, counter, ONE_MINUTE) for name, metric, counter in cpu),
    ]  # fmt: skip
    schema = {
        "series": pl.String, "kind": pl.String, "asked": pl.String, "broker_metric": pl.UInt8, "topic_metric": pl.UInt8,
        "counter": pl.Boolean, "rank": pl.UInt8,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


KNOWN = _known()
"""By series, name label and request label (all in lower case): the metric id in broker and in topic scope (255: no such
metric), whether it is a running total, and the rank of its source."""
