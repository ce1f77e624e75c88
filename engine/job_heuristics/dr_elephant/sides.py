"""Heuristics over the tasks of the sides of jobs (maps, reduces, and scopes of Tez): declaration, jobs and verdicts; and the
gates and details that MapReduce and Tez share: skew, garbage collection, time, speed, spill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.display import clock, details_json, each, java_double, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MB, MINUTE, Array, Branch, Final, Gate, Subject, Tree, ratio
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule, Rules
from engine.job_heuristics.dr_elephant.side_stats import Groups, Measure, Sides, TaskStats, divided, measures
from engine.job_heuristics.tables import HEURISTICS, SEVERITIES

_NOTHING: dict[str, str] = {}
SIDES = ("map", "reduce")  # the sides of a MapReduce job, in the order of ``Sides``


class Jobs:
    """Some jobs as heuristics see them, in the order of ``frame`` (columns ``job_id``, ``job_type``, ``state`` and those that
    a kind of job adds).

    ``sides``: measures. ``properties``: settings by job id. ``block_size``: bytes per job. ``named``: the sides.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        sides: Sides,
        properties: Mapping[str, Mapping[str, str]],
        block_size: Array,
        named: tuple[str, ...] = SIDES,
    ) -> None:
        self.frame = frame
        self.count = frame.height
        self.names: list[str] = frame["job_id"].to_list()
        self.properties = [properties.get(name, _NOTHING) for name in self.names]
        self.types: list[str] = frame["job_type"].to_list()
        self.state = frame["state"].to_numpy()
        self.block_size = block_size
        self._sides = {
            side: {name: values[k :: len(named)] for name, values in sides.items()} for k, side in enumerate(named)
        }
        self.empty = np.sum([side["n"] for side in self._sides.values()], axis=0) == 0
        # Of a failed job Dr. Elephant judges only the failure. Running and killed jobs are judged here by their ended
        # tasks, and column upstream_says tells that Dr. Elephant would not.
        self.failed = self.state == "FAILED"
        self.judged = ~self.failed & ~self.empty

    def side(self, side: str) -> Mapping[str, Array]:
        """Return the measures of one side by name, one value per job. Raises KeyError."""
        return self._sides[side]


class Verdict(msgspec.Struct, frozen=True):
    """Verdicts of one heuristic on all jobs: which are ``given``, severities 0-4, scores, and ``details``: of the jobs
    at some places, as JSON objects."""

    given: Array
    severity: Array
    score: Array
    details: Callable[[Array], list[str]]


def unscored(given: Array, severity: Array, details: Callable[[int], Mapping[str, Any]]) -> Verdict:
    """Return the verdict of a heuristic that never scores and whose ``details`` (of a job by its number) differ in labels."""
    score = np.zeros(len(severity), dtype=np.int64)
    return Verdict(given, severity, score, lambda at: [details_json(details(j)) for j in at.tolist()])


def _as_json(columns: Mapping[str, list[str]]) -> list[str]:
    """Return details with the same labels for every job, label → texts, as JSON objects. JSON need not escape them."""
    shape = ",".join(f'"{label}":"%s"' for label in columns).join("{}")
    return list(map(shape.__mod__, zip(*columns.values(), strict=True)))


class SideHeuristic(Heuristic, frozen=True, kw_only=True, eq=False):
    """A heuristic over tasks. Most are judged by gates over measures of one ``side``; the others have no ``branches`` and
    judge by a function of their own.

    Judging: ``measures`` declares statistics over tasks and ``settings`` numbers from a job's properties, both looked up
    by name in the gates of ``branches``. ``averages``: its values are averages, so that without tasks there is nothing to
    explain. ``defined``: which jobs get a result at all (None: every job that is judged). ``published``: the gates of the
    published description where they differ, with the reason in ``difference``; ``in_published`` tells whether it has the
    heuristic at all.

    Words: ``details`` gives Dr. Elephant's labels and values, ``error`` the exception Dr. Elephant throws, by number of
    the job.
    """

    side: str = ""
    measures: tuple[Measure, ...] = ()
    settings: Mapping[str, Callable[[Mapping[str, str]], float]] = msgspec.field(default_factory=dict)
    averages: bool = False
    defined: Callable[[Subject], Array] | None = None
    published: tuple[Branch, ...] | None = None
    in_published: bool = True
    difference: str = ""
    details: Callable[[Subject], Mapping[str, list[str]]] | None = None
    judge: Callable[[Jobs, SideRule], Verdict] | None = None
    error: Callable[[Jobs], Mapping[int, str]] = lambda jobs: {}

    def branches_of(self, *, published: bool) -> tuple[Branch, ...]:
        """Return the gates of the published description, or of Dr. Elephant's code."""
        return self.published if published and self.published is not None else self.branches


