"""Parquet, read in a process of its own: a damaged file can end the process that decodes it.

Polars panics on some damaged pages and, where a length is wrong, asks for more memory than there is, which ends the process at
once; both write to the terminal. So a child process decodes: it is started with the first file, serves all that follow, and is
ended when it is idle. A file that kills it raises ``Damaged``, like any other file that cannot be read.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import polars as pl

PATIENCE_S = 60.0
"""Seconds after which decoding a file is given up."""
IDLE_S = 10.0
"""Seconds without a file after which the child process is ended."""
MOST_CELLS = 40_000_000
"""Most rows times columns of a file: a few bytes can announce billions of equal rows."""
MOST_TEXT = 1 << 30
"""Most bytes of all texts together: equal ones are stored once."""
MOST_MEMORY = 4 << 30
"""Bytes of address space that decoding may take."""
DECODE = "--decode-parquet"
"""First argument of the program built into one folder when it is to decode for another one of itself."""


class Damaged(ValueError):
    """Raised for bytes that are no readable Parquet; the message says why in a few words."""


def read(
    data: bytes, wanted: Callable[[list[str]], bool], keep: Callable[[str], bool] = lambda name: True
) -> pl.DataFrame | None:
    """Decode those columns of ``data`` that ``keep`` takes. Returns None if ``wanted`` refuses their names. Raises Damaged."""
    return _CHILD.read(data, wanted, keep)


class _Child:
    """The child process that decodes, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._timer: threading.Timer | None = None

    def read(
        self, data: bytes, wanted: Callable[[list[str]], bool], keep: Callable[[str], bool]
    ) -> pl.DataFrame | None:
        """Decode ``data`` (see the function ``read``)."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                names = self._ask(b"C", data).decode().split("\0")
                if not wanted(names):
                    return None
                return pl.read_ipc(io.BytesIO(self._ask(b"F", "\0".join(filter(keep, names)).encode())))
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

    ``C`` and a file is answered with its column names, ``F`` and names with the frame of these columns of that file.
    """
    pipe = Connection(descriptor)
    _limit_memory()
    data = b""
    with contextlib.suppress(EOFError):
        while True:
            what, sent = pipe.recv_bytes(), pipe.recv_bytes()
            try:
                if what == b"C":
                    data = sent
                    answer = "\0".join(pl.read_parquet_schema(io.BytesIO(data))).encode()
                else:
                    answer = _frame(data, sent.decode().split("\0"))
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


def _frame(data: bytes, columns: list[str]) -> bytes:
    """Decode some columns of a file to Arrow's IPC format. Raises ValueError for more than is read."""
    rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
    if rows * len(columns) > MOST_CELLS:
        raise ValueError(f"{rows} rows of {len(columns)} columns are more than is read")
    frame = pl.read_parquet(io.BytesIO(data), columns=columns)
    texts = frame.select(pl.col(pl.String)).get_columns()
    characters = sum(int(column.str.len_bytes().sum()) for column in texts)
    if characters > MOST_TEXT:
        raise ValueError(f"{characters} bytes of text are more than is read")
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="uncompressed")
    return buffer.getvalue()


_CHILD = _Child()
atexit.register(_CHILD.close)

if __name__ == "__main__":
    serve(int(sys.argv[1]))
