"""Pieces of styled text, measured in terminal cells. Pure: no Textual, no Polars.

A ``Fragment`` is (text, style name); a ``Line`` is a list of fragments. Style names are the words of ``STYLES``; widgets
map each to a component class ``ll--<name>``. Every text passes ``harmless`` on its way in: the last gate before the terminal,
in case a reader forgot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from engine.core.reading import clean

Fragment = tuple[str, str]  # text and style name
Line = list[Fragment]

STYLES: tuple[str, ...] = (
    "header", "sorted", "cursor", "dim", "key", "title", "ok", "low", "moderate", "severe", "critical", "bar", "bar2",
    "mark", "link", "changed", "failed",
)  # fmt: skip
"""All style names of fragments; ``""`` is plain. ``ok`` … ``critical`` are the engine's levels; ``failed``: nodes that fail
in a scenario."""


def harmless(text: str) -> str:
    """Return ``text`` without characters that act on a terminal; idempotent and fast for plain ASCII."""
    return text if text.isascii() and text.isprintable() else clean(text)


def cells(text: str) -> int:
    """Return the width of ``text`` in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut ``text`` to at most ``width`` cells, ending in ``ellipsis`` if something was cut. Text must be harmless."""
    if cells(text) <= width:
        return text
    if width <= len(ellipsis):
        return ellipsis[: max(width, 0)]
    # A wide character may not fit the last cell: set_cell_size pads it then with a space.
    return set_cell_size(text[: width * 8], width - len(ellipsis)) + ellipsis


def cut_left(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut ``text`` at its beginning to at most ``width`` cells. Text must be harmless."""
    if cells(text) <= width:
        return text
    if width <= len(ellipsis):
        return ellipsis[: max(width, 0)]
    tail = text[-(width - len(ellipsis)) :]
    while cells(tail) > width - len(ellipsis):
        tail = tail[1:]
    return ellipsis + tail


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut ``text`` in its middle to at most ``width`` cells: names often begin alike and differ at their end. Text must be
    harmless."""
    left = (width + len(ellipsis)) // 2
    if cells(text) <= width or width <= 2 * len(ellipsis):
        return cut(text, width, ellipsis)
    head = cut(text, left, ellipsis)
    return head + cut_left(text, width - cells(head) + len(ellipsis), ellipsis)[len(ellipsis) :]


def fit(text: str, width: int, align: str = "left", ellipsis: str = "…") -> str:
    """Make ``text`` harmless and exactly ``width`` cells wide; ``align`` is left or right. Blanks at its end need no room."""
    text = cut(harmless(text).rstrip(" "), width, ellipsis)
    space = " " * (width - cells(text))
    return space + text if align == "right" else text + space


def width_of(line: Iterable[Fragment]) -> int:
    """Return the width of a line in cells."""
    return sum(cells(text) for text, _ in line)


def join(line: Iterable[Fragment]) -> Line:
    """Join neighbours of equal style: each fragment costs a full colour sequence on the wire."""
    out: Line = []
    for text, style in line:
        if not text:
            continue
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + text, style)
        else:
            out.append((text, style))
    return out


def fit_line(line: Sequence[Fragment], width: int, ellipsis: str = "…") -> Line:
    """Make a line harmless and exactly ``width`` cells wide: cut at the right, or padded with plain spaces."""
    out: Line = []
    left = width
    for text, style in line:
        if left <= 0:
            break
        text = harmless(text)
        size = cells(text)
        if size > left:
            blank = text.rstrip(" ")
            text = fit(blank, left) if cells(blank) <= left else fit(text, left, ellipsis=ellipsis)
            size = left
        out.append((text, style))
        left -= size
    if left > 0:
        out.append((" " * left, ""))
    return join(out)


def plain(line: Iterable[Fragment]) -> str:
    """Return the text of a line without its styles."""
    return "".join(text for text, _ in line)


def single_cells(text: str) -> bool:
    """Return whether each character takes one cell: a wide and a combining one together have the right length too."""
    return text.isascii() or all(cell_len(character) == 1 for character in text)


def wrap(text: str, width: int) -> list[str]:
    """Wrap ``text`` into lines of at most ``width`` cells, broken at newlines, and at spaces where possible."""
    if width <= 0:
        return []
    out: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        used = 0
        for word in harmless(paragraph).split(" "):
            size = cells(word)
            if used and used + 1 + size <= width:
                line += " " + word
                used += 1 + size
                continue
            if used:
                out.append(line)
            while size > width:
                head = set_cell_size(word, width)
                part = head.rstrip(" ") if len(head) <= len(word) and not word.startswith(head) else head
                if not part:
                    part = word[0]
                out.append(part)
                word = word[len(part) :]
                size = cells(word)
            line, used = word, size
        out.append(line)
    return out
