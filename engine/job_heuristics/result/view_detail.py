"""What ``Result.detail`` of the view holds; without what makes the part that shows one job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from engine.tables import Table

if TYPE_CHECKING:
    from engine.job_heuristics.result.detail import JobDetail


@dataclass(frozen=True, slots=True)
class Detail:
    """``Result.detail`` of the view: the job list with its severity strips (by declared ``listing_spec``), the
    heuristics a strip shows in order, the chosen job."""

    stamp: tuple[Any, ...]
    heuristics: tuple[str, ...]
    listing: pl.DataFrame = field(compare=False, repr=False)
    listing_spec: Table = field(compare=False, repr=False)
    job: JobDetail | None = None

    def rows(self, table: pl.DataFrame, job_id: str) -> pl.DataFrame:
        """Return the rows of one job in a result table."""
        return table.filter(pl.col("job_id") == job_id)
