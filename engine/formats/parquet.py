"""Parquet, read in a process of its own: a damaged file can end the process that decodes it.

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
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl

from engine.core.text import clean

PATIENCE_S = 60.0
"""Seconds after which decoding a file is given up."""
IDLE_S = 10.0
"""Seconds without a file after which the child process is ended."""
MOST_CELLS = 40_000_000
"""Most rows times columns of a file: a few bytes can announce billions of equal rows."""
MOST_TEXT = 1 << 30
"""Most bytes of all texts together: equal ones are stored once."""
MOST_ROWS = 5_000_000
"""Most rows that one query gives."""
SLICE = 1 << 17
"""Rows that are decoded and sent at a time."""
LONGEST_TEXT = 1 << 16
"""Most characters of one text in the answer of a query."""
MOST_MEMORY = 4 << 30
"""Bytes of address space that decoding may take."""
DECODE = "--decode-parquet"
"""First argument of the program built into one folder when it is to decode for another one of itself."""
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
    return _CHILD.read(data, wanted, make, keep)


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
    names = _CHILD.check(data, columns)
    frame = pl.read_parquet(io.BytesIO(data), columns=names).select(names)
    return frame.with_columns(map(_cleaned, frame.select(pl.col(pl.String))))


def scan(path: str, query: Query) -> pl.DataFrame:
    """Return the rows of the file at ``path`` that ``query`` asks for, with its texts cleaned. Raises Damaged."""
    return _CHILD.scan(path, query)


def prepare() -> None:
    """Start the decoding process early, so that it loads its modules while this one does other work."""
    threading.Thread(target=_CHILD.prepare, daemon=True).start()


class _Child:
    """The child process that decodes, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._timer: threading.Timer | None = None

    def read(
        self,
        data: bytes,
        wanted: Callable[[list[str]], bool],
        make: Callable[[pl.DataFrame, int], T],
        keep: Callable[[str], bool],
    ) -> list[T] | None:
        """Decode ``data`` (see the function ``read``)."""
        with self._busy():
            names = self._ask(b"C", data).decode().split("\0")
            if not wanted(names):
                return None
            rows = int(self._ask(b"N", "\0".join(filter(keep, names)).encode()))
            made, characters = [], 0
            for begin in range(0, max(rows, 1), SLICE):
                frame = pl.read_ipc(io.BytesIO(self._ask(b"F", b"%d" % begin)))
                characters += _characters(frame)
                if characters > MOST_TEXT:
                    raise Damaged(f"{characters} bytes of text are more than is read")
                made.append(make(frame, begin + 1))
            return made

    def check(self, data: bytes, columns: Sequence[str]) -> list[str]:
        """Decode those of ``columns`` that the file ``data`` has, and return their names. Raises Damaged."""
        with self._busy():
            there = set(self._ask(b"C", data).decode().split("\0"))
            names = [name for name in columns if name in there]
            if not names:
                raise Damaged("it has none of the columns")
            self._ask(b"V", "\0".join(names).encode())
        return names

    def scan(self, path: str, query: Query) -> pl.DataFrame:
        """Answer ``query`` (see the function ``scan``)."""
        with self._busy(), tempfile.TemporaryDirectory(prefix="loadlens-parquet-") as folder:
            number = int(self._ask(b"S", msgspec.json.encode((path, query, folder))))
            return pl.concat([pl.read_ipc(f"{folder}/{place}") for place in range(number)])

    def prepare(self) -> None:
        """Start the process (see the function ``prepare``)."""
        with self._busy(), contextlib.suppress(Damaged):  # which the first file meets again
            if self._process is None:
                self._start()

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """Keep the process for one file; it ends some time after its last one."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                yield
            finally:
                if self._process is not None:
                    self._timer = threading.Timer(IDLE_S, self.close)
                    self._timer.daemon = True
                    self._timer.start()

    def close(self) -> None:
        """End the process; the next file starts another."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        """Start the process. Raises Damaged if that fails: without it the file cannot be read."""
        self._pipe, other = Pipe()
        # A program that was built into one folder has no interpreter but itself: its entry point knows the word.
        program = [DECODE] if getattr(sys, "frozen", False) else ["-P", "-m", __name__]
        try:
            null = subprocess.DEVNULL
            self._process = subprocess.Popen(
                [sys.executable, *program, str(other.fileno())], pass_fds=[other.fileno()], stdin=null, stdout=null,
                stderr=null, start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip
        except OSError as error:
            raise Damaged(f"no process to decode it in: {error.strerror}") from None
        finally:
            other.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._pipe is not None:
            process.kill()
            process.wait()
            self._pipe.close()

    def _ask(self, what: bytes, data: bytes) -> bytes:
        """Send a message of kind ``what`` (see ``serve``). Returns the child's answer. Raises Damaged."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._pipe is not None
        watch = threading.Timer(PATIENCE_S, self._process.kill)  # which ends the exchange too
        watch.start()
        try:
            self._pipe.send_bytes(what)
            self._pipe.send_bytes(data)
            good, answer = self._pipe.recv_bytes() == b"=", self._pipe.recv_bytes()
        except (OSError, EOFError):
            late = watch.finished.is_set()
            self._end()
            raise Damaged("decoding it takes too long" if late else "it ends the process that decodes it") from None
        finally:
            watch.cancel()
        if not good:
            raise Damaged(answer.decode())
        return answer


