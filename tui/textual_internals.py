"""Everything that relies on private parts of Textual (8.2) or works around its behaviour, each with the reason.

A newer Textual is checked here first. The tests that notice a change are named at each part.
"""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

import textual.strip
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.control import Control
from rich.segment import Segment, Segments
from rich.style import Style
from rich.traceback import Traceback
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.app import App
from textual.containers import Container, Horizontal, Vertical
from textual.css.styles import RenderStyles
from textual.dom import DOMNode
from textual.drivers import linux_driver
from textual.filter import Monochrome, NoColor
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from tui.widgets.drawing.fragments import harmless, single_cells

log = logging.getLogger("loadlens.textual")


def notify_outside(app: App[Any], text: str) -> None:
    """Ask the terminal to show ``text`` as a notification of the desktop (OSC 9); tmux is asked to pass it on.

    Textual has no public way to write a sequence; its own copying to the clipboard writes to the driver as here.
    """
    if app._driver is None:
        return
    sequence = f"\x1b]9;{harmless(text).replace(';', ',')[:200]}\x07"
    if os.environ.get("TMUX"):
        sequence = f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    app._driver.write(sequence)


# -- bytes on the wire ----------------------------------------------------------------------------------------------------


Look = tuple[str, str, str]
"""Codes of attributes, foreground and background. A space without attributes has no foreground of its own: an empty one."""
Shown = tuple[str, Look]  # a character on the terminal and its look
PLAIN: Look = ("", "39", "49")
BLANK: Shown = (" ", ("", "", "49"))
NEAR = 8  # cells that did not change are sent if they are fewer than this: skipping them costs as much
WORTH, FAR = 100, 12
"""Cells that a move of lines saves at least, besides the lines that it moves them by, and the farthest move."""


@lru_cache(maxsize=4096)
def _look(style: Style | None, system: ColorSystem) -> Look:
    if style is None:
        return PLAIN
    fore, back = style.color, style.bgcolor
    return (
        Strip.render_ansi(style.without_color, system),
        ";".join(_shortest(fore, system).get_ansi_codes()) if fore is not None else "39",
        ";".join(_shortest(back, system).get_ansi_codes(foreground=False)) if back is not None else "49",
    )


def _shortest(color: Color, system: ColorSystem) -> Color:
    """Return a colour as the terminal can show it: of the 256 if it is exactly one of them, which takes half the bytes."""
    eight = color.downgrade(ColorSystem.EIGHT_BIT)
    exact = system == ColorSystem.TRUECOLOR and eight.get_truecolor() == color.get_truecolor()
    return eight if exact else color.downgrade(system)


