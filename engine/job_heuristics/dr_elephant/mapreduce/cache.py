"""Distributed Cache Limit: single files of the distributed cache are large."""

from __future__ import annotations

import numpy as np

from engine.job_heuristics.dr_elephant.gates import MB
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rule
from engine.job_heuristics.dr_elephant.jobs import Jobs, PerJob, Verdict, unscored
from engine.job_heuristics.model import job_conf

_LIMIT = "distributed.cache.file.size.limit"


def _judge(jobs: Jobs, rule: Rule) -> Verdict:
    limit = rule.numbers[_LIMIT]
    severity = np.zeros(jobs.count, dtype=np.int64)
    given = np.zeros(jobs.count, dtype=bool)
    too_large: list[dict[str, str]] = []
    for j, properties in enumerate(jobs.properties):
        too_large.append({})
        for key in (job_conf.CACHE_FILES, job_conf.CACHE_ARCHIVES):
            files, sizes = properties.get(key), properties.get(key + ".filesizes")
            if files is None or sizes is None:
                continue
            given[j] = True
            names, numbers = _split(files), _split(sizes)
            if len(names) != len(numbers):
                severity[j] = max(severity[j], 2)
                break
            for name, number in zip(names, numbers, strict=True):
                value = job_conf.integer(number)
                if value is not None and value > limit:
                    severity[j] = 4
                    too_large[j][name] = str(value)
    return unscored(given & jobs.judged, severity, PerJob(too_large.__getitem__))


def _split(text: str) -> list[str]:
    """Split at commas as Java does: empty parts at the end fall away."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


HEURISTICS = (
    Heuristic(
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
