"""Base of all drawing widgets: lines of fragments in, strips for Textual out. Only cells that changed are sent to the terminal
(``tui.textual_internals.Wire``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from rich.color import Color, blend_rgb
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.glyphs import BRAILLE, TO_ASCII, Glyphs
from tui.textual_internals import LazyComponents, NeverScrolls, set_virtual_size
from tui.widgets.drawing.fragments import STYLES, Line, cells, fit_line

if TYPE_CHECKING:
    from textual.app import App

COMPONENTS: frozenset[str] = frozenset(f"ll--{name}" for name in (*STYLES, "cursor-blur"))
"""Component classes of every drawing widget; ``CSS_BY_COMPONENT`` gives them their colours."""

CSS_BY_COMPONENT = """
{name} > .ll--header {{ color: $foreground; background: $panel; text-style: bold; }}
{name} > .ll--sorted {{ color: $accent; background: $panel; text-style: bold; }}
{name} > .ll--cursor {{ color: $block-cursor-foreground; background: $block-cursor-background; text-style: bold; }}
{name} > .ll--cursor-blur {{ color: $foreground; background: $panel; }}
{name} > .ll--dim {{ color: $text-muted; }}
{name} > .ll--key {{ color: $accent; text-style: bold; }}
{name} > .ll--title {{ color: $foreground; text-style: bold; }}
{name} > .ll--ok {{ color: $text-success; }}
{name} > .ll--low {{ color: $text-accent; }}
{name} > .ll--moderate {{ color: $text-warning; }}
{name} > .ll--severe {{ color: $text-error; }}
{name} > .ll--critical {{ color: $text-error; text-style: bold reverse; }}
{name} > .ll--bar {{ color: $text-secondary; }}
{name} > .ll--bar2 {{ color: $text-warning; }}
{name} > .ll--mark {{ color: $foreground; }}
{name} > .ll--link {{ color: $text-primary; text-style: underline; }}
{name} > .ll--changed {{ text-style: bold; }}
{name} > .ll--failed {{ color: $text-error; text-style: strike; }}
"""

SCROLLING_CSS = (
    "{name} {{ height: 1fr; overflow-x: hidden; overflow-y: {bar}; scrollbar-size-vertical: 1; "
    "scrollbar-color: $primary; scrollbar-color-hover: $primary; scrollbar-color-active: $primary; "
    "scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface; "
    "scrollbar-gutter: stable; }}"
)
"""Style of a widget that scrolls up and down; ``bar``: whether its scroll bar is always there (scroll) or not (auto)."""


BAR_TONE = 8  # cells of a bar in one tone: a longer bar grows stronger towards its tip


@lru_cache(maxsize=64)
def tones(look: Style, strong: Style) -> tuple[Style, ...]:
    """Return the tones of a bar that looks like ``look`` at its beginning, on the way to the colour of ``strong``; one tone
    where the terminal or the theme has no true colours."""
    front, back = look.color, strong.color
    if front is None or back is None or front.triplet is None or back.triplet is None:
        return (look,)
    mixed = (blend_rgb(front.triplet, back.triplet, part) for part in (0.0, 0.1, 0.2, 0.3, 0.4))
    return tuple(look + Style(color=Color.from_triplet(triplet)) for triplet in mixed)


def graded(text: str, look: Style, strong: Style, begin: int) -> Iterator[Segment]:
    """Yield a bar whose first cell is ``begin`` cells behind its beginning. The tone of a cell hangs on its place alone, so
    that another length changes no other cell."""
    steps = tones(look, strong)
    last = begin + len(text.rstrip()) if len(steps) > 1 else begin
    for place in range(begin - begin % BAR_TONE, last, BAR_TONE):
        part = text[max(place - begin, 0) : min(place + BAR_TONE, last) - begin]
        yield Segment(part, steps[min(place // BAR_TONE, len(steps) - 1)])
    if last - begin < len(text):
        yield Segment(text[last - begin :], look)


def glyphs_of(app: App[object]) -> Glyphs:
    """Return the glyph set in force."""
    return getattr(app, "glyphs", BRAILLE)


class Frame(Container, NeverScrolls):
    """A plain container for layout that does not repaint itself when it is mounted."""


class Painter(LazyComponents):
    """Base of the drawing widgets: it turns fragments into Textual strips."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)
    shown: Any = None

    def show(self, value: Any) -> None:
        """Show another value."""
        self.shown = value
        self.repaint()

    def repaint(self) -> None:
        """Draw what is shown again."""

    @property
    def glyphs(self) -> Glyphs:
        """Return the glyph set in force."""
        return glyphs_of(self.app)

    def look(self, style: str) -> Style:
        """Return the Rich style of a style name; unknown names are plain."""
        plain = self.get_component_rich_style()
        return self.get_component_rich_style(f"ll--{style}", default=plain) if style else plain

    def strip(self, line: Line, width: int) -> Strip:
        """Return a line as a strip of exactly ``width`` cells."""
        looks: dict[str, Style] = {}
        segments: list[Segment] = []
        x, begin, end = 0, 0, -BAR_TONE
        for text, style in fit_line(line, width):
            if style not in looks:
                looks[style] = self.look(style)
            if style == "bar" and text.startswith(BRAILLE.eighths[-1]):
                begin = begin if x - end <= 1 else x  # a mark within the bar does not begin another
                end = x + len(text.rstrip())
                segments += graded(text, looks[style], self.look(""), x - begin)
            else:
                segments.append(Segment(self.spell(text), looks[style]))
            x += cells(text)
        return Strip(segments, width)

    def spell(self, text: str) -> str:
        """Return ``text`` in characters that the terminal can show, as many cells."""
        return text.replace(" → ", " ->").translate(TO_ASCII) if not text.isascii() and self.glyphs.ascii else text


