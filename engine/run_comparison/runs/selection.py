"""Choose the runs to compare: the benchmark tool's two rules, and sides made of jobs, ranges and single runs.

See docs/models/run-comparison.md, Selection of runs and Sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter

import numpy as np

from engine.core.view import NoInput, UnknownName
from engine.run_comparison.parameters import ComparisonParameters, RunRule, parse_run_rule
from engine.run_comparison.runs.measurements import Measurements
from engine.run_comparison.runs.runs import Run, RunKey, Runs

_MOST_SHOWN = 8
"""Most patterns in the text of a side."""

_MOST_JOBS = 24
"""Most jobs among which the usual pair is searched, those with the most runs first."""

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Runs of both sides, newest first; the patterns that picked them; and how they were chosen, unless by hand."""

    left: tuple[Run, ...]
    right: tuple[Run, ...]
    left_patterns: tuple[str, ...]
    right_patterns: tuple[str, ...]
    note: str


def choose_sides(runs: Runs, parameters: ComparisonParameters, now_ms: int, measurements: Measurements) -> Sides:
    """Return the runs of both sides. Raises NoInput if a side stays empty, naming the jobs there are."""
    rule = parse_run_rule(parameters.select)
    strict = parameters.mode == "upstream"
    left, right, note = parameters.left, parameters.right, ""
    if not left or not right:
        usual_left, usual_right, note = usual_sides(runs, metrics_of_jobs(runs, measurements))
        left, right = left or usual_left, right or usual_right
        if parameters.left or parameters.right:
            note = ""
    blocked = {problem.path.partition("/")[0] for problem in runs.bad_names} if strict else set()
    picked = []
    for word, patterns in (("left", left), ("right", right)):
        side = pick(patterns, runs, rule, now_ms, strict=strict, failed=parameters.include_failed)
        if strict and any(run.job in blocked for run in side):
            raise NoInput(
                f"{word}: a run folder that is not called by a number makes the benchmark tool's listing fail"
            )
        picked.append(tuple(side))
    for word, side_runs, patterns in zip(("left", "right"), picked, (left, right), strict=True):
        if not side_runs:
            jobs = sorted({run.job for run in runs.runs})
            there = f"jobs: {', '.join(jobs[:8])}{' …' if len(jobs) > 8 else ''}" if jobs else "no runs found"
            asked = ", ".join(patterns) or "nothing chosen"
            named = any(run.job == job or run.job.startswith(f"{job}/") for job in patterns for run in runs.runs)
            kind = NoInput if named or not patterns or not jobs else UnknownName
            raise kind(f"no runs on the {word} side ({asked}; select {parameters.select}); {there}")
    return Sides(picked[0], picked[1], left, right, note)


def metrics_of_jobs(runs: Runs, measurements: Measurements) -> dict[tuple[str, ...], frozenset[int]]:
    """Return the numbers of the metrics of each job, by its path.

    Series of one name in two units count as one metric.
    """
    key_of = measurements.table.key_of
    metrics = {}
    for path, listed in runs.jobs.items():
        present = np.zeros(key_of.size, dtype=bool)
        for run in listed:
            for _, chunk in run.chunks:
                present[chunk.codes] = True
        metrics[path] = frozenset(key_of[present].tolist())
    return metrics


def newest_first(runs: Iterable[Run]) -> list[Run]:
    """Sort by falling number; runs without one by falling time, then name."""
    return sorted(runs, key=attrgetter("age_order"), reverse=True)


