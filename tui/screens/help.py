"""The help: the keys of the screen by scope, a glossary of its columns and words, and its signs."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui import actions
from tui.host import host_of
from tui.screens.words import explained, labels_on
from tui.textual_internals import text_of
from tui.views.shared.tab import Tab
from tui.widgets.box import Box
from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Line, cells, fit, harmless, wrap
from tui.widgets.sections import on_screen
from tui.widgets.table.table import LiveTable


class HelpText(ScrollCanvas, can_focus=True):
    """Keys with their sentences, then columns, signs and notes."""

    def __init__(self, shown: Widget | None, scope: str) -> None:
        super().__init__()
        self._view = scope
        self._tables = [table for table in (shown.query(LiveTable) if shown is not None else ()) if on_screen(table)]
        result = shown.result if isinstance(shown, Tab) else None
        self._sentences = [text for text in (result.answer, *result.notes) if text] if result is not None else []
        specs = shown.view.tables if isinstance(shown, Tab) and shown.view is not None else ()
        self._words = explained(text_of(shown.screen), labels_on(shown), specs) if shown is not None else {}

    def content(self, width: int) -> list[Line]:
        """Return the lines: keys, columns and signs of the shown tab, then keys of tables, of every tab, of all."""
        all_actions = host_of(self).actions_by_id.values()
        out: list[Line] = []
        tab, signs = ((), ()) if (self._view in actions.SCOPES) else (("pane",), actions.view_signs(self._view))
        for scope in (self._view, "table", *tab, "app"):
            scoped = [action for action in all_actions if action.scope == scope]
            if not scoped:
                continue
            out.append([(actions.scope_title(scope), "key")])
            for action in scoped:
                out += _entry(actions.keys_text(action.keys) or ":", action.help, width)
            out.append([("", "")])
            if scope == self._view:
                out += self._glossary(width)
                out += [[(part, "")] for text in signs for part in (*wrap(text, width), "")]
        if not any(action.scope == self._view for action in all_actions):
            out = self._glossary(width) + out
        said: list[Line] = [[(part, "")] for text in self._sentences for part in wrap(text, width)]
        marks = ((level, mark) for level, mark in self.glyphs.severity.items() if level)
        return [
            *([[("Notes", "key")], *said, []] if said else []),
            *out,
            [("Words", "key")],
            *(line for term, text in self._words.items() for line in _entry(term, text, width)),
            [("", "")],
            [("Signs", "key")],
            *([(f"{mark} {'none, ok' if level == 'ok' else level}", level)] for level, mark in marks),
            [(f"{self.glyphs.up} ", "severe"), ("towards worse", "")],
            [(f"{self.glyphs.down} ", "ok"), ("towards better", "")],
            [],
            *([(part, "dim")] for text in NOTES for part in (*wrap(text, width), "")),
        ]

    def _glossary(self, width: int) -> list[Line]:
        """Return the columns of the tables on screen, each with its unit and meaning."""
        out: list[Line] = []
        for table in self._tables:
            if table.window is None:
                continue
            titles = (
                f"Columns: {table.spec.title or table.spec.name.replace('_', ' ')}" if table.spec is not None else ""
            )
            out.append([(titles, "key")])
            for column in table.window.columns:
                plain = column.kind in ("number", "count", "text", "ratio")  # others are shown in the unit that suits
                unit = f" [{column.unit}]" if plain and column.unit and column.unit not in column.header else ""
                out += _entry(column.header, f"{column.meaning}{unit}", width)
            out.append([("", "")])
        return out


def _entry(name: str, text: str, width: int) -> list[Line]:
    """Return the lines of a name and the text beside it."""
    left = 18
    parts = wrap(text, max(width - left, 10)) or [""]
    own = [[(name, "title")]] if cells(harmless(name)) >= left else []
    first = "" if own else name
    return [*own, *([(fit("" if n else first, left - 1) + " ", "title"), (part, "")] for n, part in enumerate(parts))]


NOTES = (
    "Filters: words must occur in some text column; cpu>50, size>=10MB, wait<5m, wasted>1GBh, submitted>07:00, state=RUNNING, "
    'name~^etl (regular expression), severity>=moderate; ! in front for the opposite; "two words" in quotes; all conditions '
    "must hold. A column is named by its title or the beginning of it (run time>1h; of several the first that suits), a number "
    "is in the unit shown.",
    "Tab and Shift-Tab go to the next and previous table, panel or control; a panel that has the focus is scrolled by j, k, "
    "the arrows, PgUp and PgDn.",
    "Keys can be changed in the settings file, section [keys]: the action's id and a key or a list of keys. "
    "'loadlens paths' says where it is.",
    "Selecting text: with mouse reporting off (F8) the terminal selects; otherwise hold Shift while dragging.",
)


class HelpScreen(Box[None]):
    """The box of the help on ``shown``, the tab on screen, whose own keys are those of ``scope``."""

    heading = "Help: keys, columns, signs"
    keys = "j/k scroll   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "close", show=False)]

    def __init__(self, shown: Widget | None, scope: str) -> None:
        super().__init__()
        self._shown, self._scope = shown, scope

    def content(self) -> list[Widget]:
        """Return the text."""
        return [HelpText(self._shown, self._scope)]