class Canvas(Painter, NeverScrolls):
    """A widget that paints all of its lines itself.

    Subclasses implement ``paint(width, height)`` and call ``repaint()`` when what they show has changed.
    """

    DEFAULT_CSS = "Canvas { height: 1; }" + CSS_BY_COMPONENT.format(name="Canvas")

    _lines: Sequence[Line] = ()
    _painted: tuple[int, int] = (-1, -1)

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the lines to show; what does not fit is cut."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Paint again when Textual asks for the lines."""
        self._painted = (-1, -1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return line ``y`` of the widget for Textual."""
        width, height = self.size
        if self._painted != (width, height):
            self._painted = (width, height)
            self._lines = [fit_line(line, width, self.glyphs.ellipsis) for line in self.paint(width, height)]
        return self.strip(self._lines[y] if y < len(self._lines) else [], width)


class ScrollCanvas(ScrollView, Painter):
    """Many lines with a scroll bar: ``content(width)`` returns all of them, ``repaint()`` asks for them again."""

    # Textual collects component classes along the first base only.
    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    DEFAULT_CSS = SCROLLING_CSS.format(name="ScrollCanvas", bar="auto") + CSS_BY_COMPONENT.format(name="ScrollCanvas")

    drawn: Sequence[Line] = ()
    _width = _height = -1

    def content(self, width: int) -> list[Line]:
        """Return all lines for this width."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Ask for the content again and draw the visible part."""
        width = self.scrollable_content_region.width if self.is_attached else 0
        if width <= 0:
            self._width = -1  # hidden or not laid out yet: that, or the first drawing, comes later
            return
        self._width, self._height = width, self.size.height
        self.drawn = [fit_line(line, width, self.glyphs.ellipsis) for line in self.content(width)]
        set_virtual_size(self, Size(width, len(self.drawn)))
        self.refresh()

    @on(events.Resize)
    @on(events.Show)
    def _fit_again(self) -> None:
        """Fit the content to the new size, and draw what came while the widget was hidden."""
        if (self.scrollable_content_region.width, self.size.height) != (self._width, self._height):
            self.repaint()

    def render_line(self, y: int) -> Strip:
        """Return line ``y`` of the widget for Textual."""
        if self._width == -1:
            self._width = 0  # once is enough
            width = self.scrollable_content_region.width
            self.drawn = [fit_line(line, width, self.glyphs.ellipsis) for line in self.content(width)]
            self.call_later(self.repaint)
        elif 0 < self._width != self.scrollable_content_region.width:
            self._width = 0  # the width changed without a resize (a scroll bar): lines are wrapped for the old width
            self.call_later(self.repaint)
        index = self.scroll_offset.y + y
        line = self.drawn[index] if index < len(self.drawn) else []
        return self.strip(self.decorate(index, line), self.scrollable_content_region.width)

    def decorate(self, index: int, line: Line) -> Line:
        """Return line ``index`` as it is drawn; subclasses style a cursor here, without new content."""
        return line
