"""The drawing half of the shared table: a window on a frame, its geometry, its cells and its cursor.

A ``Grid`` shows a Polars frame by its declared ``engine.core.tables.Table`` and sends only changed cells. Its cursor is a row
*key*, located again after each update; scroll survives updates. Frames above ``INLINE_ROWS`` rows are sorted and filtered in
a thread. What an operator does with it is in ``table.py``; what is not drawing in ``window.py``, ``filters.py`` and
``layout.py``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.host import Host
from tui.textual_internals import set_virtual_size
from tui.widgets.drawing.canvas import COMPONENTS, Painter
from tui.widgets.drawing.fragments import Line, cut, fit_line, plain
from tui.widgets.table import window as windows
from tui.widgets.table.layout import Layout, layout
from tui.widgets.table.window import Choice, Key, Looks, Window

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Table

log = logging.getLogger("loadlens.grid")

INLINE_ROWS = 5_000  # number of rows up to which a frame is sorted and filtered at once, not in a thread
STRUCK = Style(strike=True)  # added to the cursor on nodes that fail in a scenario
LEVEL_STYLES = ("low", "moderate", "severe", "critical")
SORTING_AFTER_S = 0.3  # seconds before sorting is mentioned: quick sorts would flicker with every change of the data


class Grid(ScrollView, Painter):
    """A virtual grid of cells. See ``LiveTable`` for its arguments."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)  # Textual collects them along the first base only

    @dataclass
    class Highlighted(Message, namespace="live_table"):
        """The cursor is on another row (``key`` None: on none), or rows appear only now that were sorted in a thread."""

        table: Grid
        key: Key | None

        def can_replace(self, message: Message) -> bool:
            """Return True for any other message of the same table: only the newest counts."""
            return isinstance(message, Grid.Highlighted) and message.table is self.table

    @dataclass
    class Built(Message, namespace="live_table"):
        """A window that was built in a thread is ready."""

        window: Window
        generation: int

    def __init__(
        self,
        spec: Table | None = None,
        *,
        name: str | None = None,
        choice: Choice | None = None,
        empty: str = "no rows",
        id: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id)
        self.empty = empty  # shown if there are no rows
        self.spec = spec
        self._looks = windows.PLAIN
        self.choice = choice or Choice()
        self.window: Window | None = None
        self.cursor = 0
        self.cursor_key: Key | None = None
        self.placed = False  # the operator put the cursor where it is; else it stays on the first row
        self.current = ""
        self.search = ""
        self.waiting = False
        self.room = 0  # cells that tell which columns fit, if not all: a panel beside will want the others
        self._building_since = 0.0
        self._offset = 0
        self._generation = 0
        self._frame: pl.DataFrame | None = None
        self._layout = Layout((), 0)
        self._header: Line = []
        self._cache: dict[int, Line] = {}
        self._width = -1

    def on_mount(self) -> None:
        """Take the choices that the operator made in an earlier run."""
        if self.name and self.choice == Choice() and isinstance(self.app, Host):
            self.choice = self.app.choice_for(self.name)
        if self._frame is not None:
            self._build()

    # -- data ---------------------------------------------------------------------------------------------------

    def show(self, frame: pl.DataFrame, spec: Table | None = None, looks: Looks = windows.PLAIN) -> None:
        """Show ``frame`` as declared by ``spec`` (None: as before), drawn by ``looks``. An equal frame sends nothing."""
        if spec is not None and spec != self.spec:
            self.spec, self._width = spec, -1
        self._looks = looks
        self._frame = frame
        self._build()

    def _build(self) -> None:
        """Sort and filter ``_frame`` by ``choice``: at once if small, else in a thread; the newest wins."""
        frame, spec, choice, looks = self._frame, self.spec, self.choice, self._looks
        if frame is None or spec is None:
            return
        self._generation += 1
        if frame.height <= INLINE_ROWS or not (choice.sort or choice.filter):  # the declared order is there already
            self._take(windows.build(spec, frame, choice, self.window, looks))
            return
        generation, previous = self._generation, self.window
        self._building_since = self._building_since or time.monotonic()

        def build_window() -> None:
            try:
                built = windows.build(spec, frame, choice, previous, looks)
            except BaseException:  # also a panic of Polars: old rows must not stay for ever
                log.exception("sorting and filtering %s failed", self.name)
                error = "neither sorted nor filtered, by a mistake of ours: see the log (: log)"
                built = windows.build(spec, frame, Choice(columns=choice.columns), None, looks)
                built = replace(built, choice=choice, error=error)
            if self.is_attached:
                self.post_message(self.Built(built, generation))

        self.run_worker(build_window, thread=True, group="build", exit_on_error=False, description="sort and filter")

    def wait(self, waiting: bool) -> None:
        """Note whether a result is being computed: without rows the table says so; with rows the cursor stays on its row."""
        self.placed = self.placed or (waiting and self.cursor_key is not None)
        if waiting != self.waiting:
            self.waiting = waiting
            if self.window is not None and not self.window.height:
                self._refresh_row(0)

    def on_live_table_built(self, event: Built) -> None:
        """Show a window from the thread unless a newer one was requested."""
        event.stop()
        if event.generation == self._generation:
            self._take(event.window, late=True)

    def _take(self, window: Window, *, late: bool = False) -> None:
        """Show a window: keep the cursor on its row.

        ``late``: ``show`` has returned long ago, so post that the row under the cursor may have other values.
        """
        old, self.window, self._building_since = self.window, window, 0.0
        self._cache.clear()
        if not self.is_attached or not self.size.height:
            # Not laid out or hidden: drawn later. The cursor is placed now, so that panes can ask for its row.
            self.cursor = (window.locate(self.cursor_key, self.cursor) if self.placed else 0) or 0
            self.cursor_key = window.key(self.cursor)
            self._width = -1
            self.post_message(self.Highlighted(self, self.cursor_key))
            return
        self._arrange()
        position = window.locate(self.cursor_key, self.cursor) if self.placed else 0
        if position is None:
            position = max(min(self.cursor, window.height - 1), 0)
        moved, key = position - self.cursor, window.key(position)
        changed = key != self.cursor_key or old is None or late
        self.cursor, self.cursor_key = position, key
        self._resize()
        top = self.scroll_offset.y
        if moved and old is not None and not top <= position < top + self._page:
            # The row under the cursor moved: scroll with it, so that it stays where the eye is.
            self.scroll_to(y=max(min(top + moved, self.max_scroll_y), 0), animate=False)
        self.refresh()
        if changed:
            self.post_message(self.Highlighted(self, key))

    # -- geometry -----------------------------------------------------------------------------------------------

    @property
    def _page(self) -> int:
        """Return the number of rows that fit below the header."""
        return max(self.size.height - 1, 1)

    def _arrange(self) -> None:
        """Fit columns to the width and make the header."""
        self._width = max(self.scrollable_content_region.width, 1)
        window = self.window
        if window is None:
            return
        hidden = self._layout.hidden
        self._layout = layout(window.columns, self._width, self._offset, window.needs, self.room)
        if hidden != self._layout.hidden:  # the caption says so
            self.post_message(self.Highlighted(self, self.cursor_key))
        names = [slot.column.name for slot in self._layout.slots]
        if self.current not in names:
            self.current = window.choice.sort if window.choice.sort in names else (names[0] if names else "")
        self._header = self._titles(window)

    def _titles(self, window: Window) -> Line:
        """Return the header line, the chosen column marked while the table has the focus; name the table above it."""
        named = f"{windows.heading(window, self.glyphs)}{'' if self.has_focus else '  Tab'}"
        self.border_title = Content(self.spell(cut(named, self._width - 4, self.glyphs.ellipsis)))
        return windows.header(window, self._layout, self._width, self.glyphs, self.current if self.has_focus else "")

    def _resize(self) -> None:
        """Tell Textual how many lines there are."""
        height = (self.window.height if self.window is not None else 0) + 1
        set_virtual_size(self, Size(max(self._width, 1), height))

    @on(events.Resize)
    @on(events.Show)
    def _fit_again(self) -> None:
        """Fit the columns again, and draw what came while the table was hidden. Textual repaints what was resized."""
        if self.scrollable_content_region.width != self._width:
            self._cache.clear()
            self._arrange()
        self._resize()
        self._into_view()

    def repaint(self) -> None:
        """Draw everything again: width, glyphs or columns changed."""
        self._width = -1
        self._fit_again()
        self.refresh()

    def _redo_header(self) -> None:
        """Draw the header again."""
        if self.window is not None:
            self._header = self._titles(self.window)
            self.refresh(Region(0, 0, max(self._width, 1), 1))

    def _refresh_row(self, row: int) -> None:
        y = row - self.scroll_offset.y
        if 0 <= y < self._page:
            self.refresh(Region(0, y + 1, max(self._width, 1), 1))

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self) -> None:
        """Draw cursor and header again; Textual notes the focus only after this."""
        self.call_later(self._redo_header)
        self._refresh_row(self.cursor)

    # -- drawing ------------------------------------------------------------------------------------------------

    def _line(self, row: int) -> Line:
        """Return the line of row ``row``; a screenful of rows is drawn at once."""
        line = self._cache.get(row)
        if line is not None:
            return line
        window = self.window
        if window is None or row >= window.height:
            why = self.empty if window is not None else ""
            if self.waiting:
                why = "computing" + self.glyphs.ellipsis
            elif window is not None and window.choice.filter and window.frame.height:
                why = f"none of {window.frame.height:,} rows matches {window.choice.filter!r} (Esc removes the filter)"
            return fit_line([(why, "dim")] if row == 0 else [], self._width)
        stop = min(max(self.scroll_offset.y + self._page, row + 1), row + 400)
        made = windows.lines(window, row, stop, self._layout, self._width, self.glyphs)
        if len(self._cache) > 2_000:
            self._cache.clear()
        self._cache = dict(enumerate(made, row)) | self._cache
        return made[0]

    def render_line(self, y: int) -> Strip:
        """Return line ``y`` of the screen for Textual."""
        width = self.scrollable_content_region.width
        if self.window is None:
            return Strip.blank(width, self.rich_style)
        if width != self._width:
            self._cache.clear()
            self._arrange()
        if y == 0:
            return self.strip(self._header, width)
        row = self.scroll_offset.y + y - 1
        line = self._line(row)
        if row != self.cursor or row >= self.window.height:
            return self.strip(line, width)
        cursor = self.look("cursor" if self.has_focus else "cursor-blur")
        looks = {"failed": cursor + STRUCK}
        if not self.has_focus:
            looks |= {style: self.look(style) + cursor.background_style for style in ("dim", "ok", *LEVEL_STYLES)}
        segments = [Segment(self.spell(text), looks.get(style, cursor)) for text, style in fit_line(line, width)]
        return Strip(segments, width).simplify()

    def displayed(self, start: int, stop: int) -> str:
        """Return the titles and the rows ``start`` to ``stop`` as they are displayed, with the columns on screen."""
        rows = windows.lines(self.window, start, stop, self._layout, self._width, self.glyphs) if self.window else []
        return "".join(self.spell(plain(line)).rstrip() + "\n" for line in (self._header, *rows))

    # -- cursor -------------------------------------------------------------------------------------------------

    def move_to(self, row: int) -> None:
        """Put the cursor on the row at position ``row``, or on the nearest one."""
        window = self.window
        if window is None or not window.height:
            return
        self.placed = True
        row = max(min(row, window.height - 1), 0)
        if row == self.cursor and window.key(row) == self.cursor_key:
            return
        old, self.cursor = self.cursor, row
        self.cursor_key = window.key(row)
        top = self.scroll_offset.y
        if top <= row < top + self._page:
            self._refresh_row(old)
            self._refresh_row(row)
        else:
            self._into_view()
        self.post_message(self.Highlighted(self, self.cursor_key))

    def move_to_key(self, key: Key | None) -> bool:
        """Put the cursor on the row with ``key``; return False if it is not shown."""
        position = self.window.locate(key) if self.window is not None else None
        if position is None:
            return False
        self.move_to(position)
        return True

    def _into_view(self) -> None:
        """Scroll so that the cursor's row is on screen."""
        top = min(max(self.scroll_offset.y, self.cursor - self._page + 1), self.cursor)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)

    @property
    def row(self) -> dict[str, Any] | None:
        """Return the values of the row under the cursor by column name (hidden ones too); None without rows."""
        rows = self.window.rows(self.cursor, self.cursor + 1) if self.window is not None else []
        return rows[0] if rows else None

    @property
    def caption(self) -> str:
        """Return the place of the cursor and the choices in force, for the status line."""
        if self.window is None:
            return ""
        slow = self._building_since > 0 and time.monotonic() - self._building_since > SORTING_AFTER_S
        return windows.caption(self.window, self.cursor, self.choice, self._layout.hidden, self.glyphs, sorting=slow)
