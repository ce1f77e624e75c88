"""Parse delimited dumps (COPY CSV, psql, mysql --batch): a header, then rows as dicts, bad rows as problems."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from engine.problems import Problem
from engine.reading import Source, whole_lines
from engine.text import decode

BOM = b"\xef\xbb\xbf"
csv.field_size_limit(1 << 24)  # query texts may be longer than the module's 128 KB; longer than 16 MB is a problem

_BATCH = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


def header_fields(head: bytes) -> list[str]:
    """Return the lower-cased column names of the first line, whatever the delimiter; empty for what is no table."""
    line = decode(head.removeprefix(BOM).lstrip(b"\r\n").split(b"\n", 1)[0]).rstrip("\r")
    try:
        return [f.strip().strip('"').lower() for f in next(csv.reader([line], delimiter=delimiter(line)))]
    except (csv.Error, StopIteration):
        return []


def delimiter(line: str) -> str:
    """Return the delimiter that splits ``line`` into the most fields: tab, comma, semicolon or bar."""
    return max("\t,;|", key=line.count)


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
    text = decode(whole_lines(data, final))
    first = text.lstrip("\r\n").split("\n", 1)[0]
    cut = delimiter(first)
    quoted = cut != "\t" or '"' in first
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=cut, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    )
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.append(Problem.at(source.path, "bad-record", f"no CSV record: {error}", line=line))
            continue
        if not fields or (len(fields) == 1 and not fields[0].strip()):
            continue
        lowered = [field.strip().lower() for field in fields]
        if names is None:
            names = lowered
            for name in sorted({name for name in names if names.count(name) > 1}):
                reason = f"column {name!r} appears twice; the last counts"
                problems.append(Problem.at(source.path, "duplicate-column", reason))
        elif lowered == names:
            yield line, None
        elif len(fields) != len(names):
            reason = f"{len(fields)} fields where the header has {len(names)}; the row is left out"
            problems.append(Problem.at(source.path, "ragged-row", reason, line=line))
        else:
            yield line, dict(zip(names, fields if quoted else map(unescape, fields), strict=True))
