"""Data quality: checks of each broker, each oddity of the inputs once, and every partition without a sample.

See "Data quality" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.broker_load.cruise_control import samples
from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.goals import over_capacity, usage
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model import history, ticks
from engine.broker_load.model.topology import Flags, Floats, Longs
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.verdicts import LEDGER, SKIPPED
from engine.core.view import Context, Finding, Inputs


def flags(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> list[str]:
    """Return per broker what deserves a look."""
    topology = cluster.topology
    words: list[list[str]] = [[] for _ in range(topology.brokers)]
    for resource in RESOURCES:
        for index in np.flatnonzero(over_capacity(cluster, resource, parameters)).tolist():
            words[index].append(f"over {resource}")
    heard = np.ones(topology.brokers, np.bool_)
    if model.rounds:
        last = model.rounds[-1]
        where = last.topology.index_of(topology.ids)
        heard = np.append(last.heard, False)[where] | (where < 0)
    for index in np.flatnonzero(topology.alive & ~heard).tolist():
        words[index].append("silent")
    return [", ".join(each) for each in words]


def cpu_residuals(model: Model, cluster: Cluster) -> tuple[Floats, Floats]:
    """Return measured CPU of each broker in % of its capacity, and modelled minus measured; NaN if unknown or dead."""
    alive = cluster.topology.alive
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = np.where(alive, model.measured.cpu / cluster.given("CPU") * 100.0, np.nan)
        modelled = np.where(alive, cluster.sums.of("CPU") / cluster.capacity("CPU") * 100.0, np.nan)
    measured = np.where(np.isfinite(measured), measured, np.nan)
    return measured, np.where(np.isfinite(modelled - measured), modelled - measured, np.nan)


def residual_reasons(model: Model, cluster: Cluster, residual: Floats) -> list[str]:
    """Return why the modelled CPU differs from the measured one, per broker."""
    topology = cluster.topology
    out = []
    last = model.rounds[-1] if model.rounds else None
    where = last.topology.index_of(topology.ids) if last is not None else None
    skipped = np.zeros(topology.brokers, np.int64)
    if model.samples and model.maps[-1] is None and model.samples[-1].round.topology is topology:
        bad = (model.samples[-1].rule > 0) & (topology.leader >= 0)
        skipped = np.bincount(topology.leader[bad], minlength=topology.brokers)
    for index in range(topology.brokers):
        value = residual[index]
        if np.isnan(value):
            no_cpu = last is not None and topology.alive[index] and np.isnan(model.measured.cpu[index])
            out.append("no CPU reading" if no_cpu else "")
            continue
        if abs(value) < 0.05:
            out.append("")
            continue
        reasons = []
        if cluster is model.cluster:
            place = int(where[index]) if where is not None else -1
            if last is not None and place >= 0:
                if np.nan_to_num(last.totals[2, place]) == 0 and np.nan_to_num(last.reported[2, place]) > 0:
                    reasons.append("leaders get all of the CPU: Kafka publishes no replication rates per topic")
                if not last.complete[place]:
                    reasons.append("topics without sizes: broker totals kept as reported")
            if cluster.sums.replicas[index] > cluster.sums.leaders[index]:
                reasons.append("followers' CPU is derived from their leaders' brokers")
        if skipped[index]:
            led = f"{skipped[index]} led partition{'s' if skipped[index] > 1 else ''}"
            reasons.append(f"{led} without a sample in the newest round")
        if not reasons:
            reasons.append("CPU that the weights do not explain")
        out.append("; ".join(reasons))
    return out


def breaches(
    cluster: Cluster, sums: BrokerSums, counted: Flags, judged: Flags, parameters: BrokerLoadParameters
) -> list[str]:
    """Return per broker the capacity thresholds that ``sums`` break, in words.

    ``counted`` [B]: brokers whose loads and capacities count on their hosts; ``judged`` [B]: brokers that are checked.
    """
    words: list[list[str]] = [[] for _ in range(cluster.topology.brokers)]
    for resource in RESOURCES:
        found = usage(cluster, resource, sums.raw(resource), counted, parameters)
        for index in np.flatnonzero(found.over & judged).tolist():
            words[index].append(f"{resource} {100.0 * found.share[index]:.1f}%")
    return [", ".join(each) for each in words]


@dataclass(frozen=True, eq=False)
class Tightest:
    """The resource [B] of each broker nearest to (or furthest over) its capacity threshold, and the distance [B] in % of the
    capacity; empty and NaN if unknown."""

    resource: list[str]
    headroom: Floats


def tightest(
    cluster: Cluster, loads: Mapping[str, Floats], counted: Flags, parameters: BrokerLoadParameters
) -> Tightest:
    """Return the tightest resource of each counted, living broker under raw ``loads`` [B] by resource."""
    brokers = cluster.topology.brokers
    room, names = np.full(brokers, np.nan), np.full(brokers, "", dtype=object)
    for resource in RESOURCES:
        share = usage(cluster, resource, loads[resource], counted, parameters).share
        here = np.where(np.isfinite(share), (parameters.capacity_threshold(resource) - share) * 100.0, np.nan)
        here[~(counted & cluster.topology.alive)] = np.nan
        nearer = ~np.isnan(here) & ~(room <= here)
        room, names = np.where(nearer, here, room), np.where(nearer, resource, names)
    return Tightest(names.tolist(), room)


STALE_INTERVALS = 3
"""A broker is stale if its newest reading is this many sampling intervals older than the newest of all brokers."""


def skipped(model: Model) -> pl.DataFrame:
    """Return the partitions without a sample in any round or among the finished ones, with the newest round's rule."""
    topology = model.topology
    has = np.zeros(topology.size, np.bool_)
    rule = np.where(topology.leader >= 0, 2, 1).astype(np.int8)
    covered = np.zeros(topology.size, np.bool_)
    for one in reversed(list(model.traces.values())):
        where = history.partition_map(one.partitions, topology)
        index = np.arange(topology.size) if where is None else where
        keep = index >= 0
        has[index[keep]] |= one.sampled[keep]
        fresh = keep & ~covered[index]
        rule[index[fresh]] = one.rule[fresh]
        covered[index[keep]] = True
        if has.all():
            break
    if model.finished is not None:
        has[model.finished.partition] = True
    rows = np.flatnonzero(~has)
    if not model.traces and model.finished is not None:
        rule[rows] = np.where(topology.leader[rows] >= 0, 2, 1)
    names = pl.Series("rule", list(samples.RULES), dtype=pl.String)
    return SKIPPED.frame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "broker": topology.ids_of(topology.leader[rows]),
            "rule": names.gather(np.where(rule[rows] == 0, 2, rule[rows])),
        }
    )


