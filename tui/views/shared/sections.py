"""The levels of a tab as declarations: sections, the tables and panels in them, how rows are drawn, and what Enter opens.

A section's content is a tree of parts: ``TableOf`` and ``Shown`` are what is drawn, ``Box`` arranges them. Only the section
on screen is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget

from tui.views.shared.tab import Tab
from tui.widgets.drawing.canvas import Frame, ScrollCanvas
from tui.widgets.drawing.fragments import Line
from tui.widgets.drawing.plot import Draw, PlotView
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.table.layout import beside
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Key, Looks, Renderer

if TYPE_CHECKING:
    from engine.core.tables import Table
    from engine.core.view import Result

T = TypeVar("T")
Row = dict[str, Any]  # a row by column name
LATER: Any = object()  # returned by ``TableOf.rows`` while rows are still being made: the table stays as it is


class TableOf(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a section; ``id`` of its widget.

    ``table``: the result table that it shows. ``rows``: a function of the result that returns other rows: a frame, or a frame
    and its declaration, or None for no rows. ``arrange`` changes the declaration (titles, order of columns). ``cells`` draw
    the cells of some columns; ``looks``, a function of the result, replaces them if cells or row styles depend on it.
    ``open``: what Enter does, given the row under the cursor. ``name``: the operator's choices are remembered under
    view/name. ``sort``: column of the first order, descending. ``first``: a function of the result that returns the key of
    the row under the first cursor. ``empty``: text in place of rows. ``hide``: leave the table out if ``rows`` returns None.
    ``height``: lines for a number of rows.
    """

    table: str
    id: str
    name: str = ""
    rows: Callable[[Result], Any] | None = None
    arrange: Callable[[Table], Table] | None = None
    cells: Mapping[str, Renderer] = msgspec.field(default_factory=dict)
    looks: Callable[[Result], Looks] | None = None
    open: Callable[[Row], Any] | None = None
    sort: str = ""
    first: Callable[[Result], Key | None] | None = None
    empty: str = "no rows"
    hide: bool = False
    height: Callable[[int], int] | None = None

    def make(self, view: str) -> LiveTable:
        """Return its widget."""
        return LiveTable(name=f"{view}/{self.name or self.table}", id=self.id, empty=self.empty)

    def draw(self, level: Level, result: Result) -> None:
        """Show the rows of ``result``, together with how they are drawn."""
        found = self.rows(result) if self.rows is not None else result.tables.get(self.table)
        if found is LATER:
            return
        rows, spec = found if isinstance(found, tuple) else (found, level.pane.spec(self.table))
        spec = self.arrange(spec) if self.arrange is not None else spec
        looks = self.looks(result) if self.looks is not None else Looks(self.cells)
        table = level.query_one(f"#{self.id}", LiveTable)
        if self.hide:
            table.display = rows is not None
        rows = spec.empty() if rows is None else rows
        if self.height is not None and not table.is_maximized:
            table.styles.height = self.height(rows.height) + table.gutter.height
        if self.sort and table.window is None and not table.choice.sort:
            table.choose(sort=self.sort, descending=True, remember=False)
        table.show(rows, spec, Looks(looks.cells, looks.style, result))
        if self.first is not None and self.id not in level.placed and table.window is not None and rows.height:
            level.placed.add(self.id)
            table.move_to_key(self.first(result))


class Shown(msgspec.Struct, frozen=True):
    """A widget that draws a value: ``kind`` makes it (with its ``id``), and its ``show`` takes what ``value`` returns.

    ``value`` is a function of the result. With ``of``, the id of a table of the same section, it is a function of the result
    and the row under that table's cursor (None without rows), and the result is the one that the row is of.
    """

    kind: Callable[..., Widget]
    value: Callable[..., Any]
    id: str
    of: str = ""

    def make(self, view: str) -> Widget:
        """Return its widget."""
        return self.kind(id=self.id)

    def draw(self, level: Level, result: Result) -> None:
        """Show the value."""
        widget: Any = level.query_one(f"#{self.id}")
        if not self.of:
            widget.show(self.value(result))
            return
        table = level.query_one(f"#{self.of}", LiveTable)
        widget.show(self.value(table.window.looks.source if table.window is not None else result, table.row))


class Box:
    """Parts arranged by a container: ``kind`` makes it of their widgets and further arguments."""

    def __init__(self, kind: Callable[..., Widget], *parts: Part, **more: Any) -> None:
        self.kind, self.parts, self.more = kind, parts, more

    def make(self, view: str) -> Widget:
        """Return the container with the widgets of its parts."""
        return self.kind(*(part.make(view) for part in self.parts), **self.more)


Part = TableOf | Shown | Box


