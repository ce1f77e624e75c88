"""The registry of actions: bindings, key bar, help, palette, keymap check and the reference of keys derive from it.

This module imports nothing heavy, so that the command line can read it. A view's own actions are data in
``tui/views/<view>/actions.py`` (``ACTIONS``), with the view's name as scope; ``registry`` collects all of them.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from engine.views import VIEWS

if TYPE_CHECKING:
    from types import ModuleType

    from textual.binding import Binding


class Action(msgspec.Struct, frozen=True):
    """One thing that a key can do.

    ``id`` is stable (users remap by it) and begins with its scope's word: ``table.reverse``. ``keys`` are Textual key
    names, the first one is shown; without any, the palette offers the action. ``title`` is short (key bar, palette),
    ``help`` one sentence. ``scope``: ``app`` (everywhere), ``pane`` (every tab), ``table`` (the shared table), or a view's
    name. ``run`` is the Textual action string, by default the part of ``id`` behind the dot with underscores. ``bar``:
    rank in the key bar, 0 is not shown. ``palette`` False keeps movement keys out of the palette.
    """

    id: str
    keys: tuple[str, ...]
    title: str
    help: str
    scope: str
    run: str = ""
    bar: int = 0
    palette: bool = True

    @property
    def action(self) -> str:
        """Return the Textual action string."""
        return self.run or self.id.partition(".")[2].replace("-", "_")


def act(id: str, keys: str, title: str, help: str, bar: int = 0, run: str = "", *, palette: bool = True) -> Action:
    """Return the action ``id``, whose scope stands before the dot; ``keys`` with spaces between."""
    return Action(id, tuple(keys.split()), title, help, id.partition(".")[0], run, bar, palette)


SHARED: tuple[Action, ...] = (
    act("app.help", "question_mark f1", "Help", "Show the keys, columns and signs of this screen and what they mean.", bar=90,
         run="boxes.help"),
    act("app.palette", "colon ctrl+p", "Commands",
         "Search keys, sections, columns, options, themes and rows; Enter goes there.", bar=80, run="boxes.palette"),
    act("app.overview", "0", "Overview", "Show all views at once, what changed, and all findings.", run="views.overview"),
    *(
        act(f"app.tab-{number}", str(number), f"Tab {number}: {entry.title}", f"Show the tab {entry.title}.",
             run=f"tab({number})")
        for number, entry in enumerate(VIEWS, 1)
    ),
    act("app.tab-next", "", "Next tab", "Show the tab to the right.",
         run="step_tab(1)"),
    act("app.tab-previous", "", "Previous tab", "Show the tab to the left.",
         run="step_tab(-1)"),
    act("app.finding-next", "n", "Next finding",
         "Go to the next finding of any view, worst first; in a searched table: the next match.",
         run="views.next_finding(1)"),
    act("app.finding-previous", "N", "Previous finding", "Go to the finding before; in a searched table: the match before.",
         run="views.next_finding(-1)"),
    act("app.save-scenario", "S", "Save scenario", "Save the options of this view under a name; -o scenario=NAME takes them.",
         run="scenarios.save_scenario"),
    act("app.compare", "B", "Side by side", "Show two scenarios or moments side by side, with the change.",
         run="scenarios.compare"),
    act("app.problems", "exclamation_mark", "Problems", "List unreadable or damaged input, with place and reason.",
         bar=40, run="boxes.problems"),
    act("app.log", "", "Log", "Show the program's own log: watching, timings, errors.", run="boxes.log"),
    act("app.pause", "p", "Pause", "Freeze what is shown; files are read on and counted. A replay stands still.", bar=30,
         run="views.pause"),
    act("app.replay-slower", "comma", "Slower", "Play the recording half as fast (loadlens replay).",
         run="views.replay(-1)", bar=28),
    act("app.replay-faster", "full_stop", "Faster", "Play the recording twice as fast (loadlens replay).", run="views.replay(1)",
         bar=28),
    act("app.refresh", "f5", "Look again", "Scan the folders now and compute this tab again.", run="views.refresh"),
    act("app.theme", "T", "Theme", "Switch to the next colour theme.", run="boxes.theme"),
    act("app.glyphs", "f6", "Glyphs", "Switch between braille, block and ASCII drawing.", run="boxes.glyphs"),
    act("app.mouse", "", "Mouse", "Switch mouse reporting on or off (off: the terminal selects text).", run="boxes.mouse"),
    act("app.suspend", "ctrl+z", "To the shell", "Stop the program and go back to the shell; fg continues it.",
         run="suspend_process"),
    act("app.quit", "q ctrl+q ctrl+c", "Quit", "Leave loadlens; what was chosen is remembered.", bar=100),
    act("pane.parameters", "o", "Options", "Edit any parameter of this view and see the effect at once.",
         run="boxes.edit_parameters", bar=20),
    act("pane.undo", "u", "Undo", "Take back the last change of a parameter."),
    act("pane.redo", "U ctrl+r", "Redo", "Make the change of a parameter again that was taken back."),
    act("pane.reset", "", "Defaults", "Set all parameters of this view to where they were at start (can be undone)."),
    act("pane.back", "escape", "Back", "Close the detail, overlay or level on top.", palette=False),
    act("pane.detail", "d", "Detail", "Show or hide the detail panel beside the table.", bar=25),
    act("pane.zoom", "z", "Zoom", "Give the whole screen to the table, panel or plot that has the focus; again: back.",
         bar=27),
    act("pane.section-next", "right_square_bracket", "Next section", "Show the next section of this tab.",
         run="section(1)", palette=False),
    act("pane.section-previous", "left_square_bracket", "Previous section", "Show the previous section of this tab.",
         run="section(-1)", palette=False),
    act("pane.earlier", "left_parenthesis", "Earlier", "Look at the data as they were one step earlier."),
    act("pane.later", "right_parenthesis", "Later", "Look at the data one step later."),
    act("pane.live", "backslash", "Live", "Return to the newest data."),
    act("overview.section-next", "right_square_bracket", "Next part", "Go to what changed, to all findings, back to the views.",
         run="section(1)", palette=False),
    act("overview.section-previous", "left_square_bracket", "Previous part", "Go to the part before.",
         run="section(-1)", palette=False),
    act("overview.back", "escape", "Back", "Go back to the views.", palette=False),
    act("table.up", "up k", "Up", "Move the cursor one row up.", run="move(-1)", palette=False),
    act("table.down", "down j", "Down", "Move the cursor one row down.", run="move(1)", palette=False),
    act("table.left", "left h", "Column left", "Choose the column to the left.", run="column(-1)", palette=False),
    act("table.right", "right l", "Column right", "Choose the column to the right; further columns scroll in.",
         run="column(1)", palette=False),
    act("table.top", "home g", "First row", "Go to the first row.", run="edge(0)", palette=False),
    act("table.bottom", "end G", "Last row", "Go to the last row.", run="edge(1)", palette=False),
    act("table.page-up", "pageup ctrl+b ctrl+u", "Page up", "Go one page up.", run="page(-1)", palette=False),
    act("table.page-down", "pagedown ctrl+f ctrl+d", "Page down", "Go one page down.", run="page(1)", palette=False),
    act("table.select", "enter", "Open", "Open the row under the cursor.", bar=10, palette=False),
    act("table.sort", "s", "Sort", "Sort by the chosen column; again to reverse.", bar=16),
    act("table.sort-previous", "", "Sort column left", "Sort by the column left of the sorted one.",
         run="sort_column(-1)"),
    act("table.sort-next", "", "Sort column right", "Sort by the column right of the sorted one.",
         run="sort_column(1)"),
    act("table.reverse", "r", "Reverse", "Reverse the order of rows."),
    act("table.filter", "slash", "Filter", "Show only rows that match: words, or cpu>50, size>1GB, state=RUNNING, name~etl.",
         bar=12),
    act("table.find", "f", "Find", "Go to the next row that matches, without hiding the others."),
    act("table.columns", "C", "Columns", "Choose which columns are shown, and their order.", bar=35),
    act("table.export", "e", "Export", "Write this table, as filtered and sorted, to CSV, JSON or Markdown.", bar=45),
    act("table.copy", "c", "Copy", "Copy the chosen cell to the clipboard."),
    act("table.copy-row", "Y", "Copy row", "Copy the row under the cursor as displayed, below the titles.",
         run="copy_rows(0)"),
    act("table.copy-shown", "", "Copy rows", "Copy the rows on screen as displayed, below the titles.",
         run="copy_rows(1)"),
    act("table.clear", "escape", "Clear filter", "Remove the filter of this table.", palette=False),
)  # fmt: skip
"""Actions of the application, of every tab and of the shared table. Views add theirs."""

SCOPES: dict[str, str] = {"app": "Everywhere", "pane": "Every tab", "overview": "Overview", "table": "Tables"}
"""Titles of the shared scopes; a view's scope has the view's title."""

RESERVED: frozenset[str] = frozenset({"ctrl+c", "ctrl+q"})
"""Keys that a keymap may not take away: there is always a way out."""


def way_out() -> list[Binding]:
    """Return bindings of the reserved keys, which quit wherever the focus is, even in an input or a box."""
    from textual.binding import Binding

    return [Binding(",".join(sorted(RESERVED)), "quit", show=False, priority=True, system=True)]


IN_BOXES = ("app.theme", "app.glyphs", "app.suspend")  # ids of the actions that also work while a box is open


def box_bindings() -> list[Binding]:
    """Return Textual bindings of ``IN_BOXES``: the application's own do not reach a box."""
    from textual.binding import Binding

    return [
        Binding(
            ",".join(action.keys),
            action.action if "." in action.action else f"app.{action.action}",
            action.title,
            id=action.id,
            show=False,
        )
        for action in SHARED
        if action.id in IN_BOXES
    ]


