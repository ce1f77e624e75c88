"""Keys that come faster than they are handled, as a stalled line delivers them: each one meets the screen it was typed for."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from textual import events
from textual.widgets import Input

from tui.actions import RESERVED

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

log = logging.getLogger("loadlens.keys")

LIMIT = 10_000  # most keys that may wait; the rest are dropped, since nobody typed them
ROUNDS = 6  # how often the focus may move on before the next key: opening a box takes two or three rounds
PATIENCE_S = 2.0  # seconds that a widget may take to finish before the next key is passed on anyway


class TypeAhead:
    """Passes on one key at a time: the next one waits until what the last one opens or closes is there.

    Textual hands keys to the widget that has the focus when they arrive. Of ``/cpu`` in one write all four would go to the
    table, and three Escapes close one box three times.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: deque[events.Event] = deque()
        self._passed: events.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def hold(self, event: events.Event) -> bool:
        """Return whether ``event`` has to wait. It comes again when it is its turn. The keys that quit never wait."""
        if not isinstance(event, (events.Key, events.Paste)) or event.is_forwarded or event is self._passed:
            return False
        if isinstance(event, events.Key) and event.key in RESERVED:
            return False
        if self._task is not None:
            if len(self._waiting) < LIMIT:
                self._waiting.append(event)
            else:
                log.warning("more than %d keys wait; the newest are dropped", LIMIT)
            return True
        self._task = asyncio.create_task(self._pass_on(), name="type-ahead")
        return False

    def drop(self) -> None:
        """Drop the waiting keys because the program ends."""
        self._waiting.clear()

    async def _pass_on(self) -> None:
        """Wait for the key under way, then pass on those that wait."""
        try:
            await self._settled()
            while self._waiting and self._app.is_running:
                self._passed = self._next()
                self._app.post_message(self._passed)
                await self._settled()
        finally:
            self._task = None

    def _next(self) -> events.Event:
        """Return the next key. What is typed into an input comes as one text: each letter alone would have to settle."""
        event = self._waiting.popleft()
        if not isinstance(self._app.focused, Input):
            return event
        text = letter = _letter(event)
        while letter and self._waiting and (letter := _letter(self._waiting[0])):
            text += letter
            self._waiting.popleft()
        return events.Paste(text) if len(text) > 1 else event

    async def _settled(self) -> None:
        """Wait until the key has gone from the focused widget up to the application, and the focus is where it leads."""
        before: Any = None
        for _ in range(ROUNDS):
            screen, focused = self._app.screen, self._app.focused
            for node in (focused or screen).ancestors_with_self:
                await _idle(node)
            now = (self._app.screen, self._app.focused)
            if now == before:
                return
            before = now


def _letter(event: events.Event) -> str:
    """Return what a key types into an input; empty for any other key or event."""
    return event.character or "" if isinstance(event, events.Key) and event.is_printable else ""


async def _idle(node: MessagePump) -> None:
    """Wait until ``node`` has handled the messages that it has now."""
    done = asyncio.Event()
    if not node.call_later(done.set):
        return
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not done.is_set() and node.is_running and asyncio.get_running_loop().time() < end:
        try:
            await asyncio.wait_for(done.wait(), 0.1)
        except TimeoutError:
            continue