class Section(msgspec.Struct, frozen=True):
    """A title and what is below it. ``mark``: what stands behind the title, as text and style. ``hidden``: whether the
    section does not apply to a result. ``hint``: how to get its first table, said if the result has none."""

    title: str
    content: Part
    mark: Callable[[Result], tuple[str, str]] | None = None
    hidden: Callable[[Result], bool] | None = None
    hint: str = ""


def drawn(part: Part | None) -> Iterator[TableOf | Shown]:
    """Yield what is drawn in ``part``, in declared order."""
    if isinstance(part, Box):
        for inner in part.parts:
            yield from drawn(inner)
    elif part is not None:
        yield part


class Level(Frame):
    """One step of drilling down: covers what is below it in the pane until Escape.

    A subclass declares its ``sections`` and perhaps a ``head`` above them. ``crumb`` is its name in the header line.
    ``show(result)`` is called at once and for every new result; if what it shows is gone, it says so rather than closing.
    ``NAME`` is the id of ``holder``, the widget with the sections (None if there is only one).
    """

    DEFAULT_CSS = "Level { height: 1fr; width: 1fr; }"
    NAME: str | None = None

    def __init__(self, crumb: str = "") -> None:
        super().__init__()
        self.crumb = crumb
        self.declared: tuple[Section, ...] = ()
        self.placed: set[str] = set()
        self.holder: Sections | None = None
        self._head: Part | None = None

    @property
    def pane(self) -> Any:
        """The tab that this level is in: a ``ViewPane``, whose module imports this one."""
        return next(node for node in self.ancestors if isinstance(node, Tab))

    # -- what a level declares ------------------------------------------------------------------------------------

    def head(self) -> Part | None:
        """Return what stands above the sections."""
        return None

    def sections(self) -> tuple[Section, ...]:
        """Return the sections; a single one has no title."""
        return ()

    def ready(self, result: Result) -> bool:
        """Return whether ``result`` has what the sections draw; else only the head is drawn."""
        return True

    # -- drawing --------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Yield head and sections."""
        view, self._head, self.declared = self.pane.entry.name, self.head(), self.sections()
        if self._head is not None:
            yield self._head.make(view)
        if len(self.declared) == 1:
            yield self.declared[0].content.make(view)
        elif self.declared:
            titles = (section.title[:1].upper() + section.title[1:] for section in self.declared)
            contents = (section.content.make(view) for section in self.declared)
            self.holder = Sections(*zip(titles, contents, strict=True), id=self.NAME)
            yield self.holder

    @property
    def section(self) -> str:
        """Title of the section on screen."""
        return self.declared[self.holder.chosen if self.holder is not None else 0].title if self.declared else ""

    def choose(self, title: str) -> None:
        """Show the section ``title``."""
        if self.holder is not None:
            self.holder.choose([section.title for section in self.declared].index(title))

    def show(self, result: Result) -> None:
        """Draw ``result``: the head, marks behind titles, the section on screen."""
        self._draw(self._head, result)
        self.mark(result)
        self.draw()

    def mark(self, result: Result) -> None:
        """Put marks behind the titles, and leave out the sections that do not apply."""
        holder = self.holder
        if holder is not None:
            for place, section in enumerate(self.declared):
                if section.mark is not None:
                    holder.query_one(TitleBar).mark(place, *section.mark(result))
            hidden = (
                place for place, each in enumerate(self.declared) if each.hidden is not None and each.hidden(result)
            )
            holder.hide(frozenset(hidden))

    def draw(self) -> None:
        """Draw the section on screen from the newest result."""
        result = self.pane.result
        if result is not None and self.declared and self.ready(result):
            self._draw(self._shown.content, result)
            self.on_resize()

    def on_resize(self) -> None:
        """Share the width between tables and the panels beside them."""
        for panel in self.query(DetailPanel):
            panel.fit(self.size.width)

    @property
    def _shown(self) -> Section:
        return next(section for section in self.declared if section.title == self.section)

    def _draw(self, part: Part | None, result: Result) -> None:
        """Draw tables, then what follows their cursors."""
        for each in sorted(drawn(part), key=lambda each: isinstance(each, Shown)):
            each.draw(self, result)

    @on(Sections.Shown)
    def _section_shown(self, event: Sections.Shown) -> None:
        if event.sections is not self.holder:
            return
        self.draw()
        section, result = self._shown, self.pane.result
        table = next(drawn(section.content))
        if section.hint and result is not None and isinstance(table, TableOf) and table.table not in result.tables:
            self.notify(section.hint, timeout=3, markup=False)

    @on(LiveTable.Highlighted)
    def _moved(self, event: LiveTable.Highlighted) -> None:
        result = self.pane.result
        if result is None or not self.declared or not self.ready(result):
            return
        for part in drawn(self._shown.content):
            if isinstance(part, Shown) and part.of and part.of == event.table.id:
                part.draw(self, result)

    @on(LiveTable.Selected)
    def _selected(self, event: LiveTable.Selected) -> None:
        """Open the row as its table declares."""
        row = event.table.row
        tables = (part for section in self.declared for part in drawn(section.content) if isinstance(part, TableOf))
        found = next((table for table in tables if table.id == event.table.id), None)
        if found is not None and found.open is not None and row is not None:
            event.stop()
            self.pane.call_later(found.open, row)  # not here: it may close this level

    def row(self, table: str) -> Row | None:
        """Return the row under the cursor of the table with this id; None without rows."""
        return self.query_one(f"#{table}", LiveTable).row

    def step_section(self, step: int) -> bool:
        """Handle the keys of sections, if they do something else here; return whether they do."""
        return False


