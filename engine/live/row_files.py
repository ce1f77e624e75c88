"""Rows on disk: what a store holds beyond its share of memory, in files that vanish with the process.

A file has no name: so nothing is left behind, however the program ends, and its space is free again as soon as nothing refers to
rows in it.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import polars as pl

from engine.core.reading import Problem

FILE_BYTES = 1 << 30
"""Bytes after which a file takes no more rows: few files stay open, and space is freed in pieces of this size."""
GROUP_ROWS = 1 << 17
"""Rows per row group; min/max statistics let a time filter skip whole groups."""


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
