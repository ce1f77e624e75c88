"""Result tables of brokers, hosts, racks and topics."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.broker_stats import load_columns
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import broker_checks
from engine.broker_load.model.measured import cpu_trend
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables import loads as tables
from engine.broker_load.tables.columns import known


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
    by_window = [one.runs if one is not None else () for one in model.used]
    trend = cpu_trend(by_window, model.topology, model.capacities.cores)
    measured, residual = broker_checks.cpu_residuals(model, cluster)
    columns = who(cluster) | load_columns(cluster, cluster.sums)
    everyone = np.ones(cluster.topology.brokers, np.bool_)
    raw = {resource: cluster.sums.raw(resource) for resource in RESOURCES}
    nearest = broker_checks.tightest(cluster, raw, everyone, parameters)
    columns |= {
        "headroom_pct": known("h", nearest.headroom),
        "tightest": nearest.resource,
        "flags": broker_checks.flags(model, cluster, parameters),
        "measured_cpu_pct": known("m", measured),
        "residual_cpu_pct": known("r", residual),
        "residual_reason": broker_checks.residual_reasons(model, cluster, residual),
        "nw_in_cap_kbs": known("i", cluster.capacity("NW_IN")),
        "nw_out_cap_kbs": known("o", cluster.capacity("NW_OUT")),
        "disk_cap_mb": known("d", cluster.capacity("DISK")),
        "capacity_estimated": cluster.capacities.estimated,
        "source": ["model"] * cluster.topology.brokers,
        "cpu_trend": pl.Series("cpu_trend", trend, dtype=pl.List(pl.Float64)),
    }
    return tables.BROKERS.frame(columns)
