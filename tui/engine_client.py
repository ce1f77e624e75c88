"""Between the engine's threads and the screen: one thread watches, one per view computes, messages cross.

The bridge owns no widget and is handed a ``post`` function. The engine (Polars, NumPy, the views) is imported by the watching
thread, after the first paint: first the shown view alone, the others once its result is on screen. Per view at most one
computation runs; a newer request replaces a waiting one, and stops a running one if the operator asked for it (a change of
parameters); new data let the running one finish, so that steady changes cannot starve the screen. ``fps`` bounds how often
new data are computed and drawn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tui.messages import Changed, Computed, Opened, Outcome, Progress, Scanning, WatchFailed

if TYPE_CHECKING:
    from textual.message import Message

    from engine.inputs import Inputs
    from engine.live.status import Status
    from engine.problems import Problem
    from engine.result import Result
    from engine.settings import Settings
    from engine.view import View

log = logging.getLogger("loadlens.bridge")


class SessionLike(Protocol):
    """What the bridge wants of ``engine.live.session.Session``."""

    def scan(self, *, final: bool = False, progress: Callable[[float, str], None] | None = None) -> frozenset[str]:
        """Look once; names of views whose inputs changed."""

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        """Keep looking until told to stop."""

    def inputs(self, view: str) -> Inputs:
        """Newest snapshot."""

    def compute(
        self,
        view: str,
        parameters: Any,
        *,
        at_ms: int | None = None,
        now_ms: int | None = None,
        stop: Callable[[], bool] = ...,
        progress: Callable[[float, str], None] = ...,
        inputs: Inputs | None = None,
        quick: bool = False,
    ) -> Result:
        """A view's result."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the live path."""

    @property
    def status(self) -> Status:
        """What the live path is doing."""

    def admit(self, views: Sequence[View]) -> None:
        """Take more views in; the next scan reads for them."""

    def close(self, timeout: float | None = None) -> None:
        """End background work."""


Loaded = tuple[Mapping[str, "View"], Mapping[str, str]]
"""Views by name, and the reasons of those that cannot be loaded."""


class Opener(Protocol):
    """Makes the session, in the watching thread."""

    def __call__(
        self, roots: Sequence[Path], settings: Settings, first: str = "", /
    ) -> tuple[SessionLike, Mapping[str, View], Mapping[str, str]]:
        """The session, its views, those that cannot be loaded; it may begin with the view ``first`` alone."""


def load_views(names: Collection[str]) -> Loaded:
    """Import the views of these names that are written."""
    from engine.views import VIEWS

    loaded: dict[str, View] = {}
    failed: dict[str, str] = {}
    for entry in VIEWS:
        if not entry.ready or entry.name not in names:
            continue
        try:
            loaded[entry.name] = entry.load()
        except Exception as error:  # one view that does not load must not blank the others
            log.exception("view %s cannot be loaded", entry.name)
            failed[entry.name] = f"{type(error).__name__}: {error}"
    return loaded, failed


def open_session(
    roots: Sequence[Path], settings: Settings, first: str = ""
) -> tuple[SessionLike, Mapping[str, View], Mapping[str, str]]:
    """The real thing: a Session on the view ``first``, or on every view that is written."""
    from engine.live.session import Session
    from engine.views import VIEWS

    names = [entry.name for entry in VIEWS]
    loaded, failed = load_views([first] if first in names else names)
    return Session(list(roots), list(loaded.values()), settings=settings.live), loaded, failed


FIRST_ANSWER_S = 2.0
"""So long the other views wait at most for the first result of the shown one."""
FIRST_PAINT_S = 0.1
"""And so long for it to be drawn: importing would take half of the interpreter's time."""


PATIENCE_S = 0.4
"""A computation says how far it is only after so long: quick ones would flicker on the status line."""
BETWEEN_S = 0.25
"""And not more often than this."""
LONG_S = 0.05
"""Where the last computation took longer, a provisional result is asked for first: two drawings cost as much as this."""
DRAWN_S = 0.03
"""So long the final computation waits for a provisional result to be drawn: it would take half of the interpreter's time."""


@dataclass(frozen=True)
class Request:
    """One wish: compute ``view`` with these parameters; ``inputs`` None means the newest ones."""

    view: str
    generation: int
    parameters: Any
    at_ms: int | None
    inputs: Inputs | None
    urgent: bool


