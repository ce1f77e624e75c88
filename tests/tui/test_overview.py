from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

from engine.core.reading import Problem
from engine.core.view import Finding, Headline, NoInput, Result, Trend
from engine.findings.events import Event, Feed
from engine.findings.notify import NotifySettings, Threshold
from engine.views import Entry
from tests.tui.fakes import NOW, FakeSession, FakeView
from tests.tui.stage import Stage, play, stage
from tui.glyphs import BRAILLE
from tui.overview.actions import reveal
from tui.overview.briefs import Brief, Briefs
from tui.overview.control import Background
from tui.overview.pane import Row, _numbers, lines_of
from tui.tabs import OVERVIEW, first_tab
from tui.widgets.drawing.fragments import plain
from tui.widgets.table.table import LiveTable

ENTRIES = (
    Entry("first-view", "First view", "fake", "first files"),
    Entry("fake-view", "Fake view", "fake", "fake files"),
    Entry("empty-view", "Empty view", "fake", "files that are not there"),
)


class Judging(FakeView):
    """A fake view with findings that a test sets."""

    found: tuple[Finding, ...] = ()

    def compute(self, inputs: Any, parameters: Any, context: Any) -> Result:
        result = super().compute(inputs, parameters, context)
        return Result(
            result.view, result.summary, result.tables, (Headline("nodes", "4 alive", level="ok"),), self.found,
            newest_ms=int(NOW * 1000) - 5000, detail=result.detail, trend=Trend("load", (1.0, 2.0, 3.0)), at_ms=result.at_ms,
        )  # fmt: skip


def views() -> dict[str, Judging]:
    made = {entry.name: Judging(entry.name, entry.title) for entry in ENTRIES}
    made["empty-view"].error = NoInput("no files of this kind")
    return made


def session_of(made: dict[str, Judging]) -> FakeSession:
    return FakeSession(list(made.values()))


def on_row(s: Stage, name: str) -> bool:
    """Whether the cursor of a table of the shown tab is on this row."""
    return any(table.row and table.row.get("name") == name for table in s.app.pane.query(LiveTable))


def test_all_views_are_on_the_first_screen_without_a_key(tmp_path: Path) -> None:
    made = views()
    made["fake-view"].found = (Finding("severe", "node-002", "is hot"), Finding("low", "node-003", "is warm"))

    async def story() -> None:
        async with stage(tmp_path, session=session_of(made), view=None, entries=ENTRIES, ready=False) as s:
            await s.see("node-002: is hot")
            await s.see("Nothing to show: no files of this kind")
            await s.until(lambda: s.text().count("4 alive") == 2)
            lines = s.text().splitlines()
            assert "0 Overview" in lines[0] and "2 Fake view 1" in lines[0], "a tab's title counts what calls"
            assert "reads files that are not there" in s.text()
            await s.press("question_mark")
            shown = "\n".join(plain(line) for line in s.app.screen.query_one("HelpText").content(100))
            assert "Go to what changed" in shown and "How bad it is." in shown and "What is the matter" in shown
            await s.press("escape")
            row = next(line for line in lines if line.startswith(" Fake view"))
            assert "▁" in row and "5 s" in row
            assert s.app.pane is None and not s.app.tabs.panes, "no tab is made for it"

    play(story)


def test_what_changes_is_listed_marked_and_leads_to_its_row(tmp_path: Path) -> None:
    made = views()

    async def story() -> None:
        session = session_of(made)
        async with stage(tmp_path, (100, 30), session=session, view="overview", entries=ENTRIES, ready=False) as s:
            await s.until(lambda: s.text().count("4 alive") == 2)
            made["fake-view"].found = (Finding("critical", "node-002", "is on fire", ("nodes", ("node-002",))),)
            session.change()
            await s.see("is on fire")
            await s.until(lambda: "2 Fake view 1*" in s.text().splitlines()[0])
            events = s.app.query_one("#ov-events", LiveTable)
            await s.until(lambda: events.window is not None and events.window.height == 1)
            assert events.row["change"] == "new" and events.row["view"] == "Fake view"
            events.focus()
            await s.press("enter")
            await s.until(lambda: s.app.pane is not None and s.app.pane.entry.name == "fake-view")
            await s.until(lambda: on_row(s, "node-002"))
            await s.until(lambda: "2 Fake view 1 " in s.text().splitlines()[0])
            await s.press("0")
            assert s.app.tabs.active == OVERVIEW

    play(story)


