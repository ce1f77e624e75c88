"""Small clusters written as files, one rule at a time."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from engine.core.view import Result

T0 = 1_700_000_040_000
KB, MB = 1024.0, 1048576.0
Rows = list[tuple[str, int, str, object, float]]


class Cluster:
    """Files of a cluster below ``folder``: brokers ``ids`` with a host and rack each, capacity of 8 cores."""

    def __init__(self, folder: Path, ids: tuple[int, ...] = (1, 2, 3)) -> None:
        self.folder, self.ids = folder, ids
        self.topology: list[tuple[str, int, object, str, str, str]] = []
        self.rows: list[tuple[int, str, int, str, object, float]] = []
        self.dead: set[int] = set()
        self.hosts: dict[int, str] = {}
        self.racks: dict[int, str] = {}
        self.capacity: dict[str, dict[str, object]] = {
            "-1": {"DISK": "1000000", "CPU": {"num.cores": "8"}, "NW_IN": "100000", "NW_OUT": "100000"}
        }

    def partition(
        self, topic: str, number: int, leader: int, replicas: str, isr: str | None = None, offline: str = ""
    ) -> None:
        """A partition; lists as ``1|2|3``."""
        self.topology.append((topic, number, leader, replicas, replicas if isr is None else isr, offline))

    def rate(self, broker: int, topic: str, bytes_in: float, bytes_out: float = 0.0, time: int = T0) -> None:
        """A topic's bytes in and out on its leader."""
        name = topic.replace(".", "_")
        self.rows.append((time, "TOPIC_BYTES_IN", broker, name, "", bytes_in))
        self.rows.append((time, "TOPIC_BYTES_OUT", broker, name, "", bytes_out))

    def size(self, broker: int, topic: str, number: int, size: float, time: int = T0) -> None:
        """A replica's size in bytes."""
        self.rows.append((time, "PARTITION_SIZE", broker, topic.replace(".", "_"), number, size))

    def totals(self, broker: int, cpu: float | None, time: int = T0, **values: float) -> None:
        """A broker's CPU and totals (0 where not given)."""
        if cpu is not None:
            self.rows.append((time, "BROKER_CPU_UTIL", broker, "", "", cpu))
        for name in ("BYTES_IN", "BYTES_OUT", "REPLICATION_BYTES_IN", "REPLICATION_BYTES_OUT", "PRODUCE_REQUEST_RATE",
                     "FETCH_REQUEST_RATE", "MESSAGES_IN_PER_SEC"):  # fmt: skip
            self.rows.append((time, f"ALL_TOPIC_{name}", broker, "", "", values.get(name.lower(), 0.0)))

    def write(self) -> Path:
        """Write all files; returns the folder."""
        brokers = [
            f"{i},{self.hosts.get(i, f'host-{i}')},{self.racks.get(i, f'rack-{i}')},{str(i not in self.dead).lower()}"
            for i in self.ids
        ]
        (self.folder / "brokers.csv").write_text("\n".join(["broker,host,rack,alive", *brokers]) + "\n")
        lines = [",".join(str(v) for v in row) for row in self.topology]
        (self.folder / "topology.csv").write_text(
            "\n".join(["topic,partition,leader,replicas,isr,offline", *lines]) + "\n"
        )
        lines = [",".join(str(v) for v in row) for row in self.rows]
        (self.folder / "metrics.csv").write_text(
            "\n".join(["time_ms,metric,broker,topic,partition,value", *lines]) + "\n"
        )
        entries = [{"brokerId": key, "capacity": value} for key, value in self.capacity.items()]
        (self.folder / "capacity.json").write_text(json.dumps({"brokerCapacities": entries}))
        return self.folder


def simple(folder: Path) -> Cluster:
    """Two topics of one partition each, led by 1 and 2; everything is reported."""
    made = Cluster(folder)
    made.partition("t", 0, 1, "1|2")
    made.partition("u", 0, 2, "2|3")
    for broker, topic in ((1, "t"), (2, "u")):
        made.rate(broker, topic, 100 * KB, 200 * KB)
        made.size(broker, topic, 0, 10 * MB)
        made.totals(broker, 0.5, bytes_in=100 * KB, bytes_out=200 * KB)
    made.totals(3, 0.1)
    return made


def sample(result: Result, topic: str, partition: int = 0) -> dict[str, object] | None:
    """One row of ``samples``."""
    rows = result.tables["samples"].filter((pl.col("topic") == topic) & (pl.col("partition") == partition))
    return rows.row(0, named=True) if rows.height else None


def skipped(result: Result) -> dict[tuple[str, int], str]:
    """Rule by partition."""
    return {(row["topic"], row["partition"]): row["rule"] for row in result.tables["skipped"].iter_rows(named=True)}
