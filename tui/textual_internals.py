"""Everything that relies on private parts of Textual (8.2) or works around its behaviour, each with the reason.

A newer Textual is checked here first. The tests that notice a change are named at each part.
"""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Console
from rich.segment import Segments
from rich.traceback import Traceback
from textual._compositor import ChopsUpdate
from textual._styles_cache import StylesCache
from textual.app import App
from textual.css.styles import RenderStyles
from textual.dom import DOMNode
from textual.drivers import linux_driver
from textual.filter import Monochrome, NoColor
from textual.geometry import Size
from textual.reactive import Reactive
from textual.scrollbar import ScrollBar, ScrollBarRender
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


def render_spans(update: ChopsUpdate, console: Console) -> str:
    """Return the spans of a partial screen update as terminal sequences, each from its own first cell on.

    Textual sends a changed span from the left edge of its widget on, every span again: two cells that change at the end of a
    line of a hundred coloured cells are eight kilobytes. Over SSH that is what makes a key feel slow. A strip with characters
    that are not one cell wide is sent from its beginning, so that none is cut in two. (tests/tui/test_textual_internals.py)
    """
    out: list[str] = []
    for y, start, stop in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x >= stop or end <= start:
                continue
            first = max(start, x) if single_cells(strip.text) else x
            out.append(f"\x1b[{y + 1};{first + 1}H")
            out.append(strip.crop(first - x, min(end, stop) - x).render(console))
    return "".join(out)


def send_changed_cells_only() -> None:
    """Replace Textual's rendering of partial updates by ``render_spans``, in the whole process."""
    ChopsUpdate.render_segments = render_spans  # type: ignore[assignment, method-assign]


def forget_closed_widgets() -> None:
    """Replace Textual's cache of background styles by one that does not hold on to widgets, in the whole process.

    A missing ``classmethod`` makes the widget's drawn lines part of its keys: those of up to 1024 closed widgets stay, 16,000
    objects for each job or query that is opened, and every collection looks at all of them (Textual's issue 6665).
    (tests/tui/test_textual_internals.py)
    """
    StylesCache.get_inner_outer = classmethod(vars(StylesCache)["get_inner_outer"])  # type: ignore[assignment]


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
    a second time (20 KB at 200x50). (tests/tui/widgets/test_redraw.py, tests/tui/test_pty.py)
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False, repaint=False)


def quiet_focus() -> Reactive[Widget | None]:
    """Return the attribute ``focused`` for a screen whose widgets draw their own focus.

    Textual declares it with a repaint: it repaints a whole screen (20 KB at 200x50) whenever the focus moves.
    """
    return Reactive(None, repaint=False)


def set_virtual_size(widget: Widget, size: Size) -> bool:
    """Set the scrollable size of ``widget``; return whether it is another one.

    Assigning it plainly costs a layout and with it a repaint of the whole screen (15 KB at 200x50) each time a row comes or
    goes. The gutter of our scroll bars is stable, so only the bar needs drawing.
    """
    if size == widget.virtual_size:
        return False
    widget.set_reactive(Widget.virtual_size, size)
    widget._scroll_update(size)
    return True


# -- terminals ------------------------------------------------------------------------------------------------------------


def tolerate_bad_bytes() -> None:
    """Turn an input byte that is not UTF-8 (line noise, old mouse reports) into U+FFFD; in Textual it ends the program."""

    def tolerant(encoding: str) -> Callable[..., Any]:
        decoder = codecs.getincrementaldecoder(encoding)
        return lambda errors="replace": decoder(errors="replace")

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
    traceback = Traceback(show_locals=False, width=None)
    app._exit_renderables.append(Segments(app.console.render(traceback, app.console.options)))
    app._close_messages_no_wait()
