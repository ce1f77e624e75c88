"""A file of lines whose head was cut off (``tail -n``, rotation) loses the record it begins inside, and no other."""

from __future__ import annotations

from engine.core.reading import HEAD, FileKind, Problem, Source
from tests.contract.test_recognition import KINDS, SAMPLES

COPIES = 3


def read(kind: FileKind, name: str, data: bytes) -> tuple[float, list[Problem]]:
    """How much a file gives: the calls of its rows, or their number; and its problems."""
    reading = kind.read(Source(f"/in/{name}", name, 1, len(data)), data, None, True)
    frames = [table.frame(reading.rows[table.name]) for table in kind.tables if table.name in reading.rows]
    return sum(float(f["calls"].sum()) if "calls" in f.columns else f.height for f in frames), reading.problems


def repeatable() -> list[tuple[str, str]]:
    """The kinds of text whose sample may follow itself."""
    found = []
    for (view, ident), kind in KINDS.items():
        name, data = SAMPLES.get(view, {}).get(ident, ("", b""))
        once = read(kind, name, data)[0] if data.endswith(b"\n") and data.isascii() else 0
        if once and read(kind, name, data * COPIES)[0] == COPIES * once:
            found.append((view, ident))
    return found


MENDED = {"slow-log", "postgresql-log", "postgresql-csvlog", "postgresql-jsonlog"}
"""Kinds that must take a file cut anywhere; others may refuse it, since its first lines say what it is."""


def test_a_cut_head_costs_one_record() -> None:
    tested = repeatable()
    assert {ident for _, ident in tested} >= MENDED
    for key in tested:
        kind, (name, data) = KINDS[key], SAMPLES[key[0]][key[1]]
        once, whole = read(kind, name, data)[0], data * COPIES
        lines = data.splitlines(keepends=True)
        for cut in range(1, len(lines) + 1):
            for inside in (0, len(lines[cut - 1]) // 2):
                rest = whole[sum(map(len, lines[:cut])) - inside :]
                taken = kind.recognise(name, rest[:HEAD])
                assert taken or key[1] not in MENDED, rest
                assert not taken or read(kind, name, rest)[0] >= (COPIES - 1) * once, rest


def test_a_cut_record_that_looks_whole_is_said() -> None:
    """What was lost is a problem, not a record of nothing."""
    name, data = SAMPLES["query-profile"]["slow-log"]
    rest = data[data.index(b"SET timestamp") :] + data
    assert [problem.kind for problem in read(KINDS["query-profile", "slow-log"], name, rest)[1]] == []
    rest = b"# Rows_affected: 0  Bytes_sent: 60\n" + rest
    assert [problem.kind for problem in read(KINDS["query-profile", "slow-log"], name, rest)[1]] == ["bad-record"]
