"""One recommendation, and the rows of ``RECOMMENDATIONS`` for those of many jobs of either kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from engine.job_heuristics.tables import RECOMMENDATIONS, SEVERITIES, of_rows

STEP_MB = 128
"""Memory is set in multiples of this many MB."""
LEAST_MB = 512
"""Least memory, MB, of a container or heap that is recommended."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One recommendation of one job (columns of ``RECOMMENDATIONS``); severities 0-4 of the heuristic that it aims at, now
    and after it. ``wait_change_ms``: None where it cannot be told."""

    topic: str
    key: str
    value: str
    current: str
    saving_mb_s: float
    wait_change_ms: int | None
    heuristic: str
    now: int
    after: int
    text: str


def frame_of(advised: Iterable[tuple[str, float, Sequence[Advice]]]) -> pl.DataFrame:
    """Return the rows of ``RECOMMENDATIONS``, ranked within each job as given: per job its id, the MB s that it used (0: not
    known) and its recommendations."""
    return of_rows(
        RECOMMENDATIONS,
        (
            (job, rank, one.topic, one.key, one.value, one.current, one.saving_mb_s,
             100 * one.saving_mb_s / used if used else None, one.wait_change_ms, one.heuristic,
             SEVERITIES[one.now], SEVERITIES[one.after], one.text)
            for job, used, found in advised
            for rank, one in enumerate(found, 1)
        ),
    )  # fmt: skip
