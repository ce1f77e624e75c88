"""Partial screen updates: of a line, only the cells that changed go to the terminal.

Textual 8.2 sends a changed span from the left edge of its widget on, every span anew: two cells that change at the end of a
line of a hundred coloured cells are eight kilobytes. Over SSH that is what makes a key feel slow.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from textual._compositor import ChopsUpdate


def render_spans(update: ChopsUpdate, console: Console) -> str:
    """The spans of ``update`` as terminal sequences, each from its own first cell on.

    A strip with characters that are not one cell wide is sent from its beginning, so that none is cut in two.
    """
    out: list[str] = []
    for y, start, stop in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x >= stop or end <= start:
                continue
            first = max(start, x) if _single(strip.text) else x
            out.append(f"\x1b[{y + 1};{first + 1}H")
            out.append(strip.crop(first - x, min(end, stop) - x).render(console))
    return "".join(out)


def _single(text: str) -> bool:
    """Whether each character takes one cell."""
    return text.isascii() or all(cell_len(character) == 1 for character in text)


def install() -> None:
    """Let Textual's partial updates be rendered by ``render_spans``."""
    ChopsUpdate.render_segments = render_spans  # type: ignore[assignment, method-assign]
