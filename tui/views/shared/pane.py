"""What every tab has: levels of drilling down, parameters with undo, time travel, and the actions for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from tui.actions import bindings
from tui.glyphs import Glyphs
from tui.host import Host, host_of
from tui.views.shared.overview import Overview
from tui.views.shared.zoom import Zooms
from tui.widgets.drawing.canvas import Frame, glyphs_of
from tui.widgets.facts import TextPanel
from tui.widgets.headline import HeadlineBar, NotesBar
from tui.widgets.sections import Sections, focus_first, on_screen
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.parameters import Parameters
    from engine.core.result import Result
    from engine.core.tables import Table
    from engine.core.view import View
    from engine.views import Entry

log = logging.getLogger("loadlens.pane")

NO_HISTORY = "no earlier moments: these files tell only how things are now"
"""Answer of the time travel keys where ``ViewPane.steps`` is empty."""

UNDO_LIMIT = 200
"""Number of parameter changes that can be undone."""


class Level(Frame):
    """One step of drilling down: covers what is below it in the pane until Escape.

    ``crumb`` is its name in the header line. ``show(result)`` is called at once and for every new result; where what it
    shows is gone (its row does not exist any more), say so in the level rather than close it. ``pane`` is the ViewPane.
    """

    DEFAULT_CSS = "Level { height: 1fr; width: 1fr; }"

    def __init__(self, crumb: str = "") -> None:
        super().__init__()
        self.crumb = crumb

    @property
    def pane(self) -> ViewPane:
        """The pane that this level is in."""
        return next(node for node in self.ancestors if isinstance(node, ViewPane))

    def show(self, result: Result) -> None:
        """Draw ``result``."""

    def step_section(self, step: int) -> bool:
        """Do what the keys of sections do here, if that is something else; return whether it is."""
        return False


class RootLevel(Level):
    """The bottom level: what ``compose_view`` yields."""

    def __init__(self, pane: ViewPane) -> None:
        super().__init__()
        self._pane = pane

    def compose(self) -> ComposeResult:
        """Yield the pane's own widgets."""
        yield from self._pane.compose_view()


class DetailPanel(Frame):
    """A panel beside the main content: a column on the right from 100 columns on, below that an overlay that the key
    ``d`` opens and closes. From 100 columns on ``d`` hides and shows it."""

    SCOPED_CSS = False
    """Scoped rules see nothing above the widget, so not the screen's classes either."""
    DEFAULT_CSS = """
    DetailPanel { width: 42%; height: 1fr; border-left: vkey $panel; padding: 0 0 0 1; }
    DetailPanel.-closed { display: none; }
    .-narrow DetailPanel {
        display: none; layer: overlay; dock: right; width: 100%; border: none; padding: 0 1; background: $background;
    }
    .-narrow DetailPanel.-open { display: block; }
    """