class Wire:
    """What the terminal of a console shows, so that only what differs is sent, in the shortest sequences.

    Textual sends a changed span from the left edge of its widget on, with all its codes for every segment, and the whole screen
    after every layout, even if no cell differs: a change of tabs was 36 to 90 KB at 200x50, which over SSH makes a key feel slow.
    """

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, Shown]] = {}
        self._now = PLAIN
        self._out: list[str] = []
        self.width = 0  # cells of a line of the screen
        self.held = False
        """Whether only the first line is sent for now; what is drawn meanwhile is sent in one go, by ``send_held``."""

    def forget(self) -> None:
        """Forget what is shown: the terminal may have been cleared."""
        self._lines.clear()

    def send(self, pieces: Iterable[tuple[int, int, Strip]], console: Console) -> str:
        """Return escape sequences for the cells of strips that differ, or the whole strip if a character does not take one cell.

        ``pieces``: line, first cell and strip. Colours and attributes are off again afterwards.
        """
        system = console._color_system or ColorSystem.TRUECOLOR
        wanted: dict[int, dict[int, Shown]] = {}
        wide: list[str] = []
        for y, x, strip in pieces:
            if self.held and y:  # the first line has the titles of the tabs: it answers the key
                continue
            cells = wanted.setdefault(y, {})
            if not single_cells(strip.text):
                for place in range(x, x + strip.cell_length):
                    self._lines.get(y, {}).pop(place, None)
                wide.append(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}")
                continue
            for text, style, _ in strip:
                look = _look(style, system)
                blank = look if look[0] else ("", "", look[2])
                cells.update(enumerate([(c, blank if c == " " else look) for c in text], x))
                x += len(text)
        wanted = {y: cells for y, cells in wanted.items() if not cells.items() <= self._lines.get(y, {}).items()}
        while len(wanted) > 2 and self._scroll(wanted):  # once for each table that moves
            continue
        for y, cells in wanted.items():
            self._write(y, cells)
        text = "".join(self._out) + ("" if self._now == PLAIN else "\x1b[0m") + "".join(wide)
        self._now = PLAIN
        self._out.clear()
        return text

    def _scroll(self, wanted: dict[int, dict[int, Shown]]) -> bool:
        """Let the terminal move lines that are wanted some lines above or below, and return whether there are any: a new row on
        top of a table moves all others.

        Lines are told by what stands left of the scroll bar; the others stay where one is not known to its end.
        """
        rows, width = range(min(wanted), max(wanted) + 1), self.width
        if not width or any(len(self._lines.get(y, ())) != width for y in rows):
            return False
        before = {y: self._lines[y] for y in rows}
        after = {y: {**before[y], **wanted.get(y, {})} for y in rows}
        old, new = (
            {y: "".join(line[x][0] for x in range(width - 1)) for y, line in side.items()} for side in (before, after)
        )
        differ = {y: sum(map(str.__ne__, old[y], new[y])) for y in rows}
        best = (WORTH, 0, 0, 0)
        for by in (by for by in range(-FAR, FAR + 1) if by):
            first, saved = rows.start, -width * abs(by)
            for y in rows:
                if new[y] == old.get(y - by):
                    saved += differ[y]
                    best = max(best, (saved, first, y + 1, by))
                else:
                    first, saved = y + 1, -width * abs(by)
        _, first, end, by = best
        if not by:
            return False
        first, end = min(first, first - by), max(end, end - by)
        self._out.append(f"\x1b[{first + 1};{end}r\x1b[{first + 1}H\x1b[{abs(by)}{'L' if by > 0 else 'M'}\x1b[r")
        for y in range(first, end):
            wanted[y] = after[y]
            self._lines[y] = dict(before[y - by]) if first <= y - by < end else dict.fromkeys(range(width), BLANK)
        return True

    def _write(self, y: int, cells: dict[int, Shown]) -> None:
        """Put what differs of the cells of a line."""
        line = self._lines.setdefault(y, {})
        last = -NEAR - 1
        held: list[Shown] = []
        for x in sorted(cells):
            held.append(cells[x])
            if line.get(x) != cells[x]:
                line[x] = cells[x]
                if x - last > NEAR or len(held) < x - last:
                    self._out.append(f"\x1b[{x - last - 1}C" if last >= 0 else f"\x1b[{y + 1};{x + 1}H")
                    del held[:-1]
                self._out += [self._codes(look) + character for character, look in held]
                last = x
                held.clear()

    def _codes(self, look: Look) -> str:
        """Return the codes that lead from the look in force to another one."""
        before, now = self._now, (look[0], look[1] or self._now[1], look[2])
        if now == before:
            return ""
        self._now = now
        codes = [code for code, old in zip(now, before, strict=True) if code != old]
        if before[0] and before[0] != now[0]:  # attributes end with all others only
            codes = ["0", *(code for code in now if code and code not in PLAIN)]
        return f"\x1b[{';'.join(codes)}m"


def wire_of(console: Console) -> Wire:
    """Return what the terminal of ``console`` shows."""
    wire: Wire = vars(console).setdefault("_loadlens_wire", Wire())
    return wire


