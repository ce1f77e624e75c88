"""Helpers: reference files, members and keys from their JSON, and inputs built by hand from bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from engine.core.parameters import parse
from engine.core.reading import HEAD, FileKind, Problem, Reading, Source, fold
from engine.core.view import FILE, Context, FileInfo, Inputs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.placement import FINGERPRINT, FIXED, SPREAD, Keys, Placement, place
from engine.ring_placement.pyroscope.ring import Member, Ring, hex16, xxh64, xxh64_each
from engine.ring_placement.view import VIEW
from tests.reference import reference

DAY_MS = 1_795_217_520_000
"""A modification time shortly after the reference rings' heartbeats."""


def load(name: str) -> Any:
    path = reference("ring-placement") / name
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def raw(name: str) -> bytes:
    return (reference("ring-placement") / name).read_bytes()


def digest(numbers: Sequence[int]) -> str:
    return hex16(xxh64(",".join(map(str, numbers))))


def members(ring: Mapping[str, Any]) -> list[Member]:
    return [Member(i["id"], i["state"], i["zone"], i["num_tokens"]) for i in ring["instances"]]


def one_dataset_per_row(rows: Sequence[tuple[str, str, int, int, int, int, int]]) -> Keys:
    """Rows (tenant, dataset, T, D, kind, fingerprint or offset, weight), each a dataset of its own."""
    tenants = sorted({r[0] for r in rows})
    number = {t: i for i, t in enumerate(tenants)}
    count = len(rows)
    return Keys(
        tuple(tenants),
        np.array([number[r[0]] for r in rows], dtype=np.int32),
        xxh64_each(tenants),
        xxh64_each(r[1] for r in rows),
        np.array([r[2] for r in rows], dtype=np.int64),
        np.array([r[3] for r in rows], dtype=np.int64),
        np.zeros(count, dtype=bool),
        np.arange(count, dtype=np.int32),
        np.array([r[4] for r in rows], dtype=np.uint8),
        np.array([r[5] for r in rows], dtype=np.uint64),
        np.array([r[6] for r in rows], dtype=np.int64),
    )


def picked(key: Mapping[str, Any]) -> tuple[int, int]:
    """Kind and value of a reference key: by fingerprint where that gives its offset, else that fixed offset."""
    print_ = int(key["fingerprint"], 16)
    by_print = key["dataset_size"] > 0 and print_ % key["dataset_size"] == key["offset"]
    return (FINGERPRINT, print_) if by_print else (FIXED, key["offset"])


def dataset_rows(datasets: Sequence[Mapping[str, Any]]) -> Keys:
    return one_dataset_per_row(
        [
            (d["tenant"], d["dataset"], d["tenant_shards"], d["dataset_shards"], SPREAD, 0, d["bytes_per_s"])
            for d in datasets
        ]
    )


NOTHING = {
    table.name: pl.DataFrame(schema={**table.schema, FILE: pl.UInt32}) for kind in VIEW.kinds for table in kind.tables
}
"""Every input table without rows."""


@lru_cache(300)
def _read(kind: FileKind, source: Source, data: bytes) -> tuple[Reading, dict[str, pl.DataFrame]]:
    """A file and its frames; read once, for many tests look at the same files again and again."""
    reading, tables = kind.read(source, data, None, True), {table.name: table for table in kind.tables}
    return reading, {name: tables[name].frame(rows) for name, rows in reading.rows.items()}


def inputs(files: Mapping[str, bytes], mtime_ms: int = DAY_MS, version: int = 1) -> Inputs:
    """What the store would make of these files (name to content)."""
    frames = {name: [empty] for name, empty in NOTHING.items()}
    infos: dict[int, FileInfo] = {}
    problems: list[Problem] = []
    for number, (name, data) in enumerate(files.items(), 1):
        base = name.rsplit("/", 1)[-1]
        for kind in VIEW.kinds:
            if not kind.recognise(base, data[:HEAD]):
                continue
            reading, found = _read(kind, Source(name, base, mtime_ms, len(data)), data)
            problems += reading.problems
            infos[number] = FileInfo(number, name, name, kind.id, mtime_ms, len(data), version)
            for key, rows in found.items():
                frames[key].append(rows.with_columns(pl.lit(number, pl.UInt32).alias(FILE)))
    glued = {name: pl.concat(parts) if parts[1:] else parts[0] for name, parts in frames.items()}
    return Inputs(version, infos, fold(problems), glued.__getitem__)


