"""Parse delimited text (COPY CSV, psql, mysql --batch): rows, or a header and rows as dicts; bad rows become problems."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from engine.core.reading import Problem, Source, decode, whole_lines

BOM = b"\xef\xbb\xbf"
csv.field_size_limit(1 << 24)  # query texts may be longer than the module's 128 KB; longer than 16 MB is a problem

_BATCH = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


@lru_cache(maxsize=4)  # every reader asks it about the same file
def header_fields(head: bytes) -> list[str]:
    """Return the lower-cased column names of the first line, for any delimiter; empty if it is no header."""
    head = head.removeprefix(BOM).lstrip(b"\r\n")
    if any(mark in head[:DRAWN] for mark in _DRAWINGS):
        head = tabbed(decode(head)).lstrip("\n").encode("utf-8", "surrogatepass")
    line = decode(head.split(b"\n", 1)[0]).rstrip("\r")
    try:
        return [f.strip().strip('"').lower() for f in next(csv.reader([line], delimiter=delimiter(line)))]
    except (csv.Error, StopIteration):
        return []


def delimiter(line: str) -> str:
    """Return the delimiter that splits ``line`` into the most fields: tab, comma, semicolon or bar."""
    return max("\t,;|", key=line.count)


DRAWN = 4096
"""Characters within which a table that a client has drawn begins: a prompt may stand before it, or the end of a cut record."""
_DRAWINGS = (b"+-", b"***", b"-[ R", b"-+")
_RECORD = re.compile(r"(?m)^(?:\*{5,} ?\d+\. row ?\*{5,}|-\[ RECORD \d+ \])")
_FRAME = re.compile(r"(?:[^\n|+]*+\n){0,3}+(?:(\+-[-+]*+) *+\r?\n\||[^\n]*+\n(-++(?:\+-++)++)\r?\n)")
_FOOTER = re.compile(r"\(\d+ rows?\)")


def tabbed(text: str) -> str:
    """Turn what clients draw for people into a header and rows with tabs: ``mysql -t``, ``\\G``, psql's table and ``\\x``.

    Other text is returned as it is.
    """
    found, record = _FRAME.match(text), _RECORD.search(text, 0, DRAWN)
    if found is not None:
        return "\n".join("\t".join(_escaped(cell.strip()) for cell in row) for row in _drawn(text, found[1], found[2]))
    if record is None:
        return text
    rows: list[dict[str, str]] = []
    mark, width, name = (":" if record[0][0] == "*" else "|"), 0, ""
    for line in text[record.start() :].splitlines():
        if _RECORD.match(line):
            rows.append({})
            width = 0
            continue
        width = width or line.find(mark)
        fits = line[width : width + 1] == mark
        name = line[:width].strip() or name if fits else name
        value = line[width + 2 :] if fits else line
        rows[-1][name] = f"{rows[-1][name].rstrip('+')}\n{value}" if name in rows[-1] else value
    names = list(rows[0])
    lines = (names, *([each[name] for name in names if name in each] for each in rows))
    return "\n".join("\t".join(map(_escaped, line)) for line in lines)


def _drawn(text: str, box: str | None, line: str) -> list[list[str]]:
    """Cut rows into cells at the marks of their frame (a ``box``, or psql's ``line`` alone), which wide characters shift.

    In psql's table a cell that ends with + continues in the next row.
    """
    marks = [at for at, mark in enumerate((box or line)[1:-1], 0 if box else 1) if mark == "+"]
    rows: list[list[str]] = []
    for row in text.split("\n"):
        row = (
            row.rstrip("\r ")[1:].removesuffix("|") if box and row.startswith("|") else "" if box else row.rstrip("\r")
        )
        fits = bool(marks) and all(row[at : at + 1] == "|" for at in marks)
        cells = [row[a + 1 : b] for a, b in pairwise([-1, *marks, len(row)])] if fits else row.split(" | ")
        if rows and not box and fits and any(cell.endswith("+") for cell in rows[-1]):
            pairs = zip(rows[-1], cells, strict=True)
            rows[-1] = [f"{old[:-1].rstrip()}\n{new.strip()}" if old[-1:] == "+" else old for old, new in pairs]
        elif len(cells) > 1:
            rows.append(cells)
    return rows


def _escaped(text: str) -> str:
    """Escape a field as ``unescape`` reads it."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def unescape(text: str) -> str:
    """Undo the escapes of ``mysql --batch`` for newlines, tabs and backslashes."""
    return re.sub(r"\\(.?)", lambda match: _BATCH.get(match[1], match[1]), text, flags=re.DOTALL)


def records(
    source: Source, data: bytes, problems: list[Problem], final: bool
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Yield each row as (line, fields by lower-cased column name); None for a repeated header line, which starts a new
    snapshot.

    Rows with another number of fields are problems and left out; so is a last row without its newline unless ``final``.
    """
    if data.startswith(BOM):
        problems.append(Problem.at(source.path, "byte-order-mark", "the file begins with a byte order mark", line=1))
        data = data.removeprefix(BOM)
    data = whole_lines(data, final)
    if any(mark in data[:DRAWN] for mark in _DRAWINGS):
        data = tabbed(decode(data)).encode()
    first = next((line for line in _Lines(data) if line.strip("\r\n")), "")
    cut = delimiter(first)
    quoted = cut != "\t" or '"' in first
    names: list[str] | None = None
    ragged: dict[int, tuple[int, int]] = {}
    for line, fields in rows(source, data, cut, quoted, problems):
        lowered = [field.strip().lower() for field in fields]
        if names is None:
            names = lowered
            for name in sorted(name for name, times in Counter(names).items() if times > 1):
                reason = f"column {name!r} appears twice; the last counts"
                problems.append(Problem.at(source.path, "duplicate-column", reason))
        elif lowered == names:
            yield line, None
        elif len(fields) != len(names):
            if len(fields) == 1 and _FOOTER.fullmatch(fields[0]):  # psql counts what it printed
                continue
            at, times = ragged.get(len(fields), (line, 0))
            ragged[len(fields)] = (at, times + 1)
        else:
            yield line, dict(zip(names, fields if quoted else map(unescape, fields), strict=True))
    for width, (line, times) in ragged.items():
        reason = f"{width} fields where the header has {len(names or ())}; the row is left out"
        problems.append(Problem.at(source.path, "ragged-row", reason, line=line, count=times))


MOST_OPEN_QUOTES = 10
"""Unterminated quotes that are tolerated, at the cost of one line each; reading stops behind the last."""


_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


class _Lines:
    """Iterate over the lines of a text with their ends, decoded one at a time; knows the byte behind the last one."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.at = at
        self._found = _LINE.finditer(data, at)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        found = next(self._found)
        self.at = found.end()
        return decode(found[0])


def rows(
    source: Source, data: bytes, cut: str, quoted: bool, problems: list[Problem]
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of each row that is not blank.

    A quote that is not closed to the end of the file would take all rows behind it along: only its own line is left out.
    """
    lines = _Lines(data)
    before = 0
    for _ in range(MOST_OPEN_QUOTES):
        reader = csv.reader(lines, delimiter=cut, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
        while True:
            line, at = before + reader.line_num + 1, lines.at
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problems.append(Problem.at(source.path, "bad-record", f"no CSV record: {error}", line=line))
                continue
            if quoted and lines.at == len(data) and _is_open(decode(data[at:]), cut):
                break
            if fields and (len(fields) > 1 or fields[0].strip()):
                yield line, fields
        reason = "a quote is not closed up to the end of the file; its line is left out"
        problems.append(Problem.at(source.path, "open-quote", reason, line=line))
        lines = _Lines(data, at)
        next(lines, "")
        before = line
    if lines.at < len(data):
        reason = f"{MOST_OPEN_QUOTES} quotes are not closed; the rest is left out"
        problems.append(Problem.at(source.path, "open-quote", reason, line=before + 1))


def _is_open(text: str, cut: str) -> bool:
    """Return whether a record (the rest of a file) ends inside a quote, so that the next line belongs to it."""
    if '"' not in text:
        return False
    ended = text if text.endswith(("\n", "\r")) else text + "\n"
    return sum(1 for _ in csv.reader(_Lines((ended + "-").encode()), delimiter=cut)) == 1
