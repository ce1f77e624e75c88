"""A tab: its levels of drilling down, its results, or why there is none; and the tab of views without their own."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.css.scalar import Scalar

from tui.actions import Action, bindings
from tui.views.shared.sections import DetailPanel, Fit, Level, Section, TableOf
from tui.views.shared.tab import Tab
from tui.widgets.drawing.canvas import Frame
from tui.widgets.facts import TextPanel
from tui.widgets.sections import Sections, focus_first, on_screen
from tui.widgets.status import HeadlineBar, NotesBar

if TYPE_CHECKING:
    from engine.core.view import Result, View
    from engine.views import Entry


log = logging.getLogger("loadlens.pane")


class ViewPane(Tab):
    """One tab. docs/screen.md tells how to write one: ``ROOT`` is its bottom level, a subclass declares what keys do."""

    VIEW: ClassVar[str] = ""
    ROOT: type[Level]
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("pane")]
    DEFAULT_CSS = """
    ViewPane { height: 1fr; width: 1fr; layers: base overlay; }
    ViewPane > #levels { height: 1fr; width: 1fr; layers: base overlay; }
    ViewPane > #placeholder { height: 1fr; }
    """
    _height: Scalar | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Bind the keys of the view's own actions."""
        if cls.VIEW:
            cls.BINDINGS = [*bindings(cls.VIEW)]
        super().__init_subclass__(**more)

    def __init__(self, entry: Entry, *, id: str | None = None) -> None:
        super().__init__(entry, id=id)
        self.root: Level = self.ROOT()
        self.levels: list[Level] = []

    # -- what a view implements -----------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Note a result before its sections are drawn. Called on the event loop for each that differs from the last."""

    # -- levels -----------------------------------------------------------------------------------------------------

    @property
    def top(self) -> Level | None:
        """The level on top; None before the first result."""
        return self.levels[-1] if self.levels else None

    async def drill(self, level: Level) -> None:
        """Open ``level`` on top of the pane."""
        self.unzoom()
        holder = self.query_one("#levels")
        for other in holder.children:
            other.display = False
        self.levels.append(level)
        await holder.mount(level)
        if level not in self.levels:  # its inputs went meanwhile
            return
        if self.result is not None:
            self._safely(level.show, self.result)
        focus_first(level)
        self._crumbs()

    async def back(self) -> bool:
        """Close the level on top; return False if only the root is there."""
        if len(self.levels) <= 1:
            return False
        self.unzoom()
        await self.levels.pop().remove()
        if self.top is not None:  # else the inputs went meanwhile
            self.top.display = True
            focus_first(self.top)
            self._crumbs()
        return True

    # -- what the application calls -----------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Yield headline, notes, the levels and the placeholder."""
        yield HeadlineBar(id="headline")
        yield NotesBar(id="notes")
        yield Frame(id="levels")
        yield TextPanel(id="placeholder")

    def on_mount(self) -> None:
        """Show the placeholder."""
        self.query_one("#levels").display = False
        self.query_one(NotesBar).display = False
        self.placeholder()

    def loaded(self, view: View, parameters: Any) -> None:
        """Take the engine's view; ``parameters`` as the settings file has them."""
        self.view = view
        self.parameters = self.defaults = parameters
        self.placeholder()

    def placeholder(self, progress: str = "") -> None:
        """While there is nothing to draw, show what this tab reads and why there is nothing yet, or the ``progress``."""
        if self.levels or not self.query("#placeholder"):
            return
        self.query_one("#placeholder", TextPanel).show(_why_nothing(self, progress))

    def show_load_error(self, reason: str) -> None:
        """Say why this tab cannot be computed; the placeholder shows it until there is a result."""
        self.error = reason
        self.placeholder()

    async def receive(self, result: Result) -> None:
        """Draw a new result: headline, notes, then the levels from the bottom up, all in one repaint."""
        with self.app.batch_update():
            self._wait(False)
            self.result = result
            self.error = self.empty = ""
            self.query_one(HeadlineBar).show(result.headline)
            self.query_one(NotesBar).show((result.answer, result.notes))
            self._place_notes()
            if not self.levels:
                self.levels.append(self.root)
                self.query_one("#placeholder").display = False
                self.query_one("#levels").display = True
                await self.query_one("#levels").mount(self.root)
                focused = self.screen.focused  # below a box, too; closing one may have focused a table of another tab
                if self.display and (focused is None or focused in self.ancestors_with_self or not on_screen(focused)):
                    focus_first(self.root)
            for draw in (self.show, *(level.show for level in self.levels)):
                self._safely(draw, result)
            for shared in self.query(Fit):  # rows came or went
                shared.fit()

    def _safely(self, draw: Callable[[Result], None], result: Result) -> None:
        """Call ``draw`` with ``result``; a bug there is reported and must not end the program."""
        try:
            draw(result)
        except Exception as error:
            log.exception("drawing %s failed", self.entry.name)
            self.error = f"{type(error).__name__}: {error}"
            self.notify(f"{self.entry.title} cannot be drawn: {self.error}", severity="error", markup=False)

    async def nothing(self, *, empty: str = "", error: str = "") -> None:
        """Handle a request without a result: keep the last good one, marked, or let the placeholder say why there is none.
        ``empty``: why there is no input any more (then the old result goes). ``error``: why the computation failed.
        """
        self.empty, self.error = empty, error
        self._wait(False)
        if empty and self.levels:
            # The inputs are gone (not broken): showing old numbers would be wrong.
            self.unzoom()
            gone, self.levels = self.levels, []
            for level in gone:
                await level.remove()
            self.root = self.ROOT()
            self.result = None
            self.query_one("#levels").display = False
            self.query_one("#placeholder").display = True
            self.query_one(HeadlineBar).show(())
            self._place_notes()
            self._crumbs()
        self.placeholder()

    @on(events.Resize)
    def _place_notes(self) -> None:
        """Give the notes their line if there are any and the screen is not tiny (any more).

        It is set directly: a class would take effect one repaint later.
        """
        self.query_one(NotesBar).display = (
            bool(self.result and (self.result.answer or self.result.notes)) and self.app.size.height >= 16
        )

    def _crumbs(self) -> None:
        """Show the names of the open levels."""
        self.query_one(HeadlineBar).crumbs([level.crumb for level in self.levels if level.crumb])

    def focus_content(self) -> None:
        """Focus the first widget of the level on top that takes keys."""
        focus_first(self.levels[-1] if self.levels else self)

    # -- zoom -----------------------------------------------------------------------------------------------------

    @property
    def zoomed(self) -> bool:
        """Whether one of the pane's widgets has the whole screen; not while the program ends and takes the pane away."""
        return self.is_attached and self.screen.maximized is not None and self.screen.maximized in self.walk_children()

    @on(Sections.Shown)
    def unzoom(self) -> None:
        """Show the whole tab again: what was zoomed may be out of sight."""
        if self.zoomed and self.screen.maximized is not None:
            self.screen.maximized.styles.height = self._height
            self.screen.maximized = None

    def action_zoom(self) -> None:
        """Zoom the widget that has the focus, else the section on screen; or end the zoom."""
        if self.zoomed:
            self.unzoom()
            return
        top, focused = self.top, self.app.focused
        holder = top.holder if top is not None else None
        inside = top is not None and focused is not None and top in focused.ancestors
        target = focused if inside else holder.current if holder is not None else top
        if target is not None:
            self._height = target.styles.inline.height if target.styles.inline.has_rule("height") else None
            target.styles.height = "1fr"
            self.screen.maximized = target

    def key_words(self) -> Mapping[str, Action]:
        """Return actions by id that the key bar words differently here than elsewhere."""
        return {}

    # -- actions ------------------------------------------------------------------------------------------------------

    async def action_back(self) -> None:
        """Leave the zoom, or close the overlay or level on top."""
        if self.zoomed:
            self.unzoom()
            return
        for panel in self.query(DetailPanel):
            if panel.has_class("-open") and panel.has_class("-over"):
                panel.remove_class("-open")
                return
        await self.back()

    def action_detail(self) -> None:
        """Show or hide the detail panel."""
        for panel in (self.top or self).query(DetailPanel):
            panel.toggle_class("-open" if panel.has_class("-over") else "-closed")
        focus = self.app.focused
        if focus is None or not focus.display:
            self.focus_content()

    def action_section(self, step: int) -> None:
        """Step through the sections around the focus, else through the first ones of the level on top."""
        if self.top is not None and self.top.step_section(step):
            return
        around = self.app.focused.ancestors if self.app.focused is not None else ()
        holders = (node for node in (*around, *(self.top or self).query(Sections)) if isinstance(node, Sections))
        sections = next(holders, None)
        if sections is not None:
            sections.step(step)


