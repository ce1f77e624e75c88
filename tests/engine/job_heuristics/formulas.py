"""Dr. Elephant's rules once more, as plainly as docs/models/job-heuristics.md states them: one job, one number at a time.

The engine is not used here. Whole numbers are Python's, wrapped to 64 bit where Java's would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.engine.job_heuristics.java import (
    Lost,
    average,
    clock,
    cut,
    divide,
    double,
    factor,
    falling,
    median,
    over,
    rising,
    size,
    span,
    two_groups,
    whole,
    wrap,
)
from tests.engine.job_heuristics.odd_jobs import MB, OddJob

MINUTE = 60_000
MIN, MAX = -(2**63), 2**63 - 1
BLOCK = 64 * MB
INPUT = ("HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ", "S3N_BYTES_READ")
FETCHED = ("REDUCE_SHUFFLE_BYTES",)
OWN = tuple(f"org.apache.hadoop.mapreduce.{name}" for name in ("TaskCounter", "JobCounter", "FileSystemCounter"))
RENAMED = {
    "mapred.job.map.memory.mb": "mapreduce.map.memory.mb",
    "mapred.job.reduce.memory.mb": "mapreduce.reduce.memory.mb",
    "mapred.reduce.slowstart.completed.maps": "mapreduce.job.reduce.slowstart.completedmaps",
    "mapred.cache.files": "mapreduce.job.cache.files",
    "mapred.cache.files.filesizes": "mapreduce.job.cache.files.filesizes",
    "mapred.cache.archives": "mapreduce.job.cache.archives",
    "mapred.cache.archives.filesizes": "mapreduce.job.cache.archives.filesizes",
    "mapred.job.queue.name": "mapreduce.job.queuename",
}
TYPES = (
    ("Pig", "pig.script"), ("Hive", "hive.mapred.mode"), ("OozieLauncher", "oozie.launcher.action.main.class"),
    ("Cascading", "cascading.app.frameworks"), ("Voldemort", "mapred.reducer.class"), ("Kafka", "kafka.url"),
    ("HadoopJava", "mapred.child.java.opts"),
)  # fmt: skip
SEVERITIES = ("NONE", "LOW", "MODERATE", "SEVERE", "CRITICAL")

Details = dict[str, Any]
Verdict = tuple[str, str, int, Details]
"""Name, severity, score, labels and values."""


# --- from events to tasks --------------------------------------------------------------------------------------------


@dataclass
class Attempt:
    is_map: bool
    start: int
    finish: int | None = None
    shuffled: int | None = None
    sorted: int | None = None


@dataclass
class Task:
    is_map: bool
    state: str = ""
    chosen: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt | None:
        return None if self.chosen is None else self.attempts[self.chosen]

    def __getitem__(self, name: str) -> int:
        return self.counters.get(name, 0)

    def sum(self, names: Iterable[str]) -> int:
        return wrap(sum(self[name] for name in names))

    @property
    def total(self) -> int:
        return self.times[0]

    @property
    def times(self) -> tuple[int, int, int]:
        """Total, shuffle, sort."""
        one = self.attempt
        assert one is not None and one.finish is not None
        if one.is_map:
            return one.finish - one.start, 0, 0
        assert one.shuffled is not None and one.sorted is not None
        return one.finish - one.start, one.shuffled - one.start, one.sorted - one.shuffled


def counters_of(record: Mapping[str, Any] | None) -> dict[str, int]:
    """Values by counter name. Raises Lost for more than Hadoop's parser takes."""
    if record is None:
        return {}
    groups: dict[str, dict[str, int]] = {}
    foreign, names = 0, set()
    for group in record["groups"]:
        values = {each["name"]: each["value"] for each in group["counts"]}
        if group["name"] not in OWN:
            names.add(group["name"])
            foreign += len(values)
            if len(names) > 50 or foreign > 120:
                raise Lost("too many counters")
        groups[group["name"]] = values
    return {name: value for values in groups.values() for name, value in values.items()}


