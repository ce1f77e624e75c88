"""Result frames of judged jobs of any kind, and how several kinds are joined."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
import polars as pl

from engine.core import units
from engine.core.incremental import FramePartials, Partials
from engine.core.view import Context, Finding, Inputs, Level
from engine.job_heuristics.tables import JOBS, LETTERS


class Judged(msgspec.Struct, frozen=True):
    """Result frames of some jobs, in the order of those jobs; ``strips``: one letter per heuristic in force for each
    job."""

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    strips: pl.DataFrame
    findings: Mapping[str, tuple[Finding, ...]]  # by job, in the same order


LEVELS: dict[str, Level] = {
    "NONE": "ok", "LOW": "low", "MODERATE": "moderate", "SEVERE": "severe", "CRITICAL": "critical",
}  # fmt: skip
"""Level of a finding by severity."""


FAILED = ("FAILED", "KILLED", "ERROR")  # states of jobs that did not succeed
FAILURES = ("Error", "Spark failed jobs count", "Spark failed stages count")
"""Labels of verdicts that judge a failure: of a failed job they are one finding."""
_FACTS = (
    ("Used", "{Used} of {Requested Container Memory} used on average", "ask for smaller containers"),
    ("Average Physical Memory (MB)",
     "{Average Physical Memory (MB):,.0f} of {Requested Container Memory (MB):,.0f} MB used on average, "
     "{Maximum Physical Memory (MB):,.0f} at most", "ask for smaller containers"),
    ("Requested Container Memory (MB)",
     "no memory was measured in containers of {Requested Container Memory (MB):,.0f} MB", "do not act on this verdict"),
    ("Avg task GC time (ms)",
     "{Avg task GC time (ms):,.0f} ms of garbage collection in {Avg task CPU time (ms):,.0f} ms of CPU per task",
     "give tasks more heap, or create fewer objects"),
    ("Median task speed", "tasks read {Median task speed} each", "look for slow input, or for costly code in the tasks"),
    ("Average task runtime", "{Number of tasks:,.0f} tasks of {Average task runtime} each", "aim at tasks of 5 to 10 minutes"),
    ("Ratio of spilled records to output records",
     "each record is written to disk {Ratio of spilled records to output records:,.1f} times", "raise the sort buffer"),
    ("Average code runtime",
     "{Average shuffle time} of shuffle and {Average sort time} of sort per task, {Average code runtime} of code",
     "start these tasks later, or send them less data"),
    ("Differ", "tasks differ: {Differ}", "look for hot keys and slow hosts"),
    ("Queue: ", "tasks run for 13 minutes or longer, where the queue's limit is 15",
     "divide their work into more tasks, or use another queue"),
    ("Error", "it failed, and its history does not say why", "read the log of its application master"),
    ("No Data Received", "no task is in its history, so nothing is judged", "see whether its files are whole"),
    ("Cached", "{Cached}: every node copies them before its first task", "keep them smaller, or read them from HDFS"),
)  # fmt: skip
"""What a verdict found, by a label that it shows, and what to do if no setting is advised; the first of a value counts."""
_SKEW = (("{} skew (Group A)", "{} skew (Group B)"), ("Data", "Time"))
_WORDS = re.compile(r" HH:MM:SS avg| avg| @ |(?<![\d,])1 tasks")
_PLAIN = {" @ ": " of ", "1 tasks": "1 task"}  # how words of Dr. Elephant read in a sentence; others are left out.


def fact_of(details: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a verdict found, with its unit, and what to do in general; from Dr. Elephant's labels and values."""
    texts = {label: value if isinstance(value, str) else value[-1] for label, value in details.items()}
    values: dict[str, Any] = {
        label: float(text) if text.replace(".", "", 1).isdecimal() else text for label, text in texts.items()
    }
    asked = str(values.get("Requested Container Memory", ""))
    if asked.endswith("B") and "Avg Physical Memory (MB)" in values:
        values["Used"] = f"{values['Avg Physical Memory (MB)'] / (1024 if asked.endswith('GB') else 1):,.1f}"
    values |= _summed(values)
    for label, shape, todo in _FACTS:
        with contextlib.suppress(KeyError, ValueError):
            if values[label] not in (0.0, "") or label == "No Data Received":
                return _WORDS.sub(lambda found: _PLAIN.get(found[0], ""), shape.format_map(values)), todo
    return "its values are beyond a limit", "open the job and see them in its verdicts"


