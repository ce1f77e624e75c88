"""What a reader works with: bytes and their source, rows and problems, and texts made harmless for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import msgspec

from engine.core.compression import MOST_UNPACKED, Budget

if TYPE_CHECKING:
    from engine.core.tables import Rows, Table  # late: needs Polars, which a text or a problem does not

MAX_FIELD = 4096  # maximum characters of a field; longer texts are cut when they are read

# C0 and C1 controls, DEL, line and paragraph separators, bidirectional controls, byte-order mark, lone surrogates,
# interlinear annotation, tag characters: each can move the cursor, reorder or hide what an operator reads.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def clean(text: str, limit: int = MAX_FIELD) -> str:
    """Replace characters that a terminal would act on by ``·``, and cut ``text`` to ``limit`` characters.

    Cut texts end in ``…``. Idempotent: ``clean(clean(x)) == clean(x)``.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isascii() and text.isprintable() else _HOSTILE.sub("·", text)


_NOT_PRINTED = bytes(range(0x20)).replace(b"\n", b"") + b"\x7f"


def _printed(text: str, by: str | Callable[[re.Match[str]], str]) -> str:
    """Replace hostile characters line by line; most texts are plain ASCII lines, which a quick check spares the search."""
    if text.isascii() and len(text) == len(text.encode("ascii").translate(None, _NOT_PRINTED)):
        return text
    return "\n".join(_HOSTILE.sub(by, line) for line in text.split("\n"))


def harmless(text: str) -> str:
    """Replace characters that a terminal would act on in a text of several lines by ``·``: the last gate before output.

    Names are cleaned when they are read; text from the command line is not.
    """
    return _printed(text, "·")


def harmless_json(text: str) -> str:
    """Escape characters that a terminal would act on in a JSON text; its value stays the same."""
    return _printed(text, lambda found: _escaped(found[0]))


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def decode(data: bytes) -> str:
    """Decode UTF-8, with U+FFFD for bytes that are not. Does not clean: parse first, then clean the fields."""
    return data.decode("utf-8", errors="replace")


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing wrong in one place of a file.

    ``line`` is 1-based, None in files without lines (``byte`` says where, if known). ``kind``: a short stable id in kebab-case
    (``bad-record``, ``cut-file``, ``unreadable``); ``reason``: one sentence, cleaned for a terminal; ``count``: number of
    occurrences, of which the place is the first.
    """

    path: str
    line: int | None
    kind: str
    reason: str
    count: int = 1
    byte: int | None = None

    @classmethod
    def at(
        cls, path: str, kind: str, reason: str, *, line: int | None = None, byte: int | None = None, count: int = 1
    ) -> Problem:
        """Make a problem with its texts cleaned and cut (path 4096, reason 400 characters)."""
        return cls(clean(path, 4096), line, kind, clean(reason, 400), count, byte)

    def as_row(self) -> dict[str, object]:
        """Return the row of ``report``'s ``problems`` list: path, line, kind, reason, count."""
        reason = self.reason if self.byte is None else f"{self.reason} (at byte {self.byte})"
        return {"path": self.path, "line": self.line, "kind": self.kind, "reason": reason, "count": self.count}


