"""What the overview shows of one result, made in the thread that computed it: long lists of findings take a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from engine.core.view import Finding, Result
    from engine.findings.events import Event
    from engine.findings.last_look import LastLooks
    from engine.findings.notify import Threshold


class Brief(msgspec.Struct, frozen=True):
    """A result and the gist of its findings.

    ``worst``: findings from level ``low`` on, worst first, at most ``engine.findings.events.LISTED``; ``number`` of all of them,
    ``calling`` of those from the level on that calls. ``events``: what changed since the result before.
    """

    result: Result
    worst: tuple[Finding, ...]
    number: int
    calling: int
    events: tuple[Event, ...]


class Briefs:
    """Makes the brief of each live result, and compares it with the one before under the same parameters.

    ``quiet``: whether files are still being read, so that what appears is not new. ``looks``: what an earlier run of the
    program saw. Safe to use from several threads.
    """

    def __init__(
        self,
        threshold: Threshold,
        *,
        clock: Callable[[], float],
        quiet: Callable[[], bool] = lambda: False,
        looks: LastLooks | None = None,
    ) -> None:
        self._threshold = threshold
        self._clock = clock
        self._quiet = quiet
        self._looks = looks
        self._first: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._before: dict[str, tuple[Any, Brief]] = {}

    def of(self, result: Result, parameters: Any) -> Brief:
        """Return the brief of a result of now under ``parameters``."""
        with self._lock:
            before, brief = self._before.get(result.view, (None, None))
            known = brief if brief is not None and brief.result.findings is result.findings else None
            events: tuple[Event, ...] = ()
            quiet = self._quiet()
            if brief is not None and before == parameters and not quiet:
                from engine.findings.events import changes

                events = changes(brief.result, result, int(self._clock() * 1000))
            if not quiet:
                events += self._since_last_look(result, parameters)
            made = self._brief(result, known, events)
            self._before[result.view] = parameters, made
            return made

    def _since_last_look(self, result: Result, parameters: Any) -> tuple[Event, ...]:
        """Return what changed since an earlier run of the program, once; remember this result as the last look.

        Only results under the parameters of the start count: the next run begins with them.
        """
        looks = self._looks
        if looks is None or self._first.setdefault(result.view, parameters) != parameters:
            return ()
        from engine.core import units
        from engine.findings.events import changes

        now_ms = int(self._clock() * 1000)
        before = looks.before(result.view, parameters)
        looks.note(result, parameters, now_ms)
        if before is None:
            return ()
        since = f"since {units.moment(before[0])}: "
        return tuple(
            msgspec.structs.replace(event, text=since + event.text) for event in changes(before[1], result, now_ms)
        )

    def _brief(self, result: Result, known: Brief | None, events: tuple[Event, ...]) -> Brief:
        """Make a brief; ``known``: one of the same findings."""
        from engine.findings.events import by_subject, number_of, worst_first

        if known is not None:
            return msgspec.structs.replace(known, result=result, events=events)
        worst = tuple(finding for _, finding in worst_first({result.view: result}))
        each = by_subject(result.findings).values()
        calling = sum(self._threshold.calls(result.view, finding.subject, finding.level) for finding in each)
        return Brief(result, worst, number_of(result.findings), calling, events)