class Lane:
    """The computing thread of one view: one in flight, the newest waits."""

    def __init__(self, bridge: Bridge, view: str) -> None:
        self.view = view
        self._bridge = bridge
        self._waiting: Request | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._started = 0.0
        self._took = 0.0
        self._last: Result | None = None
        self.generation = 0
        self.busy = False
        self._thread: threading.Thread | None = None

    def request(self, parameters: Any, at_ms: int | None, inputs: Inputs | None, urgent: bool) -> int:
        """Ask for a result; returns its generation."""
        with self._wake:
            self.generation += 1
            urgent = urgent or (self._waiting is not None and self._waiting.urgent)
            self._waiting = Request(self.view, self.generation, parameters, at_ms, inputs, urgent)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"compute {self.view}", daemon=True)
                self._thread.start()
            self._wake.notify()
            return self.generation

    def close(self) -> None:
        """Stop after the piece of work in hand."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _stop(self) -> bool:
        waiting = self._waiting
        return self._closed or (waiting is not None and waiting.urgent)

    def _next(self) -> Request | None:
        """The next request, when its time has come; None when closed."""
        with self._wake:
            while True:
                if self._closed:
                    return None
                waiting = self._waiting
                if waiting is None:
                    self._wake.wait()
                    continue
                pause = 0.0 if waiting.urgent else self._started + self._bridge.interval - time.monotonic()
                if pause > 0:
                    self._wake.wait(pause)
                    continue
                self._waiting = None
                self._started = time.monotonic()
                return waiting

    def _run(self) -> None:
        while (request := self._next()) is not None:
            self.busy = True
            try:
                if not request.urgent and self._took > LONG_S:
                    if not self._answer(request, quick=True):
                        continue
                    self._bridge.pause(DRAWN_S)
                begun = time.perf_counter()
                self._answer(request)
                self._took = time.perf_counter() - begun
            finally:
                self.busy = False

    def _answer(self, request: Request, *, quick: bool = False) -> bool:
        """Compute and tell; whether the result was provisional, so that the final one is to follow."""
        outcome = self._compute(request, quick)
        if outcome is None or self._closed:
            return False
        self._bridge.post(Computed(outcome))
        self._bridge.answered.set()
        return outcome.result is not None and outcome.result.provisional

    def _compute(self, request: Request, quick: bool) -> Outcome | None:
        from engine.view import Cancelled, NoInput

        session = self._bridge.session
        if session is None:
            return None
        begun = time.perf_counter()

        said = begun + PATIENCE_S - BETWEEN_S

        def progress(fraction: float, text: str) -> None:
            nonlocal said
            now = time.perf_counter()
            if now - said >= BETWEEN_S:
                said = now
                self._bridge.post(Progress(self.view, fraction, text))

        def outcome(**fields: Any) -> Outcome:
            took = (time.perf_counter() - begun) * 1000
            return Outcome(
                self.view,
                request.generation,
                request.parameters,
                request.at_ms,
                files=len(inputs.files) if inputs is not None else 0,
                stale=inputs.stale if inputs is not None else 0,
                problems=inputs.problems if inputs is not None else (),
                took_ms=took,
                **fields,
            )

        inputs: Inputs | None = None
        try:
            inputs = session.inputs(self.view) if request.inputs is None else request.inputs
            result = session.compute(
                self.view,
                request.parameters,
                at_ms=request.at_ms,
                stop=self._stop,
                progress=progress,
                inputs=inputs,
                quick=quick,
            )
            same = self._last is not None and result.same_as(self._last)
        except Cancelled:
            return None
        except NoInput as reason:
            self._last = None
            return outcome(empty=str(reason) or "no usable input")
        except BaseException as error:  # a bug in one view must not take the screen down; a panic is no Exception
            log.exception("computing %s failed", self.view)
            return outcome(error=f"{type(error).__name__}: {error}")
        self._last = result
        return outcome(result=result, same=same)


class Bridge:
    """Threads and messages around one session."""

    def __init__(
        self,
        post: Callable[[Message], object],
        roots: Sequence[Path],
        settings: Settings,
        *,
        opener: Opener = open_session,
        prepare: Callable[[str], None] | None = None,
        settled: Callable[[], object] = lambda: None,
        fps: float = 15.0,
    ) -> None:
        """``settled`` is called when everything is loaded, or could not be."""
        self._post = post
        self.roots = tuple(roots)
        self.settings = settings
        self.interval = 1.0 / max(fps, 0.1)
        self.session: SessionLike | None = None
        self.changes = 0
        self.answered = threading.Event()
        self._opener = opener
        self._prepare = prepare or (lambda view: None)
        self._settled = settled
        self._changed: set[str] = set()
        self._lock = threading.Lock()
        self._rescanning = threading.Lock()
        self._stop = threading.Event()
        self._lanes: dict[str, Lane] = {}
        self._thread: threading.Thread | None = None

    def post(self, message: Message) -> None:
        """Hand a message to the screen; nothing is posted after ``close``."""
        if not self._stop.is_set():
            self._post(message)

    def pause(self, seconds: float) -> None:
        """Wait, unless the bridge is closed."""
        self._stop.wait(seconds)

    def start(self, names: Sequence[str] = ()) -> None:
        """Begin to load the engine, scan and watch. Call after the first paint. ``names``: the views, the shown first."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, args=(tuple(names),), name="watch", daemon=True)
            self._thread.start()

    def _watch(self, names: tuple[str, ...] = ()) -> None:
        try:
            first = names[0] if names else ""
            self._prepare(first)
            begun = time.perf_counter()
            session, views, failed = self._opener(self.roots, self.settings, first)
            self.session = session
            log.info("engine loaded in %.0f ms", (time.perf_counter() - begun) * 1000)
            rest = [name for name in names if name not in views and name not in failed]
            self.post(Opened(views, failed, more=bool(rest)))
            self._scan(session)
            self._notice(frozenset(views))
            if rest:
                self._load_others(session, rest, wait=any(session.inputs(name).files for name in views))
            self._settled()
            session.watch(self._notice, self._stop)
        except BaseException as error:  # reported on screen; what was computed stays
            log.exception("watching ended")
            self.post(WatchFailed(f"{type(error).__name__}: {error}"))
            self._settled()

    def _scan(self, session: SessionLike) -> frozenset[str]:
        begun = time.perf_counter()
        found = session.scan(progress=lambda fraction, text: self.post(Scanning(fraction, text)))
        log.info("looking at everything took %.0f ms", (time.perf_counter() - begun) * 1000)
        return found

    def _load_others(self, session: SessionLike, names: Sequence[str], *, wait: bool) -> None:
        """Load the views that are not shown; if ``wait``, after the shown one has had its time to compute and draw."""
        if wait and self.answered.wait(FIRST_ANSWER_S):
            self._stop.wait(FIRST_PAINT_S)
        self._prepare("")
        if self._stop.is_set():
            return
        begun = time.perf_counter()
        views, failed = load_views(names)
        session.admit(list(views.values()))
        log.info("other views loaded in %.0f ms", (time.perf_counter() - begun) * 1000)
        found = self._scan(session)
        self.post(Opened(views, failed))
        self._notice(found | frozenset(views))

    def _notice(self, views: frozenset[str]) -> None:
        with self._lock:
            self._changed |= views
            self.changes += 1
        self.post(Changed())

    def hurry(self) -> None:
        """Load the views that are not loaded yet without waiting for the first one's answer: one of them is looked at."""
        self.answered.set()

    def take_changed(self) -> frozenset[str]:
        """Views whose inputs changed since last asked."""
        with self._lock:
            found = frozenset(self._changed)
            self._changed.clear()
            return found

    def rescan(self) -> None:
        """Look at the folders now, in a thread; while one looks already (the key is held down), once is enough."""
        session = self.session
        if session is None or not self._rescanning.acquire(blocking=False):
            return

        def work() -> None:
            try:
                found = session.scan()
            except BaseException as error:
                log.exception("scanning failed")
                self.post(WatchFailed(f"{type(error).__name__}: {error}"))
                return
            finally:
                self._rescanning.release()
            if found:
                self._notice(found)

        threading.Thread(target=work, name="rescan", daemon=True).start()

    def lane(self, view: str) -> Lane:
        """The computing thread of ``view``."""
        if view not in self._lanes:
            self._lanes[view] = Lane(self, view)
        return self._lanes[view]

    def request(
        self, view: str, parameters: Any, *, at_ms: int | None = None, inputs: Inputs | None = None, urgent: bool = True
    ) -> int:
        """Ask for a result; it comes as ``Computed``. ``urgent``: the operator waits for it."""
        return self.lane(view).request(parameters, at_ms, inputs, urgent)

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return any(lane.busy for lane in self._lanes.values())

    def stop(self) -> None:
        """Ask all threads to end, without waiting: nothing is posted any more."""
        self._stop.set()
        self.answered.set()
        for lane in self._lanes.values():
            lane.close()

    def close(self, timeout: float = 1.0) -> None:
        """Stop, and let the session save what it has read; at most for ``timeout`` seconds. Call off the event loop."""
        self.stop()
        session, self.session = self.session, None
        if session is not None:
            try:
                session.close(timeout)
            except Exception:
                log.exception("closing the session failed")
