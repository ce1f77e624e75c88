"""Keeps the overview up to date: asks for views that are not shown, takes results, marks titles, calls the operator."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from tui.engine_client import Request
from tui.overview.briefs import Briefs
from tui.overview.pane import Row

if TYPE_CHECKING:
    from engine.core.view import Finding
    from engine.findings.events import Event, Feed
    from engine.findings.last_look import LastLooks
    from engine.own_files.settings import Settings
    from tui.engine_client import EngineClient
    from tui.messages import Computed
    from tui.overview.pane import Target
    from tui.tabs import Tabs


PATIENCE_S = 5.0  # seconds after which a view is computed even if the shown tab is computed all the time
LOOK_S = 0.05  # seconds between two checks whether the operator still waits
REST = 19.0
"""Rest after a computation, as a multiple of its duration: the overview takes at most a twentieth of one processor. The first
result of each view comes without rest."""


class Background:
    """One thread; it starts with the first request. Each outcome is posted as ``Computed`` with ``background``."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._waiting: dict[str, tuple[Any, float]] = {}
        self._computed: set[str] = set()
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def request(self, view: str, parameters: Any) -> None:
        """Ask for a result of ``view`` on its newest inputs; an older request for it is replaced."""
        with self._wake:
            since = self._waiting.get(view, (None, time.monotonic()))[1]
            self._waiting[view] = parameters, since
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compute overview", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Stop after the current computation."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _next(self) -> tuple[str, Any, float] | None:
        """Wait for a request and for its time; None when closed."""
        with self._wake:
            while not self._closed:
                if not self._waiting:
                    self._wake.wait()
                    continue
                view, (parameters, since) = min(self._waiting.items(), key=lambda item: item[1][1])
                if self._client.wanted and time.monotonic() - since < PATIENCE_S:
                    self._wake.wait(LOOK_S)
                    continue
                del self._waiting[view]
                return view, parameters, since
        return None

    def _run(self) -> None:
        while (found := self._next()) is not None:
            view, parameters, since = found

            def stop(view: str = view, since: float = since) -> bool:
                patient = time.monotonic() - since < PATIENCE_S
                return self._closed or self._client.waits_for(view) or (patient and self._client.wanted)

            begin = time.monotonic()
            outcome = self._client.compute(view, Request(parameters, None, None, urgent=False), stop=stop)
            if outcome is None:
                with self._wake:
                    self._waiting.setdefault(view, (parameters, since))
                    self._wake.wait(LOOK_S)
            elif not self._closed:
                outcome.background = True
                self._client.post(outcome)
                self._client.first_result.set()
                with self._wake:
                    if view in self._computed:
                        self._wake.wait_for(lambda: self._closed, (time.monotonic() - begin) * REST)
                    self._computed.add(view)


log = logging.getLogger("loadlens.overview")

CALL_EVERY_S = 5.0  # least seconds between two calls (bell, notification)


