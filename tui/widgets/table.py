"""The shared table: any number of rows, any sort, any filter, and only changed cells go to the terminal.

``LiveTable`` shows a Polars frame by its declared ``engine.tables.Table``. Its cursor is a row *key*, found again after each
update; scroll and choices (sort, filter, columns) survive updates. Frames above ``INLINE`` rows are sorted and filtered in
a thread. See ``tui/widgets/window.py`` for everything that is not drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.actions import bindings
from tui.widgets import window as windows
from tui.widgets.canvas import COMPONENTS, CSS_BY_COMPONENT, _Painter
from tui.widgets.fragments import Line, changed_spans, fit_line
from tui.widgets.window import Choice, Key, Layout, Renderer, Window

if TYPE_CHECKING:
    import polars as pl

    from engine.tables import Column, Table

INLINE = 5_000
"""Frames with more rows are sorted and filtered in a thread."""

RowStyle = Callable[[Mapping[str, Any]], str]
"""From a row to the style of the whole line (empty: none)."""


class LiveTable(ScrollView, _Painter, can_focus=True):
    """A virtual table.

    ``spec`` declares the columns; ``renderers`` draw the cells of some columns (by name); ``row_style`` may style whole
    rows; ``name`` is under which the operator's choices are remembered (view/table). Call ``show(frame)`` for new data
    as often as you like.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)  # Textual collects them along the first base only
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("table")]
    DEFAULT_CSS = (
        "LiveTable { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; "
        "scrollbar-color: $primary; scrollbar-color-hover: $primary; scrollbar-color-active: $primary; "
        "scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface; "
        "scrollbar-gutter: stable; }" + CSS_BY_COMPONENT.format(name="LiveTable")
    )

    class Highlighted(Message):
        """The cursor is on another row (or on none: ``key`` None)."""

        def __init__(self, table: LiveTable, key: Key | None) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LiveTable:
            """The table."""
            return self.table

        def can_replace(self, message: Message) -> bool:
            """Only the newest counts."""
            return isinstance(message, LiveTable.Highlighted) and message.table is self.table

    class Selected(Message):
        """Enter on a row."""

        def __init__(self, table: LiveTable, key: Key) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LiveTable:
            """The table."""
            return self.table

    class Chosen(Message):
        """Sort, filter or columns changed by the operator; the app remembers them."""

        def __init__(self, table: LiveTable) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> LiveTable:
            """The table."""
            return self.table

    class Built(Message):
        """A window built in a thread is ready."""

        def __init__(self, window: Window, generation: int) -> None:
            super().__init__()
            self.window = window
            self.generation = generation

    def __init__(
        self,
        spec: Table | None = None,
        *,
        name: str | None = None,
        renderers: Mapping[str, Renderer] | None = None,
        row_style: RowStyle | None = None,
        choice: Choice | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.spec = spec
        self.renderers: dict[str, Renderer] = dict(renderers or {})
        self.row_style = row_style
        self.choice = choice or Choice()
        self.window: Window | None = None
        self.cursor = 0
        self.cursor_key: Key | None = None
        self.current = ""
        self.search = ""
        self.building = False
        self._offset = 0
        self._generation = 0
        self._frame: pl.DataFrame | None = None
        self._layout = Layout((), 0)
        self._header: Line = []
        self._cache: dict[int, Line] = {}
        self._width = -1

    def on_mount(self) -> None:
        """Take up what the operator chose in an earlier run."""
        remembered = getattr(self.app, "choice_for", None)
        if self.name and remembered is not None and self.choice == Choice():
            self.choice = remembered(self.name)
        if self._frame is not None:
            self._build()

    # -- data ---------------------------------------------------------------------------------------------------

    def show(self, frame: pl.DataFrame, spec: Table | None = None) -> None:
        """Show ``frame`` (and from now on by ``spec``). An equal frame draws nothing."""
        if spec is not None and spec is not self.spec:
            self.spec = spec
            self._width = -1
        if self.spec is None:
            raise ValueError("a table needs its declaration: show(frame, spec)")
        self._frame = frame
        self._build()

    def _build(self) -> None:
        """Sort and filter ``_frame`` by ``choice``: at once if small, else in a thread; the newest wins."""
        frame, spec, choice = self._frame, self.spec, self.choice
        if frame is None or spec is None:
            return
        self._generation += 1
        if frame.height <= INLINE:
            self._take(windows.build(spec, frame, choice, self.window))
            return
        generation, previous = self._generation, self.window
        self.building = True

        def work() -> None:
            built = windows.build(spec, frame, choice, previous)
            if self.is_attached:
                self.post_message(self.Built(built, generation))

        self.run_worker(work, thread=True, group="build", exit_on_error=False, description="sort and filter")

    def on_live_table_built(self, event: Built) -> None:
        """Take a window from the thread unless a newer one was asked for."""
        event.stop()
        if event.generation == self._generation:
            self._take(event.window)

    def _take(self, window: Window) -> None:
        """Show a window: keep the cursor on its row, send only what changed."""
        old, self.window, self.building = self.window, window, False
        if not self.is_attached or not self.size.height:
            # Not laid out or hidden: on_resize draws it. The cursor is put on its row now, so that panes can ask.
            self.cursor = window.locate(self.cursor_key) or 0
            self.cursor_key = window.key(self.cursor)
            self._cache.clear()
            self._width = -1
            self.post_message(self.Highlighted(self, self.cursor_key))
            return
        before_layout, before_header = self._layout, self._header
        self._arrange()
        position = window.locate(self.cursor_key)
        if position is None:
            position = max(min(self.cursor, window.height - 1), 0)
        moved = position - self.cursor
        key = window.key(position)
        changed_key = key != self.cursor_key
        self.cursor, self.cursor_key = position, key
        whole = old is None or before_layout != self._layout
        if old is None or old.height != window.height:
            whole = self._resize() or whole
        if moved and old is not None:
            # The row under the cursor moved: let the view follow, so that it stays where the eye is.
            target = max(min(self.scroll_offset.y + moved, self.max_scroll_y), 0)
            if not self.scroll_offset.y <= position < self.scroll_offset.y + self._page:
                self.scroll_to(y=target, animate=False)
        if whole:
            self._cache.clear()
            self.refresh()
        else:
            self._refresh_changed(before_header)
        if changed_key or old is None or old.frame is not window.frame:
            self.post_message(self.Highlighted(self, key))

    def _refresh_changed(self, before_header: Line) -> None:
        """Compare what is on screen with what should be, and refresh the differing spans."""
        old = self._cache
        self._cache = {}
        top = self.scroll_offset.y
        regions = [Region(x, 0, size, 1) for x, size in changed_spans(before_header, self._header)]
        assert self.window is not None
        for y in range(self._page):
            row = top + y
            after = self._line(row)
            before = old.get(row)
            if before is None:
                regions.append(Region(0, y + 1, max(self._width, 1), 1))
            else:
                regions += [Region(x, y + 1, size, 1) for x, size in changed_spans(before, after)]
        if regions:
            self.refresh(*regions)

    # -- geometry -----------------------------------------------------------------------------------------------

    @property
    def _page(self) -> int:
        """Rows that fit below the header."""
        return max(self.size.height - 1, 1)

    def _arrange(self) -> None:
        """Fit columns to the width and make the header."""
        window = self.window
        if window is None:
            return
        self._width = max(self.scrollable_content_region.width, 1)
        self._layout = windows.layout(window.columns, self._width, self._offset)
        names = [slot.column.name for slot in self._layout.slots]
        if self.current not in names:
            self.current = window.choice.sort if window.choice.sort in names else (names[0] if names else "")
        self._header = windows.header(
            window, self._layout, self._width, self.glyphs, self.current if self.has_focus else ""
        )

    def _resize(self) -> bool:
        """Tell Textual how many lines there are; True if the size changed."""
        height = (self.window.height if self.window is not None else 0) + 1
        return self.set_virtual(Size(max(self._width, 1), height))

    def on_resize(self) -> None:
        """Fit columns anew. Textual repaints what was resized."""
        if self.scrollable_content_region.width != self._width:
            self._cache.clear()
            self._arrange()
        self._resize()
        self._into_view()

    def on_show(self) -> None:
        """What came while it was hidden is shown now."""
        self.on_resize()

    def redraw(self) -> None:
        """Everything anew: the glyphs changed."""
        self._redo()

    def _redo(self) -> None:
        """Everything anew: width, glyphs or columns changed."""
        self._cache.clear()
        self._arrange()
        self._resize()
        self.refresh()
        self._into_view()

    def _refresh_row(self, row: int) -> None:
        """Draw one row anew, if it is on screen."""
        y = row - self.scroll_offset.y
        if 0 <= y < self._page:
            self.refresh(Region(0, y + 1, max(self._width, 1), 1))

    def on_focus(self) -> None:
        """The cursor is drawn stronger with the focus, which Textual notes after this."""
        self.call_later(self._redo_header)
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        """The cursor is drawn weaker without the focus."""
        self.call_later(self._redo_header)
        self._refresh_row(self.cursor)

    # -- drawing ------------------------------------------------------------------------------------------------

    def _line(self, row: int) -> Line:
        """The line of row ``row``; fetches a screenful at once."""
        found = self._cache.get(row)
        if found is not None:
            return found
        window = self.window
        if window is None or row >= window.height:
            return fit_line([(self._nothing(), "dim")] if row == 0 else [], self._width)
        start = row
        stop = min(max(self.scroll_offset.y + self._page, row + 1), row + 400)
        made = windows.lines(window, start, stop, self._layout, self._width, self.glyphs, self.renderers)
        if self.row_style is not None:
            for index, values in enumerate(window.rows(start, stop)):
                style = self.row_style(values)
                if style:
                    made[index] = [(text, own or style) for text, own in made[index]]
        if len(self._cache) > 2_000:
            self._cache.clear()
        for index, line in enumerate(made):
            self._cache.setdefault(start + index, line)
        return self._cache[row]

    def _nothing(self) -> str:
        """Why there are no rows."""
        if self.window is None:
            return ""
        if self.choice.filter and self.window.frame.height:
            return f"none of {self.window.frame.height:,} rows matches {self.choice.filter!r} (Esc removes the filter)"
        return "no rows"

    def render_line(self, y: int) -> Strip:
        """One line as Textual wants it."""
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
        segments = []
        for text, style in fit_line(line, width):
            text = self.spell(text)
            if style in ("low", "moderate", "severe", "critical", "dim", "ok") and not self.has_focus:
                segments.append(Segment(text, self.look(style) + cursor.background_style))
            else:
                segments.append(Segment(text, cursor))
        return Strip(segments, width).simplify()

    # -- cursor -------------------------------------------------------------------------------------------------

    def move_to(self, row: int) -> None:
        """Put the cursor on the row at position ``row`` (kept in range)."""
        window = self.window
        if window is None or not window.height:
            return
        row = max(min(row, window.height - 1), 0)
        if row == self.cursor and window.key(row) == self.cursor_key:
            return
        old, self.cursor = self.cursor, row
        self.cursor_key = window.key(row)
        top = self.scroll_offset.y
        if top <= row < top + self._page:
            self.refresh(
                *(Region(0, place - top + 1, self._width, 1) for place in (old, row) if top <= place < top + self._page)
            )
        else:
            self._into_view()
        self.post_message(self.Highlighted(self, self.cursor_key))

    def move_to_key(self, key: Key) -> bool:
        """Put the cursor on the row with ``key``; False if it is not shown."""
        position = self.window.locate(key) if self.window is not None else None
        if position is None:
            return False
        self.move_to(position)
        return True

    def _into_view(self) -> None:
        """Scroll so that the cursor's row is on screen."""
        top, page = self.scroll_offset.y, self._page
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False)

    @property
    def row(self) -> dict[str, Any] | None:
        """The values of the row under the cursor, by column name (hidden ones too)."""
        if self.window is None or not self.window.height:
            return None
        found = self.window.rows(self.cursor, self.cursor + 1)
        return found[0] if found else None

    @property
    def caption(self) -> str:
        """Where one is and what was chosen, for the status line."""
        window = self.window
        if window is None:
            return ""
        glyphs = self.glyphs
        place = f"{min(self.cursor + 1, window.height):,}/{window.height:,}"
        if window.height != window.frame.height:
            place += f" of {window.frame.height:,}"
        parts = [place]
        if self.choice.filter:
            parts.append(f"/{self.choice.filter}")
        if window.error:
            parts.append(f"filter: {window.error}")
        if self.choice.sort:
            parts.append(f"{glyphs.down if self.choice.descending else glyphs.up}{self.choice.sort}")
        if self._layout.hidden:
            parts.append(f"+{self._layout.hidden} columns")
        if self.building:
            parts.append("sorting" + glyphs.ellipsis)
        return "  ".join(parts)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a row; on the header it sorts."""
        if event.y == 0:
            for slot in self._layout.slots:
                if slot.x <= event.x < slot.x + slot.width:
                    self.current = slot.column.name
                    self.action_sort()
            return
        self.move_to(self.scroll_offset.y + event.y - 1)
        if event.chain == 2:
            self.action_select()

    # -- choices ------------------------------------------------------------------------------------------------

    def choose(self, *, remember: bool = True, **fields: Any) -> None:
        """Change sort, descending, filter or columns, and show the result."""
        choice = windows.rechoose(self.choice, **fields)
        if choice == self.choice:
            return
        columns_changed = choice.columns != self.choice.columns
        self.choice = choice
        if columns_changed:
            self._offset = 0
        self._build()
        if remember:
            self.post_message(self.Chosen(self))

    def visible_columns(self) -> tuple[Column, ...]:
        """The columns on screen now."""
        return tuple(slot.column for slot in self._layout.slots)

    def _first_descending(self, name: str) -> bool:
        """Numbers and severities begin with the largest, texts with A."""
        from engine import units

        if self.spec is None:
            return False
        kind = self.spec.column(name).kind
        return kind in units.NUMERIC or kind in ("level", "spark", "flag")

    def _sort_by(self, name: str) -> None:
        if name == self.choice.sort:
            self.choose(descending=not self.choice.descending)
        else:
            self.choose(sort=name, descending=self._first_descending(name))

    def _step_sort(self, step: int) -> None:
        names = [column.name for column in (self.window.columns if self.window else ())]
        if not names:
            return
        if self.choice.sort in names:
            index = (names.index(self.choice.sort) + step) % len(names)
        else:
            index = 0 if step > 0 else len(names) - 1
        name = names[index]
        if name in {column.name for column in self.visible_columns()}:
            self.current = name
        self.choose(sort=name, descending=self._first_descending(name))

    def _step_column(self, step: int) -> None:
        names = [column.name for column in self.visible_columns()]
        if not names:
            return
        index = names.index(self.current) + step if self.current in names else 0
        if index >= len(names):
            if self._layout.hidden > self._offset:
                self._offset += 1
                self._redo()
                self.current = self.visible_columns()[-1].name
        elif self._offset and index < 2 and step < 0:
            self._offset -= 1
            self._redo()
            self.current = self.visible_columns()[min(1, len(self.visible_columns()) - 1)].name
        else:
            self.current = names[max(index, 0)]
        self._redo_header()

    def _redo_header(self) -> None:
        if self.window is None:
            return
        before = self._header
        self._header = windows.header(
            self.window, self._layout, self._width, self.glyphs, self.current if self.has_focus else ""
        )
        regions = [Region(x, 0, size, 1) for x, size in changed_spans(before, self._header)]
        if regions:
            self.refresh(*regions)

    def find(self, text: str, step: int = 1) -> bool:
        """Go to the next (or previous) row that matches ``text``; False if none does. Raises FilterError."""
        self.search = text
        position = self.window.find(text, self.cursor, step) if self.window is not None and text else None
        if position is None:
            return False
        self.move_to(position)
        return True

    # -- actions ------------------------------------------------------------------------------------------------

    def action_up(self) -> None:
        """One row up."""
        self.move_to(self.cursor - 1)

    def action_down(self) -> None:
        """One row down."""
        self.move_to(self.cursor + 1)

    def action_left(self) -> None:
        """Choose the column to the left."""
        self._step_column(-1)

    def action_right(self) -> None:
        """Choose the column to the right."""
        self._step_column(1)

    def action_top(self) -> None:
        """First row."""
        self.move_to(0)

    def action_bottom(self) -> None:
        """Last row."""
        if self.window is not None:
            self.move_to(self.window.height - 1)

    def _page_by(self, rows: int) -> None:
        if self.window is None:
            return
        target = max(min(self.scroll_offset.y + rows, self.max_scroll_y), 0)
        if target != self.scroll_offset.y:
            self.scroll_to(y=target, animate=False)
        self.move_to(self.cursor + rows)

    def action_page_up(self) -> None:
        """One page up."""
        self._page_by(-self._page)

    def action_page_down(self) -> None:
        """One page down."""
        self._page_by(self._page)

    def action_half_up(self) -> None:
        """Half a page up."""
        self._page_by(-max(self._page // 2, 1))

    def action_half_down(self) -> None:
        """Half a page down."""
        self._page_by(max(self._page // 2, 1))

    def action_select(self) -> None:
        """Open the row."""
        if self.cursor_key is not None and self.window is not None and self.window.height:
            self.post_message(self.Selected(self, self.cursor_key))

    def action_sort(self) -> None:
        """Sort by the chosen column, or reverse it."""
        if self.current:
            self._sort_by(self.current)

    def action_sort_previous(self) -> None:
        """Sort by the column to the left."""
        self._step_sort(-1)

    def action_sort_next(self) -> None:
        """Sort by the column to the right."""
        self._step_sort(1)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.choose(descending=not self.choice.descending)

    def action_clear(self) -> None:
        """Remove the filter; without one, Escape means what it means outside the table."""
        if not self.choice.filter:
            raise SkipAction()
        self.choose(filter="")

    def action_find_next(self) -> None:
        """Next match."""
        if self.search and not self.find(self.search):
            self.notify(f"nothing matches {self.search!r}", markup=False)

    def action_find_previous(self) -> None:
        """Previous match."""
        if self.search and not self.find(self.search, -1):
            self.notify(f"nothing matches {self.search!r}", markup=False)

    def action_filter(self) -> None:
        """Ask for a filter; rows follow as one types."""
        from tui.screens.prompt import ask

        before = self.choice.filter
        ask(
            self,
            "/",
            before,
            "words, cpu>50, state=RUNNING, name~^etl, !not",
            changed=lambda text: self.choose(remember=False, filter=text),
            done=lambda text: self._filtered(before if text is None else text),
        )

    def _filtered(self, text: str) -> None:
        self.choose(remember=False, filter=text)
        self.post_message(self.Chosen(self))
        if self.window is not None and self.window.error:
            self.notify(self.window.error, severity="warning", markup=False)

    def action_find(self) -> None:
        """Ask what to find."""
        from tui.screens.prompt import ask

        def found(text: str | None) -> None:
            if not text:
                return
            try:
                if not self.find(text):
                    self.notify(f"nothing matches {text!r}", markup=False)
            except windows.FilterError as error:
                self.notify(str(error), severity="warning", markup=False)

        ask(self, "find ", self.search, "words, cpu>50, state=RUNNING", done=found)

    def action_columns(self) -> None:
        """Choose columns."""
        from tui.screens.columns import ColumnsScreen

        if self.window is None:
            return

        def chosen(names: tuple[str, ...] | None) -> None:
            if names is not None:
                self.choose(columns=names)

        present = [column for column in self.window.spec.columns if column.name in self.window.frame.columns]
        self.app.push_screen(ColumnsScreen(present, [column.name for column in self.window.columns]), chosen)

    def action_export(self) -> None:
        """Write the table as it is shown."""
        from tui.screens.export import ExportScreen

        if self.window is not None:
            self.app.push_screen(ExportScreen(self.window, self.name))

    def action_copy(self) -> None:
        """Copy the chosen cell."""
        row = self.row
        if row is not None and self.current in row:
            self._copy("" if row[self.current] is None else str(row[self.current]))

    def action_copy_row(self) -> None:
        """Copy the row as tab-separated text, raw values."""
        row = self.row
        if row is not None and self.window is not None:
            values = (row.get(column.name) for column in self.window.columns)
            self._copy("\t".join("" if value is None else str(value) for value in values))

    def _copy(self, text: str) -> None:
        from tui import clipboard

        self.notify(clipboard.copy(text, self.app), markup=False, timeout=3)
