"""Which runs are compared: upstream's two rules, and putting jobs, ranges and single runs on a side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter

from engine.run_comparison.runs.runs import Run, Runs

_RULE = re.compile(r"(last-n-runs|last-n-hours):([0-9]{1,9}(?:\.[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Rule:
    """``last-n-runs``, ``last-n-hours`` or ``all``, with its number."""

    name: str
    n: float = 0


def parse_rule(text: str) -> Rule:
    """``last-n-runs:20``, ``last-n-hours:24`` or ``all``. Raises ValueError."""
    if text == "all":
        return Rule("all")
    found = _RULE.fullmatch(text)
    if found is None or (found[1] == "last-n-runs" and "." in found[2]):
        raise ValueError(f"unknown run selection {text!r}; it is last-n-runs:N, last-n-hours:N or all")
    return Rule(found[1], float(found[2]))


def newest_first(runs: Iterable[Run]) -> list[Run]:
    """By falling number; runs without one by falling time, then name."""
    return sorted(runs, key=attrgetter("newness"), reverse=True)


def last_n_runs(runs: Iterable[Run], n: int, *, strict: bool = True) -> list[Run]:
    """The newest ``n`` runs that finished with SUCCESS; fewer are fine."""
    return [run for run in newest_first(runs) if counts_as_finished(run, strict)][: max(n, 0)]


def last_n_hours(runs: Iterable[Run], hours: float, now_ms: int, *, strict: bool = True) -> list[Run]:
    """Runs that began within ``hours``, newest number first: a run without a readable start is passed over, the first
    one that is too old (or lies in the future: upstream computes unsigned) ends the search, whatever its result."""
    found = []
    for run in newest_first(runs):
        start = run.started_ms if strict or run.started_ms is not None else run.time_ms
        if start is None:
            continue
        age = now_ms // 1000 - start // 1000
        if age < 0 or age >= 3600 * hours:
            break
        if counts_as_finished(run, strict):
            found.append(run)
    return found


def counts_as_finished(run: Run, strict: bool = True) -> bool:
    """SUCCESS; outside upstream mode also runs of tools that leave no such mark."""
    return run.success or (not strict and not run.ci)


def apply(rule: Rule, runs: Iterable[Run], now_ms: int, *, strict: bool, failed: bool = False) -> list[Run]:
    """The runs of one job that ``rule`` takes, newest first. ``failed``: unfinished and failed ones count as well."""
    listed = list(runs)
    if failed:
        newest = newest_first(listed)
        if rule.name == "last-n-runs":
            return newest[: int(rule.n)]
        if rule.name == "last-n-hours":
            oldest = now_ms - rule.n * 3.6e6
            return [run for run in newest if run.time_ms is not None and oldest < run.time_ms <= now_ms]
        return newest
    if rule.name == "last-n-runs":
        return last_n_runs(listed, int(rule.n), strict=strict)
    if rule.name == "last-n-hours":
        return last_n_hours(listed, rule.n, now_ms, strict=strict)
    return [run for run in newest_first(listed) if counts_as_finished(run, strict)]


_WILD = frozenset("*?[")


def _ends_with(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(pattern) <= len(parts) and all(
        part == wanted or fnmatchcase(part, wanted)
        for part, wanted in zip(parts[len(parts) - len(pattern) :], pattern, strict=True)
    )


def _in_range(run: Run, low: str, high: str) -> bool:
    if run.number is not None and low.lstrip("-").isdigit() and high.lstrip("-").isdigit():
        return int(low) <= run.number <= int(high)
    return low <= run.name <= high


def pick(
    patterns: Sequence[str], runs: Runs, rule: Rule, now_ms: int, *, strict: bool, failed: bool = False
) -> list[Run]:
    """The runs of one side, in the order of ``patterns``, newest first within each, none twice.

    A pattern is a job (the selection rule applies), ``JOB/RUN`` (that run, whatever its result), ``JOB/A..B`` (finished
    runs between two numbers or names) or one of them with ``!`` in front (leave out). ``*`` and ``?`` stand for any
    text; a job may be given by the end of its path. What matches no job or run is taken for a folder: all jobs below it.
    """
    taken: dict[tuple[tuple[str, ...], str], Run] = {}
    dropped: set[tuple[tuple[str, ...], str]] = set()
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
        for run in chosen:
            if drop:
                dropped.add(run.key)
            else:
                taken.setdefault(run.key, run)
    return [run for key, run in taken.items() if key not in dropped]


def shorten(patterns: Sequence[str], runs: Runs, *, strict: bool, failed: bool) -> tuple[str, ...]:
    """``patterns`` with neighbouring runs of a job as one range (``JOB/A..B``), where that picks the same runs."""
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
    """Patterns as one text of a sane length."""
    if len(patterns) <= _MOST_SHOWN:
        return ", ".join(patterns)
    return f"{', '.join(patterns[: _MOST_SHOWN - 1])}, … ({len(patterns)} in all)"


def put(
    left: Sequence[str], right: Sequence[str], runs: Iterable[tuple[str, str]], side: str, whole: Iterable[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns after putting ``runs`` (job and name) on ``side`` (left, right, or empty: on neither), and the jobs of
    ``whole`` as jobs, so that runs to come join as well. Later patterns never contradict earlier ones."""
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
    # A leave-out that leaves nothing out only clutters the panel.
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
    runs: Runs, series: Mapping[tuple[str, ...], frozenset[int]]
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Left and right patterns where the operator named none, and a sentence that says how they were chosen.

    ``series``: which series each job (by path) has. Jobs called as pairs usually are, then the two jobs that have most
    metrics in common over most runs, then the halves of the largest job.
    """
    jobs = {path: listed for path, listed in runs.jobs.items() if series.get(path)}
    names = {path: listed[0].job for path, listed in jobs.items()}
    for left, right in _PAIRS:
        found = [[path for path in names if path[-1] == end] for end in (left, right)]
        if any(series[one] & series[other] for one in found[0] for other in found[1]):
            return (
                tuple(sorted(names[path] for path in found[0])),
                tuple(sorted(names[path] for path in found[1])),
                f"Sides by name: {left} against {right}.",
            )
    sizes = {
        path: sum(1 for run in listed if run.values and (run.success or not run.ci)) for path, listed in jobs.items()
    }
    largest = sorted(jobs, key=lambda path: (-sizes[path], names[path]))[:_MOST_JOBS]
    best: tuple[int, str, str] | None = None
    for at, one in enumerate(largest):
        for other in largest[at + 1 :]:
            score = len(series[one] & series[other]) * min(sizes[one], sizes[other])
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


_MOST_SHOWN = 8
"""Patterns told one by one."""

_MOST_JOBS = 24
"""Jobs among which pairs are looked for: those with the most runs."""
