"""JSON documents of which single records are bad."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import json_records
from tests.chance import tries

DEEP = b"[" * 5000 + b"]" * 5000
BAD = {
    "nested too deeply": b'{"a":' + DEEP + b"}",
    "text that is not UTF-8": b'{"a":"\xff"}',
    "Number out of range": b'{"a":1e999}',
    "JSON is malformed": b'{"a":tru}',
}


@pytest.mark.parametrize(("reason", "bad"), BAD.items())
@pytest.mark.parametrize(("before", "after", "depths"), [(b"[", b"]", (1,)), (b'{"rows":[', b"]}", (2, 1))])
def test_a_bad_record_costs_itself(
    reason: str, bad: bytes, before: bytes, after: bytes, depths: tuple[int, ...]
) -> None:
    good = b'{"a":"}{]["}'
    data = before + b" ,\n".join([good, bad, good, bad]) + after
    document = json_records.decode(data, depths)
    rows = document.value["rows"] if isinstance(document.value, dict) else document.value
    assert rows == [{"a": "}{]["}, None, {"a": "}{]["}, None]
    places = [data.find(bad), data.rfind(bad)]
    assert [place for place, _ in document.bad] == places
    assert all(text.startswith(reason) for _, text in document.bad)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,2", b'"', b"\\", b"[1]]", b"{}{}", b"[" * 100_000, b'["' + b'\\"' * 1000]
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(json_records.ERRORS):
        json_records.decode(data, (2, 1))


def test_a_document_without_its_end_is_closed_behind_its_last_record() -> None:
    whole = b'{"s":{"h":[{"n":"x","st":[{"a":[1]},{"b":"}"},{"c":2}]}]}}'
    for end in range(len(whole)):
        try:
            document = json_records.decode(whole[:end], (5,), cut=True)
        except json_records.ERRORS:
            assert end <= whole.find(b"},")
            continue
        records = document.value["s"]["h"][0]["st"]
        assert records == [{"a": [1]}, {"b": "}"}, {"c": 2}][: len(records)]
        assert document.cut
        assert len(records) == sum(whole[:end].count(last) for last in (b"[1]}", b'"}"}', b"2}"))
    assert not json_records.decode(whole, (5,), cut=True).cut


values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)), max_leaves=12)  # fmt: skip


@tries(30)
@given(st.lists(st.dictionaries(st.text(max_size=4), values, max_size=3), max_size=5), st.data())
def test_damage_in_one_record_changes_that_one_only(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    texts = [json.dumps(row, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass") for row in rows]
    assert json_records.decode(b"[" + b",".join(texts) + b"]", (1,)).value == rows
    if not rows:
        return
    place = data.draw(st.integers(0, len(rows) - 1))
    texts[place] = data.draw(st.sampled_from(sorted(BAD.values())))
    found = json_records.decode(b"[" + b",".join(texts) + b"]", (1,)).value
    assert found[:place] + found[place + 1 :] == rows[:place] + rows[place + 1 :]
    assert found[place] is None
