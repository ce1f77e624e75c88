"""The palette: type a few letters of what you look for (a key, section, column, option, theme, row) and go there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from engine.core import units
from tui import themes
from tui.actions import keys_text
from tui.widgets.box import Box, about
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList
from tui.widgets.prompt import OneLine
from tui.widgets.sections import Sections
from tui.widgets.table.layout import WORD_KINDS, FilterError
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from tui.views.shared.pane import ViewPane
    from tui.widgets.table.window import Key, Window


ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"node", "broker", "server", "instance", "host", "machine", "writer", "ingester"}),
    frozenset({"fail", "failure", "die", "dead", "kill", "crash", "lose", "loss", "down", "outage", "take out"}),
    frozenset({"simulate", "simulation", "what if", "what-if", "scenario", "let the", "take out"}),
    frozenset({"sort", "order", "rank"}),
    frozenset({"search", "find", "filter", "grep"}),
    frozenset({"colour", "color", "theme"}),
    frozenset({"compare", "diff", "side by side", "before"}),
    frozenset({"save", "export", "write"}),
    frozenset({"add", "more", "raise", "grow", "larger"}),
    frozenset({"remove", "fewer", "lower", "shrink", "smaller"}),
    frozenset({"setting", "option", "parameter", "configure", "threshold"}),
    frozenset({"quit", "exit", "leave", "close", "bye"}),
    frozenset({"default", "reset"}),
    frozenset({"look again", "refresh", "reload", "rerun", "rescan"}),
    frozenset({"plan", "rebalance", "balance"}),
    frozenset({"zoom", "maximise", "maximize", "full", "enlarge"}),
    frozenset({"earlier", "back", "past", "history"}),
    frozenset({"hide", "show", "choose"}),
)
"""Words of which an operator may type one and mean another."""


def _meant(word: str) -> frozenset[str]:
    """Return what else a typed word may stand for: itself without its ending, and words like it."""
    stem = next((word.removesuffix(end) for end in ("ing", "ed", "s") if word.endswith(end) and len(word) > 3), word)
    return frozenset({stem}).union(*(alike for alike in ALIKE if alike & {word, stem, stem + "e"}))


MOST_ROWS = 20  # number of rows that the palette lists at most


class Found(msgspec.Struct, frozen=True):
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

        A key finds its action. Every word, or one of ``ALIKE``, must occur in title, help or kind; the letters of
        a word may also occur in order in the title.
        """
        if typed.strip() and typed.strip() in (*self.keys, *(keys_text((key,)) for key in self.keys)):
            return -1
        title, rest = self.title.lower(), f"{self.help} {self.kind}".lower()
        if title == typed.strip().lower():
            return -1
        score = 0
        for word in re.sub(r"what.if", "simulate", typed.lower()).split():
            if title.startswith(word):
                score += 0
            elif word in title:
                score += 1
            elif word in rest:
                score += 4
            elif places := [
                found.start() for other in _meant(word) if (found := re.search(rf"\b{re.escape(other)}", title))
            ]:
                score += 2 + (min(places) > 0)
            elif any(re.search(rf"\b{re.escape(other)}", rest) for other in _meant(word)):
                score += 5
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
                    yield Found("section", title, "Show this section.", partial(sections.choose, index))
    if table is not None and table.window is not None:
        for column in table.window.spec.columns:
            if column.name in table.window.frame.columns:
                help = f"Sort by this column: {column.meaning}"
                yield Found("column", column.header, help, partial(table.show_column, column.name))
    if pane is not None and pane.parameters is not None:
        from engine.core.parameters import options

        for option in options(type(pane.parameters)):
            yield Found("option", option.key, option.sentence, partial(open_option, option.key))
    if app is not None:
        for name in themes.CYCLE:
            yield Found("theme", f"{name} theme", "Take this colour theme.", partial(setattr, app, "theme", name))


def rows_in(table: LiveTable | None, typed: str) -> list[Found]:
    """Return the rows of ``table`` with ``typed`` in one of its texts, the first ones."""
    window = table.window if table is not None else None
    if table is None or window is None or not typed.strip():
        return []
    try:
        hits = window.hits('"' + typed.strip().replace('"', "") + '"')
    except FilterError:
        return []
    keys = ((int(position), window.key(int(position)) or ()) for position in hits[:MOST_ROWS])
    return [
        Found("row", " ".join(map(str, key)), _texts(window, at, key), partial(LiveTable.move_to_key, table, key))
        for at, key in keys
    ]


def _texts(window: Window, position: int, key: Key) -> str:
    """Return the texts of a row beside its ``key``, which may be a bare number."""
    row = window.rows(position, position + 1)[0]
    values = ((c.kind, row.get(c.name)) for c in window.columns if c.kind in WORD_KINDS and row.get(c.name))
    texts = [", ".join(map(str, v)) if isinstance(v, list) else units.text(kind, v) for kind, v in values]
    return "  ".join(text for text in texts if text not in map(str, key)) or "Go to this row."


class PaletteScreen(Box[None]):
    """An input and what matches; it runs the chosen one. ``rows`` returns the rows that match a text."""

    heading = "Commands"
    keys = "type to search   Up/Down choose   Enter go   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "list(1)", show=False, priority=True),
        Binding("up", "list(-1)", show=False, priority=True),
    ]

    def __init__(self, known: Sequence[Found], rows: Callable[[str], list[Found]] = lambda typed: []) -> None:
        super().__init__()
        self._known = known
        self._rows = rows
        self._matching = list(known)

    def content(self) -> list[Widget]:
        """Return input, list, and the description of the chosen line."""
        return [OneLine(placeholder="a key, section, column, option, theme or row"), PickList(id="matching"), about()]

    def on_mount(self) -> None:
        """Show everything at first."""
        self.query_one(Input).focus()
        self._narrow("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    def _best(self, typed: str) -> list[Found]:
        """Return what ``typed`` names, best first; what is equally good keeps its order: the view's own actions, then others."""
        scored = [(score, found) for found in self._known if (score := found.score(typed)) is not None]
        return [found for _, found in sorted(scored, key=lambda pair: pair[0])]

    def _narrow(self, typed: str) -> None:
        """Show what matches, best first, then rows."""
        self._matching = self._best(typed) + self._rows(typed)
        if not self._matching:  # nothing has all the words: show what has some of them
            self._matching = list({id(found): found for word in typed.split() for found in self._best(word)}.values())
        lines: list[Line] = [
            [(fit(one.mark, 10), "key"), (fit(one.title, 26) + " ", "title"), (one.help, "dim")]
            for one in self._matching
        ]
        matching = self.query_one(PickList)
        matching.cursor = 0
        matching.show(lines or [[("nothing matches", "dim")]])
        self._about()

    @on(PickList.Moved)
    def _about(self) -> None:
        """Describe the line under the cursor."""
        index = self.query_one(PickList).cursor
        chosen = self._matching[index] if index < len(self._matching) else None
        self.query_one(Facts).show([(chosen.mark, chosen.help, "")] if chosen is not None else [])

    def action_list(self, by: int) -> None:
        """Move the cursor of the list while the input has the focus."""
        self.query_one(PickList).action_move(by)

    @on(Input.Submitted)
    @on(PickList.Picked)
    def _run(self) -> None:
        """Close, and run the line under the cursor."""
        index = self.query_one(PickList).cursor
        self.dismiss()
        if index < len(self._matching):
            self.app.call_later(self._matching[index].run)
