"""What every single loss of a broker or rack leaves behind, on top of what has failed or moved in a what-if."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.insight import failover
from engine.broker_load.insight.failover import Aftermath
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables import whatif
from engine.core.units import plural
from engine.core.view import Finding, Headline, Level

BROKER_LIMIT = 3000  # most brokers for which every single failure is computed: arrays grow with their square
MATRIX_LIMIT = 250  # most brokers for which the rolling-restart matrix is computed: its rows grow with their square
GROUP_LIMIT = 64  # most racks whose loss is computed

UNPLACED = "nothing names the brokers of their followers: run kafka-topics --describe"

Row = dict[str, Any]  # a row of result table ``failures``


class Losses(msgspec.Struct, frozen=True, eq=False):
    """Every single loss: ``rows`` of the table ``failures``, worst first; ``rolling``: table ``rolling_restart`` (None: too many
    brokers); ``leaderless``: partitions that have no leader already; ``missing``: what is not known, in words."""

    rows: tuple[Row, ...]
    rolling: pl.DataFrame | None
    leaderless: int
    missing: str

    def of(self, kind: str) -> list[Row]:
        """Return the rows on losses of one ``kind``: ``broker``, ``rack`` or ``host``."""
        return [row for row in self.rows if row["failure"].startswith(kind + " ")]


def find(cluster: Cluster, parameters: BrokerLoadParameters) -> Losses | None:
    """Return what every single loss leaves behind; None if there are too many brokers."""
    topology = cluster.topology
    if topology.brokers > BROKER_LIMIT:
        return None
    failures = failover.singles(cluster, parameters)
    room = failover.single_headroom(cluster, failures, parameters)
    rows = [
        {
            "failure": f"broker {topology.ids[index]}",
            "moved": int(failures.moved[index]),
            "leaderless": int(failures.leaderless[index]),
            "unclean": int(failures.unclean[index]),
            "under_min_isr": int(failures.under[index]),
            **room[index],
        }
        for index in np.flatnonzero(topology.alive).tolist()
    ]
    names, index = topology.racks_index
    kind = "rack" if topology.racks_known else "host"
    sizes = np.bincount(index[topology.alive], minlength=len(names)) if topology.brokers else np.empty(0, np.int64)
    if len(names) < topology.brokers and len(names) <= GROUP_LIMIT:
        for place, name in enumerate(names):
            if 1 < sizes[place] < topology.alive.sum():
                aftermath = failover.after(cluster, (index == place) & topology.alive, parameters)
                rows.append(outcome(cluster, aftermath, f"{kind} {name}", parameters))
    rows.sort(key=_badness)
    rolling = failover.rolling(cluster, failures, parameters) if topology.brokers <= MATRIX_LIMIT else None
    return Losses(tuple(rows), rolling, int((topology.leader < 0).sum()), cluster.missing)


def outcome(cluster: Cluster, aftermath: Aftermath, name: str, parameters: BrokerLoadParameters) -> Row:
    """Return the row of result table ``failures`` for the failure called ``name``."""
    election, loads = aftermath.election, {name: aftermath.sums.raw(name) for name in RESOURCES}
    stops, hides = election.moved & (election.new < 0), cluster.topology.hidden[election.rows] > 0
    leaderless, unsure = (int((stops & flags).sum()) for flags in (~hides, hides))
    return {
        "failure": name,
        "moved": int((election.moved & (election.new >= 0)).sum()),
        "leaderless": leaderless,
        "unclean": int((election.moved & election.unclean).sum()),
        "under_min_isr": int((election.under & ~election.under_before).sum()),
        **failover.headroom(cluster, aftermath.failed, loads, leaderless, unsure, parameters),
    }


def _badness(row: Row) -> tuple[float, ...]:
    room = math.inf if row["headroom_pct"] is None else row["headroom_pct"]
    return (
        -row["leaderless"],
        -row["unsure"],
        -row["over"],
        -row["newly_over"],
        -row["under_min_isr"],
        room,
        -row["moved"],
    )


def level(row: Row) -> Level:
    """Return the level of a loss; with partitions under min.insync.replicas, producers with acks=all stop."""
    if row["survivable"] is False:
        return "severe"
    return "moderate" if row["under_min_isr"] else "" if row["survivable"] is None else "ok"


def in_words(row: Row) -> str:
    """Describe a loss: partitions without a leader or enough in-sync replicas, brokers over capacity, and the headroom."""
    words = [plural(row["leaderless"], "partition") + " without a leader"] if row["leaderless"] else []
    words += [under(row)] if row["under_min_isr"] > row["leaderless"] else []
    words += [unsure(row)] if row["unsure"] else []
    if row["survivable"] is None and not row["unsure"]:
        words.append("the load of the survivors is unknown")
    elif row["over"] or not words:
        words.append(over(row))
    if row["worst"] and not row["leaderless"]:
        words.append(f"headroom {row['headroom_pct']:.1f}% ({row['worst']})")
    return "; ".join(words)


def under(row: Row) -> str:
    """Return how many partitions a loss puts under min.insync.replicas."""
    return plural(row["under_min_isr"], "partition") + " under min ISR"


def unsure(row: Row) -> str:
    """Return for how many partitions nothing places the replica that may lead after a loss."""
    return f"whether {plural(row['unsure'], 'partition')} keep{'s' if row['unsure'] == 1 else ''} a leader is unknown"


def over(row: Row) -> str:
    """Return how many survivors are over a capacity threshold after a loss."""
    return f"{row['over']} over capacity" + (f" ({row['newly_over']} new)" if row["over"] else "")


def remedy(row: Row) -> str:
    """Return what makes a loss survivable."""
    words = []
    if row["leaderless"]:
        one = row["failure"].partition(" ")[0]
        words.append(f"give each a second in-sync replica on another {one if one in ('rack', 'host') else 'broker'}")
    if row["over"]:
        words.append("move load off the fullest brokers or add brokers")
    return "; ".join(words)


def tell(losses: Losses | None, builder: ResultBuilder, on_top: bool) -> None:
    """Add tables ``failures`` (worst first) and ``rolling_restart``, their summary values, findings and headline.

    ``on_top``: the losses come on top of a what-if, whose findings are its own.
    """
    builder.summary |= {
        "unsurvivable_single_failures": None, "n_plus_1_headroom_pct": None, "worst_single_failure": None,
    }  # fmt: skip
    if losses is None:
        builder.notes.append(f"single failures are left out: there are more than {BROKER_LIMIT} brokers")
        return
    frame = {name: [row[name] for row in losses.rows] for name in whatif.FAILURES.schema}
    builder.frames["failures"] = whatif.FAILURES.frame(frame)
    if losses.rolling is not None:
        builder.frames["rolling_restart"] = losses.rolling
    if not losses.rows:
        return
    lost = [row for row in losses.rows if row["survivable"] is False]
    stops = [row for row in losses.rows if row["survivable"] is not False and row["under_min_isr"]]
    percents = [row["headroom_pct"] for row in losses.rows if row["headroom_pct"] is not None]
    builder.summary["unsurvivable_single_failures"] = len(lost)
    builder.summary["n_plus_1_headroom_pct"] = min(percents) if percents else None
    builder.summary["worst_single_failure"] = f"{losses.rows[0]['failure']}: {in_words(losses.rows[0])}"
    builder.headline.append(_headline(losses, lost, stops, on_top))
    if not on_top:
        builder.findings += _findings(losses, lost, stops)


def _headline(losses: Losses, lost: list[Row], stops: list[Row], on_top: bool) -> Headline:
    """Return the verdict on all losses; ``lost``: those not survived, ``stops``: those that stop producers."""
    worst, label = losses.rows[0], "one more failure" if on_top else "single failure"
    of = [f"{len(rows)} of {plural(len(losses.of(kind)), kind)}" for kind in ("broker", "rack", "host")
          if (rows := [row for row in lost if row["failure"].startswith(kind + " ")])]  # fmt: skip
    basis = f"worst: {worst['failure']}"
    if lost:
        return Headline(label, f"{', '.join(of)} not survivable", basis, "severe")
    if losses.leaderless:
        return Headline(label, f"{plural(losses.leaderless, 'partition')} lost already", basis, "critical")
    if worst["unsure"]:
        return Headline(label, unsure(worst), UNPLACED, "moderate" if stops else "")
    if any(row["survivable"] is None for row in losses.rows):
        return Headline(label, "leaders survive, load unknown", losses.missing, "moderate" if stops else "")
    if stops:
        return Headline(label, f"{len(stops)} of {len(losses.rows)} under min ISR", basis, "moderate")
    return Headline(label, "each survivable", basis, "ok")


def _findings(losses: Losses, lost: list[Row], stops: list[Row]) -> list[Finding]:
    found = [
        Finding(
            "severe", f"loss of {row['failure']}", f"not survivable: {in_words(row)}; {remedy(row)}",
            ("failures", (row["failure"],)), cause="single losses",
        )
        for row in lost
    ]  # fmt: skip
    if losses.rows[0]["unsure"] and not lost:
        found.append(Finding("moderate", "single failures", f"{unsure(losses.rows[0])}: {UNPLACED}"))
    if stops:
        most = max(stops, key=lambda row: row["under_min_isr"])
        text = f"{len(stops)} of {len(losses.rows)} single failures would stop producers with acks=all, most: "
        text += f"{most['failure']}, {under(most)}; add in-sync replicas or lower min.insync.replicas"
        found.append(Finding("moderate", "min.insync.replicas", text, ("failures", (most["failure"],))))
    return found
