"""Result tables and detail of the one chosen job (option job): imported only when a job is chosen."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine import units
from engine.job_heuristics.dr_elephant.rules import Rules
from engine.job_heuristics.insight import history, whatif
from engine.job_heuristics.insight_tables import CONF_CHANGES, EXPLAINED, HISTORY, PHASES, WHAT_IF
from engine.job_heuristics.model import job_arrays
from engine.job_heuristics.model.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result import detail
from engine.job_heuristics.tables import SEVERITIES


def shown(
    model: Model,
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    rules: tuple[Rules, Rules],
    job_id: str,
    parameters: JobParameters,
    memo: dict[str, Any],
    tables: dict[str, pl.DataFrame],
) -> detail.JobDetail:
    """The chosen job: its detail, and its tables put into ``tables``. ``rules``: in force, and of the scenario."""
    part = model.job(job_id)
    held: tuple[Any, ...] | None = memo.get("held")
    if held is None or held[0] != job_id:
        job = job_arrays.job(part)
        assert job is not None
        memo["held"] = held = (job_id, detail.facts_of(job, part.attempts, part.tasks))
    mine = verdicts.filter(pl.col("job_id") == job_id)
    scenario = whatif.Scenario(
        parameters.map_mb, parameters.reduce_mb, parameters.split_size, parameters.reduces, parameters.slow_start
    )
    coming = memo.get("ahead")
    if coming is None or coming[0] is not held or coming[1] != (rules[0].key, parameters.seed):
        coming = (held, (rules[0].key, parameters.seed), detail.ahead_of(held[1].job, rules[0], parameters.seed))
        memo["ahead"] = coming
    shown = detail.job_detail(held[1], mine, *rules, scenario, coming[2], (job_id, memo["turn"], parameters))
    tables[EXPLAINED.name] = _explained(shown)
    tables[PHASES.name] = _phases(shown)
    kept = memo.get("runs")
    if kept is None or kept[0] is not jobs or kept[1] != (job_id, memo["turn"]):
        kept = (jobs, (job_id, memo["turn"]), _runs(model, jobs, job_id, memo))
        memo["runs"] = kept
    runs = kept[2]
    tables[HISTORY.name] = runs
    other = parameters.compare or _previous(runs, job_id)
    tables[CONF_CHANGES.name] = _conf_changes(model, other, job_id)
    if shown.prediction is not None:
        tables[WHAT_IF.name] = _what_if(shown)
    return shown


def _explained(shown: detail.JobDetail) -> pl.DataFrame:
    rows: dict[str, list[Any]] = {name: [] for name in EXPLAINED.schema}
    for v in shown.verdicts:
        deciding = [limit for branch in v.why.branches for limit in branch if limit.decides] if v.why else []
        margin = v.why.margin * 100 if v.why and v.why.margin < 1e6 else None
        cells = (
            shown.facts.job.id, v.heuristic, v.severity,
            "; ".join(d.phrase for d in deciding), "; ".join(d.limits_text for d in deciding),
            _reason(v), v.why.worse if v.why else "", v.why.better if v.why else "", margin,
            v.outlook.status if v.outlook else "", SEVERITIES[v.outlook.likely] if v.outlook else None,
            100 * v.outlook.chance[v.outlook.likely] if v.outlook else None,
            SEVERITIES[v.predicted] if v.predicted is not None else None, v.advice,
        )  # fmt: skip
        for name, cell in zip(rows, cells, strict=True):
            rows[name].append(cell)
    return EXPLAINED.frame(rows)


def _reason(v: detail.VerdictDetail) -> str:
    if v.why is None:
        return ""
    word = SEVERITIES[v.why.level]
    return v.why.reason if word == v.severity else f"By Dr. Elephant's code it would be {word}: {v.why.reason}"


def _phases(shown: detail.JobDetail) -> pl.DataFrame:
    bars = shown.facts.waterfall
    whole = sum(p.ms for p in bars)
    return PHASES.frame(
        {
            "job_id": [shown.facts.job.id] * len(bars),
            "phase": [p.name for p in bars],
            "start_ms": [p.start_ms for p in bars],
            "ms": [p.ms for p in bars],
            "share": [100 * p.ms / whole if whole else 0.0 for p in bars],
            "meaning": [p.text for p in bars],
        }
    )


def _runs(model: Model, jobs: pl.DataFrame, job_id: str, memo: dict[str, Any]) -> pl.DataFrame:
    names: dict[str, str] = memo.setdefault("stems", {})
    for name in jobs["name"].drop_nulls().unique().to_list():
        if name not in names:
            names[name] = history.stem(name)
    one = jobs.filter(pl.col("job_id") == job_id)
    wanted = names.get(one["name"][0] or "", "") if one.height else ""
    alike = [name for name, stem in names.items() if stem == wanted]
    runs = jobs.filter(pl.col("name").is_in(pl.Series(alike, dtype=pl.String).implode())) if wanted else one
    sizes = (
        model.only(frozenset(runs["job_id"].to_list()))
        .tasks.filter(pl.col("side") == "map")
        .group_by("job_id", maintain_order=True)
        .agg(pl.col("input_bytes").sum())
    )
    return history.history(runs, sizes, job_id)


def _previous(runs: pl.DataFrame, job_id: str) -> str | None:
    ids: list[str] = runs["job_id"].to_list()
    at = ids.index(job_id) if job_id in ids else len(ids)
    return ids[at + 1] if at + 1 < len(ids) else None


def _conf_changes(model: Model, other: str | None, job_id: str) -> pl.DataFrame:
    if not other or other == job_id or other not in model.jobs["job_id"]:
        return CONF_CHANGES.empty()
    found = history.conf_difference(model.only(frozenset((other, job_id))).conf, other, job_id)
    return CONF_CHANGES.frame(
        {
            "key": [k for k, _, _ in found],
            "before": [a for _, a, _ in found],
            "after": [b for _, _, b in found],
            "other_job_id": [other] * len(found),
        }
    )


def _what_if(shown: detail.JobDetail) -> pl.DataFrame:
    assert shown.prediction is not None
    before, after = shown.before, shown.prediction.metrics
    rows: list[tuple[str, str, str, float | None, str]] = []
    for what, a, b in (
        ("used", before.used_mb_s, after.used_mb_s),
        ("wasted", before.wasted_mb_s, after.wasted_mb_s),
    ):
        rows.append((what, units.mb_seconds(a), units.mb_seconds(b), *_change(a, b)))
    for what, x, y in (("wait", before.wait_ms, after.wait_ms), ("run time", before.runtime_ms, after.runtime_ms)):
        if x is not None and y is not None:
            rows.append((what, units.duration(x), units.duration(y), *_change(x, y)))
    for v in shown.verdicts:
        if v.predicted is not None and v.severity in SEVERITIES:
            now = SEVERITIES.index(v.severity)
            word = "same" if now == v.predicted else "better" if v.predicted < now else "worse"
            rows.append((v.heuristic, v.severity, SEVERITIES[v.predicted], None, word))
    return WHAT_IF.frame({name: [row[k] for row in rows] for k, name in enumerate(WHAT_IF.schema)})


def _change(a: int, b: int) -> tuple[float | None, str]:
    word = "same" if a == b else "better" if b < a else "worse"
    return (100 * (b / a - 1) if a else None), word
