"""Advice per verdict in plain words, filled with the job's own numbers."""

from __future__ import annotations

import numpy as np

from engine.job_heuristics.insight.decision import amount
from engine.job_heuristics.insight.job_arrays import MB, Job, Side, number, resolve
from engine.job_heuristics.insight.skew import natural_break


def advice(heuristic: str, level: int, job: Job) -> str:
    """What to do about a verdict, in one to three sentences. NONE gives a line that says what is fine."""
    side = job.maps if heuristic.startswith("Mapper") else job.reduces
    if heuristic.endswith("Skew"):
        return _skew(side, level, job)
    if heuristic.endswith("GC"):
        return _gc(side, level)
    if heuristic.endswith("Memory"):
        return _memory(side, level)
    if heuristic == "Mapper Speed":
        return _speed(side, level)
    if heuristic == "Mapper Spill":
        return _spill(job, level)
    if heuristic.endswith("Time"):
        return _time(side, level, job)
    if heuristic == "Shuffle & Sort":
        return _shuffle(job, level)
    if heuristic == "Exception":
        failed = int((job.attempts.outcome == 1).sum())
        return (
            f"The job failed after {failed:,} failed attempt{'' if failed == 1 else 's'}. Read the error of the task "
            f"named in the diagnostics first; where it is empty, the logs of that container and of the application "
            f"master say more."
        )
    if heuristic == "Distributed Cache Limit":
        return (
            "Every node copies each cached file before its first task: keep single files below the limit, or read them "
            "from HDFS."
        )
    if heuristic == "Job Queue Limit":
        return (
            "Tasks in the default queue should end well before its limit: divide the work into more tasks or use "
            "another queue."
        )
    if heuristic == "No Data Received":
        return "No task ran: check whether the input path holds data and whether filters leave any."
    return ""


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _skew(side: Side, level: int, job: Job) -> str:
    split = natural_break(side.size.astype(float))
    timed = natural_break(side.total.astype(float))
    if not level:
        return f"The {len(side.total):,} {side.word}s get about equal shares."
    head = (
        f"{split.high_n:,} of {len(side.size):,} {side.word}s get {amount(split.high_mean, 'bytes')} on average, the others "
        f"{amount(split.low_mean, 'bytes')}; {timed.high_n:,} run {amount(timed.high_mean, 'ms')}, the others "
        f"{amount(timed.low_mean, 'ms')}."
    )
    if side.name == "map":
        return (
            f"{head} Let no file be just above a block (its rest becomes a tiny map), combine small files "
            f"(CombineFileInputFormat), and use a splittable compression for the large ones."
        )
    return (
        f"{head} Few keys carry most of the data: salt the hot keys and merge in a second step, use a skew join, or add a "
        f"combiner that shrinks them before the shuffle."
    )


def _gc(side: Side, level: int) -> str:
    cpu, gc = _mean(side.cpu), _mean(side.gc)
    share = f"{100 * gc / cpu:.1f} %" if cpu > 0 else "an unmeasured part"
    if not level:
        return f"Garbage collection takes {share} of the CPU time."
    return (
        f"Each {side.word} spends {amount(gc, 'ms')} in garbage collection, {share} of its CPU time. Reuse objects instead of "
        f"making one per record, keep less in memory, and give the heap more room only if it is really full: "
        f"mapreduce.{side.name}.java.opts within mapreduce.{side.name}.memory.mb={side.memory_container_mb}."
    )


def _memory(side: Side, level: int) -> str:
    used, peak = _mean(side.pmem) / MB, float(side.peak.max()) / MB if len(side.peak) else 0.0
    box = side.memory_container_mb
    if not peak:
        return "Memory was not measured on this cluster, so nothing can be said about the container size."
    if not level:
        return f"{side.word.capitalize()}s use {used:,.0f} of {box:,} MB on average, {peak:,.0f} MB at most."
    return (
        f"{side.word.capitalize()}s use {used:,.0f} MB on average and {peak:,.0f} MB at most of containers of {box:,} MB. Lower "
        f"mapreduce.{side.name}.memory.mb and, with it, -Xmx in mapreduce.{side.name}.java.opts (about 80 % of it)."
    )


