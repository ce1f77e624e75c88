"""What a view is. Each of the five packages ends in a ``view.py`` whose ``VIEW`` satisfies ``View``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.core.incremental import Memo
from engine.core.inputs import Inputs
from engine.core.parameters import Parameters
from engine.core.reading import FileKind
from engine.core.result import Level, Result
from engine.core.tables import Table


class Cancelled(Exception):
    """Raised by ``Context.check`` when a newer request has made this computation pointless."""


@dataclass(frozen=True, slots=True)
class Context:
    """What compute may know beside inputs and parameters.

    ``now_ms``: the time of day (epoch ms; compute never asks a clock). ``at_ms``: compute on the data as they were then;
    None is live. ``memo``: lives as long as the session and holds values and partial results that save time
    (``engine.core.incremental``); a result must be equal with an empty one. ``stop``: asked by ``check`` between pieces of long
    work. ``progress``: called with a fraction 0-1 and what is being done. ``memory``: bytes that this program may take; what a
    view leaves out for that, a note says.
    """

    now_ms: int
    at_ms: int | None = None
    memo: Memo = field(default_factory=Memo)
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda fraction, text: None
    memory: int = 4 << 30

    def check(self) -> None:
        """Raise Cancelled if this computation is no longer wanted."""
        if self.stop():
            raise Cancelled


class NoInput(Exception):
    """Raised by compute when the inputs hold nothing this view can use with these parameters: ``report`` exits 3."""


class UnknownName(NoInput):
    """Raised by compute when a parameter names something that the inputs do not have: ``report`` exits 2."""


@runtime_checkable
class View(Protocol):
    """One tab: what it reads, what can be chosen, what it computes.

    ``name`` is the word pair with a hyphen; ``kinds`` in the order of the page of formats; ``tables`` the result tables, the
    first one is the main one; ``fail_on`` the level from which ``check`` exits 1 by default.
    """

    name: str
    title: str
    parameters: type[Parameters]
    tables: tuple[Table, ...]
    fail_on: Level

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """What the view reads."""
        ...

    def compute(self, inputs: Inputs, parameters: Any, context: Context) -> Result:
        """Pure: same inputs, parameters, ``now_ms`` and ``at_ms`` give an equal result."""
        ...

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """What the re-implemented system prints for this result (``--format upstream``), None if it prints nothing."""
        ...
