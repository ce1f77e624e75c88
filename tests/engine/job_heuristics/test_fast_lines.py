"""Large text histories are read by patterns: the rows must be those of the decoder, also when lines are damaged."""

from __future__ import annotations

from functools import cache

import pytest

from engine.job_heuristics.reading import history_fast, kinds
from engine.job_heuristics.reading.history_fast import Known
from engine.job_heuristics.reading.kinds import HISTORY
from engine.live.store import Store
from engine.reading import Reading, Source
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape, make


@cache
def text() -> bytes:
    return writer.text(make(Shape("m", "ann", "etl", maps=12, reduces=4, failing=0.3), 1, 1_760_000_000_000, 5))


def read(data: bytes, patterns: bool, monkeypatch: pytest.MonkeyPatch) -> Reading:
    monkeypatch.setattr(kinds, "PATTERNS", patterns)
    return HISTORY.read(Source("/d/x.jhist", "x.jhist", 0, len(data)), data, None, True)


def same(data: bytes, monkeypatch: pytest.MonkeyPatch, *, problems: bool = True) -> None:
    slow, fast = read(data, False, monkeypatch), read(data, True, monkeypatch)
    tables = {t.name: t for t in HISTORY.tables}
    assert slow.rows.keys() == fast.rows.keys()
    for few in (0, 5_000):  # many rows become columns by queries, few value by value
        monkeypatch.setattr(history_fast, "_FEW", few)
        for name, rows in slow.rows.items():
            assert tables[name].frame(rows).equals(tables[name].frame(fast.rows[name])), (name, few)
            plain = fast.rows[name].plain(tables[name]) if isinstance(fast.rows[name], history_fast.Lines) else None
            if plain is not None:  # just what the frame gives back, types included
                held = tables[name].frame(rows).to_dict(as_series=False)
                nothing = [None] * fast.rows[name].height
                assert repr({column: plain.get(column, nothing) for column in held}) == repr(held), name
    assert (slow.consumed, slow.state) == (fast.consumed, fast.state)
    if problems:
        assert {(p.kind, p.line) for p in slow.problems} == {(p.kind, p.line) for p in fast.problems}
    else:
        assert {p.line for p in slow.problems} == {p.line for p in fast.problems}


def test_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    same(text(), monkeypatch)
    fast = read(text(), True, monkeypatch)
    ends = fast.rows["task_ends"]
    assert isinstance(ends, history_fast.Lines), "the patterns were not used"
    assert ends.plain(next(t for t in HISTORY.tables if t.name == "task_ends")) is not None


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
            found = read(b"\n".join(damaged), True, monkeypatch)
            assert [p.line for p in found.problems] == [number + 1], (number, at)


def test_many_files_share_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store makes one frame of lines that patterns took, lines they did not, and files without any."""
    other = text().replace(b"_1760000000000_0001", b"_1760000000000_0002").replace(b"/default-rack", b"/r\xc3\xa4ck")
    odd = b"\n".join(line for line in text().split(b"\n") if b"TASK_FINISHED" not in line)
    frames = {}
    for patterns in (False, True):
        store = Store(HISTORY.tables)
        for number, data in enumerate((text(), other, odd, other[: len(other) // 2], text()), 1):
            rows = read(data, patterns, monkeypatch).rows
            store.put(number, rows, store.check(rows))
        assert not store.flush()
        frames[patterns] = {table.name: store.snapshot()(table.name) for table in HISTORY.tables}
    for name, frame in frames[False].items():
        assert frame.height, name
        assert frame.equals(frames[True][name]), name


def test_odd_files_do_not_teach_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known()
    monkeypatch.setattr(kinds, "_KNOWN", known)
    for number in range(40):
        read(text().replace(b'"displayName"', b'"display%d"' % number), True, monkeypatch)
    assert all(len(patterns) <= 8 for patterns in known.patterns.values())
    assert all(credit <= 8 for credit in known.credit.values())
