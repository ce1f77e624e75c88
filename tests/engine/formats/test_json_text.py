"""JSON documents that a plain decoder refuses: nested too deeply, with odd numbers, cut, or with single bad records."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Reading, Source
from engine.formats import json_text
from engine.formats.json_text import MOST_DEPTH, TooDeep
from tests.chance import tries

DEEP = b"[" * 5000 + b"]" * 5000
BAD = {
    "nested too deeply": b'{"a":' + DEEP + b"}",
    "text that is not UTF-8": b'{"a":"\xff"}',
    "Number out of range": b'{"a":1e999}',
    "JSON is malformed": b'{"a":tru}',
}


def parse(data: bytes, **options: Any) -> json_text.Document:
    return json_text.parse("/in/x.json", data, **options)


def test_deep_values_are_left_out_and_the_rest_is_kept() -> None:
    deep = "[" * 100_000 + '"]}"' + "]" * 100_000
    document = parse(f'{{"a": [1, {deep}, {{"b": "[{{"}}, {deep}], "c": 2}}'.encode())
    assert document.value["c"] == 2 and document.value["a"][2] == {"b": "[{"}
    assert [(p.kind, p.count) for p in document.problems] == [("nested-too-deeply", 2)]
    value = parse(deep.encode()).value
    levels = 0
    while value:
        value, levels = value[0], levels + 1
    assert levels == MOST_DEPTH - 1


@pytest.mark.parametrize("rest", ["", "]" * 4999, "]" * 5001, "}" * 5000, '"', "1 2" + "]" * 5000])
def test_deep_text_that_is_no_json_does_not_parse(rest: str) -> None:
    data = b"[" * 5000 + rest.encode()
    reading = json_text.decode(Source("/in/x.json", "x.json", 0, len(data)), data)
    assert isinstance(reading, Reading) and not reading.complete
    assert [problem.kind for problem in reading.problems] == ["bad-json"]


def test_depth_can_be_bounded() -> None:
    assert json_text.in_pieces(b"[" * 3000 + b"]" * 3000, deepest=3000)[1] == 1
    with pytest.raises(TooDeep):
        json_text.in_pieces(b"[" * 3001 + b"]" * 3001, deepest=3000)


def test_odd_numbers_and_bytes_are_kept() -> None:
    digits = "9" * 10_000
    value = parse(f'\ufeff{{"a": {digits}, "b": 12345678901234567890, "c": -Infinity, "d": NaN}}'.encode()).value
    assert (value["a"], value["b"], value["c"]) == (math.inf, 12345678901234567890, -math.inf)
    assert math.isnan(value["d"])
    document = parse(b'\n{"a": "\xff"}')
    assert document.value == {"a": "\ufffd"}
    assert [(p.kind, p.line) for p in document.problems] == [("not-utf-8", 2)]
    with pytest.raises(json_text.ERRORS):
        parse(f"{digits} x".encode())


@pytest.mark.parametrize(("reason", "bad"), BAD.items())
@pytest.mark.parametrize(("before", "after", "depths"), [(b"[", b"]", (1,)), (b'{"rows":[', b"]}", (2, 1))])
def test_a_bad_record_costs_itself(
    reason: str, bad: bytes, before: bytes, after: bytes, depths: tuple[int, ...]
) -> None:
    good = b'{"a":"}{]["}'
    data = before + b" ,\n".join([good, bad, good, bad]) + after
    document = parse(data, records=depths)
    rows = document.value["rows"] if isinstance(document.value, dict) else document.value
    assert rows == [{"a": "}{]["}, None, {"a": "}{]["}, None]
    assert document.bad == 2
    assert [problem.byte for problem in document.problems] == [data.find(bad), data.rfind(bad)]
    assert all(problem.reason.startswith(reason) for problem in document.problems)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,2", b'"', b"\\", b"[1]]", b"{}{}", b"[" * 100_000, b'["' + b'\\"' * 1000]
)
@pytest.mark.parametrize("records", [(), (2, 1)])
def test_text_that_is_no_document_is_refused(data: bytes, records: tuple[int, ...]) -> None:
    with pytest.raises(json_text.ERRORS):
        parse(data, records=records)


def test_a_document_without_its_end_is_closed_behind_its_last_record() -> None:
    whole = b'{"s":{"h":[{"n":"x","st":[{"a":[1]},{"b":"}"},{"c":2}]}]}}'
    for end in range(len(whole)):
        try:
            document = parse(whole[:end], records=(5,), ends_cut=True)
        except json_text.ERRORS:
            assert end <= whole.find(b"},")
            continue
        records = document.value["s"]["h"][0]["st"]
        assert records == [{"a": [1]}, {"b": "}"}, {"c": 2}][: len(records)]
        assert document.cut
        assert len(records) == sum(whole[:end].count(last) for last in (b"[1]}", b'"}"}', b"2}"))
    assert not parse(whole, records=(5,), ends_cut=True).cut


values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)), max_leaves=12)  # fmt: skip


@tries(20)
@given(st.lists(st.dictionaries(st.text(max_size=4), values, max_size=3), max_size=5), st.data())
def test_damage_in_one_record_changes_that_one_only(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    texts = [json.dumps(row, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass") for row in rows]
    assert parse(b"[" + b",".join(texts) + b"]", records=(1,)).value == rows
    if not rows:
        return
    place = data.draw(st.integers(0, len(rows) - 1))
    texts[place] = data.draw(st.sampled_from(sorted(BAD.values())))
    found = parse(b"[" + b",".join(texts) + b"]", records=(1,)).value
    assert found[:place] + found[place + 1 :] == rows[:place] + rows[place + 1 :]
    assert found[place] is None
