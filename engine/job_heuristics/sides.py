"""The numbers behind every verdict: sums, averages, medians and the two-group split, per job and side.

All jobs at once, in NumPy over segments (``bincount`` adds doubles in the order of rows, as upstream does).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

Array = np.ndarray[Any, Any]

NO_CPU_RATIO = 2.1
"""Upstream's constant for yarn.nodemanager.vmem-pmem-ratio."""
MB = 2**20
_COUNTED = ("cpu_ms", "gc_ms", "physical_bytes", "virtual_bytes", "spilled_records", "map_output_records",
            "reduce_shuffle_bytes")  # fmt: skip


def truncated(values: Array) -> Array:
    """Doubles cast to 64-bit integers as Java does: toward zero, NaN to 0, out of range to the nearest end."""
    clipped = np.clip(np.nan_to_num(values, nan=0.0, posinf=2.0**63, neginf=-(2.0**63)), -(2.0**63), 2.0**63)
    big = clipped >= 2.0**63
    return np.where(big, np.int64(2**63 - 1), np.where(big, 0.0, clipped).astype(np.int64))


def divided(a: Array, b: Array) -> Array:
    """Integer division toward zero; ``b`` must not hold 0."""
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


class Segments:
    """Rows that belong to numbered segments."""

    def __init__(self, segment: Array, count: int) -> None:
        self.segment = segment
        self.count = count
        self.size: Array = np.bincount(segment, minlength=count).astype(np.int64)

    def sum(self, values: Array) -> Array:
        """Sum in double, in the order of rows."""
        return np.bincount(self.segment, weights=values.astype(np.float64), minlength=self.count)

    def whole(self, values: Array) -> Array:
        """Exact integer sum."""
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self.segment, values)
        return total

    def average(self, values: Array) -> Array:
        """Upstream's average: sum in double, divided, truncated; 0 without rows."""
        return self._mean(self.sum(values), self.size)

    @staticmethod
    def _mean(total: Array, count: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return truncated(total / count)

    def largest(self, values: Array, empty: int) -> Array:
        """Largest value; ``empty`` without rows."""
        out = np.full(self.count, np.iinfo(np.int64).min)
        np.maximum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def smallest(self, values: Array, empty: int) -> Array:
        """Smallest value; ``empty`` without rows."""
        out = np.full(self.count, np.iinfo(np.int64).max)
        np.minimum.at(out, self.segment, values)
        return np.where(self.size > 0, out, empty)

    def median(self, values: Array) -> Array:
        """Median; of an even count the truncated mean of the middle two; 0 without rows."""
        order = np.lexsort((values, self.segment))
        ranked = values[order]
        start = np.concatenate(([0], np.cumsum(self.size)[:-1]))
        if not len(ranked):
            return np.zeros(self.count, dtype=np.int64)
        last = len(ranked) - 1
        low = ranked[np.minimum(start + np.maximum(self.size - 1, 0) // 2, last)]
        high = ranked[np.minimum(start + self.size // 2, last)]
        total = low + high
        middle = np.where(self.size % 2 == 1, low, divided(total, np.full_like(total, 2)))
        return np.where(self.size > 0, middle, 0)

    def ranked(self, values: Array, share: Array) -> Array:
        """Percentile by nearest rank: the value at place ceil(n x share); 0 for a share of 0 or without rows."""
        order = np.lexsort((values, self.segment))
        start = np.concatenate(([0], np.cumsum(self.size)[:-1]))
        place = np.ceil(self.size * np.clip(share, 0.0, 1.0)).astype(np.int64)
        if not len(order):
            return np.zeros(self.count, dtype=np.int64)
        found = values[order][np.clip(start + place - 1, 0, len(order) - 1)]
        return np.where((self.size > 0) & (place > 0), found, 0)

    def two_groups(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Upstream's split into group A (below the middle) and B: sizes and averages (na, a, nb, b).

        Three splits: by the mean, then twice by the *difference* of the two groups' averages (an upstream quirk).
        """
        total = self.sum(values)
        middle = self._mean(total, self.size)
        for step in range(3):
            below = values < middle[self.segment]
            segment = self.segment[below]
            na = np.bincount(segment, minlength=self.count).astype(np.int64)
            sum_a = np.bincount(segment, weights=values[below].astype(np.float64), minlength=self.count)
            above = ~below
            sum_b = np.bincount(self.segment[above], weights=values[above].astype(np.float64), minlength=self.count)
            nb = self.size - na
            a, b = self._mean(sum_a, na), self._mean(sum_b, nb)
            if step < 2:
                middle = b - a
        return na, a, nb, b

    def two_means(self, values: Array, rounds: int = 32) -> tuple[Array, Array, Array, Array]:
        """The seed's split, by recursive averages: the middle is the mean of the two groups' means, until it stays."""
        size = self.size
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.nan_to_num(self.sum(values) / size)
        na = a = nb = b = np.zeros(self.count)
        for _ in range(rounds):
            below = values < middle[self.segment]
            segment = self.segment[below]
            na = np.bincount(segment, minlength=self.count).astype(np.int64)
            sum_a = np.bincount(segment, weights=values[below].astype(np.float64), minlength=self.count)
            nb = size - na
            sum_b = np.bincount(self.segment[~below], weights=values[~below].astype(np.float64), minlength=self.count)
            with np.errstate(divide="ignore", invalid="ignore"):
                a, b = np.nan_to_num(sum_a / na), np.nan_to_num(sum_b / nb)
            step = np.where((na > 0) & (nb > 0), (a + b) / 2, middle)
            if np.array_equal(step, middle):
                break
            middle = step
        return na, truncated(a), nb, truncated(b)


def measure(jobs: pl.DataFrame, tasks: pl.DataFrame, slow_start: Array) -> pl.DataFrame:
    """One row per job and side (``job_id``, ``side``: map then reduce; jobs in the order of ``jobs``).

    ``tasks``: TASK_MODEL rows of those jobs. Of a job that has not ended well or badly only the ended tasks count.
    ``slow_start``: per job, the share of finished maps at which its reduces may begin (the seed's wait uses it).
    Times in ms, sizes in bytes; ``a``/``b`` are upstream's two groups (``na``/``nb`` their sizes) of data and time.
    """
    names = jobs["job_id"]
    count = 2 * len(names)
    index = pl.DataFrame({"job_id": names, "job": np.arange(len(names), dtype=np.int64), "job_state": jobs["state"]})
    rows = tasks.join(index, on="job_id", how="inner", maintain_order="left").filter(
        pl.col("job_state").is_in(["SUCCEEDED", "FAILED"]) | (pl.col("state") != "RUNNING")
    )
    segment = (rows["job"] * 2 + (rows["side"] != "map").cast(pl.Int64)).to_numpy()
    n = np.bincount(segment, minlength=count).astype(np.int64)
    timed = rows["timed"].to_numpy()
    ended = (rows["state"] != "RUNNING").to_numpy()
    ours = (rows["timed"] & rows["fallback"]).to_numpy()
    rows = rows.filter(pl.col("timed"))
    s = Segments(segment[timed], count)
    wanted = ("total_ms", "shuffle_ms", "sort_ms", "finish_ms", "input_bytes", *_COUNTED)
    v: dict[str, Array] = {name: rows[name].fill_null(0).to_numpy() for name in wanted}
    total = v["total_ms"]
    seconds = divided(total, np.full_like(total, 1000))
    peak = np.maximum(v["physical_bytes"] // MB, truncated((v["virtual_bytes"] // MB) / NO_CPU_RATIO))
    is_map = (s.segment & 1) == 0
    data = np.where(is_map, v["input_bytes"], v["reduce_shuffle_bytes"])
    moving = total != 0
    speed = Segments(s.segment[moving], count)
    speeds = divided(1000 * v["input_bytes"][moving], total[moving])
    code = total - v["shuffle_ms"] - v["sort_ms"]
    out: dict[str, Any] = {
        "job_id": np.repeat(names.to_numpy(), 2) if len(names) else [],
        "side": ["map", "reduce"] * len(names),
        "n": n,
        "ended": np.bincount(segment[ended], minlength=count).astype(np.int64),
        "timed": s.size,
        "ours": np.bincount(segment[ours], minlength=count).astype(np.int64),
        "still": s.size - speed.size,
        "avg_total_ms": s.average(total),
        "max_total_ms": np.maximum(s.largest(total, 0), 0),
        "min_total_ms": s.smallest(total, 0),
        "longest_ms": s.largest(total, 0),
        "avg_shuffle_ms": s.average(v["shuffle_ms"]),
        "avg_sort_ms": s.average(v["sort_ms"]),
        "avg_code_ms": s.average(code),
        "avg_cpu_ms": s.average(v["cpu_ms"]),
        "avg_gc_ms": s.average(v["gc_ms"]),
        "avg_physical": s.average(v["physical_bytes"]),
        "max_physical": np.maximum(s.largest(v["physical_bytes"], 0), 0),
        "min_physical": s.smallest(v["physical_bytes"], 0),
        "avg_virtual": s.average(v["virtual_bytes"]),
        "sum_spilled": s.whole(v["spilled_records"]),
        "sum_output": s.whole(v["map_output_records"]),
        "sum_input": s.whole(v["input_bytes"]),
        "avg_input": s.average(v["input_bytes"]),
        "median_input": s.median(v["input_bytes"]),
        "median_total_ms": s.median(total),
        "median_speed": speed.median(speeds),
        "seconds": s.whole(seconds),
        "peak_mb": s.largest(peak, 0),
        "last_finish_ms": s.largest(v["finish_ms"], 0),
        "slow_finish_ms": s.ranked(v["finish_ms"], np.repeat(slow_start, 2)),
        "exact_ms": s.whole(total),
    }
    for level, minutes in enumerate((13, 13.5, 14, 14.5), 1):
        out[f"over_{level}"] = s.whole((total >= minutes * 60_000).astype(np.int64))
    for prefix, values in (("data", data), ("time", total)):
        for name, column in zip(("na", "a", "nb", "b"), s.two_groups(values), strict=True):
            out[f"{prefix}_{name}"] = column
        for name, column in zip(("na", "a", "nb", "b"), s.two_means(values), strict=True):
            out[f"seed_{prefix}_{name}"] = column
    # The seed's waste: per task, container minus that task's own peak.
    container = np.zeros(count, dtype=np.int64)
    container[0::2] = jobs["map_memory_mb"].to_numpy()
    container[1::2] = jobs["reduce_memory_mb"].to_numpy()
    out["seed_wasted"] = s.whole((container[s.segment] - peak) * seconds)
    return pl.DataFrame(out, schema_overrides={"job_id": pl.String, "side": pl.String})
