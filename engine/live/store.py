"""The store of rows: many files in a few frames per table, cheap to append to and to drop from."""

from __future__ import annotations

import io
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import Problem
from engine.core.tables import Gathered, Parts, Rows, Table, height_of
from engine.core.view import FILE

FILE_BYTES = 1 << 30
"""Bytes after which a file takes no more rows: few files stay open, and space is freed in pieces of this size."""
GROUP_ROWS = 1 << 17  # rows per row group; min/max statistics let a time filter skip whole groups


class RowFile:
    """Rows that lie in a file, from ``offset`` on, as ``size`` bytes of Parquet. ``height``: how many rows."""

    def __init__(self, file: IO[bytes], offset: int, size: int, height: int) -> None:
        self._file, self._offset, self._size = file, offset, size
        self.height = height

    def load(self, where: pl.Expr | None = None) -> pl.DataFrame:
        """Return the rows, or those that ``where`` selects. Raises OSError."""
        data = bytearray()
        while len(data) < self._size:
            part = os.pread(self._file.fileno(), self._size - len(data), self._offset + len(data))
            if not part:
                raise OSError("rows put aside on disk have gone")
            data += part
        if where is None:
            return pl.read_parquet(io.BytesIO(data))
        return pl.scan_parquet(io.BytesIO(data)).filter(where).collect(engine="in-memory")


class RowFiles:
    """Puts rows into files of a folder, made when it is needed. ``problem``: why the last ones could not be written."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self.problem: Problem | None = None

    def put(self, frame: pl.DataFrame) -> RowFile | None:
        """Write ``frame`` to disk. Returns None if that fails: then the rows stay in memory."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", compression_level=1, row_group_size=GROUP_ROWS)
        data = buffer.getbuffer()
        try:
            if self._file is None or self._end > FILE_BYTES:
                self._file, self._end = tempfile.TemporaryFile(dir=self._folder(), buffering=0), 0  # noqa: SIM115
            done = 0
            while done < len(data):
                done += os.pwrite(self._file.fileno(), data[done:], self._end + done)
        except OSError as error:
            path, reason = error.filename or "rows", error.strerror or str(error)
            self.problem = Problem.at(str(path), "memory", f"rows cannot be put on disk and stay in memory: {reason}")
            return None
        self.problem = None
        made = RowFile(self._file, self._end, len(data), frame.height)
        self._end += len(data)
        return made


MERGE_ROWS = 50_000  # most rows of a merged chunk (or a 32nd of the table): a merge copies, which nobody must notice
MERGE_CHUNKS = 64  # chunks above which they are merged: more slow queries down


SELDOM_BYTES = 64 << 20  # most memory for the rows of a ``seldom`` table; at most a share of the memory for all
PUT_ROWS = 1 << 20  # rows that are written to disk, or read from it, at once


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """Rows of some files, in reading order: declared columns and ``file``. ``files`` may name files that gave no row.

    ``rows`` lie in memory or on disk; those on disk may have others beside them, of files that have ``gone``.
    """

    rows: pl.DataFrame | RowFile
    files: frozenset[int]
    gone: bool = False

    def frame(self, where: pl.Expr | None = None) -> pl.DataFrame:
        """Return the rows, or those that ``where`` selects. Raises OSError if they cannot be read from disk."""
        if isinstance(self.rows, pl.DataFrame):
            return self.rows if where is None else self.rows.filter(where)
        frame = self.rows.load(where)
        return frame.filter(pl.col(FILE).is_in(_implode(self.files))) if self.gone else frame

    @property
    def height(self) -> int:
        """Number of rows; on disk, rows of files that are gone still count."""
        return self.rows.height

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory."""
        return int(self.rows.estimated_size()) if isinstance(self.rows, pl.DataFrame) else 0


class Snapshot:
    """An immutable snapshot of the tables of a store."""

    def __init__(self, chunks: Mapping[str, tuple[Chunk, ...]], empty: Mapping[str, pl.DataFrame]) -> None:
        self._chunks = chunks
        self._empty = empty
        self._frames: dict[str, pl.DataFrame] = {}

    def __call__(self, name: str) -> pl.DataFrame:
        """Return the table ``name``. Raises KeyError."""
        frame = self._frames.get(name)
        if frame is None:
            chunks = self._chunks[name]
            frame = _joined([chunk.frame() for chunk in chunks], self._empty[name])
            if not any(isinstance(chunk.rows, RowFile) for chunk in chunks):
                self._frames[name] = frame
        # A caller that renames columns in place gets its own frame object; the columns are shared.
        return frame.clone()

    def of(self, name: str, files: Set[int]) -> pl.DataFrame:
        """Return the rows of ``files`` in the table ``name``. Raises KeyError."""
        return _joined([*self.parts(name, files)], self._empty[name])

    def parts(self, name: str, files: Set[int], where: pl.Expr | None = None) -> Iterator[pl.DataFrame]:
        """Return the same rows, or those that ``where`` selects, in parts, so that not all are in memory at once. Raises
        KeyError."""
        return _rows_of(self._chunks[name], files, where)


def _rows_of(chunks: Iterable[Chunk], files: Set[int], where: pl.Expr | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of ``files``; chunks that hold none of them are not looked at."""
    for chunk in chunks:
        if chunk.files <= files:
            yield chunk.frame(where)
        elif not chunk.files.isdisjoint(files):
            wanted = sorted(chunk.files & files)
            at = pl.col(FILE)
            yield chunk.frame(where).filter(at == wanted[0] if len(wanted) == 1 else at.is_in(_implode(wanted)))