def test_what_changed_while_the_program_did_not_run_is_listed(tmp_path: Path) -> None:
    made = views()
    hot = Finding("severe", "node-002", "is hot")

    async def story(found: Finding | None, seen: str) -> None:
        made["fake-view"].found = (hot, found) if found is not None else (hot,)
        async with stage(tmp_path, (120, 30), session=session_of(made), view=None, entries=ENTRIES, ready=False) as s:
            await s.until(lambda: s.text().count("4 alive") == 2)
            if seen:
                await s.see(seen)
            events = s.app.query_one("#ov-events", LiveTable)
            await s.until(lambda: events.window is not None and events.window.height == bool(seen))
            await s.press("q")

    play(lambda: story(None, ""))
    play(lambda: story(Finding("critical", "node-003", "burns"), "since 2026-01-01 00:00:00: burns"))
    play(lambda: story(Finding("critical", "node-003", "burns"), ""))


def test_the_next_finding_of_any_view(tmp_path: Path) -> None:
    made = views()
    made["first-view"].found = (Finding("severe", "node-001", "b", ("nodes", ("node-001",))),)
    made["fake-view"].found = (
        Finding("critical", "node-003", "a", ("nodes", ("node-003",))),
        Finding("low", "all", "c"),
    )

    async def story() -> None:
        async with stage(
            tmp_path, (100, 30), session=session_of(made), view="overview", entries=ENTRIES, ready=False
        ) as s:
            await s.until(lambda: len(s.app.overview.found) == 3)

            async def at(view: str, node: str) -> None:
                await s.until(lambda: s.app.pane is not None and s.app.pane.entry.name == view)
                await s.until(lambda: on_row(s, node))

            await s.press("n")
            await at("fake-view", "node-003")
            await s.press("n")
            await at("first-view", "node-001")
            await s.press("N")
            await at("fake-view", "node-003")
            # the way to a row whose tab the operator has left meanwhile takes no keys away from the shown one
            shown, left = s.app.pane, s.app.tabs.panes["first-view"]
            assert not await reveal(left, "nodes", ("node-001",))
            assert shown in s.app.focused.ancestors

    play(story)


def test_only_one_view_with_data_is_shown_itself(tmp_path: Path) -> None:
    made = views()
    session = session_of({"fake-view": made["fake-view"]})
    entries = (ENTRIES[1], Entry("later-view", "Later view", "later", "other files"))

    async def story() -> None:
        async with stage(tmp_path, session=session, view=None, entries=entries) as s:
            assert s.app.pane.entry.name == "fake-view"

    play(story)


def test_views_that_only_count_files_do_not_keep_the_one_with_data_from_being_shown(tmp_path: Path) -> None:
    made = views()
    made["first-view"].error = NoInput("the CPU of 3 servers, and no queries")

    async def story() -> None:
        async with stage(tmp_path, session=session_of(made), view=None) as s:
            await s.until(lambda: s.app.pane is not None and s.app.pane.entry.name == "fake-view")
            await s.press("0")
            await s.see("no queries")

    play(story)


def test_first_tab() -> None:
    assert first_tab(ENTRIES, (None, "", "")) == OVERVIEW
    assert first_tab(ENTRIES, (None, "nothing", "fake-view")) == 1
    assert first_tab(ENTRIES, ("overview", "fake-view")) == OVERVIEW
    assert first_tab(ENTRIES[:1], (None, "overview")) == 0


def test_briefs_compare_only_results_under_the_same_parameters() -> None:
    quiet = [False]
    briefs = Briefs(Threshold(NotifySettings(rules=("v/b*=low",))), clock=lambda: 12.0, quiet=lambda: quiet[0])

    def result(*subjects: str) -> Result:
        return Result("v", {}, {}, findings=tuple(Finding("low", subject, "x") for subject in subjects))

    first = briefs.of(result("a", "b1"), "p")
    assert (first.number, first.calling, first.events) == (2, 1, ())
    (event,) = briefs.of(result("a", "b1", "c"), "p").events
    assert (event.change, event.subject, event.time_ms) == ("new", "c", 12_000)
    assert briefs.of(result(), "other parameters").events == ()
    quiet[0] = True
    assert briefs.of(result("a"), "other parameters").events == (), "files that are only now read bring no news"
    quiet[0] = False
    assert [event.change for event in briefs.of(result(), "other parameters").events] == ["gone"]


