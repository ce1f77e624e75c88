"""Every choice of the run comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.core.parameters import Parameters, option
from engine.formats.timestamps import instant_ms

MODES = ("statistical", "published", "upstream")
"""Whose rules decide: our statistics, the published description's, or those of perf-tests' benchmark tool."""

_RUN_RULE = re.compile(r"(last-n-runs|last-n-hours):([0-9]{1,9}(?:\.[0-9]+)?)")


_SIZE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


class RunRule(NamedTuple):
    """Selection of the runs of a job: ``last-n-runs`` or ``last-n-hours`` with a number, or ``all``."""

    name: str
    n: float = 0


def parse_run_rule(text: str) -> RunRule:
    """Parse ``last-n-runs:20``, ``last-n-hours:24`` or ``all``. Raises ValueError."""
    if text == "all":
        return RunRule("all")
    parts = _RUN_RULE.fullmatch(text)
    if parts is None or (parts[1] == "last-n-runs" and "." in parts[2]):
        raise ValueError(f"unknown run selection {text!r}; it is last-n-runs:N, last-n-hours:N or all")
    return RunRule(parts[1], float(parts[2]))


class DirectionRule(NamedTuple):
    """``better`` (lower or higher) of the metrics whose name matches ``pattern`` (lower case, with ``*`` and ``?``)."""

    pattern: str
    better: str


def parse_direction_rules(texts: Sequence[str]) -> tuple[DirectionRule, ...]:
    """Parse ``NAME=lower`` or ``NAME=higher`` per text. Raises ValueError that names the bad text."""
    rules = []
    for text in texts:
        pattern, sign, better = text.rpartition("=")
        if not sign or not pattern or better not in ("lower", "higher"):
            raise ValueError(f"direction {text!r} is not NAME=lower or NAME=higher")
        rules.append(DirectionRule(pattern.lower(), better))
    return tuple(rules)


class SizeRule(NamedTuple):
    """The smallest change that counts (a share of the left side) of the metrics that ``pattern`` names."""

    pattern: str
    size: float


def parse_size_rules(texts: Sequence[str]) -> tuple[SizeRule, ...]:
    """Parse ``NAME=SHARE`` per text. Raises ValueError that names the bad text."""
    rules = []
    for text in texts:
        pattern, _, size = text.rpartition("=")
        if not pattern or not _SIZE.fullmatch(size):
            raise ValueError(f"size {text!r} is not NAME=SHARE, such as *p99*=0.1")
        rules.append(SizeRule(pattern, float(size)))
    return tuple(rules)


class ComparisonParameters(Parameters, frozen=True, kw_only=True):
    """Sides, selection, mode, thresholds."""

    left: Annotated[
        tuple[str, ...],
        option("Runs on the left: jobs, JOB/RUN, JOB/A..B, !left-out; * and ? match any text. Empty: chosen for you."),
    ] = ()
    right: Annotated[tuple[str, ...], option("Runs on the right, as for the left.")] = ()
    mode: Annotated[
        str,
        option(
            "Whose rules decide: statistics, the published description's, or perf-tests' benchmark tool's.",
            choices=MODES,
        ),
    ] = "statistical"
    scheme: Annotated[str, option("Comparison scheme of perf-tests' benchmark tool.", choices=("avg", "ks"))] = "avg"
    select: Annotated[
        str, option("Which runs of a job: last-n-runs:N, last-n-hours:N or all (finished with SUCCESS).")
    ] = "last-n-runs:20"
    max_runs: Annotated[int, option("Newest runs of each job to use; older ones are left out, with a note.", low=2)] = (
        5_000
    )
    now: Annotated[str, option("Time from which last-n-hours counts back, ISO 8601; empty: the clock.")] = ""
    threshold: Annotated[
        float,
        option("Lowest ratio of means that matches (and 1/threshold the highest); for ks the lowest p.", low=0.0),
    ] = 0.66
    upper: Annotated[float, option("Highest ratio that published mode matches.", low=0.0)] = 1.5
    min_average: Annotated[
        float, option("Upstream mode: metrics whose means both lie below match in any case.", unit="ms", low=0.0)
    ] = 50.0
    min_count: Annotated[int, option("Items with fewer requests than this are left out.", low=0)] = 10
    pass_share: Annotated[
        float, option("Share of matched metrics from which the comparison passes.", low=0.0, high=1.0)
    ] = 0.9
    worse_by: Annotated[
        float,
        option(
            "A significant change counts as worse (or better) from this share of the left side on: 0.05 is 5%.",
            low=0.0,
        ),
    ] = 0.05
    worse_by_of: Annotated[
        tuple[str, ...],
        option("Another worse-by for some metrics: NAME=SHARE; names as for mute."),
    ] = ()
    mute: Annotated[
        tuple[str, ...],
        option("Metrics to show without counting them or failing for them, by name; * and ? match any text."),
    ] = ()
    regressions: Annotated[int, option("Regressions that check tolerates.", low=0)] = 0
    percentiles: Annotated[tuple[str, ...], option("Percentiles that published mode compares.")] = ("90", "95", "99")
    kinds: Annotated[
        tuple[str, ...],
        option("Kinds of report to compare; empty: all, in published mode API latency and pod startup."),
    ] = ()
    similarity: Annotated[
        str, option("Similarity measure of published mode.", choices=("ratio", "distribution", "overlap"))
    ] = "ratio"
    sample: Annotated[
        str, option("What a sample consists of: every value, or each run's median.", choices=("value", "run"))
    ] = "value"
    include_failed: Annotated[bool, option("Include failed and unfinished runs of a job.")] = False
    alpha: Annotated[
        float, option("Significance level; intervals have confidence 1 - 2 alpha.", low=0.0001, high=0.4)
    ] = 0.05
    draws: Annotated[int, option("Bootstrap draws of whole runs for the overall interval.", low=0, high=100_000)] = 2000
    seed: Annotated[int, option("Seed of the bootstrap.", low=0)] = 1
    direction: Annotated[tuple[str, ...], option("Direction by name: NAME=lower or NAME=higher is better.")] = ()
    group_by: Annotated[
        str,
        option("Label by which metrics are grouped.", choices=("resource", "verb", "scope", "test", "kind", "bucket")),
    ] = "resource"
    change_p: Annotated[float, option("Change points: highest p that counts.", low=0.0, high=0.5)] = 0.001
    change_magnitude: Annotated[float, option("Change points: smallest relative change.", low=0.0)] = 0.0
    change_window: Annotated[int, option("Change points: window of E-divisive in runs.", low=2, high=1000)] = 50
    change_limit: Annotated[
        int, option("Change points: metrics searched at most, those that drift most first.", low=0)
    ] = 100

    def __post_init__(self) -> None:
        """Check the options with their own notation. Raises ValueError."""
        parse_run_rule(self.select)
        parse_direction_rules(self.direction)
        parse_size_rules(self.worse_by_of)
        if self.now:
            parse_now(self.now)


def parse_now(text: str) -> int:
    """Convert an ISO 8601 time (UTC without an offset) to epoch ms. Raises ValueError."""
    now_ms = instant_ms(text)
    if now_ms is None:
        raise ValueError(f"now: {text!r} is no ISO 8601 time such as 2026-07-26T12:00:00Z")
    return now_ms
