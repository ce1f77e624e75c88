"""The engine's threads and what passes between them and the screen: one thread watches, one per view computes.

The client owns no widget: it hands messages to a ``post`` function. The engine (Polars, NumPy, the views) is imported by
the watching thread, after the first paint: first the shown view alone, the others once its result is on screen. Per view at
most one computation runs. A newer request replaces a waiting one; a request of the operator (a change of parameters) also
stops the running one, new data let it finish, so that steady changes cannot starve the screen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tui.messages import SCAN, Changed, Computed, Opened, Progress, WatchFailed

if TYPE_CHECKING:
    from textual.message import Message

    from engine.core.view import Inputs, Result, View
    from engine.live.session import Session
    from engine.live.status import Status
    from engine.own_files.settings import Settings
    from tui.overview.briefs import Briefs

    Opener = Callable[[Sequence[Path], Settings, str], tuple[Session, Mapping[str, View], Mapping[str, str]]]
    """Makes the session, in the watching thread, with the view of a name alone or with all: see ``open_session``."""

log = logging.getLogger("loadlens.engine")

FIRST_RESULT_TIMEOUT_S = 5.0  # most seconds that loading the other views waits for the first result of the shown one
FIRST_PAINT_S = 0.1  # seconds that it then waits for the result to be drawn: importing would slow that down by half
PROGRESS_AFTER_S = 0.4  # seconds before a computation is shown as running: quick ones would flicker on the status line
PROGRESS_INTERVAL_S = 0.25  # smallest number of seconds between two progress messages


def load_views(names: Collection[str]) -> tuple[Mapping[str, View], Mapping[str, str]]:
    """Import the views of these names; return them by name, and the reasons of those that cannot be loaded."""
    from engine.views import VIEWS

    loaded: dict[str, View] = {}
    failed: dict[str, str] = {}
    for entry in VIEWS:
        if entry.name not in names:
            continue
        try:
            loaded[entry.name] = entry.load()
        except Exception as error:  # one view that does not load must not blank the others
            log.exception("view %s cannot be loaded", entry.name)
            failed[entry.name] = f"{type(error).__name__}: {error}"
    return loaded, failed


def open_session(
    roots: Sequence[Path], settings: Settings, first: str, *, now_ms: Callable[[], int] | None = None
) -> tuple[Session, Mapping[str, View], Mapping[str, str]]:
    """Open a session on the view ``first``, or on all views if there is no such one.

    Return it, its views by name, and the reasons of those that cannot be loaded. ``now_ms``: a clock other than the machine's.
    """
    from engine.live.session import LiveSettings, Session, wall_clock
    from engine.views import VIEWS

    names = [entry.name for entry in VIEWS]
    loaded, failed = load_views([first] if first in names else names)
    return (
        Session(list(roots), list(loaded.values()), settings=settings.of(LiveSettings), now_ms=now_ms or wall_clock),
        loaded,
        failed,
    )


class Request(msgspec.Struct, frozen=True):
    """Compute with these parameters; ``inputs`` None means the newest ones."""

    parameters: Any
    at_ms: int | None
    inputs: Inputs | None
    urgent: bool


class ComputeQueue:
    """The computing thread of one view: one request in flight, the newest one waits."""

    def __init__(self, client: EngineClient, view: str) -> None:
        self.view = view
        self._client = client
        self._waiting: Request | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._started = 0.0
        self._asked: float | None = None
        self._last: Result | None = None
        self.busy = False
        self._thread: threading.Thread | None = None

    def request(self, parameters: Any, at_ms: int | None, inputs: Inputs | None, urgent: bool) -> None:
        """Ask for a result."""
        with self._wake:
            urgent = urgent or (self._waiting is not None and self._waiting.urgent)
            self._waiting = Request(parameters, at_ms, inputs, urgent)
            self._asked = self._asked or time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"compute {self.view}", daemon=True)
                self._thread.start()
            self._wake.notify()

    @property
    def wanted(self) -> bool:
        """Whether there is a request in hand or waiting."""
        return self.busy or self._waiting is not None

    @property
    def delayed(self) -> bool:
        """Whether a request has gone without a result for ``PROGRESS_AFTER_S``."""
        asked = self._asked
        return asked is not None and time.monotonic() - asked >= PROGRESS_AFTER_S

    def close(self) -> None:
        """Stop after the piece of work in hand."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _stop(self) -> bool:
        """Whether the running computation should stop."""
        waiting = self._waiting
        return self._closed or (waiting is not None and waiting.urgent)

    def _next(self) -> Request | None:
        """Wait for the next request and for its time; None when closed."""
        with self._wake:
            while not self._closed:
                waiting, due = self._waiting, self._started + self._client.interval
                if waiting is not None and (waiting.urgent or time.monotonic() >= due):
                    self._waiting = None
                    self._started = time.monotonic()
                    return waiting
                self._wake.wait(max(due - time.monotonic(), 0.0) if waiting is not None else None)
        return None

    def _run(self) -> None:
        while (request := self._next()) is not None:
            self.busy = True
            try:
                outcome = self._compute(request)
                with self._wake:
                    # A cancelled request is continued by the waiting one.
                    if outcome is not None or self._waiting is None:
                        self._asked = time.monotonic() if self._waiting is not None else None
                if outcome is not None and not self._closed:
                    self._client.post(outcome)
                    self._client.first_result.set()
            finally:
                self.busy = False

    def _compute(self, request: Request) -> Computed | None:
        """Compute one request; None if it was cancelled."""
        reported = time.perf_counter() + PROGRESS_AFTER_S - PROGRESS_INTERVAL_S

        def progress(fraction: float, text: str) -> None:
            nonlocal reported
            now = time.perf_counter()
            if now - reported >= PROGRESS_INTERVAL_S:
                reported = now
                self._client.post(Progress(self.view, fraction, text))

        computed = self._client.compute(self.view, request, stop=self._stop, progress=progress)
        if computed is not None and computed.result is not None:
            computed.equals = self._last if computed.result.same_as(self._last) else None
            self._last = computed.result
        elif computed is not None and computed.empty:
            self._last = None
        return computed


