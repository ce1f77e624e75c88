"""Job heuristics: which MapReduce jobs, Spark and Tez applications waste what, and why (Dr. Elephant's verdicts, and more)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from engine.core import units
from engine.core.parameters import Parameters
from engine.core.reading import Problem, fold
from engine.core.tables import Table
from engine.core.view import TREND_LENGTH, Context, Headline, Level, NoInput, Result, Trend
from engine.job_heuristics.fleet.tables import FLEET_RESULTS, MANIFEST
from engine.job_heuristics.mapreduce.tables import TASKS
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result import rollup
from engine.job_heuristics.spark.tables import SPARK_TABLES
from engine.job_heuristics.tables import DIFFERENCES, HEURISTICS, INSIGHT_TABLES, JOBS
from engine.job_heuristics.tez.tables import TEZ_TABLES

if TYPE_CHECKING:
    from engine.core.reading import FileKind
    from engine.core.view import Inputs
    from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rules

# Computing and reading code is imported on first use, so that listing the views stays fast.

_DEFAULT_BLOCK = JobParameters().block_size
_OF_ALL_JOBS = ("jobs", "heuristics", "recommendations", "costs", "differences")
"""Tables that hold every job even if option job chooses one."""

MEMORY_PER_BYTE = 0.7  # bytes of memory per byte of history, measured (docs/sizes.md)


class JobHeuristics:
    """The job heuristics view."""

    name = "job-heuristics"
    title = "Job heuristics"
    gauges = rollup.GAUGES
    parameters: type[Parameters] = JobParameters
    tables: tuple[Table, ...] = (JOBS, HEURISTICS, *INSIGHT_TABLES, DIFFERENCES, TASKS, *SPARK_TABLES, *TEZ_TABLES)
    fail_on: Level = "severe"

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The file kinds."""
        from engine.job_heuristics.mapreduce.reading.kinds import KINDS as OF_MAPREDUCE
        from engine.job_heuristics.spark.reading.event_log import KINDS as OF_SPARK
        from engine.job_heuristics.tez.reading.kinds import KINDS as OF_TEZ

        return (*OF_MAPREDUCE, *OF_SPARK, *OF_TEZ, MANIFEST)

    def load(self) -> None:
        """Import what ``compute`` needs ahead of time."""
        import numpy.ma  # noqa: F401 - which Polars imports with the first array

        from engine.job_heuristics.mapreduce.model import assembly  # noqa: F401
        from engine.job_heuristics.mapreduce.rules import verdict_tables  # noqa: F401
        from engine.job_heuristics.result import all_jobs  # noqa: F401

    def compute(self, inputs: Inputs, parameters: Any, context: Context) -> Result:
        """Compute metrics, verdicts and further insights of all jobs in ``inputs`` as of ``context.at_ms``.

        Jobs of fleet results are read from the tables on disk. These do not change under one manifest: writing a
        result again writes a new one.
        """
        if inputs.table(FLEET_RESULTS.name).is_empty():
            return self._of_histories(inputs, parameters, context)
        from engine.formats import parquet

        parquet.prepare()
        from engine.job_heuristics.fleet.stored_jobs import fleet_results
        from engine.job_heuristics.fleet.with_stored import with_stored

        result = with_stored(self, inputs, fleet_results(inputs), parameters, context, self._of_histories)
        return dataclasses.replace(result, headline=_headline(result.summary), trend=_trend(result.detail.listing))

    def _of_histories(self, inputs: Inputs, parameters: Any, context: Context) -> Result:
        """Compute the result of the histories among ``inputs``. Raises NoInput."""
        from engine.job_heuristics.dr_elephant.judged import together
        from engine.job_heuristics.mapreduce.model.assembly import current_model
        from engine.job_heuristics.mapreduce.rules.heuristics import MapReduceHeuristic
        from engine.job_heuristics.mapreduce.rules.verdict_tables import differences, judge_all
        from engine.job_heuristics.result import all_jobs
        from engine.job_heuristics.spark.model.assembly import current_apps
        from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, judge_apps
        from engine.job_heuristics.tez import judging as tez
        from engine.job_heuristics.tez.model import current_apps as current_tez
        from engine.job_heuristics.tez.rules import TezHeuristic

        wanted: JobParameters = parameters
        inputs, left_out = inputs.within(context.memory, MEMORY_PER_BYTE)
        model, apps = current_model(inputs, context), current_apps(inputs, context)
        on_tez = current_tez(inputs, context)
        if model.jobs.is_empty() and not apps and not on_tez.apps:
            raise NoInput(
                "no file holds a job: none of them names a job id" if inputs.files else "no job history was found"
            )
        chosen = all_jobs.rules_of(wanted)
        context.check()
        judged = judge_all(model, chosen.of(MapReduceHeuristic), wanted, context)
        kinds = [judged]
        if apps:
            kinds.append(judge_apps(apps, chosen.of(SparkHeuristic), context))
        if on_tez.apps:
            kinds.append(tez.judge_apps(on_tez, chosen.of(TezHeuristic), context, own=wanted.mode == "corrected"))
        if len(kinds) > 1:
            judged = context.memo.value(
                f"verdicts of all kinds {'now' if context.at_ms is None else 'past'}",
                ("all jobs", *(kind.version for kind in kinds)),
                partial(together, *kinds),
            )
        context.check()
        tables: dict[str, pl.DataFrame] = {JOBS.name: judged.jobs, HEURISTICS.name: judged.heuristics}
        job = all_jobs.find_job(judged.jobs["job_id"], wanted.job) if wanted.job else None
        if job is not None and job in model.parts:
            tables[TASKS.name] = TASKS.frame(model.only((job,)).tasks)
        more, detail, findings, notes = all_jobs.extend(model, apps, on_tez, judged, chosen, job, wanted, context)
        tables.update(more)
        summary = rollup.summary(detail.listing)
        problems = [*inputs.problems, *chosen.problems]
        if parameters.compare is not None and parameters.compare not in (*model.parts, *apps.apps, *on_tez.apps):
            problems.append(Problem.at("-o compare", "bad-option", f"there is no job {parameters.compare!r}"))
        return Result(
            view=self.name,
            summary=summary,
            tables={name: tables[name] for name in [t.name for t in self.tables if t.name in tables]},
            headline=_headline(summary),
            findings=findings,
            notes=(*_notes(wanted, chosen), *notes, *left_out),
            problems=fold(problems),
            newest_ms=inputs.newest_ms,
            at_ms=context.at_ms,
            detail=detail,
            focus=dict.fromkeys(_OF_ALL_JOBS, ("job_id", job)) if job is not None else {},
            later={DIFFERENCES.name: lambda: (differences(model, chosen.of(MapReduceHeuristic)), ())},
            trend=_trend(detail.listing),
            answer=_answer(tables),
        )

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """Return None: Dr. Elephant fills a database and a web page and prints nothing."""
        return None


