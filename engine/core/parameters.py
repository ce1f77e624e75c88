"""Parameters: one frozen value per view with every choice an operator can make, what-ifs included."""

from __future__ import annotations

import datetime
import functools
import math
import types
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from engine.core import units
from engine.core.bounded_read import read_bounded

LARGEST = 2.0**63  # values must lie between its negative and it: computed numbers hold no larger ones


class Attachment(msgspec.Struct, frozen=True):
    """A file named as a parameter (``-o heuristic-conf=FILE``), read by the front end so that compute stays pure."""

    name: str
    data: bytes


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every view's parameters: each field has a default and is declared with ``option``.

    Its option and settings key is the field's name with hyphens; a trailing underscore, which separates a name from
    Python's keywords, is dropped.
    """


def option(
    sentence: str,
    unit: str = "",
    choices: Iterable[str] = (),
    low: float | None = None,
    high: float | None = None,
    what_if: bool = False,
) -> msgspec.Meta:
    """Describe one parameter: what it does, its unit, its choices, its bounds (inclusive), whether it asks a what-if.

    Use it in the annotation; a ``Literal`` type implies the choices::

        class SpikeParameters(Parameters, frozen=True, kw_only=True):
            window: Annotated[float, option("Length of the window", unit="s", low=1)] = 60.0
            mode: Annotated[Literal["mean", "max"], option("How samples of a window are combined")] = "mean"
    """
    extra = {"unit": unit, "choices": tuple(choices), "low": low, "high": high, "what_if": what_if}
    return msgspec.Meta(description=sentence, extra=extra)


class Option(msgspec.Struct, frozen=True):
    """One parameter as documentation, settings check and the parameter panel use it."""

    key: str
    field: str
    type: Any
    default: Any
    sentence: str
    unit: str
    choices: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    what_if: bool = False


class BadOption(ValueError):
    """Raised for an invalid ``-o key=value`` or settings entry; the message says why and what would be valid."""


def options(kind: type[Parameters]) -> tuple[Option, ...]:
    """List the parameters of ``kind`` in declared order. Raises TypeError for a field that is not declared with ``option``."""
    return _declared(kind)


def no_what_if(kind: type[Parameters]) -> dict[str, Any]:
    """Return the defaults of the what-if options of ``kind`` by field: with these values there is no what-if."""
    return {declared.field: declared.default for declared in _declared(kind) if declared.what_if}


def asks_what_if(parameters: Parameters) -> bool:
    """Return whether any what-if option is set."""
    return any(getattr(parameters, field) != value for field, value in no_what_if(type(parameters)).items())


@functools.cache
def _declared(kind: type[Parameters]) -> tuple[Option, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    declared = []
    for spec in msgspec.structs.fields(kind):
        hint = hints[spec.name]
        meta = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)), None)
        if meta is None:
            raise TypeError(
                f"{kind.__name__}.{spec.name} is not described: declare it as "
                f'{spec.name}: Annotated[TYPE, option("What it does", unit="s")] = DEFAULT'
            )
        if spec.default is msgspec.NODEFAULT and spec.default_factory is msgspec.NODEFAULT:
            raise TypeError(
                f"{kind.__name__}.{spec.name} has no default: a view must compute with none of its options set"
            )
        default = spec.default if spec.default is not msgspec.NODEFAULT else spec.default_factory()
        extra, declared_type = meta.extra or {}, typing.get_args(hint)[0]
        words = typing.get_args(declared_type) if typing.get_origin(declared_type) is typing.Literal else ()
        declared.append(
            Option(
                key=spec.name.rstrip("_").replace("_", "-"),
                field=spec.name,
                type=declared_type,
                default=default,
                sentence=meta.description or "",
                unit=extra.get("unit", ""),
                choices=tuple(extra.get("choices", ())) or words,
                low=extra.get("low"),
                high=extra.get("high"),
                what_if=extra.get("what_if", False),
            )
        )
    return tuple(declared)


def _takes(kind: Any, wanted: type) -> bool:
    origin = typing.get_origin(kind)
    parts = typing.get_args(kind) if isinstance(kind, types.UnionType) or origin is typing.Union else ()
    return wanted in (kind, origin) or any(_takes(part, wanted) for part in parts)


def parse(kind: type[Parameters], pairs: Iterable[tuple[str, Any]], base: Parameters | None = None) -> Any:
    """Set options: ``pairs`` of option key and value (text from ``-o``, or values from settings) over ``base`` or the defaults.

    Returns parameters of type ``kind``. Texts are converted to the field's type: tuples split at commas, booleans from
    true/false/yes/no/on/off/1/0, an Attachment is read from the named file, an empty text means None where None is
    allowed. Raises BadOption.
    """
    by_key = {o.key: o for o in options(kind)}
    values = {} if base is None else msgspec.structs.asdict(base)
    for key, value in pairs:
        declared = by_key.get(key.replace("_", "-"))
        if declared is None:
            import difflib

            near = difflib.get_close_matches(key, by_key, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(by_key)}"
            raise BadOption(f"no option {key!r}{hint}")
        values[declared.field] = _convert(declared, value)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise BadOption(str(error)) from error


def _convert(declared: Option, value: Any) -> Any:
    """Convert ``value`` to the parameter's type and check its choices and bounds. Raises BadOption."""
    if isinstance(value, str):
        if value == "" and _takes(declared.type, types.NoneType):
            return None
        if _takes(declared.type, Attachment) and value not in declared.choices:
            try:
                return Attachment(value, read_bounded(value))
            except OSError as error:
                raise BadOption(f"{declared.key}: {value}: {error.strerror or error}") from error
        value = _from_text(declared, value.encode(errors="replace").decode())  # an argument may be no UTF-8
    if declared.choices:
        for part in value if isinstance(value, tuple) else (value,):
            if part not in declared.choices and not isinstance(part, Attachment | None):
                raise BadOption(f"{declared.key}: {part!r} is not one of {', '.join(declared.choices)}")
    try:
        converted = msgspec.convert(value, declared.type, strict=False)
    except msgspec.ValidationError as error:
        raise BadOption(f"{declared.key}: {value_text(value)!r} is not {_wanted(declared.type)}") from error
    for part in converted if isinstance(converted, tuple) else (converted,):
        _check_bounds(declared, part)
    return converted