@cache
def _module(view: str) -> ModuleType | None:
    """Return ``tui/views/<view>/actions.py``; None if there is no such module."""
    package = f"tui.views.{view.replace('-', '_')}"
    if importlib.util.find_spec(package) is None or importlib.util.find_spec(f"{package}.actions") is None:
        return None
    return importlib.import_module(f"{package}.actions")


def view_actions(view: str) -> tuple[Action, ...]:
    """Return the actions that a view declares in ``tui/views/<view>/actions.py``; none without that module."""
    return getattr(_module(view), "ACTIONS", ())


def view_signs(view: str) -> tuple[str, ...]:
    """Return sentences on what a view's own letters and colours mean: ``SIGNS`` of its ``actions`` module, if any."""
    return getattr(_module(view), "SIGNS", ())


def registry() -> tuple[Action, ...]:
    """Return all actions: the shared ones, then each view's in the order of tabs."""
    return SHARED + tuple(action for entry in VIEWS for action in view_actions(entry.name))


def scoped(scope: str) -> tuple[Action, ...]:
    """Return the actions of one scope in declared order."""
    return tuple(action for action in (SHARED if scope in SCOPES else view_actions(scope)) if action.scope == scope)


def scope_title(scope: str) -> str:
    """Return the title of a scope."""
    return SCOPES.get(scope) or next((entry.title for entry in VIEWS if entry.name == scope), scope)


