"""Make the controls of the thresholds section."""

from __future__ import annotations

from typing import Any

from tui.widgets.control import NumberControl, WordControl

STEP = 0.02
"""Change of a threshold per key press."""

_STEPS = {"min_count": 1.0, "min_average": 5.0, "change_p": 0.001, "alpha": 0.01}
"""Steps of thresholds that do not move by ``STEP``."""

THRESHOLDS = ("threshold", "upper", "min_average", "min_count", "pass_share", "alpha", "change_p", "change_magnitude")
WORDS = ("mode", "scheme", "similarity", "sample", "group_by")


def threshold_controls(parameters: Any) -> list[WordControl | NumberControl]:
    """Return a control per choice of words and per threshold, in the order of the screen; none without parameters."""
    from engine.core.parameters import options

    if parameters is None:
        return []
    by_field = {option.field: option for option in options(type(parameters))}
    controls: list[WordControl | NumberControl] = [
        WordControl(_title(name), by_field[name].choices, getattr(parameters, name), id=f"set-{name}") for name in WORDS
    ]
    for name in THRESHOLDS:
        option = by_field[name]
        controls.append(
            NumberControl(
                _title(name),
                getattr(parameters, name),
                low=option.low or 0.0,
                high=option.high,
                step=_STEPS.get(name, STEP),
                id=f"set-{name}",
            )
        )
    return controls


def _title(field: str) -> str:
    return field.replace("_", " ")


def field_of(control: WordControl | NumberControl) -> str:
    """Return the parameter that a control changes."""
    return (control.id or "").removeprefix("set-")
