"""Summary values, headline, findings and notes of the model, and its gauges for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from engine.broker_load.cruise_control import goals
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import replication
from engine.broker_load.model.topology import Topology, words_at
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.result.result_builder import ResultBuilder
from engine.core.exports import KB, MB, PERCENT, Gauge
from engine.core.units import named, plural
from engine.core.view import Finding, Headline

_LOADS = {"upstream": "Cruise Control", "corrected": "corrected loads", "regression": "fitted weights"}
"""What the judged loads are called, by ``mode``."""


def add(
    model: Model, cluster: Cluster, decided: list[Verdict], parameters: BrokerLoadParameters, builder: ResultBuilder
) -> None:
    """Add summary, headline, findings and notes of ``cluster``; ``decided`` are the verdicts of its goals."""
    topology, total = model.topology, model.aggregate
    score: float | None = -1.0 if cluster.has_offline else goals.balancedness(decided)
    if any(v.violated is None and v.goal not in goals.OF_RACKS for v in decided):
        score = None
    provision, why = goals.provision(cluster, parameters)
    valid = int(total.valid.sum()) if total.windows else 0
    monitored = 100.0 * valid / topology.size if topology.size else 0.0
    builder.summary |= {
        "brokers": topology.brokers,
        "dead_brokers": int((~topology.alive).sum()),
        "topics": len(topology.topics),
        "partitions": topology.size,
        "replicas": int(cluster.sums.replicas.sum()),
        "windows": len(total.windows),
        "windows_offered": len(total.offered),
        "enough_valid_windows": total.enough,
        "valid_partitions": valid,
        "monitored_partitions_percentage": monitored,
        "skipped_partitions": builder.frames["skipped"].height,
        "balancedness_score": score,
        "provision_status": provision,
        "provision_reason": why,
        "sampling_intervals": sum(len(one.moments) for one in model.traces.values()),
    }
    for resource in RESOURCES:
        share = cluster.utilisation(resource)
        unsure = math.isnan(share) or cluster.lacking
        builder.summary[f"{resource.lower()}_utilization_pct"] = None if unsure else share * 100.0
    by_resource = {name: topology.ids[goals.over_capacity(cluster, name, parameters)].tolist() for name in RESOURCES}
    over = {name: ids for name, ids in by_resource.items() if ids}
    builder.summary |= {"brokers_over_capacity": len(set().union(*over.values())) if over else 0}
    violated = [v for v in decided if v.violated]
    builder.summary |= {"violated_goals": len(violated), "violated_hard_goals": sum(v.hard for v in violated)}
    words = ", ".join(f"{resource} of broker {named(ids, 6)}" for resource, ids in over.items())
    states = replication.states(topology, parameters.min_insync_replicas)
    builder.headline += replication.headline(states)
    _headline(model, cluster, builder, words)
    builder.findings.extend(replication.findings(topology, states))
    told = words_at(topology.size, ((flags, name) for name, flags in states.items()))
    builder.frames["partitions"] = builder.frames["partitions"].with_columns(state=pl.Series(told))
    builder.findings.extend(
        Finding(
            "severe" if v.hard else "moderate",
            _GOALS[v.goal][0],
            _of_goal(v),
            ("goals", (v.goal,)),
        )
        for v in violated
        if v.offenders or not v.detail.startswith(goals.DEAD_NOTE)  # the finding on what is dead says it
    )
    silent = (
        builder.frames["ledger"].filter(pl.col("kind") == "stale-scrape").select("subject", "detail").sort("subject")
    )
    builder.findings.extend(
        Finding("moderate", subject, f"silent: {detail}", ("ledger", ("stale-scrape", subject)))
        for subject, detail in silent.iter_rows()
    )
    builder.findings.extend(_rackless(topology))
    if cluster.missing:
        builder.findings.append(Finding("moderate", _unknown(cluster), cluster.missing))
    _notes(model, parameters, builder)
    single = f"; single brokers are over capacity: {words}" if words else ""
    builder.notes.append(f"{_LOADS[parameters.mode]}: {provision}, {why}{single}")


def _rackless(topology: Topology) -> list[Finding]:
    """Return a finding on live brokers without a rack where others have one."""
    each = zip(topology.ids.tolist(), topology.racks, topology.hosts, topology.alive.tolist(), strict=True)
    living = [(broker, rack in ("", host)) for broker, rack, host, alive in each if alive]
    bare = [broker for broker, without in living if without]
    if not 0 < len(bare) < len(living):
        return []
    text = (
        "no rack is known, but others have one: the host counts as the rack; set broker.rack, or name it in brokers.csv"
    )
    return [
        Finding("moderate", f"broker{'s' if len(bare) > 1 else ''} {named(bare, 6)}", text, ("brokers", (bare[0],)))
    ]


def _unknown(cluster: Cluster) -> str:
    if cluster.unknown:
        return "loads unknown" if len(cluster.unknown) == len(RESOURCES) else "CPU and network unknown"
    return "loads of some brokers unknown" if cluster.lacking else "capacities unknown"


def _of_goal(verdict: Verdict) -> str:
    """Return what breaks a goal, what to do, and Cruise Control's name of the goal."""
    detail = verdict.detail.removeprefix(goals.DEAD_NOTE).removeprefix("; ")
    return f"{detail or 'violated'}; {_GOALS[verdict.goal][1]} ({verdict.goal})"


