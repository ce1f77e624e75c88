"""Samples by honest metric key: every metric of every kind, its unit converted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.run_comparison.chunks import Codes, Floats, Measurements
from engine.run_comparison.layout import Place
from engine.run_comparison.pooling import Keeper, Numbers
from engine.run_comparison.runs import Run
from engine.run_comparison.samples import Pooled, Samples, medians_by_run, metric_keys
from engine.run_comparison.units import canonical


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
    keeper.begin(min_count)

    def make(run: Run) -> tuple[Numbers, Numbers, Codes, Floats]:
        codes = np.concatenate([chunk.codes for chunk in run.chunks] or [np.zeros(0, dtype=np.int32)])
        values = np.concatenate([chunk.values for chunk in run.chunks] or [np.zeros(0)]) * factors[codes]
        counts = np.concatenate([chunk.counts for chunk in run.chunks] or [np.zeros(0, dtype=np.int64)])
        numbers = which[codes].astype(np.int64)
        return np.where((counts < min_count) | ~np.isfinite(values), -1, numbers), numbers, codes, values

    sides = [[keeper.part(run, make) for run in runs] for runs in (left, right)]
    numbers, samples = keeper.sides(sides[0], sides[1], keys)
    if by_run:
        samples = Samples(medians_by_run(samples.left), medians_by_run(samples.right))
    links = {id(part.links): part.links for parts in sides for part in parts}.values()
    mixed = _mixed_units(measurements, links, numbers, (*left, *right), places)
    return Pooled(tuple(keys[i] for i in numbers.tolist()), samples, mixed)


def _mixed_units(
    measurements: Measurements,
    links: Iterable[frozenset[tuple[int, int]]],
    numbers: Numbers,
    runs: Sequence[Run],
    places: Mapping[int, Place],
) -> tuple[tuple[int, tuple[str, ...], str], ...]:
    """Metrics written in several units, these units, and one file that holds the rarest."""
    codes_of: dict[int, set[int]] = defaultdict(set)
    for pairs in links:
        for number, code in pairs:
            codes_of[number].add(code)
    row_of = {number: row for row, number in enumerate(numbers.tolist())}
    found = []
    for number, codes in codes_of.items():
        if len(codes) < 2 or number not in row_of:
            continue
        units = {measurements.series[code].unit: code for code in sorted(codes)}
        if len({canonical(unit) for unit in units}) < 2:
            continue
        holders: dict[str, list[str]] = {unit: [] for unit in units}
        for run in runs:
            for chunk in run.chunks:
                for unit, code in units.items():
                    if (chunk.codes == code).any():
                        holders[unit].append(f"{run.job}/{run.name}/{places[chunk.file].rest}")
        rarest = min(holders, key=lambda unit: (len(holders[unit]), unit))
        found.append((row_of[number], tuple(sorted(units)), holders[rarest][0]))
    return tuple(sorted(found))