class EngineClient:
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
        """``post``: hands a message to the screen, from any thread. ``prepare``: called with the name of the view whose
        files are read next (empty: all others). ``settled``: called when everything is loaded, or could not be. ``fps``:
        highest number of results per second for new data. ``briefs`` makes what the overview
        shows of a result, in the computing thread."""
        self._post = post
        self.roots = tuple(roots)
        self.settings = settings
        self.interval = 1.0 / max(fps, 0.1)
        self.session: Session | None = None
        self.changes = 0
        self.first_result = threading.Event()
        self._opener = opener
        self._prepare = prepare or (lambda view: None)
        self._settled = settled
        self.briefs: Briefs | None = None
        self._changed: set[str] = set()
        self._frozen: dict[str, Inputs] | None = None
        self._changes_at_pause = 0
        self._lock = threading.Lock()
        self._rescanning = threading.Lock()
        self._stop = threading.Event()
        self._queues: dict[str, ComputeQueue] = {}
        self._thread: threading.Thread | None = None

    def post(self, message: Message) -> None:
        """Hand a message to the screen; nothing is posted after ``stop``."""
        if not self._stop.is_set():
            self._post(message)

    # -- watching -------------------------------------------------------------------------------------------------

    def start(self, names: Sequence[str] = ()) -> None:
        """Load the engine, scan and watch, in a thread. Call after the first paint. ``names``: the views, the shown first."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, args=(tuple(names),), name="watch", daemon=True)
            self._thread.start()

    def _watch(self, names: tuple[str, ...]) -> None:
        try:
            first = names[0] if names else ""
            self._prepare(first)
            started = time.perf_counter()
            session, views, failed = self._opener(self.roots, self.settings, first)
            self.session = session
            log.info("engine loaded in %.0f ms", (time.perf_counter() - started) * 1000)
            others = [name for name in names if name not in views and name not in failed]
            self.post(Opened(views, failed, more=bool(others)))
            self._scan(session)
            self._report_change(frozenset(views))
            if others:
                self._load_others(session, others, wait=any(session.inputs(name).files for name in views))
            self._settled()
            session.watch(self._report_change, self._stop)
        except BaseException as error:  # reported on screen; what was computed stays
            log.exception("watching ended")
            self.post(WatchFailed(f"{type(error).__name__}: {error}"))
            self._settled()

    def _scan(self, session: Session) -> frozenset[str]:
        """Look at everything once; return the names of views whose inputs changed."""
        return session.scan(progress=lambda fraction, text: self.post(Progress(SCAN, fraction, text)))

    def _load_others(self, session: Session, names: Sequence[str], *, wait: bool) -> None:
        """Load the views that are not shown; if ``wait``, after the shown one has had its time to compute and draw."""
        if wait and self.first_result.wait(FIRST_RESULT_TIMEOUT_S):
            self._stop.wait(FIRST_PAINT_S)
        self._prepare("")
        if self._stop.is_set():
            return
        views, failed = load_views(names)
        session.admit(list(views.values()))
        changed = self._scan(session)
        self.post(Opened(views, failed))
        self._report_change(changed | frozenset(views))

    def _report_change(self, views: frozenset[str]) -> None:
        with self._lock:
            self._changed |= views
            self.changes += 1
        self.post(Changed())

    def take_changed(self) -> frozenset[str]:
        """Return the views whose inputs changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
        return frozenset(changed)

    def rescan(self) -> None:
        """Look at the folders now, in a thread, unless one is doing so already (the key is held down)."""
        session = self.session
        if session is None or not self._rescanning.acquire(blocking=False):
            return

        def scan() -> None:
            try:
                changed = session.look(None)
            except BaseException as error:
                log.exception("scanning failed")
                self.post(WatchFailed(f"{type(error).__name__}: {error}"))
                return
            finally:
                self._rescanning.release()
            if changed:
                self._report_change(changed)

        threading.Thread(target=scan, name="rescan", daemon=True).start()

    @property
    def status(self) -> Status | None:
        """What the live path is doing; None before the engine is loaded."""
        return self.session.status if self.session is not None else None

    # -- computing ------------------------------------------------------------------------------------------------

    def request(self, view: str, parameters: Any, *, at_ms: int | None = None, urgent: bool = True) -> None:
        """Ask for a result, on frozen inputs while paused; it comes as ``Computed``. ``urgent``: the operator waits."""
        inputs = self.frozen_inputs(view)
        if view not in self._queues:
            self._queues[view] = ComputeQueue(self, view)
        self._queues[view].request(parameters, at_ms, inputs, urgent)

    def compute(
        self,
        view: str,
        request: Request,
        *,
        stop: Callable[[], bool],
        progress: Callable[[float, str], None] = lambda fraction, text: None,
    ) -> Computed | None:
        """Compute a request in the calling thread; return None if it was cancelled. Never raises."""
        from engine.core.view import Cancelled, NoInput

        session = self.session
        if session is None:
            return None
        outcome = Computed(view, request.parameters, request.at_ms)
        try:
            inputs = session.inputs(view) if request.inputs is None else request.inputs
            outcome.files, outcome.stale = len(inputs.files), inputs.stale
            outcome.result = session.compute(
                view, request.parameters, at_ms=request.at_ms, stop=stop, progress=progress, inputs=inputs
            )
            if self.briefs is not None and request.at_ms is None:
                outcome.brief = self.briefs.of(outcome.result, request.parameters)
        except Cancelled:
            return None
        except NoInput as reason:
            outcome.empty = str(reason) or "no usable input"
        except BaseException as error:  # a bug in one view must not take the screen down; a panic is no Exception
            log.exception("computing %s failed", view)
            outcome.result, outcome.error = None, f"{type(error).__name__}: {error}"
        return outcome

    def waits_for(self, view: str) -> bool:
        """Return whether the operator or the shown tab waits for a result of ``view``."""
        return view in self._queues and self._queues[view].wanted

    @property
    def wanted(self) -> bool:
        """Whether the operator or the shown tab waits for a result."""
        return any(queue.wanted for queue in self._queues.values())

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return any(queue.busy for queue in self._queues.values())

    def delayed(self, view: str) -> bool:
        """Return whether a request for ``view`` has gone without a result for ``PROGRESS_AFTER_S``."""
        return view in self._queues and self._queues[view].delayed

    # -- pausing --------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether results are computed on frozen inputs."""
        return self._frozen is not None

    def frozen_inputs(self, view: str) -> Inputs | None:
        """Return the inputs of ``view`` as of the pause, None if not paused or not loaded then."""
        return self._frozen.get(view) if self._frozen is not None else None

    @property
    def pending_changes(self) -> int:
        """Number of changes since ``pause``; 0 if not paused."""
        return self.changes - self._changes_at_pause if self.paused else 0

    def pause(self, views: Iterable[str]) -> None:
        """Let later requests see the inputs that ``views`` have now, and others as they are when ``freeze`` is called."""
        self._frozen = {}
        self._changes_at_pause = self.changes
        self.freeze(views)

    def freeze(self, views: Iterable[str]) -> None:
        """While paused, keep the inputs that ``views`` have now."""
        if self._frozen is not None and self.session is not None:
            self._frozen |= {name: self.session.inputs(name) for name in views}

    def resume(self) -> None:
        """Let later requests see the newest inputs."""
        self._frozen = None

    # -- the end --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask all threads to end, without waiting: nothing is posted any more."""
        self._stop.set()
        self.first_result.set()
        for queue in self._queues.values():
            queue.close()

    def close(self, timeout: float = 1.0) -> None:
        """Stop, and let the session save what it has read, for at most ``timeout`` seconds. Call off the event loop."""
        self.stop()
        session, self.session = self.session, None
        if session is not None:
            try:
                session.close(timeout)
            except Exception:
                log.exception("closing the session failed")
