"""The broker load view: what it reads, what can be chosen, what it computes."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from engine.broker_load import tables
from engine.broker_load.cruise_control import load_model, regression
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import brokers_without_topology, corrected_loads, fitted_weights, replication, rollup
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model import clusters, history, measured, topology
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.plan import export, outcome, planner
from engine.broker_load.reading.kinds import KINDS
from engine.broker_load.result import model_tables, single_losses, summary, what_if_tables
from engine.broker_load.result.model_tables import Detail, detail_of
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.result.single_losses import Losses
from engine.broker_load.result.summary import GAUGES
from engine.broker_load.tables.loads import BROKERS, DIRECTORIES, REPLICAS
from engine.core.parameters import asks_what_if, no_what_if, parse_instant
from engine.core.tables import Table
from engine.core.units import plural
from engine.core.view import FILE, LEVELS, Context, Finding, Headline, Inputs, Level, NoInput, Result, Trend

_Standing = tuple[Model | None, Cluster | None, Losses | None, ResultBuilder, Detail | None]
"""The part of a result that does not depend on a what-if."""
RAW = frozenset({"metric-scrape", "csv", "parquet"})
"""File kinds of which all rows are needed while no topology is known; with one, finished windows are kept as sums."""
MEMORY_PER_BYTE = 0.7
"""Upper bound on bytes of memory per byte of such a file, measured with 120 to 342 MB of CSV (docs/sizes.md)."""


class BrokerLoad:
    """Cruise Control's workload model over files."""

    name = "broker-load"
    title = "Broker load"
    kinds = KINDS
    gauges = GAUGES
    parameters = BrokerLoadParameters
    tables: tuple[Table, ...] = tables.RESULTS
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: BrokerLoadParameters, context: Context) -> Result:
        """Return the model, its tables, and the what-if that the parameters ask for."""
        at_ms = context.at_ms
        if parameters.at is not None:
            try:
                at_ms = parse_instant(parameters.at)
            except (ValueError, OverflowError) as error:
                raise NoInput(f"at: {parameters.at!r} is not a time") from error
        choice = clusters.choose(inputs, parameters.cluster)
        inputs, left_out = choice.inputs, tuple[str, ...]()
        if inputs.table("topology").is_empty():
            inputs, left_out = inputs.within(context.memory, MEMORY_PER_BYTE, RAW)
        # Files may say any number: what overflows becomes infinite or NaN, without a warning.
        with np.errstate(all="ignore"):
            plain = msgspec.structs.replace(parameters, **no_what_if(type(parameters)), at=None)
            key = (inputs.version, plain, at_ms)
            model, cluster, losses, builder, detail = context.memo.value(
                "broker load model", key, lambda: _compute(inputs, plain, context, at_ms)
            )
            builder = builder.copy()
            if choice.name:
                builder.summary["cluster"] = choice.name
                builder.notes.append(choice.note)
                builder.problems += choice.problems
            if model is not None and cluster is not None:
                on_top = asks_what_if(planner.unplanned(parameters))
                if on_top or parameters.plan:
                    after = what_if_tables.add_what_if(model, cluster, inputs, parameters, builder)
                    losses = single_losses.find(after, parameters)
                single_losses.tell(losses, builder, on_top)
                if parameters.plan:
                    base = after if parameters.mode == "upstream" else model.cluster
                    outcome.add(model, base, inputs, parameters, context, builder)
            elif parameters.plan:
                part = history.partial(inputs, context)
                why = f"the description is not of the whole cluster: {part}" if part else "no topology is known"
                outcome.refuse(f"{why}; kafka-topics --describe without filters gives it", builder)
        findings = sorted(builder.findings, key=lambda one: -LEVELS.index(one.level))
        order = {table.name: place for place, table in enumerate(self.tables)}
        return Result(
            view=self.name,
            summary=builder.summary,
            tables=dict(sorted(builder.frames.items(), key=lambda item: order[item[0]])),
            headline=tuple(builder.headline),
            findings=tuple(findings),
            notes=(*builder.notes, *left_out),
            problems=tuple(builder.problems),
            newest_ms=inputs.newest_ms,
            at_ms=at_ms,
            detail=detail,
            outcome=builder.outcome,
            trend=_trend(builder.frames.get(BROKERS.name)),
            answer=summary.answer(builder.frames.get(BROKERS.name, BROKERS.empty()), findings),
        )

    def upstream(self, result: Result, parameters: BrokerLoadParameters) -> str | None:
        """Return a part of the plan as Kafka's own tools take it; None without a plan."""
        return export.printed(result, parameters)


