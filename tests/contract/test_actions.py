"""Rules of the screen: every action works, a new view has a tab, hostile text is harmless."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget

from engine.core.view import Headline
from engine.own_files.settings import Settings, State
from engine.views import VIEWS, Entry
from tests.tui.fakes import frame
from tests.tui.stage import Stage, screen_lines
from tui import actions
from tui.keymap import key_name
from tui.overview.pane import OverviewPane
from tui.views.shared.pane import ViewPane, make_pane
from tui.views.shared.sections import Level
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.drawing.plot import Mark, PlotView, Series, plot
from tui.widgets.facts import Facts, TextPanel
from tui.widgets.pick import PickList
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.status import HeadlineBar, KeyBar, NotesBar, StatusLine
from tui.widgets.table.table import LiveTable

ALL = actions.registry()


def test_actions_are_complete() -> None:
    assert len({action.id for action in ALL}) == len(ALL), "ids are unique"
    scopes = {*actions.SCOPES, *(entry.name for entry in VIEWS)}
    for action in ALL:
        assert re.fullmatch(r"[a-z-]+\.[a-z0-9-]+", action.id), action.id
        assert action.scope in scopes and action.id.partition(".")[0] == action.scope, action.id
        assert action.title and len(action.title) <= 40, action.id
        assert action.help.endswith((".", "!")) and len(action.help) > 12, action.id
        assert all(key_name(key) == key for key in action.keys), f"{action.id}: {action.keys}"


def test_no_key_means_two_things_in_one_scope() -> None:
    for scope in {action.scope for action in ALL}:
        seen: dict[str, str] = {}
        for action in actions.scoped(scope):
            for key in action.keys:
                assert seen.setdefault(key, action.id) == action.id, f"{key} in {scope}"


def test_views_take_no_key_that_the_table_would_swallow() -> None:
    """The table has the focus and wins: a view's key that it also has would never arrive. Escape is passed on."""
    taken = {key: action for action in actions.scoped("table") for key in action.keys if action.id != "table.clear"}
    for entry in VIEWS:
        for action in actions.view_actions(entry.name):
            for key in action.keys:
                assert key not in taken, f"{action.id}: {key} is {taken[key].id} while a table has the focus"


def test_a_key_means_the_same_in_all_views() -> None:
    meanings: dict[str, dict[str, str]] = {}
    for entry in VIEWS:
        for action in actions.view_actions(entry.name):
            for key in action.keys:
                meanings.setdefault(key, {})[entry.name] = action.title
    clashes = {key: titles for key, titles in meanings.items() if len(set(titles.values())) > 1}
    assert not clashes


def test_keys_of_views_are_not_those_of_every_tab() -> None:
    taken = {key for scope in ("app", "pane", "table") for action in actions.scoped(scope) for key in action.keys}
    own = {key for entry in VIEWS for action in actions.view_actions(entry.name) for key in action.keys}
    assert not own & taken


@pytest.mark.parametrize("view", [entry.name for entry in VIEWS])
def test_a_view_has_at_most_sixty_actions_with_keys(view: str) -> None:
    """Movement, tabs and all shared ones count; the rest is in the palette and the options box."""
    keyed = [action for scope in ("app", "pane", "table", view) for action in actions.scoped(scope) if action.keys]
    assert len(keyed) <= 60


def test_reserved_keys_always_quit() -> None:
    for action in ALL:
        assert not set(action.keys) & actions.RESERVED or action.id == "app.quit"


def owner(scope: str) -> type[Any]:
    from tui.app import Dashboard

    shared: dict[str, type[Any]] = {"app": Dashboard, "pane": ViewPane, "overview": OverviewPane, "table": LiveTable}
    if scope in shared:
        return shared[scope]
    found: type[Any] = importlib.import_module(f"tui.views.{scope.replace('-', '_')}.pane").Pane
    return found


@pytest.mark.parametrize("action", ALL, ids=lambda action: action.id)
def test_every_action_has_a_method_and_a_binding(action: actions.Action) -> None:
    place = owner(action.scope)
    from tui.boxes import Boxes
    from tui.overview.actions import OverviewActions
    from tui.scenario_actions import ScenarioActions

    target, _, name = action.action.partition("(")[0].rpartition(".")
    targets = {"app": owner("app"), "boxes": Boxes, "views": OverviewActions, "scenarios": ScenarioActions}
    runner = targets.get(target, place)
    assert callable(getattr(runner, f"action_{name}", None)), f"{runner.__name__} has no action_{name}"
    bound = {binding.id for bindings in place._merged_bindings.key_to_bindings.values() for binding in bindings}
    assert action.id in bound, f"{place.__name__} does not bind {action.id}: the palette would not offer it"


def test_bindings_of_our_own_widgets_are_the_registry() -> None:
    """Panes and tables bind nothing that help, palette and keymap do not know."""
    from tui.app import Dashboard

    known = {action.id for action in ALL}
    for place in (Dashboard, LiveTable, OverviewPane, *(type(make_pane(entry)) for entry in VIEWS)):
        for binding in [b for bs in place._merged_bindings.key_to_bindings.values() for b in bs]:
            inherited = not binding.id and binding.action.startswith(
                ("scroll_", "page_", "help_quit", "command_palette")
            )
            assert binding.id in known or inherited or binding.system, f"{place.__name__}: {binding}"


