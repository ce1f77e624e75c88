"""Result tables from arrays."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.broker_load import tables
from engine.broker_load.cruise_control.balance import over_capacity
from engine.broker_load.cruise_control.cluster import HOST_RESOURCES, RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover
from engine.broker_load.insight.failover import Aftermath
from engine.broker_load.model.topology import Flags, Floats, Ints, Topology, across, any_of, tally
from engine.broker_load.model.windows import EXTRAPOLATIONS
from engine.broker_load.parameters import Thresholds
from engine.broker_load.tables.raw_metrics import SAMPLE


def _percent(value: Floats, of: Floats, alive: Flags) -> Floats:
    """``value`` in percent of ``of``; NaN-as-null on dead brokers and unknown capacities, a NaN load stays NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 100.0 * value / of
    return np.where(alive & (of > 0), share, np.inf)


def _nulls(name: str, value: Floats) -> pl.Series:
    """A series where infinities mean null (NaN is a value here: a NaN load is shown as such)."""
    series = pl.Series(name, value, dtype=pl.Float64)
    return series.set(pl.Series(np.isinf(value)), None)


def _known(name: str, value: Floats) -> pl.Series:
    """A series where NaN means unknown: null."""
    return pl.Series(name, value, dtype=pl.Float64).fill_nan(None)


