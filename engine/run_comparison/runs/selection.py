"""Choose the runs to compare: the benchmark tool's two rules, and sides made of jobs, ranges and single runs.

See docs/models/run-comparison.md, Selection of runs and Sides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from engine.core.view import NoInput, UnknownName
from engine.run_comparison.parameters import ComparisonParameters, RunRule, parse_run_rule
from engine.run_comparison.runs.measurements import Measurements
from engine.run_comparison.runs.runs import Run, RunKey, Runs

Key = TypeVar("Key", bound=Hashable)

_MOST_SHOWN = 8  # most patterns in the text of a side

_MOST_JOBS = 24  # most jobs among which the usual pair is searched, those with the most runs first

_WILD = frozenset("*?[")


OWN_TIMES = "the times of their runs"  # what says which side is the newer one, if that stands in the files themselves


class Sides(msgspec.Struct, frozen=True, eq=False):
    """Runs of both sides, newest first; the patterns that picked them; and how they were chosen, unless by hand.

    ``guess``: what alone says which side is the newer one, where neither arguments nor names do; else empty.
    """

    left: tuple[Run, ...]
    right: tuple[Run, ...]
    left_patterns: tuple[str, ...]
    right_patterns: tuple[str, ...]
    note: str
    guess: str = ""


def choose_sides(
    runs: Runs,
    parameters: ComparisonParameters,
    now_ms: int,
    measurements: Measurements,
    argument_of: Mapping[RunKey, int] | None = None,
) -> Sides:
    """Return the runs of both sides. ``argument_of``: which of two paths of the command line each run lies below, 0 or 1.

    Raises NoInput if a side stays empty, naming the jobs there are.
    """
    rule = parse_run_rule(parameters.select)
    strict = parameters.mode == "upstream"
    left, right, note, guess = parameters.left, parameters.right, "", ""
    if not left or not right:
        usual = usual_sides(runs, metrics_of_jobs(runs, measurements), argument_of or {})
        if not parameters.left and not parameters.right:
            note, guess = usual.note, usual.guess
        left, right = left or usual.left, right or usual.right
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
    return Sides(picked[0], picked[1], left, right, note, guess)


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
    return run.upstream.success if strict else run.success or not (run.ci or run.finished)


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
    return (
        ", ".join(patterns)
        if len(patterns) <= _MOST_SHOWN
        else f"{', '.join(patterns[: _MOST_SHOWN - 1])}, … ({len(patterns)} in all)"
    )


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


_TOOLS_PAIR = ("ci-kubernetes-e2e-gci-gce-scalability", "ci-kubernetes-kubemark-100-gce")
"""The two default jobs of perf-tests' benchmark tool."""
_BASES = frozenset(
    {"left", "before", "old", "older", "base", "baseline", "control", "reference", "ref", "previous", "prev", "main"}
    | {"master", "trunk", "stable"}
)
_CANDIDATES = frozenset(
    {"right", "after", "new", "newer", "head", "candidate", "treatment", "experiment", "current", "patched", "patch"}
    | {"feature", "pr", "branch", "canary", "next"}
)
"""Words in names of jobs and runs that tell which side they belong on."""


class Usual(NamedTuple):
    """Patterns of both sides, a sentence on how they were chosen, and what was guessed (see ``Sides``)."""

    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    note: str = ""
    guess: str = ""


def usual_sides(
    runs: Runs, metrics: Mapping[tuple[str, ...], frozenset[int]], argument_of: Mapping[RunKey, int]
) -> Usual:
    """Return the sides as people mean them; empty if no job has metrics.

    ``metrics``: the metrics of each job by path. First come the two paths of the command line in their order, then jobs and
    then runs whose names tell (before and after, main and anything else), then the two jobs with most common metrics over most
    runs, then the halves of the largest job.
    """
    jobs = {path: listed for path, listed in runs.jobs.items() if metrics.get(path)}
    names = {path: listed[0].job for path, listed in jobs.items()}
    with_values = [run for listed in jobs.values() for run in listed if run.values]
    sides = [[run for run in with_values if argument_of.get(run.key) == side] for side in (0, 1)]
    if all(sides):
        left, right = (_patterns(side, runs) for side in sides)
        return Usual(left, right, "Sides: the two paths in the order given.")
    first, second = ([path for path in names if path[-1] == name] for name in _TOOLS_PAIR)
    lefts, rights = (first, second) if first and second else _by_words(names)
    if any(metrics[one] & metrics[other] for one in lefts for other in rights):
        left, right = (tuple(sorted(names[path] for path in side)) for side in (lefts, rights))
        return Usual(left, right, f"Sides by name: {in_words(left)} against {in_words(right)}.")
    named = {job: _by_words({run: run.name for run in with_values if run.job_path == job}) for job in jobs}
    both = [[run for side in named.values() if all(side) for run in side[at]] for at in (0, 1)]
    if all(both):
        left, right = (_patterns(side, runs) for side in both)
        return Usual(left, right, f"Sides by name: {in_words(left)} against {in_words(right)}.")
    return _pair_of_jobs(jobs, names, metrics) or _halves(jobs, names, runs)


