"""The rules of recommendations, one job at a time, in plain words: containers, splits, reducers, slow start, sort buffer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engine.core.text import clean
from engine.job_heuristics.dr_elephant.advice import LEAST_MB, STEP_MB, Advice
from engine.job_heuristics.dr_elephant.gates import MINUTE, amount
from engine.job_heuristics.mapreduce.insight.whatif import START_MOST_MS, START_MS
from engine.job_heuristics.mapreduce.model.job_arrays import MB, number
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceRules

IDEAL_MS = 7.5 * MINUTE
"""Run time, ms, that a task should have: the middle of 5 to 10 minutes."""
SORT_MB_MOST = 2047
"""Largest sort buffer, MB, that Hadoop allows."""
DISK_BYTES_PER_MS = 100 * MB / 1000
"""Assumed speed of a local disk: Dr. Elephant's constant of 100 MB/s, as bytes per ms."""
BYTES_PER_REDUCER = 4 * 2**30
"""Most bytes that a reducer should merge."""


def used_mb_s(row: Mapping[str, Any]) -> float:
    """Return MB s that the job's tasks used."""
    return float(
        (row["map_memory_mb"] or 0) * (row["map_seconds"] or 0)
        + (row["reduce_memory_mb"] or 0) * (row["reduce_seconds"] or 0)
    )


def advise(row: Mapping[str, Any], conf: Mapping[str, str], rules: MapReduceRules, headroom: float) -> list[Advice]:
    """Return what to change in one job, from its row of ``recommend.Stats`` and the properties it depends on; most saving
    first."""
    advice: list[Advice | None] = []
    if not row["uberized"]:
        for side, word in (("map", "Mapper"), ("reduce", "Reducer")):
            if row[f"{side}_n"]:
                advice.append(_container(row, side, word, rules, headroom))
    if row["map_n"]:
        advice += [_splits(row, rules), _sort_buffer(row, conf, rules)]
    if row["reduce_n"]:
        advice += [_reducer_count(row, rules), _slow_start(row, conf, rules)]
    return sorted(
        [each for each in advice if each is not None], key=lambda a: (-a.saving_mb_s, a.wait_change_ms, a.key)
    )


def _container(row: Mapping[str, Any], side: str, word: str, rules: MapReduceRules, headroom: float) -> Advice | None:
    """Recommend smaller containers, from the peak memory of the tasks."""
    current, peak, peak99 = int(row[f"{side}_memory_mb"]), row[f"{side}_peak"], row[f"{side}_peak99"]
    if peak <= 0 or current <= 0:
        return None  # memory was not measured
    need = max(peak99 / MB * headroom, peak / MB * 1.1, LEAST_MB)
    wanted = math.ceil(need / STEP_MB) * STEP_MB
    if wanted > 0.9 * current:
        return None
    seconds = int(row[f"{side}_seconds"])
    saving = float((current - wanted) * seconds)
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
        f"99 % of the {row[f'{side}_n']:,} {plural} stayed below {peak99 / MB:,.0f} MB, the largest reached "
        f"{peak / MB:,.0f} MB, in containers of {current:,} MB. {wanted:,} MB leave {headroom - 1:.0%} head-room "
        f"over the 99 %; set mapreduce.{side}.java.opts to -Xmx{int(wanted * 0.8)}m with it.",
    )


def _start_cost(row: Mapping[str, Any], side: str) -> float:
    """Return the fixed ms per task: intercept of time on bytes where they go together, else START_MS; see ``whatif``."""
    cost, var, corr, n = START_MS, row[f"{side}_var"] or 0.0, row[f"{side}_corr"] or 0.0, row[f"{side}_n"]
    mean_bytes = row[f"{side}_bytes"] / n
    if var > 0 and corr > 0.7:
        cost = row[f"{side}_mean"] - (row[f"{side}_cov"] or 0.0) / var * mean_bytes
    return float(min(max(cost, 0.0), START_MOST_MS, 0.5 * row[f"{side}_least"]))


def _room(slots: float, n: int, wanted: int) -> float:
    """Return the containers for ``wanted`` tasks where ``n`` had ``slots``: more only where all ran at once, since then no
    limit is known."""
    return max(slots, float(wanted)) if n <= 1.2 * slots else slots


def _span(mean: float, n: float, slots: float) -> float:
    """Return the rough ms that ``n`` tasks of ``mean`` ms take on ``slots`` containers."""
    return mean * max(1.0, math.ceil(n / max(1.0, slots)))


def _whole(ms: float) -> int:
    """Return a time as a whole number that a table can hold."""
    return int(min(max(ms, -(2.0**62)), 2.0**62))


def _slots(row: Mapping[str, Any], side: str) -> float:
    span = max(1, (row[f"{side}_last"] or 0) - (row[f"{side}_first"] or 0))
    return max(1.0, float(row[f"{side}_mean"]) * float(row[f"{side}_n"]) / span)


