"""The answers of ``load``, ``partition_load`` and ``kafka_cluster_state`` as Cruise Control prints them.

See "REST answers" in docs/models/broker-load.md. Source: ``BrokerStats``, ``PartitionLoadState``, ``KafkaClusterState``.

The layout of the plain text (column widths, decimals, titles) and the keys of the JSON are the interface that scripts
read. Which broker is the controller is in none of the files: the lowest live id stands in for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.load_model import Model, leader_values
from engine.broker_load.cruise_control.windows import Aggregate
from engine.broker_load.model.topology import Flags, Floats, Topology
from engine.broker_load.parameters import BrokerLoadParameters

_WIDE = Context(prec=400)


def render(model: Model, chosen: Cluster, log_dirs: pl.DataFrame, parameters: BrokerLoadParameters) -> str:
    """Return the answer that ``parameters.answer`` and ``parameters.as_`` name, or the error that stands in for it."""
    as_json = parameters.as_ == "json"
    if parameters.answer == "load":
        reason = _refusal(model.topology, model.aggregate, chosen)
        if reason is not None:
            return _error(reason, as_json)
        return load_json(chosen) if as_json else load_text(chosen)
    if parameters.answer == "partition_load":
        total = model.aggregated(parameters.min_valid_partition_ratio)
        reason = _refusal(model.topology, total, chosen) or _unseen(model.topology, total)
        if reason is not None:
            return _error(reason, as_json)
        records = partition_records(model, chosen, total, parameters)
        if as_json:
            return _dump({"records": records, "version": 1})
        topics = np.unique(model.topology.topic[_listed(model, total)])
        return partition_text(records, [model.topology.topics[topic] for topic in topics.tolist()])
    state = cluster_state(chosen.topology, log_dirs, parameters)
    return _dump(state) if as_json else state_text(state)


def _refusal(topology: Topology, total: Aggregate, cluster: Cluster) -> str | None:
    """Return why Cruise Control builds no model of the windows ``total``, None if it does."""
    if not total.enough:
        return f"there are not enough valid windows: none of {len(total.offered)} has enough valid partitions"
    unknown = topology.alive & np.isnan(cluster.capacity("DISK"))
    if cluster.capacities.file and unknown.any():
        return f"there is no capacity of broker {topology.ids[unknown][0]}, and none may be estimated"
    return None


def _unseen(topology: Topology, total: Aggregate) -> str | None:
    """Return why a model of the valid partitions alone cannot be built: a dead broker holds replicas of none of them."""
    seen = np.zeros(topology.brokers, np.bool_)
    seen[np.unique(topology.replicas[total.valid][topology.held[total.valid]])] = True
    lost = ~topology.alive & ~seen
    return f"dead broker {topology.ids[lost][0]} holds no valid partition" if lost.any() else None


def _error(reason: str, as_json: bool) -> str:
    """Return the error answer, in our words."""
    if as_json:
        return json.dumps({"errorMessage": reason, "version": 1}, separators=(",", ":"))
    return f"Cruise Control refuses: {reason}.\n"


def _dump(content: dict[str, Any]) -> str:
    """Return JSON as Cruise Control's writer makes it: a NaN is refused with an error answer."""
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError:
        reason = "a load is NaN, which Cruise Control cannot print as JSON; ask for the text or see the ledger"
        return _error(reason, True)


# ---------------------------------------------------------------- load


