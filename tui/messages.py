"""What crosses from threads to the screen: immutable, and collapsing where only the newest counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.problems import Problem
    from engine.result import Result
    from engine.view import View


class Opened(Message):
    """Views are loaded: ``views`` by name; ``failed``: views that cannot be, with the reason; ``more``: others follow."""

    def __init__(self, views: Mapping[str, View], failed: Mapping[str, str], *, more: bool = False) -> None:
        super().__init__()
        self.views = views
        self.failed = failed
        self.more = more


class Changed(Message):
    """Inputs of some views changed; ask the bridge which (``take_changed``)."""

    def can_replace(self, message: Message) -> bool:
        """One is as good as many."""
        return isinstance(message, Changed)


class Scanning(Message):
    """The first look at the folders: how far, and what is being read."""

    def __init__(self, fraction: float, text: str) -> None:
        super().__init__()
        self.fraction = fraction
        self.text = text

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, Scanning)


class Progress(Message):
    """How far the computation of one view is."""

    def __init__(self, view: str, fraction: float, text: str) -> None:
        super().__init__()
        self.view = view
        self.fraction = fraction
        self.text = text

    def can_replace(self, message: Message) -> bool:
        """Only the newest of a view counts."""
        return isinstance(message, Progress) and message.view == self.view


class WatchFailed(Message):
    """The watching thread ended with an error (a bug or a broken platform); data are no longer live."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True)
class Outcome:
    """What became of one request: a result, or ``empty`` with the reason there is none, or ``error``.

    ``same``: drawing it would change nothing. ``parameters`` and ``at_ms`` as requested; ``files``: how many files the
    inputs have; ``stale``: how many of them hold their last good rows; ``took_ms``: time spent computing.
    """

    view: str
    generation: int
    parameters: Any
    at_ms: int | None
    result: Result | None = None
    same: bool = False
    empty: str = ""
    error: str = ""
    files: int = 0
    stale: int = 0
    took_ms: float = 0.0
    problems: tuple[Problem, ...] = ()


class Computed(Message):
    """One request is done."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome
