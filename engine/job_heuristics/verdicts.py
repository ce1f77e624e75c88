"""Every heuristic over every job at once: severities, scores and upstream's details (fact sheet, section 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics import settings
from engine.job_heuristics.display import clock, factor, java_double, size, span
from engine.job_heuristics.rules import Limits, Rule, Rules
from engine.job_heuristics.sides import MB, Array, divided, truncated
from engine.job_heuristics.tables import HEURISTICS, SEVERITIES

MINUTE = 60_000
DISK_SPEED = 100 * MB
"""Upstream's constant disk speed, bytes per second."""
_NO_LABEL: dict[str, str] = {}


def asc(values: Any, limits: Limits | tuple[float, ...]) -> Array:
    """Ascending severity 0-4: from the top, the first limit that is reached (inclusive). NaN gives 0."""
    values = np.asarray(values)
    a, b, c, d = limits
    return np.select([values >= d, values >= c, values >= b, values >= a], [4, 3, 2, 1], 0)


def desc(values: Any, limits: Limits | tuple[float, ...]) -> Array:
    """Descending severity 0-4: from the top, the first limit the value is at or below."""
    values = np.asarray(values)
    a, b, c, d = limits
    return np.select([values <= d, values <= c, values <= b, values <= a], [4, 3, 2, 1], 0)


def scaled(limits: Limits, by: float) -> tuple[float, ...]:
    """Limits in another unit."""
    return tuple(limit * by for limit in limits)


@dataclass(frozen=True)
class Verdict:
    """One heuristic over all jobs. ``given``: which jobs get a result; ``details(j)``: label → value of job ``j``;
    ``parts``: the severities that were combined, by name, for "why and how far"."""

    rule: Rule
    given: Array
    severity: Array
    score: Array
    details: Callable[[int], Mapping[str, Any]]
    parts: Mapping[str, Array]


class Judge:
    """Holds what all heuristics look at. ``sides``: from ``sides.measure``, two rows per job of ``jobs``."""

    def __init__(
        self,
        jobs: pl.DataFrame,
        sides: pl.DataFrame,
        properties: Mapping[str, Mapping[str, str]],
        rules: Rules,
        block_size: Array,
        *,
        seed: bool = False,
    ) -> None:
        self.jobs = jobs
        self.rules = rules
        self.seed = seed
        self.block = block_size
        self.count = jobs.height
        self.names: list[str] = jobs["job_id"].to_list()
        self.properties = [properties.get(name, _NO_LABEL) for name in self.names]
        self.types: list[str] = jobs["job_type"].to_list()
        self.state = jobs["state"].to_numpy()
        self.columns: dict[str, tuple[Array, Array]] = {}
        for name in sides.columns:
            if name not in ("job_id", "side"):
                values = sides[name].to_numpy()
                self.columns[name] = (values[0::2], values[1::2])
        n = self.columns["n"]
        self.empty = (n[0] == 0) & (n[1] == 0)
        # Of a failed job upstream judges nothing but the failure; jobs that still run or were killed are judged by
        # the tasks that ended, and ``upstream_says`` tells that upstream would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, name: str, side: int) -> Array:
        """A column of ``sides`` for maps (0) or reduces (1), one value per job."""
        return self.columns[name][side]

    def all(self) -> list[Verdict]:
        """The verdicts of all rules in force, in their order."""
        found = []
        for rule in self.rules.rules:
            if self.seed and rule.kind in ("ExceptionHeuristic", "DistributedCacheLimitHeuristic"):
                continue
            verdict = _KINDS[rule.kind](self, rule)
            if rule.excluded:
                allowed = np.array([kind not in rule.excluded for kind in self.types], dtype=bool)
                verdict = Verdict(
                    rule, verdict.given & allowed, verdict.severity, verdict.score, verdict.details, verdict.parts
                )
            found.append(verdict)
        return found

    def score(self, severity: Array, n: Array) -> Array:
        """Severity value x tasks from MODERATE on, else 0."""
        return np.where(severity >= 2, severity * n, 0)

    def verdict(
        self, rule: Rule, side: int, severity: Array, details: Callable[[int], Mapping[str, Any]], **parts: Array
    ) -> Verdict:
        """A verdict whose score is severity x tasks of its side."""
        return Verdict(rule, self.judged, severity, self.score(severity, self.side("n", side)), details, parts)


