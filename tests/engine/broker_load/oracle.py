"""The workload model in plain Python, one loop per rule of docs/models/broker-load.md: slow, obvious, and independent of the
engine. What it computes of an ``OddCluster`` is what the view must show."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.engine.broker_load.odd_clusters import TOPIC_METRICS, VERSION_4, VERSION_5, OddCluster, Partition

A, B, C = 0.7, 0.15, 0.15
UNITS = (1024.0, 1024.0, 1024.0, 1024.0, 1.0, 1.0, 1.0)
RATES = ("leader_bytes_in", "leader_bytes_out", "replication_bytes_in_rate", "replication_bytes_out_rate", "produce_rate",
         "fetch_rate", "message_in_rate")  # fmt: skip
"""The names of a sample's values, in the order of TOPIC_METRICS."""
NINE = ("cpu_usage", "disk_usage", *RATES)
OPTIONAL = {"BROKER_PRODUCE_REQUEST_RATE", "BROKER_CONSUMER_FETCH_REQUEST_RATE"}
CAPACITY = {"CPU": 0.7, "DISK": 0.8, "NW_IN": 0.8, "NW_OUT": 0.8}
Values = dict[str, float]
Key = tuple[str, int]


def single(value: float) -> float:
    """Round to single precision."""
    return float(np.float32(value))


def mean(values: list[float]) -> float:
    """The mean of some values."""
    return sum(values) / len(values)


def floor0(value: float) -> float:
    """0 for what is negative; NaN stays."""
    return value if math.isnan(value) else max(value, 0.0)


def divided(value: float, by: float) -> float:
    """Division by 0 gives NaN or an infinity, as in Java."""
    return float(np.float64(value) / np.float64(by)) if by == 0 else value / by


@dataclass
class Reports:
    """What one broker reported in one sampling round: means of broker and topic metrics, newest sizes, and the totals after
    the completeness rule."""

    broker: Values = field(default_factory=dict)
    topic: dict[tuple[str, str], float] = field(default_factory=dict)
    size: dict[Key, float] = field(default_factory=dict)
    complete: bool = True

    @property
    def sized(self) -> set[str]:
        """Topics with a size, by their metric names."""
        return {topic for topic, _ in self.size}


def reports_of(cluster: OddCluster, interval: int, broker: int) -> Reports | None:
    """What ``broker`` reported in a round; None for nothing."""
    mine = [
        r
        for r in cluster.records
        if r[2] == broker and r[0] // cluster.interval_ms == interval and r[0] <= cluster.at_ms
    ]
    if not mine:
        return None
    out, newest = Reports(), {}
    grouped: dict[Any, list[float]] = defaultdict(list)
    for time, metric, _, topic, partition, value in mine:
        if metric == "PARTITION_SIZE":
            assert partition is not None
            if (topic, partition) not in newest or time > newest[topic, partition]:
                newest[topic, partition], out.size[topic, partition] = time, value
        else:
            grouped[(topic, metric) if topic else metric].append(value)
    for key, values in grouped.items():
        of: dict[Any, float] = out.topic if isinstance(key, tuple) else out.broker
        of[key] = mean(values)
    led = [p for p in cluster.partitions if p.leader == broker]
    names = {p.topic.replace(".", "_") for p in led}
    lost = names - out.sized
    lost_partitions = [p for p in led if p.topic.replace(".", "_") in lost]
    out.complete = not led or (len(lost) / len(names) <= 0.01 and len(lost_partitions) / len(led) <= 0.01)
    if out.complete and out.sized:
        for metric in TOPIC_METRICS:
            out.broker[f"ALL_TOPIC_{metric}"] = sum(
                out.topic.get((t, f"TOPIC_{metric}"), 0.0) for t in sorted(out.sized)
            )
    return out