def _summed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what several labels say together: how the groups of a skew differ, large files."""
    found: dict[str, Any] = {}
    pairs = ([str(values.get(label.format(axis), "0")) for label in _SKEW[0]] for axis in _SKEW[1])
    differ = [" and ".join(pair) for pair in pairs if not any(group.startswith("0") for group in pair)]
    if differ:
        found["Differ"] = ", with ".join(differ)
    counted = next((label for label in values if label.endswith(".filesizes")), "")
    if counted:
        named = counted.removesuffix(".filesizes")
        words = "{:,.0f} files and {:,.0f} sizes in {}, so no size is known"
        found["Cached"] = words.format(values[named], values[counted], named)
    elif values and all(isinstance(value, float) for value in values.values()):
        found["Cached"] = ", ".join(f"{label} has {units.size(value)}" for label, value in values.items())
    return found


def subject_of(heuristic: str, name: str | None) -> str:
    """Return the subject of a finding: ``Reducer memory of daily revenue``."""
    head, *rest = heuristic.split(" ")
    return f"{' '.join((head, *(word if word.isupper() else word.lower() for word in rest)))} of {name or '(no name)'}"


def findings_of(
    jobs: pl.DataFrame, heuristics: pl.DataFrame, told: Mapping[tuple[str, str], tuple[str, str]] | None = None
) -> dict[str, tuple[Finding, ...]]:
    """Make one finding per verdict of LOW and worse, for each of ``jobs`` (JOBS rows); verdicts on the failure of a job that
    failed are one. ``told``: what was found and what to do, by job and heuristic, where an engine knows more than ``fact_of``
    reads."""
    named = {job: rest for job, *rest in jobs.select("job_id", "name", "state", "error").iter_rows()}
    findings: dict[str, list[Finding]] = {job: [] for job in named}
    failures: dict[str, Finding] = {}
    bad = heuristics.filter(pl.col("severity") != "NONE")
    for job, heuristic, severity, text in bad.select("job_id", "heuristic", "severity", "details").iter_rows():
        name, state, error = named[job]
        details, level, row = json.loads(text), LEVELS[severity], ("jobs", (job,))
        if state in FAILED and error and any(label in details for label in FAILURES):
            if job not in failures or units.rank(level) > units.rank(failures[job].level):
                failures[job] = Finding(
                    level, subject_of("Failure", name), f"{error}; open the job for the whole text", row
                )
            continue
        fact, todo = (told or {}).get((job, heuristic)) or fact_of(details)
        words = "; ".join(
            part for part in (fact + (", so far: it still runs" if state == "RUNNING" else ""), todo) if part
        )
        findings[job].append(Finding(level, subject_of(heuristic, name), words.replace("\n", " "), row))
    return {job: (*((failures[job],) if job in failures else ()), *each) for job, each in findings.items()}


def advised_findings(findings: Iterable[Finding], jobs: pl.DataFrame, advised: pl.DataFrame) -> tuple[Finding, ...]:
    """Return ``findings_of`` all jobs with the setting that would better each verdict (``advised``: RECOMMENDATIONS rows),
    and with the job's id where several jobs have its name; the worst first."""
    names: dict[str, str | None] = dict(jobs.select("job_id", "name").iter_rows())
    settings: dict[tuple[str, str], str] = {}
    columns = ("job_id", "heuristic", "key", "value", "current")
    # Fewer executors save memory, but are no remedy for uneven ones.
    helping = advised.filter((pl.col("severity_now") != pl.col("severity_after")) & (pl.col("topic") != "executors"))
    for job, heuristic, key, value, now in helping.select(columns).iter_rows():
        settings.setdefault((job, subject_of(heuristic, names.get(job))), setting_of(key, value, now))
    made = []
    for one in findings:
        job = one.row[1][0] if one.row else ""
        wanted = settings.get((job, one.subject))
        made.append(
            msgspec.structs.replace(one, text=f"{one.text.partition('; ')[0]}; {wanted}" if wanted else one.text)
        )
    return worst_first(told_apart(made, jobs))


def told_apart(findings: list[Finding], jobs: pl.DataFrame) -> Iterator[Finding]:
    """Add the job's id to subjects where several of ``jobs`` (columns job_id and name) have its name."""
    about = {finding.row[1][0] for finding in findings if finding.row}
    common = set(jobs.filter(pl.col("name").is_duplicated() & pl.col("job_id").is_in(about))["job_id"])
    for one in findings:
        job = one.row[1][0] if one.row else ""
        yield msgspec.structs.replace(one, subject=f"{one.subject} ({job})") if job in common else one


