"""Where the files on screen come from, and where they are recorded to: for the status line, and for the keys of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core import units

if TYPE_CHECKING:
    from engine.live.session import Session
    from engine.recording.player import Player
    from engine.recording.recorder import Recorder
    from tui.widgets.drawing.fragments import Fragment


@dataclass(frozen=True)
class Source:
    """The operator's own files; sample data (``demo``); or a recording that ``player`` plays. ``recorder``: what records them."""

    demo: bool = False
    player: Player | None = None
    recorder: Recorder | None = None

    @property
    def own(self) -> bool:
        """Whether these are the operator's own files, which will be there again."""
        return not self.demo and self.player is None

    def look(self, session: Session | None) -> None:
        """Let the recorder look at the files of ``session``."""
        if self.recorder is not None:
            self.recorder.look(session)

    def facts(self) -> list[Fragment]:
        """Return what the status line says of replay and recording."""
        facts: list[Fragment] = []
        if self.player is not None:
            facts.append(_replay(self.player))
        if self.recorder is not None:
            facts.append((self.recorder.state, "severe" if self.recorder.problem else "key"))
        return facts


def _replay(player: Player) -> Fragment:
    """Return the moment of a replay, its speed and whether it has ended."""
    moment = units.moment(player.now_ms())
    if player.problem:
        return f"REPLAY ended at {moment}: {player.problem}", "severe"
    speed = "ended" if player.ended else "paused" if player.paused else f"x{player.speed:g}"
    return f"REPLAY {moment} {speed}", "key"