def test_a_number_without_history_gets_one_from_the_session() -> None:
    row, empty = Row("v", "View", "files"), Result("v", {}, {})
    for value in (1.0, 3.0, 2.0):
        row.take(Brief(dataclasses.replace(empty, trend=Trend("x", (value,))), (), 0, 0, ()))
    assert list(row.trend) == [1.0, 3.0, 2.0]
    row.take(Brief(dataclasses.replace(empty, trend=Trend("x", (5.0, 6.0))), (), 0, 0, ()))
    assert list(row.trend) == [5.0, 6.0]


def test_lines_have_the_headline_that_matters_and_hostile_names_are_cut() -> None:
    numbers = tuple(Headline(f"number {n}", "value " * 2) for n in range(9))
    finding = Finding("severe", "node\x1b[2J", "text " * 60, ("nodes", ("n",)))
    row = Row("v", "View", "files", unseen={"node\x1b[2J"})
    headline = (*numbers, Headline("broken", "3", level="severe"))
    problems = (Problem.at("a", "k", "r"),) * 2
    shown = Result("v", {}, {}, headline=headline, problems=problems, newest_ms=0)
    row.take(Brief(shown, (finding,) * 5, 5, 5, ()))
    (first, to_view), *rest = lines_of(row, 80, 1, 60.0, BRAILLE)
    assert "number 0" in plain(first) and "broken" in plain(first) and plain(first).rstrip().endswith("!2")
    assert to_view == ("v", None) and [target for _, target in rest] == [("v", ("nodes", ("n",)))] * 2
    assert "•▲" in plain(rest[0][0]) and "5 findings" in plain(rest[0][0]) and "5 findings" not in plain(rest[1][0])


class _Client:
    """Stands for the engine's client: the operator waits until ``free`` is set."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.first_result = threading.Event()
        self.computed: list[str] = []
        self.cancelled = 0
        self.posted = threading.Event()

    @property
    def wanted(self) -> bool:
        return not self.free.is_set()

    def waits_for(self, view: str) -> bool:
        return False

    def compute(self, view: str, request: Any, *, stop: Any, progress: Any = None) -> Any:
        from tui.messages import Computed

        if len(self.computed) == 1 and not self.cancelled:
            self.free.clear()
        if stop():
            self.cancelled += 1
            self.free.set()
            return None
        self.computed.append(view)
        return Computed(view, request.parameters, None)

    def post(self, message: Any) -> None:
        assert message.background
        if len(self.computed) == 2:
            self.posted.set()


def test_background_work_waits_gives_way_and_comes_back() -> None:
    client = _Client()
    background = Background(client)  # type: ignore[arg-type]
    background.request("a", 1)
    background.request("b", 2)
    time.sleep(0.12)
    assert client.computed == [], "the operator waits for the shown tab"
    client.free.set()
    assert client.posted.wait(20)
    assert client.computed == ["a", "b"] and client.cancelled == 1
    background.close()


def test_the_worst_number_is_shown_in_short_where_there_is_no_room_for_more() -> None:
    numbers = (
        Headline("load", "not known"),
        Headline("nodes", "19 of 20 take data", "", "moderate", short=("nodes", "19/20")),
        Headline("ring", "segment writers"),
    )
    wide, narrow = (plain(_numbers(numbers, room, BRAILLE)) for room in (99, 36))
    assert narrow.rstrip() == "load not known  nodes △ 19/20"
    assert "19 of 20 take data  ring segment writers" in wide


def test_the_bell_rings_only_if_asked_and_not_for_every_event(tmp_path: Path) -> None:
    made = views()

    async def story() -> None:
        session = session_of(made)
        async with stage(tmp_path, session=session, view="overview", entries=ENTRIES, ready=False) as s:
            await s.until(lambda: s.text().count("4 alive") == 2)
            calls: list[str] = []
            s.app.overview._call = calls.append
            row = s.app.overview.rows["fake-view"]
            event = Event(0, "fake-view", "new", "severe", "node-1", "x")
            s.app.overview._happened(row, (event, event))
            s.app.overview._happened(row, (event,))
            assert calls == ["Fake view: node-1 severe and 1 more"]
            s.app.overview._called = -100.0
            s.app.overview._happened(row, (Event(0, "fake-view", "gone", "severe", "node-1", "x"),))
            s.app.overview._happened(row, (Event(0, "fake-view", "new", "low", "node-1", "x"),))
            assert len(calls) == 1
            assert len(s.app.overview.feed.events) == 2 and isinstance(s.app.overview.feed, Feed)

    play(story)
