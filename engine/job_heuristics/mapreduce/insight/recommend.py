"""Recommended settings of MapReduce jobs, and what each would save."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.advice import LEAST_MB, STEP_MB, Advice, Setting, frame_of, passed
from engine.job_heuristics.dr_elephant.gates import MINUTE, Array, amount
from engine.job_heuristics.dr_elephant.side_stats import Segments, truncated
from engine.job_heuristics.mapreduce.insight.whatif import COPY_BYTES_PER_MS, START_MOST_MS, START_MS
from engine.job_heuristics.mapreduce.model.arrays import TaskArrays, filled
from engine.job_heuristics.mapreduce.model.job_conf import MEMORY, SLOW_START, SPLIT_MOST
from engine.job_heuristics.mapreduce.model.model import MB, Model, number
from engine.job_heuristics.mapreduce.rules.heuristics import MapReduceRules

IDEAL_MS = 7.5 * MINUTE  # target run time of a task, ms: the middle of 5 to 10 minutes
SORT_MB_MOST = 2047  # largest sort buffer, MB, that Hadoop allows
DISK_BYTES_PER_MS = 100 * MB / 1000
"""Assumed speed of a local disk: Dr. Elephant's constant of 100 MB/s, as bytes per ms."""
BYTES_PER_REDUCER = 4 * 2**30  # most bytes that a reducer should merge


SORT_MB = "mapreduce.task.io.sort.mb"
SPLIT_LEAST = "mapreduce.input.fileinputformat.split.minsize"
REDUCES = "mapreduce.job.reduces"


def _unstated(key: str) -> Callable[[Any], str]:
    """Return why a size in use is not known: a job without its configuration has Dr. Elephant's assumption only."""
    return lambda job: "" if job[1].get(key) else "the job's configuration, which states the size, is not in the data"


def _partial(side: str) -> Callable[[Any], str]:
    """Return that not all tasks of a side have ended, so that neither their number nor their bytes are known."""

    def words(job: Any) -> str:
        row = job[0]
        ended, planned = row[f"{side}s_finished"] or 0, row[f"{side}s"] or 0
        whole = row["state"] == "SUCCEEDED" or ended >= planned
        return "" if whole else f"only {ended:,} of {planned:,} {side} tasks have ended"

    return words


SETTINGS: Mapping[str, Setting] = {
    **{key: Setting(idle=_unstated(key), least=LEAST_MB) for key in MEMORY.values()},
    **{key: Setting(idle=_partial("map"), least=1) for key in (SPLIT_LEAST, SPLIT_MOST)},
    REDUCES: Setting(idle=_partial("reduce"), least=1),
    SLOW_START: Setting(idle=_partial("map"), default=lambda job: "0.05", least=0),
    SORT_MB: Setting(default=lambda job: "100", least=1),
}
"""The properties that advice on MapReduce jobs names; they take a row of ``Stats`` and the properties of the job."""


def used_mb_s(row: Mapping[str, Any]) -> float:
    """Return MB s that the job's tasks used."""
    return float(
        (row["map_memory_mb"] or 0) * (row["map_seconds"] or 0)
        + (row["reduce_memory_mb"] or 0) * (row["reduce_seconds"] or 0)
    )


def advise(row: Mapping[str, Any], conf: Mapping[str, str], rules: MapReduceRules, headroom: float) -> list[Advice]:
    """Return the recommendations for one job from its row of ``Stats`` and its properties, most saving first."""
    advice: list[Advice | None] = [
        _container(row, side, word, rules, headroom)
        for side, word in (("map", "Mapper"), ("reduce", "Reducer"))
        if row[f"{side}_n"] and not row["uberized"]
    ]
    if row["map_n"]:
        advice += [_splits(row, conf, rules), _sort_buffer(row, conf, rules)]
    if row["reduce_n"]:
        advice += [_reducer_count(row, rules), _slow_start(row, conf, rules)]
    found = passed([each for each in advice if each is not None], SETTINGS, conf, (row, conf))
    return sorted(found, key=lambda a: (-a.saving_mb_s, a.wait_change_ms, a.key))