def tasks_of(job: OddJob) -> tuple[dict[str, Task], str, dict[str, Any]]:
    """Tasks by id, the job's state (empty: none), and the fields of its last event."""
    tasks: dict[str, Task] = {}
    state, end = "", {}
    for _, record, fields in job.events:
        try:
            if record == "TaskStarted":
                tasks[fields["taskid"]] = Task(fields["taskType"] == "MAP")
            elif record == "TaskAttemptStarted":
                attempt = Attempt(fields["taskType"] == "MAP", fields["startTime"])
                tasks[fields["taskid"]].attempts[fields["attemptId"]] = attempt
            elif record in ("MapAttemptFinished", "ReduceAttemptFinished"):
                counters_of(fields["counters"])
                attempt = tasks[fields["taskid"]].attempts[fields["attemptId"]]
                attempt.finish = fields["finishTime"]
                attempt.shuffled, attempt.sorted = fields.get("shuffleFinishTime"), fields.get("sortFinishTime")
            elif record == "TaskAttemptUnsuccessfulCompletion":
                unsuccessful(tasks.get(fields["taskid"]), fields)
            elif record in ("TaskFinished", "TaskFailed"):
                task = tasks[fields["taskid"]]
                task.state = "SUCCEEDED" if record == "TaskFinished" else "FAILED"
                task.chosen = fields["successfulAttemptId" if record == "TaskFinished" else "failedDueToAttempt"]
                task.counters = counters_of(fields["counters"])
        except KeyError as error:
            raise Lost("of something that never began") from error
        if record == "JobFinished":
            state, end = "SUCCEEDED", fields
        elif record == "JobUnsuccessfulCompletion":
            state, end = fields["jobStatus"], fields
    return tasks, state, end


def unsuccessful(task: Task | None, fields: Mapping[str, Any]) -> None:
    """All phases of an attempt that did not succeed end with it; a task that rested on it is open again."""
    counters_of(fields["counters"])
    attempt = task.attempts.get(fields["attemptId"]) if task is not None else None
    if task is None or attempt is None:
        return
    attempt.finish = attempt.shuffled = attempt.sorted = fields["finishTime"]
    if task.state == "SUCCEEDED" and task.chosen == fields["attemptId"]:
        task.state, task.chosen, task.counters = "", None, {}


def properties_of(job: OddJob) -> dict[str, str]:
    """The configuration as Hadoop loads it."""
    values: dict[str, str] = {}
    final = set()
    for name, value, fixed in job.properties:
        name = RENAMED.get(name.strip(), name.strip())
        value = value.replace("\r\n", "\n") if "\r\n" in value else value
        if value and name not in final:
            values[name] = value
        if fixed == "true":
            final.add(name)
    return values


def parse_long(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"[+-]?\d+", text):
        return None
    value = int(text)
    return value if MIN <= value <= MAX else None


def parse_double(text: str | None) -> None:
    """Raise Lost for what Java takes for no number."""
    if text is None:
        raise Lost("no slow start")
    text = text.strip("".join(map(chr, range(33))))
    decimal = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?"
    hexadecimal = r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+[fFdD]?"
    if not (re.fullmatch(rf"{decimal}|{hexadecimal}|[+-]?(NaN|Infinity)", text) and text.isascii()):
        raise Lost("slow start is no number")


# --- heuristics ------------------------------------------------------------------------------------------------------


def verdict(name: str, level: int, n: int, details: Details, scored: int | None = None) -> Verdict:
    scored = level if scored is None else scored
    return name, SEVERITIES[level], scored * n if scored >= 2 else 0, details


