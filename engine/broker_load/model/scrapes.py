"""The raw metrics near the newest scrape, kept apart, so that one more is not looked for among all there ever were."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import polars as pl

from engine.broker_load.tables import raw_metrics
from engine.inputs import FILE, Inputs

TABLE = "metrics"
_CPUS = ("host", "partition")


def rows_of(table: pl.DataFrame, files: Iterable[int]) -> pl.DataFrame:
    """The rows of ``files`` in a table, in its order."""
    return table.filter(pl.col(FILE).is_in(pl.Series(sorted(files), dtype=pl.UInt32).implode()))


def _cpus(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("metric") == raw_metrics.NODE_IDLE_SECONDS).select(_CPUS).unique(maintain_order=True)


@dataclass(slots=True)
class Scrapes:
    """What is remembered of the table ``metrics`` at one version of the inputs: all rows of the files ``whole`` in the
    table's order, and the CPUs (host, partition) that any row names."""

    version: int = -1
    whole: set[int] = field(default_factory=set)
    near: pl.DataFrame | None = None
    cpus: pl.DataFrame | None = None
    table: pl.DataFrame | None = None

    def follow(self, inputs: Inputs, known: Collection[int]) -> None:
        """Go on to ``inputs``; ``known`` are the files that there were at ``version``."""
        self.table = table = inputs.table(TABLE)
        added = inputs.added(TABLE, self.version) if self.near is not None and self.version >= 0 else None
        if added is None or self.near is None or self.cpus is None:
            self.near, self.whole, self.cpus = None, set(), _cpus(table)
        elif added.height:
            self.near = pl.concat([self.near, added])
            self.whole |= set(inputs.files).difference(known)
            if (more := _cpus(added)).height:
                self.cpus = pl.concat([self.cpus, more], rechunk=True).unique(maintain_order=True)
        self.version = inputs.version

    def every(self) -> pl.DataFrame:
        """The whole table, between ``follow`` and ``keep``."""
        assert self.table is not None
        return self.table

    def of(self, files: Collection[int]) -> pl.DataFrame:
        """All rows of ``files`` in the table's order."""
        near = self.near if self.near is not None and self.whole.issuperset(files) else self.every()
        return rows_of(near, files) if files else near.head(0)

    def keep(self, files: Collection[int]) -> None:
        """Remember the rows of ``files`` for the next version, and let go of the table."""
        if self.near is None or self.whole != set(files):
            self.near, self.whole = self.of(files).rechunk(), set(files)
        self.table = None

    def cpu_counts(self) -> list[tuple[str | None, int]]:
        """How many CPUs node_exporter has ever named on each host."""
        if self.cpus is None or not self.cpus.height:
            return []
        return list(self.cpus.group_by("host", maintain_order=True).agg(pl.col("partition").n_unique()).iter_rows())