def once(make: Callable[[Result], T]) -> Callable[[Result], T]:
    """Return ``make`` called once per result: several parts draw what it returns."""
    newest: list[Any] = [None, None]

    def made(result: Result) -> T:
        if newest[0] is not result:
            newest[:] = result, make(result)
        return newest[1]

    return made


def drawing_of(value: Callable[..., T | None], draw: Callable[..., list[Line]]) -> Callable[..., Draw | None]:
    """Return a part's function: it draws with ``draw`` what ``value`` finds in the result; None draws nothing."""

    def drawing(*source: Any) -> Draw | None:
        found = value(*source)
        return partial(draw, found) if found is not None else None

    return drawing


class DetailPanel(Frame):
    """A panel beside tables: it has what the first of them leaves, and the key ``d`` hides and shows it. Where that is too
    little, it is an overlay that ``d`` opens and closes, and the tables show no column that would go beside it."""

    SCOPED_CSS = False  # scoped rules do not see the screen's classes
    DEFAULT_CSS = """
    DetailPanel { width: 42%; height: 1fr; border-left: vkey $panel; padding: 0 0 0 1; }
    DetailPanel.-closed { display: none; }
    DetailPanel.-over {
        display: none; layer: overlay; dock: right; border: none; padding: 0 1; background: $background;
    }
    DetailPanel.-over.-open { display: block; }
    """

    def fit(self, width: int) -> None:
        """Share ``width`` cells with the tables beside."""
        holder = self.parent
        tables = [each for each in holder.query(LiveTable) if self not in each.ancestors] if holder is not None else []
        window = tables[0].window if tables else None
        if not width or window is None:
            return
        wide, room = beside(window.columns, width, window.needs)
        self.set_class(not wide, "-over")
        self.styles.width = wide or width
        room = 0 if self.has_class("-closed") else room
        for table in tables:
            if table.room != room:
                table.room = room
                table.repaint()


class Charts(Container, can_focus=True):
    """A container of charts that takes the focus, so that keys reach the tab."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    Charts { height: 1fr; width: 1fr; layout: horizontal; }
    Charts PlotView { height: 1fr; }
    Charts Vertical { width: 1fr; height: 1fr; }
    """


class Drawing(ScrollCanvas, can_focus=True):
    """Lines behind a scroll bar, drawn by a function of width, height and glyphs."""

    shown: Draw | None = None

    def content(self, width: int) -> list[Line]:
        """Return the drawing at this width."""
        return self.shown(width, self.size.height, self.glyphs) if self.shown is not None else []


class Fit(Frame):
    """A table with as many lines as it has rows, up to all but ``least``, over widgets that take the rest.

    If that leaves less than ``least`` lines, and less than the table needs, the table takes all of them. ``share``: the part
    of the lines that tables below get at least, if they have rows for it.
    """

    DEFAULT_CSS = """
    Fit { height: 1fr; width: 1fr; layout: vertical; }
    Fit > Frame { height: 1fr; }
    """

    def __init__(self, table: LiveTable, *below: Widget, least: int = 8, share: float = 0) -> None:
        self.table = table
        self.below = Frame(*below)
        self.least = least
        self.share = share
        super().__init__(table, self.below)

    @on(LiveTable.Highlighted)
    @on(events.Resize)
    def _changed(self) -> None:
        """Share the lines again: rows came or went, or the screen has another size."""
        self.fit()

    def fit(self) -> None:
        """Share the lines between the table and what is below it."""
        height = self.size.height
        if not height or self.table.window is None or self.table.is_maximized:
            return
        wanted = _lines(self.table)
        room = height - self.least
        alone = room < min(wanted, self.least)
        if self.below.display == alone:
            self.below.display = not alone
        kept = min(int(height * self.share), sum(map(_lines, self.below.query(LiveTable))))
        self.table.styles.height = height if alone else min(wanted, room, height - kept)


def _lines(table: LiveTable) -> int:
    """Return how many lines a table takes with all its rows."""
    return max(table.window.height if table.window is not None else 0, 1) + 1 + table.gutter.height


FactsOf = partial(Shown, Facts)
PlotOf = partial(Shown, PlotView)
LinesOf = partial(Shown, Drawing)  # parts that draw labels with values, a plot, and lines
