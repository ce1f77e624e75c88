"""Odd random clusters: a generator with seeds, and the files it writes."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

KB, MB = 1024.0, 1048576.0
START_MS = 1_700_000_400_000
"""Begin of a window of ten minutes."""
TOPIC_METRICS = ("BYTES_IN", "BYTES_OUT", "REPLICATION_BYTES_IN", "REPLICATION_BYTES_OUT", "PRODUCE_REQUEST_RATE",
                 "FETCH_REQUEST_RATE", "MESSAGES_IN_PER_SEC")  # fmt: skip


def _broker_metrics() -> tuple[list[str], list[str]]:
    whom, what = ("PRODUCE", "CONSUMER_FETCH", "FOLLOWER_FETCH"), ("REQUEST_QUEUE", "LOCAL", "TOTAL")
    four = [f"BROKER_{who}_REQUEST_RATE" for who in whom]
    four += ["BROKER_REQUEST_HANDLER_AVG_IDLE_PERCENT", "BROKER_REQUEST_QUEUE_SIZE", "BROKER_RESPONSE_QUEUE_SIZE"]
    four += ["BROKER_LOG_FLUSH_RATE", "BROKER_LOG_FLUSH_TIME_MS_MAX", "BROKER_LOG_FLUSH_TIME_MS_MEAN"]
    five = ["BROKER_LOG_FLUSH_TIME_MS_50TH", "BROKER_LOG_FLUSH_TIME_MS_999TH"]
    for who in whom:
        for wait in what:
            four += [f"BROKER_{who}_{wait}_TIME_MS_{how}" for how in ("MAX", "MEAN")]
            five += [f"BROKER_{who}_{wait}_TIME_MS_{how}" for how in ("50TH", "999TH")]
    return four, five


VERSION_4, VERSION_5 = _broker_metrics()
"""Broker metrics beside CPU and totals: of record version 4, and the percentiles of version 5."""


@dataclass(frozen=True)
class Partition:
    """One partition as ``topology.csv`` lists it."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass
class OddCluster:
    """Everything one cluster is made of. ``brokers``: host, rack and whether it lives by id, as listed; ``capacity``: disk,
    cores, network in and out by id, -1 the default; ``records``: time, metric, broker, topic, partition, value."""

    brokers: dict[int, tuple[str, str, bool]] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)
    capacity: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    records: list[tuple[int, str, int, str, int | None, float]] = field(default_factory=list)
    window_ms: int = 600_000
    interval_ms: int = 120_000
    windows: int = 5
    min_samples: int = 1
    max_extrapolations: int = 5
    estimate_while_sampling: bool = True
    at_ms: int = 0

    def options(self) -> list[tuple[str, str]]:
        """The choices as ``report -o`` takes them."""
        values = {
            "window-ms": self.window_ms, "sampling-interval-s": self.interval_ms / 1000, "windows": self.windows,
            "min-samples": self.min_samples, "max-extrapolations": self.max_extrapolations,
            "at": self.at_ms,
            "sampling-allow-cpu-capacity-estimation": str(self.estimate_while_sampling).lower(),
        }  # fmt: skip
        return [(name, str(value)) for name, value in values.items()]

    def write(self, folder: Path) -> Path:
        """Write the files an operator would have; returns the folder."""
        lines = [f"{i},{host},{rack},{str(alive).lower()}" for i, (host, rack, alive) in self.brokers.items()]
        (folder / "brokers.csv").write_text("\n".join(["broker,host,rack,alive", *lines]) + "\n")
        lines = []
        for p in self.partitions:
            replicas, offline = ("|".join(map(str, ids)) for ids in (p.replicas, p.offline))
            lines.append(f"{p.topic},{p.number},{p.leader},{replicas},{replicas},{offline}")
        (folder / "topology.csv").write_text("\n".join(["topic,partition,leader,replicas,isr,offline", *lines]) + "\n")
        lines = [f"{t},{m},{b},{topic},{'' if p is None else p},{v}" for t, m, b, topic, p, v in self.records]
        (folder / "metrics.csv").write_text("\n".join(["time_ms,metric,broker,topic,partition,value", *lines]) + "\n")
        entries = []
        for broker, (disk, cores, into, out) in self.capacity.items():
            amounts = {"DISK": str(disk), "CPU": {"num.cores": str(cores)}, "NW_IN": str(into), "NW_OUT": str(out)}
            entries.append({"brokerId": str(broker), "capacity": amounts, "doc": ""})
        (folder / "capacity.json").write_text(json.dumps({"brokerCapacities": entries}))
        return folder