def _trend(brokers: pl.DataFrame | None) -> Trend | None:
    """Return the mean CPU of the brokers by window."""
    if brokers is None:
        return None
    cpu = brokers.select("cpu_trend", window=pl.int_ranges(pl.col("cpu_trend").list.len())).explode(
        "cpu_trend", "window"
    )
    means = cpu.drop_nulls("window").group_by("window").agg(pl.col("cpu_trend").fill_nan(None).mean()).sort("window")
    return Trend.of("CPU", means["cpu_trend"])


def _compute(inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None) -> _Standing:
    model = load_model.build(inputs, parameters, context, at_ms)
    observed = measured.read(inputs.table("observations"), at_ms)
    if not observed.size and model is not None:  # the rounds stand in, one observation per broker and round
        observed = measured.observe(model.runs, model.topology, model.capacities.cores)
    training, fit = regression.train(observed), fitted_weights.fit(observed)
    builder = ResultBuilder(summary={"mode": parameters.mode}, problems=list(inputs.problems))
    if model is not None and parameters.weights == "fitted":
        model = _with_fitted_weights(inputs, model, parameters, fit, context, builder)
    if model is not None and parameters.mode != "upstream":
        model = corrected_loads.by_messages(model)
    problems = clusters.find(inputs, context)
    builder.problems += problems
    if problems:
        builder.notes.append("the files seem to come from more than one cluster and are shown as one: see the problems")
        builder.findings.append(Finding("moderate", "mixed clusters", problems[0].reason))
    model_tables.add_regression(observed, training, fit, parameters.mode, builder)
    cluster: Cluster | None = None
    losses: Losses | None = None
    if model is not None:
        cluster = corrected_loads.cluster_in_mode(model, parameters, fit, observed, builder.notes)
        decided = model_tables.add_model(inputs, model, cluster, parameters, builder.frames, context)
        summary.add(model, cluster, decided, parameters, builder)
        if cluster.unknown or cluster.lacking:
            _add_totals(inputs, at_ms, parameters.interval_ms, builder.frames, bool(cluster.lacking))
        losses = single_losses.find(cluster, parameters)
        lost = losses is not None and any(row["survivable"] is False for row in losses.rows)
        if parameters.mode == "upstream" and (lost or builder.summary["violated_hard_goals"]):
            free = outcome.free_steps(model, cluster, parameters, context)
            builder.findings += [free] if free is not None else []
    has_loads = model is not None and bool(model.rounds or model.finished is not None)
    model_tables.add_answers(inputs, has_loads, builder, parameters.cpu_weights)
    if model is None:
        builder.findings += replication.listed(inputs.table("reassigning"))
        _add_part(inputs, parameters, context, at_ms, builder)
        _add_without_topology(inputs, at_ms, parameters.interval_ms, bool(observed.size), builder)
    if not builder.headline and builder.frames.get("brokers", BROKERS.empty()).height:
        builder.headline += summary.of_brokers(builder.frames["brokers"])
    builder.findings[:0] = summary.dead_brokers(
        builder.frames.get("brokers", BROKERS.empty()),
        any(inputs.table(name).height for name in ("broker_list", "answer_brokers")),
    )
    directories = builder.frames.get("directories", DIRECTORIES.empty())
    limit = 100.0 * parameters.capacity_threshold("DISK")
    full = summary.full_directories(directories, builder.frames.get("brokers", BROKERS.empty()), limit)
    if full:
        at = int(builder.headline[:1] != [] and builder.headline[0].label == "partitions")
        fullest = full[0].subject.removeprefix("log directory ")
        builder.headline.insert(at, Headline("log directories", f"{len(full)} over {limit:g}%", fullest, "severe"))
    builder.findings += [*summary.failed_directories(directories), *full]
    if at_ms is not None:
        _add_moment(inputs, at_ms, builder)
    return model, cluster, losses, builder, detail_of(inputs, context, model, observed, fit, parameters)


def _with_fitted_weights(
    inputs: Inputs, model: Model, parameters: BrokerLoadParameters, fit: Fit, context: Context, builder: ResultBuilder
) -> Model:
    if not fit.usable:
        builder.notes.append(f"fitted weights cannot be used ({fit.verdict}); static weights are used instead")
        return model
    a, b, c = fit.weights
    builder.notes.append(f"CPU is split by the fitted weights a={a:.3g}, b={b:.3g}, c={c:.3g}")
    return load_model.build(inputs, msgspec.structs.replace(parameters, a=a, b=b, c=c), context, model.at_ms) or model