def setting_of(key: str, value: str, now: str | None) -> str:
    """Write what a recommendation sets."""
    return f"set {key}={value}" + (f" (now {now})" if now else "")


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by level, within one as they are."""
    return tuple(sorted(findings, key=lambda one: -units.rank(one.level)))


STRIPS = {"job_id": pl.String, "strip": pl.String}  # schema of the strips


def strips_of(jobs: list[str], heuristics: pl.DataFrame, names: tuple[str, ...]) -> list[str]:
    """Return per job a letter for each heuristic of ``names``, blank without a result; the first of duplicates
    counts."""
    places = {name: k for k, name in enumerate(names)}
    strips = {job: [" "] * len(names) for job in jobs}
    cells = heuristics.select("job_id", "heuristic", "severity").reverse()
    for job, name, severity in zip(*(column.to_list() for column in cells), strict=True):
        if name in places:
            strips[job][places[name]] = LETTERS.get(severity, "?")
    return ["".join(strip) for strip in strips.values()]


_FRAMES = ("jobs", "heuristics", "strips")


class JudgedJobs(msgspec.Struct, frozen=True):
    """Result frames of all jobs (JOBS, HEURISTICS, strips), jobs in model order, and a finding per bad verdict.

    ``version`` changes with any of them.
    """

    jobs: pl.DataFrame
    heuristics: pl.DataFrame
    strips: pl.DataFrame
    findings: tuple[Finding, ...]
    version: int


def judged_jobs(
    name: str,
    stamps: Mapping[str, Hashable],
    judge: Callable[[Collection[str]], Judged],
    key: Hashable,
    context: Context,
) -> JudgedJobs:
    """Judge all jobs in ``stamps``, reusing the results of jobs whose stamp is unchanged (unless ``key`` changed).
    ``judge`` computes the frames of some jobs; ``name``: key in the memo."""
    memo, times = context.memo, "now" if context.at_ms is None else "past"
    frames: FramePartials[str] = memo.state(f"{name} {times}", lambda: FramePartials("job_id"))
    findings: Partials[str, tuple[Finding, ...]] = memo.state(f"{name}: findings {times}", Partials)
    fresh: dict[str, tuple[Finding, ...]] = {}

    def compute(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        judged = judge(jobs)
        fresh.update(judged.findings)
        return {name: getattr(judged, name) for name in _FRAMES}

    frames.update(stamps, compute, key=key)
    findings.update(frames.revisions, lambda jobs: {job: fresh[job] for job in jobs})
    return memo.value(
        f"{name}: all {times}",
        frames.version,
        lambda: JudgedJobs(
            **{name: frames.frame(name) for name in _FRAMES},
            findings=tuple(chain.from_iterable(findings.values())),
            version=frames.version,
        ),
    )


def together(*kinds: JudgedJobs) -> JudgedJobs:
    """Join the result frames of several kinds of jobs, the first of which may be empty; jobs in the order of JOBS."""
    some = [kind for kind in kinds if kind.jobs.height]
    if len(some) < 2:
        return next(iter(some), kinds[0])
    jobs = JOBS.sorted(pl.concat([kind.jobs for kind in some]))
    names: list[str] = jobs["job_id"].to_list()
    joined = {name: in_order(jobs, *(getattr(kind, name) for kind in some)) for name in ("heuristics", "strips")}
    rank = {name: k for k, name in enumerate(names)}
    findings = sorted(
        chain.from_iterable(kind.findings for kind in some),
        key=lambda finding: rank.get(finding.row[1][0], 0) if finding.row else 0,
    )
    return JudgedJobs(jobs, **joined, findings=tuple(findings), version=hash(tuple(kind.version for kind in kinds)))


def in_order(jobs: pl.DataFrame, *frames: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``frames`` (with ``job_id``) in the order of ``jobs``, stable within a job; rows of other
    jobs come last."""
    place = pl.DataFrame({"job_id": jobs["job_id"], "_place": pl.int_range(jobs.height, eager=True)})
    return (
        pl.concat(frames)
        .join(place, on="job_id", how="left", maintain_order="left")
        .sort("_place", maintain_order=True, nulls_last=True)
        .drop("_place")
    )


A = TypeVar("A")


class Apps(msgspec.Struct, Generic[A], frozen=True):
    """All applications of one kind by id. ``revisions``: number per application that changes when it is reassembled."""

    apps: Mapping[str, A]
    revisions: Mapping[str, int]
    version: int

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.apps)

    def some(self, wanted: Collection[str]) -> dict[str, A]:
        """Return those with an id among ``wanted``."""
        return {app: self.apps[app] for app in wanted}


Assemble = Callable[[Collection[str]], Mapping[str, A | None]]
"""Assembles some applications by id; None for an id that is unknown or whose application had not begun."""


def current_apps(
    kind: str,
    inputs: Inputs,
    context: Context,
    found: Callable[[Inputs, Context], tuple[Mapping[str, Hashable], Assemble[A]]],
) -> Apps[A]:
    """Return all applications of a kind as of ``context.at_ms``; only those whose files changed are assembled again.
    ``found`` returns a stamp of each application, and what assembles them."""
    times = "now" if context.at_ms is None else "past"

    def updated() -> Apps[A]:
        stamps, assemble = found(inputs, context)
        made: Partials[str, A | None] = context.memo.state(f"{kind} applications {times}", Partials)
        made.update(stamps, assemble, key=context.at_ms)
        apps = {app: one for app, one in made.items() if one is not None}
        return Apps(apps, {app: made.revisions[app] for app in apps}, made.version)

    return context.memo.value(f"{kind} model {times}", (inputs.version, context.at_ms), updated)


def judge_apps(
    kind: str, apps: Apps[A], judge: Callable[[Mapping[str, A]], Judged], key: Hashable, context: Context
) -> JudgedJobs:
    """Judge all applications of a kind; only those that changed since the last call are judged again."""
    return judged_jobs(f"{kind} verdicts", apps.revisions, lambda wanted: judge(apps.some(wanted)), key, context)
