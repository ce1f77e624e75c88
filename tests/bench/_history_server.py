"""Spark's own history server, from the jars of PySpark, as a peer: the processor time in which it replays event logs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
           "java.util.concurrent", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")  # fmt: skip
PATIENCE_S = 300


def missing() -> str:
    """Return what it lacks on this machine; empty if it can run."""
    lacking = [name for name, there in (("Java", shutil.which("java")), ("PySpark", _jars())) if not there]
    return " and ".join(lacking)


def _jars() -> Path | None:
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent / "jars" if found and found.origin else None


def replayed(folder: Path) -> list[float]:
    """Start a server on the event logs of ``folder`` and ask for the stages of each application, one after the other.

    Returns the processor seconds of each replay: the first one warms the virtual machine. Raises TimeoutError.
    """
    with _server(folder) as (process, address):
        names = _ask(process, f"{address}/applications")
        took = []
        for name in sorted(app["id"] for app in names):
            begin = _processor_s(process)
            stages = _ask(process, f"{address}/applications/{name}/stages")
            assert sum(stage["numCompleteTasks"] for stage in stages), "it read no task"
            took.append(_processor_s(process) - begin)
        return took


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["java", "-Xmx4g", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
             f"-Dspark.history.fs.logDirectory=file:{folder}", f"-Dspark.history.ui.port={port}",
             "-cp", f"{_jars()}/*", "org.apache.spark.deploy.history.HistoryServer"]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process, f"http://127.0.0.1:{port}/api/v1"
        finally:
            process.kill()


def _ask(process: subprocess.Popen[bytes], address: str) -> list[dict[str, Any]]:
    """Return the first answer with something in it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            if found:
                return found
        time.sleep(0.2)
    raise TimeoutError(f"no answer from {address}")


def _processor_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
