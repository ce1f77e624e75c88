"""Parquet, decoded in a process of its own: a damaged file can end the process that decodes it.

Polars panics on some damaged pages and, where a length is wrong, asks for more memory than there is, which ends the process at
once; both write to the terminal. So a child process decodes: it is started with the first file, serves all that follow, and is
ended when it is idle. A file that kills it raises ``Damaged``, like any other file that cannot be read.

``read`` decodes a file that is in memory, part by part; ``checked`` lets the child decode a file and, where that ends well,
decodes the same bytes here, which costs less than sending a large frame; ``scan`` asks a file on disk for some of its rows and
skips the row groups without them.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, TypeVar

import msgspec
import polars as pl

from engine.core.compression import Budget
from engine.core.memory import available
from engine.core.processes import Processes
from engine.core.reading import clean

PATIENCE_S = 60.0  # seconds after which decoding a file is given up
IDLE_S = 10.0  # seconds without a file after which the child process is ended
MOST_CELLS = 40_000_000  # most rows times columns of a file: a few bytes can announce billions of equal rows
CELL = 8  # bytes of a decoded value, about; the rule on unpacked bytes counts them so
MOST_TEXT = 1 << 30  # most bytes of all texts together: equal ones are stored once
MOST_ROWS = 5_000_000  # most rows that one query gives
SLICE = 1 << 17  # rows that are decoded and sent at a time
LONGEST_TEXT = 1 << 16  # most characters of one text in the answer of a query
THREADS = 4  # threads that decode
_PRINTABLE = bytes(range(0x20, 0x7F))

T = TypeVar("T")


class Damaged(ValueError):
    """Raised for bytes that are no readable Parquet; the message says why in a few words."""


def read(
    data: bytes,
    wanted: Callable[[list[str]], bool],
    make: Callable[[pl.DataFrame, int], T],
    keep: Callable[[str], bool] = lambda name: True,
) -> list[T] | None:
    """Decode the columns of ``data`` that ``keep`` selects, in parts, and return ``make(rows, number of the first row)`` of each
    part. Rows count from 1; a file without rows has one part.

    Returns None if ``wanted`` refuses the column names. Raises Damaged.
    """
    with _CHILD.busy() as ask:
        names = ask(_columns, data)
        if not wanted(names):
            return None
        names = list(filter(keep, names))
        made, characters = [], 0
        for begin in range(0, max(ask(_rows, names), 1), SLICE):
            frame = ask(_frame, names, begin)
            characters += _characters(frame)
            if characters > MOST_TEXT:
                raise Damaged(f"{characters} bytes of text are more than is read")
            made.append(make(frame, begin + 1))
        return made


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of a file are wanted: of ``columns`` those that it has, in its order.

    ``where``: a column and the text that it must hold. ``top``: a column, how many rows with its largest values (then rows
    without one), and the minimum value, None for any. ``first``: limit on the number of rows left, None for all.
    """

    columns: tuple[str, ...]
    where: tuple[str, str] | None = None
    top: tuple[str, int, float | None] | None = None
    first: int | None = None


def checked(data: bytes, columns: Sequence[str]) -> pl.DataFrame:
    """Decode those of ``columns`` that ``data`` has, in their order, with texts cleaned. Raises Damaged."""
    with _CHILD.busy() as ask:
        there = set(ask(_columns, data))
        names = [name for name in columns if name in there]
        if not names:
            raise Damaged("it has none of the columns")
        ask(_checked, names)
    frame = pl.read_parquet(io.BytesIO(data), columns=names).select(names)
    return frame.with_columns(map(_cleaned, frame.select(pl.col(pl.String))))


def scan(path: str, query: Query) -> pl.DataFrame:
    """Return the rows of the file at ``path`` that ``query`` asks for, with its texts cleaned. Raises Damaged."""
    with _CHILD.busy() as ask, tempfile.TemporaryDirectory(prefix="loadlens-parquet-") as folder:
        return pl.concat([pl.read_ipc(f"{folder}/{place}") for place in range(ask(_answer, path, query, folder))])


def prepare() -> None:
    """Start the decoding process early, so that it loads its modules while this one does other work."""

    def start() -> None:
        with _CHILD.busy() as ask, contextlib.suppress(Damaged):  # which the first file meets again
            ask(_harmless, pl.Series([""]))

    threading.Thread(target=start, daemon=True).start()


