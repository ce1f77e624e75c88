"""What the status line says: the state of the data and of the work under way, where the files come from, and problems."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from engine.core import units

if TYPE_CHECKING:
    from engine.core.reading import Problem
    from engine.own_files.settings import Settings
    from engine.recording.player import Player
    from engine.recording.recorder import Recorder
    from tui.engine_client import EngineClient
    from tui.glyphs import Glyphs
    from tui.tabs import Tabs
    from tui.views.shared.pane import ViewPane
    from tui.widgets.drawing.fragments import Fragment


class Source(msgspec.Struct, frozen=True):
    """The operator's own files; sample data (``demo``); or a recording that ``player`` plays. ``recorder``: what records them."""

    demo: bool = False
    player: Player | None = None
    recorder: Recorder | None = None

    @property
    def own(self) -> bool:
        """Whether these are the operator's own files, which a later run will find again."""
        return not self.demo and self.player is None

    def facts(self) -> list[Fragment]:
        """Return what the status line says of replay and recording."""
        facts = [_replay(self.player)] if self.player is not None else []
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


RECOUNT_S = 5.0
"""Seconds between counts of problems while nothing is known to have changed: folding thousands takes a while."""

WATCH_WORDS = {"events": "watched", "polling": "polled", "missing": "folder missing", "idle": ""}
"""Words of the status line for the ways in which files are followed."""


class StatusModel:
    """Gathers the facts of the status line.

    ``busy``: what is being done, by view name or ``messages.SCAN``. ``watch_error``: why data are no longer live, or empty.
    """

    def __init__(
        self, tabs: Tabs, client: EngineClient, settings: Settings, *, clock: Callable[[], float], source: Source
    ) -> None:
        self.busy: dict[str, str] = {}
        self.watch_error = ""
        self.clock = clock
        self._tabs = tabs
        self._client = client
        self._settings = settings
        self._source = source
        self._problem_count = 0
        self._recount_at = 0.0

    def all_problems(self) -> tuple[Problem, ...]:
        """Return every problem of settings, live path, inputs and results, equal ones folded."""
        from engine.core.reading import fold

        session = self._client.session
        live = session.problems if session is not None else ()
        problems = [*self._settings.problems, *self._tabs.settings_problems, *live, *self._tabs.problems()]
        return fold(dict.fromkeys(problems))

    def recount(self) -> None:
        """Count problems again when the facts are next asked for."""
        self._recount_at = 0.0

    def work(self, glyphs: Glyphs) -> str:
        """Return what is being done: progress of the scan or of a computation, or that the shown view is computed."""
        if self.busy:
            return next(iter(self.busy.values()))
        if self._client.session is None:
            return "starting" + glyphs.ellipsis
        return "computing" + glyphs.ellipsis if self._client.delayed(self._tabs.shown) else ""

    def facts(self, pane: ViewPane | None, glyphs: Glyphs) -> list[Fragment]:
        """Return the state of the data that ``pane`` shows (None: the overview), the most important fact first."""
        client = self._client
        status = client.status
        skipped = status.ignored_count if status is not None else 0
        reading = status.reading if status is not None else 0
        modes = sorted({root.mode for root in status.roots}) if status is not None else []
        mode = " ".join(WATCH_WORDS[mode] for mode in modes if WATCH_WORDS[mode])
        waiting = f", {client.pending_changes} waiting" if client.pending_changes else ""
        old = f"shown is old: {pane.error}" if pane is not None and pane.error and pane.levels else ""
        error = self.watch_error or old
        files, stale = (pane.files, pane.stale_files) if pane is not None else (sum(self._tabs.file_counts()), 0)
        at, to, age = self._times(pane)
        if (now := time.monotonic()) >= self._recount_at:
            self._recount_at = now + RECOUNT_S
            self._problem_count = len(self.all_problems())
        problems = self._problem_count
        facts: list[tuple[object, str, str]] = [
            (pane is not None and pane.zoomed, "ZOOM", "key"),
            (client.paused, f"PAUSED{waiting}", "moderate"),
            (at, f"AT {at}", "moderate"),
            (to, to, "moderate"),
            *((True, text, style) for text, style in self._source.facts()),
            (error, f"{glyphs.severity['severe']} {error}", "severe"),
            (reading, f"reading {reading} more", ""),
            (stale, f"{stale} stale", "moderate"),
            (age, age, "moderate" if age.endswith("ahead") else ""),
            (problems, f"! {problems:,} problem{'s' if problems != 1 else ''}", "severe"),
            (True, f"{files:,} file{'s' if files != 1 else ''}", "dim"),
            (skipped, f"{skipped:,} not read", "dim"),
            (self._source.demo, "demo data", "dim"),
            (mode, mode, "dim"),
        ]
        return [(text, style) for applies, text, style in facts if applies]

    def _times(self, pane: ViewPane | None) -> tuple[str, str, str]:
        """Return in words the moment on screen, the moment that was asked for if it is another, and how old the files are."""
        if pane is None:
            return "", "", ""
        newest = pane.result.newest_ms if pane.result is not None else None
        age = _age(self.clock() - newest / 1000) if newest is not None else ""
        # The moment on screen: until the result is there, not yet the one that was asked for.
        at = units.moment(pane.shown_ms) if pane.shown_ms is not None else ""
        wanted = units.moment(pane.at_ms) if pane.at_ms is not None else "live"
        return at, f"going to {wanted}" if pane.at_ms != pane.shown_ms else "", age


def _age(seconds: float) -> str:
    """Return in words how old the files are, not the data in them (a copy is new). Files dated in the future mean that a
    clock is wrong, so their age is unknown."""
    age = units.age(seconds)
    if age == "ahead":
        return f"files dated {units.age(-seconds)} ahead"
    return "files new" if age == "now" else f"files {age} old"
