"""What the application does with named scenarios: saves, takes and deletes them, and shows two of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from engine.core import units
from engine.core.parameters import BadOption
from tui.screens.palette import Found, PaletteScreen
from tui.shell import Keys
from tui.views.shared.side_by_side import Side, SideBySide
from tui.views.shared.tab import one_step_earlier
from tui.widgets.prompt import ask

if TYPE_CHECKING:
    from engine.core.view import Result
    from engine.own_files.scenarios import Scenarios
    from tui.views.shared.pane import ViewPane


class ScenarioActions(Keys):
    """Saves, takes, deletes and compares scenarios: named sets of option values, kept in the state file at once."""

    def _scenarios(self, pane: ViewPane) -> Scenarios:
        from engine.own_files.scenarios import Scenarios

        return Scenarios(self.app.state, pane.entry.name)

    async def action_save_scenario(self) -> None:
        """Ask for a name and save the shown view's options under it."""
        pane = self.app.pane
        if pane is None or pane.parameters is None:
            self.app.notify("scenarios belong to a view: show its tab first", timeout=3)
            return

        def save(name: str) -> None:
            try:
                saved = self._scenarios(pane).save(name, pane.parameters)
            except BadOption as error:
                self.app.notify(str(error), severity="warning", markup=False)
                return
            self._keep(
                f"saved: -o scenario={saved} in report and check; the palette ( : ) takes, compares and deletes it"
            )

        hint = "name of the scenario; an old one of that name is replaced"
        await ask(self.app.focused or pane, "save as ", "", hint, done=save)

    def _keep(self, text: str) -> None:
        """Write the state file, and say ``text`` or why that failed."""
        if self.app.state.save():
            self.app.notify(text, markup=False, timeout=5)
        else:
            self.app.notify(f"it cannot be saved: {self.app.state.problem}", severity="error", markup=False)

    def entries(self) -> Iterator[Found]:
        """Yield the palette's lines on the shown view's scenarios and on the moment before."""
        pane = self.app.pane
        if pane is None or pane.parameters is None:
            return

        def beside(title: str, what: str, run: Callable[[], Any]) -> Found:
            return Found("compare", title, f"{what} and what is on screen side by side.", run)

        for name in self._scenarios(pane).names():
            yield Found(
                "scenario", name, "Take the options of this scenario (u undoes).", partial(self._take, pane, name)
            )
            yield beside(f"with {name}", "Scenario", partial(self._compare_scenario, pane, name))
            yield Found("delete", name, "Delete this scenario.", partial(self._delete, pane, name))
        yield beside("with the defaults", "Defaults", partial(self._compare_scenario, pane, ""))
        if pane.steps():
            yield beside("with one step earlier", "One step earlier", lambda: self._compare_earlier(pane))
        if pane.at_ms is not None:
            yield beside("with now", "The newest data", lambda: self._compare(pane, Side("", None, None)))

    def _loaded(self, pane: ViewPane, name: str) -> Any:
        """Return the parameters of a scenario (the defaults for an empty name), or None after saying why there are none."""
        if not name:
            return pane.defaults
        try:
            return self._scenarios(pane).load(name, pane.parameters)
        except BadOption as error:
            self.app.notify(str(error), severity="warning", markup=False)
            return None

    def _take(self, pane: ViewPane, name: str) -> None:
        parameters = self._loaded(pane, name)
        if parameters is not None and not pane.replace_parameters(parameters):
            self.app.notify("these are the options in force", timeout=2)

    def _delete(self, pane: ViewPane, name: str) -> None:
        self._scenarios(pane).delete(name)
        self._keep(f"deleted: {name}")

    def _compare_scenario(self, pane: ViewPane, name: str) -> None:
        parameters = self._loaded(pane, name)
        if parameters is not None:
            self._compare(pane, Side(name or "the defaults", parameters, pane.at_ms))

    def _compare_earlier(self, pane: ViewPane) -> None:
        """Show the moment before and what is on screen side by side."""
        before = one_step_earlier(pane)
        if before is not None:
            self._compare(pane, Side("", None, before))
        else:
            self.app.notify("there is nothing earlier", timeout=3)

    async def action_compare(self) -> None:
        """Ask for two scenarios or moments and show them side by side."""
        pane = self.app.pane
        if pane is None or pane.parameters is None:
            self.app.notify("two scenarios or moments of a view are compared: show its tab first", timeout=3)
            return

        def compare(typed: str) -> None:
            before, _, after = typed.partition(" with ")
            try:
                sides = [self._side(pane, words) for words in (before, after) if words.strip()]
            except ValueError as error:
                self.app.notify(str(error), severity="warning", markup=False)
                return
            if len(sides) > 1:  # the second one comes on screen
                sides[0] = replace(sides[0], parameters=sides[0].parameters or pane.parameters)
                pane.replace_parameters(sides[1].parameters or pane.parameters)
                pane.at(sides[1].at_ms)
            self._compare(pane, sides[0])

        hint = "A with B: a scenario, defaults, now, 07:30, 2026-01-31T07:30, or NAME@07:30; without B with what is on screen"
        known = [found for found in self.entries() if found.kind == "compare"]

        def as_typed(typed: str) -> list[Found]:
            found = Found("compare", typed.strip(), f"As typed. {hint}.", partial(compare, typed))
            return [found] if typed.strip() else []

        self.app.push_screen(PaletteScreen(known, as_typed))

    def _side(self, pane: ViewPane, words: str) -> Side:
        """Return what ``words`` name: a scenario, a moment, or both with @ between. Raises ValueError."""
        name, at, moment = words.strip().rpartition("@")
        if not at and (moment == "defaults" or moment in self._scenarios(pane).names()):
            name, moment = moment, ""
        try:
            parameters = at_ms = None
            if name:
                parameters = pane.defaults if name == "defaults" else self._scenarios(pane).load(name, pane.parameters)
            newest = pane.result.newest_ms if pane.result is not None else None
            of_day = units.time_of_day(moment, newest) if newest is not None else None  # a time alone: on that day
            if moment not in ("", "now"):
                at_ms = round(of_day if of_day is not None else units.amount("time_ms", moment))
        except BadOption as error:
            raise ValueError(str(error)) from error
        except ValueError:
            known = ", ".join(("defaults", "now", *self._scenarios(pane).names()))
            raise ValueError(f"{moment!r} is neither a moment (07:30, 2026-01-31T07:30) nor one of: {known}") from None
        return Side(name, parameters, at_ms if moment else pane.at_ms, words.strip())

    def _compare(self, pane: ViewPane, side: Side) -> None:
        """Show a side beside what is on screen; it is computed on the same data each time."""
        session, view = self.app.client.session, pane.entry.name
        if session is None:
            return

        async def compute(side: Side) -> Result | None:
            from engine.core.view import Cancelled, NoInput

            inputs = self.app.client.frozen_inputs(view)
            parameters = pane.parameters if side.parameters is None else side.parameters
            try:
                return await asyncio.to_thread(session.compute, view, parameters, at_ms=side.at_ms, inputs=inputs)
            except (NoInput, Cancelled) as reason:
                self.app.notify(f"{side.words}: {reason}", severity="warning", markup=False)
                return None

        self.app.call_later(pane.drill, SideBySide(side, compute))