def sample_of(p: Partition, cluster: OddCluster, reports: Reports | None, cores: float | None) -> Values | None:
    """The sample of one partition in one round, None without one."""
    name = p.topic.replace(".", "_")
    if p.leader < 0 or reports is None or "BROKER_CPU_UTIL" not in reports.broker or cores is None:
        return None
    if name not in reports.sized or (name, p.number) not in reports.size:
        return None
    siblings = sum(q.topic == p.topic and q.leader == p.leader for q in cluster.partitions)
    rates = {
        value: reports.topic.get((name, f"TOPIC_{metric}"), 0.0) / unit / siblings
        for value, metric, unit in zip(RATES, TOPIC_METRICS, UNITS, strict=True)
    }
    needed = [f"ALL_TOPIC_{metric}" for metric in TOPIC_METRICS[:4]]
    if any(metric not in reports.broker for metric in needed):
        return None
    whole_in, consumers, fetched, followers = (reports.broker[metric] / 1024 for metric in needed)
    whole_out, own_out = consumers + followers, rates["leader_bytes_out"] + rates["replication_bytes_out_rate"]
    own_in = rates["leader_bytes_in"]
    if whole_in == 0 and whole_out == 0:
        cpu = 0.0
    elif (1.05 * whole_in < own_in and whole_in > 10) or (1.05 * whole_out < own_out and whole_out > 10):
        return None
    else:
        share_in, share_out = (
            0.0 if whole == 0 else own / whole if math.isnan(own / whole) else min(1.0, own / whole)
            for own, whole in ((own_in, whole_in), (own_out, whole_out))
        )
        part = A * whole_in * share_in + B * whole_out * share_out
        cpu = cores * reports.broker["BROKER_CPU_UTIL"] * part / (A * whole_in + B * whole_out + C * fetched)
    return {"cpu_usage": cpu, "disk_usage": reports.size[name, p.number] / 1048576, **rates}


def broker_sample_of(broker: int, cluster: OddCluster, reports: Reports | None) -> Values | None:
    """The broker sample of one live broker in one round, None without one."""
    if reports is None or not reports.complete or "BROKER_CPU_UTIL" not in reports.broker:
        return None
    leads_many = any(p.leader == broker and len(p.replicas) > 1 for p in cluster.partitions)
    optional = OPTIONAL | (set() if leads_many else {"BROKER_FOLLOWER_FETCH_REQUEST_RATE"})

    def has(metric: str) -> bool:
        return metric in reports.broker or metric in optional or "LOG_FLUSH" in metric

    totals = [f"ALL_TOPIC_{metric}" for metric in TOPIC_METRICS]
    if not all(has(metric) for metric in [*VERSION_4, *totals]):
        return None
    values = {name: reports.broker[metric] / unit for name, metric, unit in zip(RATES, totals, UNITS, strict=True)}
    disk = sum(reports.size.values()) / 1048576
    version = 5 if all(has(metric) for metric in VERSION_5) else 4
    return {"version": version, "cpu_usage": reports.broker["BROKER_CPU_UTIL"], "disk_usage": disk, **values}


@dataclass
class Cell:
    """The samples of one partition in one window: their number, sums, and the disk that arrived last."""

    count: int = 0
    sums: Values = field(default_factory=lambda: dict.fromkeys(NINE, 0.0))

    def add(self, sample: Values) -> None:
        """Take in one more sample."""
        self.count += 1
        for name, value in sample.items():
            self.sums[name] = single(value) if name == "disk_usage" else single(self.sums[name] + value)

    def value(self, name: str) -> float:
        """The value of a metric, 0 without samples."""
        return self.sums[name] if name == "disk_usage" else single(self.sums[name] / max(self.count, 1))


@dataclass
class Chosen:
    """The windows a model is made of, newest first: per window and partition the kind of extrapolation and the values; and the
    valid partitions."""

    windows: list[int]
    cells: dict[tuple[int, Key], tuple[str, Values]]
    valid: set[Key]


