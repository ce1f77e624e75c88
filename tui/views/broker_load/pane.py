"""The tab: brokers, topics, goals, regression, failures, the what-if and what was odd in the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from engine.core.parameters import asks_what_if, no_what_if
from tui.actions import bindings
from tui.views.broker_load import regression, rolling, what_if
from tui.views.broker_load.brokers import BrokersSection
from tui.views.broker_load.cells import (
    AFTER_CELLS,
    BROKER_CELLS,
    FAILURE_CELLS,
    TOPIC_CELLS,
    goal_cell,
    violated_cell,
)
from tui.views.broker_load.levels import BrokerLevel, PartitionLevel, TopicLevel
from tui.views.shared.pane import ViewPane
from tui.widgets.control import NumberControl
from tui.widgets.drawing.bars import share_bar
from tui.widgets.drawing.plot import PlotView
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result

NAME = "broker-load"
MODES = ("upstream", "corrected", "regression")
GROUPS = ("brokers", "hosts", "racks")
BROKERS, TOPICS, GOALS, REGRESSION, FAILURES, ROLLING, WHAT_IF, DATA = range(8)
MEASURES: tuple[rolling.Measure, ...] = (
    ("cpu_pct", "cpu_over", "CPU in %", "percent"), ("nw_out_kbs", "nw_out_over", "network out in KB/s", "number"),
    ("leaders", "", "leaders", "count"),
)  # fmt: skip


class Pane(ViewPane):
    """Broker load."""

    VIEW = NAME
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(NAME)]
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #bl-regression-plot { height: 1fr; }
    #bl-regression-facts { height: 3; }
    #bl-regression { height: 4; }
    #bl-weights { height: 3; }
    #bl-coverage { width: 36; }
    .-narrow #bl-coverage { display: none; }
    #bl-balance { height: 8; }
    #bl-goal-facts { height: 2; }
    .-short #bl-balance { display: none; }
    #bl-what-leaders { height: 1fr; }
    #bl-what { height: 1fr; }
    #bl-what-facts { height: 4; }
    #bl-rolling-facts { height: 2; }
    #bl-broker-detail, #broker-detail, #partition-detail { max-width: 46; }
    .-narrow #bl-broker-detail, .-narrow #broker-detail, .-narrow #partition-detail { max-width: 100%; }
    #bl-ledger { height: 2fr; }
    #bl-skipped { height: 1fr; }
    #partition-windows { height: 9; }
    .-short #partition-windows { height: 5; }
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.grouping = GROUPS[0]
        self.measure = 0
        self.page = 0

    def compose_view(self) -> ComposeResult:
        """Compose one section per question."""
        sections = Sections(id="bl-sections")
        sections.add("brokers", BrokersSection(NAME))
        sections.add("topics", LiveTable(name=f"{NAME}/topics", id="bl-topics", renderers=TOPIC_CELLS))
        sections.add(
            "goals",
            Vertical(
                LiveTable(
                    name=f"{NAME}/goals", id="bl-goals", renderers={"violated": violated_cell, "goal": goal_cell}
                ),
                Facts(id="bl-goal-facts"),
                LiveTable(name=f"{NAME}/balance", id="bl-balance"),
            ),
        )
        sections.add(
            "regression",
            Vertical(
                Facts(id="bl-regression-facts"),
                LiveTable(name=f"{NAME}/regression", id="bl-regression"),
                Vertical(
                    NumberControl("a  leader in", 0.7, low=0, step=0.05, id="bl-a"),
                    NumberControl("b  leader out", 0.15, low=0, step=0.05, id="bl-b"),
                    NumberControl("c  follower in", 0.15, low=0, step=0.05, id="bl-c"),
                    id="bl-weights",
                ),
                Horizontal(
                    PlotView(id="bl-regression-plot"),
                    LiveTable(name=f"{NAME}/coverage", id="bl-coverage", renderers={"fill": share_bar(peak=1)}),
                ),
            ),
        )
        sections.add(
            "failures",
            LiveTable(
                name=f"{NAME}/failures", id="bl-failures",
                renderers=FAILURE_CELLS,
            ),
        )  # fmt: skip
        sections.add(
            "restarts",
            Vertical(Facts(id="bl-rolling-facts"), LiveTable(name=f"{NAME}/rolling-restart", id="bl-rolling")),
        )
        sections.add(
            "what if",
            Vertical(
                Facts(id="bl-what-facts"),
                LiveTable(
                    name=f"{NAME}/what-if", id="bl-what",
                    renderers=AFTER_CELLS,
                ),
                LiveTable(name=f"{NAME}/what-if-leaders", id="bl-what-leaders"),
            ),
        )  # fmt: skip
        sections.add(
            "data",
            Vertical(
                LiveTable(name=f"{NAME}/ledger", id="bl-ledger"), LiveTable(name=f"{NAME}/skipped", id="bl-skipped")
            ),
        )
        yield sections

    # -- drawing ------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw the section on screen; the others when they are chosen."""
        titles = self.query_one("#bl-sections", Sections)
        bar = titles.query_one(TitleBar)
        goals = result.summary.get("violated_goals", 0)
        hard = result.summary.get("violated_hard_goals", 0)
        bar.mark(GOALS, str(goals) if goals else "", "severe" if hard else "moderate")
        lost = result.summary.get("unsurvivable_single_failures", 0)
        bar.mark(FAILURES, str(lost) if lost else "", "severe")
        gone = result.summary.get("skipped_partitions", 0)
        bar.mark(DATA, str(gone) if gone else "", "moderate")
        bar.mark(WHAT_IF, "*" if asks_what_if(self.parameters) else "", "key")
        self._draw(titles.chosen)

    @on(Sections.Shown, "#bl-sections")
    def _section_shown(self, event: Sections.Shown) -> None:
        if self.result is not None:
            self._draw(event.index)

    def _draw(self, section: int) -> None:
        result = self.result
        if result is None:
            return
        if section == BROKERS:
            self.query_one(BrokersSection).show(self, result, self.grouping)
        elif section == TOPICS:
            self.show_table("#bl-topics", result, "topics")
        elif section == GOALS:
            self.show_table("#bl-goals", result, "goals")
            self._goal()
            self.show_table("#bl-balance", result, "balance")
        elif section == REGRESSION:
            self._regression(result)
        elif section == FAILURES:
            self.show_table("#bl-failures", result, "failures")
        elif section == ROLLING:
            self._rolling(result)
        elif section == WHAT_IF:
            self._what_if(result)
        elif section == DATA:
            self.show_table("#bl-ledger", result, "ledger")
            self.show_table("#bl-skipped", result, "skipped")

    @on(LiveTable.Highlighted, "#bl-goals")
    def _goal(self) -> None:
        row = self.query_one("#bl-goals", LiveTable).row
        words = str(row["detail"] or ("violated" if row["violated"] else "kept")) if row else ""
        self.query_one("#bl-goal-facts", Facts).show([(str(row["goal"]), words, "")] if row else [])

    def _regression(self, result: Result) -> None:
        self.show_table("#bl-regression", result, "regression")
        self.query_one("#bl-regression-facts", Facts).show(regression.facts(result, self.parameters))
        self.show_table("#bl-coverage", result, "regression_coverage")
        for name in "abc":
            self.query_one(f"#bl-{name}", NumberControl).show(getattr(self.parameters, name))
        self.query_one("#bl-regression-plot", PlotView).show(regression.chart(result.detail))

    def _rolling(self, result: Result) -> None:
        frame = result.tables.get("rolling_restart")
        table = self.query_one("#bl-rolling", LiveTable)
        facts = self.query_one("#bl-rolling-facts", Facts)
        if frame is None:
            facts.show([("too many brokers for a matrix: see the section failures", "", "dim")])
            table.display = False
            return
        measure = MEASURES[self.measure]
        facts.show(
            [
                (f"{measure[2]} of each broker (columns) while that of the row is down", "", ""),
                ("! over the threshold   y other measure   Enter plays it   h l further brokers", "", "dim"),
            ]
        )
        table.display = True
        matrix, spec, renderers = rolling.matrix(frame, measure)
        table.renderers = renderers
        table.show(matrix, spec if table.spec is None or spec.columns != table.spec.columns else table.spec)

    def _what_if(self, result: Result) -> None:
        facts = what_if.facts(self.parameters, result)
        (title, first, second), place, count = what_if.page(result, self.page)
        if count > 1 and asks_what_if(self.parameters):
            facts.insert(0, ("shown", f"{title} ({place} of {count}; y shows the next)", "key"))
        self.query_one("#bl-what-facts", Facts).show(facts)
        table, below = self.query_one("#bl-what", LiveTable), self.query_one("#bl-what-leaders", LiveTable)
        table.renderers = AFTER_CELLS if first == "failover_brokers" else BROKER_CELLS
        frame = result.tables.get(first)
        if frame is not None and "breaches" in frame.columns:  # what is over a threshold first, then by CPU
            frame = frame.sort(frame["breaches"] == "", -frame["cpu_pct"], maintain_order=True, nulls_last=True)
        self.show_table("#bl-what", result, first, frame)
        below.display = bool(second)
        if second:
            self.show_table("#bl-what-leaders", result, second)

    def steps(self) -> Sequence[int]:
        """Return the ends of all windows (epoch ms)."""
        detail = self.result.detail if self.result is not None else None
        return detail.window_ends if detail is not None else ()

    # -- drilling down ------------------------------------------------------------------------------------------------

    @on(LiveTable.Selected, "#bl-brokers")
    async def _open_broker(self, event: LiveTable.Selected) -> None:
        event.stop()
        if self.query_one(BrokersSection).is_killed(event.key[0]):
            self.query_one("#bl-sections", Sections).choose(WHAT_IF)
        elif self.grouping == "brokers":
            await self.drill(BrokerLevel(int(event.key[0])))

    @on(LiveTable.Selected, "#bl-top-topics")
    @on(LiveTable.Selected, "#bl-topics")
    async def _open_topic(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self.drill(TopicLevel(str(event.key[0])))

    @on(LiveTable.Selected, "#broker-replicas")
    async def _open_replica(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self.drill(TopicLevel(str(event.key[0])))
        self.levels[-1].query_one("#topic-partitions", LiveTable).move_to_key((event.key[0], event.key[1]))

    @on(LiveTable.Selected, "#topic-partitions")
    @on(LiveTable.Selected, "#bl-skipped")
    @on(LiveTable.Selected, "#bl-what-leaders")
    async def _open_partition(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self.drill(PartitionLevel(str(event.key[0]), int(event.key[1])))

    @on(LiveTable.Selected, "#partition-replicas")
    async def _open_holder(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self.drill(BrokerLevel(int(event.key[2])))

    @on(LiveTable.Selected, "#bl-failures")
    @on(LiveTable.Selected, "#bl-rolling")
    def _open_failure(self, event: LiveTable.Selected) -> None:
        event.stop()
        self.action_kill()
        self.query_one("#bl-sections", Sections).choose(WHAT_IF)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _under_cursor(self) -> str | None:
        """Return the broker or rack under the cursor, as the parameter ``fail`` names it."""
        top = self.levels[-1] if self.levels else None
        if isinstance(top, BrokerLevel):
            return str(top.broker)
        if len(self.levels) > 1 or not self.query("#bl-sections"):
            return None
        section = self.query_one("#bl-sections", Sections).chosen
        table = {
            BROKERS: "#bl-brokers", FAILURES: "#bl-failures", ROLLING: "#bl-rolling", WHAT_IF: "#bl-what",
        }.get(section)  # fmt: skip
        row = self.query_one(table, LiveTable).row if table else None
        if row is None:
            return None
        if "failure" in row:
            kind, _, name = str(row["failure"]).partition(" ")
            return name if kind == "broker" else f"rack:{name}"
        if row.get("down") is not None:
            return str(row["down"])
        if row.get("broker") is not None:
            return str(row["broker"])
        if section == BROKERS and self.grouping == "racks":
            return f"rack:{row['rack']}"
        return f"host:{row['host']}" if row.get("host") else None

    def _toggle(self, field: str) -> None:
        word = self._under_cursor()
        if word is None or self.parameters is None:
            self.notify("put the cursor on a broker first", timeout=3)
            return
        now = getattr(self.parameters, field)
        self.change(**{field: tuple(w for w in now if w != word) if word in now else (*now, word)})

    def action_kill(self) -> None:
        """Kill the broker or rack under the cursor, or bring it back."""
        word = self._under_cursor()
        if self.result is not None and word not in self.parameters.fail and what_if.is_dead(self.result, word):
            self.notify(f"broker {word} is already dead", severity="warning", timeout=3)
            return
        self._toggle("fail")

    def action_demote(self) -> None:
        """Demote the broker under the cursor, or undo that."""
        self._toggle("demote")

    def action_mode(self) -> None:
        """Go on to the next of upstream (as Cruise Control), corrected, regression."""
        if self.parameters is not None:
            self.change(mode=MODES[(MODES.index(self.parameters.mode) + 1) % len(MODES)])

    def action_weights(self) -> None:
        """Switch between static and fitted weights."""
        if self.parameters is not None:
            self.change(weights="static" if self.parameters.weights == "fitted" else "fitted")

    def action_plan(self) -> None:
        """Apply the reassignment among the inputs, or drop it."""
        if self.parameters is not None:
            self.change(apply_plan=not self.parameters.apply_plan)

    def action_add(self) -> None:
        """Add one more broker."""
        if self.parameters is not None:
            self.change(add_brokers=self.parameters.add_brokers + 1)

    def action_clear(self) -> None:
        """Drop the what-if."""
        if self.parameters is not None:
            self.change(**no_what_if(type(self.parameters)))

    def action_page(self) -> None:
        """Show the next measure of the rolling restart, or the next table of the what-if."""
        if self.result is None or not self.query("#bl-sections"):
            return
        section = self.query_one("#bl-sections", Sections).chosen
        if section == WHAT_IF:
            self.page += 1
        else:
            self.measure = (self.measure + 1) % len(MEASURES)
            section = ROLLING
            self.query_one("#bl-sections", Sections).choose(ROLLING)
        self._draw(section)

    def action_group(self) -> None:
        """Group by brokers, hosts or racks."""
        self.grouping = GROUPS[(GROUPS.index(self.grouping) + 1) % len(GROUPS)]
        if self.result is not None and self.query("#bl-sections"):
            self.query_one("#bl-sections", Sections).choose(BROKERS)
            self._draw(BROKERS)

    @on(NumberControl.Changed)
    def _weight(self, event: NumberControl.Changed) -> None:
        if event.number.id in ("bl-a", "bl-b", "bl-c"):
            event.stop()
            self.change(**{event.number.id[-1]: event.value})
