"""What the application does with named scenarios: saves, takes and deletes them, and shows two of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tui.overview.actions import OverviewActions
from tui.screens.palette_entries import Found
from tui.views.side_by_side import SideBySide
from tui.widgets.prompt import ask

if TYPE_CHECKING:
    from engine.result import Result
    from engine.scenarios import Scenarios
    from engine.settings import State
    from tui.views.base import ViewPane


class ScenarioActions(OverviewActions):
    """A base of the dashboard. A scenario is a named set of option values; it is kept in the state file at once."""

    state: State

    def _scenarios(self, pane: ViewPane) -> Scenarios:
        from engine.scenarios import Scenarios

        return Scenarios(self.state, pane.entry.name)

    async def action_save_scenario(self) -> None:
        """Ask for a name and save the shown view's options under it."""
        pane = self.pane
        if pane is None or pane.parameters is None:
            self.notify("scenarios belong to a view: show its tab first", timeout=3)
            return

        def save(name: str | None) -> None:
            from engine.parameters import BadOption

            if name is None:
                return
            try:
                saved = self._scenarios(pane).save(name, pane.parameters)
            except BadOption as error:
                self.notify(str(error), severity="warning", markup=False)
                return
            self._keep(
                f"saved: -o scenario={saved} in report and check; the palette ( : ) takes, compares and deletes it"
            )

        hint = "name of the scenario; an old one of that name is replaced"
        await ask(self.focused or pane, "save as ", "", hint, done=save)

    def _keep(self, text: str) -> None:
        """Write the state file, and say ``text`` or why that failed."""
        if self.state.save():
            self.notify(text, markup=False, timeout=5)
        else:
            self.notify(f"it cannot be saved: {self.state.problem}", severity="error", markup=False)

    def scenario_entries(self) -> Iterator[Found]:
        """Yield the palette's lines on the shown view's scenarios and on the moment before."""
        pane = self.pane
        if pane is None or pane.parameters is None:
            return
        for name in self._scenarios(pane).names():
            yield Found("scenario", name, "Take the options of this scenario (u undoes).", self._taking(pane, name))
            yield Found(
                "compare", f"with {name}", "Scenario and what is on screen side by side.", self._comparing(pane, name)
            )
            yield Found("delete", name, "Delete this scenario.", self._deleting(pane, name))
        yield Found(
            "compare", "with the defaults", "Defaults and what is on screen side by side.", self._comparing(pane, "")
        )
        if pane.steps():
            help = "One step earlier and what is on screen side by side."
            yield Found("compare", "with one step earlier", help, lambda: self._compare_earlier(pane))
        if pane.at_ms is not None:
            help = "The newest data and what is on screen side by side."
            yield Found("compare", "with now", help, lambda: self._compare(pane, pane.parameters, None, "now"))

    def _loaded(self, pane: ViewPane, name: str) -> Any:
        """Return the parameters of a scenario (the defaults for an empty name), or None after saying why there are none."""
        from engine.parameters import BadOption

        if not name:
            return pane.defaults
        try:
            return self._scenarios(pane).load(name, pane.parameters)
        except BadOption as error:
            self.notify(str(error), severity="warning", markup=False)
            return None

    def _taking(self, pane: ViewPane, name: str) -> Callable[[], None]:
        def take() -> None:
            parameters = self._loaded(pane, name)
            if parameters is not None and not pane.replace_parameters(parameters):
                self.notify("these are the options in force", timeout=2)

        return take

    def _deleting(self, pane: ViewPane, name: str) -> Callable[[], None]:
        def delete() -> None:
            self._scenarios(pane).delete(name)
            self._keep(f"deleted: {name}")

        return delete

    def _comparing(self, pane: ViewPane, name: str) -> Callable[[], None]:
        def compare() -> None:
            parameters = self._loaded(pane, name)
            if parameters is not None:
                self._compare(pane, parameters, pane.at_ms, name or "the defaults")

        return compare

    def _compare_earlier(self, pane: ViewPane) -> None:
        """Show the moment before and what is on screen side by side."""
        from engine import units

        steps = list(pane.steps())
        before = steps[:-1] if pane.at_ms is None else [moment for moment in steps if moment < pane.at_ms]
        if before:
            self._compare(pane, pane.parameters, before[-1], units.moment(before[-1]))
        else:
            self.notify("there is nothing earlier", timeout=3)

    def _compare(self, pane: ViewPane, parameters: Any, at_ms: int | None, name: str) -> None:
        """Open the other result and the shown one side by side; the other is computed on the same data each time."""
        session, view = self.client.session, pane.entry.name
        if session is None:
            return

        async def other() -> Result | None:
            from engine.view import Cancelled, NoInput

            inputs = self.client.frozen_inputs(view)
            try:
                return await asyncio.to_thread(session.compute, view, parameters, at_ms=at_ms, inputs=inputs)
            except (NoInput, Cancelled) as reason:
                self.notify(f"{name}: {reason}", severity="warning", markup=False)
                return None

        self.call_later(pane.drill, SideBySide(name, other))
