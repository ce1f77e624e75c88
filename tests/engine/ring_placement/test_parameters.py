"""Options that cannot be taken."""

from __future__ import annotations

import pytest

from engine.core.parameters import BadOption, parse
from engine.ring_placement.parameters import RingParameters


@pytest.mark.parametrize(
    "pair", [("capacity", "lots"), ("capacity", "1e400"), ("now", "yesterday"), ("regime", "gone"), ("scale", "0")]
)
def test_bad_options_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(BadOption):
        parse(RingParameters, [pair])
