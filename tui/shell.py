"""The application as the objects that it hands its keys to know it: boxes, overview, scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.actions import Action
from tui.glyphs import Glyphs
from tui.textual_internals import QuietApp

if TYPE_CHECKING:
    from engine.own_files.settings import Settings, State
    from tui.engine_client import EngineClient
    from tui.overview.control import Overview
    from tui.status_model import Source
    from tui.tabs import Tabs
    from tui.views.shared.pane import ViewPane


class Shell(QuietApp):
    """What these objects may use. ``glyphs``: the glyph set in force. ``actions_by_id``: all actions with the keys they have
    under the user's keymap."""

    settings: Settings
    state: State
    tabs: Tabs
    client: EngineClient
    overview: Overview
    source: Source
    glyphs: Glyphs
    actions_by_id: dict[str, Action]

    @property
    def pane(self) -> ViewPane | None:
        """The pane on screen; None while it is being made."""
        return self.tabs.pane

    async def show_tab(self, index: int, *, chosen: bool = True) -> None:
        """Show tab ``index`` (from 0, or ``OVERVIEW``); ``chosen`` by the operator, so that no data moves it away again."""
        raise NotImplementedError

    def update_status(self, *, recount: bool = False) -> None:
        """Bring the status line up to date. ``recount``: there may be other problems."""
        raise NotImplementedError


class Keys:
    """Base of these objects: its methods ``action_*`` are run by keys, as Textual runs those of the application."""

    def __init__(self, app: Shell) -> None:
        self.app = app

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key does something now."""
        return True
