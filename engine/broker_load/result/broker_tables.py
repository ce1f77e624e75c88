"""Result tables of brokers, hosts, racks and topics: sums of replica loads."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.balance import over_capacity
from engine.broker_load.cruise_control.cluster_model import HOST_RESOURCES, RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model.measured import cpu_trend
from engine.broker_load.model.topology import Flags, Floats, across, any_of, tally
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables import loads as tables


def known(name: str, value: Floats) -> pl.Series:
    """Return a series where NaN means unknown: null."""
    return pl.Series(name, value, dtype=pl.Float64).fill_nan(None)


def _percent(value: Floats, of: Floats, alive: Flags) -> Floats:
    """``value`` in percent of ``of``; NaN-as-null on dead brokers and unknown capacities, a NaN load stays NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 100.0 * value / of
    return np.where(alive & (of > 0), share, np.inf)


def _nulls(name: str, value: Floats) -> pl.Series:
    """Return a series where infinities mean null (NaN is a value here: a NaN load is shown as such)."""
    series = pl.Series(name, value, dtype=pl.Float64)
    return series.set(pl.Series(np.isinf(value)), None)


def load_columns(cluster: Cluster, sums: BrokerSums) -> dict[str, pl.Series]:
    """Return the load columns of one row per broker; percentages null on dead brokers."""
    alive = cluster.topology.alive
    cpu, disk = sums.of("CPU"), sums.of("DISK")
    cores = np.where(alive, cluster.capacity("CPU") / 100.0, 0.0)
    return {
        "cores": known("cores", cores),
        "cpu_pct": _nulls("cpu_pct", _percent(cpu, cluster.capacity("CPU"), alive)),
        "disk_mb": pl.Series("disk_mb", disk),
        "disk_pct": _nulls("disk_pct", _percent(disk, cluster.capacity("DISK"), alive)),
        "leader_nw_in_kbs": pl.Series("leader_nw_in_kbs", np.maximum(sums.leader_nw_in, 0.0)),
        "follower_nw_in_kbs": pl.Series("follower_nw_in_kbs", sums.follower_nw_in),
        "nw_out_kbs": pl.Series("nw_out_kbs", sums.of("NW_OUT")),
        "pnw_out_kbs": pl.Series("pnw_out_kbs", np.maximum(sums.pnw_out, 0.0)),
        "leaders": pl.Series("leaders", sums.leaders, dtype=pl.Int64),
        "replicas": pl.Series("replicas", sums.replicas, dtype=pl.Int64),
    }


def who(cluster: Cluster) -> dict[str, Any]:
    """Return the columns that name each broker: id, host, rack, state."""
    topology = cluster.topology
    return {
        "broker": topology.ids,
        "host": list(topology.hosts),
        "rack": list(topology.racks),
        "state": list(cluster.states),
    }


