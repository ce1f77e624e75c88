"""What ``Result.detail`` of the view holds; without what makes the part that shows one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from engine.job_heuristics.model.changes import rows_of
from engine.tables import Table

if TYPE_CHECKING:
    from engine.job_heuristics.result.detail import JobDetail


@dataclass(frozen=True, slots=True)
class Detail:
    """``Result.detail`` of the view: the job list with its severity strips (by declared ``listing_spec``), the
    heuristics a strip shows in order, the place of each job in the tables of all jobs, the chosen job."""

    stamp: tuple[Any, ...]
    heuristics: tuple[str, ...]
    listing: pl.DataFrame = field(compare=False, repr=False)
    listing_spec: Table = field(compare=False, repr=False)
    place: Mapping[str, int] = field(compare=False, repr=False)
    job: JobDetail | None = None

    def rows(self, table: pl.DataFrame, job_id: str) -> pl.DataFrame:
        """The rows of one job in a table of all jobs, without a look at those of the others."""
        begin, end = rows_of(table["job_id"], job_id, self.place)
        return table.slice(begin, end - begin)