def listed_by_upstream(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of one job as perf-tests' benchmark tool lists them, by falling number.

    It parses folder names as numbers and then opens a folder named like the number: ``007`` means the run ``7``, which is then
    listed twice, or none.
    """
    named = {run.name: run for run in runs}
    numbers = sorted((run.number for run in named.values() if run.number is not None), reverse=True)
    return [named[str(number)] for number in numbers if str(number) in named]


def _last_n_hours(listed: Iterable[Run], hours: float, now_ms: int, *, strict: bool) -> list[Run]:
    """Return finished runs that began within ``hours``, newest number first.

    Runs without a readable start are skipped. The first run that is too old, or in the future (the benchmark tool computes
    unsigned), ends the search, whatever its result.
    """
    recent = []
    for run in listed:
        start = run.upstream.start_s if strict else None if run.time_ms is None else run.time_ms // 1000
        if start is None:
            continue
        age = now_ms // 1000 - start
        if strict:
            age %= 2**64
        if age < 0 or age >= 3600 * hours:
            break
        if counts_as_finished(run, strict):
            recent.append(run)
    return recent


def counts_as_finished(run: Run, strict: bool = True) -> bool:
    """Whether the result is SUCCESS. Unless ``strict``, runs of tools that write no result count, and files that only the
    benchmark tool cannot read."""
    return run.upstream.success if strict else run.success or not run.ci


def apply(rule: RunRule, runs: Iterable[Run], now_ms: int, *, strict: bool, failed: bool = False) -> list[Run]:
    """Return the runs of one job that ``rule`` selects, newest first. ``failed``: include unfinished and failed runs."""
    listed = listed_by_upstream(runs) if strict and not failed else newest_first(runs)
    if rule.name == "last-n-hours":
        if not failed:
            return _last_n_hours(listed, rule.n, now_ms, strict=strict)
        oldest = now_ms - rule.n * 3.6e6
        return [run for run in listed if run.time_ms is not None and oldest < run.time_ms <= now_ms]
    taken = [run for run in listed if failed or counts_as_finished(run, strict)]
    return taken[: int(rule.n)] if rule.name == "last-n-runs" else taken


def _ends_with(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(pattern) <= len(parts) and all(
        part == wanted or fnmatchcase(part, wanted)
        for part, wanted in zip(parts[len(parts) - len(pattern) :], pattern, strict=True)
    )


def _in_range(run: Run, low: str, high: str) -> bool:
    if run.number is not None and low.lstrip("-").isdecimal() and high.lstrip("-").isdecimal():
        return int(low) <= run.number <= int(high)
    return low <= run.name <= high


def pick(
    patterns: Sequence[str], runs: Runs, rule: RunRule, now_ms: int, *, strict: bool, failed: bool = False
) -> list[Run]:
    """Return the runs of one side in the order of ``patterns``, newest first within each, without duplicates (except those that
    the benchmark tool itself lists twice).

    A pattern is a job (the selection rule applies), ``JOB/RUN`` (that run, whatever its result), ``JOB/A..B`` (finished
    runs between two numbers or names) or one of them with ``!`` in front (leave out). ``*`` and ``?`` match any
    text; the end of a job's path is enough. A pattern that matches no job or run means a folder: all jobs below it.
    """
    taken: dict[RunKey, list[Run]] = {}
    dropped: set[RunKey] = set()
    for text in patterns:
        drop = text.startswith("!")
        parts = text.removeprefix("!").strip("/").split("/")
        chosen: list[Run] = []
        for job, listed in runs.jobs.items():
            if _ends_with(job, parts):
                chosen += listed if drop else apply(rule, listed, now_ms, strict=strict, failed=failed)
            elif ".." in parts[-1] and (len(parts) == 1 or _ends_with(job, parts[:-1])):
                low, _, high = parts[-1].partition("..")
                chosen += [
                    run
                    for run in newest_first(listed)
                    if _in_range(run, low, high) and (drop or failed or counts_as_finished(run, strict))
                ]
            else:
                named = listed if set(parts[-1]) & _WILD else [run for run in listed if run.name == parts[-1]]
                chosen += [run for run in newest_first(named) if _ends_with((*job, run.name), parts)]
        if not chosen:
            for job, listed in runs.jobs.items():
                if any(_ends_with(job[:end], parts) for end in range(1, len(job))):
                    chosen += listed if drop else apply(rule, listed, now_ms, strict=strict, failed=failed)
        if drop:
            dropped.update(run.key for run in chosen)
            continue
        for run, times in Counter(chosen).items():
            taken[run.key] = max(taken.get(run.key, []), [run] * times, key=len)
    return [run for key, same in taken.items() if key not in dropped for run in same]


def shorten(patterns: Sequence[str], runs: Runs, *, strict: bool, failed: bool) -> tuple[str, ...]:
    """Join neighbouring runs of a job into one range (``JOB/A..B``) if that picks the same runs."""
    if not any("/" in text for text in patterns):
        return tuple(dict.fromkeys(patterns))
    single = {f"{run.job}/{run.name}": run for run in runs.runs}
    named = [single[text] for text in patterns if text in single]
    ranges: dict[str, str] = {}
    for listed in runs.jobs.values():
        chosen = {id(run) for run in named} & {id(run) for run in listed}
        block: list[Run] = []
        for run in (*newest_first(listed), None):
            if run is not None and id(run) in chosen:
                block.append(run)
                continue
            if run is not None and not (failed or counts_as_finished(run, strict)):
                continue  # no range takes it
            if len(block) > 2 and not any(set(r.name) & set("*?[!") or ".." in r.name for r in block):
                low, high = block[-1].name, block[0].name
                inside = [r for r in listed if _in_range(r, low, high) and (failed or counts_as_finished(r, strict))]
                if {id(r) for r in inside} == {id(r) for r in block}:
                    ranges.update((f"{r.job}/{r.name}", f"{r.job}/{low}..{high}") for r in block)
            block = []
    return tuple(dict.fromkeys(ranges.get(text, text) for text in patterns))


def in_words(patterns: Sequence[str]) -> str:
    """Join patterns to one text; many are cut to the first few and their number."""
    if len(patterns) <= _MOST_SHOWN:
        return ", ".join(patterns)
    return f"{', '.join(patterns[: _MOST_SHOWN - 1])}, … ({len(patterns)} in all)"


def put(
    left: Sequence[str], right: Sequence[str], runs: Iterable[tuple[str, str]], side: str, whole: Iterable[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns after putting ``runs`` (job and name) on ``side`` (left, right, or empty: on neither).

    Jobs of ``whole`` are put as jobs, so that their future runs join too. Later patterns never contradict earlier ones.
    """
    texts = [f"{job}/{name}" for job, name in runs]
    sides = {"left": list(left), "right": list(right)}
    for word, patterns in sides.items():
        for text in texts:
            if text in patterns:
                patterns.remove(text)
            if f"!{text}" in patterns:
                patterns.remove(f"!{text}")
            patterns.append(text if word == side else f"!{text}")
        for job in whole:
            patterns[:] = [p for p in patterns if p.removeprefix("!").rpartition("/")[0] != job and p != job]
            if word == side:
                patterns.append(job)
    # Drop exclusions without effect: they clutter the panel.
    for patterns in sides.values():
        jobs = [p for p in patterns if not p.startswith("!")]
        patterns[:] = [
            p for p in patterns
            if not p.startswith("!") or any(p[1:] == j or p[1:].startswith(f"{j}/") or set(j) & set("*?.") for j in jobs)
        ]  # fmt: skip
    return tuple(sides["left"]), tuple(sides["right"])


_PAIRS = (
    ("left", "right"), ("before", "after"), ("old", "new"), ("base", "head"), ("baseline", "candidate"),
    ("ci-kubernetes-e2e-gci-gce-scalability", "ci-kubernetes-kubemark-100-gce"),
)  # fmt: skip


def usual_sides(
    runs: Runs, metrics: Mapping[tuple[str, ...], frozenset[int]]
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return default left and right patterns, and a sentence on how they were chosen.

    ``metrics``: the metrics of each job by path. Jobs named like a usual pair come first, then the two jobs with most common
    metrics over most runs, then the halves of the largest job. Empty if no job has metrics.
    """
    jobs = {path: listed for path, listed in runs.jobs.items() if metrics.get(path)}
    names = {path: listed[0].job for path, listed in jobs.items()}
    for left, right in _PAIRS:
        lefts, rights = ([path for path in names if path[-1] == end] for end in (left, right))
        if any(metrics[one] & metrics[other] for one in lefts for other in rights):
            return (
                tuple(sorted(names[path] for path in lefts)),
                tuple(sorted(names[path] for path in rights)),
                f"Sides by name: {left} against {right}.",
            )
    sizes = {
        path: sum(1 for run in listed if run.values and (run.success or not run.ci)) for path, listed in jobs.items()
    }
    largest = sorted(jobs, key=lambda path: (-sizes[path], names[path]))[:_MOST_JOBS]
    best: tuple[int, str, str] | None = None
    for at, one in enumerate(largest):
        for other in largest[at + 1 :]:
            score = len(metrics[one] & metrics[other]) * min(sizes[one], sizes[other])
            first, second = sorted((names[one], names[other]))
            if score and (best is None or (-score, first, second) < (-best[0], *best[1:])):
                best = (score, first, second)
    if best is not None:
        return (best[1],), (best[2],), "Sides: the two jobs that have most in common, by name."
    if largest:
        name = names[largest[0]]
        with_values = [run for run in newest_first(jobs[largest[0]]) if run.values]
        finished = [run for run in with_values if counts_as_finished(run, strict=False)]
        with_values = finished if len(finished) > 1 else with_values
        half = len(with_values) // 2
        if half:
            right_runs = tuple(f"{name}/{run.name}" for run in with_values[:half])
            left_runs = tuple(f"{name}/{run.name}" for run in with_values[half:])
            left_runs, right_runs = (
                shorten(side, runs, strict=False, failed=False) for side in (left_runs, right_runs)
            )
            return left_runs, right_runs, f"{name}: its older runs on the left, its newer ones on the right."
    return (), (), ""