class ViewPane(Zooms):
    """One tab. docs/screen.md tells how to write one.

    Attributes: ``view`` (the engine's view, None until loaded), ``parameters``, ``result`` (the newest that was shown),
    ``at_ms`` (the moment asked for, None: live), ``shown_ms`` (the moment on screen), ``error`` and ``empty``
    (why the newest request gave no result, else empty).
    """

    VIEW: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("pane")]
    DEFAULT_CSS = """
    ViewPane { height: 1fr; width: 1fr; layers: base overlay; }
    ViewPane > #levels { height: 1fr; width: 1fr; layers: base overlay; }
    ViewPane > #placeholder { height: 1fr; }
    """

    def __init__(self, entry: Entry, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entry = entry
        self.view: View | None = None
        self.parameters: Any = None
        self.defaults: Any = None
        self.result: Result | None = None
        self.at_ms: int | None = None
        self.shown_ms: int | None = None
        self.error = ""
        self.empty = ""
        self.files = 0
        self.stale_files = 0
        self.dirty = True
        self.levels: list[Level] = []
        self._undo: list[Any] = []
        self._redo: list[Any] = []

    @property
    def on_top(self) -> Widget | None:
        """The level on top; None before the first result."""
        return self.levels[-1] if self.levels else None

    # -- what a view implements -----------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Yield the widgets of the tab; called once, when the first result is there."""
        yield from ()

    def show(self, result: Result) -> None:
        """Draw a result. Called on the event loop for each that differs from the last; take less than 10 ms."""

    def steps(self) -> Sequence[int]:
        """Return the moments (epoch ms, ascending) that time travel stops at; empty if there is no history."""
        return ()

    # -- for panes --------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The application."""
        return host_of(self)

    @property
    def glyphs(self) -> Glyphs:
        """The glyph set in force."""
        return glyphs_of(self.app)

    def spec(self, table: str) -> Table:
        """Return the declaration of one of the view's result tables. Raises KeyError."""
        for spec in self.view.tables if self.view is not None else ():
            if spec.name == table:
                return spec
        raise KeyError(table)

    def show_table(self, selector: str, result: Result, table: str, frame: Any = None) -> None:
        """Show result table ``table`` (or ``frame``, a part of it) in the ``LiveTable`` that ``selector`` finds anywhere in
        the pane; an absent table is shown empty."""
        spec = self.spec(table)
        rows = result.tables.get(table) if frame is None else frame
        self.query_one(selector, LiveTable).show(spec.empty() if rows is None else rows, spec)

    def change(self, **fields: Any) -> bool:
        """Change parameters, with undo, and ask for a result; return whether they changed.

        Values have the types of the fields. A value that is not valid changes nothing and is reported in a notification.
        """
        from engine.core.parameters import BadOption, parse

        if self.parameters is None:
            return False
        try:
            changed = parse(type(self.parameters), list(fields.items()), self.parameters)
        except BadOption as error:
            self.notify(str(error), severity="warning", markup=False)
            return False
        return self.replace_parameters(changed)

    def replace_parameters(self, parameters: Parameters) -> bool:
        """Take whole parameters (a scenario from a table), with undo; return whether they differ from those in force."""
        if parameters == self.parameters:
            return False
        self._undo = [*self._undo[-UNDO_LIMIT:], self.parameters]
        self._redo = []
        self.parameters = parameters
        self._ask()
        return True

    @property
    def undo_depth(self) -> int:
        """Number of parameter changes that can be undone."""
        return len(self._undo)

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
        top = self.levels.pop()
        await top.remove()
        if self.levels:  # else the inputs went meanwhile
            below = self.levels[-1]
            below.display = True
            focus_first(below)
            self._crumbs()
        return True

    def at(self, moment: int | None) -> None:
        """Look at the data as they were at ``moment`` (epoch ms), None for live."""
        if moment != self.at_ms:
            self.at_ms = moment
            self._ask()

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
        """Show, while there is nothing to draw, what this tab reads and why there is nothing yet; ``progress`` of the work."""
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
            await self._receive(result)

    def _wait(self, waiting: bool) -> None:
        """Let tables without rows say that a result is being computed, or no longer."""
        for table in self.query(LiveTable):
            table.wait(waiting)

    async def _receive(self, result: Result) -> None:
        self._wait(False)
        self.result = result
        self.error = self.empty = ""
        self.query_one(HeadlineBar).show(result.headline)
        self.query_one(NotesBar).show(result.notes)
        self._place_notes()
        if not self.levels:
            root = RootLevel(self)
            self.levels.append(root)
            holder = self.query_one("#levels")
            self.query_one("#placeholder").display = False
            holder.display = True
            await holder.mount(root)
            focused = self.screen.focused  # below a box, too; closing one may have focused a table of another tab
            free = focused is None or focused in self.ancestors_with_self or not on_screen(focused)
            if self.display and free:
                focus_first(root)
        for draw in (self.show, *(level.show for level in self.levels[1:])):
            self._safely(draw, result)
        for overview in self.query(Overview):  # rows came or went
            overview.fit()

    def _safely(self, draw: Callable[[Result], None], result: Result) -> None:
        """Call ``draw`` with ``result``; a bug there is reported and must not end the program."""
        try:
            draw(result)
        except Exception as error:
            log.exception("drawing %s failed", self.entry.name)
            self.error = f"{type(error).__name__}: {error}"
            self.notify(f"{self.entry.title} cannot be drawn: {self.error}", severity="error", markup=False)

    async def nothing(self, *, empty: str = "", error: str = "") -> None:
        """Handle a request without a result: the last good one stays and is marked, without one the placeholder says why.

        ``empty``: why there is no input any more, then the old result goes. ``error``: why the computation failed.
        """
        self.empty, self.error = empty, error
        self._wait(False)
        if empty and self.levels:
            # The inputs are gone (not broken): showing old numbers would be wrong.
            self.unzoom()
            gone, self.levels = self.levels, []
            for level in gone:
                await level.remove()
            self.result = None
            self.query_one("#levels").display = False
            self.query_one("#placeholder").display = True
            self.query_one(HeadlineBar).show(())
            self._place_notes()
            self._crumbs()
        self.placeholder()

    def _place_notes(self) -> None:
        """Give the notes their line if there are any and the screen is not tiny.

        It is set directly, not by a class, which would take effect one repaint later.
        """
        self.query_one(NotesBar).display = bool(self.result and self.result.notes) and self.app.size.height >= 16

    def on_resize(self) -> None:
        """Place the notes again: the screen may have become tiny."""
        self._place_notes()

    def _ask(self, urgent: bool = True) -> None:
        """Ask for a result with the parameters and the moment in force."""
        self._wait(True)
        self.host.request(self.entry.name, urgent=urgent)

    def _crumbs(self) -> None:
        """Show the names of the open levels."""
        self.query_one(HeadlineBar).crumbs([level.crumb for level in self.levels if level.crumb])

    def focus_content(self) -> None:
        """Focus the first widget of the level on top that takes keys."""
        focus_first(self.levels[-1] if self.levels else self)

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Take back the last change of parameters."""
        self._take_from(self._undo, self._redo, "nothing to undo")

    def action_redo(self) -> None:
        """Make the change that was taken back again."""
        self._take_from(self._redo, self._undo, "nothing to redo")

    def _take_from(self, source: list[Any], other: list[Any], nothing: str) -> None:
        """Take the last parameters of ``source``; those in force go to ``other``."""
        if not source:
            self.notify(nothing, timeout=2)
            return
        other.append(self.parameters)
        self.parameters = source.pop()
        self._ask()

    def action_reset(self) -> None:
        """Set all parameters as at the start."""
        if self.defaults is not None:
            self.replace_parameters(self.defaults)

    async def action_back(self) -> None:
        """Leave the zoom, or close the overlay or level on top."""
        if self.zoomed:
            self.unzoom()
            return
        for panel in self.query(DetailPanel):
            if panel.has_class("-open") and self.screen.has_class("-narrow"):
                panel.remove_class("-open")
                return
        await self.back()

    def action_detail(self) -> None:
        """Show or hide the detail panel."""
        top = self.levels[-1] if self.levels else self
        for panel in top.query(DetailPanel):
            panel.toggle_class("-open" if self.screen.has_class("-narrow") else "-closed")
        focus = self.app.focused
        if focus is None or not focus.display:
            self.focus_content()

    def action_section(self, step: int) -> None:
        """Step through the sections around the focus, else through the first ones of the level on top."""
        if self.levels and self.levels[-1].step_section(step):
            return
        top = self.levels[-1] if self.levels else self
        focused = self.app.focused
        holders = [node for node in focused.ancestors if isinstance(node, Sections)] if focused is not None else []
        sections = holders[0] if holders else next(iter(top.query(Sections)), None)
        if sections is not None:
            sections.step(step)

    def action_earlier(self) -> None:
        """Go one step back in time."""
        steps = list(self.steps())
        before = steps[:-1] if self.at_ms is None else [moment for moment in steps if moment < self.at_ms]
        if before:
            self.at(before[-1])
        else:
            self.notify("there is nothing earlier" if steps else NO_HISTORY, timeout=3)

    def action_later(self) -> None:
        """Go one step forward in time."""
        after = [moment for moment in self.steps() if self.at_ms is not None and moment > self.at_ms]
        if len(after) > 1:
            self.at(after[0])
        else:
            self.action_live()

    def action_live(self) -> None:
        """Go to the newest data."""
        if self.at_ms is None:
            self.notify("these are the newest data" if self.steps() else NO_HISTORY, timeout=3)
        self.at(None)


def _why_nothing(pane: ViewPane, progress: str) -> list[tuple[str, str]]:
    """Return what a tab without a result says: why there is none yet, what it reads, and where data are."""
    lines: list[tuple[str, str]] = []
    if not pane.entry.ready:
        lines.append((f"{pane.entry.title} is not part of this version yet.", "title"))
    elif pane.error:
        lines.append((f"{pane.entry.title} cannot be computed: {pane.error}", "severe"))
        lines.append(("The log (L) has more. The other tabs are not concerned.", "dim"))
    elif pane.empty:
        lines.append((f"Nothing to show: {pane.empty}.", "title"))
    elif progress:
        lines.append((progress, "title"))
    else:
        lines.append(("Looking for files" + pane.glyphs.ellipsis, "title"))
    lines += [("", ""), (f"This tab reads {pane.entry.reads}.", "")]
    status = pane.host.live_status
    roots = status.roots if status is not None else ()
    missing = [str(Path(root.path)) for root in roots if root.mode == "missing"]
    lines += [(f"{root} is not there; it is shown as soon as it is.", "moderate") for root in missing]
    there = ", ".join(root for root in pane.host.watched if root not in missing)
    others = [(title, files) for title, files in pane.host.file_counts() if files and title != pane.entry.title]
    if others and not progress:
        found = ", ".join(f"{title} ({files:,})" for title, files in others)
        lines.append((f"There are files for other tabs: {found}.", "ok"))
    if there:
        lines.append((f"Watching {there}; files that appear there are shown at once.", "dim"))
    return lines