def ledger(inputs: Inputs, model: Model, interval_ms: int, context: Context) -> pl.DataFrame:
    """Return the rows of the ledger in a fixed order: by kind and subject."""
    rows: list[tuple[str, str, int, str]] = []
    topology = model.topology
    shared_names = np.flatnonzero(np.bincount(topology.norm, minlength=len(topology.norm_names)) > 1)
    for code in shared_names.tolist():
        name = topology.norm_names[code]
        same = [topology.topics[i] for i in np.flatnonzero(topology.norm == code).tolist()]
        led = [set(np.unique(topology.leader[topology.topic == topology.topics.index(t)]).tolist()) for t in same]
        shared = set.intersection(*led) - {-1}
        detail = f"{' and '.join(same)} share one metric name; each gets the full rate"
        if shared:
            detail += " on brokers " + ", ".join(str(topology.ids[i]) for i in sorted(shared)) + " that lead both"
        rows.append(("topic-collision", name, len(same), detail))
    if model.rounds:
        rows.extend(_broker_rows(model, interval_ms))
    for index, guess in enumerate(model.capacities.estimated.tolist()):
        if guess and topology.alive[index]:
            cores = model.capacities.cores[index]
            text = (
                "capacity is the default entry's"
                if model.capacities.file
                else f"no capacity.json: {cores:g} core{'' if cores == 1 else 's'} assumed, disk and network capacity unknown"
            )
            rows.append(("estimated-capacity", f"broker {topology.ids[index]}", 1, text))
    unknown = np.isnan(model.capacities.cores) & topology.alive
    for index in np.flatnonzero(unknown).tolist():
        text = "no entry of capacity.json applies: its percentages are unknown"
        rows.append(("unknown-capacity", f"broker {topology.ids[index]}", 1, text))
    who = model.history.identity
    rows.extend(
        ("guessed-host", host, 1, f"taken for broker {who.ids[host][0]} {how}") for host, how in who.guessed.items()
    )
    rows.extend(
        ("unmatched-host", host, 1, "no broker is known on this host; its metrics are unused") for host in who.unmatched
    )
    text = "several brokers are listed on this host and the scrape does not name its id"
    rows.extend(("duplicated-host", host, 1, text) for host in who.doubled)
    listed = inputs.table("broker_list")
    hosts = listed.unique("broker", keep="last").group_by("host").len().filter(pl.col("len") > 1)
    rows.extend(
        (
            "shared-host",
            host or "(no name)",
            count,
            f"{count} brokers on one host: CPU and network limits are the host's",
        )
        for host, count in hosts.iter_rows()
    )
    rows.extend(_missing(inputs, model, ticks.of(inputs, context)))
    rows.sort()
    return LEDGER.frame(pl.DataFrame(rows, schema=LEDGER.schema, orient="row"))