def serve(descriptor: int) -> None:
    """Answer messages until the pipe is closed: the child's main function.

    ``C`` and a file is answered with its column names, ``N`` and names with its number of rows, ``F`` and a number with the
    frame of these columns from that row on in Arrow's IPC format, ``V`` and names with nothing when all of these
    columns are decoded; ``S``, a path, a query and a folder with the number of IPC files that were written there.
    """
    pipe = Connection(descriptor)
    _limit_memory()
    data, columns = b"", list[str]()
    with contextlib.suppress(EOFError):
        while True:
            what, sent = pipe.recv_bytes(), pipe.recv_bytes()
            try:
                if what == b"C":
                    data = sent
                    answer = "\0".join(pl.read_parquet_schema(io.BytesIO(data))).encode()
                elif what == b"N":
                    columns = sent.decode().split("\0")
                    answer = b"%d" % _rows(data, columns)
                elif what == b"F":
                    buffer = io.BytesIO()
                    _frame(data, columns, int(sent)).write_ipc(buffer, compression="uncompressed")
                    answer = buffer.getvalue()
                elif what == b"V":
                    columns = sent.decode().split("\0")
                    _frame(data, columns, 0, _rows(data, columns))
                    answer = b""
                else:
                    answer = b"%d" % _answer(*msgspec.json.decode(sent, type=tuple[str, Query, str]))
                mark = b"="
            except (Exception, pl.exceptions.PanicException) as error:
                reason = str(error).strip() or type(error).__name__
                if isinstance(error, pl.exceptions.PanicException):
                    reason = f"it breaks its decoder: {reason}"
                mark, answer = b"!", reason.encode(errors="replace")
            pipe.send_bytes(mark)
            pipe.send_bytes(answer)


def _limit_memory() -> None:
    """Let the process take only so much more address space: an allocation beyond it ends it, which is a damaged file."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _rows(data: bytes, columns: list[str]) -> int:
    """Return the number of rows of a file. Raises ValueError for more than is read."""
    rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
    if rows * len(columns) > MOST_CELLS:
        raise ValueError(f"{rows} rows of {len(columns)} columns are more than is read")
    return rows


def _frame(data: bytes, columns: list[str], begin: int, rows: int = SLICE) -> pl.DataFrame:
    """Decode some columns and rows of a file. Raises ValueError for more text than is read."""
    frame = pl.scan_parquet(io.BytesIO(data)).select(columns).slice(begin, rows).collect()
    if (characters := _characters(frame)) > MOST_TEXT:
        raise ValueError(f"{characters} bytes of text are more than is read")
    return frame


def _characters(frame: pl.DataFrame) -> int:
    """Return the bytes of all texts."""
    texts = frame.select(pl.col(pl.String)).get_columns()
    return sum(int(column.str.len_bytes().sum()) for column in texts)


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
    some = query.where is not None or query.top is not None or query.first is not None
    found = rows.collect() if some else None
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
    if _harmless(texts):
        return texts
    return texts.map_elements(lambda text: clean(text, LONGEST_TEXT), pl.String)


_CHILD = _Child()
atexit.register(_CHILD.close)

if __name__ == "__main__":
    serve(int(sys.argv[1]))
