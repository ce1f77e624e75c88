"""Dr. Elephant's default limits as its documentation lists them, and how a gate reads a value at each of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.job_heuristics.dr_elephant.display import cut, details_json
from engine.job_heuristics.dr_elephant.gates import Subject, amount, severities
from engine.job_heuristics.dr_elephant.heuristic import shipped
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS

MINUTES = {"runtime_severity_in_min": (5, 10, 12, 15)}
SKEW = {
    "num_tasks_severity": (10, 50, 100, 200), "deviation_severity": (2, 4, 8, 16), "files_severity": (1 / 8, 1 / 4, 1 / 2, 1),
}  # fmt: skip
TIME = {
    "short_runtime_severity_in_min": (10, 4, 2, 1), "long_runtime_severity_in_min": (15, 30, 60, 120),
    "num_tasks_severity": (50, 101, 500, 1000),
}  # fmt: skip
MEMORY = {"memory_ratio_severity": (0.6, 0.5, 0.4, 0.3), "container_memory_severity": (1.1, 1.5, 2.0, 2.5)}
GC = {"gc_ratio_severity": (0.01, 0.02, 0.03, 0.04), **MINUTES}
DEFAULTS = {
    "Mapper Skew": SKEW, "Mapper GC": GC, "Mapper Time": TIME,
    "Mapper Speed": {"disk_speed_severity": (1 / 2, 1 / 4, 1 / 8, 1 / 32), "runtime_severity_in_min": (5, 10, 15, 30)},
    "Mapper Spill": {"spill_severity": (2.01, 2.2, 2.5, 3.0), "num_tasks_severity": (50, 100, 500, 1000)},
    "Mapper Memory": MEMORY, "Reducer Skew": SKEW, "Reducer GC": GC, "Reducer Time": TIME, "Reducer Memory": MEMORY,
    "Shuffle & Sort": {"runtime_severity_in_min": (1, 5, 10, 30), "runtime_ratio_severity": (1, 2, 4, 8)},
    "Exception": {}, "Distributed Cache Limit": {}, "Job Queue Limit": {},
}  # fmt: skip
NUMBERS = {
    "Mapper Memory": {"container_memory_default_mb": 2048}, "Reducer Memory": {"container_memory_default_mb": 2048},
    "Distributed Cache Limit": {"distributed.cache.file.size.limit": 524_288_000},
}  # fmt: skip


def test_limits_and_switches() -> None:
    assert {each.name: dict(each.limits) for each in HEURISTICS} == DEFAULTS
    assert {each.name: dict(each.numbers) for each in HEURISTICS if each.numbers} == NUMBERS
    assert [each.name for each in HEURISTICS if not each.default] == ["Job Queue Limit"]
    unscored = [each.name for each in HEURISTICS for branch in each.branches if not branch.scores]
    assert unscored == ["Mapper Skew", "Reducer Skew"]
    assert [each.name for each in HEURISTICS if not each.in_published] == ["Exception", "Distributed Cache Limit"]


MB, MINUTE = 2**20, 60_000


@pytest.mark.parametrize(
    ("name", "measures", "level"),
    [
        ("Mapper Time", {"n": 50, "avg_total_ms": 10 * MINUTE}, 1), ("Mapper Time", {"n": 49, "avg_total_ms": MINUTE}, 0),
        ("Mapper Time", {"n": 1000, "avg_total_ms": MINUTE}, 4), ("Mapper Time", {"n": 1, "avg_total_ms": 15 * MINUTE}, 1),
        ("Mapper Speed", {"median_speed": 50 * MB, "median_total_ms": 5 * MINUTE}, 1),
        ("Mapper Speed", {"median_speed": 50 * MB + 1, "median_total_ms": 5 * MINUTE}, 0),
        ("Mapper Speed", {"median_speed": 0, "median_total_ms": 30 * MINUTE}, 4),
        ("Reducer GC", {"avg_gc_ms": 1, "avg_cpu_ms": 100, "avg_total_ms": 5 * MINUTE}, 1),
        ("Reducer GC", {"avg_gc_ms": 1, "avg_cpu_ms": 0, "avg_total_ms": 15 * MINUTE}, 4),
        ("Reducer GC", {"avg_gc_ms": 0, "avg_cpu_ms": 0, "avg_total_ms": 15 * MINUTE}, 0),
        # Cut after four decimals: 2.01 itself is below its limit.
        ("Mapper Spill", {"sum_spilled_records": 20_100, "sum_map_output_records": 10_000, "n": 50}, 0),
        ("Mapper Spill", {"sum_spilled_records": 20_101, "sum_map_output_records": 10_000, "n": 50}, 1),
        ("Mapper Spill", {"sum_spilled_records": 1, "sum_map_output_records": 0, "n": 1000}, 4),
        ("Mapper Spill", {"sum_spilled_records": 0, "sum_map_output_records": 0, "n": 1000}, 0),
        ("Mapper Memory", {"n": 1, "avg_physical_bytes": 1228 * MB, "container_mb": 2253}, 1),
        ("Mapper Memory", {"n": 1, "avg_physical_bytes": 1, "container_mb": 2252}, 0),
        ("Mapper Memory", {"n": 1, "avg_physical_bytes": 1, "container_mb": -1}, 0),
        ("Mapper Memory", {"n": 1, "avg_physical_bytes": 1536 * MB, "container_mb": 5120}, 4),
        ("Mapper Memory", {"n": 0, "avg_physical_bytes": 0, "container_mb": 5120}, 0),
        ("Shuffle & Sort", {"avg_shuffle_ms": MINUTE, "avg_sort_ms": 0, "avg_code_ms": 2 * MINUTE}, 1),
        ("Shuffle & Sort", {"avg_shuffle_ms": MINUTE, "avg_sort_ms": 0, "avg_code_ms": 2 * MINUTE + 1}, 0),
        ("Shuffle & Sort", {"avg_shuffle_ms": 0, "avg_sort_ms": 30 * MINUTE, "avg_code_ms": 0}, 4),
        ("Shuffle & Sort", {"avg_shuffle_ms": 0, "avg_sort_ms": 30 * MINUTE, "avg_code_ms": 1}, 4),
    ],
)  # fmt: skip
def test_levels_at_their_limits(name: str, measures: dict[str, float], level: int) -> None:
    (heuristic,) = (each for each in HEURISTICS if each.name == name)
    whole = {key: np.array([value], dtype=np.int64) for key, value in measures.items()}
    assert shipped(heuristic).levels(whole).tolist() == [level]


def skewed(published: bool, **measures: float) -> tuple[int, ...]:
    """Levels of the branches of Mapper Skew: of bytes, of times."""
    (heuristic,) = (each for each in HEURISTICS if each.name == "Mapper Skew")
    rule = shipped(heuristic)
    names = [f"{what}_{part}" for what in ("data", "time") for part in ("low_n", "low_mean", "high_n", "high_mean")]
    parts = {f"{prefix}{name}": np.array([0], dtype=np.int64) for prefix in ("", "published_") for name in names}
    given = parts | {key: np.array([value], dtype=np.int64) for key, value in measures.items()}
    tree = rule.tree(Subject(given | {"block_size": np.array([64.0 * MB])}, rule.limits, rule.numbers, published))
    return tuple(int(np.min([reading.levels()[0] for reading in branch])) for branch in tree.branches)


def test_skew_by_groups() -> None:
    """The code counts the low group and divides whole numbers; the description the smaller group and the real ratio."""
    data = {"data_low_n": 200, "data_low_mean": 4 * MB, "data_high_n": 9, "data_high_mean": 64 * MB}
    assert skewed(False, **data) == (3, 0)  # 60 over 4: 15 times
    assert skewed(False, **(data | {"data_high_mean": 68 * MB})) == (4, 0)
    assert skewed(False, **(data | {"data_low_mean": 0})) == (4, 0)
    assert skewed(False, **(data | {"data_low_n": 9})) == (0, 0)
    assert skewed(False, **(data | {"data_high_mean": 8 * MB - 1, "data_low_mean": 1})) == (0, 0)
    described = {f"published_{key}": value for key, value in data.items()}
    assert skewed(True, **described) == (0, 0)
    assert skewed(True, **(described | {"published_data_high_n": 10})) == (1, 0)
    times = {"time_low_n": 200, "time_low_mean": 1999, "time_high_n": 200, "time_high_mean": 17_000}
    assert skewed(False, **times) == (0, 4)  # 17 s over 1 s: 16 times
    assert skewed(False, **(times | {"time_low_mean": 2000, "time_high_mean": 10_000})) == (0, 2)
    assert skewed(True, **{f"published_{key}": value for key, value in times.items()}) == (0, 2)  # 15.001 over 1.999


def test_both_ends_of_a_limit_belong_to_it() -> None:
    limits = (1, 2, 3, 4)
    values = np.array([0.99, 1, 1.99, 2, 3, 4, np.inf, np.nan])
    assert severities(values, limits, rising=True).tolist() == [0, 1, 1, 2, 3, 4, 4, 0]
    assert severities(-values, tuple(-each for each in limits), rising=False).tolist() == [0, 1, 1, 2, 3, 4, 4, 0]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ms", "0.0 min"), (5_990, "ms", "5.99 s"), (6_000, "ms", "0.1 min"), (90_000, "ms", "1.5 min"),
        (1023, "bytes", "1023 bytes"), (1024, "bytes", "1.0 KB"), (1.5 * MB, "bytes/s", "1.5 MB/s"), (2**30, "bytes", "1.0 GB"),
        (2**40, "bytes", "1.0 TB"), (0.4, "bytes/s", "0 bytes/s"), (1, "tasks", "1 task"), (1200, "tasks", "1,200 tasks"),
        (0, "tasks", "0 tasks"), (20_100, "10000", "2.01"), (99.96, "", "100"), (100.4, "", "100"), (1234.0, "", "1,234"),
        (-1234.0, "", "-1,234"), (0.12345, "", "0.123"), (math.inf, "ms", "infinite"), (-math.inf, "", "undefined"),
        (math.nan, "", "undefined"),
    ],
)  # fmt: skip
def test_amounts_in_words(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_details_are_cut_as_they_are_stored() -> None:
    assert details_json({"ü": "→"}) == '{"ü":"→"}'
    assert cut("abcd", 4) == "abcd" and cut("abcde", 4) == "a..."
    assert details_json({"a" * 128: "b" * 255, "x" * 129: "y" * 256, "list": ["z" * 300]}) == (
        f'{{"{"a" * 128}":"{"b" * 255}","{"x" * 125}...":"{"y" * 252}...","list":["{"z" * 300}"]}}'
    )
