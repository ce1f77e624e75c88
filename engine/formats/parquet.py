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
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO

import polars as pl

PATIENCE_S = 60.0
"""Seconds after which decoding a file is given up."""
IDLE_S = 10.0
"""Seconds without a file after which the child process is ended."""
_HEAD = 9
"""Bytes of a message's head: its kind, and the length of what follows as 8 bytes, big endian."""


class Damaged(ValueError):
    """Raised for bytes that are no readable Parquet; the message says why in a few words."""


def read(data: bytes, wanted: Callable[[list[str]], bool]) -> pl.DataFrame | None:
    """Decode ``data``. Returns None if ``wanted`` refuses its column names. Raises Damaged."""
    return _CHILD.read(data, wanted)


class _Child:
    """The child process that decodes, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None

    def read(self, data: bytes, wanted: Callable[[list[str]], bool]) -> pl.DataFrame | None:
        """Decode ``data`` (see the function ``read``)."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                if not wanted(self._ask(b"C", data).decode().split("\0")):
                    return None
                return pl.read_ipc(io.BytesIO(self._ask(b"F", b"")))
            except (OSError, EOFError) as error:
                self._end()
                late = isinstance(error, TimeoutError)
                raise Damaged("decoding it takes too long" if late else "it ends the process that decodes it") from None
            finally:
                if self._process is not None:
                    self._timer = threading.Timer(IDLE_S, self.close)
                    self._timer.daemon = True
                    self._timer.start()

    def close(self) -> None:
        """End the process; the next file starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _ask(self, what: bytes, data: bytes) -> bytes:
        """Send a message of kind ``what``. Returns the child's answer. Raises Damaged, OSError, EOFError."""
        if self._process is None:
            self._process = _started()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        os.set_blocking(stdin.fileno(), False)
        until = time.monotonic() + PATIENCE_S
        for part in (what + len(data).to_bytes(8, "big"), data):
            left = memoryview(part)
            while left:
                _wait(stdin, until, writing=True)
                left = left[os.write(stdin.fileno(), left[: 1 << 20]) :]
        head = _taken(stdout, _HEAD, until)
        answer = _taken(stdout, int.from_bytes(head[1:], "big"), until)
        if head[:1] == b"!":
            raise Damaged(answer.decode())
        return answer


def _started() -> subprocess.Popen[bytes]:
    """Start a child process. Raises Damaged if that fails: without it the file cannot be read."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise Damaged(f"no process to decode it in: {error.strerror}") from None


def _wait(pipe: IO[bytes], until: float, *, writing: bool = False) -> None:
    """Wait until ``pipe`` can be written or read. ``until``: monotonic seconds. Raises TimeoutError."""
    pipes = [pipe]
    left = max(until - time.monotonic(), 0.0)
    ready = select.select([], pipes, [], left) if writing else select.select(pipes, [], [], left)
    if not any(ready):
        raise TimeoutError


def _taken(pipe: IO[bytes], length: int, until: float) -> bytes:
    """Read exactly ``length`` bytes. Raises TimeoutError, EOFError."""
    data = bytearray()
    while len(data) < length:
        _wait(pipe, until)
        part = os.read(pipe.fileno(), min(length - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def serve() -> None:
    """Answer messages until standard input ends: the child's main function."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    data = b""
    while len(head := source.read(_HEAD)) == _HEAD:
        sent = source.read(int.from_bytes(head[1:], "big"))
        try:
            if head[:1] == b"C":
                data = sent
                answer = "\0".join(pl.read_parquet_schema(io.BytesIO(data))).encode()
            else:
                buffer = io.BytesIO()
                pl.read_parquet(io.BytesIO(data)).write_ipc(buffer, compression="uncompressed")
                answer = buffer.getvalue()
            mark = b"="
        except (Exception, pl.exceptions.PanicException) as error:
            reason = str(error).strip() or type(error).__name__
            if isinstance(error, pl.exceptions.PanicException):
                reason = f"it breaks its decoder: {reason}"
            mark, answer = b"!", reason.encode(errors="replace")
        target.write(mark + len(answer).to_bytes(8, "big"))
        target.write(answer)
        target.flush()


_CHILD = _Child()
atexit.register(_CHILD.close)