def _container(row: Mapping[str, Any], side: str, word: str, rules: MapReduceRules, headroom: float) -> Advice | None:
    """Recommend smaller containers, from the peak memory of the tasks."""
    current, peak, peak99 = int(row[f"{side}_memory_mb"]), row[f"{side}_peak"], row[f"{side}_peak99"]
    if peak <= 0 or current <= 0:
        return None  # memory was not measured
    wanted = math.ceil(max(peak99 / MB * headroom, peak / MB * 1.1, LEAST_MB) / STEP_MB) * STEP_MB
    if wanted > 0.9 * current:
        return None
    saving = float((current - wanted) * int(row[f"{side}_seconds"]))
    if saving <= 0:
        return None
    pmem, memory = float(row[f"{side}_pmem"]), rules.by_heuristic[f"{word} Memory"]
    plural = "maps" if side == "map" else "reducers"
    return Advice(
        f"{side} container",
        f"mapreduce.{side}.memory.mb",
        str(wanted),
        str(current),
        saving,
        0,
        f"{word} Memory",
        memory.level(n=1, avg_physical_bytes=pmem, container_mb=current),
        memory.level(n=1, avg_physical_bytes=pmem, container_mb=wanted),
        f"99% of the {row[f'{side}_n']:,} {plural} stayed below {peak99 / MB:,.0f} MB, the largest reached "
        f"{peak / MB:,.0f} MB, in containers of {current:,} MB. {wanted:,} MB leave {headroom - 1:.0%} head-room "
        f"over the 99%; set mapreduce.{side}.java.opts to -Xmx{int(wanted * 0.8)}m with it.",
    )


def _start_cost(row: Mapping[str, Any], side: str) -> float:
    """Return the fixed ms per task: intercept of time on bytes if they correlate, else START_MS; see ``whatif``."""
    cost, var, corr, n = START_MS, row[f"{side}_var"] or 0.0, row[f"{side}_corr"] or 0.0, row[f"{side}_n"]
    mean_bytes = row[f"{side}_bytes"] / n
    if var > 0 and corr > 0.7:
        cost = row[f"{side}_mean"] - (row[f"{side}_cov"] or 0.0) / var * mean_bytes
    return float(min(max(cost, 0.0), START_MOST_MS, 0.5 * row[f"{side}_least"]))


def _room(slots: float, n: int, wanted: int) -> float:
    """Return the containers for ``wanted`` tasks where ``n`` had ``slots``: more only if all ran at once, as then no
    limit is known."""
    return max(slots, float(wanted)) if n <= 1.2 * slots else slots


def _span(mean: float, n: float, slots: float) -> float:
    """Return the rough ms that ``n`` tasks of ``mean`` ms take on ``slots`` containers."""
    return mean * max(1.0, math.ceil(n / max(1.0, slots)))


def _whole(ms: float) -> int:
    """Return a time as a 64-bit whole number."""
    return int(min(max(ms, -(2.0**62)), 2.0**62))


def _slots(row: Mapping[str, Any], side: str) -> float:
    span = max(1, (row[f"{side}_last"] or 0) - (row[f"{side}_first"] or 0))
    return max(1.0, float(row[f"{side}_mean"]) * float(row[f"{side}_n"]) / span)


def _splits(row: Mapping[str, Any], conf: Mapping[str, str], rules: MapReduceRules) -> Advice | None:
    """Recommend a split size for maps of the ideal run time."""
    n, mean, total_bytes = int(row["map_n"]), float(row["map_mean"]), float(row["map_bytes"])
    time = rules.by_heuristic["Mapper Time"]
    now = time.level(n=n, avg_total_ms=mean)
    if not now or total_bytes <= 0:
        return None
    cost = _start_cost(row, "map")
    work = max(1.0, (mean - cost) * n)
    wanted = max(1, min(100_000, math.ceil(work / max(1.0, IDEAL_MS - cost))))
    if wanted == n:
        return None
    new_mean = cost + work / wanted
    split = math.ceil(total_bytes / wanted / MB) * MB
    larger = wanted < n
    slots = _slots(row, "map")
    wait = _whole(_span(new_mean, wanted, _room(slots, n, wanted)) - _span(mean, n, slots))
    combined = (conf.get("hive.input.format") or "").endswith(
        "CombineHiveInputFormat"
    )  # it fills splits up to the most
    key = SPLIT_LEAST if larger and not combined else SPLIT_MOST
    return Advice(
        "split size",
        key,
        str(split),
        amount(total_bytes / n, "bytes"),
        float(row["map_memory_mb"]) * cost * (n - wanted) / 1000,
        wait,
        "Mapper Time",
        now,
        time.level(n=wanted, avg_total_ms=new_mean),
        f"{n:,} maps ran {amount(mean, 'ms')} on average over {amount(total_bytes / n, 'bytes')} each. Splits of "
        f"{amount(split, 'bytes')} give {wanted:,} maps of about {amount(new_mean, 'ms')}; each start costs about "
        f"{cost / 1000:.1f} s."
        + (" Many small files need CombineFileInputFormat instead." if key == SPLIT_LEAST else ""),
    )


