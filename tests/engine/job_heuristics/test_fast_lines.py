"""Large text histories are read by patterns: the rows must be those of the decoder, also when lines are damaged."""

from __future__ import annotations

from functools import cache

import pytest

from engine.job_heuristics import readers
from engine.job_heuristics.readers import HISTORY
from engine.reading import Reading, Source
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape, make


@cache
def text() -> bytes:
    return writer.text(make(Shape("m", "ann", "etl", maps=12, reduces=4, failing=0.3), 1, 1_760_000_000_000, 5))


def read(data: bytes, limit: int, monkeypatch: pytest.MonkeyPatch) -> Reading:
    monkeypatch.setattr(readers, "FROM_BYTES", limit)
    return HISTORY.read(Source("/d/x.jhist", "x.jhist", 0, len(data)), data, None, True)


def same(data: bytes, monkeypatch: pytest.MonkeyPatch, *, problems: bool = True) -> None:
    slow, fast = read(data, 2**60, monkeypatch), read(data, 0, monkeypatch)
    tables = {t.name: t for t in HISTORY.tables}
    assert slow.rows.keys() == fast.rows.keys()
    for name, rows in slow.rows.items():
        assert tables[name].frame(rows).equals(tables[name].frame(fast.rows[name])), name
    assert (slow.consumed, slow.state) == (fast.consumed, fast.state)
    if problems:
        assert {(p.kind, p.line) for p in slow.problems} == {(p.kind, p.line) for p in fast.problems}
    else:
        assert {p.line for p in slow.problems} == {p.line for p in fast.problems}


def test_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    same(text(), monkeypatch)
    fast = read(text(), 0, monkeypatch)
    assert not isinstance(fast.rows["task_ends"], dict), "the patterns were not used"


def test_same_rows_of_unusual_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    data = text()
    changes = (
        (b'"rackname":"/rack1"', '"rackname":"/räck"'.encode()),
        (b'"rackname":"/rack2"', b'"rackname":"a\\"b\\u001b"'),
        (b'"value":117}', b'"value":9223372036854775807}'),
        (b'"avataar":{"string":"VIRGIN"}', b'"avataar":null'),
        (b'"name":"COMBINE_INPUT_RECORDS"', b'"name":"CPU_MILLISECONDS"'),
        (b"org.apache.hadoop.mapreduce.TaskCounter", b"com.example.Mine"),
        (b'"type":"TASK_FINISHED","event"', b'"type" : "TASK_FINISHED", "event"'),
        (b"task_1760000000000_0001_m_000003", b"task_1760000000000_0002_m_000003"),
        (b"task_1760000000000_0001_m_000004", b"odd"),
    )
    for old, new in changes:
        assert old in data
        half = len(data) // 2
        same(data[:half] + data[half:].replace(old, new), monkeypatch)
        same(data[:half].replace(old, new, 3) + data[half:], monkeypatch)


def test_damage_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text().split(b"\n")
    for number in range(2, len(lines), 6):
        if not lines[number]:
            number += 1
        if number >= len(lines) or len(lines[number]) < 200:
            continue
        line = lines[number]
        for at in (40, len(line) // 2, len(line) - 60):
            # A quotation mark in a place breaks any JSON line.
            damaged = [*lines[:number], line[:at] + b'"' + line[at:], *lines[number + 1 :]]
            found = read(b"\n".join(damaged), 0, monkeypatch)
            assert [p.line for p in found.problems] == [number + 1], (number, at)