def test_a_view_without_a_pane_of_its_own_has_a_tab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new engine view, entered in the list and nowhere else, has a working tab: tables, sort, options, live data."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.num").write_text("al-pha 1\nbe-ta 5\ngam-ma 3\n")
    entries = (*VIEWS, Entry("fake-view", "Fake view", "tests.contract.fake_view", "files of numbers"))

    monkeypatch.setattr("engine.views.VIEWS", entries)

    async def story() -> None:
        from tui.app import Dashboard

        app = Dashboard(
            [tmp_path / "data"],
            Settings(tmp_path / "none.toml"),
            entries=entries,
            state=State(tmp_path / "state.toml"),
        )
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            s = Stage(app, None, pilot)  # type: ignore[arg-type]
            await s.until(lambda: app.pane is not None and app.pane.result is not None, 20)
            assert app.pane is not None and app.pane.entry.name == "fake-view", "the only tab with data is shown"
            await s.see("be-ta")
            rows = [line.split()[0] for line in s.text().splitlines() if line.startswith(("al-", "be-", "gam-"))]
            assert rows == ["be-ta", "gam-ma", "al-pha"], "in the declared order"
            await s.press("s")
            rows = [line.split()[0] for line in s.text().splitlines() if line.startswith(("al-", "be-", "gam-"))]
            assert rows == ["al-pha", "be-ta", "gam-ma"]
            await s.press("o")
            await s.see("Multiplies every number")
            await s.press("plus", "escape")
            assert app.pane.parameters.scale == 1.1
            await s.see("5.5")
            with (tmp_path / "data" / "a.num").open("a") as file:
                file.write("del-ta 100\n")
            await s.until(lambda: "del-ta" in s.text(), 20)

    asyncio.run(story())


HOSTILE = "a[/b]c[red]x \x1b[2J\x1b]0;t\x07\x9b31m\u202eevil\u2028\x00 end"


def showing(widget: Any, value: Any) -> Any:
    """Return ``widget`` with ``value`` in it."""
    widget.show(value)
    return widget


class _Level(Level):
    def compose(self) -> ComposeResult:
        yield showing(Facts(), [(HOSTILE, HOSTILE, "")])


def widgets() -> dict[str, Widget]:
    """Return every widget that shows data, with hostile text."""
    table = frame(3).with_columns(name=None, note=None)
    import polars as pl

    from tests.tui.fakes import NODES

    table = frame(3).with_columns(
        pl.lit(HOSTILE).alias("name"), pl.lit(HOSTILE).alias("note"), pl.lit(HOSTILE).alias("state")
    )
    live = LiveTable(NODES)
    live.show(table)
    headline = HeadlineBar()
    headline.show([Headline(HOSTILE, HOSTILE, HOSTILE, "severe")])
    headline.crumbs([HOSTILE])
    status = StatusLine()
    status.show([(HOSTILE, "severe"), (HOSTILE, ""), (HOSTILE, "dim")], HOSTILE, HOSTILE)
    keys = KeyBar()
    keys.show([(actions.Action("app.x", ("x",), HOSTILE, "Hostile.", "app", bar=1), "x")])
    return {
        "table": live,
        "facts": showing(Facts(), [(HOSTILE, HOSTILE, ""), (HOSTILE, "", "")]),
        "text": showing(TextPanel(), [(HOSTILE, "severe")]),
        "headline": headline,
        "notes": showing(NotesBar(), (HOSTILE, [HOSTILE, HOSTILE])),
        "status": status,
        "keys": keys,
        "titles": TitleBar([HOSTILE, HOSTILE]),
        "sections": Sections(
            (HOSTILE, showing(Facts(), [(HOSTILE, HOSTILE, "")])), ("b", showing(TextPanel(), [(HOSTILE, "")]))
        ),
        "pick": PickList([[(HOSTILE, "")], [(HOSTILE, "key")]]),
        "number": NumberControl(HOSTILE, 5, high=10),
        "word": WordControl(HOSTILE, [HOSTILE, "b"], HOSTILE),
        "plot": showing(
            PlotView(),
            lambda w, h, g: plot(
                [Series([1, 2], [1, 2], HOSTILE)], w, h, g, marks=[Mark(1.5, HOSTILE)], rules=[Mark(1, HOSTILE)]
            ),
        ),
    }


@pytest.mark.parametrize("name", sorted(widgets()))
@pytest.mark.parametrize("focus", [False, True])
def test_hostile_text_is_shown_and_does_nothing(name: str, focus: bool) -> None:
    """Markup is text, control and direction characters are dots, in every widget, with and without focus."""

    async def story() -> None:
        widget = widgets()[name]
        if isinstance(widget, PickList):
            widget.call_later(widget.repaint)

        class Bare(App[None]):
            def compose(self) -> ComposeResult:
                yield widget

        app = Bare()
        async with app.run_test(size=(90, 20)) as pilot:
            if focus and widget.focusable:
                widget.focus()
            await pilot.pause(0.1)
            raw = "".join(seg.text for strip in app.screen._compositor.render_strips() for seg in strip)
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u2028]", raw)
            assert app._exception is None
            if name not in ("plot", "keys"):
                assert "[/b]" in "\n".join(screen_lines(app)), screen_lines(app)

    asyncio.run(story())
