"""Verdicts of all jobs, kept from one computation to the next: only jobs that changed are judged anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant import rules
from engine.job_heuristics.dr_elephant.side_stats import Measured
from engine.job_heuristics.dr_elephant.verdict_tables import Judged, judge, sides_of
from engine.job_heuristics.model.changes import Changes, spliced
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.overlay import Parts
from engine.result import Finding
from engine.view import Context


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
        memo["sides"] = Measured(model.names, sides_of(model.jobs, model.arrays[0], _properties(model)))
    elif touched:
        part = model.only(touched)
        memo["sides"].replace(touched, part.names, sides_of(part.jobs, part.arrays[0], _properties(part)))
    memo["generation"] = changes.generation
    key = (parameters.mode, parameters.heuristic_conf, parameters.block_size, parameters.queue_limit)
    last: Judged | None = memo.get("judged") if memo.get("key") == key else None

    def decide(part: Model) -> Judged:
        return judge(
            part.jobs, memo["sides"].of(part.names), _properties(part), chosen, published=parameters.mode == "published",
        )  # fmt: skip

    if last is None or touched is None:
        found = decide(model)
    elif not touched:
        found = last
    else:
        new = decide(model.only(touched))
        found = Judged(
            spliced(last.jobs, new.jobs, touched, model.place),
            spliced(last.heuristics, new.heuristics, touched, model.place),
            spliced(last.differences, new.differences, touched, model.place),
            _findings(last, new, touched, model.place),
            new,
        )
    memo.update(key=key, judged=found)
    return found


def _findings(last: Judged, new: Judged, touched: frozenset[str], place: Mapping[str, int]) -> Parts[Finding]:
    """As ``spliced``, of the findings."""
    fresh = dict(zip(new.jobs["job_id"].to_list(), new.findings.parts, strict=True))
    names = last.jobs["job_id"]
    if last.findings.size == len(place) and all(job in place and names[place[job]] == job for job in touched):
        return last.findings.replaced({place[job]: each for job, each in fresh.items()})
    old = dict(zip(last.jobs["job_id"].to_list(), last.findings.parts, strict=True))
    return Parts([fresh[job] if job in fresh else old[job] for job in place])


def _properties(model: Model) -> dict[str, Mapping[str, str]]:
    told = model.told
    return {job: told[job][0] for job in model.names}
