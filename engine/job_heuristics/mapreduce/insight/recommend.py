"""Recommendations for all jobs: what to set instead, with the saving it should bring.

Each names the exact property and value, what it should save in MB s and in waiting, and the severity of the verdict it
aims at before and after. The rules are in ``recommendation_rules``; the what-if model (``whatif``) predicts the same for
one job in full detail. See docs/models/job-heuristics.md, "Recommendations".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.advice import LEAST_MB, frame_of
from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.mapreduce.insight.recommendation_rules import advise, used_mb_s
from engine.job_heuristics.mapreduce.insight.whatif import COPY_BYTES_PER_MS
from engine.job_heuristics.mapreduce.model.arrays import TaskArrays, filled
from engine.job_heuristics.mapreduce.model.job_arrays import MB
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceRules
from engine.job_heuristics.mapreduce.rules.side_stats import Segments, truncated


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers of many jobs that recommendations look at. ``sides``: name → one value per job and side (map then reduce), where
    ``n`` tells which sides there are; ``waits``: name → one value per job, and for which jobs it is known."""

    sides: dict[str, Array]
    waits: dict[str, tuple[Array, Array]]

    def rows(self, jobs: pl.DataFrame, at: Array) -> Iterator[dict[str, Any]]:
        """Yield for each of the jobs ``at`` (places in ``jobs``, JOB_MODEL rows) its numbers by name, those of its sides as
        ``map_*`` and ``reduce_*``; None where there is no such side."""
        chosen = jobs if len(at) == jobs.height else jobs[at]
        cells_by_name: dict[str, list[Any]] = {
            name: chosen[name].to_list() for name in ("job_id", "map_memory_mb", "reduce_memory_mb")
        }
        cells_by_name["uberized"] = [bool(value) for value in chosen["uberized"].to_list()]
        for first, side in enumerate(("map", "reduce")):
            there = (self.sides["n"][first::2][at] > 0).tolist()
            for name, values in self.sides.items():
                pairs = zip(there, values[first::2][at].tolist(), strict=True)
                cells_by_name[f"{side}_{name}"] = [value if is_there else None for is_there, value in pairs]
        for name, (values, is_known) in self.waits.items():
            pairs = zip(is_known[at].tolist(), values[at].tolist(), strict=True)
            cells_by_name[name] = [value if is_there else None for is_there, value in pairs]
        for cells in zip(*cells_by_name.values(), strict=True):
            yield dict(zip(cells_by_name, cells, strict=True))


