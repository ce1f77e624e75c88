"""Limits and provision by hand: three brokers of one host and rack each, with room for 100 of everything."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from engine.broker_load.cruise_control import goals
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.goals import Band
from engine.broker_load.model.topology import Broker
from engine.broker_load.parameters import BrokerLoadParameters
from tests.engine.broker_load.random_clusters import loaded

BROKERS = {number: Broker(f"h{number}", f"r{number}", True, True) for number in (1, 2, 3)}
PARAMETERS = BrokerLoadParameters()
HALF = (50.0, 50.0, 50.0)
"""Loads that are far from every limit."""


def three(**given: Sequence[float]) -> Cluster:
    """Three brokers, half full but for the sums ``given``."""
    resources = ("cpu", "disk", "nw_in", "nw_out", "pnw_out")
    return loaded([("t", 0, 1, [1, 2, 3])], BROKERS, **(dict.fromkeys(resources, HALF) | given))


def test_band_around_the_average() -> None:
    """Nine tenths of the threshold's margin on both sides."""
    found = goals.band(three(disk=(30, 40, 80)), "DISK", BrokerLoadParameters(disk_balance_threshold=1.5))
    assert (found.average, found.low) == (0.5, False)
    assert (found.lower, found.upper) == pytest.approx((0.5 * 0.55, 0.5 * 1.45))


@pytest.mark.parametrize(("threshold", "low"), [(0.5, True), (0.4999, False)])
def test_an_average_at_the_low_utilisation_threshold_is_low(threshold: float, low: bool) -> None:
    """No lower limit, and an upper one of at least nine tenths of that threshold."""
    found = goals.band(three(), "CPU", BrokerLoadParameters(low_utilization_threshold=threshold))
    assert found.low == low
    assert found.lower == (0.0 if low else pytest.approx(0.5 * 0.91))
    much = goals.band(three(), "CPU", BrokerLoadParameters(low_utilization_threshold=0.9))
    assert much == Band(0.5, 0.0, pytest.approx(0.81), True)


def test_a_load_at_its_limit_is_within_it() -> None:
    cluster = three(disk=(39.9, 40, 60.1), pnw_out=(79, 80, 80.1))
    limits = Band(average=0.5, lower=0.4, upper=0.6, low=False)
    assert goals.within(cluster, "DISK", limits).tolist() == [False, True, False]
    assert goals.within(three(disk=(60, 0, 0)), "DISK", limits).tolist() == [True, False, False]
    assert goals.potential_below(cluster, PARAMETERS).tolist() == [True, True, False]
    assert goals.over_capacity(three(disk=(80, 80.1, 0)), "DISK", PARAMETERS).tolist() == [False, True, False]
    assert goals.over_capacity(three(cpu=(70, 70.1, 0)), "CPU", PARAMETERS).tolist() == [False, True, False]


def test_brokers_of_one_host_are_compared_together() -> None:
    """CPU by the fuller of broker and host, network by the host, disk by the broker."""
    shared = BROKERS | {2: replace(BROKERS[1], listed=True)}
    cluster = loaded([("t", 0, 1, [1, 2, 3])], shared, cpu=(75, 5, 0), nw_in=(100, 10, 0), disk=(85, 5, 0))
    everyone = np.ones(3, np.bool_)
    found = {
        name: goals.usage(cluster, name, cluster.sums.raw(name), everyone, PARAMETERS)
        for name in ("CPU", "NW_IN", "DISK")
    }
    assert found["CPU"].share.tolist() == [0.75, 0.4, 0.0] and found["CPU"].over.tolist() == [True, False, False]
    assert found["NW_IN"].share.tolist() == [0.55, 0.55, 0.0] and not found["NW_IN"].over.any()
    assert found["DISK"].share.tolist() == [0.85, 0.05, 0.0] and found["DISK"].over.tolist() == [True, False, False]
    alone = goals.usage(cluster, "NW_IN", cluster.sums.nw_in, np.array([True, False, True]), PARAMETERS)
    assert alone.share.tolist() == [1.0, 1.0, 0.0] and alone.over.tolist() == [True, False, False]