def brokers(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> pl.DataFrame:
    """Return result table ``brokers``."""
    total = model.aggregate
    inside = [model.rounds[place] for place in model.used]
    ends = [window.index for window in reversed(total.windows)]
    trend = cpu_trend(inside, ends, total.window_ms, model.topology, model.capacities.cores)
    alive = cluster.topology.alive
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = np.where(alive, model.measured.cpu / cluster.capacity("CPU") * 100.0, np.nan)
        modelled = np.where(alive, cluster.sums.of("CPU") / cluster.capacity("CPU") * 100.0, np.nan)
    measured = np.where(np.isfinite(measured), measured, np.nan)
    residual = np.where(np.isfinite(modelled - measured), modelled - measured, np.nan)
    columns = who(cluster) | load_columns(cluster, cluster.sums)
    columns |= {
        "flags": flags(model, cluster, parameters),
        "measured_cpu_pct": known("m", measured),
        "residual_cpu_pct": known("r", residual),
        "residual_reason": residual_reasons(model, cluster, residual),
        "nw_in_cap_kbs": known("i", cluster.capacity("NW_IN")),
        "nw_out_cap_kbs": known("o", cluster.capacity("NW_OUT")),
        "disk_cap_mb": known("d", cluster.capacity("DISK")),
        "capacity_estimated": cluster.capacities.estimated,
        "source": ["model"] * cluster.topology.brokers,
        "cpu_trend": pl.Series("cpu_trend", trend, dtype=pl.List(pl.Float64)),
    }
    return tables.BROKERS.frame(columns)


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
            no_cpu = last is not None and topology.alive[index]
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
            reasons.append(f"{skipped[index]} led partitions without a sample")
        if not reasons:
            reasons.append("CPU that the weights do not explain")
        out.append("; ".join(reasons))
    return out


def flags(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> list[str]:
    """Return what to look at, per broker."""
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
    for index in np.flatnonzero(cluster.capacities.estimated & topology.alive).tolist():
        words[index].append("cap est.")
    return [", ".join(each) for each in words]


def hosts(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``hosts``: sums of the brokers; CPU percentages add up, the disk percentage is made again."""
    topology = cluster.topology
    columns = load_columns(cluster, cluster.sums)
    frame = pl.DataFrame({"host": list(topology.hosts), "rack": list(topology.racks)} | columns)
    frame = frame.with_columns(pl.Series("_cap", cluster.capacity("DISK")))
    summed = [name for name in columns if name != "disk_pct"]
    grouped = frame.group_by("host", maintain_order=True).agg(
        pl.col("rack").first(), *(pl.col(name).sum() for name in summed), pl.col("_cap").sum()
    )
    share = pl.when(pl.col("_cap") > 0).then(100.0 * pl.col("disk_mb") / pl.col("_cap"))
    return tables.HOSTS.sorted(tables.HOSTS.frame(grouped.with_columns(share.alias("disk_pct")).drop("_cap")))


def racks(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``racks``: sums, with percentages of the rack's live capacity."""
    topology = cluster.topology
    columns = load_columns(cluster, cluster.sums)
    summed = [name for name in columns if name not in ("disk_pct", "cpu_pct")]
    extra = {
        "_cpu": np.where(topology.alive, np.nan_to_num(cluster.sums.of("CPU")), 0.0),
        "_cpu_cap": cluster.capacity("CPU"),
        "_disk": np.where(topology.alive, cluster.sums.of("DISK"), 0.0),
        "_disk_cap": cluster.capacity("DISK"),
    }
    frame = pl.DataFrame({"rack": list(topology.racks)} | columns | extra)
    grouped = frame.group_by("rack", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("brokers"), *(pl.col(name).sum() for name in [*summed, *extra])
    )
    shares = [
        pl.when(pl.col(f"_{name}_cap") > 0)
        .then(100.0 * pl.col(f"_{name}") / pl.col(f"_{name}_cap"))
        .alias(f"{name}_pct")
        for name in ("cpu", "disk")
    ]
    return tables.RACKS.sorted(tables.RACKS.frame(grouped.with_columns(shares).drop(list(extra)).fill_nan(None)))


def topics(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``topics``."""
    topology, loads = cluster.topology, cluster.loads
    count = len(topology.topics)

    def total(value: Floats) -> Floats:
        return tally(topology.topic, across(np.where(loads.held, value, 0.0)), count)

    led = any_of(loads.leads)
    cpu = np.maximum(np.nan_to_num(across(np.where(loads.leads, loads.cpu, 0.0))), 0.0)
    rows = np.flatnonzero(led)
    order = rows[np.argsort(cpu[rows], kind="stable")]
    # Then stably by topic, which takes one pass where its codes are short.
    codes = topology.topic[order]
    order = order[np.argsort(codes.astype(np.uint16) if count <= 65536 else codes, kind="stable")]
    topic, value = topology.topic[order], cpu[order]
    size = np.bincount(topic, minlength=count)
    whole = tally(topic, value, count)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        gini = 2 * tally(topic, rank * value, count) / (size * whole) - (size + 1) / size
    top = np.zeros(count)
    top[topic] = value  # within a topic the largest comes last, and the last assignment stays
    with np.errstate(divide="ignore", invalid="ignore"):
        share = top / whole
    frame = pl.DataFrame(
        {
            "topic": list(topology.topics),
            "partitions": np.bincount(topology.topic, minlength=count),
            "replicas": np.bincount(topology.topic, weights=across(loads.held), minlength=count),
            "cpu_pct_cores": total(loads.cpu),
            "disk_mb": total(loads.disk),
            "nw_in_kbs": total(loads.nw_in),
            "nw_out_kbs": total(loads.nw_out),
            "gini_cpu": known("g", np.where(np.isfinite(gini), np.maximum(gini, 0.0), np.nan)),
            "top_share_cpu": known("s", share),
        }
    )
    return tables.TOPICS.frame(frame)


def breaches(
    cluster: Cluster, sums: BrokerSums, counted: Flags, judged: Flags, parameters: BrokerLoadParameters
) -> list[str]:
    """Return per broker the capacity thresholds that ``sums`` break, in words.

    ``counted`` [B]: whose loads and capacities count on their hosts; ``judged`` [B]: who can break a threshold.
    """
    words: list[list[str]] = [[] for _ in range(cluster.topology.brokers)]
    for resource in RESOURCES:
        room = np.where(counted, cluster.capacity(resource), 0.0)
        load = cluster.compared(resource, np.where(counted, sums.raw(resource), 0.0))
        if resource in HOST_RESOURCES:
            room = cluster.by_host(room)
        with np.errstate(invalid="ignore", divide="ignore"):
            over = judged & (load > parameters.capacity_threshold(resource) * room)
            share = 100.0 * load / room
        for index in np.flatnonzero(over).tolist():
            words[index].append(f"{resource} {share[index]:.1f}%")
    return [", ".join(each) for each in words]
