"""The help: every key that does something, by scope, from the registry of actions."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui import actions
from tui.host import host_of
from tui.screens.box import Box
from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Line, fit, wrap


class HelpText(ScrollCanvas, can_focus=True):
    """Keys with their sentences, then signs and notes."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self._view = view

    def content(self, width: int) -> list[Line]:
        """Return the lines: keys and signs of the shown tab, then keys of tables, of every tab, of the application."""
        all_actions = host_of(self).actions_by_id.values()
        out: list[Line] = []
        for scope in (self._view, "table", "pane", "app"):
            scoped = [action for action in all_actions if action.scope == scope]
            if not scoped:
                continue
            out.append([(actions.scope_title(scope), "key")])
            for action in scoped:
                keys = actions.keys_text(action.keys) or "-"
                left = 18
                for number, part in enumerate(wrap(action.help, max(width - left, 10))):
                    out.append([(fit(keys if number == 0 else "", left - 1) + " ", "title"), (part, "")])
            out.append([("", "")])
            if scope == self._view:
                out += [[(part, "")] for text in actions.view_signs(scope) for part in (*wrap(text, width), "")]
        out.append([("Signs", "key")])
        for level, mark in self.glyphs.severity.items():
            if level:
                out.append([(f"{mark} {'none, ok' if level == 'ok' else level}", level)])
        out += [
            [(f"{self.glyphs.up} ", "severe"), ("towards worse", "")],
            [(f"{self.glyphs.down} ", "ok"), ("towards better", "")],
            [],
        ]
        out += [[(part, "dim")] for text in NOTES for part in (*wrap(text, width), "")]
        return out


NOTES = (
    "Filters: words must occur in some text column; cpu>50, size>=10MB, wait<5m, state=RUNNING, name~^etl (regular "
    'expression), severity>=moderate; ! in front for the opposite; "two words" in quotes; all conditions must hold.',
    "Tab and Shift-Tab go to the next and previous table, panel or control; a panel that has the focus is scrolled by j, k, "
    "the arrows, PgUp and PgDn.",
    "Keys can be changed in the settings file, section [keys]: the action's id and a key or a list of keys. "
    "'loadlens paths' says where it is.",
    "Selecting text: with mouse reporting off (F8) the terminal selects; otherwise hold Shift while dragging.",
)


class HelpScreen(Box[None]):
    """The box of the help; ``view``: the shown tab."""

    heading = "Keys"
    keys = "j/k scroll   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "close", show=False)]

    def __init__(self, view: str) -> None:
        super().__init__()
        self._view = view

    def content(self) -> list[Widget]:
        """Return the text."""
        return [HelpText(self._view)]
