"""Where everything beyond upstream plugs in: further result tables and the detail the screen draws.

Cost and recommendations are kept per job in ``context.memo`` and made anew only for jobs whose rows changed; what
concerns one job (option ``job``) is made for that one only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from engine import units
from engine.job_heuristics import cost, detail, facts, gates, history, recommend, rollup, whatif
from engine.job_heuristics.changes import Changes, spliced
from engine.job_heuristics.model import Model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.rules import NAMES, Rules
from engine.job_heuristics.tables import JOBS, SEVERITIES
from engine.tables import Column, Table
from engine.text import clean
from engine.view import Context

EXPLAINED = Table(
    "explained",
    "One row per verdict of one job (option job): why it is so, how far to the next level, what to do",
    (
        Column("job_id", pl.String, "job id", kind="id", hidden=True),
        Column("heuristic", pl.String, "verdict", priority=0, width=18),
        Column("severity", pl.String, "its severity", kind="level", priority=0),
        Column("value", pl.String, "the value that decides", priority=0),
        Column("limits", pl.String, "its limits, LOW to CRITICAL", width=34),
        Column("reason", pl.String, "which limit keeps it where it is", priority=3, width=60),
        Column("worse", pl.String, "what one level worse would take", priority=2, width=40),
        Column("better", pl.String, "what one level better would take", priority=2, width=40),
        Column(
            "margin", pl.Float64, "smallest relative move that changes it, null: none can", unit="%", kind="percent"
        ),
        Column("status", pl.String, "running jobs: certain, at least, at most or provisional", priority=1, width=18),
        Column("likely", pl.String, "running jobs: most probable final severity", kind="level", priority=2),
        Column("chance", pl.Float64, "its probability", unit="%", kind="percent", priority=2),
        Column("predicted", pl.String, "severity under the what-if scenario", kind="level", priority=1),
        Column("advice", pl.String, "what to do, with the job's numbers", priority=4, width=80),
    ),
    key=("heuristic",),
    title="verdicts",
)
PHASES = Table(
    "phases",
    "The waterfall of one job (option job): each phase begins where the one before it ended",
    (
        Column("job_id", pl.String, "job id", kind="id", hidden=True),
        Column("phase", pl.String, "phase", priority=0, width=16),
        Column("start_ms", pl.Int64, "begin", unit="epoch ms", kind="time_ms", priority=1),
        Column("ms", pl.Int64, "length", unit="ms", kind="ms", priority=0),
        Column("share", pl.Float64, "part of the whole", unit="%", kind="percent", priority=0),
        Column("meaning", pl.String, "from when until when", width=50, priority=2),
    ),
    key=("phase",),
)
CONF_CHANGES = Table(
    "conf_changes",
    "Configuration of the chosen job against the run before it (or option compare): properties that differ",
    (
        Column("key", pl.String, "property", priority=0, width=48),
        Column("before", pl.String, "value in the other run, null: not set", priority=0, width=30),
        Column("after", pl.String, "value in this run, null: not set", priority=0, width=30),
        Column("other_job_id", pl.String, "the other run", kind="id", hidden=True),
    ),
    key=("key",),
    order=("key",),
    title="conf changes",
)
WHAT_IF = Table(
    "what_if",
    "Metrics of the chosen job now and under the what-if options; absent without one",
    (
        Column("what", pl.String, "metric or verdict", priority=0, width=22),
        Column("now", pl.String, "as it ran", priority=0, width=16),
        Column("predicted", pl.String, "under the scenario", priority=0, width=16),
        Column("change", pl.Float64, "difference", unit="%", kind="percent", priority=1),
        Column("direction", pl.String, "better, worse or same", priority=1, width=9),
    ),
    key=("what",),
    title="what if",
)

TABLES: tuple[Table, ...] = (
    recommend.RECOMMENDATIONS,
    cost.COSTS,
    rollup.ROLLUP,
    EXPLAINED,
    PHASES,
    history.HISTORY,
    CONF_CHANGES,
    WHAT_IF,
)
"""Further result tables, in the order they are shown. The last five only with option job."""

LETTERS = dict(zip(SEVERITIES, ".LMSC", strict=True))
_FIRST = ("name", "severity", "state", "score", "user", "submit_ms", "wasted_mb_s", "used_mb_s", "runtime_ms", "job_id")
LISTING = Table(
    "listing",
    "The job list with one letter per heuristic (. NONE, L LOW, M MODERATE, S SEVERE, C CRITICAL, blank: no result)",
    (
        JOBS.column("name"),
        Column("strip", pl.String, "severity of each heuristic in upstream's order", title="verdicts", priority=0, width=13),
        replace(JOBS.column("severity"), width=10),
        replace(JOBS.column("state"), width=9),
        replace(JOBS.column("score"), priority=1, width=6),
        *(
            replace(JOBS.column(n), priority=1, title=title)
            for n, title in (
                ("user", ""), ("submit_ms", "submitted"), ("wasted_mb_s", "wasted"), ("used_mb_s", "used"),
                ("runtime_ms", "run time"),
            )
        ),
        replace(JOBS.column("job_id"), priority=2),
        *(c for c in JOBS.columns if c.name not in _FIRST),
        Column("cost_mb_s", pl.Float64, "true cost of all attempts", unit="MB s", kind="mb_s", title="cost", hidden=True),
        Column("avoidable_mb_s", pl.Float64, "of it avoidable", unit="MB s", kind="mb_s", title="avoidable", hidden=True),
        Column("saving_mb_s", pl.Float64, "predicted saving", unit="MB s", kind="mb_s", title="saving", priority=2),
    ),
    key=JOBS.key,
    order=JOBS.order,
    title="jobs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extension:
    """Frames of ``TABLES``, the detail the screen draws, and sentences on what is in force."""

    tables: dict[str, pl.DataFrame]
    detail: detail.Detail
    notes: tuple[str, ...] = ()


_MINUTES = ("runtime_severity_in_min", "short_runtime_severity_in_min", "long_runtime_severity_in_min")
MB = 2**20


def limits_of(rules: Rules, block: int) -> dict[tuple[str, str], tuple[float, ...]]:
    """The limits in force in the units of ``gates`` (ms, bytes, bytes/s); of heuristics that are switched off, the
    defaults."""
    found = gates.default_limits(block)
    for rule in rules.rules:
        name = NAMES.get(rule.kind, "")
        for key, limits in rule.limits.items():
            if (name, key) in found:
                memory = rule.numbers.get("container_memory_default_mb", 2048)
                found[name, key] = tuple(_scaled(key, x, block, memory) for x in limits)
    return found


def _scaled(key: str, value: float, block: int, memory_mb: int) -> float:
    if key in _MINUTES:
        return value * gates.MINUTE
    if key == "files_severity":
        return value * block
    if key == "disk_speed_severity":
        return value * 100 * MB
    return value * memory_mb * MB if key == "container_memory_severity" else value


def changed_limits(
    limits: gates.Limits, wishes: Collection[str], block: int
) -> tuple[dict[tuple[str, str], tuple[float, ...]], tuple[str, ...]]:
    """``limits`` with ``wishes`` applied, and a sentence for each wish that cannot be.

    A wish is ``Mapper Time/num_tasks_severity=50:101:500:1000`` (units as in HeuristicConf.xml) or ``...=x1.5`` (all
    four times that).
    """
    found, complaints = dict(limits), []
    for wish in wishes:
        where, _, text = wish.partition("=")
        name, _, key = (part.strip() for part in where.partition("/"))
        try:
            if text.startswith("x") and (name, key) in limits:
                factor = float(text[1:])
                if 0 < factor < 1e6:
                    found[name, key] = tuple(v * factor for v in limits[name, key])
                    continue
            values = tuple(float(x) for x in text.split(":"))
        except ValueError:
            values = ()
        if (name, key) in found and len(values) == 4 and all(abs(v) < 1e15 for v in values):
            found[name, key] = tuple(_scaled(key, v, block, 2048) for v in values)
        else:
            complaints.append(
                f"Limits {clean(wish, 100)!r} are not used: wanted HEURISTIC/PARAMETER=low:moderate:severe:critical or =x1.5."
            )
    return found, tuple(complaints)


def extend(
    model: Model,
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    rules: Rules,
    job_id: str | None,
    parameters: JobParameters,
    changes: Changes,
    context: Context,
) -> Extension:
    """Tables and detail from the model, the ``heuristics`` and ``jobs`` result frames and the rules in force; ``job_id``
    is the chosen job. Pure; ``context.memo`` only makes it faster."""
    memo: dict[str, Any] = context.memo.setdefault(("job-beyond", context.at_ms is None), {})
    limits = limits_of(rules, parameters.block_size)
    costs, avoidable, advised, touched = _fleet(model, limits, parameters, changes, memo)
    names = tuple(NAMES[rule.kind] for rule in rules.rules if rule.kind in NAMES)
    listing = _listed(model, verdicts, jobs, (avoidable, advised, touched), names, parameters, memo)
    context.check()
    tables = {
        cost.COSTS.name: costs,
        recommend.RECOMMENDATIONS.name: advised,
        rollup.ROLLUP.name: rollup.rollup(jobs, avoidable, advised),
    }
    context.check()
    changed, complaints = changed_limits(limits, parameters.limits, parameters.block_size)
    shown = None
    if job_id is not None:
        shown = _one(model, verdicts, jobs, (limits, changed), job_id, parameters, memo, tables)
    stamp = (names, listing.height, memo["turn"], parameters, shown.stamp if shown is not None else None)
    return Extension(tables, detail.Detail(stamp, names, listing, LISTING, shown), complaints)


def _fleet(
    model: Model, limits: gates.Limits, parameters: JobParameters, changes: Changes, memo: dict[str, Any]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, frozenset[str] | None]:
    """Costs, waste and recommendations of all jobs, only those of changed jobs made anew; and which those are (None:
    all)."""
    key = (parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h, tuple(sorted(limits.items())))
    touched = changes.since(memo.get("generation")) if "fleet" in memo else None
    if touched is None or 2 * len(touched) > model.jobs.height:
        touched = None
    held = memo.get("held")
    if held is not None and (touched is None or held[0] in touched):
        del memo["held"]
    again = touched is None or memo.get("key") != key
    if again or touched:
        part = model if again or touched is None else model.only(touched)
        costs = cost.costs(part, parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h)
        made = (costs, cost.waste(costs), recommend.recommendations(part, limits, parameters.headroom))
        if not again and touched is not None:
            old = memo["fleet"]
            a, b, c = (spliced(was, now, touched, model.jobs) for was, now in zip(old, made, strict=True))
            made = (a, b, c)
        memo.update(key=key, fleet=made, generation=changes.generation, turn=memo.get("turn", 0) + 1)
    costs, avoidable, advised = memo["fleet"]
    return costs, avoidable, advised, None if again else touched


def _listed(
    model: Model,
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    fleet: tuple[pl.DataFrame, pl.DataFrame, frozenset[str] | None],
    names: tuple[str, ...],
    parameters: JobParameters,
    memo: dict[str, Any],
) -> pl.DataFrame:
    """The job list, only the rows of changed jobs made anew. ``fleet``: what each job wastes, the recommendations, and
    which jobs changed."""
    avoidable, advised, touched = fleet
    key = (names, parameters.mode, parameters.heuristic_conf, parameters.block_size, parameters.queue_limit)
    # Kept for the turn before this one only: what is older has missed changes.
    held = memo.get("listing")
    if held is None or touched is None or held[0] != key or memo["turn"] - held[1] > 1:
        found = _listing(jobs, verdicts, avoidable, advised, names)
    elif not touched:
        found = held[2]
    else:
        wanted = pl.col("job_id").is_in(pl.Series(sorted(touched)).implode())
        mine = (frame.filter(wanted) for frame in (jobs, verdicts, avoidable, advised))
        part = _listing(next(mine), next(mine), next(mine), next(mine), names)
        found = spliced(held[2], part, touched, model.jobs)
    memo["listing"] = (key, memo["turn"], found)
    return found


def _listing(
    jobs: pl.DataFrame, verdicts: pl.DataFrame, avoidable: pl.DataFrame, advised: pl.DataFrame, names: tuple[str, ...]
) -> pl.DataFrame:
    place = pl.DataFrame({"heuristic": names, "at": range(len(names))}, schema={"heuristic": pl.String, "at": pl.Int64})
    letters = verdicts.join(place, "heuristic", "inner", maintain_order="left").select(
        "job_id", "at", pl.col("severity").replace_strict(LETTERS, default="?", return_dtype=pl.String).alias("letter")
    )
    wide = letters.group_by("job_id", maintain_order=True).agg(
        *(pl.col("letter").filter(pl.col("at") == k).first().fill_null(" ").alias(f"l{k}") for k in range(len(names)))
    )
    strips = wide.select(
        "job_id",
        pl.concat_str([pl.col(f"l{k}") for k in range(len(names))]).alias("strip")
        if names
        else pl.lit("").alias("strip"),
    )
    saved = advised.group_by("job_id", maintain_order=True).agg(pl.col("saving_mb_s").clip(0).sum())
    found = jobs
    for more in (strips, avoidable, saved):
        found = found.join(more, "job_id", "left", maintain_order="left")
    return LISTING.frame(found.with_columns(pl.col("strip").fill_null(" " * len(names))))


def _one(
    model: Model,
    verdicts: pl.DataFrame,
    jobs: pl.DataFrame,
    limits: tuple[gates.Limits, gates.Limits],
    job_id: str,
    parameters: JobParameters,
    memo: dict[str, Any],
    tables: dict[str, pl.DataFrame],
) -> detail.JobDetail:
    """The chosen job: its detail, and its tables put into ``tables``. ``limits``: in force, and of the scenario."""
    part = model.job(job_id)
    held: tuple[Any, ...] | None = memo.get("held")
    if held is None or held[0] != job_id:
        job = facts.job(part)
        assert job is not None
        memo["held"] = held = (job_id, detail.facts_of(job, part.attempts, part.tasks))
    mine = verdicts.filter(pl.col("job_id") == job_id)
    scenario = whatif.Scenario(
        parameters.map_mb, parameters.reduce_mb, parameters.split_size, parameters.reduces, parameters.slow_start
    )
    coming = memo.get("ahead")
    if coming is None or coming[0] is not held or coming[1] != (limits[0], parameters.seed):
        coming = (held, (limits[0], parameters.seed), detail.ahead_of(held[1].job, limits[0], parameters.seed))
        memo["ahead"] = coming
    shown = detail.job_detail(held[1], mine, *limits, scenario, coming[2], (job_id, memo["turn"], parameters))
    tables[EXPLAINED.name] = _explained(shown)
    tables[PHASES.name] = _phases(shown)
    kept = memo.get("runs")
    if kept is None or kept[0] is not jobs or kept[1] != (job_id, memo["turn"]):
        kept = (jobs, (job_id, memo["turn"]), _runs(model, jobs, job_id, memo))
        memo["runs"] = kept
    runs = kept[2]
    tables[history.HISTORY.name] = runs
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
    return v.why.reason if word == v.severity else f"By upstream's limits it would be {word}: {v.why.reason}"


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
        model.only(runs["job_id"].to_list())
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
    found = history.conf_difference(model.only({other, job_id}).conf, other, job_id)
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
