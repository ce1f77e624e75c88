"""How parameters are declared, and what a wrong declaration says."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest

from engine.core.parameters import BadOption, Parameters, asks_what_if, no_what_if, option, options, parse


class Declared(Parameters, frozen=True, kw_only=True):
    window: Annotated[float, option("Length of the window", "s", low=1)] = 60.0
    mode: Annotated[Literal["mean", "max"], option("How samples of a window are combined")] = "mean"


class NotDescribed(Parameters, frozen=True, kw_only=True):
    window: float = 60.0


class WithoutDefault(Parameters, frozen=True, kw_only=True):
    window: Annotated[float, option("Length of the window")]


def test_unit_by_position_and_choices_of_a_literal() -> None:
    window, mode = options(Declared)
    assert (window.unit, window.low, mode.choices) == ("s", 1, ("mean", "max"))
    with pytest.raises(BadOption, match="mode: 'min' is not one of mean, max"):
        parse(Declared, [("mode", "min")])


@pytest.mark.parametrize("text", ["inf", "nan", "1e400", "9" * 400, "9223372036854775808", "\udcff"])
def test_what_is_no_number_to_compute_with_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="window: "):
        parse(Declared, [("window", text)])


def test_a_wrong_declaration_says_how_to_write_it() -> None:
    with pytest.raises(TypeError, match=r"window: Annotated\[TYPE, option\("):
        options(NotDescribed)
    with pytest.raises(TypeError, match="has no default"):
        options(WithoutDefault)


class WhatIf(Parameters, frozen=True, kw_only=True):
    mode: Annotated[str, option("How to count")] = "plain"
    fail: Annotated[tuple[str, ...], option("Nodes that fail", what_if=True)] = ()


def test_what_if_options_are_marked_where_they_are_declared() -> None:
    assert no_what_if(WhatIf) == {"fail": ()}
    assert asks_what_if(WhatIf(fail=("a",))) and not asks_what_if(WhatIf(mode="other"))
