"""The broker load view: what it reads, what can be chosen, what it computes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load import tables
from engine.broker_load.cruise_control import (
    balance,
    cluster,
    goals,
    load_model,
    regression,
    replica_loads,
    rest_answers,
)
from engine.broker_load.cruise_control.cluster import Cluster
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.cruise_control.regression import Fit, Observations, Upstream
from engine.broker_load.insight import (
    answer_differences,
    brokers_without_topology,
    cluster_mixup,
    data_quality,
    log_directories,
    scenario,
)
from engine.broker_load.model import history
from engine.broker_load.model import ticks as all_ticks
from engine.broker_load.model.rounds import Round
from engine.incremental import Partials
from collections.abc import Collection
from engine.broker_load.model.samples import broker_cpu, broker_cpus, broker_samples, pour
from engine.broker_load.parameters import BrokerLoadParameters, Settings, Weights
from engine.broker_load.reading.kinds import KINDS
from engine.broker_load.result import model_tables
from engine.broker_load.result.result_builder import Draft
from engine.broker_load.tables.raw_metrics import IN, OUT, REPL_IN, SAMPLE
from engine.inputs import Inputs
from engine.report import instant
from engine.result import Finding, Headline, Level, Result
from engine.tables import Table
from engine.view import Context, NoInput

_BROKER_SAMPLES = 5
"""Sampling intervals of which broker samples are shown."""


@dataclass(frozen=True, eq=False)
class Detail:
    """What the screen draws beyond the tables: observed and predicted CPU [N] in %, whether each was used for the
    fit, the ends of all windows that could be looked at, the fitted weights, and the model for upstream's answers."""

    observed: tuple[float, ...]
    predicted: tuple[float, ...]
    used: tuple[bool, ...]
    window_ends: tuple[int, ...]
    fitted: tuple[float | None, float | None, float | None]
    racks: tuple[str, ...]
    brokers: tuple[int, ...]
    model: Model | None
    cluster: Cluster | None
    log_dirs: pl.DataFrame

    def __eq__(self, other: object) -> bool:
        """Equal values are equal details; the model behind them shows in the result's tables."""
        return isinstance(other, Detail) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__dataclass_fields__
            if name not in {"model", "cluster", "log_dirs"}
        )

    def __hash__(self) -> int:
        """By the parts that change most."""
        return hash((self.window_ends, self.brokers, len(self.observed)))


@dataclass(frozen=True, eq=False)
class _Base:
    """Everything that does not depend on a what-if."""

    model: Model | None
    cluster: Cluster | None
    draft: Draft
    detail: Detail | None


class BrokerLoad:
    """Cruise Control's workload model over files."""

    name = "broker-load"
    title = "Broker load"
    kinds = KINDS
    parameters = BrokerLoadParameters
    tables: tuple[Table, ...] = tables.RESULTS
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: BrokerLoadParameters, context: Context) -> Result:
        """The model, its tables, and the what-if that the parameters ask for."""
        at_ms = context.at_ms
        if parameters.at is not None:
            try:
                at_ms = instant(parameters.at)
            except (ValueError, OverflowError) as error:
                raise NoInput(f"at: {parameters.at!r} is not a time") from error
        base = _base(inputs, parameters, context, at_ms)
        draft = base.draft.copy()
        if base.model is not None and base.cluster is not None:
            scenario.add(base.model, base.cluster, inputs, parameters, draft)
        order = {table.name: place for place, table in enumerate(self.tables)}
        return Result(
            view=self.name,
            summary=draft.summary,
            tables=dict(sorted(draft.frames.items(), key=lambda item: order[item[0]])),
            headline=tuple(draft.headline),
            findings=tuple(draft.findings),
            notes=tuple(draft.notes),
            problems=tuple(draft.problems),
            newest_ms=inputs.newest_ms,
            at_ms=at_ms,
            detail=base.detail,
        )

    def upstream(self, result: Result, parameters: BrokerLoadParameters) -> str | None:
        """The answer of ``load``, ``partition_load`` or ``kafka_cluster_state`` as upstream prints it."""
        detail = result.detail
        if not isinstance(detail, Detail) or detail.model is None or detail.cluster is None:
            return None
        return rest_answers.render(detail.model, detail.cluster, detail.log_dirs, parameters)