def skew(name: str, tasks: list[Task], timed: list[Task], names: Sequence[str]) -> Verdict:
    n = len(tasks)
    times, data = two_groups([t.total for t in timed]), two_groups([t.sum(names) for t in tasks])
    (t_low, t_high), (d_low, d_high) = map(average, times), map(average, data)

    def deviation(low: int, high: int) -> int:
        smaller = min(low, high)
        return rising(over(wrap(abs(wrap(high - low))), smaller if smaller > 0 else 1), 2, 4, 8, 16)

    def small(group: list[int]) -> int:
        return rising(len(group), 10, 50, 100, 200)

    by_time = min(deviation(over(t_low, 1000), over(t_high, 1000)), small(times[0]))
    by_data = min(deviation(d_low, d_high), rising(d_high, BLOCK / 8, BLOCK / 4, BLOCK / 2, BLOCK), small(data[0]))
    details = {
        "Data skew (Number of tasks)": str(n),
        "Data skew (Group A)": f"{len(data[0])} tasks @ {size(d_low)} avg",
        "Data skew (Group B)": f"{len(data[1])} tasks @ {size(d_high)} avg",
        "Time skew (Number of tasks)": str(n),
        "Time skew (Group A)": f"{len(times[0])} tasks @ {clock(t_low)} avg",
        "Time skew (Group B)": f"{len(times[1])} tasks @ {clock(t_high)} avg",
    }
    return verdict(name, max(by_time, by_data), n, details, by_data)


def collection(name: str, tasks: list[Task], timed: list[Task]) -> Verdict:
    n, runtime = len(tasks), average([t.total for t in timed])
    cpu, gc = average([t["CPU_MILLISECONDS"] for t in timed]), average([t["GC_TIME_MILLIS"] for t in timed])
    by_ratio = rising(divide(float(gc), float(cpu)), 0.01, 0.02, 0.03, 0.04)
    level = min(by_ratio, rising(runtime, *(m * MINUTE for m in (5, 10, 12, 15)))) if n else 0
    details = {
        "Number of tasks": str(n), "Avg task runtime (ms)": str(runtime), "Avg task CPU time (ms)": str(cpu),
        "Avg task GC time (ms)": str(gc), "Task GC/CPU ratio": double(float(gc) / float(cpu) if cpu else 0.0),
    }  # fmt: skip
    return verdict(name, level, n, details)


def runtime(name: str, tasks: list[Task], timed: list[Task], *, is_map: bool) -> Verdict:
    n, totals = len(tasks), [t.total for t in timed]
    mean = average(totals)
    short = min(falling(mean, *(m * MINUTE for m in (10, 4, 2, 1))), rising(n, 50, 101, 500, 1000))
    level = max(short, rising(mean, *(m * MINUTE for m in (15, 30, 60, 120))))
    details: Details = {"Number of tasks": str(n)}
    if is_map:
        details["Average task input size"] = size(average([t.sum(INPUT) for t in timed]))
    details |= {
        "Average task runtime": span(mean), "Max task runtime": span(max([0, *totals])),
        "Min task runtime": span(min(totals, default=0)),
    }  # fmt: skip
    return verdict(name, level, n, details)


def speed(tasks: list[Task], timed: list[Task]) -> Verdict:
    n = len(tasks)
    if any(t.total == 0 for t in timed):
        raise Lost("divided by zero")
    sizes, totals = [t.sum(INPUT) for t in timed], [t.total for t in timed]
    speeds = [over(wrap(1000 * read), total) for read, total in zip(sizes, totals, strict=True)]
    m_speed, m_size, m_time = (median(values) if n else 0 for values in (speeds, sizes, totals))
    by_speed = falling(m_speed, *(part * 100 * MB for part in (1 / 2, 1 / 4, 1 / 8, 1 / 32)))
    level = min(by_speed, rising(m_time, *(m * MINUTE for m in (5, 10, 15, 30))))
    details = {
        "Number of tasks": str(n), "Median task input size": size(m_size), "Median task runtime": span(m_time),
        "Median task speed": size(m_speed) + "/s", "Total input size in MB": double(float(wrap(sum(sizes))) / MB),
    }  # fmt: skip
    return verdict("Mapper Speed", level, n, details)


def spill(tasks: list[Task]) -> Verdict:
    n = len(tasks)
    spilled, written = (wrap(sum(t[name] for t in tasks)) for name in ("SPILLED_RECORDS", "MAP_OUTPUT_RECORDS"))
    ratio = divide(float(spilled), float(written)) if spilled else 0.0
    by_ratio = rising(whole(ratio * 10_000), *(limit * 10_000 for limit in (2.01, 2.2, 2.5, 3.0)))
    details = {
        "Number of tasks": str(n), "Avg spilled records per task": str(over(spilled, n) if n else 0),
        "Avg output records per task": str(over(written, n) if n else 0),
        "Ratio of spilled records to output records": double(ratio),
    }  # fmt: skip
    return verdict("Mapper Spill", min(by_ratio, rising(n, 50, 100, 500, 1000)), n, details)


