"""The tab: brokers, topics, goals, regression, failures, the what-if and what was odd in the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.containers import Horizontal, Vertical

from engine.core.parameters import asks_what_if
from tui.host import host_of
from tui.views.broker_load import cells, drawing, plan
from tui.views.broker_load.levels import BrokerLevel, PartitionLevel, TopicLevel
from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import Box, DetailPanel, FactsOf, Fit, Level, PlotOf, Row, Section, Shown, TableOf
from tui.widgets.control import NumberControl, following
from tui.widgets.drawing.bars import share_bar
from tui.widgets.drawing.plot import Draw
from tui.widgets.facts import Fact
from tui.widgets.prompt import ask
from tui.widgets.table.window import Looks

if TYPE_CHECKING:
    from engine.core.view import Result
    from tui.actions import Action

GROUPS = ("brokers", "hosts", "racks")
BROKERS, FAILURES, ROLLING, WHAT_IF, PLAN = "brokers", "failures", "restarts", "what if", "plan"
"""Titles of sections that keys go to."""


class Root(Level):
    """The sections of the tab. ``grouping``, ``measure``, ``page``: what brokers, restarts and what-if show."""

    NAME = "bl-sections"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #bl-worst { height: auto; max-height: 5; }
    #bl-top-topics { height: 1fr; }
    #bl-history { height: 1fr; display: none; }
    .-tall #bl-history { display: block; }
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
    #bl-plan-facts { height: auto; max-height: 5; }
    #bl-plan-curve { height: 1fr; }
    .-short #bl-plan-curve { height: 8; }
    #bl-plan-step { height: 7; }
    #bl-plan-detail { width: 1fr; min-width: 46; }
    #step-facts { height: 4; }
    #bl-ledger { height: 2fr; }
    #bl-skipped { height: 1fr; }
    #partition-windows { height: 9; }
    .-short #partition-windows { height: 5; }
    """

    grouping = GROUPS[0]
    measure = page = 0

    def sections(self) -> tuple[Section, ...]:
        """One section per question."""
        return (
            Section(BROKERS, self._brokers_section()),
            Section("topics", self._topics("bl-topics", "topics")),
            Section("goals", self._goals_section(), self._count("violated_goals", "moderate", "violated_hard_goals")),
            Section("regression", self._regression_section()),
            Section(
                FAILURES,
                TableOf(table="failures", id="bl-failures", cells=cells.FAILURE_CELLS, open=self._play),
                self._count("unsurvivable_single_failures", "severe"),
            ),
            Section(ROLLING, self._restarts_section()),
            Section(
                WHAT_IF,
                self._what_if_section(),
                lambda result: ("*" if self._what_if_asked() else "", "key"),
            ),
            Section(PLAN, plan.content(self._open_step), self._count("plan_steps", "key")),
            Section(
                "data",
                Box(
                    Vertical,
                    TableOf(table="ledger", id="bl-ledger"),
                    TableOf(table="skipped", id="bl-skipped", open=self._open_partition),
                ),
                self._count("skipped_partitions", "moderate"),
            ),
        )

    @staticmethod
    def _count(name: str, style: str, severe: str = "") -> Any:
        """Return what marks a section with a number of the summary, severe where the number ``severe`` is above 0."""
        return lambda result: (
            str(result.summary.get(name) or ""), "severe" if result.summary.get(severe) else style,
        )  # fmt: skip

    # -- brokers, hosts or racks ----------------------------------------------------------------------------------------

    def _brokers_section(self) -> Box:
        """Return the brokers, the worst loss, where the load comes from, and the history of one broker."""
        brokers = TableOf(
            table="brokers", id="bl-brokers", rows=self._broker_rows, looks=_broker_looks, open=self._open_broker
        )
        return Box(
            Horizontal,
            Box(
                Fit,
                brokers,
                FactsOf(drawing.losses, "bl-worst"),
                self._topics("bl-top-topics", "top-topics"),
                PlotOf(self._history, "bl-history", of="bl-brokers"),
            ),
            Box(DetailPanel, FactsOf(self._broker_facts, "bl-broker-facts", of="bl-brokers"), id="bl-broker-detail"),
        )

    def _topics(self, id: str, name: str) -> TableOf:
        """Return a table of the topics; the smaller one is left out without any."""

        def rows(result: Result) -> Any:
            topics = result.tables.get("topics")
            return topics if topics is not None and topics.height else None

        return TableOf(
            table="topics", id=id, name=name, cells=cells.TOPIC_CELLS, open=lambda row: self.pane.drill(TopicLevel(row["topic"])),
            rows=rows, hide=name != "topics",
        )  # fmt: skip

    def _broker_rows(self, result: Result) -> Any:
        """Return brokers that are not alive first, then those with the least headroom; or hosts or racks."""
        frame = result.tables.get(self.grouping)
        if frame is None or self.grouping != "brokers":
            return frame, self.pane.spec(self.grouping)
        import polars as pl

        hottest = -pl.coalesce("cpu_pct", "measured_cpu_pct")  # without a model there is no headroom
        by = (pl.col("state") == "ALIVE", "headroom_pct", hottest, "broker")
        rows = frame.sort(*by, nulls_last=True, maintain_order=True)
        name = drawing.after_name(result)
        if not name:
            cores_unknown = rows["cpu_pct"].null_count() == rows.height > rows["cpu_pct_cores"].null_count()
            return rows, cells.in_cores(self.pane.spec("brokers")) if cores_unknown else self.pane.spec("brokers")
        # Where it stands, each broker shows what the what-if makes of it.
        places = rows.select("broker", place=pl.int_range(pl.len())).unique("broker", keep="first")
        after = result.tables[name].join(places, on="broker", how="left").sort("place", "broker", nulls_last=True)
        return after.drop("place"), self.pane.spec(name)

    def _broker_facts(self, result: Result, row: Row | None) -> list[Fact]:
        if row is None:
            return []
        if "cpu_pct_before" in row:
            return drawing.after_facts(result, row)
        return drawing.broker_facts(row, result.tables["brokers"]) if "source" in row else drawing.group_facts(row)

    def _history(self, result: Result, row: Row | None) -> Draw | None:
        if row is None or "source" not in row:
            return None
        return drawing.cpu_history(row, result.detail, self.pane.parameters.capacity_threshold("CPU"))

    # -- goals, regression, restarts ------------------------------------------------------------------------------------

    def _goals_section(self) -> Box:
        def goal(result: Result, row: Row | None) -> list[Fact]:
            return [(row["goal"], row["detail"] or ("violated" if row["violated"] else "kept"), "")] if row else []

        return Box(
            Vertical,
            TableOf(table="goals", id="bl-goals", cells=cells.GOAL_CELLS),
            FactsOf(goal, "bl-goal-facts", of="bl-goals"),
            TableOf(table="balance", id="bl-balance"),
        )

    def _regression_section(self) -> Box:
        def weight(name: str, label: str, value: float) -> Shown:
            control = partial(NumberControl, f"{name}  {label}", value, low=0, step=0.05, name=name)
            return Shown(control, lambda result: getattr(self.pane.parameters, name), f"bl-{name}")

        weights = [
            weight("a", "leader in", 0.7), weight("b", "leader out", 0.15), weight("c", "follower in", 0.15),
        ]  # fmt: skip
        coverage = TableOf(
            table="regression_coverage", id="bl-coverage", name="coverage", cells={"fill": share_bar(peak=1)}
        )
        return Box(
            Vertical,
            FactsOf(lambda result: drawing.regression_facts(result, self.pane.parameters), "bl-regression-facts"),
            TableOf(table="regression", id="bl-regression"),
            Box(Vertical, *weights, id="bl-weights"),
            Box(
                Horizontal,
                PlotOf(lambda result: drawing.regression_chart(result.detail), "bl-regression-plot"),
                coverage,
            ),
        )

    def _restarts_section(self) -> Box:
        def facts(result: Result) -> list[Fact]:
            if "rolling_restart" not in result.tables:
                return [("too many brokers for a matrix: see the section failures", "", "dim")]
            words = cells.MEASURES[self.measure][2]
            keys = "! over the threshold   y other measure   Enter plays it   h l further brokers"
            return [(f"{words} of each broker (columns) while that of the row is down", "", ""), (keys, "", "dim")]

        def of_measure(make: Callable[..., Any], none: Any) -> Callable[[Result], Any]:
            """Return what ``make`` makes of the table and the measure shown, ``none`` without the table."""
            return lambda result: (
                make(result.tables["rolling_restart"], cells.MEASURES[self.measure])
                if "rolling_restart" in result.tables
                else none
            )

        table = TableOf(
            table="rolling_restart", id="bl-rolling", name="rolling-restart", rows=of_measure(cells.restart_rows, None),
            looks=of_measure(cells.restart_looks, Looks()), hide=True, open=self._play,
        )  # fmt: skip
        return Box(Vertical, FactsOf(facts, "bl-rolling-facts"), table)

    # -- what if ----------------------------------------------------------------------------------------------------------

    def _what_if_asked(self) -> bool:
        from engine.broker_load.plan.planner import unplanned

        return asks_what_if(unplanned(self.pane.parameters))

    def _what_if_section(self) -> Box:
        def facts(result: Result) -> list[Fact]:
            told = drawing.what_if_facts(self.pane.parameters, result)
            (title, _, _), place, count = drawing.page(result, self.page)
            if count > 1 and asks_what_if(self.pane.parameters):
                told.insert(0, ("shown", f"{title} ({place} of {count}; y shows the next)", "key"))
            return told

        def rows(result: Result) -> Any:
            first = drawing.page(result, self.page)[0][1]
            frame = result.tables.get(first)
            if frame is not None and "breaches" in frame.columns:  # what is over a threshold first, then by CPU
                frame = frame.sort(frame["breaches"] == "", -frame["cpu_pct"], maintain_order=True, nulls_last=True)
            return frame, self.pane.spec(first)

        def looks(result: Result) -> Looks:
            return Looks(
                cells.AFTER_CELLS if (drawing.page(result, self.page)[0][1] in drawing.AFTER) else cells.BROKER_CELLS
            )

        def rows_below(result: Result) -> Any:
            second = drawing.page(result, self.page)[0][2]
            return (
                (result.tables.get(second, self.pane.spec(second).empty()), self.pane.spec(second)) if second else None
            )

        return Box(
            Vertical,
            FactsOf(facts, "bl-what-facts"),
            TableOf(table="failover_brokers", id="bl-what", name="what-if", rows=rows, looks=looks),
            TableOf(
                table="failover_leaders", id="bl-what-leaders", name="what-if-leaders", rows=rows_below, hide=True,
                open=self._open_partition,
            ),
        )  # fmt: skip

    # -- what Enter opens -------------------------------------------------------------------------------------------------

    async def _open_broker(self, row: Row) -> None:
        """Open a broker; for one that dies in the what-if, show the outcome."""
        if self.pane.result is not None and row.get("broker") in self.pane.result.summary.get("failed_brokers", ()):
            self.choose(WHAT_IF)
        elif row.get("broker") is not None:
            await self.pane.drill(BrokerLevel(row["broker"]))

    async def _open_partition(self, row: Row) -> None:
        await self.pane.drill(PartitionLevel(row["topic"], row["partition"]))

    async def _open_step(self, row: Row) -> None:
        """Cut the plan after a step, and show the brokers."""
        await self.pane.drill(plan.StepLevel(row, self.pane.parameters.plan_max_steps))
        self.pane.change(plan_max_steps=row["step"])

    def _play(self, row: Row) -> None:
        """Let what the row names die, and show the outcome."""
        self.pane.action_kill()
        self.choose(WHAT_IF)