SideRule = Rule[SideHeuristic]
S = TypeVar("S", bound=SideHeuristic)


def subject_of(rule: SideRule, jobs: Jobs, *, published: bool = False) -> Subject:
    """Return what the gates of ``rule`` look at."""
    heuristic = rule.heuristic
    measures = {
        **jobs.side(heuristic.side),
        "block_size": jobs.block_size,
        **{name: np.array([setting(p) for p in jobs.properties]) for name, setting in heuristic.settings.items()},
    }
    return rule.subject(measures, published=published)


def verdict_of(rule: SideRule, jobs: Jobs, *, published: bool) -> Verdict:
    """Return the verdict of ``rule`` on all of ``jobs``."""
    heuristic = rule.heuristic
    if heuristic.judge is not None:
        return _allowed(heuristic.judge(jobs, rule), rule, jobs)
    subject = subject_of(rule, jobs, published=published)
    tree = rule.tree(subject)
    severity = tree.levels()
    branches = heuristic.branches_of(published=published)
    scoring = Tree(tuple(readings for branch, readings in zip(branches, tree.branches, strict=True) if branch.scores))
    scored = scoring.levels() if scoring.branches != tree.branches else severity
    score = np.where(scored >= 2, scored * subject["n"], 0)
    given = jobs.judged if heuristic.defined is None else jobs.judged & heuristic.defined(subject)
    details = heuristic.details
    assert details is not None, f"{heuristic.name} has gates and no details"
    return _allowed(Verdict(given, severity, score, lambda at: _as_json(details(subject.rows(at)))), rule, jobs)


def _allowed(verdict: Verdict, rule: SideRule, jobs: Jobs) -> Verdict:
    """Withdraw results of excluded job types."""
    if not rule.excluded:
        return verdict
    allowed = np.array([kind not in rule.excluded for kind in jobs.types], dtype=bool)
    return Verdict(verdict.given & allowed, verdict.severity, verdict.score, verdict.details)


NO_DATA = "No Data Received"  # name of Dr. Elephant's pseudo result for a job without tasks.
NO_DATA_ADVICE = "No task ran: check whether the input path holds data and whether filters leave any."
_NO_DATA_DETAILS = '{"No Data Received":""}'

Verdicts = Sequence[tuple[SideRule, Verdict]]


def verdicts(rules: Rules[S], jobs: Jobs, *, published: bool = False) -> Verdicts:
    """Return the verdicts of all rules in force, in their order, by Dr. Elephant's code or the ``published``
    description."""
    return [
        (rule, verdict_of(rule, jobs, published=published))
        for rule in rules.rules
        if rule.heuristic.in_published or not published
    ]


