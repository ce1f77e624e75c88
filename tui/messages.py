"""Messages from the engine's threads to the screen; a newer one replaces older ones where only the newest counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.core.view import Result, View
    from tui.overview.briefs import Brief


@dataclass
class Opened(Message):
    """Views are loaded. ``views`` by name; ``failed``: reasons of those that cannot be loaded; ``more``: others follow."""

    views: Mapping[str, View]
    failed: Mapping[str, str]
    more: bool = False


class Changed(Message):
    """Inputs of some views changed; ``EngineClient.take_changed`` tells which."""

    def can_replace(self, message: Message) -> bool:
        """Return True for any other change: one message is as good as many."""
        return isinstance(message, Changed)


SCAN = "scan"  # what ``Progress`` of the first scan names instead of a view


@dataclass
class Progress(Message):
    """Progress of a computation of ``view``, or of the first scan (``SCAN``): ``fraction`` 0-1 and what is being done."""

    view: str
    fraction: float
    text: str

    def can_replace(self, message: Message) -> bool:
        """Return True for any other progress of the same view."""
        return isinstance(message, Progress) and message.view == self.view


@dataclass
class WatchFailed(Message):
    """The watching thread ended with an error (a bug or a broken platform); data are no longer live."""

    reason: str


@dataclass
class Computed(Message):
    """The outcome of one request: a result, or ``empty`` (why there is no input), or ``error``.

    ``equals``: the result before it, if drawing this one would change nothing. ``parameters`` and ``at_ms`` as
    requested. ``files``: number of input files, ``stale`` of them with only their last good rows. ``background``: computed
    for the overview alone, which shows ``brief`` of it.
    """

    view: str
    parameters: Any
    at_ms: int | None
    result: Result | None = None
    equals: Result | None = None
    empty: str = ""
    error: str = ""
    files: int = 0
    stale: int = 0
    background: bool = False
    brief: Brief | None = None
