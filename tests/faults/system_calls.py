"""What the kernel sees of a program: sockets, programs started, and every path that it changes (strace)."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TRACED = (
    "socket,socketpair,connect,bind,listen,accept,accept4,execve,execveat,open,openat,openat2,creat,mkdir,mkdirat,rmdir,rename,renameat,renameat2,unlink,unlinkat,link,"
    "linkat,symlink,symlinkat,mknod,mknodat,truncate,chmod,fchmodat,chown,lchown,fchownat,mount,ptrace,io_uring_setup"
)
_CALL = re.compile(r"^(?P<process>\d+) +(?P<name>\w+)\((?P<arguments>.*)$")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)(?:<(?P<folder>[^>]*)>)?, )?"(?P<path>(?:[^"\\]|\\.)*)"')
_WRITES = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)\b")
_OPENING = {"open", "openat", "openat2"}
_NETWORK = {"socket", "connect", "bind", "listen", "accept", "accept4"}


@functools.cache
def unavailable() -> str:
    """Return why no program can be traced here; else an empty text."""
    if shutil.which("strace") is None:
        return "needs strace"
    done = subprocess.run(["strace", "-f", "-e", "trace=execve", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "tracing is not permitted here"


@dataclass
class Seen:
    """Calls of a program and all its processes. ``sockets``: calls that have to do with the network; ``programs``: those
    executed, with their words; ``changed``: paths that were created, opened for writing, renamed or removed; ``other``:
    anything else that is forbidden."""

    sockets: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    other: list[str] = field(default_factory=list)

    def outside(self, *allowed: Path | str) -> set[str]:
        """Return what was changed below none of ``allowed``."""
        places = [os.path.realpath(place) for place in allowed]
        return {path for path in self.changed if not any(path == p or path.startswith(p + "/") for p in places)}


def traced(words: Sequence[str], trace: Path) -> list[str]:
    """Return ``words`` as a command that writes its calls to ``trace``."""
    return [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-y",
        "-s",
        "4096",
        "-e",
        f"trace={_TRACED}",
        "-o",
        str(trace),
        *words,
    ]


def read(trace: Path, cwd: Path) -> Seen:
    """Read what ``traced`` has written of a program started in ``cwd``. Calls that failed count as well: they were tried."""
    seen = Seen()
    for line in trace.read_text(errors="replace").splitlines():
        call = _CALL.match(line)
        if call is None:
            continue
        name, arguments = call["name"], call["arguments"]
        if name in ("execve", "execveat"):
            seen.programs.append(arguments)
        elif name in _NETWORK or (name == "socketpair" and not arguments.startswith("AF_UNIX")):
            seen.sockets.append(line)
        elif name == "socketpair":
            pass  # its ends are the program's own
        elif name in ("ptrace", "mount", "io_uring_setup"):
            seen.other.append(line)
        elif name not in _OPENING or _WRITES.search(arguments):
            for found in _PATH.finditer(arguments):
                seen.changed.add(os.path.normpath(cwd / (found["folder"] or "") / found["path"]))
    return seen


def run(words: Sequence[str], env: dict[str, str], cwd: Path) -> tuple[subprocess.CompletedProcess[str], Seen]:
    """Run a program to its end; return its outcome and its calls."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        done = subprocess.run(
            traced(words, trace), env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
        )
        return done, read(trace, cwd)
