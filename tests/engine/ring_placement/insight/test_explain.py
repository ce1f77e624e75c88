"""Keys as operators type them."""

from __future__ import annotations

import pytest

from engine.ring_placement.insight.explain import BadKey, parse_key
from tests.engine.ring_placement.cases import (
    THREE,
    kinds,
    page,
    result_of,
)


def test_keys_to_explain() -> None:
    assert parse_key("t/d").dataset == "d"
    assert parse_key("t/a/b@00000000000000ff").fingerprint == 255
    assert parse_key("t/a@x").dataset == "a@x"
    labelled = parse_key('t{namespace="n", a="x"}')
    assert labelled.dataset == "unknown_service"
    assert [n for n, _ in labelled.labels] == ["a", "namespace", "service_name"]
    with pytest.raises(BadKey):
        parse_key("t{a=1}")
    result = result_of({"ring.json": page(THREE)}, explain="t{oops}")
    assert "bad-option" in kinds(result)
