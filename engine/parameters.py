"""Parameters: one frozen value per view that holds every choice an operator can make. A simulation is parameters."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.named import contents


class Attachment(msgspec.Struct, frozen=True):
    """A file given as a parameter (``-o heuristic-conf=FILE``): read by the front end, so that compute stays pure."""

    name: str
    data: bytes


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every view's parameters. Each field has a default and is declared as
    ``Annotated[type, option("sentence", unit="ms")]``. Its option and settings key is the name with hyphens (a trailing
    underscore, which keeps a name off Python's keywords, is dropped)."""


def option(
    sentence: str,
    *,
    unit: str = "",
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
) -> msgspec.Meta:
    """Meta of one parameter: what it does in a sentence, its unit, the words it may take, its bounds (inclusive)."""
    return msgspec.Meta(description=sentence, extra={"unit": unit, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class Option:
    """One parameter as documentation, settings check and the parameter panel see it."""

    key: str
    field: str
    type: Any
    default: Any
    sentence: str
    unit: str
    choices: tuple[str, ...]
    low: float | None = None
    high: float | None = None


class BadOption(ValueError):
    """An ``-o key=value`` or settings entry that cannot be taken; the message says why and what would do."""


def options(kind: type[Parameters]) -> tuple[Option, ...]:
    """The parameters of ``kind`` in declared order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for spec in msgspec.structs.fields(kind):
        hint = hints[spec.name]
        meta = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)), None)
        if meta is None:
            raise TypeError(f"{kind.__name__}.{spec.name} lacks its option(...)")
        default = spec.default if spec.default is not msgspec.NODEFAULT else spec.default_factory()
        extra = meta.extra or {}
        found.append(
            Option(
                key=spec.name.rstrip("_").replace("_", "-"),
                field=spec.name,
                type=typing.get_args(hint)[0],
                default=default,
                sentence=meta.description or "",
                unit=extra.get("unit", ""),
                choices=tuple(extra.get("choices", ())),
                low=extra.get("low"),
                high=extra.get("high"),
            )
        )
    return tuple(found)


def _takes(kind: Any, wanted: type) -> bool:
    if kind is wanted or typing.get_origin(kind) is wanted:
        return True
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return any(_takes(part, wanted) for part in typing.get_args(kind))
    return False


def parse(kind: type[Parameters], pairs: Iterable[tuple[str, Any]], base: Parameters | None = None) -> Any:
    """``pairs`` of option key and value (text from ``-o``, or values from settings) over ``base`` or the defaults.

    Texts are converted to the field's type: tuples split at commas, booleans from true/false/yes/no/on/off/1/0, an
    Attachment is read from the named file, an empty text means None where None is allowed. Raises BadOption.
    """
    known = {o.key: o for o in options(kind)}
    values = {} if base is None else msgspec.structs.asdict(base)
    for key, value in pairs:
        found = known.get(key.replace("_", "-"))
        if found is None:
            import difflib

            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise BadOption(f"no option {key!r}{hint}")
        values[found.field] = _convert(found, value)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise BadOption(str(error)) from error


def _convert(found: Option, value: Any) -> Any:
    if isinstance(value, str):
        if value == "" and _takes(found.type, types.NoneType):
            return None
        if _takes(found.type, Attachment):
            try:
                return Attachment(value, contents(value))
            except OSError as error:
                raise BadOption(f"{found.key}: {value}: {error.strerror or error}") from error
        if _takes(found.type, tuple):
            value = tuple(part.strip() for part in value.split(",") if part.strip())
        elif _takes(found.type, bool):
            lowered = value.lower()
            if lowered not in {"true", "false", "yes", "no", "on", "off", "1", "0"}:
                raise BadOption(f"{found.key}: {value!r} is not true or false")
            value = lowered in {"true", "yes", "on", "1"}
    if found.choices:
        for part in value if isinstance(value, tuple) else (value,):
            if part not in found.choices:
                raise BadOption(f"{found.key}: {part!r} is not one of {', '.join(found.choices)}")
    try:
        taken = msgspec.convert(value, found.type, strict=False)
    except msgspec.ValidationError as error:
        raise BadOption(f"{found.key}: {error}") from error
    for part in taken if isinstance(taken, tuple) else (taken,):
        if isinstance(part, (int, float)) and (
            (found.low is not None and not part >= found.low) or (found.high is not None and not part <= found.high)
        ):
            low = "-∞" if found.low is None else bound(found.low)
            high = "∞" if found.high is None else bound(found.high)
            raise BadOption(f"{found.key}: {part} is not within {low} to {high}")
    return taken


def bound(number: float) -> str:
    """A bound of an option as one would type it: whole numbers with all their digits."""
    return str(int(number)) if float(number).is_integer() else f"{number:g}"