def idle(jobs: Jobs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which jobs get the pseudo result instead of verdicts: they succeeded without a task."""
    return jobs.empty & (jobs.state == "SUCCEEDED")


def rows(jobs: Jobs, made: Verdicts) -> pl.DataFrame:
    """Return HEURISTICS rows: jobs in their order, heuristics in the order of ``made``."""
    without_data = idle(jobs)
    at = np.flatnonzero(without_data)
    zero = np.zeros(len(at), np.int64)
    parts = [(at, NO_DATA, zero + 1, zero, [_NO_DATA_DETAILS] * len(at))]
    for rule, one in made:
        at = np.flatnonzero(one.given & ~without_data)
        parts.append((at, rule.name, one.severity[at], one.score[at], one.details(at) if len(at) else []))
    job = np.concatenate([part[0] for part in parts])
    order = np.argsort(job, kind="stable")
    kinds = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    severity, score = (np.concatenate([part[k] for part in parts]).astype(np.int64)[order] for k in (2, 3))
    return HEURISTICS.frame(
        pl.DataFrame(
            {
                "job_id": jobs.frame["job_id"].gather(job[order]),
                "heuristic": pl.Series([part[1] for part in parts]).gather(kinds[order]),
                "severity": pl.Series(SEVERITIES).gather(severity),
                "score": score,
                "details": pl.Series([text for part in parts for text in part[4]], dtype=pl.String).gather(order),
            }
        )
    )


def totals(jobs: Jobs, made: Verdicts) -> tuple[list[int | None], list[int]]:
    """Return the severity (None: no verdict at all) and score of each job."""
    worst = np.full(jobs.count, -1, dtype=np.int64)
    score = np.zeros(jobs.count, dtype=np.int64)
    for _, verdict in made:
        worst = np.where(verdict.given, np.maximum(worst, verdict.severity), worst)
        score = score + np.where(verdict.given, verdict.score, 0)
    without_data = idle(jobs)
    worst = np.where(without_data, 1, worst)
    score = np.where(without_data, 0, score)
    # A finished job that no rule judges is NONE, as Dr. Elephant would show it.
    worst = np.where((worst < 0) & ((jobs.state == "SUCCEEDED") | jobs.failed) & ~jobs.empty, 0, worst)
    return [None if level < 0 else level for level in worst.tolist()], score.tolist()


def _groups(name: str, divide: Callable[[TaskStats], Groups]) -> Measure:
    names = tuple(f"{name}_{part}" for part in ("low_n", "low_mean", "high_n", "high_mean"))
    # Bytes include tasks that never ran, as 0.
    return Measure(
        names, lambda tasks: divide(tasks)[:4], of_all=name.endswith("data"), published=name.startswith("published")
    )


SKEW_MEASURES = (
    _groups("data", lambda tasks: tasks.two_groups(tasks["data"])),
    _groups("time", lambda tasks: tasks.two_groups(tasks["total_ms"])),
    _groups("published_data", lambda tasks: tasks.two_means(tasks["data"])),
    _groups("published_time", lambda tasks: tasks.two_means(tasks["total_ms"])),
)


def _divided(subject: Subject, what: str) -> tuple[Array, Array, Array, Array]:
    """Return the sizes and means of the two groups of ``data`` or ``time``: low, then high."""
    prefix = "published_" if subject.published else ""
    n, mean, high_n, high_mean = (
        subject[f"{prefix}{what}_{part}"] for part in ("low_n", "low_mean", "high_n", "high_mean")
    )
    return n, mean, high_n, high_mean


def _factor(subject: Subject, what: str) -> Array:
    """Return the distance of the groups' means in multiples of the smaller one.

    Dr. Elephant divides whole numbers (times in whole seconds) and takes 1 for a smaller mean of 0; the published
    description takes the real ratio.
    """
    _, low, _, high = _divided(subject, what)
    if subject.published:
        return ratio(np.abs(high - low), np.minimum(low, high))
    if what == "time":
        low, high = divided(low, 1000), divided(high, 1000)
    smaller = np.minimum(low, high)
    return divided(np.abs(high - low), np.where(smaller <= 0, 1, smaller))


def _small_group(subject: Subject, what: str) -> Array:
    """Return the size of the counted group: the low one; in the published description the smaller one."""
    low, _, high, _ = _divided(subject, what)
    return np.minimum(low, high) if subject.published else low


def _factor_gate(what: str, word: str) -> Gate:
    return Gate(
        key=f"{what}-factor", label=f"factor between the groups' {word}", value=lambda s: _factor(s, what),
        limits="deviation_severity",
    )  # fmt: skip


def _tasks_gate(what: str, word: str) -> Gate:
    return Gate(
        key=f"{what}-tasks", label=f"tasks in the small group ({word})", unit="tasks",
        value=lambda s: _small_group(s, what), limits="num_tasks_severity", final=Final.SOME_TASKS,
    )  # fmt: skip


SKEW_DATA = (
    _factor_gate("data", "bytes"),
    Gate(
        key="data-size", label="mean bytes of the large group", unit="bytes", value=lambda s: _divided(s, "data")[3],
        limits="files_severity", scale=lambda s: s["block_size"],
    ),
    _tasks_gate("data", "bytes"),
)  # fmt: skip
SKEW_TIME = (_factor_gate("time", "times"), _tasks_gate("time", "time"))


def skew_details(subject: Subject) -> Mapping[str, list[str]]:
    """Return labels and values: the two groups of bytes and of times."""
    tasks = plain(subject["n"])

    def group(n: Array, mean: Array, write: Callable[[int], str]) -> list[str]:
        return [f"{k} tasks @ {text} avg" for k, text in zip(n.tolist(), each(write, mean), strict=True)]

    data, time = _divided(subject, "data"), _divided(subject, "time")
    return {
        "Data skew (Number of tasks)": tasks,
        "Data skew (Group A)": group(*data[:2], size),
        "Data skew (Group B)": group(*data[2:], size),
        "Time skew (Number of tasks)": tasks,
        "Time skew (Group A)": group(*time[:2], clock),
        "Time skew (Group B)": group(*time[2:], clock),
    }


GC_RATIO = Gate(
    key="gc-ratio", label="garbage collection per CPU time",
    value=lambda s: ratio(s["avg_gc_ms"], s["avg_cpu_ms"]), limits="gc_ratio_severity",
)  # fmt: skip
GC_RUNTIME = Gate(
    key="runtime", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"],
    limits="runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip


def gc_details(subject: Subject) -> Mapping[str, list[str]]:
    """Return labels and values: averages of times, and their ratio."""
    gc, cpu = subject["avg_gc_ms"], subject["avg_cpu_ms"]
    # Without CPU time the ratio is shown as 0, though it counts as infinite.
    ratios = [x / y if y else 0.0 for x, y in zip(gc.tolist(), cpu.tolist(), strict=True)]
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg task runtime (ms)": plain(subject["avg_total_ms"]),
        "Avg task CPU time (ms)": plain(cpu),
        "Avg task GC time (ms)": plain(gc),
        "Task GC/CPU ratio": list(map(java_double, ratios)),
    }


SHORT = Gate(
    key="short", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"], rising=False,
    limits="short_runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip
TASKS = Gate(
    key="tasks", label="number of tasks", unit="tasks", value=lambda s: s["n"], limits="num_tasks_severity",
    final=Final.TASKS,
)  # fmt: skip
LONG = Gate(
    key="long", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"],
    limits="long_runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip


def time_details(side: str, subject: Subject) -> Mapping[str, list[str]]:
    """Return labels and values: run times, and the input of a side that reads."""
    return {
        "Number of tasks": plain(subject["n"]),
        **({"Average task input size": each(size, subject["avg_input_bytes"])} if side != "reduce" else {}),
        "Average task runtime": each(span, subject["avg_total_ms"]),
        "Max task runtime": each(span, subject["max_total_ms"]),
        "Min task runtime": each(span, subject["min_total_ms"]),
    }


DISK_SPEED = 100 * MB  # Dr. Elephant's constant speed of a disk, bytes per second.


def speeds(tasks: TaskStats) -> tuple[Array, Array]:
    """Return the median bytes per second of tasks longer than 0 ms, and the number of other tasks."""
    took = tasks["total_ms"] != 0
    timed = tasks.where(took)
    return timed.median(divided(1000 * timed["input_bytes"], timed["total_ms"])), tasks.count(~took)


MEDIAN_SPEED = Gate(
    key="speed", label="median speed", unit="bytes/s", value=lambda s: s["median_speed"], rising=False,
    limits="disk_speed_severity", scale=DISK_SPEED,
)  # fmt: skip
SPEED_RUNTIME = Gate(
    key="runtime", label="median run time", unit="ms", value=lambda s: s["median_total_ms"],
    limits="runtime_severity_in_min", scale=MINUTE,
)  # fmt: skip


def speed_details(subject: Subject) -> Mapping[str, list[str]]:
    """Return labels and values: medians of tasks that read."""
    return {
        "Number of tasks": plain(subject["n"]),
        "Median task input size": each(size, subject["median_input_bytes"]),
        "Median task runtime": each(span, subject["median_total_ms"]),
        "Median task speed": each(lambda value: size(value) + "/s", subject["median_speed"]),
        "Total input size in MB": each(lambda value: java_double(value / MB), subject["sum_input_bytes"]),
    }


_DECIMALS = 10_000  # Dr. Elephant compares the ratio times this, cut to a whole number, with the limits times this.


def spill_ratio(subject: Subject) -> Array:
    """Return records spilled per record written; infinite if records were spilled and none written."""
    spilled = subject["sum_spilled_records"]
    return np.where(spilled == 0, 0.0, ratio(spilled, subject["sum_map_output_records"]))


# The ratio is truncated after four decimals, the limits are not: exactly 2.01 is below 2.01.
SPILL_CUT = Gate(
    key="spill", label="records spilled per output record", unit="10000",
    value=lambda s: np.trunc(spill_ratio(s) * _DECIMALS), limits="spill_severity", scale=_DECIMALS,
)  # fmt: skip


def spill_details(subject: Subject) -> Mapping[str, list[str]]:
    """Return labels and values: records per task, and their ratio."""
    some = np.maximum(subject["n"], 1)
    spilled, written = subject["sum_spilled_records"], subject["sum_map_output_records"]
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg spilled records per task": plain(divided(spilled, some)),
        "Avg output records per task": plain(divided(written, some)),
        "Ratio of spilled records to output records": each(java_double, spill_ratio(subject)),
    }


Topic = Mapping[str, Any]  # what the declarations of one topic have in common, as arguments of a ``SideHeuristic``
SKEW: Topic = {
    "limits": {
        "num_tasks_severity": (10, 50, 100, 200),
        "deviation_severity": (2, 4, 8, 16),
        "files_severity": (1 / 8, 1 / 4, 1 / 2, 1),
    },
    "measures": SKEW_MEASURES,
    "branches": (Branch(SKEW_DATA), Branch(SKEW_TIME, scores=False)),
    "details": skew_details,
}
GC: Topic = {
    "limits": {"gc_ratio_severity": (0.01, 0.02, 0.03, 0.04), "runtime_severity_in_min": (5, 10, 12, 15)},
    "measures": measures("avg_gc_ms", "avg_cpu_ms", "avg_total_ms"),
    "branches": (Branch((GC_RATIO, GC_RUNTIME)),),
    "averages": True,
    "details": gc_details,
}
TIME: Topic = {
    "limits": {
        "short_runtime_severity_in_min": (10, 4, 2, 1),
        "long_runtime_severity_in_min": (15, 30, 60, 120),
        "num_tasks_severity": (50, 101, 500, 1000),
    },
    "measures": measures("avg_total_ms", "max_total_ms", "min_total_ms", "avg_input_bytes"),
    "branches": (Branch((SHORT, TASKS)), Branch((LONG,))),
    "averages": True,
}
SPEED: Topic = {
    "limits": {"disk_speed_severity": (1 / 2, 1 / 4, 1 / 8, 1 / 32), "runtime_severity_in_min": (5, 10, 15, 30)},
    "measures": (
        Measure(("median_speed", "instant"), speeds),
        *measures("median_total_ms", "median_input_bytes", "sum_input_bytes"),
    ),
    "branches": (Branch((MEDIAN_SPEED, SPEED_RUNTIME)),),
    "averages": True,
    # Without speeds the median is undefined and Dr. Elephant fails.
    "defined": lambda subject: (subject["n"] == 0) | (subject["instant"] < subject["timed"]),
}
MEMORY_MEASURES = measures(
    "avg_physical_bytes", "max_physical_bytes", "min_physical_bytes", "avg_virtual_bytes", "avg_total_ms"
)
SPILL: Topic = {
    "limits": {"spill_severity": (2.01, 2.2, 2.5, 3.0), "num_tasks_severity": (50, 100, 500, 1000)},
    "measures": measures("sum_spilled_records", "sum_map_output_records", of_all=True),
    "branches": (Branch((SPILL_CUT, TASKS)),),
    "details": spill_details,
}
