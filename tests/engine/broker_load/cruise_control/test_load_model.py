"""By hand: the windows looked at, the finished samples that count, and the loads of replicas."""

from __future__ import annotations

import numpy as np
import pytest

from engine.broker_load.cruise_control import load_model, replica_loads, windows
from engine.broker_load.cruise_control.replica_loads import LeaderValues
from engine.broker_load.cruise_control.windows import Aggregate, Window, WindowSums
from engine.broker_load.model import topology
from engine.broker_load.model.topology import Broker, Partitions, Topology
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.inputs import SAMPLES_IN
from engine.broker_load.tables.raw_metrics import SAMPLE
from tests.engine.broker_load.random_clusters import described

SECOND = 1000
"""Length of a window, ms."""


def made(*rows: tuple[str, int, int, list[int]]) -> Topology:
    """Partitions (topic, number, leader, replicas) on three live brokers."""
    brokers = {number: Broker(f"h{number}", f"r{number}", True, True) for number in (1, 2, 3)}
    return topology.build(described([(*row, row[3], [], None, 1, None) for row in rows]), brokers)


@pytest.mark.parametrize(
    ("indices", "at", "wanted", "chosen"),
    [
        ([], None, 5, []),
        ([3, 4, 6], None, 5, [5, 4, 3]),
        ([3, 4, 6], None, 2, [5, 4]),
        ([3, 4, 6], None, 0, [5]),
        ([7], None, 5, [7]),
        ([3, 4, 6], 6999, 5, [6, 5, 4, 3]),
        ([3, 4, 6], 5000, 2, [5, 4]),
        ([3, 4, 6], 10_999, 5, [10, 9, 8, 7, 6]),
        ([3, 4, 6], 11_000, 5, [6, 5, 4, 3]),
        ([3, 4, 6], 2999, 2, [6, 5]),
        ([3, 4, 6], 3000, 2, [3]),
    ],
)
def test_windows_to_look_at(indices: list[int], at: int | None, wanted: int, chosen: list[int]) -> None:
    """Those before the moment or the newest window; the newest ones if these hold nothing."""
    assert windows.choose(indices, at, SECOND, wanted) == chosen


def test_finished_samples_count_where_no_raw_metrics_are() -> None:
    one = made(("t", 0, 1, [1]), ("u", 0, 2, [2]))
    rows = SAMPLES_IN.frame(
        {
            "time_ms": [2500, 500, 1500, 2600, 700], "topic": ["u", "t", "t", "t", "gone"], "partition": [0] * 5,
            **{name: [1.0, 2.0, 3.0, 4.0, 5.0] for name in SAMPLE},
        }
    )  # fmt: skip
    assert load_model._finished(rows[:0], one, set(), SECOND) is None
    assert load_model._finished(rows, one, {1, 2, 3}, SECOND) is None
    found = load_model._finished(rows, one, {2}, SECOND)
    assert found is not None
    assert (found.partition.tolist(), found.time_ms.tolist()) == ([1, 0, 0], [2500, 500, 2600])
    assert found.values.shape == (9, 3) and found.values[0].tolist() == [1.0, 2.0, 4.0]
    every = load_model._finished(rows, one, set(), SECOND)
    assert every is not None and every.partition.tolist() == [1, 0, 0, 0]
    split = load_model._split(every, SECOND)
    assert {index: part.time_ms.tolist() for index, part in split.items()} == {1: [500], 2: [1500], 3: [2500, 2600]}
    assert split[3].values[0].tolist() == [1.0, 4.0] and split[3].partition.tolist() == [1, 0]
    assert load_model._split(None, SECOND) == {}


def test_partitions_that_only_finished_samples_know() -> None:
    """The leader that the last sample names is the only replica."""
    rows = SAMPLES_IN.frame(
        {"time_ms": [1, 2, 3, 4], "topic": ["t", "t", "t", "u"], "partition": [0] * 4, "leader": [5, 1, None, None],
         **{name: [0.0] * 4 for name in SAMPLE}}
    )  # fmt: skip
    found = load_model._without_topology(rows).topology
    assert found.topics == ("t", "u") and found.ids.tolist() == [1]
    assert found.leader.tolist() == [0, -1] and found.count.tolist() == [1, 0] and found.alive.all()


