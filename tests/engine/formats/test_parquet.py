"""Parquet is decoded in another process, so that a damaged file harms only that one."""

from __future__ import annotations

import io
import os
import random
import signal
from collections.abc import Callable

import polars as pl
import pytest

from engine.core.compression import RATIO_FROM
from engine.formats import parquet
from engine.formats.parquet import Damaged

FRAME = pl.DataFrame({"broker": [1, 2, 3] * 50, "t": list(range(150)), "v": [1.5] * 150, "s": ["abc"] * 150})


def read(data: bytes, wanted: Callable[[list[str]], bool], **more: Callable[[str], bool]) -> pl.DataFrame | None:
    """All parts of a file as one frame; each says with which row it begins."""
    rows = 1

    def part(frame: pl.DataFrame, first: int) -> pl.DataFrame:
        nonlocal rows
        assert first == rows
        rows += frame.height
        return frame

    parts = parquet.read(data, wanted, part, **more)
    return None if parts is None else pl.concat(parts)


def packed() -> bytes:
    buffer = io.BytesIO()
    FRAME.write_parquet(buffer)
    return buffer.getvalue()


def test_frame_of_wanted_columns() -> None:
    seen: list[list[str]] = []
    found = read(packed(), lambda names: bool(seen.append(names)) or True)
    assert found is not None and found.equals(FRAME) and seen == [FRAME.columns]
    assert read(packed(), lambda names: False) is None


@pytest.mark.parametrize("rows", [0, 1, 1000, parquet.SLICE, parquet.SLICE + 1, 2 * parquet.SLICE + 5])
def test_a_file_is_read_part_by_part(rows: int) -> None:
    whole = pl.DataFrame({"n": pl.int_range(rows, eager=True), "s": pl.int_range(rows, eager=True).cast(pl.String)})
    buffer = io.BytesIO()
    whole.write_parquet(buffer, row_group_size=50_000)
    found = read(buffer.getvalue(), lambda names: True)
    assert found is not None and found.equals(whole) and found.schema == whole.schema


@pytest.mark.parametrize("data", [b"", b"PAR1PAR1", packed()[:-5], b"PAR1" + bytes(100) + b"PAR1"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(Damaged):
        read(data, lambda names: True)


def test_damaged_pages_harm_only_the_child() -> None:
    whole, ended = packed(), 0
    for seed in (964, *range(60)):  # of these 964 ends its decoder, with Polars 2.1
        chance, data = random.Random(seed), bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 4))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read(bytes(data), lambda names: True)
        except Damaged:
            ended += 1
    assert ended > 10
    found = read(whole, lambda names: True)
    assert found is not None and found.equals(FRAME)


def test_small_files_of_very_many_rows_or_texts() -> None:
    def small(column: pl.Series) -> bytes:
        buffer = io.BytesIO()
        pl.DataFrame({"a": column, "b": column}).write_parquet(buffer)
        assert buffer.tell() < 1 << 20
        return buffer.getvalue()

    rows = small(pl.repeat(0, parquet.MOST_CELLS // 2 + 1, dtype=pl.Int8, eager=True))
    texts = small(pl.Series(["x" * 1_000_000]).gather([0] * (parquet.MOST_TEXT // 2_000_000 + 1)))
    fewer = small(pl.repeat(0, RATIO_FROM // parquet.CELL // 2 + 1, dtype=pl.Int8, eager=True))
    for data, why in ((rows, "more than is read"), (texts, "more than is read"), (fewer, "taken for a bomb")):
        with pytest.raises(Damaged, match=why):
            read(data, lambda names: True)
    found = read(packed(), lambda names: True, keep=lambda name: name in ("v", "t"))
    assert found is not None and found.equals(FRAME.select("t", "v"))


@pytest.mark.parametrize(("number", "why"), [(signal.SIGKILL, "ends the process"), (signal.SIGSTOP, "too long")])
def test_a_child_that_dies_or_hangs(number: signal.Signals, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read(packed(), lambda names: False)
    processes = parquet._CHILD._processes
    assert processes is not None
    (pid,) = (process.pid for process in processes._processes)
    monkeypatch.setattr(parquet, "PATIENCE_S", 0.2)
    os.kill(pid, number)
    with pytest.raises(Damaged, match=why):
        read(packed(), lambda names: True)
    assert processes.exit_status == -signal.SIGKILL
    monkeypatch.undo()
    assert read(packed(), lambda names: True) is not None
