"""A recommendation, and the RECOMMENDATIONS rows of many jobs of any kind."""

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
    """One recommendation for one job (columns of ``RECOMMENDATIONS``). ``now`` and ``after``: severity 0-4 of the
    heuristic it targets, before and after the change. ``wait_change_ms``: None if unknown."""

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
    """Return RECOMMENDATIONS rows, ranked within each job in the given order. ``advised``: job id, MB s used (0:
    unknown) and recommendations of each job."""
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