def window(index: int, counts: list[int], cpu: list[float], disk: list[float]) -> Window:
    """A window of partitions with sums of the CPU (as of every rate) and the newest disk."""
    partitions = Partitions(("t",), np.zeros(len(counts), np.int32), np.arange(len(counts), dtype=np.int32))
    totals = {name: np.array(disk if name == "disk_usage" else cpu, np.float32) for name in SAMPLE}
    weights = CpuWeights()
    summed = WindowSums(partitions, np.array(counts, np.int32), (), totals, (), {weights: totals["cpu_usage"]})
    return Window(index, len(counts), summed, None, weights)


def test_values_of_windows() -> None:
    """Means of samples; of the disk the newest. Between two full windows their sums, and its own where it has any."""
    newest = window(9, [4, 4, 4, 0], [8.0, 4.0, 4.0, 0.0], [5.0, 6.0, 7.0, 0.0])
    middle = window(8, [4, 1, 0, 1], [12.0, 3.0, 0.0, 9.0], [2.0, 9.0, 0.0, 8.0])
    oldest = window(7, [4, 5, 4, 4], [0.0, 5.0, 8.0, 4.0], [1.0, 3.0, 5.0, 1.0])
    found = windows.aggregate([newest, middle, oldest], None, SECOND, 4, 5, np.array([0, 0, 0, 1], np.int32))
    none, adjacent, forced, invalid = 0, 2, 3, 4
    assert [None if each is None else each.tolist() for each in found.states] == [
        [none, none, none, invalid], [none, adjacent, adjacent, forced], None,
    ]  # fmt: skip
    third = float(np.float32(np.float32(12.0) / 10))
    assert [each.tolist() for each in found.series("cpu_usage")] == [[2, 1, 1, 0], [3, third, 1.5, 9], [0, 1, 2, 1]]
    assert [each.tolist() for each in found.series("disk_usage")] == [[5, 6, 7, 0], [2, 6, 6, 8], [1, 3, 5, 1]]
    assert found.valid.tolist() == [True, True, True, False] and found.enough is True
    assert found.ends_ms() == [9000, 8000, 7000]
    assert found.mean("cpu_usage").tolist() == pytest.approx([5 / 3, 3.2 / 3, 1.5, 10 / 3])
    assert found.latest("disk_usage").tolist() == [5, 6, 7, 0]


def test_partitions_that_the_rounds_of_a_window_do_not_know() -> None:
    """They have no sample, and 0; the others have theirs, wherever they stand."""
    known = window(9, [4, 2], [8.0, 4.0], [5.0, 6.0])
    placed = Window(9, 3, known.sums, np.array([1, -1, 0], np.int32), CpuWeights())
    assert placed.count.tolist() == [2, 0, 4] and placed.most == 4
    assert placed.value("leader_bytes_in").tolist() == [2, 0, 2] and placed.value("disk_usage").tolist() == [6, 0, 5]
    empty = Window(9, 3, None, None, CpuWeights())
    assert empty.count.tolist() == empty.value("leader_bytes_in").tolist() == [0, 0, 0]


def test_windows_without_anything() -> None:
    """Means and the newest value are 0."""
    nothing = Aggregate((), (), np.zeros(2, np.bool_), False, (), SECOND)
    assert nothing.mean("cpu_usage").tolist() == nothing.latest("cpu_usage").tolist() == [0, 0]
    assert load_model.leader_values(nothing).cpu.tolist() == [0, 0]
    for allowed in (0, 1):
        offered = [window(5, [0, 3], [0, 3], [0, 3])]
        refused = windows.aggregate(offered, None, SECOND, 4, allowed, np.array([0, 0], np.int32))
        assert not refused.enough and refused.valid.tolist() == [False, allowed > 0] and len(refused.windows) == 1
        later = [window(7, [0, 0], [0, 0], [0, 0]), window(6, [0, 0], [0, 0], [0, 0]), *offered]
        shown = windows.aggregate(later, None, SECOND, 4, allowed, np.array([0, 0], np.int32))
        assert [each.index for each in shown.windows] == [5] and shown.valid.tolist() == [False, allowed > 0]
    silent = windows.aggregate([window(5, [0], [0], [0])], None, SECOND, 4, 1, np.array([0], np.int32))
    assert [each.index for each in silent.windows] == [5] and not silent.enough and not silent.valid.any()