def _wanted(kind: Any) -> str:
    """Describe the type ``kind`` in an operator's words."""
    if _takes(kind, int):
        return "a whole number"
    if _takes(kind, float):
        return "a number"
    if typing.get_origin(kind) is tuple:
        return f"a list of which each part is {_wanted(typing.get_args(kind)[0])}"
    return "a text"


def _from_text(declared: Option, text: str) -> Any:
    """Convert a text to a tuple (split at commas) or a boolean if the parameter's type is one."""
    if _takes(declared.type, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if _takes(declared.type, bool):
        lowered = text.lower()
        if lowered not in {"true", "false", "yes", "no", "on", "off", "1", "0"}:
            raise BadOption(f"{declared.key}: {text!r} is not true or false")
        return lowered in {"true", "yes", "on", "1"}
    return text


def _check_bounds(declared: Option, value: Any) -> None:
    low, high = declared.low, declared.high
    if not isinstance(value, (int, float)):
        return
    # Written so that NaN is outside.
    if not abs(value) < LARGEST:
        raise BadOption(f"{declared.key}: {value!s:.20} is no number to compute with")
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        lowest, highest = "-∞" if low is None else bound(low), "∞" if high is None else bound(high)
        raise BadOption(f"{declared.key}: {value} is not within {lowest} to {highest}")


def bound(number: float) -> str:
    """Format a bound as it would be typed: whole numbers with all their digits."""
    return str(int(number)) if float(number).is_integer() else f"{number:g}"


def value_text(value: Any) -> str:
    """Format a parameter's value as it is typed after ``-o key=``; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value_text(part) for part in value)
    return value.name if isinstance(value, Attachment) else str(value)


def parse_instant(text: str) -> int:
    """Parse an instant of the command line to epoch milliseconds.

    Takes ISO 8601 (without a zone: UTC; also a year, a month, or a date of eight digits), or epoch seconds or
    milliseconds (from 10^11 on they are milliseconds). Raises ValueError, also outside the years 1 to 9999.
    """
    text = text.strip()
    try:
        text = units.whole_date(text)
        number = float(text)
    except ValueError:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("neither a date and time (ISO 8601) nor epoch seconds or milliseconds") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        number = moment.timestamp() * 1000
    else:
        if not math.isfinite(number):
            raise ValueError("not a time")
        number = number if abs(number) >= 1e11 else number * 1000
    try:
        units.iso(round(number))
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("outside the years 1 to 9999") from error
    return round(number)