def _load_rows(cluster: Cluster) -> list[dict[str, Any]]:
    topology, sums = cluster.topology, cluster.sums
    rows = []
    capacity = {name: np.nan_to_num(cluster.capacity(name)) for name in ("CPU", "DISK", "NW_IN", "NW_OUT")}
    disk, cpu = sums.of("DISK"), sums.of("CPU")
    for index, broker in enumerate(topology.ids.tolist()):
        disk_cap, cpu_cap = float(capacity["DISK"][index]), float(capacity["CPU"][index])
        row: dict[str, Any] = {
            "Host": topology.hosts[index],
            "Broker": broker,
            "Rack": topology.racks[index],
            "BrokerState": cluster.states[index],
            "DiskCapacityMB": disk_cap,
            "DiskMB": float(disk[index]),
            "DiskPct": 100.0 * float(disk[index]) / disk_cap if disk_cap > 0 else -1.0,
            "NumCore": cpu_cap / 100.0,
            "CpuPct": 100.0 * float(cpu[index]) / cpu_cap
            if cpu_cap > 0
            else math.nan
            if math.isnan(cpu[index])
            else 0.0,
            "NetworkInCapacity": float(capacity["NW_IN"][index]),
            "NetworkOutCapacity": float(capacity["NW_OUT"][index]),
            "LeaderNwInRate": max(float(sums.leader_nw_in[index]), 0.0),
            # A difference of two single-precision sums, as Cruise Control makes it.
            "FollowerNwInRate": max(
                float(np.float32(sums.nw_in[index])) - float(np.float32(sums.leader_nw_in[index])), 0.0
            ),
            "NwOutRate": float(sums.of("NW_OUT")[index]),
            "PnwOutRate": max(float(sums.pnw_out[index]), 0.0),
            "Leaders": int(sums.leaders[index]),
            "Replicas": int(sums.replicas[index]),
        }
        rows.append(row)
    return rows


def load_json(cluster: Cluster) -> str:
    """``load?json=true``: brokers, and hosts as sums of their brokers (also of the CPU percentage)."""
    brokers = _load_rows(cluster)
    hosts: dict[str, dict[str, Any]] = {}
    for row in brokers:
        plain = {key: value for key, value in row.items() if key not in {"Broker", "BrokerState"}}
        host = hosts.get(row["Host"])
        if host is None:
            hosts[row["Host"]] = plain
            continue
        for key, value in plain.items():
            if key not in {"Host", "Rack", "DiskPct"}:
                host[key] += value
        host["DiskPct"] = 100.0 * host["DiskMB"] / host["DiskCapacityMB"] if host["DiskCapacityMB"] > 0 else -1.0
    return _dump({"brokers": brokers, "hosts": list(hosts.values()), "version": 1})


