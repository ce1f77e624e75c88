"""Every choice of the run comparison."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from engine.parameters import Parameters, option
from engine.run_comparison.runs import metric_units, selection

MODES = ("statistical", "design", "upstream")


class ComparisonParameters(Parameters, frozen=True, kw_only=True):
    """Sides, selection, mode, thresholds."""

    left: Annotated[
        tuple[str, ...],
        option("Runs on the left: jobs, JOB/RUN, JOB/A..B, !left-out; * and ? match any text. Empty: chosen for you."),
    ] = ()
    right: Annotated[tuple[str, ...], option("Runs on the right, as for the left.")] = ()
    mode: Annotated[
        str, option("Whose answer: statistics, the seed design's, or the upstream tool's.", choices=MODES)
    ] = "statistical"
    scheme: Annotated[str, option("Upstream's comparison scheme.", choices=("avg", "ks"))] = "avg"
    select: Annotated[
        str, option("Which runs of a job: last-n-runs:N, last-n-hours:N or all (finished with SUCCESS).")
    ] = "last-n-runs:20"
    now: Annotated[str, option("Time from which last-n-hours counts back, ISO 8601; empty: the clock.")] = ""
    threshold: Annotated[
        float,
        option("Lowest ratio of means that matches (and 1/threshold the highest); for ks the lowest p.", low=0.0),
    ] = 0.66
    upper: Annotated[float, option("Highest ratio that design mode matches.", low=0.0)] = 1.5
    min_average: Annotated[
        float, option("Upstream mode: metrics whose means both lie below match in any case.", unit="ms", low=0.0)
    ] = 50.0
    min_count: Annotated[int, option("Items with fewer requests than this are left out.", low=0)] = 10
    pass_share: Annotated[
        float, option("Share of matched metrics from which the comparison passes.", low=0.0, high=1.0)
    ] = 0.9
    percentiles: Annotated[tuple[str, ...], option("Percentiles that design mode compares.")] = ("90", "95", "99")
    kinds: Annotated[
        tuple[str, ...], option("Kinds of report to compare; empty: all, in design mode API latency and pod startup.")
    ] = ()
    similarity: Annotated[
        str, option("Similarity measure of design mode.", choices=("ratio", "distribution", "overlap"))
    ] = "ratio"
    sample: Annotated[
        str, option("What a sample consists of: every value, or each run's median.", choices=("value", "run"))
    ] = "value"
    include_failed: Annotated[bool, option("Let failed and unfinished runs of a job take part.")] = False
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
        """Refuse what no single bound can say. Raises ValueError."""
        selection.parse_rule(self.select)
        metric_units.parse_rules(self.direction)
        if self.now:
            parse_now(self.now)


def parse_now(text: str) -> int:
    """ISO 8601 (UTC unless it says otherwise) as epoch ms. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"now: {text!r} is no ISO 8601 time such as 2026-07-26T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