class Overview:
    """What is known of all views. ``call``: rings and notifies outside, given a text. ``looks``: what an earlier run saw."""

    def __init__(
        self,
        tabs: Tabs,
        client: EngineClient,
        settings: Settings,
        *,
        clock: Callable[[], float],
        call: Callable[[str], object],
        looks: LastLooks | None = None,
    ) -> None:
        from engine.findings.notify import NotifySettings, Threshold

        self.rows = {
            entry.name: Row(entry.name, entry.title, entry.reads, "looking for files") for entry in tabs.entries
        }
        self.titles: Mapping[str, str] = {entry.name: entry.title for entry in tabs.entries}
        self.feed: Feed | None = None
        self._found: list[tuple[str, Finding]] | None = None
        self._tabs = tabs
        self._client = client
        self._settings = settings
        self._clock = clock
        self._call = call
        self._threshold = Threshold(settings.of(NotifySettings))
        self._stale: set[str] = set()
        self._parameters: dict[str, Any] = {}
        self._at: tuple[str, str] | None = None
        self._called = -CALL_EVERY_S
        self._background = Background(client)
        client.briefs = Briefs(self._threshold, clock=clock, quiet=self._reading, looks=looks)

    def _reading(self) -> bool:
        """Whether files are still being read, so that what appears is not new."""
        session = self._client.session
        return session is not None and session.status.reading > 0

    # -- asking -----------------------------------------------------------------------------------------------------------

    def changed(self, names: Collection[str]) -> None:
        """Ask for the results of these views that no shown tab asks for; later while paused."""
        self._stale.update(names)
        if self._client.paused:
            return
        pane = self._tabs.pane
        shown = pane.entry.name if pane is not None and pane.at_ms is None else ""
        for name in [entry.name for entry in self._tabs.entries if entry.name in self._stale]:
            row = self.rows[name]
            if name in self._tabs.failed:
                row.state, row.level = f"Cannot be loaded: {self._tabs.failed[name]}", "severe"
            elif name not in self._tabs.views:
                continue
            elif name != shown:
                if row.brief is None and not row.level:
                    row.state = "computing"
                self._background.request(name, self._parameters_of(name))
            self._stale.discard(name)

    def _parameters_of(self, name: str) -> Any:
        """Return the parameters in force in the tab of a view, those of the settings file while there is no tab."""
        pane = self._tabs.panes.get(name)
        if pane is not None and pane.parameters is not None:
            return pane.parameters
        if name not in self._parameters:
            from engine.own_files.settings import view_parameters

            self._parameters[name] = view_parameters(self._settings, name, self._tabs.views[name].parameters)[0]
        return self._parameters[name]

    # -- taking -----------------------------------------------------------------------------------------------------------

    def take(self, outcome: Computed) -> bool:
        """Take a result of now, or why there is none. Returns whether the view got its first data or lost them."""
        row = self.rows.get(outcome.view)
        if row is None or outcome.at_ms is not None:
            return False
        was_empty = row.empty
        row.files = outcome.files
        if outcome.brief is not None:
            row.take(outcome.brief)
            row.level = ""
            self._found = None
            self._happened(row, outcome.brief.events)
        elif outcome.empty or outcome.error:
            row.brief, row.unseen = None, set()
            row.state = f"Cannot be computed: {outcome.error}" if outcome.error else f"Nothing to show: {outcome.empty}"
            row.level = "severe" if outcome.error else ""
            row.empty = bool(outcome.empty)
            self._found = None
        self.draw()
        return row.empty != was_empty

    def _happened(self, row: Row, events: tuple[Event, ...]) -> None:
        """Add events to the feed, mark what is new behind the title, and call the operator."""
        if not events:
            return
        from engine.findings.events import Feed

        self.feed = (self.feed or Feed()).extended(events)
        calling = [
            event for event in events if event.bad and self._threshold.calls(row.name, event.subject, event.level)
        ]
        shown = self._tabs.pane
        if shown is None or shown.entry.name != row.name:
            row.unseen.update(event.subject for event in calling)
        now = time.monotonic()
        if calling and now - self._called >= CALL_EVERY_S:
            self._called = now
            more = f" and {len(calling) - 1} more" if len(calling) > 1 else ""
            self._call(f"{row.title}: {calling[0].subject} {calling[0].level}{more}")

    def shown(self) -> None:
        """Note that another tab is shown: its findings have been seen."""
        pane = self._tabs.pane
        if pane is not None:
            self.rows[pane.entry.name].unseen = set()
        self.draw()

    @property
    def empty(self) -> frozenset[str]:
        """The views whose files give nothing to show."""
        return frozenset(row.name for row in self.rows.values() if row.empty)

    # -- drawing ----------------------------------------------------------------------------------------------------------

    @property
    def found(self) -> list[tuple[str, Finding]]:
        """All findings with their view, worst first."""
        if self._found is None:
            from engine.core import units

            found = [
                (row.name, finding)
                for row in self.rows.values()
                if row.brief is not None
                for finding in row.brief.worst
            ]
            self._found = sorted(found, key=lambda each: -units.rank(each[1].level))
        return self._found

    def marks(self) -> list[tuple[str, str]]:
        """Return for each view what stands behind its title: the number of findings that call, a dot if one is new."""
        marks = []
        for row in self.rows.values():
            count = row.brief.calling if row.brief is not None else 0
            dot = "*" if row.unseen else ""
            marks.append((f"{count}{dot}" if count or dot else "", row.worst if count or dot else ""))
        return marks

    def draw(self) -> None:
        """Draw the overview if it is on screen, and the marks."""
        self._tabs.post_message(self._tabs.Marked())
        if self._client.session is None:  # Polars is not loaded yet
            self.tick()
            return
        from engine.findings.events import Feed

        pane = self._tabs.overview
        if pane is not None and pane.display and pane.is_mounted:
            pane.show(list(self.rows.values()), self.feed or Feed(), self.found, self.titles, self._clock())

    def tick(self) -> None:
        """Show ages as of now, and compute what was put off during a pause."""
        if self._stale and not self._client.paused:
            self.changed(())
        pane = self._tabs.overview
        if pane is not None and pane.display and pane.is_mounted:
            pane.tick(list(self.rows.values()), self._clock())

    # -- going ------------------------------------------------------------------------------------------------------------

    def next(self, by: int) -> tuple[Target, str] | None:
        """Return where the next finding (``by`` -1: the one before) of all views leads, and what it is; None without any."""
        found = self.found
        if not found:
            return None
        places = [(view, finding.subject) for view, finding in found]
        here = places.index(self._at) if self._at in places else -1 if by > 0 else 0
        place = (here + by) % len(found)
        self._at = places[place]
        view, finding = found[place]
        return (view, finding.row), f"finding {place + 1:,} of {len(found):,}: {finding.level}: {finding.subject}"

    def close(self) -> None:
        """Ask for nothing any more."""
        self._background.close()
