"""Decode JSON as Go's ``encoding/json`` does: what it refuses and what it accepts.

The fast path of perf-tests' ``PerfData`` is a typed decoder that accepts a subset of what Go accepts. Everything else goes
the slow way, which follows Go's rules (field names match in any case; repeated ones are decoded one into the other; null is a
zero value; a type that does not fit or a number beyond double refuses the whole file) and salvages what is still plain
data for the modes that do not imitate the benchmark tool.

Source: the documentation of ``encoding/json`` and its decoder, ``src/encoding/json/decode.go`` of golang/go.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from engine.formats import json_text

DEEPEST = 10_000  # levels of nesting that Go's decoder accepts
MOST_ITEMS = 500_000
"""Most items of one report. Real reports have a few thousand; an empty item takes three bytes and a hundred times the memory."""


class Item(msgspec.Struct):
    """One data item: labels and numbers; None is a JSON null."""

    data: dict[str, float | None]
    labels: dict[str, str]
    unit: str = ""


class PerfData(msgspec.Struct):
    """A decoded document.

    ``listed``: whether it has the field ``dataItems``. ``refused``: why Go's decoder refuses it, empty if it does not.
    ``nulls``: number of null values. ``bad``: nothing could be decoded. ``cut``: because the text ends too early.
    """

    items: list[Item] = msgspec.field(default_factory=list)
    listed: bool = True
    refused: str = ""
    nulls: int = 0
    cut: bool = False
    bad: bool = False


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    data: dict[str, float]
    labels: dict[str, str]
    unit: str = ""


class _PlainDoc(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    dataItems: list[_Plain]
    version: str = ""
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


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
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


_Doc = TypeVar("_Doc", ApiDoc, _PlainDoc)
_api = msgspec.json.Decoder(ApiDoc)
_plain = msgspec.json.Decoder(_PlainDoc)


def decode_api(data: bytes) -> ApiDoc | None:
    """Decode a document of exactly the common shape; None for any other."""
    return _each_once(_api, data)


def decode(data: bytes) -> PerfData:
    """Decode any PerfData document by Go's rules."""
    plain = _each_once(_plain, data)
    return (
        _decode_slowly(data)
        if plain is None
        else PerfData([Item(dict(i.data), i.labels, i.unit) for i in plain.dataItems])
    )


def _each_once(decoder: msgspec.json.Decoder[_Doc], data: bytes) -> _Doc | None:
    """Decode a document of the decoder's shape; None for any other, and where an object or array is repeated.

    Go decodes a repeated field into what the first one gave, the typed decoder takes the last one alone. A repeated object
    shows in the number of braces, however its name is escaped.
    """
    try:
        document = decoder.decode(data)
    except json_text.ERRORS:
        return None
    objects = 1 + 3 * len(document.dataItems) + (document.labels is not msgspec.UNSET)
    return document if data.count(b"{") == objects else None


class Pairs(list[tuple[str, Any]]):
    """An object as its key and value pairs, repeated keys included."""

    __slots__ = ()


class Literal(str):
    """A number in its written form."""

    __slots__ = ()


def _one_for_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("one-for-each-byte", _one_for_each_byte)
_SURROGATES = re.compile("[\ud800-\udfff]")


def go_text(data: bytes) -> str:
    """Decode UTF-8; each byte that is not UTF-8 becomes a U+FFFD of its own."""
    return data.decode("utf-8", "one-for-each-byte")


def parse(text: str, *, stream: bool = False, constants: list[str] | None = None) -> Any:
    """Parse a JSON document: objects as ``Pairs``, numbers as ``Literal``.

    ``stream``: what follows the first value is not looked at. ``constants``: takes the NaN and Infinity that JSON does not
    have; they are False in the value. Raises ValueError, without ``constants`` also for these.
    """

    def constant(name: str) -> bool:
        if constants is None:
            raise ValueError(f"{name} is no JSON")
        constants.append(name)
        return False

    decoder = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Literal, parse_float=Literal, parse_constant=constant)

    def first(piece: bytes) -> Any:
        text = piece.decode()
        value, end = decoder.raw_decode(text, len(text) - len(text.lstrip(" \t\r\n")))
        if not stream and text[end:].strip(" \t\r\n"):
            raise json.JSONDecodeError("Extra data", text, end)
        return value

    data = text.encode()
    if stream:
        data = data[: next((end for _, end in json_text.spans(data, 0)), len(data))]
    return json_text.in_pieces(data, first, deepest=DEEPEST)[0]