def send_held(app: App[Any]) -> None:
    """Send what was drawn while the wire of ``app`` was held."""
    wire = wire_of(app.console)
    if wire.held and app.screen_stack:  # at the end screens are closed before timers stop
        wire.held = False
        app.screen.refresh()


def render_spans(update: ChopsUpdate, console: Console) -> str:
    """Return the spans of a partial screen update as terminal sequences, each from its own first cell on.

    A strip with characters that are not one cell wide is sent from its beginning, so that none is cut in two.
    (tests/tui/test_textual_internals.py)
    """
    pieces = []
    for y, start, stop in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x >= stop or end <= start:
                continue
            first = max(start, x) if single_cells(strip.text) else x
            pieces.append((y, first, strip.crop(first - x, min(end, stop) - x)))
    return wire_of(console).send(pieces, console)


def render_layout(update: LayoutUpdate, console: Console) -> str:
    """Return an update of the whole screen as terminal sequences."""
    wire = wire_of(console)
    wire.width = update.region.right
    begin = update.region.x
    pieces = (
        (y, x, strip)
        for y, strips in enumerate(update.strips, update.region.y)
        for x, strip in zip(accumulate((each.cell_length for each in strips), initial=begin), strips, strict=False)
    )
    return wire.send(pieces, console)


ChopsUpdate.render_segments = render_spans  # type: ignore[assignment, method-assign]
LayoutUpdate.render_segments = render_layout  # type: ignore[assignment, method-assign]


class QuietApp(App[None]):
    """An application that sends nothing when no cell differs; Textual sends the place of the cursor for each update."""

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        sends = self._running and not self._batch_count and not self.is_headless
        if sends and isinstance(renderable, CompositorUpdate):
            text = renderable.render_segments(self.console)
            cursor = Control.move_to(*screen.outer_size.clamp_offset(self.cursor_position))
            renderable = Segments([Segment(f"{text}{cursor}")]) if text else None
        super()._display(screen, renderable)


# Textual's cache of background styles holds on to widgets: a missing ``classmethod`` makes a widget's drawn lines part of its
# keys. Those of up to 1024 closed widgets stay, 16,000 objects for each job or query that is opened, and every collection looks
# at all of them (Textual's issue 6665; tests/tui/test_textual_internals.py).
StylesCache.get_inner_outer = classmethod(vars(StylesCache)["get_inner_outer"])  # type: ignore[assignment]


# Each strip has seven caches, objects with counters of their own: a fifth of the time in which a screen is drawn. A plain dict
# does for as long as a strip lives. (tests/tui/test_textual_internals.py)
textual.strip.FIFOCache = lambda _size: {}  # type: ignore[assignment, attr-defined, return-value]


def _draw_none(widget: Widget, crop: Region) -> list[Strip]:
    """Draw a container only if it has a border or a background: else the screen below is seen.

    Textual draws a blank line for each line of each of the ten containers around a table and cuts them all wherever a widget
    begins: half of the time in which a screen is drawn. (tests/tui/test_textual_internals.py)
    """
    return Widget.render_lines(widget, crop) if widget.gutter or widget.styles.background.a else []


Container.render_lines = Horizontal.render_lines = Vertical.render_lines = _draw_none  # type: ignore[assignment, method-assign]


class LazyComponents(Widget):
    """Base of widgets with many component classes: the style of each is made when it is first drawn with.

    Textual makes all of them whenever a widget is mounted, focused or left, 17 for a table that draws with five: that was a
    quarter of the time in which a screen or a job opens. (tests/tui/test_textual_internals.py)
    """

    def _get_component_classes(self) -> frozenset[str]:  # type: ignore[override]
        """Return the component classes that Textual has to renew: those in use."""
        return frozenset(self._component_styles)

    def get_component_styles(self, *names: str) -> RenderStyles:
        """Return the styles of components as Textual does. Raises KeyError for a name that is no component class."""
        declared: frozenset[str] = super()._get_component_classes()
        for name in names:
            if name in declared and name not in self._component_styles:
                component = DOMNode(classes=name)
                component._attach(self)
                self.app.stylesheet.apply(component)
                self._component_styles[name] = component.styles
        return super().get_component_styles(*names)


