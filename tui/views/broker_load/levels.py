"""Drilling down: a broker's replicas by what they cost, a topic's partitions, a partition across its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.containers import Horizontal, Vertical

from tui.views.broker_load.cells import COST_CELLS, load_bar
from tui.views.broker_load.drawing import between, broker_facts, number
from tui.views.shared.sections import Box, DetailPanel, FactsOf, Level, Section, TableOf
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.core.result import Result


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
            table="directories", id="broker-directories", rows=self._directories, hide=True,
            cells={"disk_pct": load_bar("percent")},
            height=lambda rows: min(rows + 1, max(self.app.size.height // 3, 3)),
        )  # fmt: skip
        beside = Box(DetailPanel, FactsOf(self._facts, "broker-facts"), id="broker-detail")
        return (Section("", Box(Horizontal, Box(Vertical, replicas, directories), beside)),)

    def _mine(self, result: Result, table: str) -> Any:
        frame = result.tables.get(table)
        return frame.filter(frame["broker"] == self.broker) if frame is not None else None

    def _replicas(self, result: Result) -> Any:
        mine = self._mine(result, "replicas")
        by = ["cpu_pct_cores", "topic", "partition"]
        return mine.sort(by, descending=[True, False, False]) if mine is not None else None

    def _directories(self, result: Result) -> Any:
        mine = self._mine(result, "directories")
        return mine if mine is not None and mine.height else None

    def _facts(self, result: Result) -> list[Fact]:
        found = self._mine(result, "brokers")
        return broker_facts(found.row(0, named=True)) if found.height else [("this broker is gone", "", "severe")]


class TopicLevel(Level):
    """One topic: its partitions, the cursor on ``partition`` at first."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        super().__init__(topic)
        self.topic, self.partition = topic, partition

    def sections(self) -> tuple[Section, ...]:
        """The table of its partitions."""
        table = TableOf(
            table="partitions", id="topic-partitions", rows=self._partitions, cells=COST_CELLS,
            first=lambda result: (self.topic, self.partition),
            open=lambda row: self.pane.drill(PartitionLevel(row["topic"], row["partition"])),
        )  # fmt: skip
        return (Section("", table),)

    def _partitions(self, result: Result) -> Any:
        frame = result.tables.get("partitions")
        return frame.filter(frame["topic"] == self.topic) if frame is not None else None


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

    def _mine(self, result: Result, table: str) -> Any:
        frame = result.tables.get(table)
        if frame is None:
            return None
        return frame.filter((frame["topic"] == self.topic) & (frame["partition"] == self.partition))

    def _facts(self, result: Result) -> list[Fact]:
        replicas, skipped, rows = (self._mine(result, table) for table in ("replicas", "skipped", "partitions"))
        told: list[Fact] = [(f"{self.topic}-{self.partition}", "", "title")]
        if rows is not None and rows.height:
            row = rows.row(0, named=True)
            leader = "none" if row["leader"] < 0 else str(row["leader"])
            told += [
                ("leader", leader, "severe" if row["leader"] < 0 else ""),
                ("replicas", ", ".join(map(str, row["replicas"])), ""),
                (
                    "in sync",
                    ", ".join(map(str, row["isr"])),
                    "" if len(row["isr"]) == len(row["replicas"]) else "moderate",
                ),
                ("windows", "valid" if row["valid"] else "not all valid", "" if row["valid"] else "moderate"),
            ]
        if skipped is not None and skipped.height:
            told.append(("no sample", str(skipped["rule"][0]), "moderate"))
        leads = replicas.filter(replicas["leader"]) if replicas is not None else None
        if leads is not None and leads.height:
            row = leads.row(0, named=True)
            told += [
                ("CPU", between(row, "cpu_pct_cores", "cpu_low", "cpu_high", "% of a core"), ""),
                ("in", between(row, "nw_in_kbs", "nw_in_low_kbs", "nw_in_high_kbs", "KB/s"), ""),
                ("out", between(row, "nw_out_kbs", "nw_out_low_kbs", "nw_out_high_kbs", "KB/s"), ""),
                ("disk", number(row["disk_mb"], "MB"), ""),
            ]
            if rows is not None and rows.height:
                messages = between(rows.row(0, named=True), "msg_in", "msg_in_low", "msg_in_high", "1/s")
                told.append(("messages in", messages, ""))
                if (counted := rows["msg_measured"][0]) is not None:
                    told.append(("counted", number(counted, "1/s"), ""))
        return told