def _reducer_count(row: Mapping[str, Any], rules: MapReduceRules) -> Advice | None:
    """Recommend a number of reducers for the ideal run time."""
    n, mean = int(row["reduce_n"]), float(row["reduce_mean"])
    time = rules.by_heuristic["Reducer Time"]
    now = time.level(n=n, avg_total_ms=mean)
    if not now:
        return None
    idle = min(float(row["idle_ms"] or 0), 0.95 * mean * n)
    cost = min(START_MS, 0.5 * float(row["reduce_least"]))
    work = max(1.0, (mean - cost) * n - idle)
    wanted = max(
        1, math.ceil(work / max(1.0, IDEAL_MS - cost)), math.ceil(float(row["reduce_bytes"]) / BYTES_PER_REDUCER)
    )
    if wanted == n:
        return None
    new_mean = cost + work / wanted + idle / n
    saving = float(row["reduce_memory_mb"]) * (cost + idle / n) * (n - wanted) / 1000
    slots = _slots(row, "reduce")
    return Advice(
        "reducers",
        REDUCES,
        str(wanted),
        str(n),
        saving,
        _whole(_span(cost + work / wanted, wanted, _room(slots, n, wanted)) - _span(cost + work / n, n, slots)),
        "Reducer Time",
        now,
        time.level(n=wanted, avg_total_ms=new_mean),
        f"{n:,} reducers ran {amount(mean, 'ms')} on average, {amount(idle / n, 'ms')} of it before the last map "
        f"had ended. {wanted:,} reducers of {amount(float(row['reduce_bytes']) / wanted, 'bytes')} each would run "
        f"about {amount(new_mean, 'ms')}, if keys divide evenly.",
    )


def _slow_start(row: Mapping[str, Any], conf: Mapping[str, str], rules: MapReduceRules) -> Advice | None:
    """Recommend a later start of reducers that wait for the last map."""
    idle, later, n = float(row["idle_ms"] or 0), float(row["later_ms"] or 0), int(row["reduce_n"])
    if not row["map_n"] or row["slowstart"] is None or later < 60_000 or later < 0.05 * row["reduce_mean"] * n:
        return None
    share = min(1.0, math.floor(float(row["slowstart"]) * 100) / 100)
    current = conf.get(SLOW_START, "0.05")
    if share <= number(conf, SLOW_START, -1):
        return None
    rule = rules.by_heuristic["Shuffle & Sort"]
    shuffle = float(row["reduce_shuffle"])
    code = max(0.0, float(row["reduce_mean"]) - shuffle)

    def level(mean_shuffle: float) -> int:
        return rule.level(avg_shuffle_ms=mean_shuffle, avg_sort_ms=0, avg_code_ms=code)

    return Advice(
        "slow start",
        SLOW_START,
        f"{share:.2f}",
        clean(current, 100),
        float(row["reduce_memory_mb"]) * later / 1000,
        0,
        rule.heuristic.name,
        level(shuffle),
        level(max(0.0, shuffle - later / n)),
        f"The {n:,} reducers waited {amount(idle / n, 'ms')} each for the last map. Copying their largest share "
        f"takes about {amount(float(row['copy_ms'] or 0), 'ms')} at 30 MB/s, so starting them when {share:.0%} of "
        f"the maps are done frees {amount(later / n, 'ms')} of container time each.",
    )


