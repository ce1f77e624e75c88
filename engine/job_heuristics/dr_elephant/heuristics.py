"""Every heuristic over every job at once: severities, scores and upstream's details (fact sheet, section 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.display import clock, factor, java_double, size, span
from engine.job_heuristics.dr_elephant.rules import Limits, Rule, Rules
from engine.job_heuristics.dr_elephant.side_stats import MB, Array, Sides, divided, truncated
from engine.job_heuristics.model import job_conf
from engine.job_heuristics.tables import HEURISTICS, SEVERITIES

MINUTE = 60_000
DISK_SPEED = 100 * MB
"""Upstream's constant disk speed, bytes per second."""
_NO_LABEL: dict[str, str] = {}


def asc(values: Any, limits: Limits | tuple[float, ...]) -> Array:
    """Ascending severity 0-4: from the top, the first limit that is reached (inclusive). NaN gives 0."""
    values = np.asarray(values)
    a, b, c, d = limits
    return _first(values >= d, values >= c, values >= b, values >= a)


def desc(values: Any, limits: Limits | tuple[float, ...]) -> Array:
    """Descending severity 0-4: from the top, the first limit the value is at or below."""
    values = np.asarray(values)
    a, b, c, d = limits
    return _first(values <= d, values <= c, values <= b, values <= a)


def _first(critical: Array, severe: Array, moderate: Array, low: Array) -> Array:
    """The worst severity whose limit is met; ``numpy.select`` says the same three times slower."""
    found: Array = np.where(critical, 4, np.where(severe, 3, np.where(moderate, 2, low.astype(np.int64))))
    return found


def scaled(limits: Limits, by: float) -> tuple[float, ...]:
    """Limits in another unit."""
    return tuple(limit * by for limit in limits)


@dataclass(frozen=True)
class PerJob:
    """Details that differ in form from job to job: label → value of job ``j``."""

    of: Callable[[int], Mapping[str, Any]]

    def texts(self, at: Array) -> list[str]:
        """Details of the jobs ``at`` as JSON objects."""
        return [_json(self.of(j)) for j in at.tolist()]


@dataclass(frozen=True)
class PerLabel:
    """Details of the same labels for every job: label → texts of the jobs asked for, plain ones that JSON need not
    escape."""

    of: Callable[[Array], Mapping[str, list[str]]]

    def texts(self, at: Array) -> list[str]:
        """Details of the jobs ``at`` as JSON objects."""
        columns = self.of(at)
        shape = ",".join(f'"{label}":"%s"' for label in columns).join("{}")
        return list(map(shape.__mod__, zip(*columns.values(), strict=True)))


def _each(make: Callable[[Any], str], values: Array) -> list[str]:
    """``make`` of each value, of equal ones once."""
    listed = values.tolist()
    known = {value: make(value) for value in set(listed)}
    return list(map(known.__getitem__, listed))


def _plain(values: Array) -> list[str]:
    return list(map(str, values.tolist()))


@dataclass(frozen=True)
class Verdict:
    """One heuristic over all jobs. ``given``: which jobs get a result; ``details``: upstream's labels and values;
    ``parts``: the severities that were combined, by name, for "why and how far"."""

    rule: Rule
    given: Array
    severity: Array
    score: Array
    details: PerJob | PerLabel
    parts: Mapping[str, Array]


