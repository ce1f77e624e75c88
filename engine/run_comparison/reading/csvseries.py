"""Read CSV with a time column: one run per row, one metric per numeric column (as Otava does)."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime
from typing import Any

from engine.reading import Reading, Source, whole_lines
from engine.run_comparison.reading.series import Collected, Series, epoch_ms, time_ms
from engine.run_comparison.tables import MEASUREMENTS
from engine.tables import Table
from engine.text import clean, decode

_TIMES = frozenset({"time", "timestamp", "date", "datetime", "start_time", "started"})
_RUNS = ("run", "build", "commit", "revision", "version", "sha")
_FORMATS = ("%Y.%m.%d %H:%M:%S %z", "%Y/%m/%d %H:%M:%S", "%Y.%m.%d %H:%M:%S", "%d.%m.%Y %H:%M:%S")
_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^\])]+)[\])]$")


def parse_time(text: str) -> int | None:
    """Convert ISO 8601, epoch seconds or ms, or one of Otava's notations to epoch ms; None for anything else."""
    iso_ms = time_ms(text)
    if iso_ms is not None:
        return iso_ms
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return epoch_ms(number, 1.0 if abs(number) > 1e11 else 1000.0)
    for form in _FORMATS:
        try:
            moment = datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        return time_ms(moment.isoformat())
    return None


class CsvSeries:
    """A history of runs in one table."""

    id = "csv-series"
    title = "CSV with a time column (one run per row)"
    append = False
    version = 2
    tables: tuple[Table, ...] = (MEASUREMENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise ``.csv`` or ``.tsv`` whose header begins with a time column.

        Under another name, or with the time further right, the first row must have a time there and a number beside it.
        """
        header, _, rest = head.decode("utf-8", errors="replace").lstrip("\ufeff").partition("\n")
        cells = _cells(header)
        at = _time_column(cells)
        if len(cells) < 2 or at is None:
            return False
        if at == 0 and name.endswith((".csv", ".tsv")):
            return True
        row = _cells(rest.partition("\n")[0])
        return (
            len(row) == len(cells)
            and parse_time(row[at]) is not None
            and any(_is_number(row, i) for i in range(len(row)) if i != at)
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows with a readable time; a last line without its end waits unless nothing will follow."""
        out = Collected(source)
        text = decode(whole_lines(data, final)).lstrip("\ufeff")
        lines = io.StringIO(text, newline="")
        header_line = lines.readline()
        separator = max(",;\t", key=header_line.count)
        header = [cell.strip() for cell in next(csv.reader([header_line], delimiter=separator), [])]
        report = source.name.rpartition(".")[0]
        named = [cell.lower() for cell in header]
        run_at = next((named.index(name) for name in _RUNS if name in named), None)
        rows: list[tuple[int, list[str]]] = []
        reader = csv.reader(lines, delimiter=separator)
        try:
            rows.extend((reader.line_num + 1, row) for row in reader if any(cell.strip() for cell in row))
        except csv.Error as error:
            out.problem("bad-record", f"not CSV: {error}", line=reader.line_num + 1)
        when = _time_column(named) or 0
        others = [at for at in range(len(header)) if at not in (when, run_at)]
        numeric = [at for at in others if any(_is_number(row, at) for _, row in rows)]
        attributes = [at for at in others if at not in numeric]
        columns = {at: _column(header[at]) for at in numeric}
        for line, row in rows:
            moment = row[when].strip() if when < len(row) else ""
            stamp = parse_time(moment)
            if stamp is None:
                out.problem("bad-time", f"{moment!r:.60} is not a time", line=line)
                continue
            if len(row) < len(header):
                out.problem("bad-record", "fewer fields than the header", line=line)
            run = clean(row[run_at].strip() if run_at is not None and run_at < len(row) else moment, 200)
            labels = ", ".join(
                f"{header[at]}={row[at].strip()}" for at in attributes if at < len(row) and row[at].strip()
            )
            for at in numeric:
                if at >= len(row) or not row[at].strip():
                    continue
                if not _is_number(row, at):
                    out.problem("bad-value", f"{header[at]}: {row[at][:40]!r} is not a number", line=line)
                    continue
                name, unit = columns[at]
                series = Series("csv", report, name, metric=labels, bucket="value", unit=unit)
                out.add(series, float(row[at]), run=run or moment, time_ms=stamp)
        return out.reading(len(data))


def _cells(line: str) -> list[str]:
    """The fields of one line, roughly: without quotes."""
    separator = max(",;\t", key=line.count)
    return [cell.strip().strip('"') for cell in line.split(separator)]


def _time_column(names: list[str]) -> int | None:
    """Place of the first column that is called like a time."""
    return next((at for at, name in enumerate(names) if name.lower() in _TIMES), None)


def _is_number(row: list[str], at: int) -> bool:
    try:
        float(row[at])
    except (ValueError, IndexError):
        return False
    return True


def _column(header: str) -> tuple[str, str]:
    parts = _UNIT.match(header)
    return (parts["name"], parts["unit"]) if parts else (header, "")
