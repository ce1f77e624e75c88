"""JSON nested deeper than Python recurses, and numbers longer than it reads."""

from __future__ import annotations

import json

import pytest

from engine.formats.deep_json import KEPT, TooDeep, loads


def test_what_lies_deep_is_left_out_and_the_rest_is_kept() -> None:
    deep = "[" * 100_000 + '"]}"' + "]" * 100_000
    assert loads(f'{{"a": [1, {deep}, {{"b": "[{{"}}], "c": 2}}')["c"] == 2
    value = loads(deep)
    levels = 0
    while value:
        value, levels = value[0], levels + 1
    assert levels == KEPT - 1


DEEP = "[" * 5000


@pytest.mark.parametrize("rest", ["", "]" * 4999, "]" * 5001, "}" * 5000, '"', "1 2" + "]" * 5000])
def test_deep_text_that_is_no_json(rest: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        loads(DEEP + rest)


def test_a_bound_on_the_depth() -> None:
    assert loads("[" * 3000 + "]" * 3000, deepest=3000)
    with pytest.raises(TooDeep):
        loads("[" * 3001 + "]" * 3001, deepest=3000)


def test_huge_integers_are_floats() -> None:
    digits = "9" * 10_000
    assert loads(f'{{"a": {digits}, "b": 12345678901234567890}}') == {"a": float("inf"), "b": 12345678901234567890}
    with pytest.raises(json.JSONDecodeError):
        loads(digits + " x")