def _count_readings(model: Model) -> Longs:
    """Return [4, B] over all rounds: newest time heard (epoch ms, -1 never); CPU readings that are NaN, negative, above 1."""
    topology = model.topology
    out = np.zeros((4, topology.brokers), np.int64)
    out[0] = -1
    for run in model.runs:
        where = topology.index_of(run.ids)
        keep = where >= 0
        at = where[keep]
        heard = np.where(run.heard, run.time_ms[:, None], -1)
        out[0, at] = np.maximum(out[0, at], heard.max(axis=0)[keep])
        with np.errstate(invalid="ignore"):
            for row, odd in ((1, run.has_cpu & np.isnan(run.cpu)), (2, run.cpu < 0), (3, run.cpu > 1)):
                out[row, at] += odd.sum(axis=0)[keep]
    return out


def silent_brokers(ledger: pl.DataFrame) -> list[Finding]:
    """Return a finding for each alive broker whose scrapes stopped, from rows of the table ``ledger``."""
    silent = ledger.filter(pl.col("kind") == "stale-scrape").select("subject", "detail").sort("subject")
    return [
        Finding("moderate", subject, f"silent: {detail}", ("ledger", ("stale-scrape", subject)))
        for subject, detail in silent.iter_rows()
    ]


def _broker_rows(model: Model, interval_ms: int) -> list[tuple[str, str, int, str]]:
    rows: list[tuple[str, str, int, str]] = []
    topology = model.topology
    newest = model.rounds[-1].time_ms
    last, nan, negative, odd = _count_readings(model)
    kinds = (
        ("nan-cpu", nan, "CPU reading is NaN; Cruise Control's load answer cannot be printed as JSON"),
        ("negative-cpu", negative, "CPU reading is negative; its replicas lower the sums"),
        ("cpu-over-100", odd, "CPU reading above 100 %: a container measured against the wrong quota?"),
    )
    for index, broker in enumerate(topology.ids.tolist()):
        subject = f"broker {broker}"
        rows.extend((kind, subject, int(counts[index]), text) for kind, counts, text in kinds if counts[index])
        if topology.alive[index] and 0 <= last[index] < newest - STALE_INTERVALS * interval_ms:
            late = (newest - int(last[index])) // 1000
            rows.append(("stale-scrape", subject, 1, f"last heard {late} s before the newest reading"))
    final = model.rounds[-1]
    for index in np.flatnonzero(final.heard & ~final.complete).tolist():
        count = int(final.missing[index])
        leads = final.topology.groups
        mine = np.flatnonzero((leads[1] == index) & ~final.sized)[:3]
        names = ", ".join(final.topology.topics[leads[2][g]] for g in mine.tolist())
        text = (
            f"{count} of its topics have no size ({names}{' …' if count > 3 else ''}): broker totals stay as reported"
        )
        rows.append(("missing-topics", f"broker {final.topology.ids[index]}", count, text))
    if final.cpu_kind:
        words = {
            "reported": "the reporter's figure (process CPU load)",
            "node": "the whole machine's, from node_exporter",
            "process": "the broker process', divided by its cores",
            "container": "the broker container's, divided by the cores it may use",
        }
        rows.append(("cpu-measured", "all brokers", 1, f"CPU is {words[final.cpu_kind]}"))
    silent = final.topology.alive & ~final.heard
    text = "no metrics in the newest interval"
    rows.extend(("silent-broker", f"broker {i}", 1, text) for i in final.topology.ids[silent].tolist())
    return rows


def _missing(inputs: Inputs, model: Model, scraped: pl.DataFrame) -> list[tuple[str, str, int, str]]:
    """Return rows on missing files that would add something."""
    rows: list[tuple[str, str, int, str]] = []

    def note(what: str, adds: str) -> None:
        rows.append(("missing-input", what, 1, adds))

    if not model.capacities.file:
        note("capacity.json", "would add capacities: percentages, capacity goals, balance limits")
    if model.synthetic:
        note("kafka-topics --describe", "would add followers, in-sync replicas, failover")
    elif model.history.unknown:
        note("kafka-topics --describe", "would add the order of replicas and which are in sync, for failover")
    if not scraped.height and not inputs.table("finished_samples").height:
        note("scrapes", "would add loads; only placement is known")
    elif scraped.height and not model.traces and scraped["counter"].any():
        note("a second scrape", "would add rates: these are running totals; keep each scrape in a file of its own")
    elif scraped.height and not (scraped["sized"].any() or inputs.table("log_dir_sizes").height):
        note(
            "sizes",
            "no partition sizes: Cruise Control skips every partition; kafka-log-dirs --describe would add them",
        )
    if not inputs.table("broker_list").height:
        note("brokers.csv", "would add racks and which broker is on which host")
    return rows
