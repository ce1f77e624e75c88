"""Drilling down: a broker's replicas by what they cost, a topic's partitions, a partition across its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.containers import Horizontal, Vertical

from tui.views.broker_load.cells import COST_CELLS, load_bar
from tui.views.broker_load.drawing import between, broker_facts, number
from tui.views.shared.sections import Box, DetailPanel, FactsOf, Level, Row, Section, TableOf
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.core.view import Result


def where(result: Result, table: str, **wanted: Any) -> Any:
    """Return the rows of a result table that have these values; None without the table."""
    import polars as pl

    frame = result.tables.get(table)
    return frame.filter(*(pl.col(name) == value for name, value in wanted.items())) if frame is not None else None


class BrokerLevel(Level):
    """One broker: facts, and its replicas ranked by CPU."""

    def __init__(self, broker: int) -> None:
        super().__init__(f"broker {broker}")
        self.broker = broker

    def sections(self) -> tuple[Section, ...]:
        """Replicas and log directories with the broker's facts beside."""
        replicas = TableOf(
            table="replicas",
            id="broker-replicas",
            rows=self._replicas,
            cells=COST_CELLS,
            open=lambda row: self.pane.drill(TopicLevel(row["topic"], row["partition"])),
        )
        directories = TableOf(
            table="directories", id="broker-directories", hide=True,
            rows=lambda result: where(result, "directories", broker=self.broker),
            cells={"disk_pct": load_bar("percent")},
            height=lambda rows: min(rows + 1, max(self.app.size.height // 3, 3)),
        )  # fmt: skip
        beside = Box(DetailPanel, FactsOf(self._facts, "broker-facts"), id="broker-detail")
        return (Section("", Box(Horizontal, Box(Vertical, replicas, directories), beside)),)

    def _replicas(self, result: Result) -> Any:
        mine = where(result, "replicas", broker=self.broker)
        by = ["cpu_pct_cores", "topic", "partition"]
        return mine.sort(by, descending=[True, False, False]) if mine is not None else None

    def _facts(self, result: Result) -> list[Fact]:
        found = where(result, "brokers", broker=self.broker)
        return (
            broker_facts(found.row(0, named=True), result.tables["brokers"])
            if found.height
            else [("this broker is gone", "", "severe")]
        )


class TopicLevel(Level):
    """One topic: its partitions, the cursor on ``partition`` at first."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        super().__init__(topic)
        self.topic, self.partition = topic, partition

    def sections(self) -> tuple[Section, ...]:
        """The table of its partitions."""
        table = TableOf(
            table="partitions", id="topic-partitions", cells=COST_CELLS,
            rows=lambda result: where(result, "partitions", topic=self.topic),
            first=lambda result: (self.topic, self.partition),
            open=lambda row: self.pane.drill(PartitionLevel(row["topic"], row["partition"])),
        )  # fmt: skip
        return (Section("", table),)


class PartitionLevel(Level):
    """One partition across its replicas, with its windows and why it may have no sample."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"{topic}-{partition}")
        self.topic, self.partition = topic, partition

    def sections(self) -> tuple[Section, ...]:
        """Replicas with facts beside, windows below."""
        replicas = TableOf(
            table="replicas", id="partition-replicas", name="partition-replicas", cells=COST_CELLS,
            rows=lambda result: self._mine(result, "replicas"),
            open=lambda row: self.pane.drill(BrokerLevel(row["broker"])),
        )  # fmt: skip
        windows = TableOf(table="windows", id="partition-windows", rows=lambda result: self._mine(result, "windows"))
        beside = Box(DetailPanel, FactsOf(self._facts, "partition-facts"), id="partition-detail")
        return (Section("", Box(Vertical, Box(Horizontal, replicas, beside), windows)),)

    def _mine(self, result: Result, table: str, **more: Any) -> Any:
        return where(result, table, topic=self.topic, partition=self.partition, **more)

    def _facts(self, result: Result) -> list[Fact]:
        row, load, skipped = (
            next(frame.iter_rows(named=True), None) if frame is not None else None
            for frame in (
                self._mine(result, "partitions"), self._mine(result, "replicas", leader=True), self._mine(result, "skipped"),
            )
        )  # fmt: skip
        return [
            (f"{self.topic}-{self.partition}", "", "title"),
            *(_replication(row) if row is not None else []),
            ("no sample", str(skipped["rule"]) if skipped is not None else None, "moderate"),
            *(_load(load) if load is not None else []),
            *([
                ("messages in", between(row, "msg_in", "msg_in_low", "msg_in_high", "1/s"), ""),
                ("counted", number(row["msg_measured"], "1/s") if row["msg_measured"] is not None else None, ""),
            ] if load is not None and row is not None else []),
        ]  # fmt: skip


def _replication(row: Row) -> list[Fact]:
    """Return leader and replicas of a partition."""
    late = "under-replicated" in row["state"]
    return [
        ("leader", *(("none", "severe") if row["leader"] < 0 else (str(row["leader"]), ""))),
        ("replicas", ", ".join(map(str, row["replicas"])), ""),
        ("in sync", ", ".join(map(str, row["isr"])), "moderate" if late else ""),
        ("windows", *(("valid", "") if row["valid"] else ("not all valid", "moderate"))),
    ]


def _load(leader: Row) -> list[Fact]:
    """Return what a partition's leader costs."""
    return [
        ("CPU", between(leader, "cpu_pct_cores", "cpu_low", "cpu_high", "% of a core"), ""),
        ("in", between(leader, "nw_in_kbs", "nw_in_low_kbs", "nw_in_high_kbs", "KB/s"), ""),
        ("out", between(leader, "nw_out_kbs", "nw_out_low_kbs", "nw_out_high_kbs", "KB/s"), ""),
        ("disk", number(leader["disk_mb"], "MB"), ""),
    ]
