"""Topology as arrays."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.broker_load.cruise_control.cluster_model import Cluster
from tests.engine.broker_load.random_clusters import clusters


@settings(max_examples=60, deadline=None)
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