def memory(name: str, tasks: list[Task], timed: list[Task], properties: Mapping[str, str], key: str) -> Verdict:
    n, text = len(tasks), properties.get(key)
    container = parse_long(text)
    if container is None and text is not None and text.startswith("$"):
        begin, end = text.find("{") + 1, text.find("}")
        if end < begin:
            raise Lost("cut out of bounds")
        container = parse_long(properties.get(text[begin:end]))
    bytes_ = wrap((2048 if container is None or container < 0 else container) * MB)
    physical, virtual = ([t[f"{kind}_MEMORY_BYTES"] for t in timed] for kind in ("PHYSICAL", "VIRTUAL"))
    mean = average(physical)
    by_ratio = falling(divide(float(mean), float(bytes_)), 0.6, 0.5, 0.4, 0.3)
    default = 2048 * MB
    level = min(by_ratio, rising(bytes_, 1.1 * default, 1.5 * default, 2.0 * default, 2.5 * default)) if n else 0
    details = {
        "Number of tasks": str(n), "Avg task runtime": span(average([t.total for t in timed])),
        "Avg Physical Memory (MB)": str(over(mean, MB)), "Max Physical Memory (MB)": str(over(max([0, *physical]), MB)),
        "Min Physical Memory (MB)": str(over(min(physical, default=0), MB)),
        "Avg Virtual Memory (MB)": str(over(average(virtual), MB)), "Requested Container Memory": size(bytes_),
    }  # fmt: skip
    return verdict(name, level, n, details)


def shuffle_sort(tasks: list[Task], timed: list[Task]) -> Verdict:
    n = len(tasks)
    shuffle, sort = average([t.times[1] for t in timed]), average([t.times[2] for t in timed])
    code = average([total - shuffled - sorted_ for total, shuffled, sorted_ in (t.times for t in timed)])

    def level(spent: int) -> int:
        by_time = rising(spent, *(m * MINUTE for m in (1, 5, 10, 30)))
        return by_time if code <= 0 else min(by_time, rising(over(2 * spent, code), 1, 2, 4, 8))

    details = {
        "Number of tasks": str(n), "Average code runtime": span(code),
        "Average shuffle time": f"{span(shuffle)} {factor(shuffle, code)}",
        "Average sort time": f"{span(sort)} {factor(sort, code)}",
    }  # fmt: skip
    return verdict("Shuffle & Sort", max(level(shuffle), level(sort)), n, details)


def cache(properties: Mapping[str, str]) -> Verdict | None:
    found: Verdict | None = None
    for key in ("mapreduce.job.cache.files", "mapreduce.job.cache.archives"):
        if key not in properties or f"{key}.filesizes" not in properties:
            continue
        level, details = (0, {}) if found is None else (SEVERITIES.index(found[1]), found[3])
        names, sizes = (properties[each].rstrip(",") for each in (key, f"{key}.filesizes"))
        parts = [text.split(",") if text else [] for text in (names, sizes)]
        if len(parts[0]) != len(parts[1]):
            counts = {key: str(len(parts[0])), f"{key}.filesizes": str(len(parts[1]))}
            return "Distributed Cache Limit", "MODERATE", 0, {**details, **counts}
        for name, text in dict(zip(*parts, strict=True)).items():
            if (parse_long(text) or 0) > 500 * MB:
                level, details = 4, {**details, cut(name, 128): str(parse_long(text))}
        found = ("Distributed Cache Limit", SEVERITIES[level], 0, details)
    return found


# --- metrics and the whole job ---------------------------------------------------------------------------------------