def page(members_: Sequence[Member], now: str = "2026-11-20T23:32:00Z", beat: str = "2026-11-20T23:31:55Z") -> bytes:
    """A ring page of these members."""
    shards = [
        {
            "id": m.id, "state": m.state, "address": m.address or f"10.0.{n}.1:9095", "timestamp": beat,
            "registered_timestamp": "2025-08-12T12:00:00Z", "read_only": False, "zone": m.zone,
            "read_only_updated_timestamp": "0001-01-01T00:00:00Z", "tokens": list(range(m.tokens)) if m.tokens else None,
        }
        for n, m in enumerate(members_)
    ]  # fmt: skip
    return json.dumps({"shards": shards, "now": now}).encode()


def table(rows: Sequence[tuple[Any, ...]], header: str = "tenant,dataset,bytes_per_s") -> bytes:
    return (header + "\n" + "".join(",".join(map(str, r)) + "\n" for r in rows)).encode()


STATES = st.sampled_from(["ACTIVE", "ACTIVE", "ACTIVE", "LEAVING", "PENDING"])


@st.composite
def clusters(draw: st.DrawFn, regular: bool = False) -> Placement:
    """A small ring with keys of all kinds on it."""
    count = draw(st.integers(2, 7))
    tokens = draw(st.integers(1, 4))
    ring = Ring.of(
        Member(
            f"node-{i}",
            "ACTIVE" if regular else draw(STATES),
            f"z{i % 3}",
            tokens if regular else draw(st.integers(0, 4)),
        )
        for i in range(count)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    datasets, rows = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    tenants = 3
    keys = Keys(
        tuple(f"t{i}" for i in range(tenants)),
        rng.integers(0, tenants, datasets).astype(np.int32),
        xxh64_each(f"t{i}" for i in range(tenants)),
        xxh64_each(f"d{rng.integers(99)}" for _ in range(datasets)),
        rng.choice([0, 0, 1, 2, 3, 5, 9], datasets).astype(np.int64),
        rng.choice([0, 1, 1, 2, 3, 8, 40], datasets).astype(np.int64),
        rng.random(datasets) < 0.2,
        rng.integers(0, datasets, rows).astype(np.int32),
        rng.integers(0, 3, rows).astype(np.uint8),
        rng.integers(0, 2**63, rows).astype(np.uint64),
        rng.integers(0, 10**6, rows).astype(np.int64),
    )
    return place(ring, keys, 6)


def quiet(fraction: float) -> None:
    assert 0 <= fraction <= 1


def even(count: int = 12, tokens: int = 4, datasets: int = 60) -> tuple[list[Member], bytes]:
    cluster = [Member(f"segment-writer-{i}", "ACTIVE", f"zone-{'abc'[i % 3]}", tokens) for i in range(count)]
    return cluster, table([(f"t{i % 7}", f"svc-{i}", 720720) for i in range(datasets)])


def computed(cluster: list[Member], loads: bytes, *pairs: tuple[str, str], more: dict[str, bytes] | None = None) -> Any:
    given_inputs = inputs({"ring.json": page(cluster), "loads.csv": loads, **(more or {})})
    return VIEW.compute(given_inputs, parse(RingParameters, pairs), Context(now_ms=0))


def equal_keys(count: int) -> Keys:
    from tests.engine.ring_placement.cases import one_dataset_per_row

    return one_dataset_per_row([(f"t{i % 5}", f"d{i}", 0, 1, 0, 0, 1000) for i in range(count)])


THREE = [Member(f"w-{i}", "ACTIVE", f"z{i}") for i in range(3)]


def result_of(files: dict[str, bytes], **parameters: Any) -> Any:
    """The result of these files as those of segment writers: a ring page alone does not say its kind."""
    parameters.setdefault("strategy", "segment-writer")
    return VIEW.compute(inputs(files), RingParameters(**parameters), Context(now_ms=0))


def kinds(result: Any) -> set[str]:
    return {p.kind for p in result.problems}


def plain_moves(before: Placement, after: Placement) -> int:
    """Sum the decrease in load by definition, dataset by dataset and node by node."""
    held: dict[tuple[int, str], int] = {}
    for placement, sign in ((before, 1), (after, -1)):
        for row, node, weight in zip(
            placement.groups.datasets, placement.receivers, placement.groups.weight, strict=True
        ):
            if node >= 0:
                key = (int(row), placement.ring.ids[node])
                held[key] = held.get(key, 0) + sign * int(weight)
    return sum(v for v in held.values() if v > 0)