def stats(jobs: pl.DataFrame, tasks: TaskArrays) -> Stats:
    """Compute what recommendations need of ``jobs`` (JOB_MODEL rows); ``tasks`` counts in their order."""
    count = jobs.height
    s = Segments(tasks.side[tasks.timed], count * 2)
    v = tasks.numbers
    size = np.where((s.segment & 1) == 0, v["input_bytes"], v["reduce_shuffle_bytes"])
    total = v["total_ms"]
    columns: dict[str, Array] = {
        "n": s.size,
        "mean": s.mean(total),
        "least": s.smallest(total, 0),
        "seconds": s.whole(total // 1000),
        "bytes": s.sum(size),
        "pmem": s.mean(v["physical_bytes"]),
        "peak99": s.quantile(v["peak"], 0.99),
        "peak": s.largest(v["peak"], 0),
        "spilled": s.whole(v["spilled_records"]),
        "records": s.whole(v["map_output_records"]),
        "out_bytes": s.whole(v["map_output_bytes"]),
        "out95": s.quantile(v["map_output_bytes"], 0.95),
        "records95": s.quantile(v["map_output_records"], 0.95),
        "shuffle": s.mean(v["shuffle_ms"]),
        "last": s.largest(v["finish_ms"], 0),
        "first": s.smallest(v["start_ms"], 0),
        **_together(s, size, total),
    }
    return Stats(columns, _reducers(v, s, size, columns))


def _together(s: Segments, x: Array, y: Array) -> dict[str, Array]:
    """Compute the covariance (``cov``), correlation (``corr``) and variance of ``x`` (``var``) per segment; NaN or
    infinite below two rows, ``corr`` also without spread."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        dx = x - (s.sum(x) / s.size)[s.segment]
        dy = y - (s.sum(y) / s.size)[s.segment]
        xx, yy, xy = s.sum(dx * dx), s.sum(dy * dy), s.sum(dx * dy)
        return {"cov": xy / (s.size - 1), "corr": xy / np.sqrt(xx * yy), "var": xx / (s.size - 1)}


def _reducers(
    v: Mapping[str, Array], s: Segments, size: Array, columns: Mapping[str, Array]
) -> dict[str, tuple[Array, Array]]:
    """Compute per job: ``idle_ms`` of all reducers before the last map, the ``slowstart`` share at which the maps had
    got so far that copying would just be done by the end, and the ``later_ms`` sum by which reducers would start later.
    Not known of jobs without reducers; ``slowstart`` and ``later_ms`` also without maps."""
    count = s.groups // 2
    maps, reduces = s.size[0::2], s.size[1::2]
    late = (s.segment & 1) == 1
    job = s.segment[late] >> 1
    begun = v["start_ms"][late]
    fetched = begun + v["shuffle_ms"][late]
    last_map = columns["last"][0::2]
    idle = np.maximum(np.where(maps[job] > 0, np.minimum(last_map[job], fetched), fetched) - begun, 0)
    copy = truncated(np.ceil(size[late] / COPY_BYTES_PER_MS))
    per_job = Segments(job, count)
    most_copy = per_job.largest(copy, 0)
    # A share s lets reducers start when s of the maps have finished: the first finish after ``begin``.
    begin = last_map - most_copy
    of_map, done = s.segment[~late] >> 1, v["finish_ms"][~late]
    early = done <= begin[of_map]
    before = np.bincount(of_map[early], minlength=count)
    after = Segments(of_map[~early], count)
    starts = after.smallest(done[~early], 0)
    later = np.where(after.size[job] > 0, np.minimum(np.maximum(starts[job] - begun, 0), idle), idle)
    both = (maps > 0) & (reduces > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (before + 1) / maps

    return {
        "idle_ms": (per_job.whole(idle), reduces > 0),
        "copy_ms": (most_copy, reduces > 0),
        "slowstart": (share, both),
        "later_ms": (per_job.whole(later), both),
    }


def recommendations(model: Model, rules: MapReduceRules, headroom: float = 1.5) -> pl.DataFrame:
    """Return the rows of ``RECOMMENDATIONS`` for every job that has ended or has finished tasks; most saving first
    within a job."""
    jobs = model.jobs
    numbers = stats(jobs, model.arrays[0])
    rows = numbers.rows(jobs, np.flatnonzero(_worth(jobs, numbers, rules, headroom)))
    return frame_of(
        (row["job_id"], used_mb_s(row), advise(row, model.settings[row["job_id"]].advice, rules, headroom))
        for row in rows
    )


def savings(frame: pl.DataFrame) -> dict[str, float]:
    """Return per job what its recommendations save together, MB s; jobs without one are absent."""
    saved: dict[str, float] = {}
    for job, saving in zip(frame["job_id"].to_list(), frame["saving_mb_s"].to_list(), strict=True):
        saved[job] = saved.get(job, 0.0) + max(saving, 0.0)
    return saved


def _worth(jobs: pl.DataFrame, numbers: Stats, rules: MapReduceRules, headroom: float) -> Array:
    """Return the jobs that a rule of ``advise`` may apply to, by its first condition, of all jobs at once: for most jobs
    none does, and calling ``advise`` for each takes much longer."""
    there = numbers.sides["n"] > 0
    worth = np.zeros(len(there) // 2, dtype=bool)
    for side, word in enumerate(("Mapper", "Reducer")):
        n, mean, peak, peak99 = (numbers.sides[name][side::2] for name in ("n", "mean", "peak", "peak99"))
        container = filled(jobs[("map_memory_mb", "reduce_memory_mb")[side]], 0)
        need = np.maximum(np.maximum(peak99 / MB * headroom, peak / MB * 1.1), LEAST_MB)
        time = rules.by_heuristic[f"{word} Time"].levels({"n": n, "avg_total_ms": mean})
        worth |= there[side::2] & ((need <= 0.9 * container) | (time > 0))
    spilled, records = numbers.sides["spilled"][0::2], numbers.sides["records"][0::2]
    worth |= (records > 0) & (spilled > 1.05 * records)
    later, is_known = numbers.waits["later_ms"]
    return worth | (is_known & (later >= 60_000))
