"""What a terminal shows: the sequences that the dashboard sends, put on a grid of cells."""

from __future__ import annotations

import re
from typing import Any

from rich.cells import cell_len
from textual._compositor import CompositorUpdate

from tui.app import Dashboard

_PIECE = re.compile(
    r"\x1b\[(\d+);?(\d+)?H|\x1b\[(\d+)C|\x1b\[(\d+);(\d+)r|\x1b\[(\d+)([LM])|\x1b\[[?<>=0-9;]*[a-zA-Z]|([^\x1b]+)"
)


class Shadow:
    """The cells of a terminal that shows ``app``, from its next full repaint on."""

    def __init__(self, app: Dashboard) -> None:
        self.app = app
        self.rows: list[list[str]] = []
        original = app._display

        def display(screen: Any, renderable: Any) -> None:
            if app._running and not app._batch_count and isinstance(renderable, CompositorUpdate):
                self.apply(renderable.render_segments(app.console))
            original(screen, renderable)

        app._display = display  # type: ignore[method-assign]

    def apply(self, text: str) -> None:
        """Write ``text`` as a terminal does: moves of the cursor and characters, colours are passed over."""
        width, height = self.app.size
        if len(self.rows) != height or any(len(row) != width for row in self.rows):
            self.rows = [[" "] * width for _ in range(height)]
        x = y = bottom = 0
        for piece in _PIECE.finditer(text):
            if piece[1]:
                y, x = int(piece[1]) - 1, int(piece[2] or 1) - 1
            x += int(piece[3] or 0)
            if piece[4]:
                bottom = int(piece[5])
            if piece[6]:
                blank = [[" "] * width for _ in range(int(piece[6]))]
                moved = self.rows[y:bottom]
                self.rows[y:bottom] = ([*blank, *moved] if piece[7] == "L" else [*moved[len(blank) :], *blank])[
                    : len(moved)
                ]
            for character in piece[8] or "":
                if character == "\n":
                    x, y = 0, y + 1
                elif y < height and x < width:
                    self.rows[y][x] = character
                    x += cell_len(character)

    def lines(self) -> list[str]:
        """Return the lines on screen without trailing spaces."""
        return ["".join(row).rstrip() for row in self.rows]