def fold(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Merge problems of equal path, kind and reason at their first place, and sort them by path and place."""
    first: dict[tuple[str, str, str], Problem] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for problem in problems:
        key = (problem.path, problem.kind, problem.reason)
        first.setdefault(key, problem)
        counts[key] = counts.get(key, 0) + problem.count
    folded = (msgspec.structs.replace(problem, count=counts[key]) for key, problem in first.items())
    return tuple(sorted(folded, key=lambda p: (p.path, p.line or 0, p.byte or 0, p.kind, p.reason)))


def not_utf8(path: str, data: bytes) -> tuple[Problem, ...]:
    """Return a problem with the first place where ``data`` is not UTF-8; empty if it is."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        reason = "bytes that are not UTF-8 are shown as \ufffd"
        return (Problem.at(path, "not-utf-8", reason, line=data.count(b"\n", 0, error.start) + 1),)
    return ()


MORE = "more-problems"  # kind of the problem that counts the unlisted ones


def bounded(problems: Iterable[Problem], most: int) -> tuple[Problem, ...]:
    """Return ``problems`` with equal ones joined, at most ``most`` of them; further ones are counted.

    The result does not depend on parts: bounding a bounded list together with later problems gives the same.
    """
    several = tuple(problems)
    counted = sum(problem.count for problem in several if problem.kind == MORE)
    listed = fold(problem for problem in several if problem.kind != MORE)
    if not counted and len(listed) <= most:
        return listed
    counted += sum(problem.count for problem in listed[most - 1 :])
    reason = "further problems in this file are counted only"
    return (*listed[: most - 1], Problem(several[0].path, None, MORE, reason, counted))


class Problems(list[Problem]):
    """The problems of one reading: equal ones are counted at the first place, and the number of different ones is bounded.

    Add problems only by ``append``, ``extend`` and ``+=``.
    """

    MOST = 1000  # different problems that stay listed; beyond twice as many the rest is only counted

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        super().__init__()
        self._at: dict[tuple[str, str], int] = {}
        self.extend(problems)

    def append(self, problem: Problem) -> None:
        """Add a problem, or count it with an equal one."""
        at = self._at.setdefault((problem.kind, problem.reason), len(self))
        if at < len(self):
            first = self[at]
            self[at] = Problem(
                first.path, first.line, first.kind, first.reason, first.count + problem.count, first.byte
            )
            return
        super().append(problem)
        if len(self) > 2 * self.MOST:
            self[:] = bounded(self, self.MOST)
            self._at = {(one.kind, one.reason): at for at, one in enumerate(self)}

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add several problems."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Self:  # type: ignore[misc, override]
        self.extend(problems)
        return self

    def __reduce__(self) -> tuple[type[Problems], tuple[list[Problem]]]:
        return type(self), (list(self),)


HEAD = 8192  # bytes (after decompression) that recognition sees


class Source(msgspec.Struct, frozen=True):
    """Where bytes come from. ``path`` is absolute, ``name`` the base name without a compression ending, ``mtime_ms``
    the file's modification time (epoch ms), ``size`` its size on disk in bytes, ``offset`` the byte (after
    decompression) at which the data given to ``read`` begin: 0, or where the last read of an append kind stopped.
    ``most_unpacked``: bytes that the file may unpack to (setting max-unpacked-mb)."""

    path: str
    name: str
    mtime_ms: int
    size: int
    offset: int = 0
    most_unpacked: int = MOST_UNPACKED

    def budget(self) -> Budget:
        """Return the budget for a reader that unpacks parts of the file by itself."""
        return Budget(self.size, self.most_unpacked)


class Reading(msgspec.Struct):
    """The outcome of one ``read``.

    ``rows``: per declared table, columns (lists or arrays of equal length), a frame, for very many rows ``Parts``, or for many
    small files ``Gathered``, without the ``file`` column, which the store adds. ``consumed``: bytes of ``data`` that were
    complete records; the rest is given again with what follows. ``state``: what the next ``read`` of this file needs; cached on
    disk, so it must survive msgspec's MessagePack (plain dicts, lists, strings, numbers, bytes). ``complete`` False: a document
    that does not parse *yet*; the store keeps the last good version and tries again.
    """

    rows: dict[str, Rows] = msgspec.field(default_factory=dict)
    problems: list[Problem] = msgspec.field(default_factory=Problems)
    consumed: int = 0
    state: Any = None
    complete: bool = True


@runtime_checkable
class FileKind(Protocol):
    """One file format as one view understands it.

    ``append`` True: the file grows by whole records and ``read`` is called with only the new bytes (``source.offset``
    > 0) and the ``state`` it returned last. False: ``read`` gets the whole file each time and replaces its rows.
    ``id`` names the kind, once per view; ``title`` is its line in ``docs/reference/files.md``. ``version`` changes whenever
    ``read`` would give other rows for the same bytes: it is part of the cache key. ``tables``: all tables that it may
    fill; rows of any other are refused.

    ``ends_cut = True``: a compressed file of this kind may end anywhere while it is being written, without a problem.

    A kind whose documents close themselves, as JSON does, may say so by
    ``closes = True``: one that parses has ended, with or without a line end, and is not read again once it is quiet.
    A kind that unpacks parts of its files by itself says ``unpacks = True``: even a small one is read outside of
    the session's process.
    A kind may say by ``marks`` which words (lower case; alternatives with ``|``) its files begin with, keys of JSON in quotes:
    of a file that no reader takes, the user is told to which kind it comes nearest, and what it lacks (``Document.lacks``).
    A kind of documents that are overwritten in place, of which earlier versions are worth a look, says so by
    ``keeps_versions = True`` (``Inputs.past``).
    """

    id: str
    title: str
    append: bool
    version: int
    tables: tuple[Table, ...]

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether a file called ``name`` (no compression ending) that begins with ``head`` is of this kind. Cheap.

        Every kind of every view is asked, and each that says yes reads the file, so never accept another tool's files.
        """

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Turn bytes into rows. Never raises for bad data.

        ``final``: nothing will follow for now (a one-shot report, or the file has been quiet for some seconds), so a last record
        without its terminator is taken if it parses, or becomes a problem. With ``final`` False an incomplete last record is not
        consumed. A log is always read with ``final`` False first; the rest is given again with True, and its rows are undone
        when the file grows. A document is read with False while it may still be written.
        """


class Document:
    """Base of kinds whose files are read whole each time; a subclass raises ``version`` when its rows change."""

    append = False
    version = 1
    tables: tuple[Table, ...]
    marks: tuple[str, ...] = ()

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return how near a file that begins with ``head`` is to this kind, from 0 to 1, and which of the marks it lacks. Keys in
        quotes are marks of JSON only, tags of XML only, and other words of text only."""
        form = form_of(head)
        if not self.marks or form != _FORMS.get(self.marks[0][0], "text"):
            return 0.0, ""
        text = decode(head).lower()
        found = (lambda word: _has_word(text, word)) if form == "text" else (lambda word: word in text)
        missing = [mark.replace("|", " or ") for mark in self.marks if not any(map(found, mark.split("|")))]
        return 1 - len(missing) / len(self.marks), ", ".join(missing)


def _has_word(text: str, word: str) -> bool:
    """Whether ``text`` has ``word``, and not only inside another word."""
    before = "(?<![_0-9a-z])" if word[0].isalnum() else ""
    behind = "(?![_0-9a-z])" if word[-1].isalnum() else ""
    return re.search(before + re.escape(word) + behind, text) is not None


_FORMS = {'"': "JSON", "<": "XML"}
_JSON = re.compile(rb'\{\s{0,400}["}]|\[\s{0,400}(?:[\[{"\]]|-?\d[\d.]{0,30}\s{0,9},)')


def form_of(head: bytes) -> str:
    """Return what a file that begins with ``head`` is written in: JSON, XML, text, UTF-16, or binary data."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if b"\0" in head:
        return "binary data"
    first = from_first_character(head)
    return "JSON" if _JSON.match(first) else "XML" if first.startswith(b"<") else "text"


class Log(Document):
    """Base of kinds whose files grow by whole records, of which only the new bytes are read.

    If a kind has ``foresee(state, lines)``, which predicts the state after some more lines, another process can read the rest of
    a file at the same time; a wrong prediction costs only time.
    """

    append = True


def from_first_character(head: bytes) -> bytes:
    """Strip leading blanks and byte order marks."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")


def whole_lines(data: bytes, final: bool) -> bytes:
    """Return ``data`` up to its last line end; all of it if ``final``."""
    return data if final else data[: data.rfind(b"\n") + 1]
