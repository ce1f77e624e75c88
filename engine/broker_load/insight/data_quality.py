"""Data quality: checks of each broker, each oddity of the inputs once, and every partition without a sample.

See "Data quality" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from engine.broker_load.cruise_control import samples
from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.goals import over_capacity, usage
from engine.broker_load.cruise_control.load_model import Model, sampled
from engine.broker_load.model import ticks
from engine.broker_load.model.topology import Flags, Floats, Longs, words_at
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.verdicts import LEDGER, SKIPPED
from engine.core.units import plural
from engine.core.view import Context, Inputs


def flags(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> list[str]:
    """Return per broker what deserves a look."""
    topology = cluster.topology
    heard = np.ones(topology.brokers, np.bool_)
    if model.rounds:
        last = model.rounds[-1]
        where = last.topology.index_of(topology.ids)
        heard = np.append(last.heard, False)[where] | (where < 0)
    over = [(over_capacity(cluster, resource, parameters), f"over {resource}") for resource in RESOURCES]
    return words_at(topology.brokers, [*over, (topology.alive & ~heard, "silent")])


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
    topology, unknown = cluster.topology, np.isnan(residual)
    skipped = np.zeros(topology.brokers, np.int64)
    silent = mixed = unsized = np.zeros(topology.brokers, np.bool_)
    if model.rounds:
        last = model.rounds[-1]
        where = last.topology.index_of(topology.ids)
        silent = unknown & topology.alive & np.isnan(model.measured.cpu)
        both = (np.nan_to_num(each[raw_metrics.REPL_IN]) for each in (last.totals, last.reported))
        fetched, reported = (np.append(each, 0.0) for each in both)
        mixed, unsized = ((fetched == 0) & (reported > 0))[where], ~np.append(last.complete, True)[where]
    if model.samples and model.samples[-1].round.topology is topology:
        skipped = np.bincount(
            topology.leader[(model.samples[-1].rule > 0) & (topology.leader >= 0)], minlength=topology.brokers
        )
    off = ~unknown & (np.abs(residual) >= 0.05)
    own = off & (cluster is model.cluster)
    marks: list[tuple[Flags, str | Callable[[int], str]]] = [
        (silent, "no CPU reading"),
        (own & mixed, "leaders get all of the CPU: Kafka publishes no replication rates per topic"),
        (own & unsized, "topics without sizes: broker totals kept as reported"),
        (own & (cluster.sums.replicas > cluster.sums.leaders), "followers' CPU is derived from their leaders' brokers"),
        (off & (skipped > 0), lambda i: f"{plural(skipped[i], 'led partition')} without a sample in the newest round"),
    ]
    found = words_at(topology.brokers, marks, "; ")
    other = np.where(off, "CPU that the weights do not explain", "").tolist()
    return [text or rest for text, rest in zip(found, other, strict=True)]


def breaches(
    cluster: Cluster, sums: BrokerSums, counted: Flags, judged: Flags, parameters: BrokerLoadParameters
) -> list[str]:
    """Return per broker the capacity thresholds that ``sums`` break, in words.

    ``counted`` [B]: brokers whose loads and capacities count on their hosts; ``judged`` [B]: brokers that are checked.
    """
    found = {name: usage(cluster, name, sums.raw(name), counted, parameters) for name in RESOURCES}

    def shares(name: str) -> Callable[[int], str]:
        return lambda index: f"{name} {100.0 * found[name].share[index]:.1f}%"

    return words_at(cluster.topology.brokers, ((one.over & judged, shares(name)) for name, one in found.items()))


def tightest(
    cluster: Cluster, loads: Mapping[str, Floats], counted: Flags, parameters: BrokerLoadParameters
) -> tuple[list[str], Floats]:
    """Return the resource [B] of each counted, living broker that is nearest to (or furthest over) its capacity threshold under
    raw ``loads`` [B] by resource, and the distance [B] in % of the capacity; empty and NaN if unknown."""
    brokers = cluster.topology.brokers
    room, names = np.full(brokers, np.nan), np.full(brokers, "", dtype=object)
    for resource in RESOURCES:
        share = usage(cluster, resource, loads[resource], counted, parameters).share
        here = np.where(np.isfinite(share), (parameters.capacity_threshold(resource) - share) * 100.0, np.nan)
        here[~(counted & cluster.topology.alive)] = np.nan
        nearer = ~np.isnan(here) & ~(room <= here)
        room, names = np.where(nearer, here, room), np.where(nearer, resource, names)
    return names.tolist(), room


STALE_INTERVALS = 3
"""A broker is stale if its newest reading is this many sampling intervals older than the newest of all brokers."""


def skipped(model: Model) -> pl.DataFrame:
    """Return the partitions without a sample in any round or among the finished ones, with the newest round's rule."""
    topology = model.topology
    has, rule = sampled(topology, model.traces, model.finished)
    rows = np.flatnonzero(~has)
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
    for code in np.flatnonzero(np.bincount(topology.norm, minlength=len(topology.norm_names)) > 1).tolist():
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

    def each(brokers: Flags, kind: str, text: Callable[[int], str]) -> list[tuple[str, str, int, str]]:
        chosen = np.flatnonzero(brokers & topology.alive).tolist()
        return [(kind, f"broker {topology.ids[index]}", 1, text(index)) for index in chosen]

    capacities, who = model.capacities, model.history.identity
    rows += each(
        capacities.estimated, "estimated-capacity",
        lambda index: "capacity is the default entry's" if capacities.file
        else f"no capacity.json: {capacities.cores[index]:g} core{'' if capacities.cores[index] == 1 else 's'} assumed, "
        "disk and network capacity unknown",
    )  # fmt: skip
    text = "no entry of capacity.json applies: its percentages are unknown"
    rows += each(np.isnan(capacities.cores), "unknown-capacity", lambda index: text)
    hosts = inputs.table("broker_list").unique("broker", keep="last").group_by("host").len().filter(pl.col("len") > 1)
    taken = {host: f"taken for broker {who.ids[host][0]} {how}" for host, how in who.guessed.items()}
    doubled = "several brokers are listed on this host and the scrape does not name its id"
    unused, limits = "no broker is known on this host; its metrics are unused", "CPU and network limits are the host's"
    rows += [
        *(("guessed-host", host, 1, how) for host, how in taken.items()),
        *(("unmatched-host", host, 1, unused) for host in who.unmatched),
        *(("duplicated-host", host, 1, doubled) for host in who.doubled),
        *(
            ("shared-host", host or "(no name)", count, f"{count} brokers on one host: {limits}")
            for host, count in hosts.rows()
        ),
        *_missing(inputs, model, ticks.of(inputs, context)),
    ]
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