class Judge:
    """Holds what all heuristics look at. ``sides``: from ``sides.measure``, for the jobs of ``jobs``."""

    def __init__(
        self,
        jobs: pl.DataFrame,
        sides: Sides,
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
        self.columns = {name: (values[0::2], values[1::2]) for name, values in sides.items()}
        n = self.columns["n"]
        self.empty = (n[0] == 0) & (n[1] == 0)
        # Of a failed job upstream judges nothing but the failure; jobs that still run or were killed are judged by
        # the tasks that ended, and ``upstream_says`` tells that upstream would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, name: str, side: int) -> Array:
        """A column of ``sides`` for maps (0) or reduces (1), one value per job."""
        return self.columns[name][side]

    def all(self, other_mode: Sequence[Verdict] = ()) -> list[Verdict]:
        """The verdicts of all rules in force, in their order. ``other_mode``: those of the same jobs in the other mode, of
        which the ones that both modes find alike are taken over."""
        known = {id(verdict.rule): verdict for verdict in other_mode if verdict.rule.kind not in _BY_MODE}
        found = []
        for rule in self.rules.rules:
            if self.seed and rule.kind in ("ExceptionHeuristic", "DistributedCacheLimitHeuristic"):
                continue
            if id(rule) in known:
                found.append(known[id(rule)])
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

    def verdict(self, rule: Rule, side: int, severity: Array, details: PerLabel, **parts: Array) -> Verdict:
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
    big = _first(b >= files[3], b >= files[2], b >= files[1], b >= files[0])
    if judge.seed:
        data_dev = asc(_ratio(np.abs(b - a), np.minimum(a, b)), deviation)
        time_dev = asc(_ratio(np.abs(tb - ta), np.minimum(ta, tb)), deviation)
        data_count, time_count = asc(np.minimum(na, nb), number), asc(np.minimum(ta_n, tb_n), number)
    else:
        data_dev = asc(_deviation(a, b), deviation)
        time_dev = asc(_deviation(divided(ta, 1000), divided(tb, 1000)), deviation)
        data_count, time_count = asc(na, number), asc(ta_n, number)
    data = np.minimum(np.minimum(data_dev, big), data_count)
    time = np.minimum(time_dev, time_count)
    severity = np.maximum(data, time)

    def group(count: Array, make: Callable[[int], str], values: Array) -> list[str]:
        return [f"{k} tasks @ {text} avg" for k, text in zip(count.tolist(), _each(make, values), strict=True)]

    def details(at: Array) -> Mapping[str, list[str]]:
        tasks = _plain(n[at])
        return {
            "Data skew (Number of tasks)": tasks,
            "Data skew (Group A)": group(na[at], size, a[at]),
            "Data skew (Group B)": group(nb[at], size, b[at]),
            "Time skew (Number of tasks)": tasks,
            "Time skew (Group A)": group(ta_n[at], clock, ta[at]),
            "Time skew (Group B)": group(tb_n[at], clock, tb[at]),
        }

    score = judge.score(severity if judge.seed else data, n)
    parts = {
        "data_deviation": data_dev, "data_size": big, "data_tasks": data_count, "time_deviation": time_dev,
        "time_tasks": time_count,
    }  # fmt: skip
    return Verdict(rule, judge.judged, severity, score, PerLabel(details), parts)


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

    def details(at: Array) -> Mapping[str, list[str]]:
        shares = [x / y if y > 0 else 0.0 for x, y in zip(gc[at].tolist(), cpu[at].tolist(), strict=True)]
        return {
            "Number of tasks": _plain(n[at]),
            "Avg task runtime (ms)": _plain(runtime[at]),
            "Avg task CPU time (ms)": _plain(cpu[at]),
            "Avg task GC time (ms)": _plain(gc[at]),
            "Task GC/CPU ratio": list(map(java_double, shares)),
        }

    return judge.verdict(rule, side, severity, PerLabel(details), gc_ratio=ratio, runtime=long)


def _memory(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    key = job_conf.MAP_MEMORY if side == 0 else job_conf.REDUCE_MEMORY
    default = rule.number("container_memory_default_mb")
    container = np.array([memory_mb(p, key, default) for p in judge.properties], dtype=np.float64) * MB
    n, runtime = judge.side("n", side), judge.side("avg_total_ms", side)
    physical, virtual = judge.side("avg_physical", side), judge.side("avg_virtual", side)
    low, high = judge.side("min_physical", side), judge.side("max_physical", side)
    used = desc(_ratio(physical, container), rule.limits["memory_ratio_severity"])
    large = asc(container, scaled(rule.limits["container_memory_severity"], float(default) * MB))
    severity = np.where(n == 0, 0, np.minimum(used, large))

    def details(at: Array) -> Mapping[str, list[str]]:
        return {
            "Number of tasks": _plain(n[at]),
            "Avg task runtime": _each(span, runtime[at]),
            "Avg Physical Memory (MB)": _plain(physical[at] // MB),
            "Max Physical Memory (MB)": _plain(high[at] // MB),
            "Min Physical Memory (MB)": _plain(low[at] // MB),
            "Avg Virtual Memory (MB)": _plain(virtual[at] // MB),
            "Requested Container Memory": _each(lambda value: size(int(value)), container[at]),
        }

    return judge.verdict(rule, side, severity, PerLabel(details), memory_ratio=used, container_memory=large)


def memory_mb(properties: Mapping[str, str], key: str, default: int) -> int:
    """The container upstream's memory heuristic sees: the number, or that of the one variable named; unset, negative
    or unusable (where upstream throws): the default."""
    value = properties.get(key)
    name = job_conf.variable(value)
    number = job_conf.integer(properties.get(name) if name is not None else value)
    return default if number is None or number < 0 else number


def _time(judge: Judge, rule: Rule) -> Verdict:
    side = 0 if rule.kind.startswith("Mapper") else 1
    n, average = judge.side("n", side), judge.side("avg_total_ms", side)
    low, high, data = judge.side("min_total_ms", side), judge.side("max_total_ms", side), judge.side("avg_input", side)
    short = desc(average, scaled(rule.limits["short_runtime_severity_in_min"], MINUTE))
    long = asc(average, scaled(rule.limits["long_runtime_severity_in_min"], MINUTE))
    many = asc(n, rule.limits["num_tasks_severity"])
    severity = np.maximum(np.minimum(short, many), long)

    def details(at: Array) -> Mapping[str, list[str]]:
        return {
            "Number of tasks": _plain(n[at]),
            **({"Average task input size": _each(size, data[at])} if side == 0 else {}),
            "Average task runtime": _each(span, average[at]),
            "Max task runtime": _each(span, high[at]),
            "Min task runtime": _each(span, low[at]),
        }

    return judge.verdict(
        rule, side, severity, PerLabel(details), short_runtime=short, num_tasks=many, long_runtime=long
    )


def _speed(judge: Judge, rule: Rule) -> Verdict:
    n, runtime, speed = (judge.side(c, 0) for c in ("n", "median_total_ms", "median_speed"))
    data, total, timed, still = (judge.side(c, 0) for c in ("median_input", "sum_input", "timed", "still"))
    slow = desc(speed, scaled(rule.limits["disk_speed_severity"], DISK_SPEED))
    long = asc(runtime, scaled(rule.limits["runtime_severity_in_min"], MINUTE))
    severity = np.minimum(slow, long)

    def details(at: Array) -> Mapping[str, list[str]]:
        return {
            "Number of tasks": _plain(n[at]),
            "Median task input size": _each(size, data[at]),
            "Median task runtime": _each(span, runtime[at]),
            "Median task speed": _each(lambda value: size(value) + "/s", speed[at]),
            "Total input size in MB": _each(lambda value: java_double(value / MB), total[at]),
        }

    verdict = judge.verdict(rule, 0, severity, PerLabel(details), disk_speed=slow, runtime=long)
    # A median of no speeds is not defined: no result, and upstream loses the job.
    given = verdict.given & ((n == 0) | ((timed > 0) & (still < timed)))
    return Verdict(rule, given, severity, verdict.score, verdict.details, verdict.parts)


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

    def details(at: Array) -> Mapping[str, list[str]]:
        tasks = n[at]
        some = np.maximum(tasks, 1)
        return {
            "Number of tasks": _plain(tasks),
            "Avg spilled records per task": _plain(np.where(tasks > 0, spilled[at] // some, 0)),
            "Avg output records per task": _plain(np.where(tasks > 0, output[at] // some, 0)),
            "Ratio of spilled records to output records": _each(java_double, ratio[at]),
        }

    return judge.verdict(rule, 0, severity, PerLabel(details), spill=much, num_tasks=many)


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

    def spent_of(values: Array, base: Array) -> list[str]:
        pairs = list(zip(values.tolist(), base.tolist(), strict=True))
        known = {pair: f"{span(pair[0])} {factor(*pair)}" for pair in set(pairs)}
        return list(map(known.__getitem__, pairs))

    def details(at: Array) -> Mapping[str, list[str]]:
        return {
            "Number of tasks": _plain(n[at]),
            "Average code runtime": _each(span, code[at]),
            "Average shuffle time": spent_of(shuffle[at], code[at]),
            "Average sort time": spent_of(sort[at], code[at]),
        }

    return judge.verdict(rule, 1, worst, PerLabel(details), **parts)


def _exception(judge: Judge, rule: Rule) -> Verdict:
    texts: list[str] = judge.jobs["diagnostics"].to_list()
    severity = np.where(judge.failed, 2, 0)

    def details(j: int) -> Mapping[str, Any]:
        return {"Error": ["Stacktrace", texts[j]]}

    return Verdict(rule, judge.failed, severity, np.zeros(judge.count, dtype=np.int64), PerJob(details), {})


def _cache(judge: Judge, rule: Rule) -> Verdict:
    limit = rule.number("distributed.cache.file.size.limit")
    severity = np.zeros(judge.count, dtype=np.int64)
    given = np.zeros(judge.count, dtype=bool)
    found: list[dict[str, str]] = []
    for j, properties in enumerate(judge.properties):
        listed: dict[str, str] = {}
        found.append(listed)
        for key in (job_conf.CACHE_FILES, job_conf.CACHE_ARCHIVES):
            files, sizes = properties.get(key), properties.get(key + ".filesizes")
            if files is None or sizes is None:
                continue
            given[j] = True
            names, numbers = _split(files), _split(sizes)
            if len(names) != len(numbers):
                severity[j] = max(severity[j], 2)
                break
            for name, number in zip(names, numbers, strict=True):
                value = job_conf.integer(number)
                if value is not None and value > limit:
                    severity[j] = 4
                    listed[name] = str(value)
    details = PerJob(found.__getitem__)
    return Verdict(rule, given & judge.judged, severity, np.zeros(judge.count, dtype=np.int64), details, {})


def _split(text: str) -> list[str]:
    """Java's ``split(",")``: empty parts at the end fall away."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _queue(judge: Judge, rule: Rule) -> Verdict:
    severity = np.zeros(judge.count, dtype=np.int64)
    queues = [p.get(job_conf.QUEUE_OLD, p.get(job_conf.QUEUE)) for p in judge.properties]
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
    return Verdict(rule, known, severity, np.zeros(judge.count, dtype=np.int64), PerJob(details), {})


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

_BY_MODE = frozenset({"MapperSkewHeuristic", "ReducerSkewHeuristic", "MapperSpillHeuristic", "ShuffleSortHeuristic"})
"""Heuristics that look at the mode."""

NO_DATA = "No Data Received"
"""Name of upstream's pseudo result for a job without tasks."""
_IDLE = '{"No Data Received":""}'


def rows(judge: Judge, verdicts: list[Verdict]) -> pl.DataFrame:
    """HEURISTICS rows: jobs in the order of ``judge.jobs``, heuristics in the order of the rules."""
    idle = judge.empty & (judge.state == "SUCCEEDED")
    at = np.flatnonzero(idle)
    found = [(at, NO_DATA, np.ones(len(at), np.int64), np.zeros(len(at), np.int64), [_IDLE] * len(at))]
    for verdict in verdicts:
        at = np.flatnonzero(verdict.given & ~idle)
        made = verdict.details.texts(at) if len(at) else []
        found.append((at, verdict.rule.name, verdict.severity[at], verdict.score[at], made))
    job = np.concatenate([each[0] for each in found])
    order = np.argsort(job, kind="stable")
    kinds = np.repeat(np.arange(len(found)), [len(each[0]) for each in found])
    severity, score = (np.concatenate([each[k] for each in found]).astype(np.int64)[order] for k in (2, 3))
    texts = [text for each in found for text in each[4]]
    if len(order) <= _FEW:
        return HEURISTICS.frame(
            {
                "job_id": [judge.names[j] for j in job[order].tolist()],
                "heuristic": [found[k][1] for k in kinds[order].tolist()],
                "severity": [SEVERITIES[k] for k in severity.tolist()],
                "score": score,
                "details": [texts[k] for k in order.tolist()],
            }
        )
    frame = pl.DataFrame(
        {
            "job_id": judge.jobs["job_id"].gather(job[order]),
            "heuristic": pl.Series([each[1] for each in found]).gather(kinds[order]),
            "severity": pl.Series(SEVERITIES).gather(severity),
            "score": score,
            "details": pl.Series(texts, dtype=pl.String).gather(order),
        }
    )
    return HEURISTICS.frame(frame)


_FEW = 1000
"""Rows up to which values are looked up one by one."""


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