def _why_nothing(pane: ViewPane, progress: str) -> list[tuple[str, str]]:
    """Return what a tab without a result says: why there is none yet, what it reads, and where data are."""
    said = f"Nothing to show: {pane.empty}." if pane.empty else progress or "Looking for files" + pane.glyphs.ellipsis
    lines = [(said, "title")]
    if pane.error:
        more = "The log has more: type : log. The other tabs are not concerned."
        lines = [(f"{pane.entry.title} cannot be computed: {pane.error}", "severe"), (more, "dim")]
    lines += [("", ""), (f"This tab reads {pane.entry.reads}.", "")]
    status = pane.host.client.status
    missing = [str(Path(root.path)) for root in (status.roots if status is not None else ()) if root.mode == "missing"]
    lines += [(f"{root} is not there; it is shown as soon as it is.", "moderate") for root in missing]
    there = ", ".join(root for root in map(str, pane.host.client.roots) if root not in missing)
    others = [(title, files) for title, files in pane.host.file_counts() if files and title != pane.entry.title]
    if others and not progress:
        found = ", ".join(f"{title} ({files:,})" for title, files in others)
        lines.append((f"There are files for other tabs: {found}.", "ok"))
    if there:
        lines.append((f"Watching {there}; files that appear there are shown at once.", "dim"))
    return lines


class Tables(Level):
    """Every result table of the view in a section; a table that a result does not have is empty."""

    NAME = "tables"

    def sections(self) -> tuple[Section, ...]:
        """Return a section per table."""
        return tuple(
            Section(
                table.title or table.name.replace("_", " "),
                TableOf(table=table.name, id=f"table-{table.name.replace('_', '-')}"),
            )
            for table in (self.pane.view.tables if self.pane.view is not None else ())
        )


class GenericPane(ViewPane):
    """The tab of a view without a pane of its own."""

    ROOT = Tables


def make_pane(entry: Entry, *, id: str | None = None) -> ViewPane:
    """Return the pane of a view: ``tui.views.<view>.pane:Pane`` if that module exists, else a generic one.

    A pane that cannot be imported is a bug of that view only: it is logged and a generic pane takes its place.
    """
    module = f"tui.views.{entry.name.replace('-', '_')}.pane"
    try:
        pane: ViewPane = importlib.import_module(module).Pane(entry, id=id)
        return pane
    except Exception as error:
        if not (isinstance(error, ModuleNotFoundError) and error.name and module.startswith(error.name)):
            log.exception("pane %s cannot be imported", module)
    return GenericPane(entry, id=id)