def fields(pairs: Pairs, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a struct that has ``names``, in the order of the document: names match in any case."""
    folded = {name.lower(): name for name in names}
    for key, value in pairs:
        # The long s is the one other letter that Unicode folds to an ASCII one and lower() does not.
        name = folded.get(key.lower().replace("\u017f", "s"))
        if name is not None:
            yield name, value


def uint64(value: Any) -> int | None:
    """Return the unsigned 64-bit number that Go reads from a parsed value; None where it refuses it."""
    if not isinstance(value, Literal) or not value.isdecimal() or len(value) > 20:
        return None
    number = int(value)
    return number if number < 2**64 else None


def is_text(value: Any) -> bool:
    """Whether a parsed value is a JSON string."""
    return isinstance(value, str) and not isinstance(value, Literal)


def _decode_slowly(data: bytes) -> PerfData:
    decoded = PerfData(listed=False)
    text = go_text(data)
    if text.startswith("\ufeff"):
        decoded.refused = "it begins with a byte order mark"
        text = text[1:]
    constants: list[str] = []
    try:
        document = parse(text, constants=constants)
    except json_text.TooDeep:
        return PerfData(refused="it is nested too deeply", bad=True)
    except ValueError as error:
        cut = looks_cut(text, error)
        return PerfData(refused="the file is empty" if not text.strip() else f"not JSON: {error}", cut=cut, bad=True)
    if constants:
        decoded.refused = decoded.refused or f"it holds {constants[0]}, which is no number in JSON"
    _Reader(decoded).document(document)
    decoded.nulls = sum(value is None for item in decoded.items for value in item.data.values())
    return decoded


def looks_cut(text: str, error: ValueError) -> bool:
    """Whether the error is at the end of the text, as in a file that is still being written."""
    at_end = getattr(error, "pos", 0) >= len(text.rstrip()) - 1
    return not text.strip() or at_end or "Unterminated string" in str(error)


class _Reader:
    """Decode a parsed document into a ``PerfData``, field by field in document order."""

    def __init__(self, decoded: PerfData) -> None:
        self.decoded = decoded
        self._stored: list[Item] = []

    def refuse(self, reason: str) -> None:
        if not self.decoded.refused:
            self.decoded.refused = reason

    def document(self, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, Pairs):
            self.refuse("it is not a JSON object")
            return
        for name, part in fields(value, ("version", "dataItems", "labels")):
            if name == "version":
                self.text(part, name)
            elif name == "labels":
                self.labels({}, part)
            else:
                self.decoded.listed = True
                self.items(part)

    def items(self, value: Any) -> None:
        """Decode ``dataItems``: a repeated list is decoded into the items of the previous one and cut to its own length.

        A third, longer list finds the items beyond that again, as in a Go slice.
        """
        if value is not None and (isinstance(value, Pairs) or not isinstance(value, list)):
            self.refuse("dataItems is not a list")
            return
        if value and len(value) > MOST_ITEMS:
            self.refuse(f"it has {len(value)} items, more than {MOST_ITEMS} are not read")
            return
        if not value:
            self._stored = []
        for at, element in enumerate(value or ()):
            if at == len(self._stored):
                self._stored.append(Item({}, {}))
            self.item(self._stored[at], element)
        self.decoded.items = self._stored[: len(value or ())]

    def item(self, item: Item, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, Pairs):
            self.refuse("a data item is not an object")
            return
        for name, part in fields(value, ("data", "unit", "labels")):
            if name == "data":
                self.data(item.data, part)
            elif name == "labels":
                self.labels(item.labels, part)
            else:
                item.unit = self.text(part, "unit", item.unit)

    def text(self, value: Any, what: str, before: str = "") -> str:
        """Decode a string; null or any other type keeps ``before``, as in Go."""
        if value is None:
            return before
        if not is_text(value):
            self.refuse(f"{what} is not a text")
            return before
        return plain_text(value)

    def labels(self, labels: dict[str, str], value: Any) -> None:
        """Add to ``labels``; null empties them."""
        if value is None:
            labels.clear()
        elif not isinstance(value, Pairs):
            self.refuse("labels is not an object")
        else:
            labels.update((plain_text(key), self.text(text, f"label {key}")) for key, text in value)

    def data(self, numbers: dict[str, float | None], value: Any) -> None:
        """Add to ``numbers``; null empties them."""
        if value is None:
            numbers.clear()
            return
        if not isinstance(value, Pairs):
            self.refuse("data is not an object")
            return
        for name, literal in value:
            key = plain_text(name)
            numbers.pop(key, None)
            if literal is None:
                numbers[key] = None
            elif not isinstance(literal, Literal):
                self.refuse(f"{key} is not a number")
            elif math.isfinite(number := float(literal)):
                numbers[key] = number
            else:
                self.refuse(f"{key} is beyond the range of a double")


def plain_text(text: str) -> str:
    """Return ``text`` with U+FFFD for each half of a surrogate pair that stands alone."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def go_atoi(text: str) -> int | None:
    """Convert as ``strconv.Atoi`` does: base 10, an optional sign, 64 bits; None where it refuses."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 4000:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
