"""A small Kafka cluster as a simulation: topics with rates that wander, brokers whose CPU follows their traffic."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

from sample_data.whole_files import put

START_S = 1_767_225_600
"""Time of the static sample: 2026-01-01T00:00:00Z."""
CORES = {1: 8, 2: 8, 3: 8, 4: 8, 5: 16, 6: 16}
RACKS = {1: "rack-a", 2: "rack-b", 3: "rack-c", 4: "rack-a", 5: "rack-b", 6: "rack-c"}
CPU_PER_KBS = (0.0032, 0.0006, 0.0013)
"""True CPU in % of eight cores per KB/s: leader in, leader out, follower in. The regression should find them."""

TOPICS = {
    # name: partitions, replicas, KB/s in, consumers, GB, min.insync.replicas
    "checkout.orders": (12, 3, 9_000, 3.0, 60, 2),
    "checkout.payments": (6, 3, 2_400, 2.0, 18, 2),
    "web.clicks": (18, 2, 26_000, 1.2, 140, 1),
    "web.sessions": (8, 2, 4_000, 0.8, 30, 1),
    "audit-log": (4, 3, 900, 0.0, 45, 2),
    "metrics": (6, 2, 5_200, 1.5, 9, 1),
    "scratch": (2, 1, 700, 0.5, 4, 1),
    "__consumer_offsets": (6, 3, 60, 0.3, 1, 2),
}
ALIKE = ("checkout.orders", "checkout.payments")
"""Topics whose partitions were all given one list of replicas by hand: the fault that the plan mends for free."""
ALIKE_REPLICAS = (5, 1, 6)
"""If big broker 5, which leads them, dies, small broker 1 takes over all of them and big broker 6 none."""
RATES = (
    ("BytesInPerSec", 0),
    ("BytesOutPerSec", 1),
    ("MessagesInPerSec", 2),
    ("TotalProduceRequestsPerSec", 3),
    ("TotalFetchRequestsPerSec", 4),
)


@dataclass
class Partition:
    """One partition: replicas in assignment order, who leads, who is in sync, bytes on disk."""

    topic: str
    number: int
    replicas: list[int]
    leader: int
    isr: list[int]
    size: float


@dataclass
class Simulation:
    """The cluster at ``now_s``; ``down`` brokers report nothing and lead nothing."""

    seed: int = 7
    now_s: int = START_S
    partitions: list[Partition] = field(default_factory=list)
    down: set[int] = field(default_factory=set)
    mood: dict[str, float] = field(default_factory=dict)
    readers: dict[str, float] = field(default_factory=dict)
    idle: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        brokers = sorted(CORES)
        if not self.partitions:
            for topic, (count, copies, _, _, gigabytes, _) in TOPICS.items():
                for number in range(count):
                    # One replica per rack. Uneven on purpose, as after years of growth: the first brokers hold more.
                    racks = sorted(set(RACKS.values()))
                    self.random.shuffle(racks)
                    replicas = []
                    for rack in racks[:copies]:
                        old, new = (broker for broker in brokers if RACKS[broker] == rack)
                        replicas.append(old if self.random.random() < (0.75 if rack == "rack-a" else 0.5) else new)
                    leader = replicas[0] if self.random.random() < 0.8 else replicas[-1]
                    if topic in ALIKE:
                        replicas, leader = list(ALIKE_REPLICAS), ALIKE_REPLICAS[0]
                    size = gigabytes * 1e9 / count * (0.5 + self.random.random())
                    self.partitions.append(Partition(topic, number, replicas, leader, list(replicas), size))
        self.mood = dict.fromkeys(TOPICS, 1.0)
        self.readers = dict.fromkeys(TOPICS, 1.0)

    def advance(self, seconds: int) -> None:
        """Let time pass: rates wander, logs grow, CPUs count on."""
        self.now_s += seconds
        for topic in self.mood:
            self.mood[topic] = min(2.0, max(0.4, self.mood[topic] * math.exp(self.random.gauss(0, 0.2))))
            # Reads vary independently of writes, so that the regression can tell them apart.
            self.readers[topic] = min(2.5, max(0.1, self.readers[topic] * math.exp(self.random.gauss(0, 0.5))))
        for part in self.partitions:
            count, _, _, _, gigabytes, _ = TOPICS[part.topic]
            grown = part.size + self.topic_in(part.topic) * 1024 / count * seconds * 0.02
            part.size = min(grown, 2e9 * gigabytes / count)  # then old segments are deleted
        for broker, cores in CORES.items():
            busy = self.cpu(broker)
            for core in range(cores):
                key = (broker, core)
                self.idle[key] = self.idle.get(key, 50_000.0 + core) + seconds * (1.0 - busy)

    def topic_in(self, topic: str) -> float:
        """KB/s into a topic now: its base rate, a daily wave and its mood."""
        wave = 1.0 + 0.45 * math.sin(2 * math.pi * (self.now_s % 86_400) / 86_400 - 1.0)
        return TOPICS[topic][2] * wave * self.mood[topic]

    def flows(self, broker: int) -> dict[str, tuple[float, float, float, float, float]]:
        """Per topic a broker leads: bytes in, bytes out, messages, produce and fetch requests per second."""
        found: dict[str, tuple[float, float, float, float, float]] = {}
        for topic, (count, _, _, consumers, _, _) in TOPICS.items():
            led = sum(1 for p in self.partitions if p.topic == topic and p.leader == broker)
            if led:
                into = self.topic_in(topic) * 1024 * led / count
                readers = consumers * self.readers[topic]
                found[topic] = (into, into * readers, into / 900, into / 20_000, into * (readers + 1) / 60_000)
        return found

    def replication(self, broker: int) -> tuple[float, float]:
        """Bytes per second a broker fetches as follower, and sends to its followers."""
        into = out = 0.0
        for part in self.partitions:
            rate = self.topic_in(part.topic) * 1024 / TOPICS[part.topic][0]
            if part.leader < 0:
                continue
            if part.leader == broker:
                out += rate * (len(part.isr) - 1)
            elif broker in part.isr:
                into += rate
        return into, out

    def cpu(self, broker: int) -> float:
        """Busy fraction of a broker's machine."""
        flows = self.flows(broker).values()
        into, out = sum(f[0] for f in flows) / 1024, sum(f[1] for f in flows) / 1024
        fetched = self.replication(broker)[0] / 1024
        a, b, c = CPU_PER_KBS
        percent = (a * into + b * out + c * fetched) * 8 / CORES[broker]
        return min(0.97, max(0.01, 0.02 + percent / 100 + self.random.gauss(0, 0.004)))

    def fail(self, broker: int) -> None:
        """A broker dies: leaders move to the first in-sync replica in assignment order."""
        self.down.add(broker)
        for part in self.partitions:
            if broker in part.isr and len(part.isr) > 1:
                part.isr.remove(broker)
            if part.leader == broker:
                part.leader = next((r for r in part.replicas if r in part.isr and r not in self.down), -1)

    def recover(self, broker: int) -> None:
        """It comes back, catches up and leads what it is preferred for."""
        self.down.discard(broker)
        for part in self.partitions:
            if broker in part.replicas and broker not in part.isr:
                part.isr = [r for r in part.replicas if r in part.isr or r == broker]
            if part.replicas[0] not in self.down and part.replicas[0] in part.isr:
                part.leader = part.replicas[0]

    def scrape(self, broker: int) -> str:
        """The JMX exporter's page of a broker."""
        name, lines = "kafka_server_BrokerTopicMetrics_OneMinuteRate", []
        lines += [f"# HELP {name} Attribute exposed for management", f"# TYPE {name} untyped"]
        flows = self.flows(broker)
        for topic in sorted(flows):
            lines += [f'{name}{{name="{rate}",topic="{topic}",}} {flows[topic][place]:.4f}' for rate, place in RATES]
        for rate, place in RATES:
            lines.append(f'{name}{{name="{rate}",}} {sum(f[place] for f in flows.values()):.4f}')
        fetched, sent = self.replication(broker)
        lines.append(f'{name}{{name="ReplicationBytesInPerSec",}} {fetched:.4f}')
        lines.append(f'{name}{{name="ReplicationBytesOutPerSec",}} {sent:.4f}')
        size = "kafka_log_Log_Value"
        lines += [f"# HELP {size} Attribute exposed for management", f"# TYPE {size} untyped"]
        for part in self.partitions:
            if broker in part.replicas:
                held = part.size if broker == part.leader else part.size * 0.999
                lines.append(f'{size}{{name="Size",partition="{part.number}",topic="{part.topic}",}} {held:.1f}')
        return "\n".join(lines) + "\n"

    def node(self, broker: int) -> str:
        """node_exporter's page of a broker's machine."""
        lines = ["# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode."]
        lines.append("# TYPE node_cpu_seconds_total counter")
        for core in range(CORES[broker]):
            idle = self.idle.get((broker, core), 50_000.0 + core)
            lines.append(f'node_cpu_seconds_total{{cpu="{core}",mode="idle"}} {idle:.3f}')
            lines.append(
                f'node_cpu_seconds_total{{cpu="{core}",mode="user"}} {self.now_s - START_S + 90_000 - idle:.3f}'
            )
        return "\n".join(lines) + "\n"

    def raw_rows(self) -> list[str]:
        """Rows of a raw-metrics CSV at this moment (topic names with dots as underscores, as the reporter has them)."""
        kinds = ("BYTES_IN", "BYTES_OUT", "MESSAGES_IN_PER_SEC", "PRODUCE_REQUEST_RATE", "FETCH_REQUEST_RATE")
        rows, time = [], self.now_s * 1000
        for broker in sorted(CORES):
            if broker in self.down:
                continue
            flows = self.flows(broker)
            for topic in sorted(flows):
                dotless = topic.replace(".", "_")
                rows += [f"{time},TOPIC_{k},{broker},{dotless},,{flows[topic][i]:.3f}" for i, k in enumerate(kinds)]
            rows += [
                f"{time},ALL_TOPIC_{k},{broker},,,{sum(f[i] for f in flows.values()):.3f}" for i, k in enumerate(kinds)
            ]
            fetched, sent = self.replication(broker)
            rows.append(f"{time},ALL_TOPIC_REPLICATION_BYTES_IN,{broker},,,{fetched:.3f}")
            rows.append(f"{time},ALL_TOPIC_REPLICATION_BYTES_OUT,{broker},,,{sent:.3f}")
            rows.append(f"{time},BROKER_CPU_UTIL,{broker},,,{self.cpu(broker):.5f}")
            for part in self.partitions:
                if broker in part.replicas:
                    held = part.size if broker == part.leader else part.size * 0.999
                    rows.append(
                        f"{time},PARTITION_SIZE,{broker},{part.topic.replace('.', '_')},{part.number},{held:.0f}"
                    )
        return rows

    def describe(self) -> str:
        """``kafka-topics.sh --describe``."""
        lines = []
        for topic, (count, copies, _, _, _, least) in TOPICS.items():
            lines.append(
                f"Topic: {topic}\tTopicId: sample-{count}-{copies}\tPartitionCount: {count}\tReplicationFactor: {copies}\t"
                f"Configs: min.insync.replicas={least}"
            )
            for part in self.partitions:
                if part.topic == topic:
                    leader = "none" if part.leader < 0 else part.leader
                    lists = (",".join(map(str, part.replicas)), ",".join(map(str, part.isr)))
                    lines.append(
                        f"\tTopic: {topic}\tPartition: {part.number}\tLeader: {leader}\tReplicas: {lists[0]}\tIsr: {lists[1]}"
                    )
        return "\n".join(lines) + "\n"

    def log_dirs(self) -> str:
        """``kafka-log-dirs.sh --describe``."""
        brokers = []
        for broker in sorted(set(CORES) - self.down):
            held = [
                {"partition": f"{p.topic}-{p.number}", "size": int(p.size), "offsetLag": 0, "isFuture": False}
                for p in self.partitions
                if broker in p.replicas
            ]
            brokers.append(
                {"broker": broker, "logDirs": [{"logDir": "/var/lib/kafka", "error": None, "partitions": held}]}
            )
        names = ",".join(str(b["broker"]) for b in brokers)
        head = f"Querying brokers for log directories information\nReceived log directory information from brokers {names}\n"
        return head + json.dumps({"version": 1, "brokers": brokers}, separators=(",", ":")) + "\n"


