"""All Spark heuristics, in Dr. Elephant's order."""

from __future__ import annotations

from engine.job_heuristics.spark.rules import configuration, executors, failures
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic

_BY_TOPIC = (configuration, executors, failures)
HEURISTICS: tuple[SparkHeuristic, ...] = tuple(
    sorted((each for topic in _BY_TOPIC for each in topic.HEURISTICS), key=lambda heuristic: heuristic.order)
)