def _splits(row: Mapping[str, Any], rules: MapReduceRules) -> Advice | None:
    """Recommend other splits, so that maps run the ideal time."""
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
    key = f"mapreduce.input.fileinputformat.split.{'minsize' if larger else 'maxsize'}"
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
        f"{cost / 1000:.1f} s." + (" Many small files need CombineFileInputFormat instead." if larger else ""),
    )


def _reducer_count(row: Mapping[str, Any], rules: MapReduceRules) -> Advice | None:
    """Recommend another number of reducers, so that they run the ideal time."""
    n, mean = int(row["reduce_n"]), float(row["reduce_mean"])
    time = rules.by_heuristic["Reducer Time"]
    now = time.level(n=n, avg_total_ms=mean)
    if not now:
        return None
    idle = min(float(row["idle_ms"] or 0), 0.95 * mean * n)
    cost = min(START_MS, 0.5 * float(row["reduce_least"]))
    work = max(1.0, (mean - cost) * n - idle)
    by_time = math.ceil(work / max(1.0, IDEAL_MS - cost))
    wanted = max(1, by_time, math.ceil(float(row["reduce_bytes"]) / BYTES_PER_REDUCER))
    if wanted == n:
        return None
    new_mean = cost + work / wanted + idle / n
    saving = float(row["reduce_memory_mb"]) * (cost + idle / n) * (n - wanted) / 1000
    slots = _slots(row, "reduce")
    return Advice(
        "reducers",
        "mapreduce.job.reduces",
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
    current = conf.get("mapreduce.job.reduce.slowstart.completedmaps", "0.05")
    if share <= number(conf, "mapreduce.job.reduce.slowstart.completedmaps", -1):
        return None
    rule = rules.by_heuristic["Shuffle & Sort"]
    shuffle = float(row["reduce_shuffle"])
    code = max(0.0, float(row["reduce_mean"]) - shuffle)

    def level(mean_shuffle: float) -> int:
        return rule.level(avg_shuffle_ms=mean_shuffle, avg_sort_ms=0, avg_code_ms=code)

    return Advice(
        "slow start",
        "mapreduce.job.reduce.slowstart.completedmaps",
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
    """Recommend a sort buffer that holds the output of a map, or splits whose output it holds."""
    spilled, records = float(row["map_spilled"] or 0), float(row["map_records"] or 0)
    if records <= 0 or spilled <= 1.05 * records:
        return None
    q = spilled / records
    n = int(row["map_n"])
    rule = rules.by_heuristic["Mapper Spill"]
    name = rule.heuristic.name
    now = rule.level(n=n, sum_spilled_records=spilled, sum_map_output_records=records)
    after = rule.level(n=n, sum_spilled_records=1, sum_map_output_records=1)

    current = number(conf, "mapreduce.task.io.sort.mb", 100)
    if not 0 < current < 2**31:
        current = 100
    percent = min(1.0, max(0.1, number(conf, "mapreduce.map.sort.spill.percent", 0.8)))
    # Each record takes 16 bytes of accounting in the same buffer.
    per_map = float(row["map_out95"] or 0) + 16 * float(row["map_records95"] or 0)
    wanted = math.ceil(per_map * 1.1 / percent / MB)
    if wanted <= current and now:
        # Bytes are not counted, or merging spilled again: as many times the buffer as records were spilled.
        wanted = math.ceil(current * q)
        per_map = wanted * percent * MB / 1.1
    if wanted <= current:
        return None
    bytes_again = (q - 1) * float(row["map_out_bytes"] or 0)
    wait_per_map = 2 * bytes_again / n / DISK_BYTES_PER_MS
    wait_per_map = min(wait_per_map, 0.5 * float(row["map_mean"]))
    saving = float(row["map_memory_mb"]) * wait_per_map * n / 1000
    if not now and saving < 0.01 * used_mb_s(row):
        return None
    head = (
        f"Maps spilled each record {q:.2f} times; 95 % of them write up to {amount(float(row['map_out95']), 'bytes')} "
        f"into a buffer of {current:g} MB."
    )
    if wanted <= min(SORT_MB_MOST, 0.5 * float(row["map_memory_mb"])):
        return Advice(
            "sort buffer",
            "mapreduce.task.io.sort.mb",
            str(wanted),
            f"{current:g}",
            saving,
            -_whole(wait_per_map),
            name,
            now,
            after,
            f"{head} {wanted:,} MB hold it, so that each record is written once.",
        )
    factor = math.ceil(per_map * 1.1 / percent / MB / max(1.0, min(SORT_MB_MOST, 0.5 * float(row["map_memory_mb"]))))
    if float(row["map_bytes"]) <= 0:
        return None
    split = max(1, math.ceil(float(row["map_bytes"]) / n / factor / MB)) * MB
    return Advice(
        "sort buffer",
        "mapreduce.input.fileinputformat.split.maxsize",
        str(split),
        amount(float(row["map_bytes"]) / n, "bytes"),
        saving,
        0,
        name,
        now,
        after,
        f"{head} {wanted:,} MB would be needed, more than a container of {row['map_memory_mb']:,} MB can give: "
        f"splits of {amount(split, 'bytes')} make the output of a map {factor} times smaller.",
    )