class Oracle:
    """The model of one cluster. Attributes hold what the view's tables of the same names show."""

    def __init__(self, cluster: OddCluster) -> None:
        self.cluster = cluster
        self.keys = [(p.topic, p.number) for p in cluster.partitions]
        live = {i for i, (_, _, alive) in cluster.brokers.items() if alive}
        named = {i for p in cluster.partitions for i in p.replicas}
        self.ids, self.live = sorted(named | live), live
        self.samples: dict[tuple[Key, int], Values] = {}
        self.broker_samples: dict[tuple[int, int], Values] = {}
        self.cells: dict[tuple[int, Key], Cell] = defaultdict(Cell)
        self._sample()
        self.chosen = self.choose()

    def cores(self, broker: int, while_sampling: bool) -> float | None:
        """Cores of a broker, None unknown."""
        if broker in self.cluster.capacity:
            return self.cluster.capacity[broker][1]
        default = not while_sampling or self.cluster.estimate_while_sampling
        return self.cluster.capacity[-1][1] if default else None

    def _sample(self) -> None:
        cluster = self.cluster
        times: dict[int, int] = {}
        for record in cluster.records:
            if record[0] <= cluster.at_ms:
                interval = record[0] // cluster.interval_ms
                times[interval] = max(times.get(interval, 0), record[0])
        for interval, time in sorted(times.items()):
            reports = {broker: reports_of(cluster, interval, broker) for broker in self.ids}
            for broker in sorted(self.live):
                broker_sample = broker_sample_of(broker, cluster, reports[broker])
                if broker_sample is not None:
                    self.broker_samples[broker, time] = broker_sample
            for p, key in zip(cluster.partitions, self.keys, strict=True):
                leading = reports.get(p.leader)
                sample = sample_of(p, cluster, leading, self.cores(p.leader, True) if p.leader >= 0 else None)
                if sample is not None:
                    self.samples[key, time] = sample
                    self.cells[time // cluster.window_ms + 1, key].add(sample)

    def choose(self) -> Chosen | None:
        """Return the windows that Cruise Control uses; None where it refuses."""
        cluster = self.cluster
        last = cluster.at_ms // cluster.window_ms
        looked_at = [last - step for step in range(cluster.windows)]
        enough, half = cluster.min_samples, max(1, cluster.min_samples // 2)

        def count(window: int, key: Key) -> int:
            return self.cells[window, key].count if (window, key) in self.cells else 0

        def kind(window: int, key: Key) -> str:
            inner = looked_at[-1] < window < looked_at[0]
            if count(window, key) >= enough:
                return "NONE"
            if count(window, key) >= half:
                return "AVG_AVAILABLE"
            if inner and count(window - 1, key) >= enough and count(window + 1, key) >= enough:
                return "AVG_ADJACENT"
            return "FORCED_INSUFFICIENT" if count(window, key) else "NO_VALID_EXTRAPOLATION"

        def remembered(window: int, key: Key) -> bool:
            looked = any(count(w, k) for w in looked_at[:-2] for k in self.keys)
            full = count(window - 1, key) >= enough and count(window + 1, key) >= enough
            return window == looked_at[-1] and count(window, key) == 0 and looked and full and len(looked_at) > 2

        used: list[int] = []
        valid, stretched = set(self.keys), dict.fromkeys(self.keys, 0)
        for window in looked_at:
            now_valid, now_stretched = set(), {}
            for key in self.keys:
                found = kind(window, key)
                invalid = found == "NO_VALID_EXTRAPOLATION" and not remembered(window, key)
                now_stretched[key] = stretched[key] + (found != "NONE" and not invalid)
                if key in valid and not invalid and now_stretched[key] <= cluster.max_extrapolations:
                    now_valid.add(key)
            topics = {topic for topic, _ in self.keys}
            whole = any(all(key in now_valid for key in self.keys if key[0] == topic) for topic in topics)
            if whole:
                valid, stretched = now_valid, now_stretched
                used.append(window)
        if not used:
            return None
        cells = {(w, key): (kind(w, key), self._extrapolated(w, key, kind(w, key))) for w in used for key in self.keys}
        return Chosen(used, cells, valid)

    def _extrapolated(self, window: int, key: Key, kind: str) -> Values:
        own = self.cells[window, key] if (window, key) in self.cells else Cell()
        if kind == "NO_VALID_EXTRAPOLATION":
            return dict.fromkeys(NINE, 0.0)
        if kind != "AVG_ADJACENT":
            return {name: own.value(name) for name in NINE}
        older, newer = self.cells[window - 1, key], self.cells[window + 1, key]
        out = {}
        for name in NINE:
            total = older.sums[name] + (own.sums[name] if own.count else 0.0) + newer.sums[name]
            number = older.count + own.count + newer.count
            if name == "disk_usage":
                number = 3 if own.count else 2
            out[name] = single(total / number)
        return out


@dataclass
class Replica:
    """One replica in the model."""

    key: Key
    position: int
    broker: int
    leads: bool
    offline: bool
    cpu: float
    disk: float
    nw_in: float
    nw_out: float


def follower_cpu(cpu: float, nw_in: float, nw_out: float) -> float:
    """CPU of a follower in one window."""
    return 0.0 if nw_in == 0 and nw_out == 0 else divided(cpu * C * nw_in, A * nw_in + B * nw_out)


class Loads:
    """Replica loads of an oracle's model and their sums."""

    def __init__(self, oracle: Oracle, chosen: Chosen) -> None:
        self.oracle, self.cluster = oracle, oracle.cluster
        self.replicas: list[Replica] = []
        self.potential: dict[Key, float] = {}
        for p, key in zip(self.cluster.partitions, oracle.keys, strict=True):
            if p.leader >= 0:
                self._place(p, key, [chosen.cells[window, key][1] for window in chosen.windows])

    def _place(self, p: Partition, key: Key, windows: list[Values]) -> None:
        fetching = len(p.replicas) - 1
        nw_in = [w["leader_bytes_in"] + w["replication_bytes_in_rate"] for w in windows]
        full = [w["leader_bytes_out"] + w["leader_bytes_in"] * fetching for w in windows]
        bare = [w["leader_bytes_out"] + w["replication_bytes_out_rate"] for w in windows]
        cpu = [w["cpu_usage"] * 100 for w in windows]
        self.potential[key] = mean(full)
        for position, broker in enumerate(p.replicas):
            leads, before = broker == p.leader, position < p.replicas.index(p.leader)
            out = bare if before else full
            follows = [follower_cpu(c, i, o) for c, i, o in zip(cpu, nw_in, out, strict=True)]
            offline = broker in p.offline or broker not in self.oracle.live
            load = mean(cpu) if leads else mean(follows)
            self.replicas.append(
                Replica(key, position, broker, leads, offline, load, windows[0]["disk_usage"], mean(nw_in),
                        mean(full) if leads else 0.0)
            )  # fmt: skip

    def on(self, broker: int) -> list[Replica]:
        """The replicas of a broker."""
        return [r for r in self.replicas if r.broker == broker]

    def raw(self, broker: int, resource: str) -> float:
        """The sum of a broker's replicas, negative where readings are."""
        return sum(getattr(r, resource.lower()) for r in self.on(broker))

    def pnw_out(self, broker: int) -> float:
        """Network out if the broker led all it holds."""
        return floor0(sum(self.potential[r.key] for r in self.on(broker)))

    def leader_in(self, broker: int) -> float:
        """Network in of the leaders on a broker."""
        return floor0(sum(r.nw_in for r in self.on(broker) if r.leads))

    def capacity(self, broker: int, resource: str) -> float:
        """Capacity of a live broker."""
        disk, cores, into, out = self.cluster.capacity.get(broker, self.cluster.capacity[-1])
        return {"DISK": disk, "CPU": 100 * cores, "NW_IN": into, "NW_OUT": out}[resource]

    def neighbours(self, broker: int, resource: str) -> list[int]:
        """The brokers whose loads are compared together with that of a live one."""
        if resource == "DISK":
            return [broker]
        host, rack, _ = self.cluster.brokers[broker]
        return [
            i
            for i in self.live
            if (self.cluster.brokers[i][0], self.cluster.brokers[i][1] or host) == (host, rack or host)
        ]

    def compared(self, broker: int, resource: str) -> tuple[float, float]:
        """Load and capacity of a live broker or, for host resources, of its host."""
        group = self.neighbours(broker, resource)
        load = floor0(sum(self.raw(i, resource) for i in group))
        return load, sum(self.capacity(i, resource) for i in group)

    @cached_property
    def live(self) -> list[int]:
        """Live brokers."""
        return sorted(self.oracle.live)

    def total(self, resource: str) -> float:
        """Load of the cluster."""
        return floor0(sum(self.raw(i, resource) for i in self.oracle.ids))

    def total_capacity(self, resource: str) -> float:
        """Capacity of the live brokers."""
        return sum(self.capacity(i, resource) for i in self.live)

    def band(self, resource: str) -> tuple[float, float]:
        """Balance limits as fractions of capacity."""
        average = self.total(resource) / self.total_capacity(resource)
        return (0.0, average * 1.09) if average <= 0 else (average * 0.91, average * 1.09)

    def statistics(self) -> dict[str, tuple[float, float, float, float]]:
        """AVG, MAX, MIN and STD by name."""
        n, out = len(self.live), {}

        def extremes(values: list[float]) -> tuple[float, float]:
            return (math.nan, math.nan) if any(map(math.isnan, values)) else (max(values), min(values))

        for resource, name in (("CPU", "cpu"), ("NW_IN", "nw_in_kbs"), ("NW_OUT", "nw_out_kbs"), ("DISK", "disk_mb")):
            pairs = [self.compared(i, resource) for i in self.live]
            share = self.total(resource) / self.total_capacity(resource)
            std = math.sqrt(mean([(load - share * room) ** 2 for load, room in pairs]))
            out[name] = (self.total(resource) / n, *extremes([load for load, _ in pairs]), std)
        potential = [self.pnw_out(i) for i in self.live]
        share = sum(potential) / self.total_capacity("NW_OUT")
        rooms = [self.capacity(i, "NW_OUT") for i in self.live]
        std = math.sqrt(mean([(load - share * room) ** 2 for load, room in zip(potential, rooms, strict=True)]))
        out["pnw_out_kbs"] = (mean(potential), *extremes(potential), std)
        counts = {"replicas": self._counts(lambda r: True), "leaders": self._counts(lambda r: r.leads)}
        for name, by_broker in counts.items():
            out[name] = self._spread(by_broker)
        topics = sorted({key[0] for key in self.potential})
        parts = [self._spread(self._counts(lambda r, topic=topic: r.key[0] == topic)) for topic in topics]
        if parts:
            averages, highest, lowest, deviations = zip(*parts, strict=True)
            out["topic_replicas"] = (mean([*averages]), max(highest), min(lowest), mean([*deviations]))
        return out

    def _counts(self, wanted: Any) -> dict[int, float]:
        return {i: float(sum(bool(wanted(r)) for r in self.on(i))) for i in self.oracle.ids}

    def _spread(self, counts: dict[int, float]) -> tuple[float, float, float, float]:
        average = sum(counts.values()) / len(self.live)
        std = math.sqrt(mean([(counts[i] - average) ** 2 for i in self.live]))
        return average, max(counts.values()), min(counts.values()), std

    def goals(self) -> dict[str, bool]:
        """Which goals are violated."""
        out = {
            "RackAwareGoal": any(max(self._racks(p).values()) > 1 for p in self._led()),
            "RackAwareDistributionGoal": any(
                max(self._racks(p).values()) - min(self._racks(p).values()) > 1 for p in self._led()
            ),
            "MinTopicLeadersPerBrokerGoal": False,
            "ReplicaCapacityGoal": False,
        }
        names = {"DISK": "Disk", "NW_IN": "NetworkInbound", "NW_OUT": "NetworkOutbound", "CPU": "Cpu"}
        for resource, name in names.items():
            out[f"{name}CapacityGoal"] = self._over_capacity(resource)
            out[f"{name}UsageDistributionGoal"] = self._out_of_band(resource)
        out["ReplicaDistributionGoal"] = self._uneven(self._counts(lambda r: True))
        out["LeaderReplicaDistributionGoal"] = self._uneven(self._counts(lambda r: r.leads))
        out["PotentialNwOutGoal"] = any(
            self.pnw_out(i) > 0.8 * self.capacity(i, "NW_OUT")
            for i in self.live
            if any(r.broker == i for r in self.replicas)
        )
        topics = {key[0] for key in self.potential}
        out["TopicReplicaDistributionGoal"] = any(
            self._topic_uneven(self._counts(lambda r, topic=topic: r.key[0] == topic)) for topic in topics
        )
        if any(r.offline for r in self.replicas):
            out = dict.fromkeys(out, True)
        average = mean([self.leader_in(i) for i in self.live])
        out["LeaderBytesInDistributionGoal"] = any(self.leader_in(i) > 1.1 * average for i in self.live)
        return out

    def _led(self) -> list[Partition]:
        return [p for p in self.cluster.partitions if p.leader >= 0]

    def _racks(self, p: Partition) -> dict[str, int]:
        listed = {i: rack or host for i, (host, rack, _) in self.cluster.brokers.items()}
        counts = {listed[i]: 0 for i in self.live}
        for broker in p.replicas:
            rack = listed[broker] if broker in self.oracle.live else ""
            counts[rack] = counts.get(rack, 0) + 1
        return counts

    def _over_capacity(self, resource: str) -> bool:
        limit = CAPACITY[resource]
        for broker in self.live:
            load, room = self.compared(broker, resource)
            if load > limit * room or (
                resource == "CPU" and self.raw(broker, "CPU") > limit * self.capacity(broker, "CPU")
            ):
                return True
        return False

    def _out_of_band(self, resource: str) -> bool:
        low, high = self.band(resource)
        if math.isnan(high):
            return True
        for broker in self.live:
            load, room = floor0(self.raw(broker, resource)), self.capacity(broker, resource)
            host, host_room = self.compared(broker, resource)
            if (load > high * room and host > high * host_room) or (load < low * room and host < low * host_room):
                return True
        return False

    def _uneven(self, counts: dict[int, float]) -> bool:
        average = sum(counts.values()) / len(self.live)
        return any(not math.floor(average * 0.91) <= counts[i] <= math.ceil(average * 1.09) for i in self.live)

    def _topic_uneven(self, counts: dict[int, float]) -> bool:
        average = sum(counts.values()) / len(self.live)
        up, down = math.ceil(average), math.floor(average)
        high = min(max(math.ceil(average * 2.8), up + 2), up + 40)
        low = max(min(max(math.floor(average * -0.8), down - 40), down - 2), 0)
        return any(not low <= counts[i] <= high for i in self.live)

    def states(self) -> dict[int, str]:
        """State of each broker."""
        bad = {r.broker for r in self.replicas if r.offline}
        return {
            i: "DEAD" if i not in self.oracle.live else "BAD_DISKS" if i in bad else "ALIVE" for i in self.oracle.ids
        }