def _sort_buffer(row: Mapping[str, Any], conf: Mapping[str, str], rules: MapReduceRules) -> Advice | None:
    """Recommend a sort buffer that fits a map's output, or smaller splits."""
    spilled, records = float(row["map_spilled"] or 0), float(row["map_records"] or 0)
    if records <= 0 or spilled <= 1.05 * records:
        return None
    q = spilled / records
    n = int(row["map_n"])
    rule = rules.by_heuristic["Mapper Spill"]
    now = rule.level(n=n, sum_spilled_records=spilled, sum_map_output_records=records)
    after = rule.level(n=n, sum_spilled_records=1, sum_map_output_records=1)

    current = number(conf, SORT_MB, 100)
    if not 0 < current < 2**31:
        current = 100
    percent = min(1.0, max(0.1, number(conf, "mapreduce.map.sort.spill.percent", 0.8)))
    # Each record takes 16 bytes of accounting in the same buffer.
    per_map = float(row["map_out95"] or 0) + 16 * float(row["map_records95"] or 0)
    wanted = math.ceil(per_map * 1.1 / percent / MB)
    if wanted <= current and now:
        # Without byte counters, or with repeated spills, estimate from the ratio of spilled records.
        wanted = math.ceil(current * q)
        per_map = wanted * percent * MB / 1.1
    if wanted <= current:
        return None
    wait_per_map = 2 * ((q - 1) * float(row["map_out_bytes"] or 0)) / n / DISK_BYTES_PER_MS
    wait_per_map = min(wait_per_map, 0.5 * float(row["map_mean"]))
    saving = float(row["map_memory_mb"]) * wait_per_map * n / 1000
    if not now and saving < 0.01 * used_mb_s(row):
        return None
    head = (
        f"Maps spilled each record {q:.2f} times; 95% of them write up to {amount(float(row['map_out95']), 'bytes')} "
        f"into a buffer of {current:g} MB."
    )
    most = min(SORT_MB_MOST, 0.5 * float(row["map_memory_mb"]))
    key, value, shown, wait = SORT_MB, str(wanted), f"{current:g}", -_whole(wait_per_map)
    text = f"{wanted:,} MB hold it, so that each record is written once."
    if wanted > most:
        if float(row["map_bytes"]) <= 0:
            return None
        factor = math.ceil(per_map * 1.1 / percent / MB / max(1.0, most))
        split = max(1, math.ceil(float(row["map_bytes"]) / n / factor / MB)) * MB
        key, value, shown, wait = SPLIT_MOST, str(split), amount(float(row["map_bytes"]) / n, "bytes"), 0
        text = (
            f"{wanted:,} MB would be needed, more than a container of {row['map_memory_mb']:,} MB can give: "
            f"splits of {amount(split, 'bytes')} make the output of a map {factor} times smaller."
        )
    return Advice("sort buffer", key, value, shown, saving, wait, rule.heuristic.name, now, after, f"{head} {text}")


_OF_JOBS = (
    "job_id", "state", "map_memory_mb", "reduce_memory_mb", "maps", "maps_finished", "reduces", "reduces_finished",
)  # fmt: skip


class Stats(msgspec.Struct, frozen=True):
    """Input numbers of recommendations. ``sides``: name → one value per job and side (map then reduce), ``n`` being 0
    for missing sides; ``waits``: name → one value per job, and whether it is known."""

    sides: dict[str, Array]
    waits: dict[str, tuple[Array, Array]]

    def rows(self, jobs: pl.DataFrame, at: Array) -> Iterator[dict[str, Any]]:
        """Yield for each job in ``at`` (indices into ``jobs``, JOB_MODEL rows) its numbers by name.

        Numbers of a side are called ``map_*`` and ``reduce_*`` (None for a missing side).
        """
        chosen = jobs if len(at) == jobs.height else jobs[at]
        cells_by_name: dict[str, list[Any]] = {name: chosen[name].to_list() for name in _OF_JOBS}
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
    """Compute the numbers of ``jobs`` (JOB_MODEL rows); ``tasks`` refers to them by index."""
    s = Segments(tasks.side[tasks.timed], jobs.height * 2)
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
    """Compute per job: ``idle_ms`` of all reducers before the last map; the ``slowstart`` share at which copying
    would just complete by the end; and the total ``later_ms`` by which reducers would start later. Unknown without
    reducers; the latter two also without maps."""
    count = s.groups // 2
    maps, reduces = s.size[0::2], s.size[1::2]
    late = (s.segment & 1) == 1
    job = s.segment[late] >> 1
    begun = v["start_ms"][late]
    fetched = begun + v["shuffle_ms"][late]
    last_map = columns["last"][0::2]
    idle = np.maximum(np.where(maps[job] > 0, np.minimum(last_map[job], fetched), fetched) - begun, 0)
    per_job = Segments(job, count)
    most_copy = per_job.largest(truncated(np.ceil(size[late] / COPY_BYTES_PER_MS)), 0)
    # A share s lets reducers start when s of the maps have finished: the first finish after ``begin``.
    of_map, done = s.segment[~late] >> 1, v["finish_ms"][~late]
    early = done <= (last_map - most_copy)[of_map]
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
    """Return RECOMMENDATIONS rows of every job that has ended or has finished tasks, most saving first within a job."""
    jobs = model.jobs
    numbers = stats(jobs, model.arrays[0])
    return frame_of(
        (row["job_id"], used_mb_s(row), advise(row, model.settings[row["job_id"]].advice, rules, headroom))
        for row in numbers.rows(jobs, np.flatnonzero(_worth(jobs, numbers, rules, headroom)))
    )


def _worth(jobs: pl.DataFrame, numbers: Stats, rules: MapReduceRules, headroom: float) -> Array:
    """Preselect, for all jobs at once, those that a rule of ``advise`` may apply to: few do, and ``advise`` is slow."""
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