def load_columns(cluster: Cluster, sums: BrokerSums) -> dict[str, pl.Series]:
    """The load columns of one row per broker; percentages null on dead brokers."""
    alive = cluster.topology.alive
    cpu, disk = sums.of("CPU"), sums.of("DISK")
    cores = np.where(alive, cluster.capacity("CPU") / 100.0, 0.0)
    return {
        "cores": _known("cores", cores),
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


def _who(cluster: Cluster) -> dict[str, object]:
    topology = cluster.topology
    return {
        "broker": topology.ids,
        "host": list(topology.hosts),
        "rack": list(topology.racks),
        "state": list(cluster.states),
    }


def brokers(model: Model, cluster: Cluster, trend: list[list[float]], thresholds: Thresholds) -> pl.DataFrame:
    """Result table ``brokers``."""
    alive = cluster.topology.alive
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = np.where(alive, model.measured.cpu / cluster.capacity("CPU") * 100.0, np.nan)
        modelled = np.where(alive, cluster.sums.of("CPU") / cluster.capacity("CPU") * 100.0, np.nan)
    measured = np.where(np.isfinite(measured), measured, np.nan)
    residual = np.where(np.isfinite(modelled - measured), modelled - measured, np.nan)
    columns = _who(cluster) | load_columns(cluster, cluster.sums)
    columns |= {
        "flags": flags(model, cluster, thresholds),
        "measured_cpu_pct": _known("m", measured),
        "residual_cpu_pct": _known("r", residual),
        "residual_reason": residual_reasons(model, cluster, residual),
        "nw_in_cap_kbs": _known("i", cluster.capacity("NW_IN")),
        "nw_out_cap_kbs": _known("o", cluster.capacity("NW_OUT")),
        "disk_cap_mb": _known("d", cluster.capacity("DISK")),
        "capacity_estimated": cluster.capacities.estimated,
        "source": ["model"] * cluster.topology.brokers,
        "cpu_trend": pl.Series("cpu_trend", trend, dtype=pl.List(pl.Float64)),
    }
    return tables.BROKERS.frame(pl.DataFrame(columns))


def residual_reasons(model: Model, cluster: Cluster, residual: Floats) -> list[str]:
    """Why the modelled CPU differs from the measured one, per broker."""
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
        if cluster is model.upstream:
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


def _shared(topology: Topology) -> Ints:
    """[P] over how many partitions the rates of a partition's leader are split evenly: what one of them takes may be
    anything from nothing to all of it."""
    group, _, _, count = topology.groups
    return np.where(group >= 0, count[np.maximum(group, 0)] if len(count) else 1, 1).astype(np.int32)


def replicas(model: Model, cluster: Cluster, removed: Floats | None) -> pl.DataFrame:
    """Result table ``replicas``: by topic, partition, position."""
    topology, loads = cluster.topology, cluster.loads
    rows, position = np.nonzero(loads.held)
    held = loads.held

    def flat(value: Floats) -> Floats:
        picked = value[held]
        return np.where(np.isnan(picked), picked, np.maximum(picked, 0.0))

    many = _shared(topology)[rows]
    split = many > 1
    cpu, nw_in, nw_out = flat(loads.cpu), flat(loads.nw_in), flat(loads.nw_out)
    frame = pl.DataFrame(
        {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "broker": topology.ids[topology.replicas[held]],
            "position": position,
            "leader": loads.leads[held],
            "cpu_pct_cores": cpu,
            "disk_mb": flat(loads.disk),
            "nw_in_kbs": nw_in,
            "nw_out_kbs": nw_out,
            "split": many,
            "cpu_low": np.where(split, 0.0, cpu),
            "cpu_high": cpu * many,
            "nw_in_low_kbs": np.where(split, 0.0, nw_in),
            "nw_in_high_kbs": nw_in * many,
            "nw_out_low_kbs": np.where(split, 0.0, nw_out),
            "nw_out_high_kbs": nw_out * many,
            "offline": topology.offline_replicas[held],
            "source": pl.repeat("model", len(rows), eager=True),
            "cpu_removed_pct_cores": _known("x", removed[held])
            if removed is not None
            else pl.repeat(None, len(rows), dtype=pl.Float64, eager=True),
        }
    )
    return tables.REPLICAS.frame(frame)


def samples(model: Model, limit: int) -> pl.DataFrame:
    """Result table ``samples``: newest sampling intervals first dropped last; at most ``limit`` rows."""
    parts: list[pl.DataFrame] = []
    left = limit
    for taken in reversed(model.samples):
        if taken.taken > left:
            break
        left -= taken.taken
        parts.append(taken.frame)
    parts.reverse()
    if model.finished is not None and len(model.finished.partition) <= left:
        topology, given = model.topology, model.finished
        columns: dict[str, object] = {
            "topic": topology.topic_names.gather(given.partition),
            "partition": topology.partition[given.partition],
            "leader": topology.ids_of(topology.leader[given.partition]),
            "time_ms": given.time_ms,
        }
        columns |= {name: given.values[place] for place, name in enumerate(SAMPLE)}
        parts.append(tables.SAMPLES.frame(pl.DataFrame(columns)))
        return pl.concat(parts).sort("time_ms", "topic", "partition", maintain_order=True)
    # Rounds come in order of time and partitions in order of topic and number: nothing has to be sorted.
    return pl.concat(parts) if parts else tables.SAMPLES.empty()


def windows(model: Model, limit: int) -> pl.DataFrame | None:
    """Result table ``windows``; None where it would have more than ``limit`` rows."""
    total, topology = model.aggregate, model.topology
    if topology.size * len(total.windows) > limit:
        return None
    if not total.windows:
        return tables.WINDOWS.empty()
    names = pl.Series("extrapolation", list(EXTRAPOLATIONS), dtype=pl.String)
    parts = []
    series = {name: total.series(name) for name in SAMPLE}
    for place, end in enumerate(total.ends_ms()):
        states = total.states[place]
        codes = np.zeros(topology.size, np.int8) if states is None else states
        columns: dict[str, object] = {
            "topic": topology.topic_names,
            "partition": topology.partition,
            "window_end_ms": np.full(topology.size, end, np.int64),
        }
        columns |= {name: values[place].astype(np.float64) for name, values in series.items()}
        columns["extrapolation"] = names.gather(codes)
        parts.append(pl.DataFrame(columns))
    frame = pl.concat(parts)
    order = np.argsort(np.tile(np.arange(topology.size), len(parts)), kind="stable")
    return tables.WINDOWS.frame(frame[order])


def partitions(model: Model, cluster: Cluster) -> pl.DataFrame:
    """Result table ``partitions``: by topic and partition. One of which only samples are known, neither leader nor
    replicas, shows what they say."""
    topology, loads, values = model.topology, cluster.loads, model.values
    led = any_of(loads.leads)
    bare = ~any_of(topology.held) & (topology.leader < 0)

    def of_leader(value: Floats, sampled: Floats) -> Floats:
        picked = np.where(bare, sampled, across(np.where(loads.leads, value, 0.0)))
        return np.asarray(np.where(np.isnan(picked), picked, np.maximum(picked, 0.0)), np.float64)

    cpu = of_leader(loads.cpu, values.cpu)
    nw_in = of_leader(loads.nw_in, values.bytes_in + values.replication_in)
    nw_out = of_leader(loads.nw_out, values.bytes_out + values.replication_out)
    messages = np.where(led | bare, values.messages, 0.0)
    many = _shared(topology)
    bounds: dict[str, Floats] = {}
    for name, value in (("cpu{}", cpu), ("nw_in{}_kbs", nw_in), ("nw_out{}_kbs", nw_out), ("msg_in{}", messages)):
        bounds[name.format("_low")] = np.where(many > 1, 0.0, value)
        bounds[name.format("_high")] = value * many
    return tables.PARTITIONS.frame(
        pl.DataFrame(
            {
                "topic": topology.topic_names,
                "partition": topology.partition,
                "valid": model.aggregate.valid if model.aggregate.windows else np.zeros(topology.size, np.bool_),
                "leader": topology.ids_of(topology.leader),
                "replicas": topology.replica_lists,
                "isr": topology.in_sync_lists,
                "cpu_pct_cores": cpu,
                "disk_mb": of_leader(loads.disk, values.disk),
                "nw_in_kbs": nw_in,
                "nw_out_kbs": nw_out,
                "msg_in": messages,
                "split": many,
                **bounds,
            }
        )
    )


def flags(model: Model, cluster: Cluster, thresholds: Thresholds) -> list[str]:
    """What to look at, per broker."""
    topology = cluster.topology
    words: list[list[str]] = [[] for _ in range(topology.brokers)]
    for resource in RESOURCES:
        for index in np.flatnonzero(over_capacity(cluster, resource, thresholds)).tolist():
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
    return [", ".join(found) for found in words]


def racks(cluster: Cluster) -> pl.DataFrame:
    """Result table ``racks``: sums, with percentages of the rack's live capacity."""
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
    """Result table ``topics``."""
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
            "gini_cpu": _known("g", np.where(np.isfinite(gini), np.maximum(gini, 0.0), np.nan)),
            "top_share_cpu": _known("s", share),
        }
    )
    return tables.TOPICS.frame(frame)


