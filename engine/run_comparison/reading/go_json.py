"""Decode JSON as Go's ``encoding/json`` does into perf-tests' ``PerfData``: what it refuses and what it accepts.

The fast path is a typed decoder that accepts a subset of what Go accepts. Everything else goes the slow way, which
follows Go's rules (field names match in any case, null is a zero value, a type that does not fit or a number beyond
double refuses the whole file) and salvages what is still plain data for the modes that do not imitate the benchmark tool.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(slots=True)
class Item:
    """One data item: labels and numbers; None is a JSON null."""

    data: dict[str, float | None]
    labels: dict[str, str]
    unit: str = ""


@dataclass(slots=True)
class PerfData:
    """A decoded document.

    ``refused``: why Go's decoder refuses it, empty if it does not. ``nulls``: number of null values. ``bad``: nothing
    could be decoded. ``cut``: because the text ends too early.
    """

    items: list[Item] = field(default_factory=list)
    refused: str = ""
    nulls: int = 0
    cut: bool = False
    bad: bool = False


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    data: dict[str, float]
    unit: str = ""
    labels: dict[str, str] = {}


class _PlainDoc(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dataItems: list[_Plain]
    version: str = ""
    labels: dict[str, str] = {}


class ApiLabels(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The labels of an API responsiveness or pod startup item; any other label takes the general path."""

    Verb: str = ""
    Resource: str = ""
    Subresource: str = ""
    Scope: str = ""
    Metric: str = ""
    Count: str = ""
    SlowCount: str = ""


class ApiData(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The three percentiles of today's reports."""

    Perc50: float
    Perc90: float
    Perc99: float


class ApiItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One item of the common shape."""

    data: ApiData
    labels: ApiLabels
    unit: str = ""


class ApiDoc(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The common shape: decoded at C speed without a dict per item."""

    dataItems: list[ApiItem]
    version: str = ""
    labels: dict[str, str] = {}


_api = msgspec.json.Decoder(ApiDoc)
_plain = msgspec.json.Decoder(_PlainDoc)
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_api(data: bytes) -> ApiDoc | None:
    """Decode a document of exactly the common shape; None for any other."""
    try:
        return _api.decode(data)
    except REFUSALS:
        return None


def decode(data: bytes) -> PerfData:
    """Decode any PerfData document by Go's rules."""
    try:
        plain = _plain.decode(data)
    except REFUSALS:
        return _decode_slowly(data)
    return PerfData([Item(dict(i.data), i.labels, i.unit) for i in plain.dataItems])


class _Pairs(list):  # type: ignore[type-arg]
    """An object as its key and value pairs, duplicates included."""


class _NotANumber:
    """A NaN or Infinity literal, which JSON does not have."""


class _TooDeep(ValueError):
    pass


def _parse(text: str) -> Any:
    return json.loads(
        text, object_pairs_hook=_Pairs, parse_int=float, parse_float=float, parse_constant=lambda name: _NotANumber()
    )


def _decode_slowly(data: bytes) -> PerfData:
    decoded = PerfData()
    text = data.decode("utf-8", errors="replace")
    if text.startswith("\ufeff"):
        decoded.refused = "it begins with a byte order mark"
        text = text[1:]
    try:
        document = _parse(text)
    except RecursionError:
        return PerfData(refused="it is nested too deeply", bad=True)
    except ValueError as error:
        cut = looks_cut(text, error)
        reason = "the file is empty" if not text.strip() else f"not JSON: {error}"
        return PerfData(refused=reason, cut=cut, bad=True)
    _Reader(decoded).document(document)
    return decoded


def looks_cut(text: str, error: ValueError) -> bool:
    """Whether the error is at the end of the text, as in a file that is still being written."""
    if not text.strip():
        return True
    position = getattr(error, "pos", 0)
    return position >= len(text.rstrip()) - 1 or "Unterminated string" in str(error)


class _Reader:
    def __init__(self, decoded: PerfData) -> None:
        self.decoded = decoded

    def refuse(self, reason: str) -> None:
        if not self.decoded.refused:
            self.decoded.refused = reason

    @staticmethod
    def fields(pairs: _Pairs, names: tuple[str, ...]) -> dict[str, Any]:
        """Return struct fields: names match in any case, the last one wins."""
        folded = {name.lower(): name for name in names}
        values: dict[str, Any] = {}
        for key, value in pairs:
            name = folded.get(key.lower())
            if name is not None:
                values[name] = value
        return values

    def document(self, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, _Pairs):
            self.refuse("it is not a JSON object")
            return
        fields = self.fields(value, ("version", "dataItems", "labels"))
        self.text(fields.get("version"), "version")
        self.labels(fields.get("labels"))
        items = fields.get("dataItems")
        if items is None:
            return
        if isinstance(items, _Pairs) or not isinstance(items, list):
            self.refuse("dataItems is not a list")
            return
        for item in items:
            if item is None:
                continue
            if not isinstance(item, _Pairs):
                self.refuse("a data item is not an object")
                continue
            parts = self.fields(item, ("data", "unit", "labels"))
            self.decoded.items.append(
                Item(
                    self.data(parts.get("data")), self.labels(parts.get("labels")), self.text(parts.get("unit"), "unit")
                )
            )

    def text(self, value: Any, what: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(f"{what} is not a text")
            return ""
        return value

    def labels(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, _Pairs):
            self.refuse("labels is not an object")
            return {}
        return {key: self.text(text, f"label {key}") for key, text in value}

    def data(self, value: Any) -> dict[str, float | None]:
        if value is None:
            return {}
        if not isinstance(value, _Pairs):
            self.refuse("data is not an object")
            return {}
        numbers: dict[str, float | None] = {}
        for key, number in value:
            numbers.pop(key, None)
            if number is None:
                self.decoded.nulls += 1
                numbers[key] = None
            elif isinstance(number, _NotANumber):
                self.refuse(f"{key} is not a number that JSON has")
            elif not isinstance(number, float):
                self.refuse(f"{key} is not a number")
            elif not math.isfinite(number):
                self.refuse(f"{key} is beyond the range of a double")
            else:
                numbers[key] = number
        return numbers


def go_atoi(text: str) -> int | None:
    """Convert as ``strconv.Atoi`` does: base 10, an optional sign, 64 bits; None where it refuses."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4000:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
