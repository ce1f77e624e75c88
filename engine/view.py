"""What a view is. Each of the five packages ends in a ``view.py`` whose ``VIEW`` satisfies ``View``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.incremental import Memo
from engine.inputs import Inputs
from engine.parameters import Parameters
from engine.reading import FileKind
from engine.result import Level, Result
from engine.tables import Table


class Cancelled(Exception):
    """Raised by ``Context.check`` when a newer request has made this computation pointless."""


@dataclass(frozen=True, slots=True)
class Context:
    """What compute may know beside inputs and parameters.

    ``now_ms``: the clock, given (compute never asks one). ``at_ms``: look at the data as they were then; None is live.
    ``memo``: lives as long as the session and holds values and partial results that save time (``engine.incremental``);
    a result must be equal with an empty one. ``stop``: asked by ``check`` between pieces of long work. ``progress``: told a
    fraction 0-1 and what is being done. ``quick``: somebody looks on while data come in and would rather have a
    ``provisional`` result now, from what the last computation found, than a final one later; a view may do without.
    """

    now_ms: int
    at_ms: int | None = None
    memo: Memo = field(default_factory=Memo)
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda fraction, text: None
    quick: bool = False

    def check(self) -> None:
        """Raise Cancelled if this computation is no longer wanted."""
        if self.stop():
            raise Cancelled


class NoInput(Exception):
    """Raised by compute when the inputs hold nothing this view can use with these parameters: ``report`` exits 3."""


@runtime_checkable
class Preparing(Protocol):
    """A view that can make its next computation cheaper while nothing happens."""

    def prepare(self, inputs: Inputs, context: Context) -> bool:
        """Do a piece of such work in ``context.memo``, 0.2 s at most; ``inputs`` are what was computed on last. False if
        there is nothing to do. Results stay the same."""
        ...


@runtime_checkable
class View(Protocol):
    """One tab: what it reads, what can be chosen, what it computes.

    ``name`` is the word pair with a hyphen; ``kinds`` in the order of recognition; ``tables`` the result tables, the
    first one is the main one; ``fail_on`` the level from which ``check`` exits 1 unless told otherwise. A view whose
    results do not depend on ``Context.now_ms`` may say so by ``lasting = True``: a report over unchanged files is then
    not computed again.
    """

    name: str
    title: str
    parameters: type[Parameters]
    tables: tuple[Table, ...]
    fail_on: Level

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """What the view reads, in the order of recognition."""
        ...

    def compute(self, inputs: Inputs, parameters: Any, context: Context) -> Result:
        """Pure: same inputs, parameters, ``now_ms`` and ``at_ms`` give an equal result, unless it is ``provisional``."""
        ...

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """What the re-implemented system prints for this result (``--format upstream``), None if it prints nothing."""
        ...
