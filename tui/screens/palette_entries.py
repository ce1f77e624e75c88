"""What the palette finds: actions, sections, columns, options, themes and rows, each with what choosing it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui import themes
from tui.actions import Action, keys_text
from tui.widgets.sections import Sections
from tui.widgets.table.filters import WORD_KINDS, FilterError
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from tui.views.shared.pane import ViewPane
    from tui.widgets.table.window import Key, Window

MOST_ROWS = 20
"""Number of rows that the palette lists at most."""


@dataclass(frozen=True)
class Found:
    """One line of the palette: ``kind`` and ``title`` name it, ``help`` says what it is, ``run`` does it."""

    kind: str
    title: str
    help: str
    run: Callable[[], Any]
    keys: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Return what stands in front of it: its keys, or its kind."""
        return keys_text(self.keys[:2]) if self.kind == "action" else self.kind

    def score(self, typed: str) -> int | None:
        """Return how well ``typed`` names it: smaller is better, None if it does not.

        A key finds its action. Every word must occur in title, help or kind; the letters of a word may also occur in order
        in the title.
        """
        if typed.strip() and typed.strip() in (*self.keys, *(keys_text((key,)) for key in self.keys)):
            return -1
        title, rest = self.title.lower(), f"{self.help} {self.kind}".lower()
        score = 0
        for word in typed.lower().split():
            if title.startswith(word):
                score += 0
            elif word in title:
                score += 1
            elif word in rest:
                score += 4
            else:
                place = 0
                for letter in word:
                    place = title.find(letter, place) + 1
                    if not place:
                        return None
                score += 8
        return score


def found_in(pane: ViewPane | None, table: LiveTable | None, open_option: Callable[[str], Any]) -> Iterator[Found]:
    """Yield sections of ``pane``, columns of ``table`` (that of the focus), options of the view, and themes."""
    app = pane.app if pane is not None else None
    if pane is not None and pane.levels:
        for sections in pane.levels[-1].query(Sections):
            for index, (title, _) in enumerate(sections.contents):
                if index not in sections.hidden:
                    yield Found("section", title, "Show this section.", _call(sections.choose, index))
    if table is not None and table.window is not None:
        for column in table.window.spec.columns:
            if column.name in table.window.frame.columns:
                yield Found("column", column.header, column.meaning, _call(table.show_column, column.name))
    if pane is not None and pane.parameters is not None:
        from engine.core.parameters import options

        for option in options(type(pane.parameters)):
            yield Found("option", option.key, option.sentence, _call(open_option, option.key))
    if app is not None:
        for name in themes.CYCLE:
            yield Found("theme", name, "Take this colour theme.", _call(setattr, app, "theme", name))


def rows_in(table: LiveTable | None, typed: str) -> list[Found]:
    """Return the rows of ``table`` with ``typed`` in one of its texts, the first ones."""
    window = table.window if table is not None else None
    if table is None or window is None or not typed.strip():
        return []
    rows: list[Found] = []
    position = -1
    wanted = '"' + typed.strip().replace('"', "") + '"'
    while len(rows) < MOST_ROWS:
        try:
            following = window.find(wanted, position)
        except FilterError:
            return []
        if following is None or following <= position:
            return rows
        position = following
        key = window.key(position)
        if key is not None:
            rows.append(Found("row", " ".join(map(str, key)), _texts(window, position, key), _go(table, key)))
    return rows


def _texts(window: Window, position: int, key: Key) -> str:
    """Return the texts of a row beside its ``key``, which may be a bare number."""
    row = window.rows(position, position + 1)[0]
    values = ((c.kind, row.get(c.name)) for c in window.columns if c.kind in WORD_KINDS and row.get(c.name))
    texts = [", ".join(map(str, v)) if isinstance(v, list) else units.text(kind, v) for kind, v in values]
    return "  ".join(text for text in texts if text not in map(str, key)) or "Go to this row."


def actions_found(actions: list[Action], run: Callable[[Action], Any]) -> list[Found]:
    """Return the palette's lines of ``actions``; ``run`` runs one where the focus was."""
    return [Found("action", a.title, a.help, _call(run, a), a.keys) for a in actions]


def _call(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _go(table: LiveTable, key: Key) -> Callable[[], Any]:
    return lambda: table.move_to_key(key)
