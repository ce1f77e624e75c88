"""Block footers: real ones, and damaged."""

from __future__ import annotations

import pytest

from engine.core.reading import Source
from engine.core.view import Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.bucket_files import block_footer
from engine.ring_placement.view import KINDS, VIEW
from sample_data.ring_placement.encode import write_block
from tests.engine.ring_placement.cases import THREE, inputs, load, page, raw
from tests.reference import reference


def test_block_footers() -> None:
    expected = load("real/blocks.expected.json")
    folder = reference("ring-placement") / "real/blocks"
    for path in sorted(folder.glob("*/block.bin")):
        block = block_footer(path.read_bytes())
        assert block.datasets
        assert block_footer(write_block(block, b"content")) == block
        if path.parent.name not in expected:
            continue
        want = expected[path.parent.name]
        assert (block.id, block.shard, block.level, block.min_ms, block.max_ms) == (
            want["id"], want["shard"], want["compaction_level"], want["min_time"], want["max_time"],
        )  # fmt: skip
        assert block.created_by == want["resolved"]["created_by"]
        assert [
            {"tenant": d.tenant, "name": d.name, "size": d.size, "format": int(d.index)} for d in block.datasets
        ] == want["resolved"]["datasets"]
    name = "01JKT426996H1XWCX1M1ZQFRJ6"
    given = inputs({f"{name}/block.bin": raw(f"real/blocks/{name}/block.bin")})
    result = VIEW.compute(given, RingParameters(), Context(now_ms=0))
    rows = result.tables["observed"].to_dicts()
    assert {r["source"] for r in rows} == {"blocks"} and {r["instance"] for r in rows} == {None}
    assert result.summary["drift_pairs"] == 0


def test_block_footers_damaged() -> None:
    data = raw("real/blocks/01JKT426996H1XWCX1M1ZQFRJ6/block.bin")
    for broken, kind in (
        (data[:-1], "no-footer"),
        (b"", "no-footer"),
        (b"PAR1" + b"\0" * 20, "no-footer"),
        (data[:-20] + b"X" + data[-19:], "bad-footer"),
    ):
        result = inputs({"ring.json": page(THREE), "s/block.bin": broken})
        assert {p.kind for p in result.problems} == {kind}
        assert (
            VIEW.compute(result, RingParameters(strategy="segment-writer"), Context(now_ms=0)).summary["healthy"] == 3
        )


@pytest.mark.parametrize("name", ["placement_rules.binpb", "placement_stats.binpb"])
def test_cut_binaries_say_where(name: str) -> None:
    data = raw(f"native/{name}")[:-3]
    kind = next(k for k in KINDS if k.recognise(name, data))
    reading = kind.read(Source("f", name, 1, len(data)), data, None, True)
    assert not reading.complete
    assert reading.problems[0].kind == "bad-protobuf"
    assert reading.problems[0].byte is not None
