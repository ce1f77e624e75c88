"""What to set instead, with the saving it should bring: for every job from per-side aggregates, in plain words.

Each recommendation names the exact property and value, what it should save in MB s and in waiting, and the severity of
the verdict it aims at before and after. The what-if model (``whatif``) predicts the same for one job in full detail.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.side_stats import Segments, truncated
from engine.job_heuristics.insight import severity_rules
from engine.job_heuristics.insight.decision import amount
from engine.job_heuristics.insight.job_arrays import MB
from engine.job_heuristics.insight.severity_rules import MINUTE
from engine.job_heuristics.insight.whatif import COPY_BYTES_PER_MS, START_MOST_MS, START_MS
from engine.job_heuristics.insight_tables import RECOMMENDATIONS
from engine.job_heuristics.model.arrays import Array, TaskArrays, filled
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.tables import SEVERITIES

IDEAL_MS = 7.5 * MINUTE
"""Middle of the 5 to 10 minutes that a task should run."""
STEP_MB = 128
LEAST_MB = 512
SORT_MB_MOST = 2047
DISK_BYTES_PER_MS = 100 * MB / 1000
"""Assumed local disk: upstream's constant of 100 MiB/s."""
BYTES_PER_REDUCER = 4 * 2**30
"""Most shuffle bytes a reducer should merge."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What recommendations need of many jobs. ``sides``: name → one value per job and side (map then reduce), where
    ``n`` tells which sides there are; ``waits``: name → one value per job, and for which jobs it is known."""

    sides: dict[str, Array]
    waits: dict[str, tuple[Array, Array]]

    def rows(self, jobs: pl.DataFrame, at: Array) -> Iterator[dict[str, Any]]:
        """By name, of each of the jobs ``at`` (places in ``jobs``, JOB_MODEL rows) what is needed, of its sides as
        ``map_*`` and ``reduce_*``; None where there is no such side."""
        chosen = jobs if len(at) == jobs.height else jobs[at]
        found: dict[str, list[Any]] = {
            name: chosen[name].to_list() for name in ("job_id", "map_memory_mb", "reduce_memory_mb")
        }
        found["uberized"] = [bool(value) for value in chosen["uberized"].to_list()]
        for first, side in enumerate(("map", "reduce")):
            there = (self.sides["n"][first::2][at] > 0).tolist()
            for name, values in self.sides.items():
                kept = zip(there, values[first::2][at].tolist(), strict=True)
                found[f"{side}_{name}"] = [value if given else None for given, value in kept]
        for name, (values, known) in self.waits.items():
            kept = zip(known[at].tolist(), values[at].tolist(), strict=True)
            found[name] = [value if given else None for given, value in kept]
        for cells in zip(*found.values(), strict=True):
            yield dict(zip(found, cells, strict=True))


