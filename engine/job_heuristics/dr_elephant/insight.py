"""One insight: a number beside its limit, the reason in words, and the setting to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import polars as pl

from engine.job_heuristics.dr_elephant.advice import Answer, Wish
from engine.job_heuristics.tables import INSIGHTS, SEVERITIES, of_rows

CERTAIN, GROWS, PROVISIONAL = "certain", "can only get worse", "provisional"


@dataclass(frozen=True, slots=True)
class Insight:
    """What was looked at.

    ``subject``: application, stage 3, sql 0, executor 7, host y or query x. ``value`` beside its ``limit`` in words.
    ``level``: 0 (fine) to 4. ``reason``: with the application's numbers. ``key`` and ``setting``: property to change,
    empty if none helps; ``way``, ``current`` and ``open`` as in ``Wish``. ``status``: whether it may change while the
    application runs.
    """

    topic: str
    subject: str
    value: str
    limit: str
    level: int
    reason: str
    key: str = ""
    setting: str = ""
    status: str = CERTAIN
    way: int = 0
    current: str = ""
    open: str = ""

    @property
    def wish(self) -> Wish:
        """What it asks for."""
        because = f"{self.topic} of {'the application' if self.subject == 'application' else self.subject}"
        return Wish(self.key, self.setting, because, self.way, self.current, self.open)

    def wishing(self, wish: Wish) -> Insight:
        """Return it with another wish."""
        return replace(
            self, key=wish.key, setting=wish.value, way=wish.way, current=wish.current, open=wish.open
        )  # fmt: skip

    def answered(self, answer: Answer) -> Insight:
        """Return it with what the gate grants."""
        return replace(
            self, key=self.key if answer.value else "", setting=answer.value, current=answer.current,
            reason=f"{self.reason} {answer.why}".rstrip(),
        )  # fmt: skip

    @property
    def severity(self) -> str:
        """The level as a word."""
        return SEVERITIES[self.level]


def level(value: float, *limits: float) -> int:
    """Return how many of ``limits`` (for LOW, MODERATE, SEVERE, CRITICAL) a value reaches."""
    return sum(value >= limit for limit in limits)


def insights_frame(found: Iterable[Insight]) -> pl.DataFrame:
    """Return INSIGHTS rows."""
    rows = (
        (i.topic, i.subject, i.severity, i.value, i.limit, i.key, i.setting, i.current, i.status, i.reason)
        for i in found
    )
    return of_rows(INSIGHTS, rows)