class _Child:
    """The process that decodes, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: Processes | None = None
        self._timer: threading.Timer | None = None

    @contextlib.contextmanager
    def busy(self) -> Iterator[Callable[..., Any]]:
        """Keep the process for one file; it ends some time after its last one. Yields what calls a function in it."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                yield self._ask
            finally:
                self._timer = threading.Timer(IDLE_S, self.close)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """End the process; the next file starts another."""
        with self._lock:
            if self._processes is not None:
                self._processes.close()
                self._processes = None

    def _ask(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return what ``function`` returns in the process. Raises Damaged."""
        try:
            if self._processes is None:
                self._processes = Processes(1, available() // 2, THREADS)
            elif not self._processes.running:
                self._processes.start()
            return self._processes.submit(_tried, function, *given).result(PATIENCE_S)
        except TimeoutError:
            reason = "decoding it takes too long"
        except BrokenExecutor:
            reason = "it ends the process that decodes it"
        except OSError as error:
            reason = f"no process to decode it in: {error.strerror}"
        if self._processes is not None:
            self._processes.end(wait=True)
        raise Damaged(reason)


_file = b""  # the file that this process decodes, if it is the child


def _tried(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function below in the child. Raises Damaged for whatever goes wrong."""
    try:
        return function(*given)
    except (Exception, pl.exceptions.PanicException) as error:
        reason = str(error).strip() or type(error).__name__
        if isinstance(error, pl.exceptions.PanicException):
            reason = f"it breaks its decoder: {reason}"
        raise Damaged(reason.encode(errors="replace").decode()) from None


def _columns(data: bytes) -> list[str]:
    """Take a file. Returns the names of its columns."""
    global _file
    _file = data
    return list(pl.read_parquet_schema(io.BytesIO(data)))


def _checked(columns: Sequence[str]) -> None:
    _frame(columns, 0, _rows(columns))


def _rows(columns: Sequence[str]) -> int:
    """Return the number of rows of the file. Raises ValueError (TooBig) for more than is read."""
    rows = int(pl.scan_parquet(io.BytesIO(_file)).select(pl.len()).collect().item())
    if rows * len(columns) > MOST_CELLS:
        raise ValueError(f"{rows} rows of {len(columns)} columns are more than is read")
    Budget(len(_file)).take(rows * len(columns) * CELL)
    return rows


def _frame(columns: Sequence[str], begin: int, rows: int = SLICE) -> pl.DataFrame:
    """Decode some columns and rows of the file. Raises ValueError for more text than is read."""
    frame = pl.scan_parquet(io.BytesIO(_file)).select(columns).slice(begin, rows).collect()
    if (characters := _characters(frame)) > MOST_TEXT:
        raise ValueError(f"{characters} bytes of text are more than is read")
    return frame


def _characters(frame: pl.DataFrame) -> int:
    return sum(int(column.str.len_bytes().sum()) for column in frame.select(pl.col(pl.String)).get_columns())


def _answer(path: str, query: Query, folder: str) -> int:
    """Write the rows that ``query`` asks for to files of ``folder`` in Arrow's IPC format. Returns the number of files, at least
    one. Raises ValueError for more than is read."""
    rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    there = rows.collect_schema()
    if query.where is not None:
        name, value = query.where
        rows = rows.filter(pl.col(name) == value)
    if query.top is not None:
        name, number, least = query.top
        values = rows.select(name).drop_nulls().collect().to_series().top_k(number)
        few = rows.filter(pl.col(name).is_null()).head(number - values.len() if least is None else 0)
        wanted = pl.col(name) >= values.min()
        rows = pl.concat([rows.filter(wanted if least is None else wanted & (pl.col(name) >= least)), few])
    rows = rows.select(name for name in query.columns if name in there)
    if query.first is not None:
        rows = rows.head(query.first)
    found = rows.collect() if query.where is not None or query.top is not None or query.first is not None else None
    height = found.height if found is not None else int(rows.select(pl.len()).collect().item())
    if height > MOST_ROWS:
        raise ValueError(f"{height:,} rows are more than is read")
    begins = range(0, max(height, 1), SLICE)
    for place, begin in enumerate(begins):
        frame = found.slice(begin, SLICE) if found is not None else rows.slice(begin, SLICE).collect()
        if height:
            frame = frame.with_columns(map(_cleaned, frame.select(pl.col(pl.String))))
        frame.write_ipc(f"{folder}/{place}", compression="uncompressed")
    return len(begins)


def _harmless(texts: pl.Series) -> bool:
    """Whether texts that came from a file need no cleaning: one look at all of them, which are printable ASCII mostly."""
    longest = texts.str.len_bytes().max()
    short = not isinstance(longest, int) or longest <= LONGEST_TEXT
    return short and not (texts.str.join("").item() or "").encode().translate(None, _PRINTABLE)


def _cleaned(texts: pl.Series) -> pl.Series:
    """Clean texts that came from a file."""
    return texts if _harmless(texts) else texts.map_elements(lambda text: clean(text, LONGEST_TEXT), pl.String)


_CHILD = _Child()
atexit.register(_CHILD.close)
