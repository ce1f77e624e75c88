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
    """Raised by ``Context.check`` when a newer request supersedes this computation."""


@dataclass(frozen=True, slots=True)
class Context:
    """What compute may use beside inputs and parameters.

    ``now_ms``: the current time (epoch ms; compute never reads a clock). ``at_ms``: compute on the data as they were then; None
    is live. ``memo``: values and partial results kept for the session to save time (``engine.core.incremental``); an empty one
    must give an equal result. ``stop``: asked by ``check`` between pieces of long work. ``progress``: called with a fraction 0-1
    and what is being done. ``memory``: bytes that this program may use; a note says what a view leaves out to stay within them.
    """

    now_ms: int
    at_ms: int | None = None
    memo: Memo = field(default_factory=Memo)
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda fraction, text: None
    memory: int = 4 << 30

    def check(self) -> None:
        """Raise Cancelled if the result is no longer wanted."""
        if self.stop():
            raise Cancelled


class NoInput(Exception):
    """Raised by compute when the inputs hold no data for these parameters: ``report`` exits 3."""


class UnknownName(NoInput):
    """Raised by compute when a parameter names something that is not in the inputs: ``report`` exits 2."""


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
