"""The choices of a tab: parameters with undo, and the moment of time travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual import on

from engine.core.parameters import BadOption, no_what_if, options, parse
from tui.glyphs import Glyphs
from tui.host import Host, host_of
from tui.widgets.control import Control, following
from tui.widgets.drawing.canvas import Frame, glyphs_of
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.parameters import Option, Parameters
    from engine.core.tables import Table
    from engine.core.view import Result, View
    from engine.views import Entry

NO_HISTORY = "no earlier moments: these files tell only how things are now"
"""Answer of the time travel keys where ``Tab.steps`` is empty."""

UNDO_LIMIT = 200  # number of parameter changes that can be undone


class Tab(Frame):
    """The base of every tab: its view, parameters, moment and newest result, and the actions on them.

    Attributes: ``view`` (the engine's view, None until loaded), ``parameters``, ``result`` (the newest that was shown),
    ``at_ms`` (the moment asked for, None: live), ``shown_ms`` (the moment on screen), ``error`` and ``empty``
    (why the newest request gave no result, else empty).
    """

    def __init__(self, entry: Entry, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entry = entry
        self.view: View | None = None
        self.parameters: Any = None
        self.defaults: Any = None
        self.result: Result | None = None
        self.at_ms: int | None = None
        self.shown_ms: int | None = None
        self.error = ""
        self.empty = ""
        self.files = 0
        self.stale_files = 0
        self.dirty = True
        self._steps: Sequence[int] = ()
        self._undo: list[Any] = []
        self._redo: list[Any] = []

    def moments(self, result: Result) -> Sequence[int]:
        """Return the moments (epoch ms, ascending) that the data of a live result tell of; empty if there is no history."""
        return ()

    def steps(self) -> Sequence[int]:
        """Return the moments that time travel stops at: those of the newest live result."""
        if self.result is not None and self.shown_ms is None:
            self._steps = self.moments(self.result)
        return self._steps

    @property
    def host(self) -> Host:
        """The application."""
        return host_of(self)

    @property
    def glyphs(self) -> Glyphs:
        """The glyph set in force."""
        return glyphs_of(self.app)

    def spec(self, table: str) -> Table:
        """Return the declaration of one of the view's result tables. Raises StopIteration."""
        return next(spec for spec in (self.view.tables if self.view is not None else ()) if spec.name == table)

    def option(self, field: str) -> Option:
        """Return the declaration of one of the view's options. Raises StopIteration."""
        return next(option for option in options(type(self.parameters)) if option.field == field)

    def change(self, **fields: Any) -> bool:
        """Change parameters, with undo, and ask for a result; return whether they changed.

        Values have the types of the fields. A value that is not valid changes nothing and is reported in a notification.
        """
        if self.parameters is None:
            return False
        try:
            changed = parse(type(self.parameters), list(fields.items()), self.parameters)
        except BadOption as error:
            self.notify(str(error), severity="warning", markup=False)
            return False
        return self.replace_parameters(changed)

    def replace_parameters(self, parameters: Parameters) -> bool:
        """Replace all parameters (by a scenario), with undo; return whether they differ."""
        if parameters == self.parameters:
            return False
        self._undo = [*self._undo[-UNDO_LIMIT:], self.parameters]
        self._redo = []
        self.parameters = parameters
        self._ask()
        return True

    @property
    def undo_depth(self) -> int:
        """Number of parameter changes that can be undone."""
        return len(self._undo)

    def at(self, moment: int | None) -> None:
        """Look at the data as they were at ``moment`` (epoch ms), None for live."""
        if moment != self.at_ms:
            self.steps()  # keep today's list of moments while it is known
            self.at_ms = moment
            self._ask()

    def _wait(self, waiting: bool) -> None:
        """Let tables without rows say that a result is being computed, or no longer."""
        for table in self.query(LiveTable):
            table.wait(waiting)

    def _ask(self, urgent: bool = True) -> None:
        """Ask for a result with the parameters and the moment in force."""
        self._wait(True)
        self.host.request(self.entry.name, urgent=urgent)

    @on(Control.Changed)
    def _control_changed(self, event: Control.Changed) -> None:
        """Change the option that a control is named after."""
        if name := event.sender.name:
            value = round(event.value, 6) if isinstance(event.value, float) else event.value
            self.change(**{name: int(value) if self.option(name).type is int else value})

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Take back the last change of parameters."""
        self._take_from(self._undo, self._redo, "nothing to undo")

    def action_redo(self) -> None:
        """Redo the change that was undone."""
        self._take_from(self._redo, self._undo, "nothing to redo")

    def _take_from(self, source: list[Any], other: list[Any], nothing: str) -> None:
        """Take the last parameters of ``source``; those in force go to ``other``."""
        if not source:
            self.notify(nothing, timeout=2)
            return
        other.append(self.parameters)
        self.parameters = source.pop()
        self._ask()

    def action_reset(self) -> None:
        """Set all parameters as at the start."""
        if self.defaults is not None:
            self.replace_parameters(self.defaults)

    def action_next(self, field: str) -> None:
        """Set an option to the next of its choices, or switch it on or off."""
        if self.parameters is None:
            return
        self.change(**{field: following(self.option(field).choices or (False, True), getattr(self.parameters, field))})

    def action_clear_what_if(self) -> None:
        """Set all what-if options to their defaults."""
        if self.parameters is not None and not self.change(**no_what_if(type(self.parameters))):
            self.notify("there is no what-if to clear", timeout=2)

    def action_earlier(self) -> None:
        """Go one step back in time."""
        before = one_step_earlier(self)
        if before is not None:
            self.at(before)
        else:
            self.notify("there is nothing earlier" if self.steps() else NO_HISTORY, timeout=3)

    def action_later(self) -> None:
        """Go one step forward in time."""
        after = [moment for moment in self.steps() if self.at_ms is not None and moment > self.at_ms]
        if len(after) > 1:
            self.at(after[0])
        else:
            self.action_live()

    def action_live(self) -> None:
        """Go to the newest data."""
        if self.at_ms is None:
            self.notify("these are the newest data" if self.steps() else NO_HISTORY, timeout=3)
        self.at(None)


def one_step_earlier(tab: Tab) -> int | None:
    """Return the moment before the one that ``tab`` asked for; None if there is none."""
    steps = tab.steps()
    before = steps[:-1] if tab.at_ms is None else [moment for moment in steps if moment < tab.at_ms]
    return before[-1] if before else None
