"""History: the same with and without a memo, whichever scrapes and descriptions come or go."""

from __future__ import annotations

import dataclasses
import random
import shutil
from pathlib import Path

import msgspec
import polars as pl
import pytest

from engine.broker_load.model import rounds
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import INPUTS, METRICS
from engine.broker_load.view import VIEW
from engine.core.incremental import Memo, Partials
from engine.core.view import FILE, FileInfo, Inputs, Result
from engine.live.session import LiveSettings, Session
from engine.live.store import Store
from tests.engine.broker_load.clusters import MB, T0, Cluster, simple
from tests.engine.broker_load.inputs import compute, read

MINUTE = 60_000


BROKERS = (1, 2)


class Growing:
    """A store of a cluster of two brokers to which scrapes come one by one, as in the live program."""

    def __init__(self, folder: Path, counters: bool) -> None:
        made = Cluster(folder, BROKERS)
        made.partition("t", 0, 1, "1|2")
        made.partition("u", 0, 2, "2|1")
        if counters:
            made.capacity.clear()  # the CPUs that are named are the cores then
        inputs = read(made.write())
        self.store, self.counters, self.version = Store(INPUTS), counters, 1000
        self.infos = dict(inputs.files)
        self.random = random.Random(7)
        for table in INPUTS:
            if table.name != METRICS.name:
                self.store.put_frame(table.name, inputs.table(table.name), frozenset(self.infos))

    def scrape(self, file: int, broker: int, time: int, cpus: int = 2) -> None:
        """Rows of one broker and moment, of a new file or at the end of one that is there."""
        value = self.random.random
        rows: list[tuple[int, str | None, float, int | None]] = [
            *((number, None, 1e5 * value(), None) for number in (*raw_metrics.TOTALS, raw_metrics.CPU)),
            *((number, "tu"[broker - 1], 1e5 * value(), None) for number in raw_metrics.TOPIC),
            *((raw_metrics.SIZE, topic, 1e9 * value(), 0) for topic in "tu"),
            *((raw_metrics.NODE_IDLE_SECONDS, None, time / 1000 * value(), cpu) for cpu in range(cpus)),
        ]
        frame = pl.DataFrame({
            "time_ms": [time] * len(rows), "host": [f"host-{broker}:7071" if self.counters else None] * len(rows),
            "broker": [None if self.counters else broker] * len(rows), "metric": [row[0] for row in rows],
            "topic": [row[1] for row in rows], "partition": [row[3] for row in rows],
            "value": [time / 1000 + row[2] if self.counters else row[2] / 1e5 for row in rows],
            "counter": [self.counters and row[0] != raw_metrics.SIZE for row in rows],
        }, schema_overrides={"host": pl.String, "broker": pl.Int32, "partition": pl.Int32, "topic": pl.String})  # fmt: skip
        self.store.put(file, {METRICS.name: METRICS.frame(frame)}, frame.height)
        self.infos[file] = FileInfo(file, f"f{file}", f"f{file}", "bench", 0, 0, self.version + 1)

    def forget(self, file: int) -> None:
        """The file is gone."""
        self.store.forget([file])
        del self.infos[file]

    def inputs(self) -> Inputs:
        """A snapshot."""
        self.version += 1
        assert not self.store.flush()
        rows = self.store.snapshot()
        return Inputs(self.version, self.infos.copy(), (), rows, rows.of, _parts=rows.parts)