def _evenly(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the rows of ``frames`` in parts of about PUT_ROWS."""
    small: list[pl.DataFrame] = []
    for frame in frames:
        small += frame.iter_slices(PUT_ROWS)
        if sum(some.height for some in small) >= PUT_ROWS:
            yield pl.concat(small)
            small = []
    if small:
        yield pl.concat(small)


def _implode(files: Iterable[int]) -> pl.Series:
    return pl.Series(sorted(files), dtype=pl.UInt32).implode()


def _joined(parts: Sequence[pl.DataFrame], empty: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(parts) if len(parts) > 1 else parts[0] if parts else empty


class BadRows(ValueError):
    """A reader returned rows that its tables do not declare: a programming error of the reader."""


class Store:
    """The rows of one view.

    ``put`` gathers, ``flush`` makes frames of what was gathered, ``snapshot`` returns them. Rows put
    as ``provisional`` (a last record without its end) can be forgotten alone. With ``row_files``, the oldest rows go to disk
    where all take more than ``memory`` bytes, or those of a table that is seldom looked at again more than its share.
    """

    def __init__(self, tables: Iterable[Table], row_files: RowFiles | None = None, memory: int = 1 << 30) -> None:
        self.tables: dict[str, Table] = {}
        for table in tables:
            if self.tables.setdefault(table.name, table).schema != table.schema:
                raise ValueError(f"two tables are called {table.name} and differ")
            if FILE in table.schema:
                raise ValueError(f"table {table.name} declares {FILE!r}, which the store adds")
        self._names = {name: frozenset(table.schema) for name, table in self.tables.items()}
        self._away: dict[str, list[Chunk]] = {name: [] for name in self.tables}
        self._firm: dict[str, list[Chunk]] = {name: [] for name in self.tables}
        self._loose: dict[str, list[Chunk]] = {name: [] for name in self.tables}
        self._new: list[tuple[int, Mapping[str, Rows], bool]] = []
        self._gone: set[int] = set()
        self._gone_loose: set[int] = set()
        self._empty = {name: _with_file(table.empty(), 0) for name, table in self.tables.items()}
        self._row_files, self._memory = row_files, memory
        self.gathered = 0

    def check(self, rows: Mapping[str, Rows]) -> int:
        """Return the number of rows. Raises BadRows for undeclared tables or columns and columns of unequal length."""
        total = 0
        for name, given in rows.items():
            declared = self._names.get(name)
            if declared is None:
                raise BadRows(f"rows of an undeclared table {name!r}")
            total += height_of(given)
            if isinstance(given, Gathered):
                continue
            if isinstance(given, Mapping):
                lengths = {len(column) for column in given.values()}
                if len(lengths) > 1:
                    raise BadRows(f"columns of {name!r} have unequal lengths {sorted(lengths)}")
            unknown = {*(given if isinstance(given, Mapping) else given.columns)} - declared
            if unknown:
                raise BadRows(f"table {name!r} does not declare {sorted(unknown)}")
        return total

    def put(self, file: int, rows: Mapping[str, Rows], count: int, *, provisional: bool = False) -> None:
        """Gather ``count`` rows of a file, as ``check`` has counted them."""
        if count:
            self._new.append((file, rows, provisional))
            self.gathered += count

    def put_frame(self, name: str, frame: pl.DataFrame, files: frozenset[int], *, provisional: bool = False) -> None:
        """Add a ready frame (declared columns and ``file``) of several files at once: rows from the cache."""
        self.flush()
        if frame.columns != self._empty[name].columns:
            frame = frame.select(self._empty[name].columns)
        self._add((self._loose if provisional else self._firm)[name], Chunk(frame, files))
        self._put_away()

    def fits(self, schemas: Iterable[tuple[str, pl.Schema]]) -> bool:
        """Whether frames (with ``file``) have just the columns of the tables they are called by."""
        return all(name in self.tables and schema == self._empty[name].schema for name, schema in schemas)

    def put_frames(self, name: str, frame: pl.DataFrame, ids: Mapping[int, int], *, provisional: bool = False) -> None:
        """Add a frame of several files at once, read by another process: rows of the files that ``ids`` maps to their ids here;
        other rows are left out."""
        if frame.height:
            numbers = range(frame[FILE].max() + 1)  # type: ignore[operator, arg-type]
            mapped = pl.Series([ids.get(number, 0) for number in numbers], dtype=pl.UInt32)
            frame.replace_column(frame.get_column_index(FILE), mapped.gather(frame[FILE]).alias(FILE))
            if not frame[FILE].min():
                frame = frame.filter(pl.col(FILE) != 0)
            self.put_frame(name, frame, frozenset(ids.values()), provisional=provisional)

    def forget(self, files: Iterable[int]) -> None:
        """Drop all rows of these files."""
        gone = set(files)
        if gone:
            self._gone |= gone
            self._new = [item for item in self._new if item[0] not in gone]

    def forget_provisional(self, file: int) -> None:
        """Drop the provisional rows of this file."""
        self._gone_loose.add(file)
        self._new = [item for item in self._new if not (item[2] and item[0] == file)]

    def flush(self) -> dict[int, BaseException]:
        """Update the frames. Returns the files whose rows made no frame, with the reason."""
        if self._gone or self._gone_loose:
            for chunks, gone in (
                (self._away, self._gone),
                (self._firm, self._gone),
                (self._loose, self._gone | self._gone_loose),
            ):
                for name in self.tables:
                    chunks[name] = _without(chunks[name], gone)
            self._gone = set()
            self._gone_loose = set()
        failed: dict[int, BaseException] = {}
        if self._new:
            new, self._new, self.gathered = self._new, [], 0
            for provisional, chunks in ((False, self._firm), (True, self._loose)):
                for name, table in self.tables.items():
                    pieces = [(f, rows[name]) for f, rows, loose_ in new if loose_ is provisional and name in rows]
                    for in_parts, some in itertools.groupby(pieces, lambda piece: isinstance(piece[1], Parts)):
                        if in_parts:
                            self._add_parts(chunks[name], table, some, failed)
                            continue
                        whole = list(some)
                        self._add(
                            chunks[name], Chunk(_frame(table, whole, failed), frozenset(file for file, _ in whole))
                        )
            if failed:
                self.forget(failed)
                self.flush()
        self._put_away()
        return failed

    def _add_parts(
        self, chunks: list[Chunk], table: Table, pieces: Iterable[tuple[int, Any]], failed: dict[int, BaseException]
    ) -> None:
        """Add rows that are made part by part; what of a part has no room goes to disk before the next is made."""
        for file, rows in pieces:
            try:
                for frame in rows.frames():
                    self._add(chunks, Chunk(_with_file(table.frame(frame), file), frozenset({file})))
                    self._put_away()
            except (Exception, pl.exceptions.PanicException) as error:
                failed[file] = error

    def _put_away(self) -> None:
        """Move the oldest rows to disk if the rows in memory take too much."""
        if self._row_files is None:
            return
        sizes = {name: sum(chunk.nbytes for chunk in chunks) for name, chunks in self._firm.items() if chunks}
        total = sum(sizes.values())
        for name in sorted(sizes, key=lambda name: (not self.tables[name].seldom, -sizes[name])):
            most = min(SELDOM_BYTES, self._memory // 4) if self.tables[name].seldom else self._memory
            if (sizes[name] if self.tables[name].seldom else total) <= most:
                continue
            chunks, freed = self._firm[name], 0
            count = 0
            while count < len(chunks) and sizes[name] - freed > most // 2:
                freed += chunks[count].nbytes
                count += 1
            merged = _merge(chunks[:count])
            for begin in range(0, merged.height, PUT_ROWS):
                rows = self._row_files.put(merged.frame().slice(begin, PUT_ROWS))
                if rows is None:
                    chunks[:count] = [Chunk(merged.frame().slice(begin), merged.files)]
                    return
                self._away[name].append(Chunk(rows, merged.files))
            del chunks[:count]
            total -= freed

    @staticmethod
    def _add(chunks: list[Chunk], chunk: Chunk) -> None:
        if chunk.height == 0:
            return
        chunks.append(chunk)
        if len(chunks) > MERGE_CHUNKS:
            chunks[:] = _packed(chunks)

    def chunks(self) -> dict[str, tuple[Chunk, ...]]:
        """Return the chunks of each table, oldest rows first. Their rows are never changed."""
        return {name: (*self._away[name], *self._firm[name], *self._loose[name]) for name in self.tables}

    def frames(self, *, provisional: bool) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield all firm or all provisional rows, each table's in parts and in order."""
        for name in self.tables:
            for chunks in (self._loose,) if provisional else (self._away, self._firm):
                for chunk in chunks[name]:
                    yield name, chunk.frame()

    def firm_rows(self) -> Callable[[str, frozenset[int]], Iterator[pl.DataFrame]]:
        """Return a function that yields the rows of some files in one table as of now, in parts, without provisional ones."""
        chunks = {name: (*self._away[name], *self._firm[name]) for name in self.tables}
        return lambda name, files: _evenly(_rows_of(chunks[name], files))

    def snapshot(self) -> Snapshot:
        """Return the tables as of now."""
        return Snapshot(self.chunks(), self._empty)


def _with_file(frame: pl.DataFrame, file: int) -> pl.DataFrame:
    return frame.hstack([pl.Series(FILE, [file], pl.UInt32).new_from_index(0, frame.height)])


def _without(chunks: list[Chunk], gone: set[int]) -> list[Chunk]:
    rest = []
    for chunk in chunks:
        hit = chunk.files & gone
        if hit:
            files = chunk.files - hit
            if not files:
                continue
            if isinstance(chunk.rows, RowFile):
                rest.append(Chunk(chunk.rows, files, gone=True))
                continue
            chunk = Chunk(chunk.frame().filter(~pl.col(FILE).is_in(_implode(hit))), files)
            if chunk.height == 0:
                continue
        rest.append(chunk)
    return rest


def _merge(chunks: list[Chunk]) -> Chunk:
    frames = [chunk.frame() for chunk in chunks]
    return Chunk(pl.concat(frames, rechunk=True), frozenset().union(*(chunk.files for chunk in chunks)))


def _packed(chunks: list[Chunk]) -> list[Chunk]:
    """Neighbours merged up to the largest size of a merge."""
    limit = max(MERGE_ROWS, sum(chunk.height for chunk in chunks) // 32)
    out: list[Chunk] = []
    run: list[Chunk] = []
    rows = 0
    for chunk in chunks:
        if run and rows + chunk.height > limit:
            out.append(_merge(run) if len(run) > 1 else run[0])
            run, rows = [], 0
        run.append(chunk)
        rows += chunk.height
    if run:
        out.append(_merge(run) if len(run) > 1 else run[0])
    return out


def _frame(table: Table, pieces: list[tuple[int, Rows]], failed: dict[int, BaseException]) -> pl.DataFrame:
    """One frame of the rows of many files, with the ``file`` column. A file whose rows cannot be taken goes to
    ``failed`` and is left out."""
    try:
        parts: list[Any] = [rows for _, rows in pieces]
        heights = [height_of(rows) for rows in parts]
        if all(isinstance(rows, Mapping) for rows in parts):
            frame = _columns(table, parts, heights)  # one conversion per column instead of one per file
        elif all(isinstance(rows, Gathered) and rows.make is parts[0].make for rows in parts):
            frame = table.frame(parts[0].make([rows.piece for rows in parts]))
        else:
            frame = pl.concat([table.frame(rows) for rows in parts], rechunk=True)
        if frame.height != sum(heights):
            raise ValueError(f"{frame.height} rows instead of {sum(heights)}")
        numbers = itertools.chain.from_iterable(map(itertools.repeat, (file for file, _ in pieces), heights))
        return frame.hstack([pl.Series(FILE, list(numbers), pl.UInt32)])
    except (Exception, pl.exceptions.PanicException) as error:
        if len(pieces) == 1:
            failed[pieces[0][0]] = error
            return _with_file(table.empty(), 0)
    half = len(pieces) // 2
    return pl.concat([_frame(table, pieces[:half], failed), _frame(table, pieces[half:], failed)])


def _columns(table: Table, parts: list[Any], heights: list[int]) -> pl.DataFrame:
    given: set[str] = set().union(*parts)
    return table.frame({c.name: _column(parts, heights, c.name) for c in table.columns if c.name in given})


def _column(runs: list[Any], heights: list[int], name: str) -> Any:
    parts = [rows.get(name) for rows in runs]
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) and part.dtype == parts[0].dtype for part in parts):
        return np.concatenate(parts)
    out: list[Any] = []
    for part, height in zip(parts, heights, strict=True):
        if part is None:
            out.extend(itertools.repeat(None, height))
        else:
            out.extend(part)
    return out
