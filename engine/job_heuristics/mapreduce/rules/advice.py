"""What to do about each verdict on a MapReduce job, in words, from the side, the severity 0-4 and the job."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.gates import MB, amount
from engine.job_heuristics.mapreduce.model.model import FAILED, Job, mean, number, resolve
from engine.stats.natural_break import natural_break


def _skew(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    if not level:
        return f"The {len(tasks.total):,} {tasks.word}s get about equal shares."
    data, time = natural_break(tasks.size.astype(float)), natural_break(tasks.total.astype(float))
    head = (
        f"{data.high_n:,} of {len(tasks.size):,} {tasks.word}s get {amount(data.high_mean, 'bytes')} on average, the others "
        f"{amount(data.low_mean, 'bytes')}; {time.high_n:,} run {amount(time.high_mean, 'ms')}, the others "
        f"{amount(time.low_mean, 'ms')}."
    )
    if side == "map":
        return (
            f"{head} Let no file be just above a block (its rest becomes a tiny map), combine small files "
            f"(CombineFileInputFormat), and use a splittable compression for the large ones."
        )
    return (
        f"{head} Few keys carry most of the data: salt the hot keys and merge in a second step, use a skew join, or add a "
        f"combiner that shrinks them before the shuffle."
    )


def _gc(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    cpu, gc = mean(tasks.cpu), mean(tasks.gc)
    share = f"{100 * gc / cpu:.1f}%" if cpu > 0 else "an unmeasured part"
    if not level:
        return f"Garbage collection takes {share} of the CPU time."
    return (
        f"Each {tasks.word} spends {amount(gc, 'ms')} in garbage collection, {share} of its CPU time. Reuse objects instead of "
        f"making one per record, keep less in memory, and give the heap more room only if it is really full: "
        f"mapreduce.{side}.java.opts within mapreduce.{side}.memory.mb={tasks.memory_container_mb}."
    )


SHORT_MS = 600_000


def _time(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    runtime, n, data = mean(tasks.total), tasks.n, amount(mean(tasks.size), "bytes")
    if not level:
        return f"{n:,} {tasks.word}s of {amount(runtime, 'ms')} on average are fine."
    if side == "map":
        if runtime <= SHORT_MS:
            return (
                f"{n:,} maps of only {amount(runtime, 'ms')} read {data} each: starting them costs much of the time. Raise "
                f"mapreduce.input.fileinputformat.split.minsize so that each runs 5 to 10 minutes, or combine small files."
            )
        return (
            f"Maps run {amount(runtime, 'ms')} on average over {data}: lower "
            f"mapreduce.input.fileinputformat.split.maxsize so that more of them share the work."
        )
    if runtime <= SHORT_MS:
        return (
            f"{n:,} reducers of only {amount(runtime, 'ms')}: set mapreduce.job.reduces lower so that each runs 5 to 10 minutes "
            f"(they fetch {data} each now)."
        )
    return (
        f"Reducers run {amount(runtime, 'ms')} on average over {data}: raise mapreduce.job.reduces "
        f"above {n:,}, and look for hot keys first."
    )


def _speed(level: int, job: Job) -> str:
    maps = job.maps
    timed = maps.total > 0
    rate = float(np.median(maps.size[timed] * 1000 / maps.total[timed])) if timed.any() else 0.0
    if not level:
        return f"Maps read {amount(rate, 'bytes/s')} in the median."
    cpu = float(maps.cpu.sum()) / max(1.0, float(maps.total.sum()))
    busy = (
        f"they are busy computing ({cpu:.0%} of their time is CPU): optimise the code or give each less to do"
        if cpu > 0.6
        else f"only {cpu:.0%} of their time is CPU: they wait for disk, network or a service"
    )
    return (
        f"Maps read {amount(rate, 'bytes/s')} in the median; {busy}. More, smaller splits "
        f"(mapreduce.input.fileinputformat.split.maxsize) shorten the wait for each."
    )


def _spill(level: int, job: Job) -> str:
    spilled, records = float(job.maps.spilled.sum()), float(job.maps.out_records.sum())
    times = f"{spilled / records:.2f} times" if records else "without any output"
    if not level:
        return f"Each output record is spilled {times}." if records else "Maps write no records to sort."
    buffer = int(number(job.conf, "mapreduce.task.io.sort.mb", 100))
    return (
        f"Each output record is written to disk {times}; once would do. Raise mapreduce.task.io.sort.mb above {buffer} (and "
        f"mapreduce.map.sort.spill.percent above {number(job.conf, 'mapreduce.map.sort.spill.percent', 0.8):g}), add a combiner, "
        f"or compress the map output."
    )


def _memory(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    used, peak = mean(tasks.pmem) / MB, float(tasks.peak.max()) / MB if len(tasks.peak) else 0.0
    container = tasks.memory_container_mb
    if not peak:
        return "Memory was not measured on this cluster, so nothing can be said about the container size."
    if not level:
        return f"{tasks.word.capitalize()}s use {used:,.0f} of {container:,} MB on average, {peak:,.0f} MB at most."
    return (
        f"{tasks.word.capitalize()}s use {used:,.0f} MB on average and {peak:,.0f} MB at most of containers of {container:,} MB. "
        f"Lower mapreduce.{side}.memory.mb and, with it, -Xmx in mapreduce.{side}.java.opts (about 80% of it)."
    )


def _shuffle(level: int, job: Job) -> str:
    reduces = job.reduces
    shuffle, sort, code = mean(reduces.shuffle), mean(reduces.sort), mean(reduces.code)
    head = f"Reducers shuffle {amount(shuffle, 'ms')}, sort {amount(sort, 'ms')} and compute {amount(code, 'ms')} on average"
    if not level:
        return f"{head}."
    start = clean(resolve(job.conf, "mapreduce.job.reduce.slowstart.completedmaps") or "0.05", 100)
    if len(job.maps.finish) and len(reduces.start) and np.mean(reduces.start < int(job.maps.finish.max())) > 0.5:
        return (
            f"{head}, and most began before the last map had ended, holding containers that maps could use. Raise "
            f"mapreduce.job.reduce.slowstart.completedmaps from {start} towards 0.9-1.0."
        )
    return (
        f"{head}, though they began after the maps: less data to move helps (combiner, compressed map output, fewer columns), "
        f"as do more reducers."
    )


def _exception(level: int, job: Job) -> str:
    failed = int((job.attempts.outcome == FAILED).sum())
    return (
        f"The job failed after {failed:,} failed attempt{'' if failed == 1 else 's'}. Read the error of the task "
        f"named in the diagnostics first; where it is empty, the logs of that container and of the application "
        f"master say more."
    )


OF_SIDE: dict[str, Callable[[str, int, Job], str]] = {"Skew": _skew, "GC": _gc, "Time": _time, "Memory": _memory}
"""Advice on what is judged on maps and on reduces alike, by the heuristic's second word."""
OF_JOB: dict[str, Callable[[int, Job], str]] = {
    "Mapper Speed": _speed, "Mapper Spill": _spill, "Shuffle & Sort": _shuffle, "Exception": _exception,
    "Distributed Cache Limit": lambda level, job: (
        "Every node copies each cached file before its first task: keep single files below the limit, or read them from HDFS."
    ),
    "Job Queue Limit": lambda level, job: (
        "Tasks in the default queue should end well before its limit: divide the work into more tasks or use another queue."
    ),
}  # fmt: skip
"""Advice on the others, by name."""
