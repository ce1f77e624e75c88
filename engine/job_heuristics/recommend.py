"""What to set instead, with the saving it should bring: for every job from per-side aggregates, in plain words.

Each recommendation names the exact property and value, what it should save in MB s and in waiting, and the severity of
the verdict it aims at before and after. The what-if model (``whatif``) predicts the same for one job in full detail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from engine.job_heuristics import gates
from engine.job_heuristics.beyond_tables import RECOMMENDATIONS
from engine.job_heuristics.facts import MB
from engine.job_heuristics.gates import MINUTE
from engine.job_heuristics.model import Model
from engine.job_heuristics.tables import SEVERITIES
from engine.job_heuristics.whatif import COPY_BYTES_PER_MS, START_MOST_MS, START_MS
from engine.job_heuristics.why import amount

IDEAL_MS = 7.5 * MINUTE
"""Middle of the 5 to 10 minutes that a task should run."""
STEP_MB = 128
LEAST_MB = 512
SORT_MB_MOST = 2047
DISK_BYTES_PER_MS = 100 * MB / 1000
"""Assumed local disk: upstream's constant of 100 MiB/s."""
BYTES_PER_REDUCER = 4 * 2**30
"""Most shuffle bytes a reducer should merge."""


def stats(model: Model, headroom: float = 1.5) -> pl.DataFrame:
    """One row per job with what recommendations need of each side (columns ``map_*`` and ``reduce_*``); jobs without a
    side have nulls there. Order: as in the job model."""
    peak = pl.max_horizontal(
        "physical_bytes",
        pl.when(pl.col("side") == "map").then("map_physical_max_bytes"),
        pl.when(pl.col("side") == "reduce").then("reduce_physical_max_bytes"),
    ).fill_null(0)
    total = pl.col("total_ms")
    size = pl.when(pl.col("side") == "map").then("input_bytes").otherwise("reduce_shuffle_bytes").fill_null(0)
    timed = model.tasks.filter(pl.col("timed") & total.is_not_null()).with_columns(
        size=size.cast(pl.Float64), peak=peak, work=total.cast(pl.Float64)
    )
    per_side = timed.group_by("job_id", "side", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"),
        total.mean().floor().alias("mean"),
        total.min().alias("least"),
        total.max().alias("most"),
        (total // 1000).sum().alias("seconds"),
        pl.col("size").sum().alias("bytes"),
        pl.cov("size", "work").alias("cov"),
        pl.corr("size", "work").alias("corr"),
        pl.col("size").var().alias("var"),
        pl.col("physical_bytes").fill_null(0).mean().floor().alias("pmem"),
        pl.col("peak").quantile(0.99, "higher").alias("peak99"),
        pl.col("peak").max().alias("peak"),
        ((pl.col("virtual_bytes").fill_null(0) // MB) / 2.1).floor().max().alias("virtual_mb"),
        (pl.col("physical_bytes").fill_null(0) // MB).max().alias("physical_mb"),
        pl.col("spilled_records").sum().alias("spilled"),
        pl.col("map_output_records").sum().alias("records"),
        pl.col("map_output_bytes").sum().alias("out_bytes"),
        pl.col("map_output_bytes").fill_null(0).quantile(0.95, "higher").alias("out95"),
        pl.col("map_output_records").fill_null(0).quantile(0.95, "higher").alias("records95"),
        pl.col("shuffle_ms").mean().floor().alias("shuffle"),
        pl.col("finish_ms").max().alias("last"),
        pl.col("start_ms").min().alias("first"),
    )
    found = model.jobs.select(
        "job_id", "state", "map_memory_mb", "reduce_memory_mb", "submit_ms", "finish_ms",
        pl.col("uberized").fill_null(False),
    )  # fmt: skip
    for name in ("map", "reduce"):
        mine = per_side.filter(pl.col("side") == name).drop("side")
        mine = mine.rename({c: f"{name}_{c}" for c in mine.columns if c != "job_id"})
        found = found.join(mine, "job_id", "left", maintain_order="left")
    return found.join(_reducers(timed, found), "job_id", "left", maintain_order="left")


def _reducers(timed: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Per job: ``idle_ms`` of all reducers before the last map, the ``slowstart`` share at which the maps had got so
    far that copying would just be done by the end, and the ``later_ms`` sum by which reducers would start later."""
    last = found.select("job_id", "map_last")
    reduces = (
        timed.filter(pl.col("side") == "reduce")
        .join(last, "job_id", "inner", maintain_order="left")
        .with_columns(
            idle=(pl.min_horizontal("map_last", pl.col("start_ms") + pl.col("shuffle_ms")) - pl.col("start_ms"))
            .clip(0)
            .fill_null(0)
        )
        .with_columns(copy=(pl.col("size") / COPY_BYTES_PER_MS).ceil().cast(pl.Int64, strict=False).fill_null(0))
    )
    per_job = reduces.group_by("job_id", maintain_order=True).agg(
        pl.col("idle").sum().alias("idle_ms"), pl.col("copy").max().alias("copy_ms"), pl.col("map_last").first()
    )
    begin = per_job.select("job_id", begin=pl.col("map_last") - pl.col("copy_ms"))
    maps = timed.filter(pl.col("side") == "map").join(begin, "job_id", "inner", maintain_order="left")
    # A share s lets reducers start when s of the maps have finished: the first finish after ``begin``.
    share = maps.group_by("job_id", maintain_order=True).agg(
        slowstart=((pl.col("finish_ms") <= pl.col("begin")).sum() + 1) / pl.len(),
        starts=pl.col("finish_ms").filter(pl.col("finish_ms") > pl.col("begin")).min(),
    )
    later = (
        reduces.join(share, "job_id", "inner", maintain_order="left")
        .with_columns(later=pl.min_horizontal((pl.col("starts") - pl.col("start_ms")).clip(0), "idle").fill_null(0))
        .group_by("job_id", maintain_order=True)
        .agg(pl.col("later").sum().alias("later_ms"))
    )
    return (
        per_job.select("job_id", "idle_ms", "copy_ms")
        .join(share.select("job_id", "slowstart"), "job_id", "left", maintain_order="left")
        .join(later, "job_id", "left", maintain_order="left")
    )


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


_CONF = (
    "mapreduce.job.reduce.slowstart.completedmaps",
    "mapreduce.task.io.sort.mb",
    "mapreduce.map.sort.spill.percent",
)


def recommendations(
    model: Model, limits: gates.Limits, headroom: float = 1.5, memo: dict[Any, Any] | None = None
) -> pl.DataFrame:
    """Rows of ``RECOMMENDATIONS`` for every job that has ended or has finished tasks; most saving first within a job.

    ``memo`` keeps the advice of jobs whose aggregates did not change.
    """
    known = model.conf.filter(pl.col("key").is_in(list(_CONF)))
    conf: dict[str, dict[str, str]] = {}
    for job_id, key, value in known.select("job_id", "key", "value").iter_rows():
        conf.setdefault(job_id, {})[key] = value
    columns: dict[str, list[Any]] = {name: [] for name in RECOMMENDATIONS.schema}
    fixed = (headroom, tuple(sorted((k, tuple(v)) for k, v in limits.items())))
    frame = stats(model, headroom)
    names = frame.columns
    for values in frame.iter_rows():
        row = dict(zip(names, values, strict=True))
        mine = conf.get(row["job_id"], {})
        key = ("advice", row["job_id"])
        stamp = (values, tuple(mine.items()), fixed)
        held = memo.get(key) if memo is not None else None
        if held is not None and held[0] == stamp:
            advice = held[1]
        else:
            advice = advise(row, mine, limits, headroom)
            if memo is not None:
                memo[key] = (stamp, advice)
        used = _used(row)
        for rank, one in enumerate(advice, 1):
            found = (
                row["job_id"], rank, one.topic, one.key, one.value, one.current, one.saving_mb_s,
                100 * one.saving_mb_s / used if used else None, one.wait_change_ms, one.heuristic,
                SEVERITIES[one.now], SEVERITIES[one.after], one.text,
            )  # fmt: skip
            for name, cell in zip(columns, found, strict=True):
                columns[name].append(cell)
    return RECOMMENDATIONS.frame(columns)


def _used(row: Mapping[str, Any]) -> float:
    return float(
        (row["map_memory_mb"] or 0) * (row["map_seconds"] or 0)
        + (row["reduce_memory_mb"] or 0) * (row["reduce_seconds"] or 0)
    )


def advise(row: Mapping[str, Any], conf: Mapping[str, str], limits: gates.Limits, headroom: float) -> list[Advice]:
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


def _memory_level(word: str, pmem: float, mb: int, limits: gates.Limits) -> int:
    name = f"{word} Memory"
    return min(
        _level(pmem / (mb * MB), limits[name, "memory_ratio_severity"], False),
        _level(mb * MB, limits[name, "container_memory_severity"], True),
    )


def _time_level(word: str, mean: float, n: int, limits: gates.Limits) -> int:
    name = f"{word} Time"
    return max(
        min(
            _level(mean, limits[name, "short_runtime_severity_in_min"], False),
            _level(n, limits[name, "num_tasks_severity"], True),
        ),
        _level(mean, limits[name, "long_runtime_severity_in_min"], True),
    )


def _container(
    found: list[Advice], row: Mapping[str, Any], side: str, word: str, limits: gates.Limits, headroom: float
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


def _splits(found: list[Advice], row: Mapping[str, Any], limits: gates.Limits) -> None:
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


def _reducer_count(found: list[Advice], row: Mapping[str, Any], limits: gates.Limits) -> None:
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


def _slow_start(found: list[Advice], row: Mapping[str, Any], conf: Mapping[str, str], limits: gates.Limits) -> None:
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


def _sort_buffer(found: list[Advice], row: Mapping[str, Any], conf: Mapping[str, str], limits: gates.Limits) -> None:
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
