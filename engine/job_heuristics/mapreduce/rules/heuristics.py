"""All MapReduce heuristics, in Dr. Elephant's order."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.metrics import MEASURES as OF_METRICS
from engine.job_heuristics.dr_elephant.side_stats import Measure
from engine.job_heuristics.mapreduce.rules import (
    cache,
    exception,
    gc,
    memory,
    queue,
    shuffle_sort,
    skew,
    speed,
    spill,
    time,
)
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

_BY_TOPIC = (cache, exception, gc, memory, queue, shuffle_sort, skew, speed, spill, time)
HEURISTICS: tuple[MapReduceHeuristic, ...] = tuple(
    sorted((each for topic in _BY_TOPIC for each in topic.HEURISTICS), key=lambda heuristic: heuristic.order)
)

_BY_NAMES = {measure.names: measure for heuristic in reversed(HEURISTICS) for measure in heuristic.measures}
MEASURES: tuple[Measure, ...] = (*OF_METRICS, *_BY_NAMES.values())
"""The measures of the metrics and of all heuristics, each once. A name stands for one measure: the first that declares it."""
