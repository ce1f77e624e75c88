"""Helpers: reference files, members and keys from their JSON, and inputs built by hand from bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.problems import Problem, fold
from engine.reading import HEAD, Source
from engine.ring_placement.pyroscope.hashing import hex16, xxh64, xxh64_each
from engine.ring_placement.pyroscope.keys import FINGERPRINT, FIXED, SPREAD, Keys
from engine.ring_placement.pyroscope.ring import Member
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


def inputs(files: Mapping[str, bytes], mtime_ms: int = DAY_MS, version: int = 1) -> Inputs:
    """What the store would make of these files (name to content)."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for kind in VIEW.kinds:
        for table in kind.tables:
            frames.setdefault(table.name, [table.empty().with_columns(pl.lit(None, pl.UInt32).alias(FILE))])
    infos: dict[int, FileInfo] = {}
    problems: list[Problem] = []
    for number, (name, data) in enumerate(files.items(), 1):
        base = name.rsplit("/", 1)[-1]
        for kind in VIEW.kinds:
            if not kind.recognise(base, data[:HEAD]):
                continue
            reading = kind.read(Source(name, base, mtime_ms, len(data)), data, None, True)
            problems += reading.problems
            infos[number] = FileInfo(number, name, name, kind.id, mtime_ms, len(data), version)
            tables = {t.name: t for t in kind.tables}
            for key, rows in reading.rows.items():
                frames[key].append(tables[key].frame(rows).with_columns(pl.lit(number, pl.UInt32).alias(FILE)))
    glued = {name: pl.concat(parts) for name, parts in frames.items()}
    return Inputs(version, infos, fold(problems), glued.__getitem__)


def page(members_: Sequence[Member], now: str = "2026-11-20T23:32:00Z", beat: str = "2026-11-20T23:31:55Z") -> bytes:
    """A ring page of these members."""
    shards = [
        {
            "id": m.id, "state": m.state, "address": m.address or "10.0.0.1:9095", "timestamp": beat,
            "registered_timestamp": "2025-08-12T12:00:00Z", "read_only": False, "zone": m.zone,
            "read_only_updated_timestamp": "0001-01-01T00:00:00Z", "tokens": list(range(m.tokens)) if m.tokens else None,
        }
        for m in members_
    ]  # fmt: skip
    return json.dumps({"shards": shards, "now": now}).encode()


def table(rows: Sequence[tuple[Any, ...]], header: str = "tenant,dataset,bytes_per_s") -> bytes:
    return (header + "\n" + "".join(",".join(map(str, r)) + "\n" for r in rows)).encode()
