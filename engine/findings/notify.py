"""Decide which findings call the operator: section ``[notify]`` of the settings. Free of Polars: settings are read at start."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from engine.core import units
from engine.core.parameters import Parameters, option

NEVER = 99  # a rank above every level


class NotifySettings(Parameters, frozen=True, kw_only=True):
    """Section ``[notify]``: which findings are marked as new, and what else calls the operator."""

    level: Annotated[
        Literal["low", "moderate", "severe", "critical", "never"],
        option("Level from which a finding counts behind its tab's title, and calls when it is new"),
    ] = "severe"
    rules: Annotated[
        tuple[str, ...],
        option(
            "Levels of some findings instead, as VIEW/SUBJECT=LEVEL; * stands for anything, the last rule that fits counts"
        ),
    ] = ()
    bell: Annotated[bool, option("Ring the terminal's bell when such a finding is new or becomes worse")] = False
    desktop: Annotated[
        bool, option("Ask the terminal for a notification (OSC 9) when such a finding is new or becomes worse")
    ] = False


class Threshold:
    """The level from which each finding calls, by settings. ``complaints``: rules that cannot be understood."""

    def __init__(self, settings: NotifySettings) -> None:
        self._default = _rank(settings.level)
        self._rules = []
        self.complaints: list[str] = []
        for rule in settings.rules:
            place, _, level = rule.rpartition("=")
            view, _, subject = place.partition("/")
            if not view or _rank(level) < 2:
                self.complaints.append(
                    f"[notify] rules: {rule!r} is not VIEW/SUBJECT=low, moderate, severe, critical or never"
                )
            else:
                self._rules.append((view.strip(), subject.strip() or "*", _rank(level)))

    def of(self, view: str, subject: str) -> int:
        """Return the rank (``units.rank``) from which a finding of ``view`` on ``subject`` calls."""
        fitting = (
            rank
            for wanted, pattern, rank in reversed(self._rules)
            if fnmatchcase(view, wanted) and fnmatchcase(subject, pattern)
        )
        return next(fitting, self._default)

    def calls(self, view: str, subject: str, level: str) -> bool:
        """Return whether a finding calls."""
        return units.rank(level) >= self.of(view, subject)


def _rank(level: str) -> int:
    """Rank a level word or ``never``; 0 for another word."""
    word = level.strip().lower()
    return NEVER if word == "never" else units.rank(word)
