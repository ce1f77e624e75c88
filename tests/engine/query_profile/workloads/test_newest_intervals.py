"""What is left out of a long history: the newest intervals are those that a history without the others gives."""

from __future__ import annotations

import random

from engine.core.incremental import Memo, Partials
from engine.core.view import Context, Inputs, Result
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.view import VIEW
from engine.query_profile.workloads.workload import Snapshot
from tests.engine.query_profile.builders import capture, inputs, snapshot

COUNT = 40


def files(count: int = COUNT) -> dict[str, bytes]:
    """Snapshots of growing counters, one a minute, and the CPU."""
    chance = random.Random(5)
    totals = [[0.0, 0.0] for _ in range(6)]
    texts, cpu = [], [0]
    for _ in range(count):
        for one in totals:
            calls = chance.randrange(1, 50)
            one[0] += calls
            one[1] += calls * chance.uniform(1, 9)
        texts.append(snapshot(*((n, calls, time) for n, (calls, time) in enumerate(totals, 1))))
        cpu.append(cpu[-1] + chance.randrange(1, 5))
    return capture(*texts, cpu=cpu[1:])


def profile(given: Inputs, memo: Memo, most: int = 12, memory: int = 1 << 32) -> Result:
    """Compute with at most ``most`` intervals."""
    parameters = QueryProfileParameters(max_intervals=most, draws=10)
    return VIEW.compute(given, parameters, Context(now_ms=0, memo=memo, memory=memory))


def without_oldest(given: dict[str, bytes], count: int) -> dict[str, bytes]:
    """Leave out the ``count`` oldest snapshots."""
    gone = sorted(name for name in given if name.startswith("pgss"))[:count]
    return {name: data for name, data in given.items() if name not in gone}


def test_the_newest_intervals_are_those_of_a_short_history() -> None:
    every = files()
    memo = Memo()
    found = profile(inputs(every), memo)
    short = profile(inputs(without_oldest(every, COUNT - 13)), Memo())
    assert found.tables["classes"].equals(short.tables["classes"])
    assert found.tables["intervals"].height == 12
    assert [note for note in found.notes if "left out" in note] == [
        "the oldest 27 of 39 intervals are left out (max-intervals)"
    ]
    assert not any("left out" in note for note in short.notes)


def test_counters_of_older_snapshots_are_dropped() -> None:
    memo = Memo()
    given = inputs(files())
    found = profile(given, memo)
    by_file: Partials[int, list[Snapshot]] = memo.state("snapshots", Partials)
    assert sum(not one.is_reduced for run in by_file.values() for one in run) == 13
    assert profile(given, memo).same_as(found)
    assert profile(given, memo, most=20).same_as(profile(given, Memo(), most=20))  # more is read again
    assert profile(given, memo).same_as(found)


def test_memory_bounds_the_intervals_with_a_note() -> None:
    found = profile(inputs(files()), Memo(), most=100, memory=50_000)
    assert 10 <= found.tables["intervals"].height < 39
    assert any("intervals are left out (memory-mb)" in note for note in found.notes)


def slow_log(count: int) -> dict[str, bytes]:
    """A log of ``count`` queries, each of a class and a minute of its own."""
    entry = "# Query_time: 0.5  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1\nSET timestamp={};\nSELECT c{} FROM t;\n"
    return {"slow.log": "".join(entry.format(1_767_603_600 + 60 * n, n) for n in range(count)).encode()}


def test_memory_bounds_the_intervals_of_a_log_with_a_note() -> None:
    """Each further query makes a class and an interval: their table grows with the square of the log."""
    whole = profile(inputs(slow_log(300)), Memo(), most=1000)
    assert whole.tables["intervals"].height >= 290
    assert not any("left out" in note for note in whole.notes)
    found = profile(inputs(slow_log(300)), Memo(), most=1000, memory=1_000_000)
    kept = found.tables["intervals"].height
    assert 10 <= kept < 150
    assert any("intervals are left out (memory-mb)" in note for note in found.notes)
    # Only classes of these intervals are listed, the newest ones.
    assert set(found.tables["classes"]["class"]) < set(whole.tables["classes"]["class"])
    assert "select c299 from t" in found.tables["classes"]["query"].to_list()