def _time(side: Side, level: int, job: Job) -> str:
    mean, n = _mean(side.total), side.n
    if not level:
        return f"{n:,} {side.word}s of {amount(mean, 'ms')} on average are fine."
    short = mean <= 600_000
    if side.name == "map":
        per = amount(_mean(side.size), "bytes")
        if short:
            return (
                f"{n:,} maps of only {amount(mean, 'ms')} read {per} each: starting them costs much of the time. Raise "
                f"mapreduce.input.fileinputformat.split.minsize so that each runs 5 to 10 minutes, or combine small files."
            )
        return (
            f"Maps run {amount(mean, 'ms')} on average over {per}: lower mapreduce.input.fileinputformat.split.maxsize so that "
            f"more of them share the work."
        )
    if short:
        return (
            f"{n:,} reducers of only {amount(mean, 'ms')}: set mapreduce.job.reduces lower so that each runs 5 to 10 minutes "
            f"(they fetch {amount(_mean(side.size), 'bytes')} each now)."
        )
    return (
        f"Reducers run {amount(mean, 'ms')} on average over {amount(_mean(side.size), 'bytes')}: raise mapreduce.job.reduces "
        f"above {n:,}, and look for hot keys first."
    )


def _speed(side: Side, level: int) -> str:
    timed = side.total > 0
    rate = float(np.median(side.size[timed] * 1000 / side.total[timed])) if timed.any() else 0.0
    if not level:
        return f"Maps read {amount(rate, 'bytes/s')} in the median."
    cpu = float(side.cpu.sum()) / max(1.0, float(side.total.sum()))
    busy = (
        f"they are busy computing ({cpu:.0%} of their time is CPU): optimise the code or give each less to do"
        if cpu > 0.6
        else f"only {cpu:.0%} of their time is CPU: they wait for disk, network or a service"
    )
    return (
        f"Maps read {amount(rate, 'bytes/s')} in the median; {busy}. More, smaller splits "
        f"(mapreduce.input.fileinputformat.split.maxsize) shorten the wait for each."
    )


def _spill(job: Job, level: int) -> str:
    spilled, records = float(job.maps.spilled.sum()), float(job.maps.out_records.sum())
    ratio = f"{spilled / records:.2f} times" if records else "without any output"
    if not level:
        return f"Each output record is spilled {ratio}." if records else "Maps write no records to sort."
    now = int(number(job.conf, "mapreduce.task.io.sort.mb", 100))
    return (
        f"Each output record is written to disk {ratio}; once would do. Raise mapreduce.task.io.sort.mb above {now} (and "
        f"mapreduce.map.sort.spill.percent above {number(job.conf, 'mapreduce.map.sort.spill.percent', 0.8):g}), add a combiner, "
        f"or compress the map output."
    )


def _shuffle(job: Job, level: int) -> str:
    r = job.reduces
    shuffle, sort, code = _mean(r.shuffle), _mean(r.sort), _mean(r.code)
    head = f"Reducers shuffle {amount(shuffle, 'ms')}, sort {amount(sort, 'ms')} and compute {amount(code, 'ms')} on average"
    if not level:
        return f"{head}."
    start = resolve(job.conf, "mapreduce.job.reduce.slowstart.completedmaps") or "0.05"
    early = len(job.maps.finish) and len(r.start) and float(np.mean(r.start < int(job.maps.finish.max()))) > 0.5
    if early:
        return (
            f"{head}, and most began before the last map had ended, holding containers that maps could use. Raise "
            f"mapreduce.job.reduce.slowstart.completedmaps from {start} towards 0.9-1.0."
        )
    return (
        f"{head}, though they began after the maps: less data to move helps (combiner, compressed map output, fewer columns), "
        f"as do more reducers."
    )
