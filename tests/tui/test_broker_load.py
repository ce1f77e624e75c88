"""The broker load tab on a real session over the sample cluster: keys pressed, text read."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.broker_load.plan import export
from engine.broker_load.view import VIEW
from sample_data.broker_load.make import write
from tests.engine.broker_load.clusters import simple
from tests.tui.stage import SIZES, Stage, compare, opened, play, settle, still
from tui.views.broker_load import plan
from tui.views.broker_load.levels import BrokerLevel, PartitionLevel, TopicLevel
from tui.widgets.control import NumberControl
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

SECTIONS = ("brokers", "topics", "goals", "regression", "failures", "restarts", "what-if", "plan", "data")
REGRESSION, FAILURES, ROLLING, WHAT_IF = (
    SECTIONS.index(name) for name in ("regression", "failures", "restarts", "what-if")
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample cluster on disk, all files of one age."""
    root = tmp_path_factory.mktemp("kafka")
    write(root)
    still(root)
    return root


@asynccontextmanager
async def screen(root: Path, tmp_path: Path, size=(120, 40), *, once=True):
    """The dashboard on ``root``, with its first result."""
    async with opened(root, VIEW, tmp_path, size, once=once) as s:
        await s.until(lambda: bool(s.app.pane.query("#bl-brokers")), 20)
        await s.until(
            lambda: table(s, "#bl-brokers").window is not None and table(s, "#bl-brokers").window.height > 0, 20
        )
        yield s


def table(s: Stage, selector: str) -> LiveTable:
    return s.app.pane.query_one(selector, LiveTable)


async def section(s: Stage, number: int) -> None:
    s.app.pane.query_one("#bl-sections", Sections).choose(number)
    await s.pilot.pause()


def test_brokers_show_bars_states_trend_and_residuals(cluster: Path, tmp_path: Path, update: bool) -> None:
    """At 80 columns, and beside the open detail of a wider screen."""

    async def story() -> None:
        async with screen(cluster, tmp_path, SIZES[0]) as s:
            for size in SIZES:
                await s.resize(*size)
                await look(s, size)

    async def look(s: Stage, size: tuple[int, int]) -> None:
        await settle(s)
        text = s.text()
        shown = table(s, "#bl-brokers")
        names = {slot.column.name for slot in shown._layout.slots}
        wanted = {"headroom_pct", "cpu_pct", "disk_pct", "leader_nw_in_kbs", "nw_out_kbs", "cpu_trend"}
        assert wanted <= names or size == (120, 40), wanted - names
        assert s.app.pane.query_one("#bl-broker-detail").display or size[0] < 100
        rows = shown.window.rows(0, 9)
        headroom = [row["headroom_pct"] for row in rows]
        assert headroom == sorted(headroom) and len(rows) == 6  # the broker nearest to a threshold first
        topics = [row["topic"] for row in table(s, "#bl-top-topics").window.rows(0, 3)]
        assert topics == s.app.pane.result.tables["topics"]["topic"].to_list()[:3] and topics[0] in text
        assert s.app.pane.result.summary["worst_single_failure"].split(":")[0] in text
        if size == (200, 50):
            for word in ("kafka-1.example.net", "rack-a", "ALIVE", "off by", "CPU modelled"):
                assert word in text, (word, text)
            assert any(f"{row['residual_cpu_pct']:+.1f}" in text for row in rows)
        compare(f"broker-load-{size[0]}x{size[1]}", text, update)

    play(story)


def test_grouping_by_host_and_rack(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.press("b", "b")
            await s.until(lambda: table(s, "#bl-brokers").window.height == 3)
            assert [row["rack"] for row in table(s, "#bl-brokers").window.rows(0, 3)] == ["rack-a", "rack-b", "rack-c"]
            await s.press("space")
            await s.until(lambda: s.app.pane.parameters.fail == ("rack:rack-a",))
            await s.press("b")
            await s.until(lambda: table(s, "#bl-brokers").window.height == 6)

    play(story)


def test_drilling_down_from_broker_to_partition_and_back(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (160, 40)) as s:
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.levels[-1], BrokerLevel))
            await s.until(lambda: table(s, "#broker-replicas").window is not None)
            costs = [row["cpu_pct_cores"] for row in table(s, "#broker-replicas").window.rows(0, 99)]
            assert costs == sorted(costs, reverse=True) and costs[0] > 0
            top = table(s, "#broker-replicas").row
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.levels[-1], TopicLevel))
            await s.until(lambda: table(s, "#topic-partitions").row is not None)
            assert {row["topic"] for row in table(s, "#topic-partitions").window.rows(0, 99)} == {top["topic"]}
            assert table(s, "#topic-partitions").row["partition"] == top["partition"]
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.levels[-1], PartitionLevel))
            await s.see("in sync")
            await s.see("anything from 0")  # several leaders of the topic on that broker: the bounds are said
            await s.press("escape", "escape", "escape")
            await s.until(lambda: len(s.app.pane.levels) == 1)

    play(story)


