"""Samples by honest metric key: every metric of every kind, its unit converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.run_comparison.runs.layout import Place
from engine.run_comparison.runs.measurements import Codes, Floats, Measurements
from engine.run_comparison.runs.metric_units import canonical
from engine.run_comparison.runs.pooling import Keeper, Numbers, Part
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Pooled, medians, metric_keys


def pool_honest(
    measurements: Measurements,
    left: Sequence[Run],
    right: Sequence[Run],
    places: Mapping[int, Place],
    min_count: int,
    by_run: bool,
    keeper: Keeper,
) -> Pooled:
    """Every metric of every kind; null values and items below ``min_count`` requests left out. ``places``: where each
    file lies. ``by_run``: one value per run (its median) instead of all. ``keeper``: what earlier calls left."""
    keys, which, factors = metric_keys(measurements)
    keeper.begin((min_count, by_run))

    def make(run: Run) -> tuple[Numbers, Numbers, Codes, Floats]:
        codes = np.concatenate([chunk.codes for chunk in run.chunks] or [np.zeros(0, dtype=np.int32)])
        values = np.concatenate([chunk.values for chunk in run.chunks] or [np.zeros(0)]) * factors[codes]
        counts = np.concatenate([chunk.counts for chunk in run.chunks] or [np.zeros(0, dtype=np.int64)])
        numbers = which[codes].astype(np.int64)
        return np.where((counts < min_count) | ~np.isfinite(values), -1, numbers), numbers, codes, values

    sides = [[keeper.part(run, make, medians if by_run else None) for run in runs] for runs in (left, right)]
    numbers, samples = keeper.sides(sides[0], sides[1], keys)
    mixed = _mixed_units(measurements, keeper.linked(*sides), (*sides[0], *sides[1]), numbers, places)
    return Pooled(keeper.named(keys), samples, mixed)


def _mixed_units(
    measurements: Measurements,
    linked: tuple[frozenset[int], ...],
    parts: Sequence[Part],
    numbers: Numbers,
    places: Mapping[int, Place],
) -> tuple[tuple[int, tuple[str, ...], str], ...]:
    """Metrics written in several units, these units, and one file that holds the one that fewest runs have."""
    found = []
    for row, codes in enumerate(linked):
        if len(codes) < 2:
            continue
        units = {measurements.series[code].unit: code for code in sorted(codes)}
        if len({canonical(unit) for unit in units}) < 2:
            continue
        number = int(numbers[row])
        holders = {unit: [part for part in parts if (number, code) in part.links] for unit, code in units.items()}
        rarest = min(holders, key=lambda unit: (len(holders[unit]), unit))
        run = holders[rarest][0].run
        file = next(chunk.file for chunk in run.chunks if (chunk.codes == units[rarest]).any())
        found.append((row, tuple(sorted(units)), f"{run.job}/{run.name}/{places[file].rest}"))
    return tuple(found)
