"""Verdicts of all jobs, kept from one computation to the next: only jobs that changed are judged anew."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.job_heuristics import rules, settings
from engine.job_heuristics.changes import Changes, spliced
from engine.job_heuristics.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.results import Judged, judge, sides_of
from engine.job_heuristics.sides import Measured
from engine.view import Context

_DEFAULT_BLOCK = JobParameters().block_size


def judge_all(
    model: Model,
    changes: Changes,
    chosen: rules.Rules,
    parameters: JobParameters,
    context: Context,
) -> Judged:
    """All jobs judged; only those that changed since the last time are judged anew while the rules stay."""
    memo: dict[str, Any] = context.memo.setdefault(("job-verdicts", context.at_ms is None), {})
    touched = changes.since(memo.get("generation"))
    if touched is None or 2 * len(touched) > model.jobs.height:
        touched = None
        memo["properties"] = settings.lookup(model.conf)
        memo["sides"] = Measured(model.names, sides_of(model.jobs, model.arrays[0], memo["properties"]))
    elif touched:
        part = model.only(touched)
        properties: dict[str, dict[str, str]] = memo["properties"].copy()
        for job in touched:
            properties.pop(job, None)
        properties.update(settings.lookup(part.conf))
        memo["properties"] = properties
        memo["sides"].replace(touched, part.names, sides_of(part.jobs, part.arrays[0], properties))
    memo["generation"] = changes.generation
    key = (parameters.mode, parameters.heuristic_conf, parameters.block_size, parameters.queue_limit)
    last: Judged | None = memo.get("judged") if memo.get("key") == key else None

    def decide(jobs: pl.DataFrame) -> Judged:
        return judge(
            jobs, memo["sides"].of(jobs["job_id"].to_list()), memo["properties"], chosen, seed=parameters.mode == "seed",
            block_size=parameters.block_size, default_block=_DEFAULT_BLOCK,
        )  # fmt: skip

    if last is None or touched is None:
        found = decide(model.jobs)
    elif not touched:
        found = last
    else:
        new = decide(model.only(touched).jobs)
        found = Judged(
            spliced(last.jobs, new.jobs, touched, model.place),
            spliced(last.heuristics, new.heuristics, touched, model.place),
            spliced(last.differences, new.differences, touched, model.place),
            {**{job: f for job, f in last.findings.items() if job not in touched}, **new.findings},
        )
    memo.update(key=key, judged=found)
    return found
