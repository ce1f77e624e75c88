"""What of the broker load view goes on to Prometheus."""

from __future__ import annotations

from engine.output.exposition import KB, MB, PERCENT, Gauge

_SOURCES = ("source", ("model", "measured", "reported", "upstream"))
_BROKER = {"broker": "broker", "host": "host", "rack": "rack"}


def _broker(name: str, column: str, meaning: str, factor: float) -> Gauge:
    return Gauge(f"broker_{name}", "brokers", column, meaning, _BROKER, factor, each=True, only=_SOURCES)


GAUGES = (
    _broker("cpu_ratio", "cpu_pct", "CPU of the broker as modelled, of all its cores.", PERCENT),
    _broker("cpu_measured_ratio", "measured_cpu_pct", "CPU of the broker as measured, of all its cores.", PERCENT),
    _broker("disk_bytes", "disk_mb", "Bytes of all replicas on the broker.", MB),
    _broker("leader_in_bytes_per_second", "leader_nw_in_kbs", "Bytes in of the replicas it leads.", KB),
    _broker("follower_in_bytes_per_second", "follower_nw_in_kbs", "Bytes in of the replicas it follows.", KB),
    _broker("out_bytes_per_second", "nw_out_kbs", "Bytes out to consumers and followers.", KB),
    _broker("potential_out_bytes_per_second", "pnw_out_kbs", "Bytes out if it led all its replicas.", KB),
    _broker("capacity_disk_bytes", "disk_cap_mb", "Disk capacity.", MB),
    _broker("capacity_in_bytes_per_second", "nw_in_cap_kbs", "Network-in capacity.", KB),
    _broker("capacity_out_bytes_per_second", "nw_out_cap_kbs", "Network-out capacity.", KB),
    _broker("headroom_ratio", "headroom_pct", "Distance of the fullest resource to its threshold, of the capacity.", PERCENT),
    _broker("leaders", "leaders", "Replicas it leads.", 1.0),
    _broker("replicas", "replicas", "Replicas on it.", 1.0),
    Gauge("broker_goal_violated", "goals", "violated", "1 where a goal is violated.", {"goal": "goal"}, each=True),
    Gauge("broker_single_failure_survivable", "failures", "survivable",
          "1 where the rest can carry the load when this broker or rack dies.", {"failure": "failure"}, each=True),
    Gauge("topic_cpu_cores", "topics", "cpu_pct_cores", "CPU of all replicas of the topic.", {"topic": "topic"}, PERCENT,
          adds=True),
    Gauge("topic_in_bytes_per_second", "topics", "nw_in_kbs", "Bytes in of all replicas of the topic.", {"topic": "topic"}, KB,
          adds=True),
    Gauge("topic_disk_bytes", "topics", "disk_mb", "Bytes of all replicas of the topic.", {"topic": "topic"}, MB, adds=True),
)  # fmt: skip