VIEW = JobHeuristics()


def _trend(listing: pl.DataFrame) -> Trend | None:
    """Return the avoidable share of what the jobs held, in the order in which they finished."""
    ended = listing.filter(pl.col("finish_ms").is_not_null() & (pl.col("cost_mb_s") > 0))
    first = ended["finish_ms"].top_k(TREND_LENGTH).min()
    if first is None:
        return None
    ended = ended.filter(pl.col("finish_ms") >= first).sort("finish_ms", "job_id")
    return Trend.of("avoidable", ended["avoidable_mb_s"] / ended["cost_mb_s"])


def _answer(tables: Mapping[str, pl.DataFrame]) -> str:
    """Return as a sentence which job can save most, and how; else which job failed, and why; empty if neither is known."""
    jobs = tables["jobs"].select("job_id", "name", "state", "error")
    advice = tables["recommendations"].filter(pl.col("saving_mb_s") > 0).top_k(1, by="saving_mb_s")
    for row in advice.join(jobs, on="job_id").iter_rows(named=True):
        saved = units.mb_seconds(row["saving_mb_s"])
        return f"{row['name'] or row['job_id']}: set {row['key']}={row['value']} and save {saved}"
    for job, name, state, error in jobs.filter(pl.col("error").fill_null("") != "").head(1).iter_rows():
        return f"{name or job} {state.lower()}: {error}"
    return ""


def _headline(summary: Mapping[str, Any]) -> tuple[Headline, ...]:
    held, lost, saving = summary["cost_mb_s"], summary["avoidable_mb_s"], summary["saving_mb_s"]
    bad = summary["jobs_critical"] + summary["jobs_severe"]
    level: Level = "critical" if summary["jobs_critical"] else "severe" if bad else "ok"
    failed, killed = summary["jobs_failed"], summary["jobs_killed"]
    ended = f"and {killed:,} killed" if killed else "0 killed"  # a killed job is not counted as failed
    share = f" ({100 * lost / held:.1f}%)" if held else ""
    numbers: tuple[tuple[str, str, str, str, Level], ...] = (
        ("jobs", "jobs", f"{summary['jobs']:,}", f"{summary['jobs_running']} running", ""),
        ("severe or worse", "severe", f"{bad:,}", f"{summary['jobs_critical']} critical", level),
        ("held", "held", units.mb_seconds(held), "memory of all attempts over time, ended or not", ""),
        ("avoidable", "avoidable", f"{units.mb_seconds(lost)}{share}",
         f"idle, too large or lost; advice saves {units.mb_seconds(saving)}", ""),
        ("failed", "failed", f"{failed:,}", ended, ""),
    )  # fmt: skip
    return tuple(
        Headline(label, value, more, level, short=(short, value.partition(" (")[0]))
        for label, short, value, more, level in numbers
    )


def _notes(parameters: JobParameters, chosen: Rules[Heuristic]) -> tuple[str, ...]:
    published = parameters.mode == "published"
    conf, size = parameters.heuristic_conf, parameters.block_size
    told = (
        (published, "Dr. Elephant's published description; table differences names what its code gives."),
        (not published,
         "Dr. Elephant's code, number for number; table differences names what its published description gives."),
        (conf is not None, f"Thresholds from {conf and conf.name}: "
         f"{units.plural(len(chosen.rules), 'heuristic')} in force."),
        (size != _DEFAULT_BLOCK, f"Block size {size} bytes."),
    )  # fmt: skip
    return tuple(words for applies, words in told if applies)
