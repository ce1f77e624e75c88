"""Try many inputs: each kind in a process of its own with bounded time and memory; a killed process is a failure, too."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.views import VIEWS
from tests.fuzz.attempt import Attempts, Failure, make, stretched
from tests.fuzz.records import damaged
from tests.fuzz.samples import Sample, gather

CPU_S = 10.0
"""Seconds of processor time for one input (256 KB at most) before its process is ended."""
MEMORY = 1 << 30
"""Bytes that a process may take beyond what it has loaded."""
EVERY_GROWN, EVERY_RECORD, EVERY_SPLIT = 500, 50, 5
"""Of how many inputs one also grows, has one record damaged, or (a log) is read in parts: 5 to 200 times the cost."""


@dataclass
class Tried:
    """The outcome of the inputs of one kind."""

    view: str
    kind: str
    inputs: int = 0
    bytes: int = 0
    cpu_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def work(view: str, kind_id: str, samples: Sequence[Sample], seed: str, indexes: range, at: Any, out: Any) -> None:
    """Try inputs, in a process of its own. ``at``: the index under way; ``out``: takes failures and figures."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics of Polars
    kind = next(kind for entry in VIEWS if entry.name == view for kind in entry.load().kinds if kind.id == kind_id)
    with Path("/proc/self/status").open() as status:
        held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + MEMORY, resource.RLIM_INFINITY))
    attempts = Attempts(kind, samples, seed)
    for index in indexes:
        at.value = index
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        extra = None
        if _is_one_in(EVERY_GROWN, index):
            extra = functools.partial(stretched, kind, samples)
        elif _is_one_in(EVERY_RECORD, index):
            extra = functools.partial(damaged, kind, samples)
        attempts.run(index, extra=extra, split=_is_one_in(EVERY_SPLIT, index))
        if attempts.failures:
            out.send(attempts.failures)
            attempts.failures = []
    attempts.flush()
    signal.setitimer(signal.ITIMER_PROF, 0)
    out.send(attempts.failures)
    out.send((attempts.bytes, attempts.cpu_s))
    out.close()


def _is_one_in(many: int, index: int) -> bool:
    return index % many == many - 1


def tried(view: str, kind: str, samples: Sequence[Sample], seed: str, indexes: range) -> Tried:
    """Try all inputs of one kind; start another process whenever one is killed."""
    found = Tried(view, kind, len(indexes))
    spawn = multiprocessing.get_context("spawn")
    begin = indexes.start
    while begin < indexes.stop:
        at, (mine, theirs) = spawn.Value("q", begin), spawn.Pipe(duplex=False)
        arguments = (view, kind, samples, seed, range(begin, indexes.stop, indexes.step), at, theirs)
        process = spawn.Process(target=work, args=arguments)
        process.start()
        theirs.close()
        for message in _messages(mine):
            if isinstance(message, tuple):
                found.bytes += message[0]
                found.cpu_s += message[1]
            else:
                found.failures += message
        process.join()
        if process.exitcode == 0:
            break
        found.failures.append(_ended(process.exitcode, at.value, samples, seed))
        begin = at.value + indexes.step
    return found


def _messages(pipe: Any) -> Iterator[Any]:
    while True:
        try:
            yield pipe.recv()
        except (EOFError, OSError):
            return


def _ended(status: int | None, index: int, samples: Sequence[Sample], seed: str) -> Failure:
    """Return the failure of an input that has ended its process."""
    special = _is_one_in(EVERY_GROWN, index) or _is_one_in(EVERY_RECORD, index)
    given = None if special else make(random.Random(f"{seed} {index}"), samples)
    name, data = (given.name, given.data) if given is not None else ("", b"")
    if status == -signal.SIGPROF:
        return Failure(
            "time-out", f"more than {CPU_S:g} s" + (" (grown or by record)" if special else ""), index, name, data
        )
    return Failure("crash", f"exit status {status}", index, name, data)


def run(wanted: Sequence[str], inputs: int, seed: int, jobs: int, only: int | None = None) -> list[Tried]:
    """Try ``inputs`` inputs for each of the ``wanted`` kinds (empty: all)."""
    views = [entry.load() for entry in VIEWS]
    samples = gather(views, wanted)
    missing = [kind for (_, kind), found in samples.items() if not found]
    assert not missing, f"no samples of {missing}"
    indexes = range(inputs) if only is None else range(only, only + 1)

    def one(key: tuple[str, str]) -> Tried:
        begin = time.monotonic()
        found = tried(*key, samples[key], f"{seed} {key[0]} {key[1]}", indexes)
        took = time.monotonic() - begin
        print(f"{key[0]} {key[1]}: {len(found.failures)} failures in {took:.0f} s", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(one, samples))