class NeverScrolls(Widget):
    """Mixin for widgets that never scroll; put it last, since Textual takes CSS types from the first base.

    Textual declares ``virtual_size`` with layout and repaint: each container that gets its size paints everything inside
    a second time (20 KB at 200x50). (tests/tui/test_pty.py)
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False, repaint=False)


def set_virtual_size(widget: Widget, size: Size) -> None:
    """Set the scrollable size of ``widget``.

    Assigning it plainly costs a layout and with it a repaint of the whole screen (15 KB at 200x50) each time a row comes or
    goes. The gutter of our scroll bars is stable, so only the bar needs drawing.
    """
    if size != widget.virtual_size:
        widget.set_reactive(Widget.virtual_size, size)
        widget._scroll_update(size)


def text_of(screen: Screen[Any]) -> str:
    """Return the text of ``screen``, line by line."""
    return "\n".join(strip.text for strip in screen._compositor.render_strips())


# -- terminals ------------------------------------------------------------------------------------------------------------


def tolerate_bad_bytes() -> None:
    """Turn an input byte that is not UTF-8 (line noise, old mouse reports) into U+FFFD; in Textual it ends the program."""

    def tolerant(encoding: str) -> Callable[..., Any]:
        return lambda errors="replace": codecs.getincrementaldecoder(encoding)(errors="replace")

    if hasattr(linux_driver, "getincrementaldecoder"):
        linux_driver.getincrementaldecoder = tolerant
    else:  # tests/tui/test_pty.py sends such a byte and notices
        log.warning("the terminal driver has changed; bytes that are not UTF-8 may end the program")


def report_mouse(app: App[Any], enabled: bool) -> None:
    """Switch mouse reporting while the program runs; Textual only knows it at the start."""
    driver = app._driver
    switch = getattr(driver, "_enable_mouse_support" if enabled else "_disable_mouse_support", None)
    if driver is not None and switch is not None:
        driver._mouse = True  # the driver ignores both calls if it began without a mouse
        switch()


def leave_out_colours(app: App[Any]) -> bool:
    """With NO_COLOR replace Textual's filter, which maps to greys of 24 bits, by its own without any colour.

    Textual chose before the theme was set. Return whether colours are left out.
    """
    if not (app.no_color and app.native_ansi_color):
        return False
    app._filters = [NoColor() if isinstance(each, Monochrome) else each for each in app._filters]
    return True


class _AsciiScrollBar(ScrollBarRender):
    """A scroll bar without partial blocks: its thumb is a coloured space."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def draw_scroll_bars(*, ascii: bool) -> None:
    """Draw all scroll bars of the process in ASCII or in partial blocks; Textual has one renderer for all."""
    ScrollBar.renderer = _AsciiScrollBar if ascii else ScrollBarRender


# -- actions and the end --------------------------------------------------------------------------------------------------


def add_action_targets(app: App[Any], *names: str) -> None:
    """Let actions be written ``name.action`` for these attributes of ``app``; Textual knows app, screen and focused."""
    app._action_targets.update(names)


def binds(node: DOMNode, binding_id: str) -> bool:
    """Return whether ``node`` itself has the binding with this id; Textual only tells which bindings are active."""
    return any(binding.id == binding_id for _key, binding in node._bindings)


def exit_with_traceback(app: App[Any]) -> None:
    """End ``app`` after an unhandled exception: the traceback without values of variables, which hold the operator's data.

    Textual's own traceback prints all locals. Call it from ``App._fatal_error``. (tests/tui/test_pty.py)
    """
    app._exit_renderables.append(
        Segments(app.console.render(Traceback(show_locals=False, width=None), app.console.options))
    )
    app._close_messages_no_wait()