def metrics(
    sides: Sequence[tuple[list[Task], list[Task]]], properties: Mapping[str, str], submit: int
) -> dict[str, int]:
    used = wasted = wait = 0
    ideal = submit
    for (_, timed), key in zip(sides, ("mapreduce.map.memory.mb", "mapreduce.reduce.memory.mb"), strict=True):
        stated = parse_long(properties.get(key))
        container = 2048 if stated is None or stated < 0 else stated
        seconds = sum(over(t.total, 1000) for t in timed)
        needs = [
            max(over(t["PHYSICAL_MEMORY_BYTES"], MB), whole(over(t["VIRTUAL_MEMORY_BYTES"], MB) / 2.1)) for t in timed
        ]
        spare = container - whole(max([0, *needs]) * 1.5)
        used, wasted = wrap(used + container * seconds), wrap(wasted + max(spare, 0) * seconds)
        ends = [t.attempt.finish for t in timed if t.attempt is not None and t.attempt.finish is not None]
        if ends:
            longest = max(0, *(t.total for t in timed))
            wait += max(0, max(0, *ends) - (ideal + longest))
        ideal = max(ends, default=MAX)
    return {"used_mb_s": used, "wasted_mb_s": wasted, "wait_ms": wait}


def job_type(properties: Mapping[str, str]) -> str:
    for name, key in TYPES:
        value = properties.get(key)
        fits: Callable[[str], Any] = re.compile(
            "voldemort.store.readonly.mr.*" if name == "Voldemort" else ".*"
        ).fullmatch
        if value is not None and not re.search("[\n\r\x85\u2028\u2029]", value) and fits(value):
            return name
    return "Unknown"


def expected(job: OddJob) -> dict[str, Any] | None:
    """What Dr. Elephant shows of a job: columns of the jobs result, and ``verdicts`` in order; None where it throws."""
    try:
        return _expected(job)
    except Lost:
        return None


def _expected(job: OddJob) -> dict[str, Any]:
    tasks, state, end = tasks_of(job)
    properties = properties_of(job)
    if state not in ("SUCCEEDED", "FAILED"):
        raise Lost("it has not ended, or was killed")
    for task in tasks.values():
        if not task.state or (task.chosen is not None and task.chosen not in task.attempts):
            raise Lost("a task without a state or with an attempt that nobody knows")
    ordered = [tasks[name] for name in sorted(tasks)]
    sides = []
    for is_map in (True, False):
        side = [t for t in ordered if t.is_map == is_map]
        sides.append((side, [t for t in side if t.chosen is not None]))
    (maps, timed_maps), (reduces, timed_reduces) = sides
    verdicts: list[Verdict | None]
    if state == "FAILED":
        verdicts = [("Exception", "MODERATE", 0, {"Error": ["Stacktrace", cut(end["diagnostics"] or "", 65535)]})]
    elif not ordered:
        verdicts = [("No Data Received", "LOW", 0, {"No Data Received": ""})]
    else:
        verdicts = [
            skew("Mapper Skew", maps, timed_maps, INPUT), collection("Mapper GC", maps, timed_maps),
            runtime("Mapper Time", maps, timed_maps, is_map=True), speed(maps, timed_maps), spill(maps),
            memory("Mapper Memory", maps, timed_maps, properties, "mapreduce.map.memory.mb"),
            skew("Reducer Skew", reduces, timed_reduces, FETCHED), collection("Reducer GC", reduces, timed_reduces),
            runtime("Reducer Time", reduces, timed_reduces, is_map=False),
            memory("Reducer Memory", reduces, timed_reduces, properties, "mapreduce.reduce.memory.mb"),
            shuffle_sort(reduces, timed_reduces), cache(properties),
        ]  # fmt: skip
    parse_double(properties.get("mapreduce.job.reduce.slowstart.completedmaps"))
    submit = [fields["submitTime"] for _, record, fields in job.events if record in ("JobSubmitted", "JobInfoChange")][
        -1
    ]
    shown = [each for each in verdicts if each is not None]
    return {
        "job_type": job_type(properties),
        "maps": len(maps),
        "reduces": len(reduces),
        "severity": SEVERITIES[max(SEVERITIES.index(each[1]) for each in shown)],
        "score": sum(each[2] for each in shown),
        **metrics(sides, properties, submit),
        "runtime_ms": end["finishTime"] - submit,
        "verdicts": shown,
    }
