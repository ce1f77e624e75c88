"""Drilling down: a broker's replicas by what they cost, a topic's partitions, a partition across its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine.core import units
from tui.views.broker_load.cells import COST_CELLS, load_bar
from tui.views.shared.pane import DetailPanel, Level
from tui.widgets.facts import Fact, Facts
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result

NAME = "broker-load"


def number(value: Any, unit: str = "") -> str:
    """Return a number with its unit, or a dash."""
    return "–" if value is None else f"{units.text('number', value)} {unit}".rstrip()


def percent(value: Any) -> str:
    """Return a percentage, or a dash."""
    return "–" if value is None else units.text("percent", value)


def between(row: dict[str, Any], name: str, low: str, high: str, unit: str) -> str:
    """Return a number with the bounds that an even split leaves open."""
    text = number(row[name], unit)
    if row[low] is None or row[high] is None or row[low] == row[high]:
        return text
    return f"{text}, anything from {number(row[low])} to {number(row[high], unit)}"


class BrokerLevel(Level):
    """One broker: facts, and its replicas ranked by CPU."""

    def __init__(self, broker: int) -> None:
        super().__init__(f"broker {broker}")
        self.broker = broker

    def compose(self) -> ComposeResult:
        """Compose replicas with the broker's facts beside."""
        with Horizontal():
            with Vertical():
                yield LiveTable(name=f"{NAME}/replicas", id="broker-replicas", renderers=COST_CELLS)
                yield LiveTable(
                    name=f"{NAME}/directories", id="broker-directories", renderers={"disk_pct": load_bar("percent")}
                )
            with DetailPanel(id="broker-detail"):
                yield Facts(id="broker-facts")

    def show(self, result: Result) -> None:
        """Show its replicas."""
        frame = result.tables.get("replicas")
        if frame is not None:
            mine = frame.filter(frame["broker"] == self.broker).sort(
                ["cpu_pct_cores", "topic", "partition"], descending=[True, False, False]
            )
            self.pane.show_table("#broker-replicas", result, "replicas", mine)
        table = self.query_one("#broker-directories", LiveTable)
        dirs = result.tables.get("directories")
        dirs = dirs.filter(dirs["broker"] == self.broker) if dirs is not None else None
        table.display = dirs is not None and dirs.height > 0
        if dirs is not None and dirs.height:
            # Its header and rows, but never more than a third of the screen.
            table.styles.height = min(dirs.height + 1, max(self.app.size.height // 3, 3))
            self.pane.show_table("#broker-directories", result, "directories", dirs)
        rows = result.tables["brokers"]
        found = rows.filter(rows["broker"] == self.broker)
        self.query_one("#broker-facts", Facts).show(
            broker_facts(found.row(0, named=True)) if found.height else [("this broker is gone", "", "severe")]
        )


def broker_facts(row: dict[str, Any]) -> list[Fact]:
    """Return what is known about one broker."""
    facts: list[Fact] = [
        (f"broker {row['broker']}", "", "title"),
        ("host", str(row["host"] or "?"), ""),
        ("rack", str(row["rack"] or "none"), ""),
        ("state", str(row["state"] or "?"), "ok" if row["state"] == "ALIVE" else "severe"),
        ("cores", number(row["cores"]), ""),
        ("CPU modelled", percent(row["cpu_pct"]), ""),
        ("CPU measured", percent(row["measured_cpu_pct"]), ""),
        ("residual", percent(row["residual_cpu_pct"]), ""),
    ]
    if row["residual_reason"]:
        facts.append(("because", str(row["residual_reason"]), "dim"))
    # In Cruise Control's model a dead broker has no capacity.
    size = f" of {number(row['disk_cap_mb'], 'MB')}, {percent(row['disk_pct'])}" if row["disk_cap_mb"] else ""
    facts += [
        ("disk", f"{number(row['disk_mb'], 'MB')}{size}", ""),
        ("leader in", number(row["leader_nw_in_kbs"], "KB/s"), ""),
        ("follower in", number(row["follower_nw_in_kbs"], "KB/s"), ""),
        ("in capacity", number(row["nw_in_cap_kbs"], "KB/s"), ""),
        ("out", number(row["nw_out_kbs"], "KB/s"), ""),
        ("potential out", number(row["pnw_out_kbs"], "KB/s"), ""),
        ("out capacity", number(row["nw_out_cap_kbs"], "KB/s"), ""),
        ("leaders", f"{row['leaders']} of {row['replicas']} replicas", ""),
    ]
    if row["capacity_estimated"]:
        facts.append(("capacity", "from the default entry or assumed", "moderate"))
    if row["source"] != "model":
        facts.append(("source", str(row["source"]), "moderate"))
    return facts


def group_facts(row: dict[str, Any], grouping: str) -> list[Fact]:
    """Return what is known about one host or rack; ``grouping`` is ``hosts`` or ``racks``."""
    note = "percentages of CPU add up, as in Cruise Control" if grouping == "hosts" else "of the live capacity"
    return [
        (str(row.get("host") or row.get("rack") or ""), "", "title"),
        ("CPU", percent(row["cpu_pct"]), ""),
        ("disk", percent(row["disk_pct"]), ""),
        ("leaders", f"{row['leaders']} of {row['replicas']} replicas", ""),
        ("note", note, "dim"),
    ]


class TopicLevel(Level):
    """One topic: its partitions."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def compose(self) -> ComposeResult:
        """Compose the table of its partitions."""
        yield LiveTable(name=f"{NAME}/partitions", id="topic-partitions", renderers=COST_CELLS)

    def show(self, result: Result) -> None:
        """Show its partitions."""
        frame = result.tables.get("partitions")
        if frame is not None:
            self.pane.show_table("#topic-partitions", result, "partitions", frame.filter(frame["topic"] == self.topic))


class PartitionLevel(Level):
    """One partition across its replicas, with its windows and why it may have no sample."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"{topic}-{partition}")
        self.topic, self.partition = topic, partition

    def compose(self) -> ComposeResult:
        """Compose replicas with facts beside, windows below."""
        with Horizontal():
            yield LiveTable(name=f"{NAME}/partition-replicas", id="partition-replicas", renderers=COST_CELLS)
            with DetailPanel(id="partition-detail"):
                yield Facts(id="partition-facts")
        yield LiveTable(name=f"{NAME}/windows", id="partition-windows")

    def show(self, result: Result) -> None:
        """Show the partition."""

        def mine(name: str) -> Any:
            frame = result.tables.get(name)
            if frame is None:
                return None
            return frame.filter((frame["topic"] == self.topic) & (frame["partition"] == self.partition))

        replicas, windows, skipped, rows = mine("replicas"), mine("windows"), mine("skipped"), mine("partitions")
        self.pane.show_table("#partition-replicas", result, "replicas", replicas)
        self.pane.show_table("#partition-windows", result, "windows", windows)
        facts: list[Fact] = [(f"{self.topic}-{self.partition}", "", "title")]
        if rows is not None and rows.height:
            row = rows.row(0, named=True)
            leader = "none" if row["leader"] < 0 else str(row["leader"])
            facts += [
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
            facts.append(("no sample", str(skipped["rule"][0]), "moderate"))
        leads = replicas.filter(replicas["leader"]) if replicas is not None else None
        if leads is not None and leads.height:
            row = leads.row(0, named=True)
            facts += [
                ("CPU", between(row, "cpu_pct_cores", "cpu_low", "cpu_high", "% of a core"), ""),
                ("in", between(row, "nw_in_kbs", "nw_in_low_kbs", "nw_in_high_kbs", "KB/s"), ""),
                ("out", between(row, "nw_out_kbs", "nw_out_low_kbs", "nw_out_high_kbs", "KB/s"), ""),
                ("disk", number(row["disk_mb"], "MB"), ""),
            ]
            if rows is not None and rows.height:
                messages = between(rows.row(0, named=True), "msg_in", "msg_in_low", "msg_in_high", "1/s")
                facts.append(("messages in", messages, ""))
                if (counted := rows["msg_measured"][0]) is not None:
                    facts.append(("counted", number(counted, "1/s"), ""))
        self.query_one("#partition-facts", Facts).show(facts)