def test_windows_that_leave_too_few_partitions_are_skipped() -> None:
    """A window needs one whole valid topic; a partition may be extrapolated a limited number of times."""
    topics = np.array([0, 0, 1, 1], np.int32)
    full, half = window(9, [4] * 4, [4.0] * 4, [1.0] * 4), window(8, [4, 0, 4, 4], [4.0] * 4, [1.0] * 4)
    none = window(7, [4, 0, 4, 0], [4.0] * 4, [1.0] * 4)

    def used(*offered: Window, **more: bool) -> list[int]:
        found = windows.aggregate(offered, None, SECOND, 4, 5, topics, **more)
        return [each.index for each in found.windows] if found.enough else []

    assert used(full, half, none) == [9, 8]
    assert used(none) == used(full, stand_in=True) == []
    low = [window(index, [2, 4], [2.0, 4.0], [1.0, 1.0]) for index in (9, 8, 7)]
    counted = windows.aggregate(low, None, SECOND, 4, 2, np.array([0, 0], np.int32))
    assert [each.index for each in counted.windows] == [9, 8] and counted.valid.all()


def test_the_oldest_window_remembers_its_validity() -> None:
    """If the window before all of them and the next one were full, the oldest is valid without a sample."""
    newest, middle = window(9, [4], [4.0], [1.0]), window(8, [4], [4.0], [1.0])
    oldest, before = window(7, [0], [0.0], [0.0]), window(6, [4], [4.0], [1.0])

    def used(before: Window | None, *offered: Window, allowed: int = 5) -> list[int]:
        return [
            each.index for each in windows.aggregate(offered, before, SECOND, 4, allowed, np.zeros(1, np.int32)).windows
        ]

    assert used(before, newest, middle, oldest) == [9, 8, 7]
    assert used(None, newest, middle, oldest) == used(before, newest, middle, oldest, allowed=0) == [9, 8]
    assert used(window(6, [3], [4.0], [1.0]), newest, middle, oldest) == [9, 8]
    assert used(before, newest, window(8, [3], [4.0], [1.0]), oldest) == [9, 8]
    assert used(before, window(8, [4], [4.0], [1.0]), oldest) == [8]
    assert used(before, window(9, [0], [0.0], [0.0]), middle, oldest) == [8]


def test_loads_of_replicas() -> None:
    """Two windows; followers listed before the leader miss what others replicate from it."""
    one = made(("t", 0, 2, [1, 2, 3]), ("u", 0, -1, [1, 2]), ("v", 0, 3, [3]))
    parts = [
        np.array(each) for each in ([100, 50, 10], [7, 8, 9], [10, 3, 4], [20, 5, 6], [1, 1, 1], [5, 2, 2], [0, 0, 0])
    ]
    leader = LeaderValues(*(part.astype(np.float64) for part in parts))
    of_all = [10, 3, 4], [20, 5, 6], [1, 1, 1], [5, 2, 2]
    loads = [
        dict(zip(replica_loads.OF_WINDOW, np.array([[cpu, 1, 1], *of_all], np.float32), strict=True))
        for cpu in (0.5, 1.5)
    ]
    found = replica_loads.as_cruise_control(one, leader, loads, CpuWeights(0.7, 0.15, 0.15))
    full, bare = 20 + 10 * 2, 20 + 5
    after, before = (100 * 0.15 * 11 / (0.7 * 11 + 0.15 * out) for out in (full, bare))
    assert found.cpu[0].tolist() == pytest.approx([before, 100, after])
    assert found.disk.tolist() == [[7, 7, 7], [0, 0, 0], [9, 0, 0]]
    assert found.nw_in.tolist() == [[11, 11, 11], [0, 0, 0], [5, 0, 0]]
    assert found.nw_out.tolist() == [[0, full, 0], [0, 0, 0], [6, 0, 0]]
    assert found.potential.tolist() == [full, 0, 6] and found.follower_in.tolist() == [10, 0, 4]
    assert found.demoted.tolist() == pytest.approx([after, 0, 100 * 0.15 * 5 / (0.7 * 5 + 0.15 * 6)])
    assert found.held.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert found.leads.tolist() == [[False, True, False], [False] * 3, [True, False, False]]
    into, out = np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0])
    still = replica_loads.follower_cpu(CpuWeights(), np.array([5.0, 5.0, 5.0]), into, out)
    assert still.tolist() == pytest.approx([0, 0, 5 * 0.15 / 0.7])
    floored = LeaderValues(*(np.array([-2.0, 0.5, -0.0]) for _ in range(7))).floored()
    assert floored.cpu.tolist() == floored.messages.tolist() == [0, 0.5, 0]