def _base(inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None) -> _Base:
    """The part that a what-if does not change, kept in the memo for the newest inputs and parameters."""
    import msgspec

    plain = msgspec.structs.replace(
        parameters, fail=(), demote=(), reassignment=None, apply_plan=False, add_brokers=0, at=None,
        answer="load", as_="text", resource="DISK", entries=0, topic="", max_load=False, avg_load=False,
    )  # fmt: skip
    key = (inputs.version, plain, at_ms)
    return context.memo.value("broker load model", key, lambda: _make(inputs, plain, context, at_ms))


def _make(inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None) -> _Base:
    settings = parameters.settings()
    built = load_model.build(inputs, settings, context, at_ms)
    observed = _observations(inputs, built, at_ms, context)
    several = cluster_mixup.find(inputs, context)
    learned = regression.as_upstream(observed)
    fit = regression.fit(observed)
    draft = Draft(summary={"mode": parameters.mode}, problems=[*inputs.problems, *several])
    if built is not None and parameters.weights == "fitted":
        if fit.usable:
            a, b, c = (value or 0.0 for value in fit.coefficients)
            built = load_model.build(inputs, parameters.settings(Weights(a, b, c)), context, at_ms)
            draft.notes.append(f"CPU is split by the fitted weights a={a:.3g}, b={b:.3g}, c={c:.3g}")
        else:
            draft.notes.append(f"fitted weights cannot be used ({fit.verdict}); the static ones are")
    if several:
        draft.notes.append("files of more than one cluster seem to lie here and are shown as one: see the problems")
        draft.findings.append(Finding("moderate", "mixed clusters", several[0].reason))
    draft.frames["regression"] = _regression_table(observed, learned, fit, parameters.mode)
    draft.frames["regression_coverage"] = _coverage(observed, learned, fit)
    chosen: Cluster | None = None
    if built is not None:
        chosen = _cluster_of(built, parameters, fit, observed, draft.notes)
        assert chosen is not None
        found = _model_tables(inputs, built, chosen, parameters, draft.frames, context)
        _describe(built, chosen, found, parameters, draft)
        scenario.standing(built, chosen, parameters, draft)
    weights = Weights(parameters.a, parameters.b, parameters.c)
    answer_differences.add(inputs, built, chosen, draft, weights)
    if built is None:
        alone = brokers_without_topology.brokers(inputs, at_ms, settings.interval_ms)
        if alone is not None:
            shown = draft.frames.get("brokers", tables.BROKERS.empty())
            draft.frames["brokers"] = tables.BROKERS.sorted(pl.concat([shown, alone]))
            draft.notes.append(
                "no topology: only each broker's own totals; kafka-topics --describe would add the partitions"
            )
    if built is None and not observed.size and not draft.frames.get("brokers", pl.DataFrame()).height:
        if not any(inputs.table(name).height for name in ("capacity", "plans", "answer_goals", "answer_partitions")):
            raise NoInput("no scrape, topology, sample or Cruise Control answer was found")
        draft.notes.append(
            "only capacities or plans are known: a kafka-topics description and scrapes would add the loads"
        )
    draft.summary |= {
        "regression_trained": learned.trained,
        "regression_completeness": learned.completeness,
        "regression_verdict": fit.verdict,
        "observations": observed.size,
    }
    coefficients = fit.coefficients
    detail = Detail(
        tuple(observed.cpu.tolist()),
        tuple(regression.prediction(observed, coefficients).tolist()),
        tuple(bool(x) for x in fit.chosen.tolist()),
        _window_ends(inputs, context, built, settings),
        coefficients,
        tuple(sorted(set(built.topology.racks))) if built is not None else (),
        tuple(built.topology.ids.tolist()) if built is not None else (),
        built,
        chosen,
        inputs.table("log_dirs"),
    )
    return _Base(built, chosen, draft, detail)


