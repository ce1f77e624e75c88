"""Stored blocks as the history server counts them: memory, disk and number of blocks of each executor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from engine.job_heuristics.spark.model.app import Executor, Stored


@dataclass
class _Rdd:
    """State of a stored RDD: executors of each block, and memory by executor."""

    holders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    used: dict[str, int] = field(default_factory=dict)
    memory: int = 0
    disk: int = 0


class Blocks:
    """Follows block updates like the history server: repeated updates add again, drops subtract, nothing falls below
    0."""

    def __init__(self, stages: pl.DataFrame) -> None:
        """``stages``: SPARK_STAGES rows; an RDD is known once a submitted stage declares it as stored."""
        known = stages.filter((pl.col("event") == "SUBMITTED") & pl.col("cached").is_not_null())
        self._since: dict[int, int] = {}
        for seq, cached in known.select("seq", "cached").iter_rows():
            for number in cached.split(","):
                self._since.setdefault(int(number), seq)
        self._rdds: dict[int, _Rdd] = {}
        self.stored: dict[int, Stored] = {}
        """Peak contents of each RDD, including those no longer stored."""

    def follow(self, seq: int, row: Mapping[str, Any], active: Mapping[str, Executor], one: Executor | None) -> None:
        """Process one row of SPARK_BLOCKS. ``one``: its executor if active; ``active``: all executors, for a whole
        RDD."""
        if row["block"] is None:
            self._forget(row["rdd"], active)
            return
        memory = row["memory"] or 0
        if one is not None:
            one.memory_used = max(0, one.memory_used + memory)
        number = row["rdd"]
        if number is None or self._since.get(number, seq) >= seq:
            return
        rdd = self._rdds.setdefault(number, _Rdd())
        name, holders = row["executor"], rdd.holders[row["block"]]
        self._remember(number, rdd, row)
        change = int(row["stored"] and name not in holders) - int(not row["stored"] and name in holders)
        (holders.add if row["stored"] else holders.discard)(name)
        if one is not None:
            one.rdd_blocks += change
            if one.rdd_blocks > 0:
                rdd.used[name] = max(0, rdd.used.get(name, 0) + memory)
            else:
                rdd.used.pop(name, None)

    def _remember(self, number: int, rdd: _Rdd, row: Mapping[str, Any]) -> None:
        """Update the peak contents of an RDD and its dropped blocks."""
        rdd.memory, rdd.disk = max(0, rdd.memory + (row["memory"] or 0)), max(0, rdd.disk + (row["disk"] or 0))
        was, held = self.stored.get(number, Stored()), bool(rdd.holders[row["block"]])
        self.stored[number] = Stored(
            max(was.memory, rdd.memory), max(was.disk, rdd.disk), was.blocks + int(row["stored"] and not held),
            was.dropped + int(held and not row["stored"]),
        )  # fmt: skip

    def _forget(self, number: int, active: Mapping[str, Executor]) -> None:
        """Remove a whole RDD from the executors that hold it."""
        rdd = self._rdds.pop(number, _Rdd())
        for name in (name for holders in rdd.holders.values() for name in holders if name in active):
            active[name].rdd_blocks -= 1
        for name in rdd.used.keys() & active.keys():
            active[name].memory_used = max(0, active[name].memory_used - rdd.used[name])