def hosts(cluster: Cluster) -> pl.DataFrame:
    """Result table ``hosts``: sums of the brokers; CPU percentages add up, the disk percentage is made again."""
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


def failover_leaders(model: Model, found: Aftermath) -> pl.DataFrame:
    """Result table ``failover_leaders``: every partition a failed broker led."""
    topology, election = model.topology, found.election
    led = election.moved & np.append(found.failed, False)[election.old]
    rows = election.rows[led]
    new = topology.ids_of(election.new[led])
    return tables.FAILOVER_LEADERS.frame(
        pl.DataFrame(
            {
                "topic": topology.topic_names.gather(rows),
                "partition": topology.partition[rows],
                "old_leader": topology.ids_of(election.old[led]),
                "new_leader": pl.Series("n", new, dtype=pl.Int32).set(pl.Series(new < 0), None),
                "unclean": election.unclean[led],
                "under_min_isr": election.under[led],
            }
        )
    )


def failover_min_isr(model: Model, found: Aftermath, need: np.ndarray) -> pl.DataFrame:
    """Result table ``failover_min_isr``."""
    topology, election = model.topology, found.election
    rows = election.rows[election.under]
    new = topology.ids_of(election.new[election.under])
    return tables.FAILOVER_MIN_ISR.frame(
        pl.DataFrame(
            {
                "topic": topology.topic_names.gather(rows),
                "partition": topology.partition[rows],
                "leader": pl.Series("n", new, dtype=pl.Int32).set(pl.Series(new < 0), None),
                "in_sync": election.in_sync[election.under],
                "min_isr": need[rows],
                "before": election.under_before[election.under],
            }
        )
    )


def failover_brokers(cluster: Cluster, found: Aftermath, breaches: list[str]) -> pl.DataFrame:
    """Result table ``failover_brokers``: every broker, the failed ones too, after and before."""
    after, before = load_columns(cluster, found.sums), load_columns(cluster, cluster.sums)
    columns = _who(cluster) | after
    columns["state"] = [
        "FAILED" if gone else state for gone, state in zip(found.failed.tolist(), cluster.states, strict=True)
    ]
    columns["nw_out_physical_kbs"] = found.physical
    columns["nw_out_physical_kbs_before"] = found.physical_before
    columns |= {
        name + "_before": series
        for name, series in before.items()
        if name + "_before" in tables.FAILOVER_BROKERS.schema
    }
    columns["breaches"] = breaches
    return tables.FAILOVER_BROKERS.frame(pl.DataFrame(columns))


def breaches(cluster: Cluster, found: Aftermath, thresholds: Thresholds) -> list[str]:
    """Per broker the capacity thresholds broken after the failure, on survivors."""
    survivors = cluster.topology.alive & ~found.failed
    out: list[list[str]] = [[] for _ in range(cluster.topology.brokers)]
    for resource in RESOURCES:
        room = np.where(survivors, cluster.capacity(resource), 0.0)
        load = np.where(survivors, found.sums.of(resource), 0.0)
        if resource in HOST_RESOURCES:
            room, load = cluster.by_host(room), cluster.by_host(load)
        with np.errstate(invalid="ignore", divide="ignore"):
            over = survivors & (load > thresholds.capacity(resource) * room)
            share = 100.0 * load / room
        for index in np.flatnonzero(over).tolist():
            out[index].append(f"{resource} {share[index]:.1f}%")
    return [", ".join(words) for words in out]


def failures(
    model: Model, cluster: Cluster, found: failover.Singles, room: list[failover.Headroom]
) -> list[dict[str, object]]:
    """Rows of result table ``failures`` for single brokers."""
    topology = cluster.topology
    return [
        {
            "failure": f"broker {topology.ids[index]}",
            "moved": int(found.moved[index]),
            "leaderless": int(found.leaderless[index]),
            "unclean": int(found.unclean[index]),
            "under_min_isr": int(found.under[index]),
            "breaches": room[index].breaches,
            "worst": room[index].worst,
            "headroom_pct": room[index].percent,
        }
        for index in np.flatnonzero(topology.alive).tolist()
    ]
