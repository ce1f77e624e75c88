"""Files cut or changed anywhere: no reader raises, and rows fit their tables."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Source
from engine.ring_placement.reading.kinds import KINDS
from tests.chance import more, tries
from tests.engine.ring_placement.cases import raw

FILES = {
    "native/ring3.page.json": "ring.json",
    "native/ring12_odd.viewkey.json": "view.json",
    "native/ring12_odd.kv.bin": "6-ring.kv.bin",
    "native/placement_rules.binpb": "placement_rules.binpb",
    "native/placement_stats.binpb": "placement_stats.binpb",
    "native/overrides.yaml": "overrides.yaml",
    "native/metrics.prom": "metrics.prom",
    "real/pyroscope-rendered-overrides-configmap.yaml": "cm.yaml",
    "real/blocks/01JKT426996H1XWCX1M1ZQFRJ6/block.bin": "block.bin",
}


def read_all(name: str, data: bytes) -> list[Any]:
    """Every reader on these bytes, whether it recognises them or not; none may raise, and rows must fit."""
    found = []
    for kind in KINDS:
        kind.recognise(name, data[:8192])
        reading = kind.read(Source(name, name, 1, len(data)), data, None, True)
        tables = {t.name: t for t in kind.tables}
        for key, rows in reading.rows.items():
            tables[key].frame(rows)
        found.append(reading)
    return found


@pytest.mark.parametrize("file", FILES)
def test_cut_and_flipped_anywhere(file: str) -> None:
    data = raw(file)
    rng = random.Random(7)
    small = len(data) < 4000
    cuts = range(0, len(data), 1 if len(data) < 700 else 37) if small else [0, 1, 7, 8, len(data) - 1, len(data) - 9]
    own = next(k for k in KINDS if k.recognise(FILES[file], data[:8192]))
    for cut in cuts:
        reading = own.read(Source("x", FILES[file], 1, cut), data[:cut], None, True)
        for key, rows in reading.rows.items():
            next(t for t in own.tables if t.name == key).frame(rows)
    for _ in range(more(24)):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(data) - 2000 if not small else 0, len(data))] = rng.randrange(256)
        read_all(FILES[file], bytes(broken))


@pytest.mark.parametrize("name", ["placement_rules.binpb", "placement_stats.binpb"])
def test_cut_binaries_say_where(name: str) -> None:
    data = raw(f"native/{name}")[:-3]
    kind = next(k for k in KINDS if k.recognise(name, data))
    reading = kind.read(Source("f", name, 1, len(data)), data, None, True)
    assert not reading.complete
    assert reading.problems[0].kind == "bad-protobuf"
    assert reading.problems[0].byte is not None


@tries(20)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    for head in (b"", b"\x0a", b"{", b"overrides:\n", b"tenant,dataset,bytes_per_s\n", b"PAR1", b"# TYPE a gauge\n"):
        read_all("placement_stats.binpb", head + data)
