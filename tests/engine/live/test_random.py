"""Any sequence of changes: after a look the rows are those of a fresh start."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import engine.live.files.scan as scan
import engine.live.ingest.follower as follow
from engine.core.processes import Processes
from engine.core.view import Inputs
from engine.live.pool import guard, tasks
from engine.live.pool.tasks import SMALL
from engine.live.session import Session
from tests.chance import tries
from tests.engine.live import hostile
from tests.engine.live.fake import doc, fresh, line, rows, session, settings
from tests.engine.live.pool.inline import in_a_thread

NAMES = st.sampled_from(["a.log", "b.log", "a.log.1", "x.json", "y.doc", "sub/a.log", "sub/deep/z.json"])
VALUES = st.integers(-5, 5)
PATIENCE_S = 60.0
"""For a busy machine: what another process has not read by the end of a scan comes later, and these tests ask at once."""


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="loadlens-random-"))
        self.root = self.base / "root"
        self.root.mkdir()
        self.count = 0
        self.hints: set[str] = set()
        self.seen: Inputs | None = None
        self.live = self.start()

    def start(self) -> Session:
        return session(self.root, settle_s=0.0, cache=True, cache_dir=str(self.base / "cache"), cache_min_mb=0.0)

    def path(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() and not path.exists():
            path.unlink()  # broken or circular: it cannot be written through
        if not path.is_symlink() and path.is_dir():
            shutil.rmtree(path)
        self.hints.add(str(path))
        return path

    def content(self, name: str, value: int) -> bytes:
        self.count += 1
        if ".log" in name:
            return b"".join(line(f"{self.count}.{i}", value) for i in range(abs(value) + 1))
        return doc(f"d{self.count}", *range(abs(value) + 1))

    @rule(name=NAMES, value=VALUES)
    def write(self, name: str, value: int) -> None:
        self.path(name).write_bytes(self.content(name, value))

    @rule(name=NAMES, value=VALUES)
    def replace(self, name: str, value: int) -> None:
        path = self.path(name)
        beside = path.with_name(path.name + ".tmp")
        beside.write_bytes(self.content(name, value))
        beside.replace(path)

    @rule(name=NAMES, value=VALUES, whole=st.booleans())
    def append(self, name: str, value: int, whole: bool) -> None:
        with self.path(name).open("ab") as file:
            data = self.content(name, value)
            file.write(data if whole else data[:-1])

    @rule(name=NAMES, cut=st.integers(0, 30))
    def truncate(self, name: str, cut: int) -> None:
        path = self.path(name)
        if path.exists():
            os.truncate(path, min(cut, path.stat().st_size))

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        path = self.path(name)
        if path.exists():
            os.utime(path)

    @rule(name=NAMES)
    def rewrite_same_size(self, name: str) -> None:
        path = self.path(name)
        if path.exists():
            path.write_bytes(path.read_bytes().replace(b"1", b"2"))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    @rule(name=NAMES, other=NAMES)
    def rename(self, name: str, other: str) -> None:
        path, target = self.path(name), self.path(other)
        if path.exists():
            path.replace(target)

    @rule(name=NAMES, other=NAMES)
    def link(self, name: str, other: str) -> None:
        path, target = self.path(name), self.path(other)
        if path.exists() and not target.exists():
            os.link(path, target)

    @rule(name=NAMES)
    def pack(self, name: str) -> None:
        path = self.path(name)
        if path.exists():
            self.path(name + ".gz").write_bytes(gzip.compress(path.read_bytes()))

    @rule(name=NAMES)
    def delete_packed(self, name: str) -> None:
        self.path(name + ".gz").unlink(missing_ok=True)

    @rule()
    def remove_folder(self) -> None:
        shutil.rmtree(self.root / "sub", ignore_errors=True)
        self.hints.add(str(self.root / "sub"))

    @precondition(lambda self: self.hints)
    @rule()
    def look(self) -> None:
        """Between changes, sometimes by hints only: several changes may come between two looks."""
        self.live.look(self.hints)
        self.hints = set()

    @rule()
    def scan(self) -> None:
        self.live.scan(patience_s=PATIENCE_S)
        self.hints = set()
        assert rows(self.live, stale=False) == fresh(self.root, settle_s=0.0)

    @rule(after=st.integers(0, 6))
    def scan_that_gives_way(self, after: int) -> None:
        """A look at everything that ends early: what it found is true, what it did not see is found by the next one."""
        answers = iter([False] * after)
        step, scan._STEP = scan._STEP, 1
        try:
            self.live.look(None, interrupted=lambda: next(answers, True))
        finally:
            scan._STEP = step

    @rule()
    def restart(self) -> None:
        """A new process, which may take from the cache what the old one left there."""
        self.live.close()
        self.live, self.seen = self.start(), None
        self.hints = set()
        self.live.scan(patience_s=PATIENCE_S)
        assert rows(self.live, stale=False) == fresh(self.root, settle_s=0.0)

    @rule(name=NAMES, other=NAMES)
    def symlink(self, name: str, other: str) -> None:
        path, target = self.path(name), self.path(other)
        if path != target and path.exists() and not target.exists() and not target.is_symlink():
            target.symlink_to(path)

    @invariant()
    def consistent(self) -> None:
        """Every table can be put together, and what is summed up file by file is what all files together give."""
        rows(self.live)
        taken = [file for file in self.live._catalogue.files.values() if file.readers and not file.is_copy]
        stats = [file.stat for file in taken if file.stat is not None]
        status, inputs = self.live.status, self.live.inputs("fake")
        assert status.ignored_count == len(self.live._catalogue.files) - len(taken) + len(self.live._scanner.skipped)
        assert status.bytes == sum(stat[0] for stat in stats)
        assert status.newest_ms == max((stat[1] // 1_000_000 for stat in stats), default=None)
        assert status.recognised["fake"] == len(inputs.files)
        assert inputs.newest_ms == max((info.mtime_ms for info in inputs.files.values()), default=None)
        if self.seen is not None:
            before, after = dict(self.seen.files), dict(inputs.files)
            assert inputs.touched(self.seen.version, before) >= {
                i for i in before | after if before.get(i) != after.get(i)
            }
        self.seen = inputs

    def teardown(self) -> None:
        self.live.scan(patience_s=PATIENCE_S)
        got = rows(self.live, stale=False)
        wanted = fresh(self.root, settle_s=0.0)
        self.live.close()
        shutil.rmtree(self.base)
        assert got == wanted


class Trusting(Changes):
    """The same where files are cached at once; the clock of this file system must be fine enough for that."""

    def start(self) -> Session:
        follow.RACY_S = 0.0
        return super().start()

    def teardown(self) -> None:
        follow.RACY_S = 2.0
        super().teardown()


class Elsewhere(Changes):
    """The same where what is more than a few bytes is read by another process, here by a thread, meanwhile."""

    def start(self) -> Session:
        gc.freeze()  # a worker collects garbage after each file: here also that of all tests before, which takes 0.4 s
        tasks.SMALL, guard.Processes = 30, in_a_thread  # type: ignore[assignment, misc]
        changed = settings(settle_s=0.0, cache=True, cache_dir=str(self.base / "cache"), cache_min_mb=0.0)
        return Session([self.root], [hostile.VIEW], settings=changed)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            tasks.SMALL, guard.Processes = SMALL, Processes  # type: ignore[misc]


Changes.TestCase.settings = Trusting.TestCase.settings = Elsewhere.TestCase.settings = tries(
    20, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestChanges = Changes.TestCase
TestTrusting = Trusting.TestCase
TestElsewhere = Elsewhere.TestCase
