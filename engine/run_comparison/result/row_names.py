"""Name the rows of the metrics table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.run_comparison.perf_tests.pool import BenchmarkKey
from engine.run_comparison.reading.series import Direction, Series
from engine.run_comparison.runs.directions import directions_of
from engine.run_comparison.runs.measurements import Ints, Measurements, MetricKey, own_name
from engine.run_comparison.runs.pooling import Pool

_NAMING = ("test", "verb", "resource", "subresource", "scope", "bucket")


@dataclass(frozen=True, slots=True, eq=False)
class RowNames:
    """Names of rows, and how they hang together with the benchmark tool's keys.

    ``columns``: text columns of the metrics table. ``directions``: ``lower`` or ``higher`` per row. The first ``metrics``
    rows are metrics; the rest are the tool's pools of several metrics, whose rows in its own pool are ``pools``.
    ``key_of``: the tool's key that each row goes into, -1 without one.
    """

    columns: dict[str, pl.Series]
    directions: list[str]
    metrics: int
    pools: Ints
    key_of: Ints


def name_metrics(
    pooled: Pool[MetricKey],
    pool: Pool[BenchmarkKey],
    measurements: Measurements,
    stated: Sequence[Direction],
    rules: Sequence[str],
    *,
    with_pools: bool,
) -> RowNames:
    """Name metrics as the benchmark tool does where a metric alone makes up one of its keys, else as their report does.

    ``stated``, ``rules``: directions from files and from the operator. ``with_pools``: append a row for each key of the
    tool that several metrics go into.
    """
    row_of = {key: row for row, key in enumerate(pooled.keys)}
    table = measurements.table
    key_of = np.full(len(pooled.keys), -1, dtype=np.int64)
    members_of: list[list[int]] = []
    keys_of_row: dict[int, set[int]] = defaultdict(set)
    for number, codes in enumerate(pool.codes):
        metrics = (table.keys[table.key_of[code]] for code in codes)
        members = sorted({row_of[metric] for metric in metrics if metric in row_of})
        members_of.append(members)
        for row in members:
            key_of[row] = number
            keys_of_row[row].add(number)
    names: list[tuple[str, ...]] = []
    for row, key in enumerate(pooled.keys):
        number = int(key_of[row])
        alone = number >= 0 and len(members_of[number]) == 1 and len(keys_of_row[row]) == 1
        names.append(pool.keys[number] if alone else own_name(key))
    pools = [number for number, members in enumerate(members_of) if with_pools and len(members) > 1]
    keys = [*pooled.keys, *(_key_of_pool(pool, number, measurements) for number in pools)]
    names += [pool.keys[number] for number in pools]
    directions = directions_of(keys, stated, rules)
    rows = np.array(pools, dtype=np.int64)
    return RowNames(
        _columns(names, keys, directions), directions, len(pooled.keys), rows, np.concatenate([key_of, rows])
    )


def name_keys(pool: Pool[BenchmarkKey], measurements: Measurements, rules: Sequence[str]) -> RowNames:
    """Name the benchmark tool's keys. ``rules``: the operator's directions."""
    firsts = [_first_series(measurements, codes) for codes in pool.codes]
    keys = [MetricKey(*series[:6], "", series.bucket, series.unit) for series in firsts]
    directions = directions_of([MetricKey(*series[:8], series.unit) for series in firsts], (), rules)
    numbers = np.arange(len(keys))
    return RowNames(_columns(pool.keys, keys, directions), directions, len(keys), numbers[:0], numbers)


def _key_of_pool(pool: Pool[BenchmarkKey], number: int, measurements: Measurements) -> MetricKey:
    first = _first_series(measurements, pool.codes[number])
    return MetricKey(*first[:6], "", pool.keys[number].bucket, first.unit)


def _first_series(measurements: Measurements, codes: Iterable[int]) -> Series:
    """Return the first by name of the series behind a key, so that it does not depend on their order of arrival."""
    return min(measurements.table.series[code] for code in codes)


def _columns(
    names: Sequence[tuple[str, ...]], keys: Sequence[MetricKey], directions: list[str]
) -> dict[str, pl.Series]:
    columns = {name: [row[i] for row in names] for i, name in enumerate(_NAMING)}
    for name in ("unit", "kind", "metric"):
        columns[name] = [getattr(key, name) for key in keys]
    columns["direction"] = directions
    return {name: pl.Series(name, values, dtype=pl.String) for name, values in columns.items()}