@pytest.mark.parametrize("counters", [False, True])
def test_files_that_come_and_go_give_the_result_of_a_fresh_start(tmp_path: Path, counters: bool) -> None:
    """New scrapes, late ones, files that grow, go or come back, and looks at the past in between."""
    made = Growing(tmp_path, counters)
    memo = Memo()
    at = T0
    for number, broker in enumerate(BROKERS * 3):
        made.scrape(100 + number, broker, at + number // 2 * MINUTE)
    compute(made.inputs(), memo=memo)
    now = at + 3 * MINUTE
    for number, step in enumerate(["new", "late", "new", "grown", "past", "gone", "cpu", "more"]):
        broker, file = BROKERS[number % 2], 200 + number
        if step == "late":
            made.scrape(file, broker, T0 + MINUTE // 2)
        elif step == "grown":
            made.scrape(101, broker, now - 2 * MINUTE + 1)
        elif step == "gone":
            made.forget(103)
        elif step == "more":
            made.scrape(200, broker, now)
        elif step != "past":
            made.scrape(file, broker, now, 3 if step == "cpu" else 2)
        now += MINUTE
        inputs = made.inputs()
        pairs = (("at", str(T0 + 5 * MINUTE)),) if step == "past" else ()
        assert compute(inputs, *pairs, memo=memo).same_as(compute(inputs, *pairs)), (number, step)


@pytest.mark.parametrize("counters", [False, True])
def test_one_more_scrape_builds_only_its_own_interval(
    tmp_path: Path, counters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Growing(tmp_path, counters)
    memo = Memo()
    for number in range(20):
        made.scrape(100 + number, BROKERS[number % 2], T0 + number // 2 * MINUTE)
    compute(made.inputs(), memo=memo)
    build = rounds.build
    intervals: list[int] = []
    monkeypatch.setattr(rounds, "build", lambda which, *rest: (intervals.extend(which), build(which, *rest))[1])
    for number in range(20, 24):
        time = T0 + number // 2 * MINUTE
        made.scrape(100 + number, BROKERS[number % 2], time)
        intervals.clear()
        compute(made.inputs(), memo=memo)
        assert intervals == [time // (2 * MINUTE)]


def test_a_look_at_the_past_keeps_the_rounds_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Growing(tmp_path, counters=True)
    memo = Memo()
    for number in range(12):
        made.scrape(100 + number, BROKERS[number % 2], T0 + number // 2 * MINUTE)
    inputs = made.inputs()
    compute(inputs, memo=memo)
    build = rounds.build
    built: list[int] = []
    monkeypatch.setattr(rounds, "build", lambda which, *rest: (built.extend(which), build(which, *rest))[1])
    compute(inputs, ("at", str(T0 + 90_000)), memo=memo)
    compute(inputs, memo=memo)
    assert len(built) == 1  # the interval that the moment cuts


def test_shared_memo_gives_equal_results(tmp_path: Path) -> None:
    """A memo only makes it faster, independent of earlier requests."""
    inputs = read(simple(tmp_path).write())
    memo = Memo()
    first = compute(inputs, memo=memo)
    for pairs in ((("a", "0.3"),), (("mode", "corrected"),), (("fail", "1"),), (("at", str(T0)),)):
        assert compute(inputs, *pairs, memo=memo).same_as(compute(inputs, *pairs))
    assert compute(inputs, memo=memo).same_as(first)


def test_replaced_descriptions_and_sizes_are_seen_at_once(tmp_path: Path) -> None:
    """Rounds stay while a new description says the same; a new leader or new sizes make them again. With a memo as
    without."""
    made = simple(tmp_path)
    for step in (1, 2):
        made.rows += [(t + step * 120_000, *rest) for t, *rest in made.rows if t == T0]
    made.rows = [row for row in made.rows if row[1] != "PARTITION_SIZE"]
    memo = Memo()
    text = (
        '{"version": 1, "brokers": [{"broker": %d, "logDirs": [{"logDir": "/d", "error": null, "partitions": [%s]}]}]}'
    )
    part = '{"partition": "%s-0", "size": %d, "offsetLag": 0, "isFuture": false}'

    def look(number: int, size: float) -> tuple[Result, list[object]]:
        folder = made.write()
        for broker, topic in ((1, "t"), (2, "u")):
            (folder / f"log-dirs-{broker}.txt").write_text(text % (broker, part % (topic, size * MB)) + "\n")
        inputs = read(folder, after=100 * number)
        found = compute(inputs, memo=memo)
        assert found.same_as(compute(inputs)), number
        rounds: Partials[int, object] = memo.state("broker load rounds", Partials)
        return found, list(rounds.values())

    first, rounds = look(0, 10)
    assert first.tables["replicas"]["disk_mb"].to_list() == [10.0] * 4
    made.topology[0] = ("t", 0, 1, "1|2", "1|2", "")  # the same
    assert look(1, 10)[1] != rounds  # the sizes come from new files
    bigger, rounds = look(2, 30)
    assert bigger.tables["replicas"]["disk_mb"].to_list() == [30.0] * 4
    made.topology[0] = ("t", 0, 2, "1|2", "1|2", "")
    moved, _ = look(3, 30)
    assert moved.tables["replicas"].filter(pl.col("leader"))["broker"].to_list() == [2, 2]


def test_a_description_that_says_the_same_keeps_the_rounds(tmp_path: Path) -> None:
    """Refreshing the topology every few minutes does not cost the whole history."""
    made = simple(tmp_path)
    memo = Memo()
    seen = []
    for number in range(3):
        if number == 2:
            made.partition("w", 0, 1, "1|3")
        inputs = read(made.write(), after=100 * number, mtime_ms=T0 + number)
        # The scrapes are the same files still: only the description is new.
        kept = {i: info for i, info in inputs.files.items() if info.label != "metrics.csv"}
        scrapes = next(info for info in inputs.files.values() if info.label == "metrics.csv")
        files = kept | {1: msgspec.structs.replace(scrapes, id=1, version=1)}
        whole = {t.name: inputs.table(t.name) for t in INPUTS}
        whole["metrics"] = whole["metrics"].with_columns(pl.lit(1, pl.UInt32).alias(FILE))
        inputs = dataclasses.replace(inputs, files=files, _load=whole.__getitem__)
        assert compute(inputs, memo=memo).same_as(compute(inputs))
        rounds: Partials[int, object] = memo.state("broker load rounds", Partials)
        seen.append(list(rounds.values()))
    assert all(a is b for a, b in zip(seen[0], seen[1], strict=True))
    assert not any(a is b for a, b in zip(seen[1], seen[2], strict=True))


def test_counters_of_a_broker_go_on_under_another_host_and_after_a_cut_scrape(tmp_path: Path) -> None:
    """The previous tick is the broker's, even under another exporter's name; the same with and without a memo."""
    root = tmp_path / "data"
    shutil.copytree(Path(__file__).parents[4] / "sample_data" / "broker_load" / "files", root)
    memo = Memo()
    old = root / "scrape" / "kafka-1.example.net_9100"
    last = (old / "1767240180.prom").read_text()
    session = Session([root], [VIEW], settings=LiveSettings(cache=False), strict=True)
    steps = [("kafka-1.example.net_9200", 300, last), (old.name, 420, last[: len(last) // 2]), (old.name, 540, last)]
    for folder, seconds, text in [("", 0, ""), *steps]:
        if folder:
            (root / "scrape" / folder).mkdir(exist_ok=True)
            (root / "scrape" / folder / f"{1767240000 + seconds}.prom").write_text(text)
        session.scan(final=True)
        inputs = session.inputs(VIEW.name)
        result = compute(inputs, memo=memo)
        assert not folder or result.same_as(compute(inputs)), (folder, seconds)
