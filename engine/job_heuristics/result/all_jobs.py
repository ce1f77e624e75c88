"""All jobs: the rules in force, the result tables beyond Dr. Elephant's, and what the screen draws of the job list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec
import polars as pl

from engine.core import units
from engine.core.incremental import FramePartials
from engine.core.tables import Table
from engine.core.view import Context, Finding, Level, UnknownName
from engine.job_heuristics.dr_elephant.advice import savings
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rules, read
from engine.job_heuristics.dr_elephant.heuristic import default_rules as declared_rules
from engine.job_heuristics.dr_elephant.judged import JudgedJobs, advised_findings, in_order, setting_of, subject_of
from engine.job_heuristics.mapreduce.insight import cost, recommend
from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS as OF_MAPREDUCE
from engine.job_heuristics.mapreduce.rules.heuristics import QUEUE_LIMIT, MapReduceHeuristic, MapReduceRules
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result import rollup
from engine.job_heuristics.spark.model.assembly import Apps
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRules
from engine.job_heuristics.spark.rules.heuristics import HEURISTICS as OF_SPARK
from engine.job_heuristics.tables import COSTS, HEURISTICS, JOBS, LISTING, RECOMMENDATIONS, ROLLUP, SEVERITIES
from engine.job_heuristics.tez.model import Apps as TezApps
from engine.job_heuristics.tez.rules import HEURISTICS as OF_TEZ
from engine.job_heuristics.tez.rules import TezHeuristic, TezRules

if TYPE_CHECKING:
    from engine.core.reading import Problem
    from engine.core.view import Result
    from engine.job_heuristics.mapreduce.result import JobDetail
    from engine.job_heuristics.spark.result import AppDetail
    from engine.job_heuristics.tez.result import TezDetail


DECLARED: tuple[Heuristic, ...] = (*OF_MAPREDUCE, *OF_SPARK, *OF_TEZ)


def default_rules() -> Rules[Heuristic]:
    """Return what Dr. Elephant ships switched on, with its default parameters."""
    return declared_rules(DECLARED)


@lru_cache(maxsize=8)
def configured_rules(name: str, data: bytes) -> Rules[Heuristic]:
    """Return the rules of a HeuristicConf.xml, see ``read``."""
    return read(name, data, DECLARED)


def rules_of(parameters: JobParameters) -> Rules[Heuristic]:
    """Return the rules in force under ``parameters``."""
    conf = parameters.heuristic_conf
    chosen = default_rules() if conf is None else configured_rules(conf.name, conf.data)
    chosen = msgspec.structs.replace(chosen, block_size=parameters.block_size)
    return chosen.also(QUEUE_LIMIT) if parameters.queue_limit else chosen


def find_job(ids: pl.Series, wanted: str) -> str:
    """Return the job called ``wanted``, or the only one whose id ends so. Raises UnknownName."""
    if (ids == wanted).any():
        return wanted
    near = ids.filter(
        ids.str.ends_with("_" + wanted.removeprefix("_")) | ids.str.ends_with("-" + wanted.removeprefix("-"))
    )
    if near.len() == 1:
        return str(near[0])
    raise UnknownName(f"{near.len()} jobs end in {wanted!r}" if near.len() else f"no job {wanted!r}")


class StoredJob(msgspec.Struct, frozen=True):
    """The chosen job of a fleet result: its ``rows`` of the per-job tables, and either the ``result`` of its
    histories or ``why`` they are missing."""

    job_id: str
    rows: Mapping[str, pl.DataFrame]
    why: str
    result: Result | None
    problems: tuple[Problem, ...]


class Stored(Protocol):
    """The jobs of fleet results, as read by ``fleet``."""

    @property
    def advised(self) -> pl.DataFrame:
        """The recommendations that save most, with the ``name`` of each job."""

    def rows(self, table: Table, job_id: str) -> tuple[pl.DataFrame, list[Problem]]:
        """Return the rows of one job in ``table``, and problems of its files."""


Opened: TypeAlias = "JobDetail | AppDetail | TezDetail"
Part = TypeVar("Part")
R = TypeVar("R", MapReduceRules, SparkRules, TezRules)


@dataclass(frozen=True, slots=True)
class Detail:
    """``Result.detail`` of the view: the job list with severity strips (columns: ``listing_spec``), the heuristics of
    a MapReduce job's strip in order, and the chosen job, Spark or Tez application.

    ``versions`` change with the list. ``per_job``: tables of all jobs with histories; ``stored``: the jobs of fleet
    results, and ``chosen`` of them.
    """

    stamp: tuple[Any, ...]
    heuristics: tuple[str, ...]
    listing: pl.DataFrame = field(compare=False, repr=False)
    listing_spec: Table = field(compare=False, repr=False)
    opened: Opened | None = None
    versions: Hashable = None
    per_job: Mapping[str, pl.DataFrame] = field(default_factory=dict, compare=False, repr=False)
    stored: Stored | None = field(default=None, compare=False, repr=False)
    chosen: StoredJob | None = field(default=None, compare=False, repr=False)

    def has(self, job_id: str) -> bool:
        """Whether the histories of a job are among the inputs."""
        return JOBS.name in self.per_job and bool((self.per_job[JOBS.name]["job_id"] == job_id).any())

    def rows(self, table: str, job_id: str) -> pl.DataFrame | None:
        """Return the rows of one job in a per-job table; None for an unchosen job of a fleet result, and for a table
        made on demand."""
        if self.chosen is not None and self.chosen.job_id == job_id:
            return self.chosen.rows[table]
        if self.stored is not None and not self.has(job_id):
            return None
        return self.per_job[table].filter(pl.col("job_id") == job_id) if table in self.per_job else None

    def listed(self, job_id: str) -> dict[str, Any]:
        """Return the row of a job in the list, empty without one."""
        found = self.listing.filter(pl.col("job_id") == job_id)
        return found.row(0, named=True) if found.height else {}

    def advised(self) -> pl.DataFrame:
        """Return all recommendations with the ``name`` of their jobs, those that save most first."""
        parts = [self.stored.advised] if self.stored is not None else []
        if self.per_job:
            names = self.per_job[JOBS.name].select("job_id", "name")
            parts.append(self.per_job[RECOMMENDATIONS.name].join(names, "job_id", "left", maintain_order="left"))
        return pl.concat(parts).sort("saving_mb_s", descending=True, nulls_last=True, maintain_order=True)


def extend(
    model: Model,
    apps: Apps,
    on_tez: TezApps,
    verdicts: JudgedJobs,
    rules: Rules[Heuristic],
    job_id: str | None,
    parameters: JobParameters,
    context: Context,
) -> tuple[dict[str, pl.DataFrame], Detail, tuple[Finding, ...], tuple[str, ...]]:
    """Return tables, detail, findings and notes of all jobs, from their verdicts and the rules in force; ``job_id``: the
    chosen job.

    Pure; ``context.memo`` only saves time.
    """
    from engine.job_heuristics.spark.insight import advice as spark_advice  # late: workers that read do not need them
    from engine.job_heuristics.spark.insight import resources as spark_cost
    from engine.job_heuristics.tez import advice as tez_advice

    memo, times = context.memo, "now" if context.at_ms is None else "past"
    names = rules.of(MapReduceHeuristic).names
    kinds: tuple[tuple[Any, ...], ...] = (
        ("costs", model.stamps, model.only, cost.costs, recommend.recommendations, rules.of(MapReduceHeuristic)),
        (
            "spark costs",
            apps.revisions,
            apps.some,
            spark_cost.costs,
            spark_advice.recommendations,
            rules.of(SparkHeuristic),
        ),
        (
            "tez costs",
            on_tez.revisions,
            on_tez.some,
            tez_advice.costs,
            tez_advice.recommendations,
            rules.of(TezHeuristic),
        ),
    )
    kept = [_costs_and_advice(parameters, context, *kind) for kind in kinds]
    versions = (names, verdicts.version, *(each.version for each in kept))
    joined = memo.value(f"costs of all {times}", versions, lambda: _joined(verdicts.jobs, *kept))
    listing = memo.value(f"job list {times}", versions, lambda: _listing(verdicts, joined["totals"]))
    context.check()
    tables = {
        COSTS.name: joined["costs"],
        RECOMMENDATIONS.name: joined["recommendations"],
        ROLLUP.name: memo.value(f"roll-up {times}", versions, lambda: rollup.rollup(listing)),
    }
    context.check()
    changed, complaints = rules.changed(parameters.limits)
    opened: Opened | None = None
    of_one: dict[str, pl.DataFrame] = {}
    if job_id is not None and job_id in apps.apps:
        from engine.job_heuristics.spark import result as spark_tables

        on_spark = (rules.of(SparkHeuristic), changed.of(SparkHeuristic))
        opened, of_one = spark_tables.of_app(apps, verdicts, on_spark, job_id, parameters, context)
    elif job_id is not None and job_id in on_tez.apps:
        from engine.job_heuristics.tez import result as tez_tables

        opened, of_one = tez_tables.of_app(on_tez, verdicts, rules.of(TezHeuristic), job_id, parameters, context)
    elif job_id is not None:
        from engine.job_heuristics.mapreduce import result as job_tables

        of_both = (rules.of(MapReduceHeuristic), changed.of(MapReduceHeuristic))
        opened, of_one = job_tables.of_job(model, verdicts, of_both, job_id, parameters, context)
    stamp = (*versions, parameters, opened.stamp if opened is not None else None)
    per_job = {JOBS.name: verdicts.jobs, HEURISTICS.name: verdicts.heuristics}
    per_job |= {name: tables[name] for name in (COSTS.name, RECOMMENDATIONS.name)}
    findings = memo.value(
        f"findings {times}",
        versions,
        lambda: advised_findings(
            (*verdicts.findings, *costly(listing, joined["costs"], joined["recommendations"])),
            verdicts.jobs,
            joined["recommendations"],
        ),
    )
    return tables | of_one, Detail(stamp, names, listing, LISTING, opened, versions, per_job), findings, complaints


LEAST_COST, LARGE_COST = 1024.0 * 3600, 10 * 1024.0 * 3600
"""Avoidable MB s from which the cost of a job is a finding, low and moderate: 1 and 10 GB·h."""
LEAST_SHARE = 0.2  # part of what a job held that must be avoidable for that


def costly(listing: pl.DataFrame, costs: pl.DataFrame, advised: pl.DataFrame) -> list[Finding]:
    """Return a finding for each job that could have avoided much, whatever its verdicts; from LISTING, COSTS and
    RECOMMENDATIONS rows."""
    lost = pl.col("avoidable_mb_s")
    large = listing.filter((lost >= LEAST_COST) & (lost >= LEAST_SHARE * pl.col("cost_mb_s")))
    if large.is_empty():
        return []
    lost_to, best = (
        frame.filter(pl.col("job_id").is_in(large["job_id"].to_list())).sort(by, descending=True, nulls_last=True)
        .unique("job_id", keep="first", maintain_order=True)
        for frame, by in ((costs.filter(pl.col("cause").is_in(cost.WASTE)), "mb_s"),
                          (advised.filter(pl.col("saving_mb_s") > 0), "saving_mb_s"))
    )  # fmt: skip
    causes = dict(lost_to.select("job_id", "cause").iter_rows())
    settings = {
        row["job_id"]: setting_of(row["key"], row["value"], row["current"]) for row in best.iter_rows(named=True)
    }
    found = []
    for row in large.iter_rows(named=True):
        job, avoidable, held = row["job_id"], row["avoidable_mb_s"], row["cost_mb_s"]
        most = f", most of it {causes[job]}" if job in causes else ""
        running = ", so far: it still runs" if row["state"] == "RUNNING" else ""
        fact = (
            f"{units.mb_seconds(avoidable)} of the {units.mb_seconds(held)} that it held were avoidable{most}{running}"
        )
        text = f"{fact}; {settings.get(job, 'open the job for what it went to')}"
        level: Level = "moderate" if avoidable >= LARGE_COST else "low"
        found.append(Finding(level, subject_of("Cost", row["name"]), text, ("jobs", (job,))))
    return found


def _costs_and_advice(
    parameters: JobParameters,
    context: Context,
    name: str,
    stamps: Mapping[str, Hashable],
    only: Callable[[Collection[str]], Part],
    costs_of: Callable[[Part, float, float | None, float | None], pl.DataFrame],
    advise: Callable[[Part, R, float], pl.DataFrame],
    rules: R,
) -> FramePartials[str]:
    """Return the frames ``costs`` (COSTS), ``recommendations`` (RECOMMENDATIONS) and ``totals`` (see ``_totals``) of one kind
    of jobs. ``only`` returns some of them, from which ``costs_of`` and ``advise`` make the first two."""
    times = "now" if context.at_ms is None else "past"
    kept: FramePartials[str] = context.memo.state(f"{name} {times}", lambda: FramePartials("job_id"))
    headroom, gb_h, vcore_h = parameters.headroom, parameters.price_gb_h, parameters.price_vcore_h

    def frames(jobs: Collection[str]) -> Mapping[str, pl.DataFrame]:
        part = only(jobs)
        costs, advised = costs_of(part, headroom, gb_h, vcore_h), advise(part, rules, headroom)
        return {"costs": costs, "recommendations": advised, "totals": _totals(jobs, costs, savings(advised))}

    kept.update(stamps, frames, key=(headroom, gb_h, vcore_h, rules.key))
    return kept


def _totals(jobs: Collection[str], costs: pl.DataFrame, saved: Mapping[str, float]) -> pl.DataFrame:
    """Return per job the MB s held, avoidable (what was held and not used, at least what its recommendations save), and
    saved by them (null without any). No job can avoid more than it held."""
    spent = cost.waste(costs)
    most = {job: min(held, max(lost, saved.get(job, 0.0))) for job, (held, lost) in spent.items()}
    asked = [(job, saved.get(job)) for job in jobs]
    totals = {
        "job_id": list(jobs),
        "cost_mb_s": [spent.get(job, (None, None))[0] for job in jobs],
        "avoidable_mb_s": [most.get(job) for job in jobs],
        "saving_mb_s": [None if mb_s is None else min(mb_s, most.get(job, mb_s)) for job, mb_s in asked],
    }
    return pl.DataFrame(totals, {name: LISTING.schema[name] for name in totals})


def _joined(jobs: pl.DataFrame, *kinds: FramePartials[str]) -> dict[str, pl.DataFrame]:
    """Return the frames of all kinds of jobs, in the order of ``jobs``."""
    some = [kind for kind in kinds if kind.revisions] or [kinds[0]]
    names = ("costs", "recommendations", "totals")
    if len(some) == 1:
        return {name: some[0].frame(name) for name in names}
    return {name: in_order(jobs, *(kind.frame(name) for kind in some)) for name in names}


_FROM_JOBS = tuple(name for name in LISTING.schema if name in JOBS.schema)  # columns taken from JOBS unchanged


_MOST_HELD = 1000  # Dr. Elephant's used memory as a multiple of what was held, beyond which it is an error of units.


def _listing(verdicts: JudgedJobs, totals: pl.DataFrame) -> pl.DataFrame:
    """Return LISTING rows of all jobs, the worst first. Where a job held memory and Dr. Elephant counts none as used (dynamic
    allocation, local mode, attempts that do not count) or absurdly more than it held, its metrics are not defined."""
    jobs = verdicts.jobs.select(_FROM_JOBS)
    places = pl.col("severity").replace_strict({word: place for place, word in enumerate(SEVERITIES, 1)}, default=0)
    listed = jobs.with_columns(
        verdicts.strips["strip"], *totals.drop("job_id").get_columns(), places.cast(pl.Int64).alias("rank")
    )
    held = pl.col("cost_mb_s").fill_null(0)
    defined = (held <= 0) | pl.col("used_mb_s").is_between(1, held * _MOST_HELD)
    both = (pl.when(defined).then(name).alias(name) for name in ("used_mb_s", "wasted_mb_s"))
    return rollup.worst_first(LISTING.frame(listed.with_columns(both)))
