"""Go's decoding of JSON into structs, written plainly from docs/models/run-comparison.md: one character after the other."""

from __future__ import annotations

from typing import Any

WHITE = " \t\r\n"
HEX = "0123456789abcdefABCDEF"


class SyntaxBad(Exception):
    """The text is no JSON."""


class Text:
    """A JSON text, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.s, self.at, self.depth = self.decoded(data), 0, 0

    @staticmethod
    def decoded(data: bytes) -> str:
        out, at = [], 0
        while at < len(data):
            for size in (1, 2, 3, 4):
                try:
                    out.append(data[at : at + size].decode("utf-8"))
                except UnicodeDecodeError:
                    continue
                at += size
                break
            else:
                out.append("\ufffd")
                at += 1
        return "".join(out)

    def peek(self) -> str:
        while self.at < len(self.s) and self.s[self.at] in WHITE:
            self.at += 1
        return self.s[self.at : self.at + 1]

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise SyntaxBad
        self.at += 1

    def value(self) -> Any:
        """A value as ("object", pairs), ("list", values), ("text", str), ("number", str) or ("word", str)."""
        start = self.peek()
        if start in ("{", "["):
            self.depth += 1
            if self.depth > 10_000:
                raise SyntaxBad
            found = self.container("}" if start == "{" else "]")
            self.depth -= 1
            return ("object" if start == "{" else "list", found)
        if start == '"':
            return ("text", self.string())
        for word in ("true", "false", "null"):
            if self.s.startswith(word, self.at):
                self.at += len(word)
                return ("word", word)
        return ("number", self.number())

    def container(self, end: str) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        if self.peek() == end:
            self.at += 1
            return found
        while True:
            if end == "}":
                if self.peek() != '"':
                    raise SyntaxBad
                key = self.string()
                self.take(":")
                found.append((key, self.value()))
            else:
                found.append(self.value())
            if self.peek() == ",":
                self.at += 1
                continue
            self.take(end)
            return found

    def string(self) -> str:
        self.at += 1
        out = []
        while True:
            if self.at >= len(self.s):
                raise SyntaxBad
            one = self.s[self.at]
            self.at += 1
            if one == '"':
                break
            if one < " ":
                raise SyntaxBad
            if one == "\\":
                one = self.escape()
            out.append(one)
        text = "".join(out)
        # Two halves of a surrogate pair make one character, a half alone makes U+FFFD.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def escape(self) -> str:
        one = self.s[self.at : self.at + 1]
        self.at += 1
        if one == "u":
            digits = self.s[self.at : self.at + 4]
            if len(digits) < 4 or any(digit not in HEX for digit in digits):
                raise SyntaxBad
            self.at += 4
            return chr(int(digits, 16))
        plain = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
        if one not in plain:
            raise SyntaxBad
        return plain[one]

    def digits(self) -> int:
        start = self.at
        while self.at < len(self.s) and self.s[self.at] in "0123456789":
            self.at += 1
        if self.at == start:
            raise SyntaxBad
        return self.at - start

    def number(self) -> str:
        start = self.at
        if self.s[self.at : self.at + 1] == "-":
            self.at += 1
        zero = self.s[self.at : self.at + 1] == "0"
        if self.digits() > 1 and zero:
            raise SyntaxBad
        if self.s[self.at : self.at + 1] == ".":
            self.at += 1
            self.digits()
        if self.s[self.at : self.at + 1] in ("e", "E"):
            self.at += 1
            if self.s[self.at : self.at + 1] in ("+", "-"):
                self.at += 1
            self.digits()
        return self.s[start : self.at]


def same_name(key: str, name: str) -> bool:
    """Whether a key is a field's name in any case, as Unicode folds single letters."""
    return "".join({"ſ": "s", "K": "k"}.get(c, c) for c in key).lower() == name.lower()


class Decoder:
    """Decodes values into Go-like variables; remembers whether any type did not fit."""

    def __init__(self) -> None:
        self.misfit = False

    def struct(self, value: Any, fields: dict[str, Any]) -> None:
        """``fields``: name to a function that takes the value."""
        kind, content = value
        if value == ("word", "null"):
            return
        if kind != "object":
            self.misfit = True
            return
        for key, part in content:
            for name, into in fields.items():
                if same_name(key, name):
                    into(part)

    def text(self, value: Any, before: str) -> str:
        if value == ("word", "null"):
            return before
        if value[0] != "text":
            self.misfit = True
            return before
        return str(value[1])

    def unsigned(self, value: Any, before: int) -> int:
        if value == ("word", "null"):
            return before
        if value[0] != "number" or not value[1].isdigit() or int(value[1]) >= 2**64:
            self.misfit = True
            return before
        return int(value[1])

    def mapping(self, value: Any, target: dict[str, Any], numbers: bool) -> None:
        kind, content = value
        if value == ("word", "null"):
            target.clear()
        elif kind != "object":
            self.misfit = True
        else:
            for key, part in content:
                if numbers:
                    target[key] = self.real(part)
                else:
                    target[key] = self.text(part, "")

    def real(self, value: Any) -> float:
        if value == ("word", "null"):
            return 0.0
        if value[0] != "number" or abs(float(value[1])) == float("inf"):
            self.misfit = True
            return 0.0
        return float(value[1])


Items = list[tuple[dict[str, float], dict[str, str], str]]


def perf_data(data: bytes) -> Items | None:
    """The items (data, labels, unit) that Go decodes; None where it refuses the document."""
    text, decoder = Text(data), Decoder()
    try:
        document = text.value()
        if text.peek():
            return None
    except SyntaxBad:
        return None
    memory: list[list[Any]] = []
    length = 0

    def items(value: Any) -> None:
        nonlocal memory, length
        kind, content = value
        if value == ("word", "null") or (kind == "list" and not content):
            memory, length = [], 0
            return
        if kind != "list":
            decoder.misfit = True
            return
        length = len(content)
        for at, part in enumerate(content):
            if at >= len(memory):
                memory.append([{}, {}, ""])
            item = memory[at]

            def unit(value: Any, item: list[Any] = item) -> None:
                item[2] = decoder.text(value, item[2])

            decoder.struct(
                part,
                {
                    "data": lambda value, item=item: decoder.mapping(value, item[0], True),
                    "labels": lambda value, item=item: decoder.mapping(value, item[1], False),
                    "unit": unit,
                },
            )

    decoder.struct(
        document,
        {
            "version": lambda value: decoder.text(value, ""),
            "dataItems": items,
            "labels": lambda value: decoder.mapping(value, {}, False),
        },
    )
    if decoder.misfit:
        return None
    return [(item[0], item[1], item[2]) for item in memory[:length]]


def run_mark(data: bytes, name: str) -> dict[str, Any] | None:
    """The fields of ``started.json`` or ``finished.json`` that Go decodes; None where it refuses the file."""
    text, decoder = Text(data), Decoder()
    try:
        document = text.value()
        if name == "finished.json" and text.peek():
            return None
    except SyntaxBad:
        return None
    found: dict[str, Any] = {"timestamp": 0}

    def stamp(value: Any) -> None:
        found["timestamp"] = decoder.unsigned(value, found["timestamp"])

    def words(field: str) -> Any:
        found[field] = ""

        def take(value: Any) -> None:
            found[field] = decoder.text(value, found[field])

        return take

    texts = ("result",) if name == "finished.json" else ("version", "jenkins-node")
    decoder.struct(document, {"timestamp": stamp, **{field: words(field) for field in texts}})
    return None if decoder.misfit else found