def _add_part(
    inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None, builder: ResultBuilder
) -> None:
    """Add what a description of a part of the cluster says about the partitions in it."""
    why = history.partial(inputs, context)
    if not why:
        return
    rows = topology.newest(inputs.table("topology"), at_ms)
    part = topology.build(rows, {}, frozenset(rows["replicas"].explode(empty_as_null=False).unique().to_list()))
    states = replication.states(part, parameters.min_insync_replicas)
    text = f"not the whole cluster: {why}; run kafka-topics --describe without --under-replicated-partitions, --topic or others"
    builder.findings += [*replication.findings(part, states), Finding("moderate", "topology", text)]
    builder.headline += [*replication.headline(states), Headline("topology", "a part of the cluster", why, "moderate")]
    builder.notes.append(f"topology: {text}")


def _add_moment(inputs: Inputs, at_ms: int, builder: ResultBuilder) -> None:
    """Say what is not of the moment looked at but of now."""
    listed = set(inputs.table("broker_list")[FILE].unique().to_list())
    later = any(info.mtime_ms > at_ms for number, info in inputs.files.items() if number in listed)
    words = ["which brokers are alive and their racks"] if later else []
    described = inputs.table("topology")["time_ms"]
    if len(described) and (described > at_ms).all():
        words.append("where replicas are, who leads and is in sync")
    if words:
        text = (
            f"known only of a later moment: {'; '.join(words)}; keep earlier lists and descriptions beside the newest"
        )
        builder.findings.append(Finding("low", "moment looked at", text))
        builder.notes.append(f"moment looked at: {text}")


def _add_totals(
    inputs: Inputs, at_ms: int | None, interval_ms: int, frames: dict[str, pl.DataFrame], instead: bool
) -> None:
    """Give brokers without modelled loads the totals that they report; ``instead`` of sums of a part of their replicas, too."""
    measured = brokers_without_topology.brokers(inputs, at_ms, interval_ms)
    if measured is None:
        return
    names = ("disk_mb", "leader_nw_in_kbs", "follower_nw_in_kbs", "nw_out_kbs")
    both = frames["brokers"].join(measured, on="broker", how="left", suffix="_own", maintain_order="left")
    order = ("_own", "") if instead else ("", "_own")
    both = both.with_columns(pl.coalesce(name + order[0], name + order[1]).alias(name) for name in names)
    room = pl.when(pl.col("disk_cap_mb") > 0).then("disk_cap_mb")
    both = both.with_columns(disk_pct=pl.coalesce(100.0 * pl.col("disk_mb") / room, "disk_pct"))
    frames["brokers"] = both.select(frames["brokers"].columns)


def _add_without_topology(
    inputs: Inputs, at_ms: int | None, interval_ms: int, has_history: bool, builder: ResultBuilder
) -> None:
    """Add what scrapes, log directories, capacities and plans say without a topology. Raises NoInput if they say nothing."""
    scraped, reported = (
        brokers_without_topology.brokers(inputs, at_ms, interval_ms),
        rollup.directories_alone(inputs, at_ms),
    )
    found = [frame for frame in (scraped, reported.get("brokers")) if frame is not None]
    if found:  # scraped by host and reported by id, a broker is one row
        merged = pl.concat(found).group_by("broker", maintain_order=True).agg(pl.all().drop_nulls().first())
        answered = builder.frames.get("brokers", BROKERS.empty())
        builder.frames["brokers"] = BROKERS.sorted(pl.concat([answered, BROKERS.frame(merged)]))
    if scraped is not None:
        builder.notes.append(
            "no topology: only each broker's own totals; kafka-topics --describe or kafka_exporter would add the partitions "
            "(kafka_topic_partition_leader; kminion does not report leaders)"
        )
    if reported:
        for table in (REPLICAS, DIRECTORIES):
            shown = builder.frames.get(table.name, table.empty())
            builder.frames[table.name] = pl.concat([shown, reported[table.name]])
        replicas, brokers = reported["replicas"], reported["brokers"].height
        builder.headline += [
            Headline("replicas", f"{replicas.height:,}", plural(brokers, "broker")),
            Headline("disk", f"{replicas['disk_mb'].sum():,.0f} MB", "as kafka-log-dirs reports"),
        ]
        builder.notes.append(
            "no topology: replicas and sizes as kafka-log-dirs reports them; kafka-topics --describe would add leaders, "
            "scrapes would add loads"
        )
    if not has_history and not builder.frames.get("brokers", BROKERS.empty()).height:
        if not any(
            inputs.table(name).height
            for name in ("topology", "reassigning", "capacity", "plans", "answer_goals", "answer_partitions")
        ):
            raise NoInput("no scrape, topology, sample, log directory or Cruise Control answer was found")
        builder.notes.append(
            "only capacities, plans or reassignments are known: a kafka-topics description and scrapes would add the loads"
        )


VIEW = BrokerLoad()