def capacity() -> str:
    """``capacity.json``: the two big machines have their own entries."""
    small = {"DISK": "600000", "CPU": {"num.cores": "8"}, "NW_IN": "60000", "NW_OUT": "120000"}
    big = {"DISK": "1200000", "CPU": {"num.cores": "16"}, "NW_IN": "120000", "NW_OUT": "240000"}
    entries = [{"brokerId": "-1", "capacity": small, "doc": "disk MB, network KB/s"}]
    entries += [{"brokerId": str(b), "capacity": big, "doc": "bigger machine"} for b in (5, 6)]
    return json.dumps({"brokerCapacities": entries}, indent=2) + "\n"


def broker_list() -> str:
    """``brokers.csv``."""
    rows = [f"{b},{host(b)},{RACKS[b]},true" for b in sorted(CORES)]
    return "\n".join(["broker,host,rack,alive", *rows]) + "\n"


def plan() -> str:
    """A reassignment that moves one busy partition."""
    moves = [{"topic": "web.clicks", "partition": 0, "replicas": [5, 2], "log_dirs": ["any", "any"]}]
    return json.dumps({"version": 1, "partitions": moves}) + "\n"


def host(broker: int) -> str:
    """Host name of a broker."""
    return f"kafka-{broker}.example.net"


def put_scrapes(simulation: Simulation, target: Path) -> None:
    """Write the pages of all brokers that are up, named by their time."""
    pages: dict[Path, str] = {}
    folder, name = target / "scrape", f"{simulation.now_s}.prom"
    for broker in sorted(set(CORES) - simulation.down):
        pages[folder / f"{host(broker)}_7071" / name] = simulation.scrape(broker)
        pages[folder / f"{host(broker)}_9100" / name] = simulation.node(broker)
    put(pages)


def put_documents(simulation: Simulation, target: Path) -> None:
    """What does not change with every tick."""
    put({target / "brokers.csv": broker_list()})
    put({target / "capacity.json": capacity()})
    put({target / "reassignment.json": plan()})
    put({target / f"topics-describe-{simulation.now_s}.txt": simulation.describe()})
    put({target / "log-dirs.txt": simulation.log_dirs()})