_ELSEWHERE, _SPREAD = (
    "move leaders or replicas off it, or add brokers",
    "move replicas from the fullest to the emptiest brokers",
)
_GOALS = {
    "RackAwareGoal": ("replicas in one rack", "reassign one replica of each to another rack"),
    "RackAwareDistributionGoal": ("replicas over racks", "reassign replicas so that racks differ by one at most"),
    "MinTopicLeadersPerBrokerGoal": ("leaders of a topic", "let a replica on that broker lead"),
    "ReplicaCapacityGoal": ("number of replicas", "move replicas to other brokers"),
    "DiskCapacityGoal": ("disk", "move replicas off it, shorten retention or add disks"),
    "NetworkInboundCapacityGoal": ("network in", _ELSEWHERE),
    "NetworkOutboundCapacityGoal": ("network out", _ELSEWHERE),
    "CpuCapacityGoal": ("CPU", _ELSEWHERE),
    "ReplicaDistributionGoal": ("balance of replicas", _SPREAD),
    "PotentialNwOutGoal": ("network out if it led all its replicas", "move replicas of busy topics off it"),
    "DiskUsageDistributionGoal": ("balance of disks", _SPREAD),
    "NetworkInboundUsageDistributionGoal": ("balance of network in", _SPREAD),
    "NetworkOutboundUsageDistributionGoal": ("balance of network out", "let other replicas lead"),
    "CpuUsageDistributionGoal": ("balance of CPU", "let other replicas lead"),
    "TopicReplicaDistributionGoal": ("replicas of a topic", "move some to brokers with fewer of the topic"),
    "LeaderReplicaDistributionGoal": ("balance of leaders", "let other replicas lead"),
    "LeaderBytesInDistributionGoal": ("balance of leaders' network in", "let other replicas of busy topics lead"),
}
"""What each goal is about, and what to do where it is violated."""


DEAD = "dead brokers"  # cause of findings that follow from dead brokers


def dead_brokers(brokers: pl.DataFrame, listed: bool) -> list[Finding]:
    """Return a finding for each dead broker in rows of ``BROKERS``; ``listed``: a list of brokers or an answer says so."""
    dead = sorted(set(brokers["broker"].filter(brokers["state"] == "DEAD")))
    text = "dead: its replicas are offline; restart it"
    if not listed:
        text = "seems dead: it leads nothing, is in sync nowhere and reports nothing; see whether it is up"
    return [Finding("critical", f"broker {broker}", text, ("brokers", (broker,)), cause=DEAD) for broker in dead]


def failed_directories(directories: pl.DataFrame) -> list[Finding]:
    """Return a finding for each failed log directory in rows of ``DIRECTORIES``."""
    failed = directories.drop_nulls("error").select("broker", "log_dir", "error").unique()
    return [
        Finding(
            "severe", f"log directory {path} of broker {broker}",
            f"failed ({error.rpartition('.')[2]}): its replicas are offline; replace the disk and restart the broker",
        )
        for broker, path, error in failed.sort("broker", "log_dir").iter_rows()
    ]  # fmt: skip


