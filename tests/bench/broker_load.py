"""The broker load view: the size Cruise Control's own benchmark has, and the size the view must stay quick at."""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import load_model
from engine.broker_load.model import history
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import BROKERS_IN, CAPACITY, INPUTS, METRICS, TOPOLOGY
from engine.broker_load.view import VIEW
from engine.core.incremental import Memo
from engine.core.parameters import parse
from engine.core.view import FILE, Context, FileInfo, Inputs
from engine.live.store import Store
from tests.bench.line import Line, best

START_MS = 1_700_000_040_000
CRUISE_CONTROL_LOW, CRUISE_CONTROL_HIGH = 0.16, 0.42


def synthetic(brokers: int, partitions: int, per_topic: int, ticks: int = 1, seed: int = 1) -> dict[str, pl.DataFrame]:
    """Tables of a cluster: RF 3, leaders and rates spread unevenly, every replica with a size; one file per tick."""
    rng = np.random.default_rng(seed)
    topic = np.arange(partitions) // per_topic
    number = (np.arange(partitions) % per_topic).astype(np.int32)
    first = rng.integers(0, brokers, partitions)
    step = rng.integers(1, brokers // 3, partitions)
    replicas = np.stack([(first + k * step) % brokers for k in range(3)], axis=1).astype(np.int32)
    names = np.array([f"topic-{i:05d}" for i in range(topic[-1] + 1)])
    lists = pl.Series(replicas).cast(pl.List(pl.Int32))
    topology = pl.DataFrame({
        "time_ms": np.full(partitions, START_MS), "topic": names[topic], "partition": number, "leader": replicas[:, 0],
        "replicas": lists, "isr": lists, "offline": pl.Series([[]] * partitions, dtype=pl.List(pl.Int32)),
    })  # fmt: skip
    capacity = {
        "broker": [-1],
        "disk_mb": [4e6],
        "cpu": [100.0],
        "cores": [16.0],
        "nw_in_kbs": [1e5],
        "nw_out_kbs": [2e5],
    }
    frames = []
    pair = np.unique(replicas[:, 0].astype(np.int64) * len(names) + topic)
    holder, led = (pair // len(names)).astype(np.int32), names[pair % len(names)]
    for tick in range(ticks):
        time = START_MS + 60_000 * tick
        parts: list[tuple[Any, Any, Any, Any, Any]] = []
        parts.extend(
            (holder, np.full(len(pair), raw_metrics.TOPIC[place]), led, None, rng.gamma(2.0, 2e4, len(pair)))
            for place in (0, 1, 4, 5, 6)
        )
        parts.append((replicas.ravel(), np.full(partitions * 3, raw_metrics.SIZE), names[np.repeat(topic, 3)],
                      np.repeat(number, 3), rng.gamma(2.0, 1e9, partitions * 3)))  # fmt: skip
        every = np.arange(brokers, dtype=np.int32)
        cpu = rng.uniform(0.2, 0.6, brokers)
        parts.append((every, np.full(brokers, raw_metrics.CPU), None, None, cpu))
        parts.extend(
            (every, np.full(brokers, metric), None, None, rng.gamma(2.0, 1e7, brokers)) for metric in raw_metrics.TOTALS
        )
        frames.extend(
            METRICS.frame(pl.DataFrame({
                "time_ms": np.full(len(b), time), "broker": b, "metric": m.astype(np.uint8),
                "topic": pl.Series([None] * len(b) if t is None else t, dtype=pl.String),
                "partition": pl.Series([None] * len(b) if p is None else p, dtype=pl.Int32),
                "value": v, "counter": np.zeros(len(b), np.bool_),
            })).with_columns(pl.lit(tick + 3, pl.UInt32).alias(FILE))
            for b, m, t, p, v in parts
        )  # fmt: skip
    return {
        "topology": TOPOLOGY.frame(topology).with_columns(pl.lit(1, pl.UInt32).alias(FILE)),
        "capacity": CAPACITY.frame(capacity).with_columns(pl.lit(2, pl.UInt32).alias(FILE)),
        "metrics": pl.concat(frames),
    }


def inputs_of(tables: dict[str, pl.DataFrame], version: int = 1, ticks: int = 1) -> Inputs:
    """Inputs over the tables; the others are empty."""
    empty = {t.name: t.empty().with_columns(pl.lit(0, pl.UInt32).alias(FILE)) for t in INPUTS}
    every = empty | tables
    files = {n: FileInfo(n, f"f{n}", f"f{n}", "bench", 0, 0, n) for n in range(1, ticks + 3)}
    return Inputs(version, files, (), lambda name: every[name])


def compute(inputs: Inputs, memo: Memo, *pairs: tuple[str, str]) -> Any:
    """One result."""
    return VIEW.compute(inputs, parse(VIEW.parameters, pairs), Context(now_ms=0, memo=memo))


def run() -> list[Line]:
    """Measure Cruise Control's size, then 200 brokers × 200,000 partitions × RF 3 × 60 windows."""
    lines = []
    small = inputs_of(synthetic(50, 10_000, 20))
    settings = BrokerLoadParameters()
    compute(small, Memo())
    known = Context(now_ms=0)
    load_model.build(small, settings, known, None)

    def round_again() -> None:
        # The topology stays, as Cruise Control's metadata does; the metrics are processed again.
        memo = Memo()
        for name in ("ticks", "topologies"):
            kept = known.memo.state(f"broker load {name}", dict)
            memo.state(f"broker load {name}", lambda kept=kept: kept)
        load_model.build(small, settings, Context(now_ms=0, memo=memo), None)

    took = best(round_again, 5)
    note = f"Cruise Control {CRUISE_CONTROL_LOW}-{CRUISE_CONTROL_HIGH} s, warm; at least 5 times faster asked"
    lines.append(Line("samples to broker loads, 50 × 10,000 × RF 3", took, "s", CRUISE_CONTROL_LOW, note=note))
    took = best(lambda: compute(small, Memo()), 3)
    lines.append(Line("the same with every table, goal and failure", took, "s", CRUISE_CONTROL_LOW, note=note))

    tables = synthetic(200, 200_000, 100)
    big = inputs_of(tables)
    took = best(lambda: compute(big, Memo()), 2)
    lines.append(Line("200 × 200,000 × RF 3, one scrape: everything for the first time", took, "s"))
    found = history.gather(big, Context(now_ms=0), None, 120_000)
    assert found is not None
    rng = np.random.default_rng(2)
    [(moment, one)] = found.build(list(found.stamps)).items()
    rounds = {
        moment + 3_600_000 * n: msgspec.structs.replace(
            one,
            interval=one.interval + 30 * n,
            time_ms=one.time_ms + 3_600_000 * n,
            rates=one.rates * rng.uniform(0.8, 1.2),
            totals=one.totals * 1.2,
            cpu=one.cpu * rng.uniform(0.8, 1.2),
            size=one.size * (1 + n / 100),
        )
        for n in range(61)
    }
    full = msgspec.structs.replace(
        found,
        stamps={each: each for each in rounds},
        rows=dict.fromkeys(rounds, 1),
        at=lambda _: one.topology,
        build=lambda moments: {each: rounds[each] for each in moments},
    )
    options = (("windows", "60"), ("min-samples", "1"))
    memo: Memo = Memo()
    with mock.patch.object(history, "gather", lambda *args, **kwargs: full):
        compute(big, memo, *options)
        weights = iter(np.linspace(0.1, 0.6, 50).tolist())
        gc.collect()
        sized = msgspec.structs.replace(settings, windows=60, min_samples=1)

        def again() -> None:
            fresh = msgspec.structs.replace(sized, a=next(weights))
            load_model.build(big, fresh, Context(now_ms=0, memo=memo), None)

        took = best(again, 3)
        lines.append(
            Line("200 × 200,000 × RF 3 × 60 windows: loads with another weight", took, "s", 1.0, note="budget")
        )
        took = best(lambda: compute(big, memo, *options, ("a", str(next(weights)))), 2)
        lines.append(Line("the same with every table, goal and failure", took, "s", 1.0, note="budget"))
        a = ("a", str(next(weights)))
        compute(big, memo, *options, a)
        kills = iter(range(200))
        took = best(lambda: compute(big, memo, *options, a, ("fail", str(next(kills)))), 5)
        lines.append(Line("the same size: kill a broker", took, "s", 0.05, note="budget"))
    two = synthetic(200, 200_000, 100, ticks=2)
    memo = Memo()
    first = two["metrics"].filter(pl.col(FILE) == 3)
    minutes = msgspec.structs.replace(settings, sampling_interval_s=60.0)
    before = inputs_of(two | {"metrics": first}, 1, 1)
    load_model.build(before, minutes, Context(now_ms=0, memo=memo), None)
    after = inputs_of(two, 2, 2)
    memos = [copy.deepcopy(memo) for _ in range(2)]
    took = best(lambda: load_model.build(after, minutes, Context(now_ms=0, memo=memos.pop()), None), 2)
    rows = two["metrics"].height - first.height
    lines.append(
        Line(
            f"the same size: one more scrape of all brokers ({rows:,} series)",
            took,
            "s",
            rows / 1e6,
            note="1 µs per series",
        )
    )
    return [*lines, *after_history(), *plans()]


def grown(ticks: int) -> Iterator[tuple[int, Callable[[], Inputs]]]:
    """10 brokers × 1,000 partitions as the live program holds them: per scrape its rows, and a function that takes it in
    and gives the inputs with it."""
    tables = synthetic(10, 1_000, 20, ticks=ticks)
    store = Store(INPUTS)
    store.put_frame("topology", tables["topology"], frozenset([1]))
    store.put_frame("capacity", tables["capacity"], frozenset([2]))
    infos = {n: FileInfo(n, f"f{n}", f"f{n}", "bench", 0, 0, 1) for n in (1, 2)}
    for (file,), rows in tables["metrics"].partition_by(FILE, as_dict=True, maintain_order=True).items():
        number = int(file)

        def take(number: int = number, rows: pl.DataFrame = rows) -> Inputs:
            store.put(number, {"metrics": rows.drop(FILE)}, rows.height)
            store.flush()
            infos[number] = FileInfo(number, f"f{number}", f"f{number}", "bench", 0, 0, number)
            return Inputs(number, infos.copy(), (), store.snapshot())

        yield rows.height, take


def after_history() -> list[Line]:
    """The store and the whole view after one more scrape, however many came before it."""
    lengths, tries = (10, 100, 1000), 5
    lines: list[Line] = []
    memo = Memo()
    took: list[float] = []
    for place, (rows, take) in enumerate(grown(max(lengths) + tries), 1):
        length = next((one for one in lengths if one <= place <= one + tries), None)
        if length is None:
            take()
            continue

        def work(take: Callable[[], Inputs] = take) -> None:
            compute(take(), memo)

        took.append(best(work, 1))
        if place == length:
            took.clear()  # it was the first to be computed, or came after many
        elif place == length + tries:
            first = lines[0].measured if lines else min(took)
            name = f"one more scrape ({rows:,} series) after {length} scrapes, store and every table"
            lines.append(Line(name, min(took), "s", first, note="after 10 scrapes: the history should not matter"))
    return lines


def plans() -> list[Line]:
    """Plans at the sizes they must stay quick at; every broker carries uneven loads; where there are racks, the replicas of two
    in five partitions share one by chance."""
    lines = []
    for brokers, partitions, racks, ask, budget in (
        (50, 10_000, 0, "survive", 3.0), (50, 10_000, 0, "mend", 20.0), (200, 200_000, 0, "survive", 60.0),
        (50, 10_000, 5, "survive", 3.0), (50, 10_000, 5, "mend", 20.0), (12, 420, 4, "drain:3", 2.0),
    ):  # fmt: skip
        tables, memo = synthetic(brokers, partitions, 50), Memo()
        if racks:
            listed = BROKERS_IN.frame({
                "broker": range(brokers), "host": [f"host-{broker}" for broker in range(brokers)],
                "rack": [f"rack-{broker % racks}" for broker in range(brokers)], "alive": [True] * brokers,
            })  # fmt: skip
            tables[BROKERS_IN.name] = listed.with_columns(pl.lit(1, pl.UInt32).alias(FILE))
        inputs = inputs_of(tables)
        compute(inputs, memo)  # the loads are there when a plan is asked for
        start = time.process_time()
        result = compute(inputs, memo, ("plan", ask))
        took = time.process_time() - start
        name = f"{brokers} × {partitions:,} × RF 3{f' in {racks} racks' if racks else ''}: plan={ask}"
        lines.append(Line(name, took, "s", budget, note=str(result.summary.get("plan"))))
    return lines
