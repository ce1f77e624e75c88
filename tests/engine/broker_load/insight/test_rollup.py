"""Sums by host, rack and topic where a broker's capacity is unknown or its CPU reading is odd."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.core.view import Result
from tests.engine.broker_load.clusters import Cluster, simple
from tests.engine.broker_load.inputs import compute, read


def together(folder: Path) -> Cluster:
    """Brokers 1 and 2 on one host of rack x, broker 3 elsewhere."""
    made = simple(folder)
    made.hosts, made.racks = {1: "h", 2: "h"}, {1: "x", 2: "x"}
    return made


def rows(result: Result, table: str) -> dict[str, dict[str, float | None]]:
    """Rows of a table by their first column."""
    return {str(next(iter(row.values()))): row for row in result.tables[table].iter_rows(named=True)}


def with_cpu(made: Cluster, broker: int, cpu: float) -> Result:
    """The cluster with another CPU reading of ``broker``."""
    made.rows = [
        (*row[:5], cpu) if row[1:3] == ("BROKER_CPU_UTIL", broker) else row for row in made.rows
    ]  # fmt: skip
    return compute(read(made.write()), ("min-samples", "1"))


def test_unknown_capacity_of_one_broker_is_unknown_of_its_host_and_rack(tmp_path: Path) -> None:
    """The other broker's share is not shown as the total."""
    made = together(tmp_path)
    default = made.capacity.pop("-1")
    made.capacity |= {"1": default, "3": default}
    result = compute(read(made.write()), ("min-samples", "1"))
    assert rows(result, "brokers")["1"]["cpu_pct"] is not None and rows(result, "brokers")["2"]["cores"] is None
    for table, name in (("hosts", "h"), ("racks", "x")):
        row = rows(result, table)[name]
        assert [row[column] for column in ("cores", "cpu_pct", "disk_pct")] == [None] * 3, table
        assert row["leaders"] == 2
    assert rows(result, "hosts")["host-3"]["cores"] == rows(result, "racks")["rack-3"]["cores"] == 8


def test_negative_reading_lowers_the_rack_and_no_sum_is_below_zero(tmp_path: Path) -> None:
    """A broker below 0 shows 0 and takes from its rack; a topic below 0 shows 0."""
    result = with_cpu(together(tmp_path), 2, -0.125)
    replicas = result.tables["replicas"]
    own = replicas["cpu_pct_cores"].filter((replicas["topic"] == "t") & (replicas["broker"] == 1)).item()
    assert rows(result, "brokers")["2"]["cpu_pct"] == 0
    followed = 400 * 0.15 / (0.7 + 0.15 * 3)  # broker 2 follows t; 100 KB/s in, and 300 out with the replication
    assert rows(result, "racks")["x"]["cpu_pct"] == pytest.approx((own + followed - 100) / 16)
    assert rows(result, "topics")["u"]["cpu_pct_cores"] == 0


def test_a_nan_reading_is_not_zero_in_the_rack(tmp_path: Path) -> None:
    """Sums with a NaN are unknown."""
    result = with_cpu(together(tmp_path), 2, math.nan)
    assert rows(result, "racks")["x"]["cpu_pct"] is None
    assert rows(result, "racks")["rack-3"]["cpu_pct"] is None  # it follows u