def _window_ends(
    inputs: Inputs, context: Context, built: Model | None, settings: Settings
) -> tuple[int, ...]:
    """Ends of all windows that hold samples, also of those after the moment that is looked at."""
    if built is None:
        return ()
    window = settings.window_ms
    # A round is as old as its newest tick; the first tick of counters alone gives no round.
    ticks = all_ticks.of(inputs, context).filter(~pl.col("counter") | (pl.col("time_ms") > pl.col("time_ms").min()))
    newest = ticks.group_by(pl.col("time_ms") // settings.interval_ms).agg(pl.col("time_ms").max().alias("newest"))
    times = [newest["newest"], inputs.table("finished_samples")["time_ms"]]
    return tuple(sorted({(moment // window + 1) * window for part in times for moment in part.unique().to_list()}))


def _observations(inputs: Inputs, built: Model | None, at_ms: int | None, context: Context) -> Observations:
    """Broker history: given observations first, else one per broker and round."""
    given = inputs.table("observations")
    if at_ms is not None:
        given = given.filter(pl.col("time_ms").is_null() | (pl.col("time_ms") <= at_ms))
    if given.height:
        cpu, into, out, fetched = (given[name].to_numpy() for name in ("cpu", "bytes_in", "bytes_out", "follower_in"))
        return Observations(cpu, into, out, fetched, np.ones(given.height))
    if built is None or not built.rounds:
        none = np.empty(0)
        return Observations(none, none, none, none, none)
    typical = _typical_cores(built)
    cores = {one: history.broker_cores(one, built.topology, built.capacities.cores) for one in dict.fromkeys(r.topology for r in built.rounds)}

    def observe(rounds: Collection[Round]) -> dict[Round, np.ndarray]:
        made = {}
        for one in rounds:
            cpu, has = broker_cpu(one, cores[one.topology])
            rows = np.stack([cpu * 100.0, one.totals[IN], one.totals[OUT], one.reported[REPL_IN], cores[one.topology] / typical])
            rows[3] = np.where(np.isnan(rows[3]), 0.0, rows[3])
            made[one] = rows[:, has & np.isfinite(rows).all(axis=0)]
        return made

    partials: Partials[Round, np.ndarray] = context.memo.state("broker load observations", Partials)
    keys = {one: values.tobytes() for one, values in cores.items()}
    partials.update({one: keys[one.topology] for one in built.rounds}, observe, key=typical)
    every = np.concatenate(list(partials.values()), axis=1)
    return Observations(every[0], every[1], every[2], every[3], every[4])


def _typical_cores(built: Model) -> float:
    """Median of the known core counts, 1 without any."""
    known = built.capacities.cores[~np.isnan(built.capacities.cores)]
    return float(np.median(known)) or 1.0 if len(known) else 1.0


def _regression_table(observed: Observations, learned: Upstream, fit: Fit, mode: str) -> pl.DataFrame:
    as_upstream = mode == "upstream"
    verdict = fit.verdict
    if as_upstream and observed.size and not learned.trained:
        verdict = f"{verdict}; upstream's training stands at {learned.completeness:.0%}"
    rows: dict[str, list[Any]] = {
        "symbol": ["a", "b", "c"],
        "coefficient": list(learned.coefficients if as_upstream else fit.coefficients),
        "low": list(learned.low if as_upstream else fit.low),
        "high": list(learned.high if as_upstream else fit.high),
        "completeness": [learned.completeness] * 3,
        "trained": [learned.trained] * 3,
        "verdict": [verdict] * 3,
        "name": [regression.NAMES[symbol] for symbol in "abc"],
        "upstream": list(learned.coefficients),
        "fitted": list(fit.coefficients),
        "condition": [fit.condition] * 3,
        "held_out_error": [fit.held_out] * 3,
    }
    return tables.REGRESSION.frame(rows)


def _coverage(observed: Observations, learned: Upstream, fit: Fit) -> pl.DataFrame:
    buckets = np.trunc(observed.cpu / regression.BUCKET).astype(np.int64)
    numbers = sorted(learned.counts)
    return tables.COVERAGE.frame(
        {
            "bucket_low": [number * regression.BUCKET for number in numbers],
            "observed": [learned.counts[number] for number in numbers],
            "used": [int((fit.chosen & (buckets == number)).sum()) for number in numbers],
            "fill": [min(learned.counts[number], regression.REQUIRED) / regression.REQUIRED for number in numbers],
        }
    )


def _cluster_of(
    built: Model, parameters: BrokerLoadParameters, fit: Fit, observed: Observations, notes: list[str]
) -> Cluster:
    mode = parameters.mode
    if mode == "upstream" or not built.topology.brokers:
        return built.upstream
    weights = Weights(parameters.a, parameters.b, parameters.c)
    if parameters.weights == "fitted" and fit.usable:
        a, b, c = (value or 0.0 for value in fit.coefficients)
        weights = Weights(a, b, c)
    if mode == "regression":
        if fit.usable:
            a, b, c = (value or 0.0 for value in fit.coefficients)
            # Observations of unknown machines speak of each broker, our own history of the typical one.
            cores = built.capacities.cores
            if (observed.relative != 1.0).any():
                cores = np.full(built.topology.brokers, _typical_cores(built))
            loads = replica_loads.fitted(built.topology, built.values, (a, b, c), cores, built.measured)
            notes.append(f"CPU from the regression: {a:.3g}·in + {b:.3g}·out, followers {c:.3g}·in, % per KB/s")
            return built.upstream.with_loads(built.topology, loads)
        notes.append(f"the regression cannot be used ({fit.verdict}); shown as corrected")
    loads = replica_loads.corrected(built.topology, built.values, weights, built.measured)
    notes.append("corrected: each broker's replicas sum to its measured CPU; followers have their own disk size")
    return built.upstream.with_loads(built.topology, loads)


def _model_tables(
    inputs: Inputs,
    built: Model,
    chosen: Cluster,
    parameters: BrokerLoadParameters,
    frames: dict[str, pl.DataFrame],
    context: Context,
) -> list[Verdict]:
    thresholds = parameters.thresholds()
    frames["brokers"] = model_tables.brokers(built, chosen, _trend(built), thresholds)
    removed = None
    if parameters.mode == "regression":
        removed = replica_loads.removed(built.topology, chosen.loads, built.measured.cpu)
    frames["replicas"] = model_tables.replicas(built, chosen, removed)
    context.check()
    frames["partitions"] = model_tables.partitions(built, chosen)
    frames["samples"] = model_tables.samples(built, parameters.max_rows)
    windows = model_tables.windows(built, parameters.max_rows)
    if windows is not None:
        frames["windows"] = windows
    context.check()
    found = goals.verdicts(chosen, thresholds, parameters.min_leaders())
    frames["goals"] = tables.GOALS.frame(
        {
            "goal": [v.goal for v in found],
            "hard": [v.hard for v in found],
            "violated": [v.violated for v in found],
            "detail": [v.detail for v in found],
            "offenders": [v.offenders for v in found],
        }
    )
    frames["balance"] = tables.BALANCE.frame(balance.table(chosen, thresholds))
    statistics = cluster.statistics(chosen)
    columns: dict[str, list[Any]] = {
        c.name: [statistics[n].get(c.name) for n in statistics] for c in tables.STATS.columns[1:]
    }
    frames["cluster_stats"] = tables.STATS.frame({"statistic": list(statistics)} | columns)
    frames["hosts"] = model_tables.hosts(chosen)
    frames["racks"] = model_tables.racks(chosen)
    frames["directories"] = log_directories.table(inputs, built.topology, built.capacities, built.at_ms)
    frames["topics"] = model_tables.topics(chosen)
    rows = [
        row
        for one in built.rounds[-_BROKER_SAMPLES:]
        for row in broker_samples(one, history.broker_cores(one.topology, built.topology, built.capacities.cores))
    ]
    frames["broker_samples"] = tables.BROKER_SAMPLES.frame(
        {name: [row[name] for row in rows] for name in tables.BROKER_SAMPLES.schema}
    )
    frames["skipped"] = data_quality.skipped(built)
    frames["ledger"] = data_quality.build(inputs, built, round(parameters.sampling_interval_s * 1000))
    context.check()
    return found


def _trend(built: Model) -> list[list[float]]:
    """Measured CPU in % per broker and kept window, oldest first; empty without measurements."""
    final, total = built.topology, built.aggregate
    ends = [window.index for window in total.windows][::-1]
    sums = np.zeros((len(ends), final.brokers))
    counts = np.zeros((len(ends), final.brokers))
    place = {index: row for row, index in enumerate(ends)}
    inside = [built.rounds[one] for one in built.used]
    for (window, _), members in itertools.groupby(
        inside, key=lambda one: (one.time_ms // total.window_ms + 1, id(one.topology))
    ):
        run = list(members)
        topology = run[0].topology
        cpu = broker_cpus(run, history.broker_cores(topology, final, built.capacities.cores))
        row = place[window]
        pour(sums[row], counts[row], final.index_of(topology.ids), np.where(np.isfinite(cpu), cpu * 100.0, np.nan))
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return [[value for value in means[:, b].tolist() if value == value] for b in range(final.brokers)]


def _describe(
    built: Model,
    chosen: Cluster,
    found: list[Verdict],
    parameters: BrokerLoadParameters,
    draft: Draft,
) -> None:
    topology, total = built.topology, built.aggregate
    thresholds = parameters.thresholds()
    score = -1.0 if chosen.has_offline else goals.balancedness(found)
    provision, why = balance.provision(chosen, thresholds)
    if not built.rounds and built.finished is None:
        provision, why = "UNDECIDED", "no loads are known"
    valid = int(total.valid.sum()) if total.windows else 0
    monitored = 100.0 * valid / topology.size if topology.size else 0.0
    skipped = draft.frames["skipped"].height
    dead = int((~topology.alive).sum())
    draft.summary |= {
        "brokers": topology.brokers,
        "dead_brokers": dead,
        "topics": len(topology.topics),
        "partitions": topology.size,
        "replicas": int(chosen.sums.replicas.sum()),
        "windows": len(total.windows),
        "windows_offered": total.offered,
        "enough_valid_windows": total.enough,
        "min_samples_used": built.minimum_used,
        "valid_partitions": valid,
        "monitored_partitions_percentage": monitored,
        "skipped_partitions": skipped,
        "balancedness_score": score,
        "provision_status": provision,
        "provision_reason": why,
        "sampling_intervals": len(built.rounds),
    }
    for resource in cluster.RESOURCES:
        share = chosen.utilisation(resource)
        draft.summary[f"{resource.lower()}_utilization_pct"] = None if math.isnan(share) else share * 100.0
    violated = [v for v in found if v.violated]
    hard = [v for v in violated if v.hard]
    draft.summary["violated_goals"], draft.summary["violated_hard_goals"] = len(violated), len(hard)
    span = f"{len(total.windows)} window{'s' if len(total.windows) != 1 else ''} of {total.window_ms / 60000:g} min"
    alive = int(topology.alive.sum())
    draft.headline.append(
        Headline(
            "brokers", f"{alive}/{topology.brokers} alive", f"{topology.size} partitions", "critical" if dead else "ok"
        )
    )
    cpu = draft.summary["cpu_utilization_pct"]
    draft.headline.append(Headline("CPU", "–" if cpu is None else f"{cpu:.1f} %", f"of the alive brokers, {span}"))
    draft.headline.append(
        Headline(
            "goals",
            f"{len(violated)} violated, {len(hard)} hard",
            f"balancedness {score:.1f}",
            "severe" if hard else "moderate" if violated else "ok",
        )
    )
    draft.headline.append(
        Headline(
            "coverage", f"{monitored:.1f} %", f"{skipped} partitions without a sample", "moderate" if skipped else "ok"
        )
    )
    draft.findings.extend(Finding("severe" if v.hard else "moderate", v.goal, v.detail or "violated") for v in violated)
    if not total.enough and topology.size:
        draft.notes.append("upstream would answer: not enough valid windows; the newest window is shown all the same")
    if built.minimum_used != parameters.min_samples:
        draft.notes.append(
            f"no window has {parameters.min_samples} samples of a partition: the minimum is lowered to {built.minimum_used}"
        )
    if "windows" not in draft.frames:
        rows = topology.size * len(total.windows)
        draft.notes.append(f"the table windows is left out: {rows:,} rows are more than max-rows")
    if built.synthetic:
        draft.notes.append("no topology: each partition is shown with its leader only")
    if not built.rounds and built.finished is None:
        draft.notes.append("no sample of any partition: loads are 0 until scrapes or samples are there")
    draft.notes.append(f"mode {parameters.mode}; {provision}: {why}")


VIEW = BrokerLoad()

__all__ = ["SAMPLE", "VIEW", "BrokerLoad", "Detail"]