def _patterns(chosen: Sequence[Run], runs: Runs) -> tuple[str, ...]:
    """Return patterns that pick the ``chosen`` runs: whole jobs where all runs of a job are chosen."""
    counts = Counter(run.job_path for run in chosen)
    texts = dict.fromkeys(
        run.job if counts[run.job_path] == len(runs.jobs[run.job_path]) else f"{run.job}/{run.name}" for run in chosen
    )
    return shorten(tuple(texts), runs, strict=False, failed=False)


def _by_words(names: Mapping[Key, str]) -> tuple[list[Key], list[Key]]:
    """Return those of ``names`` that belong on the left and on the right by a word in them; empty if that is not clear.

    Words that all share tell nothing. One name without such a word is the other side of those that have one.
    """
    words = {key: frozenset(re.split(r"[^a-z]+", name.lower())) for key, name in names.items()}
    common = frozenset.intersection(*words.values()) if words else frozenset()
    lefts = [key for key, has in words.items() if (has - common) & _BASES and not (has - common) & _CANDIDATES]
    rights = [key for key, has in words.items() if (has - common) & _CANDIDATES and not (has - common) & _BASES]
    rest = [key for key in names if key not in lefts and key not in rights]
    if len(rest) == 1 and bool(lefts) != bool(rights):
        lefts, rights = lefts or rest, rights or rest
    return (lefts, rights) if lefts and rights else ([], [])


def _version(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the shape of a name, and the numbers in it."""
    return re.sub(r"[0-9]+", "#", name), tuple(int(number[:18]) for number in re.findall(r"[0-9]+", name))


def _are_versions(names: Iterable[str]) -> bool:
    """Whether names differ in their numbers alone: versions, dates, builds."""
    versions = [_version(name) for name in names]
    return len({shape for shape, _ in versions}) == 1 and len(set(versions)) == len(versions)


def _pair_of_jobs(
    jobs: Mapping[tuple[str, ...], list[Run]],
    names: Mapping[tuple[str, ...], str],
    metrics: Mapping[tuple[str, ...], frozenset[int]],
) -> Usual | None:
    """Return the two jobs with most common metrics over most runs: the lower version, or else the older one, is the left."""
    sizes = {
        path: sum(1 for run in listed if run.values and counts_as_finished(run, strict=False))
        for path, listed in jobs.items()
    }
    largest = sorted(jobs, key=lambda path: (-sizes[path], names[path]))[:_MOST_JOBS]
    best: tuple[int, str, str] | None = None
    pair: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    for at, one in enumerate(largest):
        for other in largest[at + 1 :]:
            score = len(metrics[one] & metrics[other]) * min(sizes[one], sizes[other])
            first, second = sorted((one, other), key=names.__getitem__)
            order = (-score, names[first], names[second])
            if score and (best is None or order < best):
                best, pair = order, (first, second)
    if pair is None:
        return None
    note, guess = "by name", "the order of their names"
    if _are_versions(names[path] for path in pair):
        pair = (min(pair, key=lambda path: _version(names[path])), max(pair, key=lambda path: _version(names[path])))
        note, guess = "by version", ""
    else:
        spans = {path: [run.time_ms for run in jobs[path] if run.time_ms is not None] for path in pair}
        for left, right in (pair, pair[::-1]):
            if spans[left] and spans[right] and max(spans[left]) < min(spans[right]):
                pair, note, guess = (left, right), "the older one on the left", _guessed((*jobs[left], *jobs[right]))
    return Usual((names[pair[0]],), (names[pair[1]],), f"Sides: the two jobs that have most in common, {note}.", guess)


def _guessed(runs: Iterable[Run]) -> str:
    """Say which times alone tell the age of some of ``runs``; empty if all are numbered."""
    unnumbered = [run for run in runs if run.number is None]
    words = OWN_TIMES if all(run.is_timed for run in unnumbered) else "the times of their files"
    return words if unnumbered else ""


def _halves(jobs: Mapping[tuple[str, ...], list[Run]], names: Mapping[tuple[str, ...], str], runs: Runs) -> Usual:
    """Return the older and the newer half of the job with most runs."""
    if not jobs:
        return Usual()
    path = min(
        jobs,
        key=lambda path: (
            -sum(1 for run in jobs[path] if run.values and counts_as_finished(run, strict=False)),
            names[path],
        ),
    )
    with_values = [run for run in newest_first(jobs[path]) if run.values]
    finished = [run for run in with_values if counts_as_finished(run, strict=False)]
    with_values = finished if len(finished) > 1 else with_values
    half = len(with_values) // 2
    if not half:
        return Usual()
    guess, how = _guessed(with_values), "older and newer"
    if guess and _are_versions(run.name for run in with_values):
        with_values.sort(key=lambda run: _version(run.name), reverse=True)
        guess, how = "", "lower and higher"
    right, left = (
        shorten(tuple(f"{names[path]}/{run.name}" for run in side), runs, strict=False, failed=False)
        for side in (with_values[:half], with_values[half:])
    )
    older, newer = how.split(" and ")
    by = f" by {guess}" if guess else ""
    return Usual(left, right, f"{names[path]}: its {older} runs on the left, its {newer} ones on the right{by}.", guess)