class Pane(ViewPane):
    """Broker load."""

    VIEW = "broker-load"
    ROOT = Root
    root: Root

    def moments(self, result: Result) -> Sequence[int]:
        """Return the ends of all windows."""
        return result.detail.window_ends if result.detail is not None else ()

    # -- actions ------------------------------------------------------------------------------------------------------

    def _under_cursor(self) -> str | None:
        """Return the broker or rack under the cursor, as the parameter ``fail`` names it."""
        if isinstance(self.top, BrokerLevel):
            return str(self.top.broker)
        tables = {BROKERS: "bl-brokers", FAILURES: "bl-failures", ROLLING: "bl-rolling", WHAT_IF: "bl-what"}
        table = tables.get(self.root.section) if len(self.levels) == 1 else None
        row = self.root.row(table) if table else None
        if row is None:
            return None
        if "failure" in row:
            kind, _, name = str(row["failure"]).partition(" ")
            return name if kind == "broker" else f"rack:{name}"
        brokers = (str(row[column]) for column in ("down", "broker") if row.get(column) is not None)
        return next(brokers, next((f"{kind}:{row[kind]}" for kind in ("host", "rack") if row.get(kind)), None))

    def action_flip(self, field: str) -> None:
        """Add the broker or rack under the cursor to an option, or take it out."""
        word = self._under_cursor()
        if word is None or self.parameters is None:
            self.notify("put the cursor on a broker first", timeout=3)
            return
        now = getattr(self.parameters, field)
        self.change(**{field: tuple(w for w in now if w != word) if word in now else (*now, word)})

    def action_kill(self) -> None:
        """Kill the broker or rack under the cursor, or bring it back; leave the partition of the plan's step alone."""
        step = self.root.row(plan.ID) if self._plans else None
        if step is not None:
            self.change(plan_reject=(*self.parameters.plan_reject, f"{step['topic']}-{step['partition']}"))
            return
        word = self._under_cursor()
        if self.result is not None and word not in self.parameters.fail and drawing.is_dead(self.result, word):
            self.notify(f"broker {word} is already dead", severity="warning", timeout=3)
            return
        self.action_flip("fail")

    # -- the plan -----------------------------------------------------------------------------------------------------

    @property
    def _plans(self) -> bool:
        return bool(self.levels) and len(self.levels) == 1 and self.root.section == PLAN

    def key_words(self) -> Mapping[str, Action]:
        """Return what the keys do where steps of a plan are shown."""
        known, words = host_of(self).actions_by_id, plan.WORDS if self._plans and self.parameters.plan else {}
        return {name: replace(known[name], title=words[name], bar=rank) for rank, name in enumerate(words, 1)}

    async def back(self) -> bool:
        """Close the level on top; a plan that was cut for it is whole again."""
        step = self.top if isinstance(self.top, plan.StepLevel) else None
        done = await super().back()
        if step is not None:
            self.change(plan_max_steps=step.cut)
        return done

    def action_make_plan(self) -> None:
        """Plan for all goals, or for the next loss if that is planned; show the section."""
        if self.parameters is not None and self.levels:
            self.root.choose(PLAN)
            self.change(plan="survive" if self.parameters.plan == "mend" else "mend", plan_max_steps=0)

    async def action_drain(self) -> None:
        """Ask which brokers to drain."""
        word = self._under_cursor() or ""
        await self._ask_plan("drain", word if word.isdecimal() else "", "ids of brokers to drain, separated by commas")

    async def _ask_plan(self, kind: str, value: str, hint: str) -> None:
        def done(text: str) -> None:
            if text.strip():
                self.root.choose(PLAN)
                self.focus_content()  # it was in the section before
                self.change(plan=f"{kind}:{text.strip()}", plan_max_steps=0)

        await ask(self.app.focused or self, f"{kind} ", value, hint, done=done)

    def action_cut(self) -> None:
        """Cut the plan at the cursor, or make it whole again."""
        row = self.root.row(plan.ID) if self._plans else None
        if row is not None:
            self.change(plan_max_steps=0 if self.parameters.plan_max_steps else row["step"])
        else:
            self.notify("show the section plan (P) and choose a step first", timeout=3)

    async def action_write(self) -> None:
        """Ask for a folder and write the files of the plan."""
        result = self.result
        if result is None or "plan_steps" not in result.tables:
            asked = self.parameters is not None and self.parameters.plan
            self.notify("the plan is not ready yet" if asked else "there is no plan yet: P makes one", timeout=3)
            return

        def done(folder: str) -> None:
            if folder.strip():
                self.notify(
                    *plan.write(result, self.parameters.plan_throttle_mbs, folder.strip()), markup=False, timeout=8
                )

        names = ("plan", *(f"plan-{number}" for number in range(2, 1000)))
        free = next((name for name in names if not os.path.lexists(name)), "plan")
        await ask(
            self.app.focused or self, "write into ", free, "folder for the JSON files and the commands", done=done
        )

    async def action_add(self) -> None:
        """Add one more broker; in the section plan ask which brokers join."""
        if self._plans:
            await self._ask_plan("add", "", "ids of new brokers, with a rack behind @: 13@rack-a")
        elif self.parameters is not None:
            self.change(add_brokers=self.parameters.add_brokers + 1)

    def action_page(self) -> None:
        """Show the next measure of the rolling restart, or the next table of the what-if."""
        if not self.levels:
            return
        if self.root.section == WHAT_IF:
            self.root.page += 1
        else:
            self.root.measure = (self.root.measure + 1) % len(cells.MEASURES)
            self.root.choose(ROLLING)
        self.root.draw()

    def action_group(self) -> None:
        """Group by brokers, hosts or racks."""
        self.root.grouping = following(GROUPS, self.root.grouping)
        if self.levels:
            self.root.choose(BROKERS)
            self.root.draw()


def _broker_looks(result: Result) -> Looks:
    """Return how the brokers of a result are drawn: the killed, the dead and those on bad disks stand out."""

    def style(row: Mapping[str, Any]) -> str:
        if row.get("broker") in result.summary.get("failed_brokers", ()):
            return "failed"
        return "" if row.get("state") in ("ALIVE", "NEW", "DEMOTED", None) else "severe"

    return Looks(cells.AFTER_CELLS if drawing.after_name(result) else cells.BROKER_CELLS, style)
