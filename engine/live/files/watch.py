"""Decide when to look: file events as hints, a timer because events get lost, polling where there are none.

inotify drops events when its queue overflows, sees nothing behind links, in directories that appear at once, or after
a root was deleted, and watchfiles stops at a name that is not UTF-8. So every hint is only an invitation to compare
with the disk, a full scan follows every few seconds anyway, and a watch that died is started again.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from engine.core.reading import Problem
from engine.live.files.opening import inside
from engine.live.options import LiveSettings
from engine.live.status import Mode, RootStatus

log = logging.getLogger(__name__)

LONGEST_S = 4.0  # seconds between two full scans at most, so that everything converges within 5 s
_QUICK_FAILURES = 3  # failures in a row after which events rest for ``_REST_S``
_REST_S = 30.0  # seconds without events after repeated failures; a watch that lived longer counts as having worked
BUSY_S = 2.0  # seconds after a change during which the next one is expected, and looked for at every step
IDLE_S = 0.03  # seconds between two looks into the queue of events while nothing changes: each costs a wake-up
REST_S = 0.03
"""Seconds after handing over events without a look into the queue: a computation on them would have to stop each time
and wait until the looking thread has had its turn, on a busy machine for milliseconds."""
GIVES_WAY_S = 0.5
"""Seconds for which pending changes take priority over a full scan or a file that is due, and their results over a scan."""
IDLE_AFTER_S = 0.1  # seconds without changes after which a full scan is done (see above)


class Looker(Protocol):
    """The session, as far as the watcher uses it."""

    def look(self, hints: set[str] | None, *, interrupted: Callable[[], bool] | None = None) -> frozenset[str]:
        """Look at the hinted paths (None: at everything, until interrupted). Returns the views whose inputs changed."""

    @property
    def complete(self) -> bool:
        """Whether the last look at everything was not interrupted."""

    def due(self) -> float | None:
        """Return the monotonic time at which some file must be looked at again, None if none waits."""

    def cost_s(self) -> float:
        """Return the seconds that the last full comparison with the disk took, reading aside."""

    def identities(self) -> dict[str, tuple[int, int] | None]:
        """Return device and inode of each root at the last full scan, None for a missing one."""


class Pace:
    """Stop event of watchfiles, asked at every step: the place to slow it down while nothing changes.

    A batch is handed over when two steps have found as many events; so only every other question is answered late.
    """

    def __init__(self) -> None:
        self.halt = threading.Event()
        self._busy_until = 0.0
        self._late = False
        self._handed_over = False

    def hurry(self) -> None:
        """Look at every step for a while: something has changed, more is expected soon."""
        self._busy_until = time.monotonic() + BUSY_S
        self._handed_over = True

    def is_set(self) -> bool:
        """Whether to stop."""
        self._late = not self._late
        if self.halt.is_set():
            return True
        if self._handed_over:
            self._handed_over = False
            time.sleep(REST_S)
        elif self._late and time.monotonic() > self._busy_until:
            time.sleep(IDLE_S)
        return self.halt.is_set()


class Hints(threading.Thread):
    """A watchfiles loop that gathers paths until it is stopped or dies.

    ``error`` says why it died; ``denied``: because a folder cannot be read.

    ``closed_folders``: go on without the folders that cannot be read; watchfiles then also goes on, without a word, when the
    kernel allows no more watches.
    """

    def __init__(
        self,
        paths: Sequence[str],
        settings: LiveSettings,
        wake: threading.Condition,
        *,
        recursive: bool,
        closed_folders: bool = False,
    ):
        super().__init__(name="loadlens-events", daemon=True)
        self.paths = tuple(paths)
        self.error: str = ""
        self.denied = False
        self._closed_folders = closed_folders
        self.ready = False
        self.started_at = time.monotonic()
        self._recursive = recursive
        self._settings = settings
        self._wake = wake
        self._pace = Pace()
        self.gathered: set[str] = set()  # the paths since the watcher took them last (hold the condition)

    def run(self) -> None:
        """Gather until stopped."""
        try:
            import watchfiles  # here: a report watches nothing

            for batch in watchfiles.watch(
                *self.paths,
                watch_filter=None,
                debounce=self._settings.debounce_ms,
                step=self._settings.step_ms,
                stop_event=self._pace,
                rust_timeout=5000,
                yield_on_timeout=False,
                raise_interrupt=False,
                force_polling=False,
                recursive=self._recursive,
                ignore_permission_denied=self._closed_folders,
            ):
                self._pace.hurry()
                with self._wake:
                    self.gathered.update(path for _, path in batch)
                    self._wake.notify_all()
        except BaseException as error:
            self.denied = isinstance(error, PermissionError)
            self.error = _in_words(error)
        else:
            if not self._pace.halt.is_set():
                self.error = "the watch ended"
        with self._wake:
            self._wake.notify_all()

    def halt(self) -> None:
        """Ask the loop to end; it does within two steps."""
        self._pace.halt.set()


def _in_words(error: BaseException) -> str:
    if isinstance(error, OSError) and "limit" in str(error):  # of watches, or of inotify instances
        return "the kernel allows no more (sysctl fs.inotify.max_user_watches, max_user_instances)"
    return f"{type(error).__name__}: {error}"


class Watcher:
    """Waits for hints or the clock, looks, and reports which views changed, until stopped."""

    def __init__(self, roots: Sequence[str], settings: LiveSettings, looker: Looker) -> None:
        self.problem: Problem | None = None
        self._roots = tuple(roots)
        self._settings = settings
        self._looker = looker
        self._wake = threading.Condition()
        self._threads: list[Hints] = []
        self._watched: dict[str, tuple[int, int] | None] = {}
        self._closed_folders = False
        self._failures = 0
        self._again_at = 0.0
        self._modes: dict[str, RootStatus] = {}

    def modes(self) -> tuple[RootStatus, ...]:
        """Return how each root is watched now."""
        return tuple(self._modes.get(root, RootStatus(root, "idle")) for root in self._roots)

    def run(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        """Block until ``stop``. Errors are logged and survived."""
        threading.Thread(target=self._wake_on, args=(stop,), name="loadlens-stop", daemon=True).start()
        took = full_at = calm_at = 0.0
        errors = 0
        try:
            while not stop.is_set():
                try:
                    self._arrange()
                    now = time.monotonic()
                    scan_at = min(max(full_at, calm_at), full_at + GIVES_WAY_S)
                    hints = self._wait(scan_at, stop)
                    if stop.is_set():
                        return
                    begin = time.monotonic()
                    late = begin >= full_at + GIVES_WAY_S
                    full = hints is None or (begin >= scan_at and (late or not hints))
                    names = self._looker.look(None if full else hints, interrupted=None if late else self._hinted)
                    took = time.monotonic() - begin
                    if not self._looker.complete:
                        full_at = min(full_at, begin)
                    elif full:
                        interval = self._settings.scan_interval_s
                        longest = max(interval, LONGEST_S)
                        full_at = begin + took + min(max(interval, 100 * self._looker.cost_s()), longest)
                    if names:
                        changed(names)
                        calm_at = 0.0 if full else time.monotonic() + IDLE_AFTER_S
                    errors = 0
                    # A file that is rewritten all the time must not keep a whole core busy.
                    if hints and time.monotonic() - now < took:
                        stop.wait(min(took, 0.25))
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a panic of Polars is no Exception
                    errors += 1
                    log.error("looking for changes failed", exc_info=error)
                    self.problem = Problem.at("", "watch-failure", f"{type(error).__name__}: {error}")
                    full_at = 0.0
                    stop.wait(min(5.0, 0.1 * 2**errors))
        finally:
            self._halt()
            self._modes = {}

    def _wake_on(self, stop: threading.Event) -> None:
        stop.wait()
        self.wake()

    def wake(self) -> None:
        """Look whether a file is due now."""
        with self._wake:
            self._wake.notify_all()

    def _hinted(self) -> bool:
        """Whether a change is known that was not looked at."""
        return any(thread.gathered for thread in self._threads)

    def _wait(self, clock: float, stop: threading.Event) -> set[str] | None:
        """Wait for hints and return them; an empty set at ``clock``, None when a watch died: look at everything."""
        with self._wake:
            while not stop.is_set():
                if any(thread.error for thread in self._threads):
                    return None
                hints: set[str] = set()
                for thread in self._threads:
                    hints |= thread.gathered
                    thread.gathered = set()
                now, due = time.monotonic(), self._looker.due()
                until = clock if due is None else min(clock, due)
                if hints or now >= until:
                    return hints
                self._wake.wait(until - now)
        return set()

    def _arrange(self) -> None:
        """Start, restart or end event threads so that they fit the roots as they are now."""
        now = time.monotonic()
        dead = [thread for thread in self._threads if thread.error]
        if any(thread.denied for thread in dead) and not self._closed_folders:
            self._closed_folders = True
            self._halt()
        elif dead:
            self._failures = self._failures + 1 if now - dead[0].started_at < _REST_S else 1
            reason = dead[0].error
            log.warning("file events ended (%s)", reason)
            rest = _REST_S if self._failures >= _QUICK_FAILURES else 0.1 * 2**self._failures
            self._again_at = now + rest
            self.problem = Problem.at("", "watch-failure", f"no file events, folders are polled: {reason}")
            self._halt()
        identities = self._looker.identities()
        wanted = {root: identities.get(root) for root in self._roots}
        if self._again_at > now:
            self._modes = {root: self._mode(root, wanted[root], "events are resting") for root in self._roots}
            return
        if wanted == self._watched:
            if self.problem is not None and self._threads and now - self._threads[0].started_at > _REST_S:
                self.problem = None
            return
        self._halt()
        self._watched = wanted
        poll = self._settings.poll
        for root, identity in wanted.items():
            reason = "" if poll is False or identity is None else "as set" if poll else silent(root)
            self._modes[root] = self._mode(root, identity, reason)
        heard = [root for root in wanted if self._modes[root].mode == "events"]
        folders = [root for root in heard if os.path.isdir(root)]
        parents = sorted({os.path.dirname(root) for root in heard if root not in folders})
        for paths, recursive in ((folders, True), (parents, False)):
            if paths:
                thread = Hints(
                    paths, self._settings, self._wake, recursive=recursive, closed_folders=self._closed_folders
                )
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _mode(root: str, identity: tuple[int, int] | None, reason: str) -> RootStatus:
        mode: Mode = "missing" if identity is None else ("polling" if reason else "events")
        return RootStatus(root, mode, reason)

    def _halt(self) -> None:
        for thread in self._threads:
            thread.halt()
        self._threads, self._watched = [], {}


_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
_CLUSTER = {"orangefs", "pvfs2", "ocfs2", "gfs2", "9p", "virtiofs", "davfs", "coda"}
_LAYERED = {"prl_fs", "vboxsf", "vmhgfs", "overlay", "overlayfs", "aufs", "drvfs", "proc", "sysfs"}
_NO_EVENTS = frozenset(_NETWORK | _CLUSTER | _LAYERED)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def parse(mountinfo: str) -> list[tuple[str, str]]:
    """Return mount points and their file system types, in the order of ``/proc/self/mountinfo`` (later ones lie on top)."""
    points = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if dash and len(fields) >= 5:
            points.append((_ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4]), right.split(" ")[0]))
    return points


def type_of(path: str, mounts: list[tuple[str, str]]) -> str:
    """Return the file system type of the mount that holds ``path`` (absolute, resolved); empty if none does."""
    above = [(len(point), at, kind) for at, (point, kind) in enumerate(mounts) if inside(path, (point,))]
    return max(above, default=(0, 0, ""))[2]


@lru_cache(maxsize=1)
def _mounts(stamp: int) -> list[tuple[str, str]]:
    try:
        return parse(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return []


def silent(path: str) -> str:
    """Return the type of the file system that holds ``path`` if it gives no events for changes made elsewhere, else empty.

    Network and layered file systems do not; neither does FUSE in general (sshfs, s3fs).
    """
    kind = type_of(os.path.realpath(path), _mounts(int(time.monotonic() // 5)))
    return kind if kind in _NO_EVENTS or kind.startswith("fuse.") or kind == "fuse" else ""
