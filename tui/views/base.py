"""What every tab has, and how to write one.

A tab is a ``ViewPane``. The shell makes it when its tab is first shown, gives it parameters and results, and asks for new
results; a pane only lays out widgets and draws. **A view without a pane of its own gets ``GenericPane``** (every result
table in its own section), so a new engine view is usable at once.

To write the pane of view ``my-view``::

    tui/views/my_view/__init__.py   a docstring
    tui/views/my_view/actions.py    ACTIONS: tuple[Action, ...], pure data (no Textual, no Polars)
    tui/views/my_view/pane.py       class Pane(ViewPane)

``actions.py``::

    from tui.actions import Action

    ACTIONS = (
        Action(
            "my-view.toggle-node", ("space",), "Toggle", "Switch the node under the cursor off or on.", "my-view", bar=1
        ),
    )

``pane.py``::

    from tui.actions import bindings
    from tui.views.base import DetailPanel, Level, ViewPane
    from tui.widgets.facts import Facts
    from tui.widgets.table.table import LiveTable


    class Pane(ViewPane):
        VIEW = "my-view"
        BINDINGS: ClassVar[list[BindingType]] = [*bindings("my-view")]  # adds to those of every pane

        def compose_view(self) -> ComposeResult:  # once, when the first result is there
            with Horizontal():
                yield LiveTable(name="my-view/nodes", id="nodes", renderers={"load": load_bar})
                with DetailPanel():  # beside the table; an overlay (key d) below 100 columns
                    yield Facts(id="facts")

        def show(self, result: Result) -> None:  # for every new result, on the event loop: be quick
            self.show_table("#nodes", result, "nodes")
            self.refresh_detail()

        @on(LiveTable.Highlighted, "#nodes")
        def refresh_detail(self) -> None:
            row = self.query_one("#nodes", LiveTable).row
            self.query_one(Facts).show([("node", row["node"], "")] if row else [])

        @on(LiveTable.Selected, "#nodes")
        async def open_node(self, event: LiveTable.Selected) -> None:
            await self.drill(NodeLevel(event.key))  # a Level: covers the pane, Escape comes back

        def action_toggle_node(self) -> None:
            row = self.query_one("#nodes", LiveTable).row
            if row:
                self.change(fail=(*self.parameters.fail, row["node"]))  # u undoes

Rules of the house:

* Module level imports nothing that imports Polars, NumPy or SciPy (``engine.result``, ``engine.tables``, an engine view ...):
  import those under ``TYPE_CHECKING`` or inside functions. A test starts the program and looks.
* No arithmetic on data here: what you show is in ``Result.tables``, ``.summary``, ``.headline`` or ``.detail``. If a number is
  missing, the engine's view should give it.
* Parameters are the only state of a simulation: ``change(field=value)`` validates, pushes undo and asks for a result.
  ``self.parameters`` is None until the view is loaded.
* Tables are named ``view/table``: sort, filter and columns are remembered by that name.
* Use the widgets of ``tui.widgets`` for everything that shows data: they clean text and send only what changed.
  ``Static`` and ``Label`` only for constant text of ours, with ``markup=False``.
* Classes on the screen: ``-narrow`` (< 100 columns), ``-normal``, ``-wide`` (>= 160), ``-tiny`` (< 16 rows), ``-short``,
  ``-tall`` (>= 30 rows). Style a pane in its ``DEFAULT_CSS`` with them: ``.-narrow MyLevel { ... }``.
* Keys that the shared scopes use are in ``tui/actions.py``. Inner scopes win: table, then view, then every tab, then app. The
  keys ``space y z m x w v b t a i + - = 0 6-9`` are free for views.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.css.query import NoMatches

from tui.actions import bindings
from tui.glyphs import Glyphs
from tui.widgets.drawing.canvas import Frame, glyphs_of
from tui.widgets.facts import TextPanel
from tui.widgets.focus import focus_first
from tui.widgets.headline import HeadlineBar, NotesBar
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.parameters import Parameters
    from engine.result import Result
    from engine.tables import Table
    from engine.view import View
    from engine.views import Entry
    from tui.shell import Shell

log = logging.getLogger("loadlens.pane")

NO_HISTORY = "no earlier moments: these files tell only how things are now"
"""What the keys of time travel say where ``ViewPane.steps`` is empty."""

UNDO_LIMIT = 200
"""Steps of undo that are kept."""


class Level(Frame):
    """One step of drilling down: covers what is below it in the pane until Escape.

    ``crumb`` is its name in the header line. ``show(result)`` is called at once and for every new result; where what it
    shows is gone (its row does not exist any more), say so in the level rather than close it. ``pane`` is the ViewPane.
    """

    DEFAULT_CSS = "Level { height: 1fr; width: 1fr; }"

    def __init__(self, crumb: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.crumb = crumb

    @property
    def pane(self) -> ViewPane:
        """The pane this level is in."""
        return next(node for node in self.ancestors if isinstance(node, ViewPane))

    def show(self, result: Result) -> None:
        """Draw ``result``."""


class _Root(Level):
    """The bottom level: what ``compose_view`` yields."""

    def __init__(self, pane: ViewPane) -> None:
        super().__init__("")
        self._pane = pane

    def compose(self) -> ComposeResult:
        """Its widgets."""
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


class ViewPane(Frame):
    """One tab. See the module's docstring for how to write one.

    Attributes: ``view`` (the engine's view, None until loaded), ``parameters``, ``result`` (the newest that was shown),
    ``at_ms`` (None: live), ``error`` and ``empty`` (why the newest request gave no result, else empty).
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
        self.error = ""
        self.empty = ""
        self.files = 0
        self.stale_files = 0
        self.dirty = True
        self.levels: list[Level] = []
        self._undo: list[Any] = []
        self._redo: list[Any] = []

    # -- what a view implements -----------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Yield the widgets of the tab; called once, when the first result is there."""
        yield from ()

    def show(self, result: Result) -> None:
        """Draw a result. Called on the event loop for each that differs from the last; take less than 10 ms."""

    def steps(self) -> Sequence[int]:
        """Moments (epoch ms, ascending) that time travel stops at; from the newest live result. Empty: no history."""
        return ()

    # -- for panes --------------------------------------------------------------------------------------------------

    @property
    def shell(self) -> Shell:
        """The application."""
        return self.app  # type: ignore[return-value]

    @property
    def glyphs(self) -> Glyphs:
        """The glyph set in force."""
        return glyphs_of(self.app)

    def spec(self, table: str) -> Table:
        """The declaration of one of the view's result tables. Raises KeyError."""
        for found in self.view.tables if self.view is not None else ():
            if found.name == table:
                return found
        raise KeyError(table)

    def show_table(self, selector: str, result: Result, table: str, frame: Any = None) -> None:
        """Show result table ``table`` (or ``frame``, a part of it) in the ``LiveTable`` that ``selector`` finds anywhere in
        the pane; an absent table is shown empty."""
        spec = self.spec(table)
        found = result.tables.get(table) if frame is None else frame
        self.query_one(selector, LiveTable).show(spec.empty() if found is None else found, spec)

    def change(self, **fields: Any) -> bool:
        """Change parameters, remember the step for undo and ask for a result. Values are typed as the fields are.

        A value that cannot be taken changes nothing, is said in a notification, and gives False.
        """
        from engine.parameters import BadOption, parse

        if self.parameters is None:
            return False
        try:
            wanted = parse(type(self.parameters), list(fields.items()), self.parameters)
        except BadOption as error:
            self.notify(str(error), severity="warning", markup=False)
            return False
        return self.replace_parameters(wanted)

    def replace_parameters(self, parameters: Parameters) -> bool:
        """Take whole parameters (a scenario from a table), with undo; False if they are equal to those in force."""
        if parameters == self.parameters:
            return False
        self._undo = [*self._undo[-UNDO_LIMIT:], self.parameters]
        self._redo = []
        self.parameters = parameters
        self._ask()
        return True

    @property
    def undo_depth(self) -> int:
        """How many steps can be undone."""
        return len(self._undo)

    async def drill(self, level: Level) -> None:
        """Open ``level`` on top of the pane."""
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
        """Close the level on top; False if only the root is there."""
        if len(self.levels) <= 1:
            return False
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

    # -- what the shell calls -----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield HeadlineBar(id="headline")
        yield NotesBar(id="notes")
        yield Frame(id="levels")
        yield TextPanel(id="placeholder")

    def on_mount(self) -> None:
        """Say what will be here."""
        self.query_one("#levels").display = False
        self.query_one(NotesBar).display = False
        self.placeholder()

    def loaded(self, view: View, parameters: Any) -> None:
        """The engine's view is there; ``parameters`` as the settings have them."""
        self.view = view
        self.parameters = self.defaults = parameters
        self.placeholder()

    def placeholder(self, progress: str = "") -> None:
        """Say, where there is nothing to draw, what this tab reads and why there is nothing yet."""
        if self.levels or not self.query("#placeholder"):
            return
        lines: list[tuple[str, str]] = []
        if not self.entry.ready:
            lines.append((f"{self.entry.title} is not part of this version yet.", "title"))
        elif self.error:
            lines.append((f"{self.entry.title} cannot be computed: {self.error}", "severe"))
            lines.append(("The log (L) has more. The other tabs are not concerned.", "dim"))
        elif self.empty:
            lines.append((f"Nothing to show: {self.empty}.", "title"))
        elif progress:
            lines.append((progress, "title"))
        else:
            lines.append(("Looking for files" + self.glyphs.ellipsis, "title"))
        lines.append(("", ""))
        lines.append((f"This tab reads {self.entry.reads}.", ""))
        missing = self._missing()
        there = ", ".join(str(root) for root in getattr(self.app, "roots", ()) if str(root) not in missing)
        lines += [(f"{root} is not there; it is shown as soon as it is.", "moderate") for root in missing]
        if there:
            lines.append((f"Watching {there}; files that appear there are shown at once.", "dim"))
        self.query_one("#placeholder", TextPanel).show(lines)

    def _missing(self) -> list[str]:
        """The watched folders that do not exist now."""
        bridge = getattr(self.app, "bridge", None)
        session = bridge.session if bridge is not None else None
        roots = session.status.roots if session is not None else ()
        return [str(Path(root.path)) for root in roots if root.mode == "missing"]

    async def receive(self, result: Result) -> None:
        """Draw a new result: header, levels from the bottom up."""
        with self.app.batch_update():  # one repaint, whatever is mounted and shown here
            await self._receive(result)

    async def _receive(self, result: Result) -> None:
        self.result = result
        self.error = self.empty = ""
        self.query_one(HeadlineBar).show(result.headline)
        notes = self.query_one(NotesBar)
        notes.show(result.notes)
        self._place_notes()
        if not self.levels:
            root = _Root(self)
            self.levels.append(root)
            holder = self.query_one("#levels")
            self.query_one("#placeholder").display = False
            holder.display = True
            await holder.mount(root)
            if self.display and (self.app.focused is None or self.app.focused in self.ancestors_with_self):
                focus_first(root)
        for draw in (self.show, *(level.show for level in self.levels[1:])):
            self._safely(draw, result)

    def _safely(self, draw: Callable[[Result], None], result: Result) -> None:
        """Draw ``result`` on the pane or one of its levels: a bug there must not end the program."""
        try:
            draw(result)
        except Exception as error:
            log.exception("drawing %s failed", self.entry.name)
            self.error = f"{type(error).__name__}: {error}"
            self.notify(f"{self.entry.title} cannot be drawn: {self.error}", severity="error", markup=False)

    async def nothing(self, *, empty: str = "", error: str = "") -> None:
        """No result: the last good one stays and is marked; without one the placeholder says why."""
        self.empty, self.error = empty, error
        if empty and self.levels:
            # The inputs are gone (not broken): showing old numbers would be wrong.
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
        """The notes have their line where there are any and the screen is not tiny. Set at once, not by a class: a class
        takes effect one repaint later."""
        self.query_one(NotesBar).display = bool(self.result and self.result.notes) and self.app.size.height >= 16

    def on_resize(self) -> None:
        """The screen may have become tiny."""
        self._place_notes()

    def _ask(self, urgent: bool = True) -> None:
        self.shell.request(self, urgent=urgent)

    def _crumbs(self) -> None:
        self.query_one(HeadlineBar).crumbs([level.crumb for level in self.levels if level.crumb])

    def focus_content(self) -> None:
        """Put the focus where keys are most useful."""
        focus_first(self.levels[-1] if self.levels else self)

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Take back the last change."""
        if not self._undo:
            self.notify("nothing to undo", timeout=2)
            return
        self._redo.append(self.parameters)
        self.parameters = self._undo.pop()
        self._ask()

    def action_redo(self) -> None:
        """Make it again."""
        if not self._redo:
            self.notify("nothing to redo", timeout=2)
            return
        self._undo.append(self.parameters)
        self.parameters = self._redo.pop()
        self._ask()

    def action_reset(self) -> None:
        """All parameters as at start."""
        if self.defaults is not None:
            self.replace_parameters(self.defaults)

    def action_parameters(self) -> None:
        """Edit parameters."""
        from tui.screens.parameters import ParametersScreen

        if self.view is None or self.parameters is None:
            self.notify("this view is not loaded yet", timeout=2)
            return
        self.app.push_screen(ParametersScreen(self))

    async def action_back(self) -> None:
        """Close the overlay or level on top."""
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

    def action_section_next(self) -> None:
        """Next section."""
        self._section(1)

    def action_section_previous(self) -> None:
        """Previous section."""
        self._section(-1)

    def _section(self, step: int) -> None:
        from tui.widgets.sections import Sections

        top = self.levels[-1] if self.levels else self
        focused = self.app.focused
        holders = [node for node in focused.ancestors if isinstance(node, Sections)] if focused is not None else []
        found = holders[0] if holders else next(iter(top.query(Sections)), None)
        if found is not None:
            found.step(step)

    def action_earlier(self) -> None:
        """One step back in time."""
        steps = list(self.steps())
        before = [moment for moment in steps if self.at_ms is None or moment < self.at_ms]
        if self.at_ms is None:
            before = before[:-1]
        if before:
            self.at(before[-1])
        else:
            self.notify("there is nothing earlier" if steps else NO_HISTORY, timeout=3)

    def action_later(self) -> None:
        """One step forward in time."""
        if self.at_ms is None:
            self.notify("these are the newest data" if self.steps() else NO_HISTORY, timeout=3)
            return
        after = [moment for moment in self.steps() if moment > self.at_ms]
        self.at(after[0] if len(after) > 1 else None)

    def action_live(self) -> None:
        """Back to the newest data."""
        if self.at_ms is None:
            self.notify("these are the newest data" if self.steps() else NO_HISTORY, timeout=3)
        self.at(None)


class GenericPane(ViewPane):
    """A view without its own screen: every result table in a section with the shared table, and the findings."""

    def compose_view(self) -> ComposeResult:
        """A section per table."""
        from tui.widgets.sections import Sections

        tables = self.view.tables if self.view is not None else ()
        sections = Sections(id="tables")
        for table in tables:
            sections.add(
                table.title or table.name.replace("_", " "),
                LiveTable(table, name=f"{self.entry.name}/{table.name}", id=f"table-{table.name.replace('_', '-')}"),
            )
        yield sections

    def show(self, result: Result) -> None:
        """Every table."""
        for table in self.view.tables if self.view is not None else ():
            try:
                found = self.query_one(f"#table-{table.name.replace('_', '-')}", LiveTable)
            except NoMatches:
                continue
            frame = result.tables.get(table.name)
            found.show(table.empty() if frame is None else frame, table)


def make_pane(entry: Entry, *, id: str | None = None) -> ViewPane:
    """The pane of a view: ``tui.views.<view>.pane:Pane`` where it exists, else the generic one.

    A pane that cannot be imported is a bug of that view only: it is logged and the generic pane stands in.
    """
    module = f"tui.views.{entry.name.replace('-', '_')}.pane"
    try:
        if importlib.util.find_spec(module) is not None:
            found: type[ViewPane] = importlib.import_module(module).Pane
            return found(entry, id=id)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            log.exception("pane %s cannot be imported", module)
    except Exception:
        log.exception("pane %s cannot be imported", module)
    return GenericPane(entry, id=id)
