"""Topology as arrays."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.model import topology
from engine.broker_load.tables.inputs import TOPOLOGY
from engine.core.view import FILE
from tests.chance import tries
from tests.engine.broker_load.random_clusters import clusters


@tries(12)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_partition_lists_are_the_marked_replicas(cluster: Cluster, seed: int) -> None:
    made = cluster.topology
    marks = np.random.default_rng(seed).random(made.replicas.shape) < 0.5
    for flags in (None, marks, np.zeros_like(marks)):
        wanted = made.held if flags is None else made.held & flags
        expected = [made.ids[row[take]].tolist() for row, take in zip(made.replicas, wanted, strict=True)]
        got = made.partition_lists(flags)
        assert got.dtype == pl.List(pl.Int32)
        assert got.to_list() == expected


ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=25)


@tries(20)
@given(ROWS, st.sets(st.integers(-1, 7), min_size=1))
def test_descriptions_in_one_pass_are_those_of_each_moment(
    given_rows: list[tuple[int, int, int]], moments: set[int]
) -> None:
    """Any descriptions, in any order of time, whole or in part, with partitions described twice."""
    times, numbers, leaders = (list(column) for column in zip(*given_rows, strict=True))
    some = [[leader, 5] for leader in leaders]
    columns = {"time_ms": times, "topic": [f"t{n % 2}" for n in numbers], "partition": numbers, "leader": leaders,
               "replicas": some, "isr": some, "offline": [[]] * len(some)}  # fmt: skip
    rows = TOPOLOGY.frame(columns).with_columns(pl.Series(FILE, times, dtype=pl.UInt32))
    found = dict(topology.newest_at(rows, moments))
    assert list(found) == sorted(moments)
    for moment, frame in found.items():
        assert frame.drop("time_ms", FILE).equals(topology.newest(rows, moment).drop("time_ms", FILE))
