"""Computes the views that are not shown, one after the other, while nobody waits for the one that is."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tui.engine_client import Request

if TYPE_CHECKING:
    from tui.engine_client import EngineClient

PATIENCE_S = 5.0
"""Seconds after which a view is computed although the shown tab is computed again and again."""
LOOK_S = 0.05
"""Seconds between two looks whether anybody still waits."""
REST = 19.0
"""After computing a view again it rests for so many times as long as that took: the overview takes a twentieth of one processor
at most. The first result of each view comes without rest."""


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
        """Stop after the piece of work in hand."""
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
