"""JSON files with odd, deep and damaged records: each is a problem with its place, and the good ones stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Reading, Source
from engine.core.tables import height_of
from engine.query_profile.reading.kinds import KINDS
from tests.chance import tries
from tests.engine.query_profile.builders import MTIME, read

DEEP = "[" * 3000 + "]" * 3000
BAD = ["null", "5", '"x"', "[]", "{}", DEEP, '{"a":' + DEEP + "}", '{"calls":1e999}', '{"a":"\udcff"}', '{"calls":{}}']
"""Records of which nothing can be used; \\udcff stands for a byte that is no UTF-8."""


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def rows(reading: Reading) -> int:
    return sum(height_of(table) for table in reading.rows.values())


def pgss(*others: str) -> bytes:
    row = '{"queryid":%d,"query":"SELECT %d","calls":4,"total_time":5.5,"rows":6}'
    return encoded("[" + ",".join([row % (1, 1), *others, row % (2, 2)]) + "]")


def pgss_lines(*others: str) -> bytes:
    row = '{"queryid":%d,"query":"SELECT %d","calls":4,"total_time":5.5,"rows":6}'
    return encoded("\n".join([row % (1, 1), row % (2, 2), *others, row % (3, 3), ""]))


def checkup(*others: str) -> bytes:
    row = '"%d":{"md5":"%d","query":"a","calls":4,"total_time":5.5,"rows":6}'
    named = [f'"x{i}":{other}' for i, other in enumerate(others)]
    return encoded(
        '{"snapshot_timestamptz":"2026-01-01 00:00:00","queries":{'
        + ",".join([row % (1, 1), *named, row % (2, 2)])
        + "}}"
    )


def digest(*others: str) -> bytes:
    row = '{"checksum":"%d","fingerprint":"select ?","query_count":1,"metrics":{"Query_time":{"sum":"1.5"}}}'
    return encoded('{"classes":[' + ",".join([row % 1, *others, row % 2]) + "]}")


def mpstat(*others: str) -> bytes:
    row = '{"timestamp":"00:00:%02d","cpu-load":[{"cpu":"all","usr":1.5,"sys":1.5,"idle":97.0}]}'
    begin = '{"sysstat":{"hosts":[{"nodename":"a","number-of-cpus":2,"date":"2026-01-01","statistics":['
    return encoded(begin + ",".join([row % 5, *others, row % 10]) + "]}]}}")


def docker(*others: str) -> bytes:
    row = '{"Name":"db%d","CPUPerc":"12.3%%"}'
    return encoded("\n".join([row % 1, *others, row % 2, ""]))


FORMATS: dict[str, tuple[str, Any]] = {
    "pgss": ("pgss-json", pgss),
    "pgss lines": ("pgss-json", pgss_lines),
    "checkup": ("pgss-json", checkup),
    "digest": ("pt-query-digest", digest),
    "mpstat": ("sysstat-json", mpstat),
    "docker": ("docker-stats", docker),
}


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("name", FORMATS)
def test_good_records_stay_beside_a_bad_one(name: str, bad: str) -> None:
    kind, build = FORMATS[name]
    plain = read("x.json", build(), kind)
    damaged = read("x.json", build(bad), kind)
    assert not plain.problems
    assert rows(damaged) == rows(plain) > 0
    assert damaged.complete
    if not (name == "checkup" and bad[0] in 'n5"[' and bad != DEEP):  # an object of rows may say other things, too
        assert 1 <= sum(problem.count for problem in damaged.problems) <= 2


@pytest.mark.parametrize("name", FORMATS)
def test_a_deep_document_is_a_problem(name: str) -> None:
    kind, _ = FORMATS[name]
    reader = next(each for each in KINDS if each.id == kind)
    for data in (DEEP.encode(), b'{"a":' * 20_000, b"[" * 20_000):
        reading = reader.read(Source("/in/x.json", "x.json", MTIME, len(data)), data, None, True)
        assert rows(reading) == 0
        assert reading.problems


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@tries(12)
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_any_value_in_any_place(name: str, data: st.DataObject) -> None:
    """A document in which one value was replaced by anything is read, whatever its type."""
    kind, build = FORMATS[name]
    lines = build().decode().splitlines()
    documents = [json.loads(line) for line in lines]
    place: Any = documents
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.integers(0, 4)) == 0:
            break
        place = place[key]
    place[key] = data.draw(anything)
    text = "\n".join(json.dumps(document) for document in documents).encode()
    reader = next(each for each in KINDS if each.id == kind)
    reading = reader.read(Source("/in/x.json", "x.json", MTIME, len(text)), text, None, True)
    for table in reader.tables:
        if table.name in reading.rows:
            table.frame(reading.rows[table.name])