def draw(seed: int) -> OddCluster:
    """A small cluster in which much is odd: holes, too few samples, NaN and negative readings, dead brokers, several on
    one host, offline and leaderless partitions, missing totals and sizes, names that collide. Of every third one the
    readings are plain and the windows full of holes."""
    rng = random.Random(seed)
    holes = seed % 3 == 0
    made = OddCluster(
        windows=rng.choice([3, 3, 4] if holes else [1, 2, 3, 4, 5]), min_samples=rng.choice([1, 1, 1, 2, 3, 4, 4]),
        max_extrapolations=5 if holes else rng.choice([0, 1, 2, 5, 5, 5]),
    )  # fmt: skip
    rng.choice(range(3))  # a choice that is gone: without it every seed would draw another cluster
    made.estimate_while_sampling = holes or rng.random() < 0.85
    ids = sorted(rng.sample(range(12), rng.randint(2, 6)))
    dying = rng.choice([0.0, 0.0, 0.3])
    dead = {i for i in ids[1:] if rng.random() < dying}
    hosts = rng.randint(1, len(ids)) if rng.random() < 0.4 else len(ids)
    for place, broker in enumerate(ids):
        machine = place % hosts
        if broker not in dead:
            made.brokers[broker] = (
                f"h-{machine}",
                rng.choice(["", f"r{machine % 3}"]) if hosts == len(ids) else f"r{machine % 3}",
                True,
            )
        elif rng.random() < 0.7:
            made.brokers[broker] = ("", "", False)
    made.capacity[-1] = (1e5, rng.choice([1.0, 4.0]), 5e4, 5e4)
    for broker in ids:
        if rng.random() < 0.4:
            made.capacity[broker] = (
                rng.choice([50.0, 1e5]),
                rng.choice([2.0, 16.0]),
                rng.choice([300.0, 1e5]),
                rng.choice([400.0, 1e5]),
            )
    _place(made, ids, dead, rng)
    oddity, silence = (0.0, 0.4) if holes else (rng.choice([0.0, 0.01, 0.1]), rng.choice([0.0, 0.1, 0.25]))
    _measure(made, [i for i in ids if i not in dead], oddity, silence, rng)
    return made


def _place(made: OddCluster, ids: list[int], dead: set[int], rng: random.Random) -> None:
    broken = rng.choice([0.0, 0.0, 0.1])
    names = rng.sample(["t", "u", "v", "a.b", "a_b", "long.topic"], rng.randint(1, 4))
    for topic in sorted(names):
        for number in range(rng.choice([1, 1, 2, 3, 4, 10])):
            replicas = rng.sample(ids, rng.randint(1, min(3, len(ids))))
            offline = [i for i in replicas if i in dead or rng.random() < broken]
            online = [i for i in replicas if i not in offline]
            leader = rng.choice(online) if online and rng.random() < 0.96 else -1
            made.partitions.append(Partition(topic, number, leader, tuple(replicas), tuple(offline)))


def _measure(made: OddCluster, living: list[int], oddity: float, silence: float, rng: random.Random) -> None:
    """Write the records of some sampling rounds in some windows: ``oddity`` is the share of readings that are odd or absent,
    ``silence`` that of brokers that say nothing in a window."""
    newest = 0
    for window in range(rng.randint(1, made.windows + 3)):
        if rng.random() < 0.1:
            continue
        speaking = [broker for broker in living if rng.random() >= silence]
        for place in sorted(rng.sample(range(5), rng.choice([1, made.min_samples, min(5, made.min_samples + 1)]))):
            begin = START_MS + window * made.window_ms + place * made.interval_ms
            for tick in range(rng.choice([1, 1, 2])):
                newest = begin + 1000 + 60_000 * tick
                for broker in speaking:
                    if rng.random() >= min(silence / 4, oddity):
                        _report(made, newest, broker, oddity, rng)
    last = newest // made.window_ms + 1
    made.at_ms = last * made.window_ms + 1
    if rng.random() < 0.25:
        made.at_ms += rng.randint(1, 2) * made.window_ms
    elif rng.random() < 0.2:
        made.at_ms = newest - rng.randint(0, 900_000)


def _report(made: OddCluster, time: int, broker: int, oddity: float, rng: random.Random) -> None:
    """Write the report of one broker at one moment."""

    def odd() -> bool:
        return rng.random() < oddity

    def value(most: float) -> float:
        return (
            math.nan if odd() and rng.random() < 0.3 else 0.0 if rng.random() < 0.15 else round(rng.uniform(0, most), 3)
        )

    def put(metric: str, amount: float, topic: str = "", partition: int | None = None) -> None:
        if not odd():
            made.records.append((time, metric, broker, topic.replace(".", "_"), partition, amount))

    cpu = round(rng.uniform(0, 1), 4)
    put("BROKER_CPU_UTIL", rng.choice([-0.2, -0.2, math.nan]) if odd() or odd() else cpu)
    led = sorted({p.topic for p in made.partitions if p.leader == broker})
    for metric in TOPIC_METRICS:
        put(f"ALL_TOPIC_{metric}", value(1500 * KB))
        for topic in led:
            if "REPLICATION" not in metric or rng.random() < 0.2:
                put(f"TOPIC_{metric}", value(400 * KB), topic)
    unsized = {topic for topic in led if odd()}
    for p in made.partitions:
        if broker in p.replicas and p.topic not in unsized:
            put("PARTITION_SIZE", value(50 * MB), p.topic, p.number)
    more = rng.choice([[], VERSION_4, VERSION_4 + VERSION_5])
    for metric in more:
        put(metric, value(10.0))