def test_table_counts_and_names_brokers() -> None:
    cluster = three(cpu=(90, 20, 40), disk=(90, 85, 50), pnw_out=(90, 80, 81))
    rows = {row["resource"]: row for row in goals.table(cluster, PARAMETERS).iter_rows(named=True)}
    shown = {
        name: (row["balanced_brokers"], row["brokers_over_capacity_threshold"], row["low_utilization"])
        for name, row in rows.items()
    }
    assert shown == {
        "CPU": (0, "1", False), "NW_IN": (3, "", False), "NW_OUT": (3, "", False), "DISK": (0, "1|2", False),
        "POTENTIAL_NW_OUT": (1, "1|3", None),
    }  # fmt: skip
    nothing = {
        row["resource"]: row for row in goals.table(replace_room(cluster, 0.0), PARAMETERS).iter_rows(named=True)
    }
    assert nothing["DISK"]["balanced_brokers"] is None and nothing["DISK"]["low_utilization"] is None
    unknown = goals.table(replace_room(cluster, math.nan), PARAMETERS).row(4, named=True)
    assert unknown["balanced_brokers"] is None and unknown["brokers_over_capacity_threshold"] == ""


def replace_room(cluster: Cluster, room: float) -> Cluster:
    """The same loads on brokers of another ``room``."""
    rooms = {name: np.full(3, room) for name in ("cpu", "disk", "nw_in", "nw_out")}
    return replace(cluster, capacities=replace(cluster.capacities, **rooms))


def test_provision() -> None:
    """By the mean alone: the missing capacity over a broker's usable one, rounded up."""
    right = ("RIGHT_SIZED", "the cluster's mean load is within every threshold")
    assert goals.provision(three(), PARAMETERS) == right
    assert goals.provision(three(disk=(80, 80, 80)), BrokerLoadParameters(disk_capacity_threshold=0.8))[0] == right[0]
    # 280 − 0.8 · 300 = 40 of 80 usable: one more; 240 − 0.4 · 300 = 120 of 40 usable: three more.
    for limit, load, more in ((0.8, (100, 90, 90), 1), (0.4, (80, 80, 80), 3)):
        status, why = goals.provision(three(disk=load), BrokerLoadParameters(disk_capacity_threshold=limit))
        assert status == "UNDER_PROVISIONED"
        assert why == f"add at least {more} brokers: mean DISK is over its threshold (of capacity 100)"
    _, why = goals.provision(three(disk=(1e15, 0, 0)), PARAMETERS)
    assert "at least 2147483647 brokers" in why
    nothing_may_be_used = BrokerLoadParameters(disk_capacity_threshold=0.0)
    assert goals.provision(three(), nothing_may_be_used) == ("UNDER_PROVISIONED", "mean DISK is over its threshold")
    low = BrokerLoadParameters(low_utilization_threshold=0.1)
    status, why = goals.provision(three(nw_in=(10, 10, 10), disk=(0, 0, 0)), low)
    assert (status, why) == (
        "OVER_PROVISIONED",
        "the cluster's mean NW_IN, DISK is at or under the low-utilisation threshold",
    )
    assert goals.provision(replace_room(three(), math.nan), PARAMETERS)[0] == "UNDECIDED"
    one_rack = {number: replace(broker, rack="r1") for number, broker in BROKERS.items()}
    why = "3 replicas per partition need 3 racks, 1 have live brokers"
    assert goals.provision(loaded([("t", 0, 1, [1, 2, 3])], one_rack), PARAMETERS) == ("UNDER_PROVISIONED", why)
    assert goals.provision(loaded([("t", 0, -1, [1, 2, 3])], one_rack), low)[0] == "OVER_PROVISIONED"