def test_killing_a_broker_shows_who_takes_over_and_can_be_undone(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            shown = table(s, "#bl-brokers")
            first = shown.row["broker"]
            await s.press("space")
            await s.until(lambda: "failover_brokers" in s.app.pane.result.tables)
            assert s.app.pane.parameters.fail == (str(first),)
            assert shown.row["broker"] == first and shown.window.looks.style(shown.row) == "failed"  # marked in place
            await s.see("FAILED")
            await s.see("u undoes it")
            await s.see("taken by")
            after = {row["broker"]: row for row in shown.window.rows(0, 9)}
            assert any(row["cpu_pct"] > row["cpu_pct_before"] for row in after.values() if row["state"] == "ALIVE")
            await s.press("enter")  # and one key to its result
            await s.until(lambda: s.app.pane.query_one("#bl-sections", Sections).chosen == WHAT_IF)
            await s.see("FAILED")
            await s.see("leaders move")
            leaders = table(s, "#bl-what-leaders").window.rows(0, 99)
            assert leaders and all(row["old_leader"] == first and row["new_leader"] != first for row in leaders)
            await s.press("u")
            await s.until(lambda: "failover_brokers" not in s.app.pane.result.tables)
            await s.see("Space kills")

    play(story)


def test_a_broker_that_is_dead_already_cannot_be_killed(tmp_path: Path) -> None:
    folder = tmp_path / "dead"
    folder.mkdir()
    made = simple(folder)
    made.dead = {3}
    made.write()
    still(folder)

    async def story() -> None:
        async with screen(folder, tmp_path) as s:
            assert table(s, "#bl-brokers").row["state"] == "DEAD"
            await s.press("space")
            await s.see("broker 3 is already dead")
            assert not s.app.pane.parameters.fail

    play(story)


def test_enter_on_a_failure_plays_it(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await section(s, FAILURES)
            await s.until(lambda: table(s, "#bl-failures").row is not None)
            table(s, "#bl-failures").focus()
            await s.press("enter")
            await s.until(lambda: "failover_brokers" in s.app.pane.result.tables)
            assert s.app.pane.query_one("#bl-sections", Sections).chosen == WHAT_IF
            await s.press("x")
            await s.until(lambda: "failover_brokers" not in s.app.pane.result.tables)

    play(story)


def test_rolling_restart_as_a_matrix(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (80, 24)) as s:
            await section(s, ROLLING)
            matrix = table(s, "#bl-rolling")
            await s.until(lambda: matrix.row is not None)
            for measure, kind in (("cpu_pct", float), ("nw_out_kbs", float), ("leaders", int)):
                frame = s.app.pane.result.tables["rolling_restart"]
                expected = {(d, b): v for d, b, v in frame.select("down", "broker", measure).iter_rows()}
                rows = matrix.window.rows(0, 9)
                assert [row["down"] for row in rows] == [1, 2, 3, 4, 5, 6]
                got = {(row["down"], b): row[f"b{b}"] for row in rows for b in range(1, 7) if b != row["down"]}
                assert got == expected
                assert {type(value) for value in got.values()} == {kind}
                assert all(row[f"b{row['down']}"] is None for row in rows)
                await s.press("y")
                await s.until(lambda m=measure: m not in matrix.spec.name)
            matrix.focus()
            await s.press("j", "enter")
            await s.until(lambda: s.app.pane.parameters.fail == ("2",))
            await s.until(lambda: s.app.pane.query_one("#bl-sections", Sections).chosen == WHAT_IF)

    play(story)


def test_the_what_if_shows_every_table_in_turn(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.press("space", "M", "a")
            await s.until(lambda: {"failover_brokers", "add_brokers"} <= set(s.app.pane.result.tables))
            await section(s, WHAT_IF)
            seen = []
            for number in range(4):
                await s.see(f"({number + 1} of 4;")
                seen.append(table(s, "#bl-what").spec.name)
                await s.press("y")
            assert seen == ["failover_brokers", "failover_min_isr", "scenario_brokers", "add_brokers"]
            await s.see("(1 of 4;")

    play(story)


def test_directories_of_a_broker(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (80, 24)) as s:
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.levels[-1], BrokerLevel))
            await s.until(lambda: table(s, "#broker-directories").row is not None)
            every = s.app.pane.result.tables["directories"]
            mine = every.filter(every["broker"] == s.app.pane.levels[-1].broker)
            assert table(s, "#broker-directories").window.rows(0, 9) == mine.to_dicts()
            await s.see("/var/lib/kafka")

    play(story)


def test_demotion_plan_and_more_brokers(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.press("M")
            await s.until(lambda: "scenario_brokers" in s.app.pane.result.tables)
            await s.press("M")
            await s.choose("broker-load.plan")  # the demotion is taken back, the plan applied
            await s.until(lambda: len(s.app.pane.result.tables.get("scenario_moves", ())) == 1)
            await section(s, WHAT_IF)
            await s.see("web.clicks")
            await s.press("x", "a")
            await s.until(lambda: "add_brokers" in s.app.pane.result.tables)
            await s.see("1 broker of the typical capacity")

    play(story)


def test_mode_key_goes_round_and_weights_are_edited_live(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            for mode in ("corrected", "regression", "upstream"):
                await s.press("m")
                await s.until(lambda mode=mode: s.app.pane.result.summary["mode"] == mode)
            await section(s, REGRESSION)
            control = s.app.pane.query_one("#bl-a", NumberControl)
            control.focus()
            before = s.app.pane.result.tables["replicas"]["cpu_pct_cores"].sum()
            await s.press("plus")
            await s.until(lambda: s.app.pane.result.tables["replicas"]["cpu_pct_cores"].sum() != before)
            assert s.app.pane.parameters.a == pytest.approx(0.75)
            await s.choose("broker-load.weights")
            await s.until(lambda: any("fitted weights" in note for note in s.app.pane.result.notes))

    play(story)


def test_time_travel_over_the_windows(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            assert len(s.app.pane.steps()) >= 4
            live = s.app.pane.result.tables["brokers"]["cpu_pct"].to_list()
            await s.press("left_parenthesis", "left_parenthesis")
            await s.until(lambda: s.app.pane.result.at_ms is not None)
            await s.until(lambda: s.app.pane.result.tables["brokers"]["cpu_pct"].to_list() != live)
            await s.press("backslash")
            await s.until(lambda: s.app.pane.result.tables["brokers"]["cpu_pct"].to_list() == live)

    play(story)


def test_a_new_scrape_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "kafka"
        simulation = write(root)
        async with screen(root, tmp_path, once=False) as s:
            before = s.app.pane.result.summary["sampling_intervals"]
            from sample_data.broker_load.cluster import put_scrapes

            for _ in range(2):
                simulation.advance(120)
                put_scrapes(simulation, root)
            await s.press("f5")
            await s.until(lambda: s.app.pane.result.summary["sampling_intervals"] > before, 20)

    play(story)


def test_every_section_glyph_set_and_theme(cluster: Path, tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await settle(s)
            before = s.text()
            first = s.app.theme
            for theme in sorted(
                name for name in s.app.available_themes if name.startswith("loadlens") or "ansi" in name
            ):
                s.app.theme = theme
                await s.pilot.pause()
                assert s.text() == before, theme
            s.app.theme = first
            for number in sorted(
                range(1, len(SECTIONS)), key=lambda number: number == WHAT_IF
            ):  # it changes the others
                if number == WHAT_IF:
                    s.app.pane.query_one("#bl-sections", Sections).choose(0)
                    await s.pilot.pause()
                    await s.press("space")
                    await s.until(lambda: "failover_brokers" in s.app.pane.result.tables)
                await section(s, number)
                await settle(s)
                compare(f"broker-load-{SECTIONS[number]}", s.text(), update)
                if number == REGRESSION:
                    for glyphs in ("block", "ascii"):
                        await s.press("f6")
                        await settle(s)
                        text = s.text()
                        assert glyphs != "ascii" or text.isascii(), [c for c in text if not c.isascii()]
                        compare(f"broker-load-{glyphs}", text, update)
                    await s.press("f6")

    play(story)


def test_the_files_of_a_plan_are_written_over_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        export, "files", lambda *given: {"a.json": "{}", "commands.txt": "\n".join(export.commands(*given[1:]))}
    )
    result: Any = None
    (said,) = plan.write(result, 1.0, "~no one/of these")
    assert said.startswith("2 files in ~no one/of these")
    script = Path("~no one/of these/commands.txt").read_text()
    assert "'~no one/of these/reassignment.json' --throttle 1048576 --execute" in script
    assert "give another folder" in plan.write(result, 1.0, "~no one/of these")[0]
    Path("taken").mkdir()
    Path("taken/commands.txt").symlink_to(tmp_path / "mine")
    assert "taken/commands.txt exists" in plan.write(result, 1.0, "taken")[0]
    assert not Path("taken/a.json").exists() and not Path("mine").exists()
    Path("file").touch()
    assert "not written" in plan.write(result, 1.0, "file/below")[0]
