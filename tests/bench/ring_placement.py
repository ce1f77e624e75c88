"""Timing of ring placement: 1M keys on 200 nodes, as ratios to Pyroscope's own speed; token rings at 300 x 512, to dskit's.

Pyroscope (Go, one core, measured): 256 ns per placement with hashes known, so a full pass over 1M keys takes 0.26 s and a
sweep of all 200 single departures 52 s; six candidates of a key cost 1.4 microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import FILE, Context, FileInfo, Inputs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.scenarios.replica_sweeps import PairSums
from engine.ring_placement.scenarios.scenario_state import apply_scenario, live_state
from engine.ring_placement.scenarios.segment_sweeps import every_node, every_pair
from engine.ring_placement.view import VIEW
from tests.bench.line import Line, best

INPUTS = {table.name: table for kind in VIEW.kinds for table in kind.tables}.values()
NODES = 200
KEYS = 1_000_000
LISTED = 5_000
PLACE_S = 256e-9
FAIL_S = 1.4e-6 / 3
"""Pyroscope's time for all six candidates, a third of it for the two that one failure needs."""


def generate(keys: int = KEYS, nodes: int = NODES, seed: int = 11) -> Inputs:
    """A ring of ``nodes`` × 4 tokens and ``keys`` series of 60,000 datasets of log-normal size in 3,000 tenants."""
    rng = np.random.default_rng(seed)
    datasets = max(1, keys * 6 // 100)
    tenant_of = rng.integers(0, max(1, datasets // 20), datasets)
    of = rng.integers(0, datasets, keys)
    names = pl.Series([f"service-{i:06d}" for i in range(datasets)])
    tenants = pl.Series([f"tenant-{i:05d}" for i in range(int(tenant_of.max()) + 1)])
    rate = np.round(rng.lognormal(8, 1.5, keys))
    loads = pl.DataFrame({
        "tenant": tenants.gather(pl.Series(tenant_of[of].astype(np.uint32))),
        "dataset": names.gather(pl.Series(of.astype(np.uint32))),
        "bytes_per_s": rate,
        "fingerprint": pl.Series(rng.integers(0, 2**63, keys).astype(np.uint64)),
    })  # fmt: skip
    members = pl.DataFrame({
        "id": [f"segment-writer-{i}" for i in range(nodes)],
        "state": ["ACTIVE"] * nodes,
        "zone": [f"zone-{'abc'[i % 3]}" for i in range(nodes)],
        "tokens": [4] * nodes,
        "key": [""] * nodes,
    })  # fmt: skip
    rules = int(datasets * 0.1)
    chosen = rng.choice(datasets, rules, replace=False)
    limits = pl.DataFrame({
        "tenant": tenants.gather(pl.Series(tenant_of[chosen].astype(np.uint32))),
        "dataset": names.gather(pl.Series(chosen.astype(np.uint32))),
        "tenant_limit": np.zeros(rules, dtype=np.int64),
        "dataset_limit": rng.integers(2, 9, rules),
        "load_balancing": np.ones(rules, dtype=np.int64),
        "created_at": np.ones(rules, dtype=np.int64),
    })  # fmt: skip
    rings = pl.DataFrame(
        {"kind": ["page"], "now_ns": [1_000_000_000], "members": [nodes], "key": [""], "partitions": [False]}
    )
    given = {"loads": loads, "members": members, "rules": limits, "rings": rings}
    frames = {
        t.name: t.frame(given.get(t.name, t.empty())).with_columns(pl.lit(1, dtype=pl.UInt32).alias(FILE))
        for t in INPUTS
    }
    info = FileInfo(1, "ring.json", "ring.json", "ring-page", 1, 1, 1)
    return Inputs(1, {1: info}, (), frames.__getitem__)


def run() -> list[Line]:
    """Preparation, interactive changes, sweeps; Pyroscope's figures are those of its own code for as many placements."""
    return [*_lines(), *_token_ring_lines()]


GET_S = 2.5e-6
"""dskit's own time (Go, one core, measured) for the replica set of one key at 300 members of 512 tokens in three zones."""
MEMBERS, TOKENS = 300, 512


def generate_tokens(keys: int, tenants: int = 0) -> Inputs:
    """A token ring of 300 members × 512 tokens in three zones; single keys of an unsharded tenant, tenants with shards of 6."""
    rng = np.random.default_rng(5)
    values = rng.choice(2**32, MEMBERS * TOKENS, replace=False).reshape(MEMBERS, TOKENS)
    members = pl.DataFrame({
        "id": [f"ingester-zone-{'abc'[i % 3]}-{i // 3}" for i in range(MEMBERS)],
        "state": ["ACTIVE"] * MEMBERS,
        "zone": [f"zone-{'abc'[i % 3]}" for i in range(MEMBERS)],
        "tokens": [TOKENS] * MEMBERS,
        "key": ["collectors/ring"] * MEMBERS,
        "values": [sorted(row.tolist()) for row in values],
    })  # fmt: skip
    rows = pl.DataFrame({
        "tenant": ["whole"] * keys,
        "token": rng.integers(0, 2**32, keys),
        "weight": np.ones(keys),
        "system": [""] * keys,
    })  # fmt: skip
    limits = pl.DataFrame({
        "tenant": [f"tenant-{i:05d}" for i in range(tenants)],
        "ingestion_shards": np.full(tenants, 6),
    })  # fmt: skip
    rings = pl.DataFrame({"kind": ["memberlist"], "now_ns": [1_795_217_515 * 10**9], "members": [MEMBERS],
                          "key": ["collectors/ring"], "partitions": [False]})  # fmt: skip
    given = {"members": members, "keys": rows, "overrides": limits, "rings": rings}
    frames = {
        t.name: t.frame(given.get(t.name, t.empty())).with_columns(pl.lit(1, dtype=pl.UInt32).alias(FILE))
        for t in INPUTS
    }
    info = FileInfo(1, "ring.json", "ring.json", "memberlist-json", 1, 1, 1)
    return Inputs(1, {1: info}, (), frames.__getitem__)


def _token_ring_lines() -> Iterator[Line]:
    """Bars of a token ring at 300 × 512; dskit's figures are those of its own code for as many keys."""
    few, many = generate_tokens(0), generate_tokens(KEYS)
    plain = RingParameters(placement_rows=LISTED)
    first = RingParameters(fail=("ingester-zone-a-0",), placement_rows=LISTED)

    def lay_out() -> Any:
        return live_state(few, plain, Context(now_ms=0))

    yield Line("token ring: layout of 300 x 512 tokens", best(lay_out) * 1000, "ms", 100.0, None, "bar")
    contexts: list[Context] = []

    def screen() -> None:
        contexts.append(Context(now_ms=0))
        VIEW.compute(few, plain, contexts[-1])

    yield Line("token ring: first screen", best(screen, 3) * 1000, "ms", 250.0, None, "bar")
    tenants = generate_tokens(0, 1000)
    yield Line("token ring: 1,000 tenants with shards of 6", best(lambda: live_state(tenants, plain, Context(now_ms=0)), 2),
               "s", 1.0, None, "bar")  # fmt: skip
    for name, given in (("", few), (", 1M keys", many)):
        context = Context(now_ms=0)
        state = live_state(given, plain, context)
        planned = apply_scenario(state, first, context).planned
        numbers = iter(range(10_000))

        def another(planned: Any = planned, state: Any = state, numbers: Any = numbers) -> None:
            failed = np.zeros(MEMBERS, dtype=bool)
            failed[[next(numbers) * 7 % MEMBERS, 5, 100]] = True
            state.strategy.fail(planned, failed, "unhealthy")

        basis = KEYS * GET_S * 1000 if name else 10.0
        yield Line(f"token ring: another failed set{name}", best(another, 7) * 1000, "ms", basis, None,
                   "dskit's code; bar 10 ms" if name else "bar")  # fmt: skip

        weight = planned.weight if name else planned.rows.length / 2**32

        def pairs(planned: Any = planned, weight: Any = weight) -> None:
            PairSums.of(planned, weight)

        pairs_s = KEYS * 44_850 * GET_S if name else 0.1
        yield Line(f"token ring: all 44,850 pairs{name}", best(pairs), "s", pairs_s, None,
                   "dskit's code; bar 0.3 s" if name else "bar")  # fmt: skip
    context = Context(now_ms=0)
    VIEW.compute(few, plain, context)
    steps = iter(range(10_000))

    def key_press() -> None:
        k = next(steps)
        down = (f"ingester-zone-a-{k % 100}", f"ingester-zone-b-{k * 7 % 100}")
        VIEW.compute(few, RingParameters(fail=down, regime="unhealthy", placement_rows=LISTED), context)

    yield Line("token ring: a key press, all of the result", best(key_press, 5) * 1000, "ms", 100.0, None, "bar")


def _lines() -> Iterator[Line]:
    given = generate()
    # The step table is a constant of the program, as it is Pyroscope's at start.
    Ring.of(Member(f"n{i}") for i in range(3))
    contexts: list[Context] = []

    def prepare(inputs: Inputs = given) -> None:
        contexts.append(Context(now_ms=0))
        VIEW.compute(inputs, RingParameters(placement_rows=LISTED), contexts[-1])

    whole = best(prepare, 3)
    yield Line("ring: prepare 1M keys, 200 nodes", whole, "s", 0.3, None, "bar")
    quarter = generate(KEYS // 4)
    part = best(lambda: prepare(quarter), 3)
    yield Line("ring: exponent of growth, 250k to 1M keys", math.log(whole / part, 4), "", 1.0, None, "linear")
    prepare()
    context = contexts[-1]
    numbers = iter(range(10_000))

    def change(regime: str) -> Callable[[], None]:
        def one() -> None:
            k = next(numbers)
            down = tuple(f"segment-writer-{(k * 7 + j * 31) % NODES}" for j in range(1 + k % 4))
            p = RingParameters(fail=down, regime=regime, placement_rows=LISTED)  # type: ignore[arg-type]
            VIEW.compute(given, p, context)

        return one

    yield Line("ring: another failing set, regime A", best(change("transient"), 7) * 1000, "ms", 10.0, None, "bar")
    yield Line("ring: another failing set, regime B", best(change("left"), 7) * 1000, "ms", 50.0, None, "bar")
    placement = live_state(given, RingParameters(placement_rows=LISTED), context).placement

    def still(fraction: float) -> None:
        pass

    def sweep(of: Callable[..., Any], regime: str) -> Callable[[], Any]:
        return lambda: of(placement, regime, None, still)

    singles, pairs = KEYS * NODES, KEYS * NODES * (NODES - 1) / 2
    name = "Pyroscope's code; bar"
    yield Line(
        "ring: all 200 departures, regime B",
        best(sweep(every_node, "left")),
        "s",
        singles * PLACE_S,
        None,
        f"{name} 0.1 s",
    )
    yield Line(
        "ring: all 200 failures, regime A",
        best(sweep(every_node, "transient")),
        "s",
        singles * FAIL_S,
        None,
        f"{name} 0.1 s",
    )
    yield Line(
        "ring: all 19,900 pairs, regime A",
        best(sweep(every_pair, "transient"), 1),
        "s",
        pairs * FAIL_S,
        None,
        f"{name} 5 s",
    )
    yield Line(
        "ring: all 19,900 pairs, regime B",
        best(sweep(every_pair, "left"), 1),
        "s",
        pairs * PLACE_S,
        None,
        f"{name} 5 s",
    )