def stats(jobs: pl.DataFrame, tasks: TaskArrays) -> Stats:
    """What recommendations need of the jobs of ``jobs`` (JOB_MODEL rows); ``tasks`` counts in their order."""
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
    """Covariance (``cov``), correlation (``corr``) and variance of ``x`` (``var``) per segment; NaN or infinite below
    two rows, ``corr`` also without spread."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        dx = x - (s.sum(x) / s.size)[s.segment]
        dy = y - (s.sum(y) / s.size)[s.segment]
        xx, yy, xy = s.sum(dx * dx), s.sum(dy * dy), s.sum(dx * dy)
        return {"cov": xy / (s.size - 1), "corr": xy / np.sqrt(xx * yy), "var": xx / (s.size - 1)}


def _reducers(
    v: Mapping[str, Array], s: Segments, size: Array, columns: Mapping[str, Array]
) -> dict[str, tuple[Array, Array]]:
    """Per job: ``idle_ms`` of all reducers before the last map, the ``slowstart`` share at which the maps had got so
    far that copying would just be done by the end, and the ``later_ms`` sum by which reducers would start later. Not
    known of jobs without reducers; ``slowstart`` and ``later_ms`` also without maps."""
    count = s.count // 2
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


@dataclass(frozen=True, slots=True)
class Advice:
    """One recommendation of one job (columns of ``RECOMMENDATIONS``)."""

    topic: str
    key: str
    value: str
    current: str
    saving_mb_s: float
    wait_change_ms: int
    heuristic: str
    now: int
    after: int
    text: str


def recommendations(model: Model, limits: severity_rules.Limits, headroom: float = 1.5) -> pl.DataFrame:
    """Rows of ``RECOMMENDATIONS`` for every job that has ended or has finished tasks; most saving first within a job."""
    conf = {job: settings.advice for job, settings in model.settings.items()}
    return advised(model.jobs, model.arrays[0], conf, limits, headroom)


def advised(
    jobs: pl.DataFrame,
    tasks: TaskArrays,
    conf: Mapping[str, Mapping[str, str]],
    limits: severity_rules.Limits,
    headroom: float = 1.5,
) -> pl.DataFrame:
    """``recommendations`` of the jobs of ``jobs``, in their order; ``conf`` per job as ``job_conf.Settings.advice`` gives it."""
    columns: dict[str, list[Any]] = {name: [] for name in RECOMMENDATIONS.schema}
    found = stats(jobs, tasks)
    for row in found.rows(jobs, np.flatnonzero(_worth(jobs, found, limits, headroom))):
        used = _used(row)
        for rank, one in enumerate(advise(row, conf.get(row["job_id"], {}), limits, headroom), 1):
            cells = (
                row["job_id"], rank, one.topic, one.key, one.value, one.current, one.saving_mb_s,
                100 * one.saving_mb_s / used if used else None, one.wait_change_ms, one.heuristic,
                SEVERITIES[one.now], SEVERITIES[one.after], one.text,
            )  # fmt: skip
            for column, cell in zip(columns.values(), cells, strict=True):
                column.append(cell)
    return RECOMMENDATIONS.frame(columns)


def savings(frame: pl.DataFrame) -> dict[str, float]:
    """Per job what its recommendations save together, MB s; jobs without one are absent."""
    found: dict[str, float] = {}
    for job, saving in zip(frame["job_id"].to_list(), frame["saving_mb_s"].to_list(), strict=True):
        found[job] = found.get(job, 0.0) + max(saving, 0.0)
    return found


def _used(row: Mapping[str, Any]) -> float:
    return float(
        (row["map_memory_mb"] or 0) * (row["map_seconds"] or 0)
        + (row["reduce_memory_mb"] or 0) * (row["reduce_seconds"] or 0)
    )


def _worth(jobs: pl.DataFrame, found: Stats, limits: severity_rules.Limits, headroom: float) -> Array:
    """The jobs that ``advise`` may have something to say about: all of which its first questions hold. Of most jobs none
    does, and asking all of them at once takes a fraction of the time."""
    there = found.sides["n"] > 0
    worth = np.zeros(len(there) // 2, dtype=bool)
    for side, word in enumerate(("Mapper", "Reducer")):
        n, mean, peak, peak99 = (found.sides[name][side::2] for name in ("n", "mean", "peak", "peak99"))
        container = filled(jobs[("map_memory_mb", "reduce_memory_mb")[side]], 0)
        need = np.maximum(np.maximum(peak99 / MB * headroom, peak / MB * 1.1), LEAST_MB)
        short, long, many = (
            limits[f"{word} Time", key]
            for key in ("short_runtime_severity_in_min", "long_runtime_severity_in_min", "num_tasks_severity")
        )
        timely = _any(mean, short, rising=False) & _any(n, many, rising=True) | _any(mean, long, rising=True)
        worth |= there[side::2] & ((need <= 0.9 * container) | timely)
    spilled, records = found.sides["spilled"][0::2], found.sides["records"][0::2]
    worth |= (records > 0) & (spilled > 1.05 * records)
    later, known = found.waits["later_ms"]
    return worth | (known & (later >= 60_000))


def _any(values: Array, limits: tuple[float, ...], *, rising: bool) -> Array:
    """Where ``_level`` is not 0."""
    found: Array = np.logical_or.reduce([values >= limit if rising else values <= limit for limit in limits])
    return found


def advise(
    row: Mapping[str, Any], conf: Mapping[str, str], limits: severity_rules.Limits, headroom: float
) -> list[Advice]:
    """What to change in one job, from its row of ``stats`` and the conf keys it depends on; most saving first."""
    found: list[Advice] = []
    if not row["uberized"]:
        for side, word in (("map", "Mapper"), ("reduce", "Reducer")):
            if row[f"{side}_n"]:
                _container(found, row, side, word, limits, headroom)
    if row["map_n"]:
        _splits(found, row, limits)
        _sort_buffer(found, row, conf, limits)
    if row["reduce_n"]:
        _reducer_count(found, row, limits)
        _slow_start(found, row, conf, limits)
    return sorted(found, key=lambda a: (-a.saving_mb_s, a.wait_change_ms, a.key))


def _level(value: float, limits: tuple[float, ...], rising: bool) -> int:
    found = 0
    for k, limit in enumerate(limits, 1):
        if value >= limit if rising else value <= limit:
            found = k
    return found


def _memory_level(word: str, pmem: float, mb: int, limits: severity_rules.Limits) -> int:
    name = f"{word} Memory"
    return min(
        _level(pmem / (mb * MB), limits[name, "memory_ratio_severity"], False),
        _level(mb * MB, limits[name, "container_memory_severity"], True),
    )


def _time_level(word: str, mean: float, n: int, limits: severity_rules.Limits) -> int:
    name = f"{word} Time"
    return max(
        min(
            _level(mean, limits[name, "short_runtime_severity_in_min"], False),
            _level(n, limits[name, "num_tasks_severity"], True),
        ),
        _level(mean, limits[name, "long_runtime_severity_in_min"], True),
    )


def _container(
    found: list[Advice], row: Mapping[str, Any], side: str, word: str, limits: severity_rules.Limits, headroom: float
) -> None:
    current, peak, peak99 = int(row[f"{side}_memory_mb"]), row[f"{side}_peak"], row[f"{side}_peak99"]
    if not peak or current <= 0:
        return  # memory was not measured: nothing can be said
    need = max(peak99 / MB * headroom, peak / MB * 1.1, LEAST_MB)
    wanted = math.ceil(need / STEP_MB) * STEP_MB
    if wanted > 0.9 * current:
        return
    seconds = int(row[f"{side}_seconds"])
    saving = float((current - wanted) * seconds)
    if saving <= 0:
        return
    pmem = float(row[f"{side}_pmem"])
    plural = "maps" if side == "map" else "reducers"
    found.append(
        Advice(
            f"{side} container",
            f"mapreduce.{side}.memory.mb",
            str(wanted),
            str(current),
            saving,
            0,
            f"{word} Memory",
            _memory_level(word, pmem, current, limits),
            _memory_level(word, pmem, wanted, limits),
            f"99 % of the {row[f'{side}_n']:,} {plural} stayed below {peak99 / MB:,.0f} MB, the largest reached "
            f"{peak / MB:,.0f} MB, in containers of {current:,} MB. {wanted:,} MB leave {headroom - 1:.0%} head-room "
            f"over the 99 %; set mapreduce.{side}.java.opts to -Xmx{int(wanted * 0.8)}m with it.",
        )
    )


def _start_cost(row: Mapping[str, Any], side: str) -> float:
    """Fixed ms per task: intercept of time on bytes where they go together, else START_MS; see ``whatif``."""
    cost, var, corr, n = START_MS, row[f"{side}_var"] or 0.0, row[f"{side}_corr"] or 0.0, row[f"{side}_n"]
    mean_bytes = row[f"{side}_bytes"] / n
    if var > 0 and corr > 0.7:
        cost = row[f"{side}_mean"] - (row[f"{side}_cov"] or 0.0) / var * mean_bytes
    return float(min(max(cost, 0.0), START_MOST_MS, 0.5 * row[f"{side}_least"]))


def _room(slots: float, n: int, wanted: int) -> float:
    """Containers for ``wanted`` tasks where ``n`` had ``slots``: more only where all ran at once, so that no limit is known."""
    return max(slots, float(wanted)) if n <= 1.2 * slots else slots


def _span(mean: float, n: float, slots: float) -> float:
    """Rough ms that ``n`` tasks of ``mean`` ms take on ``slots`` containers."""
    return mean * max(1.0, math.ceil(n / max(1.0, slots)))


def _slots(row: Mapping[str, Any], side: str) -> float:
    span = max(1, (row[f"{side}_last"] or 0) - (row[f"{side}_first"] or 0))
    return max(1.0, float(row[f"{side}_mean"]) * float(row[f"{side}_n"]) / span)


def _splits(found: list[Advice], row: Mapping[str, Any], limits: severity_rules.Limits) -> None:
    n, mean, total_bytes = int(row["map_n"]), float(row["map_mean"]), float(row["map_bytes"])
    now = _time_level("Mapper", mean, n, limits)
    if not now or total_bytes <= 0:
        return
    cost = _start_cost(row, "map")
    work = max(1.0, (mean - cost) * n)
    wanted = max(1, min(100_000, math.ceil(work / max(1.0, IDEAL_MS - cost))))
    if wanted == n:
        return
    new_mean = cost + work / wanted
    split = math.ceil(total_bytes / wanted / MB) * MB
    larger = wanted < n
    slots = _slots(row, "map")
    wait = int(_span(new_mean, wanted, _room(slots, n, wanted)) - _span(mean, n, slots))
    key = f"mapreduce.input.fileinputformat.split.{'minsize' if larger else 'maxsize'}"
    found.append(
        Advice(
            "split size",
            key,
            str(split),
            amount(total_bytes / n, "bytes"),
            float(row["map_memory_mb"]) * cost * (n - wanted) / 1000,
            wait,
            "Mapper Time",
            now,
            _time_level("Mapper", new_mean, wanted, limits),
            f"{n:,} maps ran {amount(mean, 'ms')} on average over {amount(total_bytes / n, 'bytes')} each. Splits of "
            f"{amount(split, 'bytes')} give {wanted:,} maps of about {amount(new_mean, 'ms')}; each start costs about "
            f"{cost / 1000:.1f} s." + (" Many small files need CombineFileInputFormat instead." if larger else ""),
        )
    )


def _reducer_count(found: list[Advice], row: Mapping[str, Any], limits: severity_rules.Limits) -> None:
    n, mean = int(row["reduce_n"]), float(row["reduce_mean"])
    now = _time_level("Reducer", mean, n, limits)
    if not now:
        return
    idle = min(float(row["idle_ms"] or 0), 0.95 * mean * n)
    cost = min(START_MS, 0.5 * float(row["reduce_least"]))
    work = max(1.0, (mean - cost) * n - idle)
    by_time = math.ceil(work / max(1.0, IDEAL_MS - cost))
    wanted = max(1, by_time, math.ceil(float(row["reduce_bytes"]) / BYTES_PER_REDUCER))
    if wanted == n:
        return
    new_mean = cost + work / wanted + idle / n
    saving = float(row["reduce_memory_mb"]) * (cost + idle / n) * (n - wanted) / 1000
    slots = _slots(row, "reduce")
    found.append(
        Advice(
            "reducers",
            "mapreduce.job.reduces",
            str(wanted),
            str(n),
            saving,
            int(_span(cost + work / wanted, wanted, _room(slots, n, wanted)) - _span(cost + work / n, n, slots)),
            "Reducer Time",
            now,
            _time_level("Reducer", new_mean, wanted, limits),
            f"{n:,} reducers ran {amount(mean, 'ms')} on average, {amount(idle / n, 'ms')} of it before the last map "
            f"had ended. {wanted:,} reducers of {amount(float(row['reduce_bytes']) / wanted, 'bytes')} each would run "
            f"about {amount(new_mean, 'ms')}, if keys divide evenly.",
        )
    )


def _slow_start(
    found: list[Advice], row: Mapping[str, Any], conf: Mapping[str, str], limits: severity_rules.Limits
) -> None:
    idle, later, n = float(row["idle_ms"] or 0), float(row["later_ms"] or 0), int(row["reduce_n"])
    if not row["map_n"] or row["slowstart"] is None or later < 60_000 or later < 0.05 * row["reduce_mean"] * n:
        return
    share = min(1.0, math.floor(float(row["slowstart"]) * 100) / 100)
    current = conf.get("mapreduce.job.reduce.slowstart.completedmaps", "0.05")
    try:
        if share <= float(current):
            return
    except ValueError:
        pass
    name = "Shuffle & Sort"
    runs = limits[name, "runtime_severity_in_min"]
    ratio = limits[name, "runtime_ratio_severity"]
    shuffle = float(row["reduce_shuffle"])
    code = max(0.0, float(row["reduce_mean"]) - shuffle)

    def level(x: float) -> int:
        a = _level(x, runs, True)
        return a if code <= 0 else min(a, _level((2 * x) // code, ratio, True))

    found.append(
        Advice(
            "slow start",
            "mapreduce.job.reduce.slowstart.completedmaps",
            f"{share:.2f}",
            current,
            float(row["reduce_memory_mb"]) * later / 1000,
            0,
            name,
            level(shuffle),
            level(max(0.0, shuffle - later / n)),
            f"The {n:,} reducers waited {amount(idle / n, 'ms')} each for the last map. Copying their largest share "
            f"takes about {amount(float(row['copy_ms'] or 0), 'ms')} at 30 MB/s, so starting them when {share:.0%} of "
            f"the maps are done frees {amount(later / n, 'ms')} of container time each.",
        )
    )


def _sort_buffer(
    found: list[Advice], row: Mapping[str, Any], conf: Mapping[str, str], limits: severity_rules.Limits
) -> None:
    spilled, records = float(row["map_spilled"] or 0), float(row["map_records"] or 0)
    if records <= 0 or spilled <= 1.05 * records:
        return
    q = spilled / records
    n = int(row["map_n"])
    name = "Mapper Spill"

    def level(value: float) -> int:
        return min(
            _level(math.trunc(value * 10_000), tuple(x * 10_000 for x in limits[name, "spill_severity"]), True),
            _level(n, limits[name, "num_tasks_severity"], True),
        )

    def conf_number(key: str, default: float) -> float:
        try:
            return float(conf.get(key, str(default)))
        except ValueError:
            return default

    current = conf_number("mapreduce.task.io.sort.mb", 100)
    percent = min(1.0, max(0.1, conf_number("mapreduce.map.sort.spill.percent", 0.8)))
    # Each record takes 16 bytes of accounting in the same buffer.
    per_map = float(row["map_out95"] or 0) + 16 * float(row["map_records95"] or 0)
    wanted = math.ceil(per_map * 1.1 / percent / MB)
    if wanted <= current and level(q):
        # Bytes are not counted, or merging spilled again: as many times the buffer as records were spilled.
        wanted = math.ceil(current * q)
        per_map = wanted * percent * MB / 1.1
    if wanted <= current:
        return
    bytes_again = (q - 1) * float(row["map_out_bytes"] or 0)
    wait_per_map = 2 * bytes_again / n / DISK_BYTES_PER_MS
    wait_per_map = min(wait_per_map, 0.5 * float(row["map_mean"]))
    saving = float(row["map_memory_mb"]) * wait_per_map * n / 1000
    if not level(q) and saving < 0.01 * _used(row):
        return
    head = (
        f"Maps spilled each record {q:.2f} times; 95 % of them write up to {amount(float(row['map_out95']), 'bytes')} "
        f"into a buffer of {current:g} MB."
    )
    if wanted <= min(SORT_MB_MOST, 0.5 * float(row["map_memory_mb"])):
        found.append(
            Advice(
                "sort buffer", "mapreduce.task.io.sort.mb", str(wanted), f"{current:g}", saving, -int(wait_per_map),
                name, level(q), level(1.0), f"{head} {wanted:,} MB hold it, so that each record is written once.",
            )
        )  # fmt: skip
        return
    factor = math.ceil(per_map * 1.1 / percent / MB / max(1.0, min(SORT_MB_MOST, 0.5 * float(row["map_memory_mb"]))))
    if float(row["map_bytes"]) <= 0:
        return
    split = max(1, math.ceil(float(row["map_bytes"]) / n / factor / MB)) * MB
    found.append(
        Advice(
            "sort buffer", "mapreduce.input.fileinputformat.split.maxsize", str(split),
            amount(float(row["map_bytes"]) / n, "bytes"), saving, 0, name, level(q), level(1.0),
            f"{head} {wanted:,} MB would be needed, more than a container of {row['map_memory_mb']:,} MB can give: "
            f"splits of {amount(split, 'bytes')} make the output of a map {factor} times smaller.",
        )
    )  # fmt: skip
