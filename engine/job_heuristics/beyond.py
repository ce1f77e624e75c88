"""Where everything beyond upstream plugs in: further result tables computed from the model and the verdicts."""

from __future__ import annotations

import polars as pl

from engine.job_heuristics.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.tables import Table
from engine.view import Context

TABLES: tuple[Table, ...] = ()
"""Further result tables, in the order they are shown."""


def extend(
    model: Model, verdicts: pl.DataFrame, jobs: pl.DataFrame, parameters: JobParameters, context: Context
) -> dict[str, pl.DataFrame]:
    """Frames of ``TABLES`` from the model, the ``heuristics`` and the ``jobs`` result frames. Pure; ``context.memo``
    only makes it faster."""
    return {}
