"""Plans of jobs: how many tasks, how long, how much data, and what goes wrong; all from a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from sample_data.job_heuristics.writer import Attempt, Job, Task

MB = 2**20
CLUSTER = 1760000000000
"""Start of our made-up cluster (ms): part of every id."""


@dataclass(frozen=True)
class Shape:
    """The characteristics of a kind of job."""

    name: str
    user: str
    queue: str
    maps: int
    reduces: int
    map_s: float = 240.0
    reduce_s: float = 280.0
    input_mb: float = 120.0
    shuffle_mb: float = 60.0
    spread: float = 0.12
    hot_maps: int = 0
    hot_factor: float = 1.0
    hot_reduces: int = 0
    map_mb: int = 2048
    reduce_mb: int = 2048
    used_mb: float = 1500.0
    gc_share: float = 0.004
    spill: float = 1.0
    shuffle_s: float = 20.0
    sort_s: float = 2.0
    slots: int = 24
    failing: float = 0.0
    state: str = "SUCCEEDED"
    conf: Mapping[str, str] = field(default_factory=dict)


def configuration(shape: Shape) -> dict[str, str]:
    """The properties of a job."""
    return {
        "mapreduce.job.name": shape.name,
        "mapreduce.job.user.name": shape.user,
        "mapreduce.job.queuename": shape.queue,
        "mapreduce.map.memory.mb": str(shape.map_mb),
        "mapreduce.reduce.memory.mb": str(shape.reduce_mb),
        "mapreduce.map.java.opts": f"-Xmx{shape.map_mb * 8 // 10}m",
        "mapreduce.reduce.java.opts": f"-Xmx{shape.reduce_mb * 8 // 10}m",
        "mapreduce.job.reduces": str(shape.reduces),
        "mapreduce.job.reduce.slowstart.completedmaps": "0.05",
        "mapreduce.task.io.sort.mb": "100",
        "mapreduce.map.sort.spill.percent": "0.80",
        "mapreduce.input.fileinputformat.split.minsize": "1",
        "mapreduce.map.speculative": "true",
        "yarn.app.mapreduce.am.resource.mb": "1536",
        "dfs.blocksize": str(128 * MB),
        **shape.conf,
    }


def _counters(
    rng: random.Random, shape: Shape, kind: str, run_ms: int, data: float
) -> tuple[dict[str, int], dict[str, int]]:
    cpu = int(run_ms * rng.uniform(0.55, 0.75))
    used = int(shape.used_mb * rng.uniform(0.9, 1.05) * MB)
    size = int(data * MB)
    records = max(1, size // 120)
    common = {
        "SPILLED_RECORDS": int(records * shape.spill),
        "GC_TIME_MILLIS": int(cpu * shape.gc_share),
        "CPU_MILLISECONDS": cpu,
        "PHYSICAL_MEMORY_BYTES": used,
        "VIRTUAL_MEMORY_BYTES": int(used * 1.7),
        "COMMITTED_HEAP_BYTES": int(used * 0.8),
    }
    if kind == "MAP":
        counters = {
            "MAP_INPUT_RECORDS": records,
            "MAP_OUTPUT_RECORDS": records,
            "MAP_OUTPUT_BYTES": size // 2,
            "MAP_OUTPUT_MATERIALIZED_BYTES": size // 2 + 64,
            "SPLIT_RAW_BYTES": 117,
            "COMBINE_INPUT_RECORDS": 0,
            **common,
            "FAILED_SHUFFLE": 0,
            "MERGED_MAP_OUTPUTS": 0,
        }
        files = {
            "FILE_BYTES_READ": 0,
            "FILE_BYTES_WRITTEN": size // 2,
            "HDFS_BYTES_READ": size,
            "HDFS_BYTES_WRITTEN": 0,
        }
    else:
        counters = {
            "REDUCE_INPUT_GROUPS": max(1, records // 10),
            "REDUCE_SHUFFLE_BYTES": size,
            "REDUCE_INPUT_RECORDS": records,
            "REDUCE_OUTPUT_RECORDS": max(1, records // 10),
            **common,
            "SHUFFLED_MAPS": shape.maps,
            "FAILED_SHUFFLE": 0,
            "MERGED_MAP_OUTPUTS": shape.maps,
        }
        files = {
            "FILE_BYTES_READ": size, "FILE_BYTES_WRITTEN": size, "HDFS_BYTES_READ": 0, "HDFS_BYTES_WRITTEN": size // 4,
        }  # fmt: skip
    files |= {"FILE_READ_OPS": 0, "FILE_LARGE_READ_OPS": 0, "FILE_WRITE_OPS": 0, "HDFS_READ_OPS": 3}
    return counters, files | {"HDFS_LARGE_READ_OPS": 0, "HDFS_WRITE_OPS": 0}


class _Slots:
    """A pool of containers: the next task starts in the first free one."""

    def __init__(self, count: int, since: int) -> None:
        self.free = [since] * count

    def take(self) -> tuple[int, int]:
        slot = min(range(len(self.free)), key=self.free.__getitem__)
        return slot, self.free[slot]

    def until(self, slot: int, time: int) -> None:
        self.free[slot] = time


def _place(rng: random.Random) -> tuple[str, str]:
    number = rng.randrange(1, 25)
    return f"worker{number:02d}.example.com", f"/rack{1 + number % 4}"


def make(shape: Shape, sequence: int, submit_ms: int, seed: int, pace: float = 1.0) -> Job:
    """A job of ``shape``; ``pace`` < 1 makes all times shorter (for a demonstration that moves)."""
    rng = random.Random(f"{seed}/{shape.name}/{sequence}")
    launch = submit_ms + int(4300 * pace)
    slots = _Slots(shape.slots, launch + int(1800 * pace))
    maps = []
    failed_at: int | None = None
    for number in range(shape.maps):
        data = shape.input_mb * rng.lognormvariate(0, shape.spread)
        hot = number < shape.hot_maps
        run = int(shape.map_s * 1000 * pace * rng.lognormvariate(0, shape.spread))
        if hot:
            data, run = data * shape.hot_factor, int(run * shape.hot_factor)
        attempts = []
        slot, start = slots.take()
        start += rng.randrange(200, 900)
        tries = 1 + (rng.random() < shape.failing)
        doomed = shape.state == "FAILED" and number == shape.maps // 2
        for index in range(4 if doomed else tries):
            host, rack = _place(rng)
            last = not doomed and index == tries - 1
            length = run if last else max(1, run // 4)
            attempts.append(
                Attempt(
                    start, start + length, "SUCCEEDED" if last else "FAILED", host, rack,
                    error="" if last else "Error: java.io.IOException: record too long\n\tat demo.Parse.map(Parse.java:42)",
                    locality=rng.choice(("NODE_LOCAL", "NODE_LOCAL", "RACK_LOCAL", "OFF_SWITCH")),
                )
            )  # fmt: skip
            slots.until(slot, start + length)
            start += length + 1500
        if doomed:
            failed_at = attempts[-1].finish_ms
        counters, files = _counters(rng, shape, "MAP", run, data)
        maps.append(Task("MAP", launch + number, tuple(attempts), counters, files, "FAILED" if doomed else "SUCCEEDED"))
    last_map = max((a.finish_ms or 0 for t in maps for a in t.attempts), default=launch)
    reduces = []
    for number in range(shape.reduces):
        data = shape.shuffle_mb * rng.lognormvariate(0, shape.spread)
        run = int(shape.reduce_s * 1000 * pace * rng.lognormvariate(0, shape.spread))
        if number < shape.hot_reduces:
            data, run = data * shape.hot_factor, int(run * shape.hot_factor)
        host, rack = _place(rng)
        begin = last_map + rng.randrange(300, 1500)
        shuffle, sort = int(shape.shuffle_s * 1000 * pace), int(shape.sort_s * 1000 * pace)
        attempt = Attempt(
            begin, begin + run + shuffle + sort, "SUCCEEDED", host, rack, shuffle, sort, locality="OFF_SWITCH"
        )
        counters, files = _counters(rng, shape, "REDUCE", run, data)
        reduces.append(Task("REDUCE", launch + shape.maps + number, (attempt,), counters, files))
    if failed_at is not None:
        return _failed(shape, sequence, submit_ms, launch, failed_at, maps)
    finish = max((a.finish_ms or 0 for t in (*maps, *reduces) for a in t.attempts), default=launch) + 350
    return Job(
        CLUSTER, sequence, shape.name, shape.user, shape.queue, submit_ms, launch, finish, tuple(maps), tuple(reduces),
        configuration(shape), shape.state,
    )  # fmt: skip


def _failed(shape: Shape, sequence: int, submit: int, launch: int, end: int, maps: list[Task]) -> Job:
    """Stop the job when a map has failed for good: kill running tasks, never start the rest."""
    kept = []
    for task in maps:
        if task.state == "FAILED":
            kept.append(task)
            continue
        begun = [a for a in task.attempts if a.start_ms < end]
        if begun and begun[-1].finish_ms is not None and begun[-1].finish_ms <= end and begun[-1].state == "SUCCEEDED":
            kept.append(task)
            continue
        cut = [
            a if a.finish_ms is not None and a.finish_ms <= end else Attempt(a.start_ms, end, "KILLED", a.host, a.rack)
            for a in begun
        ]
        kept.append(Task(task.kind, task.scheduled_ms, tuple(cut), task.counters, task.files, "KILLED"))
    number = next(i for i, task in enumerate(kept) if task.state == "FAILED")
    text = f"Task failed task_{CLUSTER}_{sequence:04d}_m_{number:06d}\nJob failed as tasks failed. failedMaps:1 failedReduces:0"
    return Job(
        CLUSTER, sequence, shape.name, shape.user, shape.queue, submit, launch, end + 400, tuple(kept), (),
        configuration(shape), "FAILED", text,
    )  # fmt: skip