def bindings(scope: str) -> list[Binding]:
    """Return the Textual bindings of one scope, for a class's ``BINDINGS``. Ids make them remappable.

    Without keys an action is bound to its id, which no keyboard sends: the palette lists what is bound.
    """
    from textual.binding import Binding

    return [
        Binding(
            ",".join(action.keys) or action.id,
            action.action,
            action.title,
            id=action.id,
            tooltip=action.help,
            show=bool(action.bar),
        )
        for action in scoped(scope)
    ]


KEY_NAMES = {
    "question_mark": "?", "colon": ":", "exclamation_mark": "!", "slash": "/", "less_than_sign": "<",
    "greater_than_sign": ">", "left_square_bracket": "[", "right_square_bracket": "]", "left_curly_bracket": "{",
    "right_curly_bracket": "}", "left_parenthesis": "(", "right_parenthesis": ")", "backslash": "\\",
    "escape": "Esc", "enter": "Enter", "space": "Space", "pageup": "PgUp", "pagedown": "PgDn", "up": "Up",
    "down": "Down", "left": "Left", "right": "Right", "home": "Home", "end": "End", "plus_sign": "+", "plus": "+", "minus": "-",
    "equals_sign": "=", "comma": ",", "full_stop": ".", "tab": "Tab", "backspace": "Backspace",
    "delete": "Del", "insert": "insert", "asterisk": "*", "number_sign": "#", "at": "@", "underscore": "_", "semicolon": ";",
    "tilde": "~", "grave_accent": "`", "vertical_line": "|", "ampersand": "&", "percent_sign": "%",
    "dollar_sign": "$", "circumflex_accent": "^", "quotation_mark": '"', "apostrophe": "'",
}  # fmt: skip
"""What an operator reads for each of Textual's names of keys that are not a letter, a digit or a function key."""


def key_text(key: str) -> str:
    """Return a Textual key name as an operator reads it: ``question_mark`` is ``?``, ``ctrl+p`` is ``Ctrl-P``."""
    *modifiers, name = key.split("+")
    shown = KEY_NAMES.get(name, name.upper() if modifiers or (name.startswith("f") and name[1:].isdecimal()) else name)
    return "-".join([*(modifier.capitalize() for modifier in modifiers), shown])


def keys_text(keys: tuple[str, ...]) -> str:
    """Return several keys as an operator reads them."""
    return " ".join(key_text(key) for key in keys)
