"""What the findings of each view were when the operator last looked: kept in the state file for the next run of the program."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from engine.core import units

if TYPE_CHECKING:
    from engine.core.view import Finding, Headline, Result

KEPT = 200  # findings of a view that are kept, the worst ones
PLACES = 10  # number of sets of watched paths whose looks are kept, the latest ones


class State(Protocol):
    """Nested plain values under string keys that outlast the program (``engine.own_files.settings.State``)."""

    def get(self, *keys: str, default: Any = None) -> Any:
        """Return a value, or ``default``."""

    def set(self, *keys: str, value: Any) -> None:
        """Set a value; None removes it."""


class LastLooks:
    """The last look at each view of the watched paths ``roots``: from ``state``, and for it. Free of Polars until it is asked."""

    def __init__(self, state: State, roots: Sequence[str]) -> None:
        self._state = state
        self._place = hashlib.blake2b("\0".join(roots).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        saved = state.get("looks", self._place, "views", default={})
        self._before: dict[str, Any] = dict(saved) if isinstance(saved, dict) else {}
        self._looks: dict[str, Any] = dict(self._before)
        self._seen: dict[str, tuple[Sequence[Finding], Sequence[Headline], str, Any, int]] = {}

    def before(self, view: str, parameters: Any) -> tuple[int, Result] | None:
        """Return when (epoch ms) the operator last looked at ``view`` under these parameters in an earlier run, and a result
        with the findings and levels of then; None the second time, and if there was no such look."""
        from engine.core.view import Finding, Headline, Result

        saved = self._before.pop(view, None)
        if not isinstance(saved, dict) or saved.get("parameters") != _digest(parameters):
            return None
        try:
            findings = [Finding(_level(level), str(subject), "") for level, subject in saved["findings"]]
            if saved["cut"]:
                findings.append(Finding(_level(saved["cut"]), "more", "", rest=int(saved["rest"])))
            headline = tuple(
                Headline(str(label), str(value), level=_level(level)) for level, label, value in saved["headline"]
            )
            return int(saved["time_ms"]), Result(view, {}, {}, headline, findings, latest=str(saved["latest"]))
        except (KeyError, TypeError, ValueError):  # the state file was edited by hand
            return None

    def note(self, result: Result, parameters: Any, time_ms: int) -> None:
        """Remember what is on screen now."""
        self._seen[result.view] = (result.findings, result.headline, result.latest, parameters, time_ms)

    def save(self) -> None:
        """Put the looks into the state; its owner writes the file."""
        self._looks |= {view: _look(*seen) for view, seen in self._seen.items()}
        if self._looks:
            newest = max(_time(look) for look in self._looks.values())
            self._state.set("looks", self._place, value={"time_ms": newest, "views": dict(self._looks)})
            places = self._state.get("looks")
            for name in sorted(places.keys() - {self._place}, key=lambda name: -_time(places[name]))[PLACES - 1 :]:
                self._state.set("looks", name, value=None)


def _look(
    findings: Sequence[Finding], headline: Sequence[Headline], latest: str, parameters: Any, time_ms: int
) -> dict[str, Any]:
    """Return a look as the state file holds it; ``cut``: the worst level at which findings are left out, ``rest`` of them."""
    from engine.findings.events import by_subject, number_of

    subjects = sorted(by_subject(findings).values(), key=lambda each: -units.rank(each.level))
    left_out = [finding.level for finding in findings if finding.rest and units.rank(finding.level) >= 2]
    left_out += [finding.level for finding in subjects[KEPT:]]
    return {
        "time_ms": time_ms,
        "parameters": _digest(parameters),
        "findings": [[finding.level, finding.subject] for finding in subjects[:KEPT]],
        "cut": max(left_out, key=units.rank, default=""),
        "rest": number_of(findings) - len(subjects[:KEPT]) if left_out else 0,
        "headline": [[number.level, number.label, number.value] for number in headline],
        "latest": latest,
    }


def _digest(parameters: Any) -> str:
    return hashlib.blake2b(repr(parameters).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _time(look: Any) -> int:
    time_ms = look.get("time_ms") if isinstance(look, dict) else None
    return time_ms if isinstance(time_ms, int) else 0


def _level(word: Any) -> Any:
    """Return a level. Raises ValueError for another word."""
    if word != "" and not units.rank(word):
        raise ValueError(word)
    return word