def _cores(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def load_text(cluster: Cluster) -> str:
    """``load``: one line per broker in order of id."""
    rows = _load_rows(cluster)
    host_width = max((len(row["Host"]) for row in rows), default=4)
    rack_width = max([10, *(len(row["Rack"]) for row in rows)])
    lines = [
        "",
        "",
        f"{'HOST':>{host_width}}{'BROKER':>15}{'RACK':>{rack_width}}{'DISK_CAP(MB)':>21}{'DISK(MB)/_(%)_':>26}"
        f"{'CORE_NUM':>20}{'CPU(%)':>15}{'NW_IN_CAP(KB/s)':>25}{'LEADER_NW_IN(KB/s)':>25}{'FOLLOWER_NW_IN(KB/s)':>25}"
        f"{'NW_OUT_CAP(KB/s)':>25}{'NW_OUT(KB/s)':>20}{'PNW_OUT(KB/s)':>20}{'LEADERS/REPLICAS':>20}",
    ]
    lines.extend(_load_line(row, host_width, rack_width - 1) for row in rows)
    return "\n".join(lines) + "\n"


def _load_line(row: dict[str, Any], host_width: int, rack_width: int) -> str:
    percent, cores, cpu = _fixed(row["DiskPct"], 2), _cores(row["NumCore"]), _fixed(row["CpuPct"])
    wide = {name: f"{_fixed(row[name]):>24}" for name in (
        "NetworkInCapacity", "LeaderNwInRate", "FollowerNwInRate", "NetworkOutCapacity")}  # fmt: skip
    return ",".join(
        (
            f"{row['Host']:>{host_width}}",
            f"{row['Broker']:>14}",
            f"{row['Rack']:>{rack_width}}",
            f"{_fixed(row['DiskCapacityMB']):>20}",
            f"{_fixed(row['DiskMB']):>19}/{percent:0>5}",
            f"{cores:>19}",
            f"{cpu:>14}",
            *wide.values(),
            f"{_fixed(row['NwOutRate']):>19}",
            f"{_fixed(row['PnwOutRate']):>19}",
            f"{row['Leaders']:>14}/{row['Replicas']}",
        )
    )


def _fixed(value: float, digits: int = 3) -> str:
    """Return a number as Java's formatter prints it: halves are rounded up."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    step = Decimal(1).scaleb(-digits)
    return str(Decimal(value).quantize(step, ROUND_HALF_UP, _WIDE))


# ---------------------------------------------------------------- partition_load


def _listed(model: Model, total: Aggregate) -> Flags:
    """Return which partitions [P] the model of windows ``total`` has: valid ones with a leader."""
    return total.valid & (model.topology.leader >= 0)


def partition_records(
    model: Model, chosen: Cluster, total: Aggregate, parameters: BrokerLoadParameters
) -> list[dict[str, Any]]:
    """Return the leaders of valid partitions by falling load of the resource over the windows ``total``; maximum or mean
    where asked. Loads of another mode than Cruise Control's are those of the ``chosen`` cluster."""
    topology = model.topology
    values = leader_values(total)
    own = chosen is model.cluster

    def mean(ours: Floats, of_mode: Floats) -> Floats:
        return ours if own else np.asarray(np.where(chosen.loads.leads, of_mode, 0.0).sum(axis=1), np.float64)

    cpu, disk = mean(values.cpu, chosen.loads.cpu), mean(values.disk, chosen.loads.disk)
    nw_in = mean(values.bytes_in + values.replication_in, chosen.loads.nw_in)
    nw_out = mean(values.bytes_out + values.bytes_in * (topology.count - 1), chosen.loads.nw_out)
    messages = values.messages
    if parameters.max_load:
        cpu, disk, messages = (
            total.maximum("cpu_usage") * 100,
            total.maximum("disk_usage"),
            total.maximum("message_in_rate"),
        )
        into = total.maximum("leader_bytes_in")
        nw_in = into + total.maximum("replication_bytes_in_rate")
        nw_out = total.maximum("leader_bytes_out") + into * (topology.count - 1)
    elif parameters.avg_load:
        disk = total.mean("disk_usage")
    by = {"CPU": cpu, "DISK": disk, "NW_IN": nw_in, "NW_OUT": nw_out}[parameters.resource]
    keep = _listed(model, total)
    if parameters.topic:
        try:
            pattern = re.compile(parameters.topic)
        except re.error:
            pattern = re.compile(re.escape(parameters.topic))
        named = np.array([pattern.fullmatch(name) is not None for name in topology.topics], np.bool_)
        keep &= named[topology.topic]
    rows = np.flatnonzero(keep)
    # Single precision as in Cruise Control, so that the same records tie; ties stand in falling order of topic and partition.
    rows = rows[::-1]
    rows = rows[np.argsort(-np.nan_to_num(np.maximum(by[rows], 0.0).astype(np.float32), nan=np.inf), kind="stable")]
    if parameters.entries:
        rows = rows[: parameters.entries]
    follower_ids = topology.partition_lists(topology.held & ~topology.leads).gather(rows).to_list()
    return [
        {
            "topic": topology.topics[topology.topic[row]],
            "partition": int(topology.partition[row]),
            "leader": int(topology.ids[topology.leader[row]]),
            "followers": followers,
            "cpu": _floor(cpu[row]),
            "disk": _floor(disk[row]),
            "networkInbound": _floor(nw_in[row]),
            "networkOutbound": _floor(nw_out[row]),
            "msg_in": _floor(messages[row]),
        }
        for row, followers in zip(rows.tolist(), follower_ids, strict=True)
    ]


def _floor(value: float) -> float:
    return float(value) if value != value else max(float(np.float32(value)), 0.0)


def _list(ids: Sequence[Any]) -> str:
    return "[" + ", ".join(str(item) for item in ids) + "]"


def partition_text(records: list[dict[str, Any]], topics: Sequence[str]) -> str:
    """``partition_load``: one line per leader; the first column is as wide as the longest of all ``topics`` needs."""
    width = max((len(topic) for topic in topics), default=20) + 5
    lines = [
        f"{'PARTITION':>{width}}{'LEADER':>10}{'FOLLOWERS':>30}{'CPU (%_CORES)':>20}{'DISK (MB)':>20}{'NW_IN (KB/s)':>20}"
        f"{'NW_OUT (KB/s)':>20}{'MSG_IN (#/s)':>20}"
    ]
    for record in records:
        name = f"{record['topic']}-{record['partition']}"
        lines.append(
            f"{name:>{width}}{record['leader']:>10}{_list(record['followers']):>30}{_fixed(record['cpu'], 6):>19}"
            f"{_fixed(record['disk']):>19}{_fixed(record['networkInbound']):>19}{_fixed(record['networkOutbound']):>19}"
            f"{_fixed(record['msg_in']):>19}"
        )
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- kafka_cluster_state


def cluster_state(topology: Topology, log_dirs: pl.DataFrame, parameters: BrokerLoadParameters) -> dict[str, Any]:
    """``kafka_cluster_state?verbose=true&json=true`` as an object."""
    need = topology.min_in_sync(parameters.min_insync_replicas)
    led = topology.leader >= 0
    offline = topology.offline_replicas
    out_of_sync = topology.held & ~topology.isr & ~offline
    ids = topology.ids
    brokers = topology.brokers

    def counts(flags: np.ndarray, some: bool) -> dict[str, int]:
        picked = topology.replicas[flags & led[:, None]]
        numbers = np.bincount(picked, minlength=brokers)
        return {str(i): int(n) for i, n in zip(ids.tolist(), numbers.tolist(), strict=True) if n or not some}

    lists: dict[str, list[list[int]]] = {
        name: topology.partition_lists(flags).to_list()
        for name, flags in {
            "replicas": topology.held, "in-sync": topology.isr, "out-of-sync": out_of_sync, "offline": offline
        }.items()
    }  # fmt: skip
    # The order of the in-sync list is the assignment's here; Cruise Control prints the controller's.
    alive_leader = np.append(topology.alive, False)[topology.leader] & led
    behind = np.asarray((topology.held & ~topology.isr).any(axis=1))
    in_sync = topology.isr.sum(axis=1)

    def part(rows: np.ndarray) -> list[dict[str, Any]]:
        return [
            {
                "topic": topology.topics[topology.topic[row]],
                "partition": int(topology.partition[row]),
                "leader": int(ids[topology.leader[row]]) if led[row] else -1,
                **{name: values[row] for name, values in lists.items()},
                "min-isr": int(need[row]),
            }
            for row in np.flatnonzero(rows).tolist()
        ]

    gone = ~alive_leader
    with_offline = np.asarray(offline.any(axis=1))
    under_replicated = behind & ~gone
    replicas, leaders = counts(topology.held, False), counts(topology.leads, False)
    online, broken = _log_dirs(topology, log_dirs)
    live = ids[topology.alive]
    per_broker = np.array([replicas[str(i)] for i in live.tolist()] or [0])
    per_leader = np.array([leaders[str(i)] for i in live.tolist()] or [0])
    total, lead_total = int(sum(replicas.values())), int(sum(leaders.values()))
    return {
        "KafkaBrokerState": {
            "LeaderCountByBrokerId": leaders,
            "ReplicaCountByBrokerId": replicas,
            "OutOfSyncCountByBrokerId": counts(topology.held & ~topology.isr, True),
            "OfflineReplicaCountByBrokerId": counts(offline, True),
            "IsController": {str(i): bool(len(live) and i == live.min()) for i in live.tolist()},
            "OnlineLogDirsByBrokerId": online,
            "OfflineLogDirsByBrokerId": broken,
            "BrokerSetByBrokerId": {},
            "Summary": {
                "Brokers": len(live),
                "Topics": len(topology.topics),
                "Replicas": total,
                "Leaders": lead_total,
                "AvgReplicationFactor": total / lead_total if lead_total else 0.0,
                "AvgReplicasPerBroker": total / len(live) if len(live) else 0.0,
                "AvgLeadersPerBroker": lead_total / len(live) if len(live) else 0.0,
                "MaxReplicasPerBroker": int(per_broker.max()),
                "MaxLeadersPerBroker": int(per_leader.max()),
                "StdReplicasPerBroker": float(per_broker.std()),
                "StdLeadersPerBroker": float(per_leader.std()),
            },
        },
        "KafkaPartitionState": {
            "offline": part(gone),
            "with-offline-replicas": part(with_offline),
            "urp": part(under_replicated),
            "under-min-isr": part(in_sync < need),
            "other": part(~gone & ~with_offline & ~under_replicated),
        },
        "version": 1,
    }


def _log_dirs(topology: Topology, log_dirs: pl.DataFrame) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    online: dict[str, list[str]] = {str(i): [] for i in topology.ids.tolist()}
    broken: dict[str, list[str]] = {str(i): [] for i in topology.ids.tolist()}
    newest = log_dirs.sort("time_ms", maintain_order=True).unique(
        ["broker", "log_dir"], keep="last", maintain_order=True
    )
    for row in newest.iter_rows(named=True):
        target = online if row["error"] is None else broken
        if str(row["broker"]) in target:
            target[str(row["broker"])].append(row["log_dir"])
    return online, broken


def state_text(state: dict[str, Any]) -> str:
    """``kafka_cluster_state?verbose=true`` as text."""
    brokers = state["KafkaBrokerState"]
    s = brokers["Summary"]
    lines = [
        f"Summary: The cluster has {s['Brokers']} brokers, {s['Replicas']} replicas, {s['Leaders']} leaders, and "
        f"{s['Topics']} topics with avg replication factor: {s['AvgReplicationFactor']:.2f}. [Leaders/Replicas per broker] "
        f"avg: {s['AvgLeadersPerBroker']:.2f}/{s['AvgReplicasPerBroker']:.2f} max: {s['MaxLeadersPerBroker']}/"
        f"{s['MaxReplicasPerBroker']} std: {s['StdLeadersPerBroker']:.2f}/{s['StdReplicasPerBroker']:.2f}",
        "",
        "Brokers:",
        "".join(f"{title:>20}" for title in (
            "BROKER", "LEADER(S)", "REPLICAS", "OUT-OF-SYNC", "OFFLINE", "IS_CONTROLLER", "BROKER_SET")),
    ]  # fmt: skip
    shown = [key for key, count in brokers["ReplicaCountByBrokerId"].items() if count or key in brokers["IsController"]]
    for key in shown:
        values = (
            key,
            brokers["LeaderCountByBrokerId"].get(key, 0),
            brokers["ReplicaCountByBrokerId"][key],
            brokers["OutOfSyncCountByBrokerId"].get(key, 0),
            brokers["OfflineReplicaCountByBrokerId"].get(key, 0),
            str(brokers["IsController"].get(key, False)).lower(),
            "null",
        )
        lines.append("".join(f"{value!s:>20}" for value in values))
    online = {key: _list(brokers["OnlineLogDirsByBrokerId"].get(key, [])) for key in shown}
    broken = {key: _list(brokers["OfflineLogDirsByBrokerId"].get(key, [])) for key in shown}
    wide = max((len(text) for text in online.values()), default=2) + len("ONLINE-LOGDIRS")
    wider = max((len(text) for text in broken.values()), default=2) + len("OFFLINE-LOGDIRS")
    lines += ["", "LogDirs of brokers with replicas:"]
    lines.append(f"{'BROKER':>20}{'ONLINE-LOGDIRS':>{wide}}{'OFFLINE-LOGDIRS':>{wider}}")
    lines += [f"{key:>20}{online[key]:>{wide}}{broken[key]:>{wider}}" for key in shown]
    parts = state["KafkaPartitionState"]
    width = max((len(item["topic"]) for rows in parts.values() for item in rows), default=0) + 5
    lines += ["", "All Partitions in the Cluster (verbose):"]
    titles: tuple[tuple[str, int], ...] = (
        ("TOPIC", width), ("PARTITION", 10), ("LEADER", 10), ("REPLICAS", 30), ("IN-SYNC", 30), ("OUT-OF-SYNC", 25),
        ("OFFLINE", 25), ("MIN-ISR", 10),
    )  # fmt: skip
    lines.append("".join(f"{title:>{size}}" for title, size in titles))
    for title, key in (
        ("Offline Partitions:", "offline"),
        ("Partitions with Offline Replicas:", "with-offline-replicas"),
        ("Under Replicated Partitions:", "urp"),
        ("Under MinIsr Partitions:", "under-min-isr"),
        ("Other Partitions:", "other"),
    ):
        lines.append(title)
        for item in parts[key]:
            # The values stand in the order of the titles.
            words = [_list(value) if isinstance(value, list) else str(value) for value in item.values()]
            lines.append("".join(f"{word:>{size}}" for word, (_, size) in zip(words, titles, strict=True)))
    return "\n".join(lines) + "\n"
