"""The raw metrics of Cruise Control's reporter: names, ids, scope. Source: ``RawMetricType`` (ordinal = id)."""

from __future__ import annotations

from functools import cache

import polars as pl

_TIMES = ("PRODUCE", "CONSUMER_FETCH", "FOLLOWER_FETCH")
_KINDS = ("REQUEST_QUEUE_TIME_MS", "TOTAL_TIME_MS", "LOCAL_TIME_MS")

NAMES: tuple[str, ...] = (
    "ALL_TOPIC_BYTES_IN",
    "ALL_TOPIC_BYTES_OUT",
    "TOPIC_BYTES_IN",
    "TOPIC_BYTES_OUT",
    "PARTITION_SIZE",
    "BROKER_CPU_UTIL",
    "ALL_TOPIC_REPLICATION_BYTES_IN",
    "ALL_TOPIC_REPLICATION_BYTES_OUT",
    "ALL_TOPIC_PRODUCE_REQUEST_RATE",
    "ALL_TOPIC_FETCH_REQUEST_RATE",
    "ALL_TOPIC_MESSAGES_IN_PER_SEC",
    "TOPIC_REPLICATION_BYTES_IN",
    "TOPIC_REPLICATION_BYTES_OUT",
    "TOPIC_PRODUCE_REQUEST_RATE",
    "TOPIC_FETCH_REQUEST_RATE",
    "TOPIC_MESSAGES_IN_PER_SEC",
    "BROKER_PRODUCE_REQUEST_RATE",
    "BROKER_CONSUMER_FETCH_REQUEST_RATE",
    "BROKER_FOLLOWER_FETCH_REQUEST_RATE",
    "BROKER_REQUEST_HANDLER_AVG_IDLE_PERCENT",
    "BROKER_REQUEST_QUEUE_SIZE",
    "BROKER_RESPONSE_QUEUE_SIZE",
    *(f"BROKER_{who}_{what}_{how}" for what in _KINDS for who in _TIMES for how in ("MAX", "MEAN")),
    "BROKER_LOG_FLUSH_RATE",
    "BROKER_LOG_FLUSH_TIME_MS_MAX",
    "BROKER_LOG_FLUSH_TIME_MS_MEAN",
    *(f"BROKER_{who}_{what}_{how}" for what in _KINDS for who in _TIMES for how in ("50TH", "999TH")),
    "BROKER_LOG_FLUSH_TIME_MS_50TH",
    "BROKER_LOG_FLUSH_TIME_MS_999TH",
)
"""Name of every raw metric; the position is its id."""

ID = {name: number for number, name in enumerate(NAMES)}  # id of a raw metric by name

NODE_IDLE_SECONDS = 100
"""Not Cruise Control's: node_exporter's idle seconds of one CPU (a counter; ``partition`` holds the CPU's number)."""

PROCESS_CPU_SECONDS = 101  # not Cruise Control's: CPU seconds of the broker process (a counter)

PROCESS_LOAD = 102  # not Cruise Control's: the JVM's own ProcessCpuLoad, 0-1

CONTAINER_CPU_SECONDS = 103  # not Cruise Control's: CPU seconds of the broker's container (a counter)

CONTAINER_CORES = 104
"""Not Cruise Control's: cores that the container may use; else quota over period, the two that follow."""
CONTAINER_QUOTA, CONTAINER_PERIOD = 105, 106

LEADER, LEADS, REPLICAS, IN_SYNC, END_OFFSET, TOPIC_BYTES, BROKER_BYTES, VOLUME_BYTES, VOLUME_CAPACITY = range(9)
"""Facts of a whole cluster: id of a partition's leader; replicas of a partition that the broker itself leads (0: it does not);
replicas, and those in sync, of a partition (or of each partition of a topic); end of a partition's log; bytes of all replicas of
a topic; bytes of all replicas on a broker; bytes used of a volume of a broker, and its size."""


@cache
def of_exporter() -> pl.Expr:
    """Select the exporter of a counter by its ``metric``: 0 the broker's traffic, 1 its process, 2 its machine, 3 its container.

    Each exporter may be scraped at times of its own.
    """
    cases = pl.lit(0, pl.UInt8)
    for number, metric in enumerate((PROCESS_CPU_SECONDS, NODE_IDLE_SECONDS, CONTAINER_CPU_SECONDS), 1):
        cases = pl.when(pl.col("metric") == metric).then(pl.lit(number, pl.UInt8)).otherwise(cases)
    return cases


SIZE = ID["PARTITION_SIZE"]
CPU = ID["BROKER_CPU_UTIL"]

TOPIC = (
    ID["TOPIC_BYTES_IN"],
    ID["TOPIC_BYTES_OUT"],
    ID["TOPIC_REPLICATION_BYTES_IN"],
    ID["TOPIC_REPLICATION_BYTES_OUT"],
    ID["TOPIC_PRODUCE_REQUEST_RATE"],
    ID["TOPIC_FETCH_REQUEST_RATE"],
    ID["TOPIC_MESSAGES_IN_PER_SEC"],
)
"""Topic-scope metrics in the order used everywhere here: in, out, replication in, replication out, produce, fetch,
messages."""

TOTALS = (
    ID["ALL_TOPIC_BYTES_IN"],
    ID["ALL_TOPIC_BYTES_OUT"],
    ID["ALL_TOPIC_REPLICATION_BYTES_IN"],
    ID["ALL_TOPIC_REPLICATION_BYTES_OUT"],
    ID["ALL_TOPIC_PRODUCE_REQUEST_RATE"],
    ID["ALL_TOPIC_FETCH_REQUEST_RATE"],
    ID["ALL_TOPIC_MESSAGES_IN_PER_SEC"],
)
"""The broker totals of the same seven, in the same order."""

IN, OUT, REPL_IN, REPL_OUT, PRODUCE, FETCH, MESSAGES = range(7)

UNIT = (1 / 1024, 1 / 1024, 1 / 1024, 1 / 1024, 1.0, 1.0, 1.0)
"""Factor from the reported unit (bytes/s, 1/s) to the model's (KB/s, 1/s)."""

MB = 1 / 1048576  # factor from bytes to the model's megabytes

_MAY_MISS = frozenset(
    {
        "BROKER_LOG_FLUSH_RATE",
        *(f"BROKER_LOG_FLUSH_TIME_MS_{how}" for how in ("MAX", "MEAN", "50TH", "999TH")),
        "BROKER_PRODUCE_REQUEST_RATE",
        "BROKER_CONSUMER_FETCH_REQUEST_RATE",
    }
)
"""Broker metrics whose absence counts as 0 in a broker sample."""

NEEDED_4 = [number for number in range(43) if number not in {*TOPIC, SIZE} and NAMES[number] not in _MAY_MISS]
"""Broker metrics that a broker sample of record version 4 needs."""

NEEDED_5 = [number for number in range(43, len(NAMES)) if NAMES[number] not in _MAY_MISS]
"""Further broker metrics that a sample of version 5 needs."""

SAMPLE = (
    "cpu_usage",
    "disk_usage",
    "leader_bytes_in",
    "leader_bytes_out",
    "produce_rate",
    "fetch_rate",
    "message_in_rate",
    "replication_bytes_in_rate",
    "replication_bytes_out_rate",
)
"""The nine values of a partition sample in the order of Cruise Control's records: cores × fraction, MB, KB/s, 1/s."""