def _broker_rows(model: Model, interval_ms: int) -> list[tuple[str, str, int, str]]:
    rows: list[tuple[str, str, int, str]] = []
    topology = model.topology
    newest = model.rounds[-1].time_ms
    last, nan, negative, odd = _count_readings(model)
    kinds = (
        ("nan-cpu", nan, "CPU reading is NaN; Cruise Control's load answer cannot be printed as JSON"),
        ("negative-cpu", negative, "CPU reading is negative; its replicas lower the sums"),
        ("cpu-over-100", odd, "CPU reading above 100%: a container measured against the wrong quota?"),
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
        measured = {
            "reported": "the reporter's figure (process CPU load)",
            "node": "the whole machine's, from node_exporter",
            "process": "the broker process', divided by its cores",
            "container": "the broker container's, divided by the cores it may use",
        }
        rows.append(("cpu-measured", "all brokers", 1, f"CPU is {measured[final.cpu_kind]}"))
    silent = final.topology.alive & ~final.heard
    text = "no metrics in the newest interval"
    rows.extend(("silent-broker", f"broker {i}", 1, text) for i in final.topology.ids[silent].tolist())
    return rows


def _missing(inputs: Inputs, model: Model, scraped: pl.DataFrame) -> list[tuple[str, str, int, str]]:
    """Return rows on missing files that would add something."""
    sized = scraped["sized"].any() or inputs.table("log_dir_sizes").height
    again = scraped.height and not model.traces and scraped["counter"].any()
    alone = not scraped.height and not inputs.table("finished_samples").height
    told = (
        (not model.capacities.file, "capacity.json", "would add capacities: percentages, capacity goals, balance limits"),
        (model.synthetic, "kafka-topics --describe", "would add followers, in-sync replicas, failover"),
        (
            not model.synthetic and model.history.unknown, "kafka-topics --describe",
            "would add the order of replicas and which are in sync, for failover",
        ),
        (alone, "scrapes", "would add loads; only placement is known"),
        (again, "a second scrape", "would add rates: these are running totals; keep each scrape in a file of its own"),
        (
            scraped.height and not again and not sized, "sizes",
            "no partition sizes: Cruise Control skips every partition; kafka-log-dirs --describe would add them",
        ),
        (not inputs.table("broker_list").height, "brokers.csv", "would add racks and which broker is on which host"),
    )  # fmt: skip
    return [("missing-input", what, 1, adds) for missing, what, adds in told if missing]
