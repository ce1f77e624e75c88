"""Distributed Cache Limit: single files of the distributed cache are large."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import integer
from engine.job_heuristics.dr_elephant.gates import MB
from engine.job_heuristics.dr_elephant.sides import Jobs, PerJob, SideRule, Verdict, unscored
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

_LIMIT = "distributed.cache.file.size.limit"


def _judge(jobs: Jobs, rule: SideRule) -> Verdict:
    results = [_job(properties, rule.numbers[_LIMIT]) for properties in jobs.properties]
    given = np.array([result is not None for result in results], dtype=bool)
    severity = np.array([0 if result is None else result[0] for result in results], dtype=np.int64)
    details = [{} if result is None else result[1] for result in results]
    return unscored(given & jobs.judged, severity, PerJob(details.__getitem__))


def _job(properties: Mapping[str, str], limit: int) -> tuple[int, dict[str, str]] | None:
    """Return the severity of one job and its details; None without a pair of lists."""
    severity: int | None = None
    details: dict[str, str] = {}
    for key in (job_conf.CACHE_FILES, job_conf.CACHE_ARCHIVES):
        files, sizes = properties.get(key), properties.get(key + ".filesizes")
        if files is None or sizes is None:
            continue
        names, numbers = _split(files), _split(sizes)
        if len(names) != len(numbers):
            # Details of files found too large before stay.
            return 2, {**details, key: str(len(names)), f"{key}.filesizes": str(len(numbers))}
        # A name listed twice counts once, with its last size.
        known = {name: integer(number) or 0 for name, number in zip(names, numbers, strict=True)}
        large = {name: str(number) for name, number in known.items() if number > limit}
        details.update(large)
        severity = 4 if large else severity or 0
    return None if severity is None else (severity, details)


def _split(text: str) -> list[str]:
    """Split at commas as Java does: empty parts at the end fall away, and only an empty text has one."""
    if not text:
        return [""]
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


HEURISTICS = (
    MapReduceHeuristic(
        name="Distributed Cache Limit",
        class_name="DistributedCacheLimitHeuristic",
        order=12,
        numbers={_LIMIT: 500 * MB},
        unread="distributed.cache",
        in_published=False,
        difference="the published description has no such heuristic",
        judge=_judge,
        advice=lambda level, job: (
            "Every node copies each cached file before its first task: keep single files below the limit, or read them "
            "from HDFS."
        ),
    ),
)
