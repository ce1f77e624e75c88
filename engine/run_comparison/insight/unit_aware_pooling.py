"""Pool every metric of every kind of report, with units converted (docs/models/run-comparison.md, Metrics)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from engine.core.incremental import Memo, Partials
from engine.run_comparison.runs.measurements import Measurements, MetricKey
from engine.run_comparison.runs.metric_units import canonical_unit
from engine.run_comparison.runs.pooling import Pool, RunValues, medians, pool_runs
from engine.run_comparison.runs.runs import Run


@dataclass(frozen=True, slots=True, eq=False)
class MixedUnits:
    """A metric (row of the pool) written in several units, and one file, as job/run/path, that has the rarest of them."""

    row: int
    units: tuple[str, ...]
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class UnitAwarePool(Pool[MetricKey]):
    """Samples by metric with its unit converted, and the metrics that are written in several units."""

    mixed: tuple[MixedUnits, ...]


def pool_by_unit(
    measurements: Measurements, left: tuple[Run, ...], right: tuple[Run, ...], min_count: int, by_run: bool, memo: Memo
) -> UnitAwarePool:
    """Return the samples of all metrics. Null values and items with fewer than ``min_count`` requests are left out.

    ``by_run``: a run gives one value per metric, its median, instead of all values.
    """

    def make() -> UnitAwarePool:
        parts: Partials[Run, RunValues] = memo.state("values by unit", Partials)

        def read(runs: Collection[Run]) -> dict[Run, RunValues]:
            return {run: _values_of_run(run, measurements, min_count, by_run) for run in runs}

        parts.update(dict.fromkeys((*left, *right)), read, key=(min_count, by_run))
        sides = [[parts[run] for run in runs] for runs in (left, right)]
        pooled = pool_runs("unit-aware pool", sides[0], sides[1], measurements.table.keys, memo)
        mixed = _mixed_units(pooled, measurements, (*left, *right), [*sides[0], *sides[1]])
        return UnitAwarePool(pooled.keys, pooled.samples, pooled.codes, pooled.numbers, mixed)

    return memo.value("unit-aware pool", (left, right, min_count, by_run), make)


def _values_of_run(run: Run, measurements: Measurements, min_count: int, by_run: bool) -> RunValues:
    chunks = [chunk for _, chunk in run.chunks]
    codes = np.concatenate([chunk.codes for chunk in chunks] or [np.zeros(0, dtype=np.int32)])
    counts = np.concatenate([chunk.counts for chunk in chunks] or [np.zeros(0, dtype=np.int64)])
    written = np.concatenate([chunk.values for chunk in chunks] or [np.zeros(0)])
    metrics = measurements.table.key_of[codes].astype(np.int64)
    values = written * measurements.table.factors[codes]
    part = RunValues.of(metrics, codes, values, (counts >= min_count) & np.isfinite(values))
    return RunValues(*medians(part.metrics, part.values), part.links) if by_run else part


def _mixed_units(
    pooled: Pool[MetricKey], measurements: Measurements, runs: Sequence[Run], parts: Sequence[RunValues]
) -> tuple[MixedUnits, ...]:
    mixed = []
    for row, codes in enumerate(pooled.codes):
        if len(codes) < 2:
            continue
        code_of_unit = {measurements.table.series[code].unit: code for code in sorted(codes)}
        if len({canonical_unit(unit) for unit in code_of_unit}) < 2:
            continue
        number = int(pooled.numbers[row])
        holders = {
            unit: [run for run, part in zip(runs, parts, strict=True) if part.has_link(number, code)]
            for unit, code in code_of_unit.items()
        }
        rarest = min(holders, key=lambda unit: (len(holders[unit]), unit))
        run = holders[rarest][0]
        path = next(path for path, chunk in run.chunks if (chunk.codes == code_of_unit[rarest]).any())
        mixed.append(MixedUnits(row, tuple(sorted(code_of_unit)), f"{run.job}/{run.name}/{path}"))
    return tuple(mixed)
