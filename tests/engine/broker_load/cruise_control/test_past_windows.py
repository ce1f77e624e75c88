"""Past windows: numbers equal those of a fresh start, and dropped rounds leave memory."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from engine.broker_load.cruise_control import load_model
from engine.broker_load.cruise_control.windows import WindowSums
from engine.broker_load.model import history
from engine.broker_load.model.rounds import Round
from engine.core.incremental import Memo, Partials
from engine.live import store
from engine.live.store import RowFile, RowFiles
from tests.engine.broker_load.clusters import T0
from tests.engine.broker_load.inputs import compute
from tests.engine.broker_load.model.test_history import BROKERS, Growing

MINUTE = 60_000
WINDOW = 4 * MINUTE


def alive() -> int:
    """Count the rounds in this process, including those of other tests."""
    gc.collect()
    return sum(isinstance(one, Round) for one in gc.get_objects())


def test_dropped_rounds_change_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapes go to disk, rounds and sums are dropped, rows are read a few at a time: the result is the same with and without
    a memo, live and back in time, with other weights and other windows."""
    before = alive()
    made = Growing(tmp_path, counters=True)
    everything = [("window-ms", str(WINDOW)), ("windows", "3"), ("max-rows", "4")]
    memo = Memo()
    monkeypatch.setattr(load_model, "SUMS_BYTES", 0)
    monkeypatch.setattr(load_model, "MOST_ROWS", 500)
    monkeypatch.setattr(history, "MOST_ROWS", 300)
    monkeypatch.setattr(store, "SELDOM_BYTES", 4_000)
    (tmp_path / "rows").mkdir()
    made.store._row_files = RowFiles(lambda: tmp_path / "rows")
    for minute in range(30):
        for broker in BROKERS:
            made.scrape(100 + 2 * minute + broker, broker, T0 + minute * MINUTE)
        if minute % 8 == 5:
            inputs = made.inputs()
            last = compute(inputs, *everything, memo=memo)
    chunks = made.store.chunks()["metrics"]
    assert sum(isinstance(chunk.rows, RowFile) for chunk in chunks) > 2
    rounds: Partials[int, Round] = memo.state("broker load rounds", Partials)
    sums: Partials[int, WindowSums] = memo.state("broker load window sums", Partials)
    assert len(rounds) <= 4  # those of the open window, and of the samples shown
    assert len(sums) <= 4  # those looked at, and the one before
    assert alive() - before <= len(rounds)
    with monkeypatch.context() as plain:
        plain.undo()
        assert last.same_as(compute(inputs, *everything))
        steps: list[tuple[tuple[str, str], ...]] = [
            (("at", str(T0 + 13 * MINUTE + 7)),), (("a", "0.3"),), (("at", str(T0 + 22 * MINUTE)), ("a", "0.3")),
            (("windows", "6"),), (("window-ms", "250000"),),
        ]  # fmt: skip
        expected = [compute(inputs, *everything, *step) for step in steps]
    for step, plainly in zip(steps, expected, strict=True):
        assert compute(inputs, *everything, *step, memo=memo).same_as(plainly), step
    assert last.summary["sampling_intervals"] >= 14


def test_a_look_at_kept_windows_reads_no_scrape_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of windows stay: the time line moves over them without a look at raw metrics, except of the cut interval."""
    made = Growing(tmp_path, counters=False)
    memo = Memo()
    options = (("window-ms", str(WINDOW)), ("windows", "2"), ("max-rows", "0"))
    for minute in range(32):
        for broker in BROKERS:
            made.scrape(100 + 2 * minute + broker, broker, T0 + minute * MINUTE)
        if minute % 10 == 9:
            inputs = made.inputs()
            compute(inputs, *options, memo=memo)
    built: list[int] = []
    build = history.rounds.build
    monkeypatch.setattr(history.rounds, "build", lambda which, *rest: (built.extend(which), build(which, *rest))[1])
    compute(inputs, *options, ("at", str(T0 // WINDOW * WINDOW + 5 * WINDOW - 1)), memo=memo)
    assert len(built) <= 2  # the rounds of the window that the moment is in


def test_only_what_is_needed_is_built_and_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions, a scrape a minute, two of them a round and two rounds a window; three rounds of samples are shown."""
    made = Growing(tmp_path, counters=False)
    first = T0 // WINDOW * WINDOW
    built: list[list[int]] = []
    added: list[int] = []
    build, add_up = history.rounds.build, load_model.windows.add_up
    monkeypatch.setattr(
        history.rounds, "build", lambda which, *rest: (built.append(list(which)), build(which, *rest))[1]
    )
    monkeypatch.setattr(
        load_model.windows,
        "add_up",
        lambda rounds, *rest: (added.append(rounds[-1].time_ms // WINDOW), add_up(rounds, *rest))[1],
    )
    memo = Memo()
    sums: Partials[tuple[int, int | None], WindowSums] = memo.state("broker load window sums", Partials)
    interval = first // (2 * MINUTE)

    def look(*more: tuple[str, str], minutes: tuple[int, ...] = ()) -> list[list[int]]:
        built.clear()
        added.clear()
        for minute in minutes:
            for broker in BROKERS:
                made.scrape(100 + 2 * minute + broker, broker, first + minute * MINUTE)
        options = (("window-ms", str(WINDOW)), ("windows", "2"), ("max-rows", "6"), *more)
        compute(made.inputs(), *options, memo=memo)
        return [[which - interval for which in each] for each in built]

    assert look(minutes=tuple(range(24))) == [list(range(12))], "all at once"
    assert len(added) == 4, "the two looked at, the open one and the one before"
    assert look() == []
    assert look(minutes=(24,)) == [[12]], "the rounds of the samples shown are there"
    end = ("at", str(first + 20 * MINUTE - 1))
    look(end)
    assert look(end, minutes=(26,)) == [[13]], "and so are those of the moment looked at"
    look(minutes=tuple(range(28, 40)))
    there = [index for index, _ in sums]
    assert len(there) == 8
    room = sums[there[-4], None].nbytes + sums[there[-5], None].nbytes
    for bytes_free, stay in ((room, 2), (room - 1, 1)):
        monkeypatch.setattr(load_model, "SUMS_BYTES", bytes_free)
        look()
        assert [index for index, _ in sums] == there[-3 - stay :], "those looked at, and of others the newest that fit"