def _skew(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    deviation, number = rule.limits["deviation_severity"], rule.limits["num_tasks_severity"]
    prefix = "seed_" if judge.seed else ""

    def pick(name: str) -> Array:
        return judge.side(prefix + name, side)

    na, a, nb, b = (pick(f"data_{x}") for x in ("na", "a", "nb", "b"))
    ta_n, ta, tb_n, tb = (pick(f"time_{x}") for x in ("na", "a", "nb", "b"))
    n = judge.side("n", side)
    # Limits of the size test differ by job when the block size does.
    files = tuple(judge.block * limit for limit in rule.limits["files_severity"])
    big = np.select([b >= files[3], b >= files[2], b >= files[1], b >= files[0]], [4, 3, 2, 1], 0)
    if judge.seed:
        data_dev = asc(_ratio(np.abs(b - a), np.minimum(a, b)), deviation)
        time_dev = asc(_ratio(np.abs(tb - ta), np.minimum(ta, tb)), deviation)
        data_count, time_count = asc(np.minimum(na, nb), number), asc(np.minimum(ta_n, tb_n), number)
    else:
        data_dev = asc(_deviation(a, b), deviation)
        thousand = np.full_like(ta, 1000)
        time_dev = asc(_deviation(divided(ta, thousand), divided(tb, thousand)), deviation)
        data_count, time_count = asc(na, number), asc(ta_n, number)
    data = np.minimum(np.minimum(data_dev, big), data_count)
    time = np.minimum(time_dev, time_count)
    severity = np.maximum(data, time)

    def details(j: int) -> Mapping[str, Any]:
        return {
            "Data skew (Number of tasks)": f"{n[j]}",
            "Data skew (Group A)": f"{na[j]} tasks @ {size(int(a[j]))} avg",
            "Data skew (Group B)": f"{nb[j]} tasks @ {size(int(b[j]))} avg",
            "Time skew (Number of tasks)": f"{n[j]}",
            "Time skew (Group A)": f"{ta_n[j]} tasks @ {clock(int(ta[j]))} avg",
            "Time skew (Group B)": f"{tb_n[j]} tasks @ {clock(int(tb[j]))} avg",
        }

    score = judge.score(severity if judge.seed else data, n)
    parts = {
        "data_deviation": data_dev, "data_size": big, "data_tasks": data_count, "time_deviation": time_dev,
        "time_tasks": time_count,
    }  # fmt: skip
    return Verdict(rule, judge.judged, severity, score, details, parts)


def _deviation(a: Array, b: Array) -> Array:
    """Upstream's deviation: difference over the smaller average (at least 1), integer division."""
    smaller = np.minimum(a, b)
    return divided(np.abs(a - b), np.where(smaller <= 0, 1, smaller))


def _ratio(part: Array, whole: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = part.astype(np.float64) / whole.astype(np.float64)
    return found


def _gc(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    n, runtime = judge.side("n", side), judge.side("avg_total_ms", side)
    cpu, gc = judge.side("avg_cpu_ms", side), judge.side("avg_gc_ms", side)
    ratio = asc(_ratio(gc, cpu), rule.limits["gc_ratio_severity"])
    long = asc(runtime, scaled(rule.limits["runtime_severity_in_min"], MINUTE))
    severity = np.where(n == 0, 0, np.minimum(ratio, long))

    def details(j: int) -> Mapping[str, Any]:
        share = int(gc[j]) / int(cpu[j]) if cpu[j] > 0 else 0.0
        return {
            "Number of tasks": f"{n[j]}",
            "Avg task runtime (ms)": f"{runtime[j]}",
            "Avg task CPU time (ms)": f"{cpu[j]}",
            "Avg task GC time (ms)": f"{gc[j]}",
            "Task GC/CPU ratio": java_double(share),
        }

    return judge.verdict(rule, side, severity, details, gc_ratio=ratio, runtime=long)


def _memory(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    key = settings.MAP_MEMORY if side == 0 else settings.REDUCE_MEMORY
    default = rule.number("container_memory_default_mb")
    container = np.array([memory_mb(p, key, default) for p in judge.properties], dtype=np.float64) * MB
    n, runtime = judge.side("n", side), judge.side("avg_total_ms", side)
    physical, virtual = judge.side("avg_physical", side), judge.side("avg_virtual", side)
    low, high = judge.side("min_physical", side), judge.side("max_physical", side)
    used = desc(_ratio(physical, container), rule.limits["memory_ratio_severity"])
    large = asc(container, scaled(rule.limits["container_memory_severity"], float(default) * MB))
    severity = np.where(n == 0, 0, np.minimum(used, large))

    def details(j: int) -> Mapping[str, Any]:
        return {
            "Number of tasks": f"{n[j]}",
            "Avg task runtime": span(int(runtime[j])),
            "Avg Physical Memory (MB)": f"{int(physical[j]) // MB}",
            "Max Physical Memory (MB)": f"{int(high[j]) // MB}",
            "Min Physical Memory (MB)": f"{int(low[j]) // MB}",
            "Avg Virtual Memory (MB)": f"{int(virtual[j]) // MB}",
            "Requested Container Memory": size(int(container[j])),
        }

    return judge.verdict(rule, side, severity, details, memory_ratio=used, container_memory=large)


def memory_mb(properties: Mapping[str, str], key: str, default: int) -> int:
    """The container upstream's memory heuristic sees: the number, or that of the one variable named; unset, negative
    or unusable (where upstream throws): the default."""
    value = properties.get(key)
    name = settings.variable(value)
    number = settings.integer(properties.get(name) if name is not None else value)
    return default if number is None or number < 0 else number


def _time(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    n, average = judge.side("n", side), judge.side("avg_total_ms", side)
    low, high, data = judge.side("min_total_ms", side), judge.side("max_total_ms", side), judge.side("avg_input", side)
    short = desc(average, scaled(rule.limits["short_runtime_severity_in_min"], MINUTE))
    long = asc(average, scaled(rule.limits["long_runtime_severity_in_min"], MINUTE))
    many = asc(n, rule.limits["num_tasks_severity"])
    severity = np.maximum(np.minimum(short, many), long)

    def details(j: int) -> Mapping[str, Any]:
        found = {"Number of tasks": f"{n[j]}"}
        if side == 0:
            found["Average task input size"] = size(int(data[j]))
        found["Average task runtime"] = span(int(average[j]))
        found["Max task runtime"] = span(int(high[j]))
        found["Min task runtime"] = span(int(low[j]))
        return found

    return judge.verdict(rule, side, severity, details, short_runtime=short, num_tasks=many, long_runtime=long)


def _speed(judge: Judge, rule: Rule) -> Verdict:
    n, runtime, speed = (judge.side(c, 0) for c in ("n", "median_total_ms", "median_speed"))
    data, total, timed, still = (judge.side(c, 0) for c in ("median_input", "sum_input", "timed", "still"))
    slow = desc(speed, scaled(rule.limits["disk_speed_severity"], DISK_SPEED))
    long = asc(runtime, scaled(rule.limits["runtime_severity_in_min"], MINUTE))
    severity = np.minimum(slow, long)

    def details(j: int) -> Mapping[str, Any]:
        return {
            "Number of tasks": f"{n[j]}",
            "Median task input size": size(int(data[j])),
            "Median task runtime": span(int(runtime[j])),
            "Median task speed": size(int(speed[j])) + "/s",
            "Total input size in MB": java_double(int(total[j]) / MB),
        }

    verdict = judge.verdict(rule, 0, severity, details, disk_speed=slow, runtime=long)
    # A median of no speeds is not defined: no result, and upstream loses the job.
    given = verdict.given & ((n == 0) | ((timed > 0) & (still < timed)))
    return Verdict(rule, given, severity, verdict.score, details, verdict.parts)


def _spill(judge: Judge, rule: Rule) -> Verdict:
    n, spilled, output = (judge.side(c, 0) for c in ("n", "sum_spilled", "sum_output"))
    ratio = np.where(spilled == 0, 0.0, _ratio(spilled, output))
    limits = rule.limits["spill_severity"]
    if judge.seed:
        much = asc(ratio, limits)
    else:
        # The ratio loses everything behind its fourth decimal; the limits do not: exactly 2.01 is below 2.01.
        much = asc(truncated(ratio * 10_000), scaled(limits, 10_000))
    many = asc(n, rule.limits["num_tasks_severity"])
    severity = np.minimum(much, many)

    def details(j: int) -> Mapping[str, Any]:
        tasks = int(n[j])
        return {
            "Number of tasks": f"{tasks}",
            "Avg spilled records per task": f"{int(spilled[j]) // tasks if tasks else 0}",
            "Avg output records per task": f"{int(output[j]) // tasks if tasks else 0}",
            "Ratio of spilled records to output records": java_double(float(ratio[j])),
        }

    return judge.verdict(rule, 0, severity, details, spill=much, num_tasks=many)


def _shuffle(judge: Judge, rule: Rule) -> Verdict:
    n, code = judge.side("n", 1), judge.side("avg_code_ms", 1)
    shuffle, sort = judge.side("avg_shuffle_ms", 1), judge.side("avg_sort_ms", 1)
    parts: dict[str, Array] = {}
    worst = np.zeros(judge.count, dtype=np.int64)
    for name, spent in (("shuffle", shuffle), ("sort", sort)):
        long = asc(spent, scaled(rule.limits["runtime_severity_in_min"], MINUTE))
        if judge.seed:
            share = asc(_ratio(2 * spent, code), rule.limits["runtime_ratio_severity"])
        else:
            share = asc(divided(2 * spent, np.where(code == 0, 1, code)), rule.limits["runtime_ratio_severity"])
        parts[name + "_runtime"], parts[name + "_ratio"] = long, share
        worst = np.maximum(worst, np.where(code > 0, np.minimum(long, share), long))

    def details(j: int) -> Mapping[str, Any]:
        base = int(code[j])
        return {
            "Number of tasks": f"{n[j]}",
            "Average code runtime": span(base),
            "Average shuffle time": f"{span(int(shuffle[j]))} {factor(int(shuffle[j]), base)}",
            "Average sort time": f"{span(int(sort[j]))} {factor(int(sort[j]), base)}",
        }

    return judge.verdict(rule, 1, worst, details, **parts)


def _exception(judge: Judge, rule: Rule) -> Verdict:
    texts: list[str] = judge.jobs["diagnostics"].to_list()
    severity = np.where(judge.failed, 2, 0)

    def details(j: int) -> Mapping[str, Any]:
        return {"Error": ["Stacktrace", texts[j]]}

    return Verdict(rule, judge.failed, severity, np.zeros(judge.count, dtype=np.int64), details, {})


def _cache(judge: Judge, rule: Rule) -> Verdict:
    limit = rule.number("distributed.cache.file.size.limit")
    severity = np.zeros(judge.count, dtype=np.int64)
    given = np.zeros(judge.count, dtype=bool)
    found: list[dict[str, str]] = []
    for j, properties in enumerate(judge.properties):
        listed: dict[str, str] = {}
        found.append(listed)
        for key in (settings.CACHE_FILES, settings.CACHE_ARCHIVES):
            files, sizes = properties.get(key), properties.get(key + ".filesizes")
            if files is None or sizes is None:
                continue
            given[j] = True
            names, numbers = _split(files), _split(sizes)
            if len(names) != len(numbers):
                severity[j] = max(severity[j], 2)
                break
            for name, number in zip(names, numbers, strict=True):
                value = settings.integer(number)
                if value is not None and value > limit:
                    severity[j] = 4
                    listed[name] = str(value)
    return Verdict(rule, given & judge.judged, severity, np.zeros(judge.count, dtype=np.int64), found.__getitem__, {})


def _split(text: str) -> list[str]:
    """Java's ``split(",")``: empty parts at the end fall away."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


QUEUE_LIMITS = (13 * MINUTE, 13.5 * MINUTE, 14 * MINUTE, 14.5 * MINUTE)
"""Limits of Job Queue Limit: run time of a task, ms."""


def _queue(judge: Judge, rule: Rule) -> Verdict:
    severity = np.zeros(judge.count, dtype=np.int64)
    queues = [p.get(settings.QUEUE_OLD, p.get(settings.QUEUE)) for p in judge.properties]
    counts = {(side, level): judge.side(f"over_{level}", side) for side in (0, 1) for level in (1, 2, 3, 4)}
    n = (judge.side("n", 0), judge.side("n", 1))
    default = np.array([q == "default" for q in queues], dtype=bool)
    for level in (1, 2, 3, 4):
        severity = np.where(default & ((counts[0, level] > 0) | (counts[1, level] > 0)), level, severity)

    def details(j: int) -> Mapping[str, Any]:
        if not default[j]:
            return {"Not Applicable": f"This Heuristic is not applicable to {queues[j]} queue"}
        found = {"Queue: ": "default", "Number of Map tasks": f"{n[0][j]}", "Number of Reduce tasks": f"{n[1][j]}"}
        for side, word in ((0, "Map"), (1, "Reduce")):
            severe, critical = counts[side, 3][j] - counts[side, 4][j], counts[side, 4][j]
            found[f"Number of {word} tasks that are in severe state (14 to 14.5 min)"] = f"{severe}"
            found[f"Number of {word} tasks that are in critical state (over 14.5 min)"] = f"{critical}"
        return found

    known = np.array([q is not None for q in queues], dtype=bool)
    return Verdict(rule, known, severity, np.zeros(judge.count, dtype=np.int64), details, {})


_KINDS: dict[str, Callable[[Judge, Rule], Verdict]] = {
    "MapperSkewHeuristic": _skew,
    "ReducerSkewHeuristic": _skew,
    "MapperGCHeuristic": _gc,
    "ReducerGCHeuristic": _gc,
    "MapperMemoryHeuristic": _memory,
    "ReducerMemoryHeuristic": _memory,
    "MapperTimeHeuristic": _time,
    "ReducerTimeHeuristic": _time,
    "MapperSpeedHeuristic": _speed,
    "MapperSpillHeuristic": _spill,
    "ShuffleSortHeuristic": _shuffle,
    "ExceptionHeuristic": _exception,
    "DistributedCacheLimitHeuristic": _cache,
    "JobQueueLimitHeuristic": _queue,
}

NO_DATA = "No Data Received"
"""Name of upstream's pseudo result for a job without tasks."""


def rows(judge: Judge, verdicts: list[Verdict]) -> pl.DataFrame:
    """HEURISTICS rows: jobs in the order of ``judge.jobs``, heuristics in the order of the rules."""
    idle = judge.empty & (judge.state == "SUCCEEDED")
    columns: dict[str, list[Any]] = {name: [] for name in HEURISTICS.schema.names()}
    jobs, names, words, scores, details = (columns[n] for n in HEURISTICS.schema.names())
    given = [v.given.tolist() for v in verdicts]
    severities = [v.severity.tolist() for v in verdicts]
    points = [v.score.tolist() for v in verdicts]
    for j, job in enumerate(judge.names):
        if idle[j]:
            jobs.append(job)
            names.append(NO_DATA)
            words.append("LOW")
            scores.append(0)
            details.append('{"No Data Received":""}')
            continue
        for i, verdict in enumerate(verdicts):
            if given[i][j]:
                jobs.append(job)
                names.append(verdict.rule.name)
                words.append(SEVERITIES[severities[i][j]])
                scores.append(points[i][j])
                details.append(_json(verdict.details(j)))
    return HEURISTICS.frame(columns)


def _json(details: Mapping[str, Any]) -> str:
    """Details as a JSON object. Most are plain words and numbers, which need no escaping."""
    try:
        plain = "".join(details.values()) + "".join(details)
    except TypeError:
        plain = '"'
    if (
        plain.isascii()
        and plain.isprintable()
        and '"' not in plain
        and "\\" not in plain
        and len(plain) < 600
        and max(map(len, details.values()), default=0) <= 255
    ):
        return "{" + ",".join([f'"{label}":"{value}"' for label, value in details.items()]) + "}"
    kept = {k: _cut(v) if isinstance(v, str) else v for k, v in details.items()}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _cut(value: str) -> str:
    """Upstream keeps 255 characters of a value."""
    return value if len(value) <= 255 else value[:252] + "..."