def full_directories(directories: pl.DataFrame, brokers: pl.DataFrame, limit: float) -> list[Finding]:
    """Return a finding for each log directory in rows of ``DIRECTORIES`` that is fuller than ``limit`` (%), the fullest first,
    unless the disk of its broker in rows of ``BROKERS`` is judged and is this directory alone."""
    judged = brokers.filter(pl.col("disk_pct").is_finite())["broker"].implode()
    several = pl.len().over("broker") > 1
    full = directories.filter((pl.col("source") == "reported") & (several | ~pl.col("broker").is_in(judged)))
    rows = full.filter(pl.col("disk_pct") > limit).sort(
        "disk_pct", "broker", "log_dir", descending=[True, False, False]
    )
    return [
        Finding(
            "severe", f"log directory {row['log_dir']} of broker {row['broker']}",
            f"{row['disk_pct']:.1f}% of {row['capacity_mb']:,.0f} MB used, limit {limit:g}%; a full directory fails: move "
            "replicas to another one, shorten retention or add disks",
            ("directories", (row["broker"], row["log_dir"], row["source"])),
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip


def answer(brokers: pl.DataFrame, findings: Sequence[Finding]) -> str:
    """Return the most useful sentence: the first of ``findings`` that is critical, on a log directory, or says why loads are
    unknown.

    Without one it names the broker (of rows of ``BROKERS``) that uses most of its CPU; empty if that is unknown.
    """
    first = next((one for one in findings if one.level == "critical"), None) or next(
        (one for one in findings if one.subject.startswith("log directory") or one.subject.endswith("unknown")), None
    )
    if first is not None:
        return f"{first.subject}: {first.text}"
    known = brokers.filter(pl.col("cpu_pct").is_finite()).sort("cpu_pct", descending=True)
    if known.is_empty():
        return ""
    row = known.row(0, named=True)
    cores = f" of {row['cores']:g} core{'' if row['cores'] == 1 else 's'}" if row["cores"] else ""
    room, left = row["headroom_pct"], ""
    if room is not None:
        left = f"; {abs(room):.1f}% {'left' if room >= 0 else 'over the threshold'} ({row['tightest']})"
    return f"broker {row['broker']} uses most CPU: {row['cpu_pct']:.1f}%{cores}{left}"


def of_brokers(brokers: pl.DataFrame) -> list[Headline]:
    """Return headline numbers from rows of ``BROKERS``, used without a model."""
    own = brokers.filter(pl.col("source") != "upstream")
    brokers = own if own.height else brokers  # an answer may be of other brokers
    dead = brokers.filter(pl.col("state") == "DEAD").height
    alive = f"{brokers.height - dead}/{brokers.height} alive" if dead else str(brokers.height)
    shown = [Headline("brokers", alive, level="critical" if dead else "")]
    busiest = brokers.with_columns(
        cpu=pl.coalesce("cpu_pct", "measured_cpu_pct"), name=pl.coalesce("host", pl.col("broker").cast(pl.String))
    )
    for label, column in (("most CPU", "cpu"), ("fullest disk", "disk_pct")):
        worst = busiest.drop_nulls(column).sort(column, descending=True, maintain_order=True).head(1)
        shown += [Headline(label, f"{row[column]:.1f}% of {row['name']}") for row in worst.iter_rows(named=True)]
    return shown


def _headline(model: Model, cluster: Cluster, builder: ResultBuilder, over: str) -> None:
    """Add the headline; ``over`` names the brokers over capacity, worst news first."""
    summary, topology, total = builder.summary, model.topology, model.aggregate
    span = f"{plural(len(total.windows), 'window')} of {total.window_ms / 60000:g} min"
    cpu, skipped = summary["cpu_utilization_pct"], summary["skipped_partitions"]
    violated, hard = summary["violated_goals"], summary["violated_hard_goals"]
    undecided, score = builder.frames["goals"]["violated"].null_count(), summary["balancedness_score"]
    builder.headline += [
        Headline(
            "brokers",
            f"{int(topology.alive.sum())}/{topology.brokers} alive",
            plural(topology.size, "partition"),
            "critical" if summary["dead_brokers"] else "ok",
        ),
        Headline(
            "over capacity",
            "?" if cluster.missing and not over else str(summary["brokers_over_capacity"]),
            over or cluster.missing,
            "severe" if over else "" if cluster.missing else "ok",
        ),
        Headline("CPU", _mean_cpu(cluster) if cpu is None else f"{cpu:.1f}%", f"of the alive brokers, {span}"),
        Headline(
            "goals",
            f"{violated} violated, {hard} hard" + (f", {undecided} undecided" if undecided else ""),
            f"balancedness {'unknown' if score is None else format(score, '.1f')}",
            "severe" if hard else "moderate" if violated else "" if undecided else "ok",
        ),
        Headline(
            "coverage",
            f"{summary['monitored_partitions_percentage']:.1f}%",
            f"{plural(skipped, 'partition')} without a sample",
            "moderate" if skipped else "ok",
        ),
    ]


def _mean_cpu(cluster: Cluster) -> str:
    """Return the mean CPU of live brokers whose cores are unknown."""
    mean = cluster.total("CPU") / max(int(cluster.topology.alive.sum()), 1)
    return "–" if "CPU" in cluster.unknown or cluster.lacking or math.isnan(mean) else f"{mean:.0f}% of one core"


def _notes(model: Model, parameters: BrokerLoadParameters, builder: ResultBuilder) -> None:
    topology, total = model.topology, model.aggregate
    most = max((window.most for window in total.windows), default=0)
    rows = topology.size * len(total.windows)
    told = (
        (
            not total.enough and topology.size,
            "Cruise Control would answer: not enough valid windows; the newest window with samples is still shown",
        ),
        (
            0 < most < parameters.min_samples,
            f"no window has min-samples ({parameters.min_samples}) samples of a partition: all values count as extrapolated",
        ),
        ("windows" not in builder.frames, f"the table windows is left out: {rows:,} rows are more than max-rows"),
        (model.synthetic, "no topology: each partition is shown with its leader only"),
        (not topology.racks_known and topology.brokers, goals.RACKS_UNKNOWN),
        (model.history.unknown, model.history.unknown),
    )
    builder.notes += [text for holds, text in told if holds]


_SOURCES = ("source", ("model", "measured", "reported", "upstream"))
_BROKER = {"broker": "broker", "host": "host", "rack": "rack"}


def _broker(name: str, column: str, meaning: str, factor: float) -> Gauge:
    return Gauge(f"broker_{name}", "brokers", column, meaning, _BROKER, factor, each=True, only=_SOURCES)


GAUGES = (
    _broker("cpu_ratio", "cpu_pct", "CPU of the broker as modelled, of all its cores.", PERCENT),
    _broker("cpu_measured_ratio", "measured_cpu_pct", "CPU of the broker as measured, of all its cores.", PERCENT),
    _broker("disk_bytes", "disk_mb", "Bytes of all replicas on the broker.", MB),
    _broker("leader_in_bytes_per_second", "leader_nw_in_kbs", "Bytes in of the replicas it leads.", KB),
    _broker("follower_in_bytes_per_second", "follower_nw_in_kbs", "Bytes in of the replicas it follows.", KB),
    _broker("out_bytes_per_second", "nw_out_kbs", "Bytes out to consumers and followers.", KB),
    _broker("potential_out_bytes_per_second", "pnw_out_kbs", "Bytes out if it led all its replicas.", KB),
    _broker("capacity_disk_bytes", "disk_cap_mb", "Disk capacity.", MB),
    _broker("capacity_in_bytes_per_second", "nw_in_cap_kbs", "Network-in capacity.", KB),
    _broker("capacity_out_bytes_per_second", "nw_out_cap_kbs", "Network-out capacity.", KB),
    _broker("headroom_ratio", "headroom_pct", "Distance of the fullest resource to its threshold, of the capacity.", PERCENT),
    _broker("leaders", "leaders", "Replicas it leads.", 1.0),
    _broker("replicas", "replicas", "Replicas on it.", 1.0),
    Gauge("broker_goal_violated", "goals", "violated", "1 where a goal is violated.", {"goal": "goal"}, each=True),
    Gauge("broker_single_failure_survivable", "failures", "survivable",
          "1 where the rest can carry the load when this broker or rack dies.", {"failure": "failure"}, each=True),
    Gauge("topic_cpu_cores", "topics", "cpu_pct_cores", "CPU of all replicas of the topic.", {"topic": "topic"}, PERCENT,
          adds=True),
    Gauge("topic_in_bytes_per_second", "topics", "nw_in_kbs", "Bytes in of all replicas of the topic.", {"topic": "topic"}, KB,
          adds=True),
    Gauge("topic_disk_bytes", "topics", "disk_mb", "Bytes of all replicas of the topic.", {"topic": "topic"}, MB, adds=True),
)  # fmt: skip
